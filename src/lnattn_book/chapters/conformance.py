"""The page of the conformance suite: cases by libraries, and what explains a wrong one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from lnattn.storage import read_json
from lnattn_book.page import Check, says
from lnattn_book.page.places import repository

#: What a library said of each case: the verdict, the largest difference, and a reason.
Verdicts = Mapping[str, list[Any]]
#: Columns of the table: how a library is called on the page, and in the frozen record.
COLUMNS = {
    "eager": "transformers-eager",
    "SDPA": "transformers-sdpa",
    "SDPA, asked": "transformers-sdpa-asked",
    "TransformerLens": "transformer-lens",
    "lnattn": "lnattn",
}
#: Those of them that were also asked of the oldest transformers that the package takes.
OLDEST = {key: f"{key}-oldest" for key in COLUMNS.values() if key.startswith("transformers-")}
GPTJ = {"gptj", "gptj-whole"}
_SHOWN = {"right": "✓", "wrong": "✗", "error": "stops", "not read": "–"}


def frozen() -> dict[str, Any]:
    """The record of what libraries said: `columns` by name, and `exact`."""
    record = read_json(repository() / "conformance" / "verdicts.json")
    return {"columns": record["columns"], "exact": record["exact"]}


def table(columns: Mapping[str, Verdicts], named: Mapping[str, str]) -> Styler:
    """A row a case: by library ✓ right, ✗ wrong, 'stops' with an error, – not read, nothing where
    it was not asked; and what in the case changes a score.

    named: the `names` that stand in the heads.
    """
    signs = {
        named[name]: {case: _SHOWN[row[0]] for case, row in verdicts.items()}
        for name, verdicts in columns.items()
    }
    says_of = {case: what_it_says(case) for case in columns["lnattn"]}
    rows = pd.DataFrame({**signs, "what changes a score": says_of}).fillna("").rename_axis("case")
    # Columns of signs are as narrow as their heads allow, and what is said has a few words a line.
    narrow = rows.style.set_properties(
        subset=list(signs), **{"width": "1px", "text-align": "center"}
    )
    return narrow.set_properties(subset=["what changes a score"], **{"min-width": "14rem"})


def what_it_says(case: str) -> str:
    """What in a case changes a score, as its own file has it."""
    return str(read_json(repository() / "conformance" / "cases" / case / "case.json")["says"])


def counts(columns: Mapping[str, Verdicts]) -> pd.DataFrame:
    """How many cases each library computes right, wrong, stops at or does not read."""
    rows = {
        name: Counter(row[0] for row in verdicts.values()) for name, verdicts in columns.items()
    }
    return pd.DataFrame(rows).T.reindex(columns=list(_SHOWN)).fillna(0).astype(int)


def names(record: Mapping[str, Any]) -> dict[str, str]:
    """Each library with its version; those of the frozen columns are the recorded ones."""
    versions = {name: record["columns"][key]["version"] for name, key in COLUMNS.items()}
    for name, package in (("eager", "transformers"), ("lnattn", "lnattn")):
        versions[name] = version(package)
    return {name: f"{name} {of}" for name, of in versions.items()}


def changed_since_oldest(record: Mapping[str, Any]) -> pd.DataFrame:
    """A row for every case of which transformers says something else at its oldest version."""
    rows = []
    for key, oldest in OLDEST.items():
        newer = record["columns"][key]
        older = record["columns"][oldest]
        rows += [
            {"column": key, "case": case, older["version"]: before[0], newer["version"]: row[0]}
            for case, before in older["verdicts"].items()
            if (row := newer["verdicts"][case])[0] != before[0]
        ]
    return pd.DataFrame(rows)


def findings(columns: Mapping[str, Verdicts]) -> pd.DataFrame:
    """A row for every case that a library computes wrong or stops at, with what explains it."""
    rows = [
        {"library": name, "case": case, "verdict": row[0], "difference": row[1], "because": row[2]}
        for name, verdicts in columns.items()
        for case, row in verdicts.items()
        if row[0] in ("wrong", "error")
    ]
    return pd.DataFrame(rows, columns=["library", "case", "verdict", "difference", "because"])


def told(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Of `findings` a row for each reason, with its cases and the largest difference."""
    by_reason = verdicts.groupby(["library", "because"], sort=False)
    rows = by_reason.agg(cases=("case", ", ".join), difference=("difference", "max")).reset_index()
    return rows[["library", "cases", "difference", "because"]]


def checks(
    columns: Mapping[str, Verdicts], record: Mapping[str, Any], falcon: Mapping[str, float]
) -> Iterator[Check]:
    """What the page says of the verdicts.

    record: what is `frozen`. falcon: how far the first logits move with the last token, by how the
    model is asked.
    """
    counted = counts(columns)
    wrong = findings(columns)
    exact = record["exact"]
    cases = len(columns["lnattn"])

    def because(library: str, case: str) -> bool | str:
        rows = wrong[(wrong.library == library) & (wrong.case == case)]
        return rows.because.item() if len(rows) == 1 else False

    yield says(
        "Two of the five columns are right in every case",
        counted.loc[["eager", "lnattn"], "right"] == cases,
    )
    yield says(
        "agrees in all of them to the last digits",
        exact["largest"] <= 1e-15,
        exact["cases"] == cases,
        found=exact["largest"],
    )
    right = [
        row[1] for verdicts in columns.values() for row in verdicts.values() if row[0] == "right"
    ]
    yield says("differs by less than 1e-6", max(right))
    changed = changed_since_oldest(record)
    yield says("says the same of every case but those of GPT-J", set(changed.case) == GPTJ)
    asked = "SDPA, asked"
    yield says(
        "Falcon looks ahead",
        counted.loc[asked, "wrong"] == 3,
        because(asked, "falcon") == "mask: added to the scores as 0 and 1",
    )
    yield says("the first logits move with the last token", falcon["sdpa, asked"] > 0.1)
    yield says("under eager they stay", falcon["eager, asked"] == 0, falcon["sdpa"] == 0)
    lens = "TransformerLens"
    yield says(
        "divides by √d′ where a setting says not to",
        because(lens, "gpt2-unscaled") == "scale: √d_head",
    )
    yield says(
        "takes an ε of 1e-5 where a StarCoder2 asks for another",
        1e-5,
        because(lens, "starcoder2") == "norm: ε of 1e-5",
    )
