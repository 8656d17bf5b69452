"""Claims: their list, rules in general, records, and frozen values."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
import yaml

import lnattn_book.claims
from booksite.executed import registered
from lnattn import paths
from lnattn.errors import ResultError
from lnattn.storage import write_json
from lnattn_book.claims import __main__ as command
from lnattn_book.claims import frozen, kamoda, ledger, rules
from lnattn_book.claims.listed import KINDS, SOURCES, Claim, claim, claims
from lnattn_book.claims.rules import RULES, truth
from lnattn_book.claims.tally import sentence, tally
from lnattn_book.claims.verdicts import ABSENT, DERIVED, NOT_ASKED, VERDICTS, Between, Leaf, Record

ROOT = paths.repository()
HOLDS, HOLDS_IN_PART, FAILS, NOT_SEEN, UNDECIDED, NOT_COMPUTABLE = VERDICTS
#: Importing them enters their rules.
MODULES = [
    importlib.import_module(f"lnattn_book.claims.{one.name}")
    for one in pkgutil.iter_modules(lnattn_book.claims.__path__)
    if one.name != "__main__"
]


def with_parts(monkeypatch, claim_id: str, **parts) -> None:
    known = dict(claims())
    known[claim_id] = replace(known[claim_id], **parts)
    monkeypatch.setattr(rules, "claim", known.__getitem__)


# --- the list -----------------------------------------------------------------------------------


def function_exists(test: str) -> bool:
    file, _, function = test.partition("::")
    return (ROOT / file).read_text(encoding="utf-8").count(f"def {function}(") == 1


@pytest.mark.parametrize("one", claims().values(), ids=claims())
def test_what_a_claim_names_exists_and_its_numbers_are_stated(one: Claim):
    """A parameter that no reader sees would be a hidden threshold."""
    assert function_exists(one.test)
    assert not one.second or function_exists(one.second["test"])
    pkgutil.resolve_name(one.function)
    assert f"{{{one.paper}," in (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    assert one.id[0] in SOURCES
    assert one.kind in KINDS
    assert len(one.line.split()) <= 12
    said = set(re.findall(r"{(\w+)", one.words))
    used = set(re.findall(r"case\.(\w+)", "".join(map(inspect.getsource, MODULES))))
    judged = set(re.findall(r"{(\w+)}", str(one.judged.get("leaves", one.judged.get("holds")))))
    assert said | judged <= set(one.rule) <= used | said | judged
    assert ("holds" in one.judged) != ("leaves" in one.judged)
    for name, values in one.grid.items():
        assert one.rule[name] in values
        assert min(values) < max(values)
    assert "{" not in RULES[one.id].in_words().replace("{QK}", "")


TWICE = yaml.safe_dump([asdict(claim("K1"))] * 2)


@pytest.mark.parametrize("text", ["- {id: K1}", "{", TWICE])
def test_a_malformed_list_of_claims_is_one_sentence(tmp_path, text):
    path = tmp_path / "claims.yml"
    path.write_text(text)
    with pytest.raises(ResultError, match="lists a claim twice" if text is TWICE else "no list"):
        claims(path)


# --- rules --------------------------------------------------------------------------------------


def test_words_and_verdicts_follow_the_thresholds_and_say_how_many_give_the_same(monkeypatch):
    grid = {"spearman": [0.7, 0.75, 0.9, 0.95]}
    with_parts(monkeypatch, "K6", rule={"spearman": 0.75, "named": [1, 7]}, grid=grid)
    for value, verdict, stands in ((0.99, HOLDS, 4), (0.8, HOLDS, 2), (0.72, NOT_SEEN, 3)):
        found = kamoda.k6(np.array([value] * 2), model="tiny")
        assert "exceeds 0.75 (1) in the heads" in found.rule
        assert (found.verdict, found.stands) == (verdict, (stands, 4))


HEADS = {"z": np.array([3.0, np.nan, 1.0]), "open": Between([3, 1], [1, -1], [5, 3.0]), "n": 4}


@pytest.mark.parametrize(
    ("condition", "known"),
    [
        ("z > 2", 0), ("any z > 2", 1), ("at [0] z > 2 and n == 4", 1), ("at [0, 2] z > 2", 0),
        ("at [1] z > 2", np.nan), ("most z > 2", 0), ("1 of z > 2", 1), ("3 of z > 0", 0),
        # An interval that holds the limit leaves it open, where that decides.
        ("any z > n", 0), ("any open > 0", 1), ("all open > 0", 0.5), ("any open > 4", 0.5),
        ("all open > 0 and n < 3", 0), ("2 of open > -2", 1),
    ],
)  # fmt: skip
def test_conditions(condition, known):
    np.testing.assert_equal(truth(condition, HEADS), known)
    with pytest.raises(ResultError, match="asks for y, which is not measured"):
        truth("y > 2", HEADS)


def test_intervals_of_a_family_are_wider_and_of_one_are_its_own():
    one, four = (Between.rows([[1.0, 0.0, 2.0]] * n).family() for n in (1, 4))
    assert (one.low, one.high) == (pytest.approx([0]), pytest.approx([2]))
    assert four.low == pytest.approx([1 - 2.4977 / 1.96] * 4, abs=1e-3)


def test_absence_is_evidence_on_the_claims_own_model_only():
    flat = np.zeros(8)
    for own, other in (("gpt2", "gpt2-medium"), ("openai-community/gpt2 (frozen)", "book-gpt2")):
        assert kamoda.k6(flat, model=own).verdict == FAILS
        assert kamoda.k6(flat, model=other).verdict == NOT_SEEN


def test_what_is_undecided_says_what_would_decide(monkeypatch):
    open_, judged = np.array([[0.95, 0.95], [0.95, 0.5]]), claim("K6").judged
    assert "the token embeddings" in kamoda.k6(open_, model="tiny").note
    with_parts(monkeypatch, "K6", judged={**judged, "unsure": ""})
    with pytest.raises(ResultError, match="must say what would decide"):
        kamoda.k6(open_, model="tiny")


def test_a_compound_claim_has_the_sum_of_its_leaves():
    for *leaves, verdict in (
        (HOLDS, HOLDS, NOT_COMPUTABLE, HOLDS),
        (HOLDS, NOT_SEEN, UNDECIDED, HOLDS_IN_PART),
        (FAILS, UNDECIDED, UNDECIDED),
        (FAILS, NOT_SEEN, FAILS),
        (NOT_COMPUTABLE, NOT_COMPUTABLE),
    ):
        found = Record.of([Leaf(f"{n}", one, "w") for n, one in enumerate(leaves)])
        assert (found.verdict, found.words[:4]) == (verdict, "0: w")


def test_a_changed_rule_gives_both_verdicts():
    found = kamoda.k6(np.array([0.95, 0.1]), model="book-gpt2")
    assert found.verdict == found.before == HOLDS_IN_PART
    assert "rule changed after the numbers on 24 Nov 2026" in found.note
    assert "by the rule before it: holds in part" in found.note


# --- records ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _empty_ledger(monkeypatch):
    monkeypatch.setattr(ledger, "_registered", {})


def record(claim_id: str = "K1", model: str = "m", verdict: str = HOLDS, **more) -> Record:
    given = {"words": "1", "claim": claim_id, "model": model} | more
    return Record(verdict, **given)


def test_the_last_record_of_a_model_is_in_the_table_as_text():
    for words in ("0.2", "0.25"):
        ledger.register(record(words=words, model="<i> | model"))
    shown = ledger.table(["K1", "K2"]).data
    assert "| &lt;i&gt; \\| model | ✓ holds | 0.25 |" in shown
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert "| not registered |" in rows[-1]


def test_a_record_without_model_or_words_is_refused():
    for given in ({"model": " "}, {"words": ""}):
        with pytest.raises(ResultError, match="needs words and a model"):
            ledger.register(record(**given))


def test_a_record_goes_through_the_output_of_its_cell_to_the_page(tmp_path, monkeypatch):
    """In a notebook, `register` also displays the record under a type that nothing shows."""
    glued = {}

    def display(data, metadata, raw):
        about = metadata["scrapbook"]
        glued[about["name"]] = {"data": {"text/plain": data[about["mime_prefix"] + "text/plain"]}}

    shell = type("Shell", (), {"user_ns": {"In": [""] * 8}})
    monkeypatch.setattr(ledger, "display", display)
    monkeypatch.setattr(ledger, "get_ipython", lambda: shell)
    leaf = Leaf("first", HOLDS, "w")
    ledger.register(record("K2", words="old"))
    given = ledger.register(
        record("K2", words="new", leaves=(leaf,), stands=(3, 4)), function=json.loads
    )
    assert (given.execution, given.function) == (7, "json.loads")
    glued["number"] = {"data": {"text/plain": "'3'"}}
    (tmp_path / "b.glue.json").write_text(json.dumps(glued))
    assert registered(tmp_path, ["b", "silent"]) == [replace(given, chapter="b")]


@pytest.mark.parametrize("output", [{}, {"data": {"text/plain": '{"claim": "K1"}'}}])
def test_a_damaged_record_is_one_sentence(tmp_path, output):
    (tmp_path / "a.glue.json").write_text(json.dumps({"claim:K1:m:1": output}))
    with pytest.raises(ResultError, match="ledger record"):
        registered(tmp_path, ["a"])


# --- counting and freezing ----------------------------------------------------------------------


def test_each_claim_counts_once_and_derivations_apart():
    found = [
        *(record("K14", "tiny", NOT_SEEN), record("K14", "gpt2 (frozen)"), record("B1", "none")),
        record("K10", "gpt2", FAILS, chapter="notebooks/12-other-models"),
        record("K10", "gpt2", HOLDS_IN_PART, chapter=f"notebooks/{claims()['K10'].chapter}"),
        *(record("K15", "tiny", UNDECIDED), record("B2", "none", FAILS)),
        *(record("B4", "b", FAILS, counted=False), record("B4", "a")),
    ]
    asked = [claim(name) for name in ("K10", "K14", "K15", "B1", "B2", "B4", "M3")]
    counts = tally(asked, found, "tiny")
    some = {letter: {what: n for what, n in row.items() if n} for letter, row in counts.items()}
    assert some == {
        **{"K": {HOLDS_IN_PART: 1, HOLDS: 1, ABSENT: 1}, "M": {NOT_ASKED: 1}},
        "B": {HOLDS: 1, FAILS: 1, DERIVED: 1},
    }
    assert sentence(counts).endswith(
        "2 ✓ holds, 1 ◐ holds in part, 1 ✗ fails, 1 ◌ needs its checkpoint."
    )


@pytest.mark.parametrize(
    ("was", "now", "tolerance", "same"),
    [
        (3, 4, None, False), (0.5, 0.5004, None, True), (0.5, 0.501, None, False),
        (0.5, 0.501, 0.01, True), (5e-15, 3e-13, None, True), (5e-15, 6e-13, None, False),
        (0, 1e-9, None, False), ("a", "b", None, False), (True, False, None, False),
        (0.5, None, None, False),
    ],
)  # fmt: skip
def test_what_counts_as_the_same(was, now, tolerance, same):
    assert frozen.alike(was, now, tolerance) is same


def test_differences_are_sentences():
    was = [record("K1", values={"a": 1.0}, chapter="x"), record("K2", chapter="x")]
    assert not list(frozen.differences(was, was, ["x"]))
    found = [record("K1", values={"a": 2.0}, chapter="x"), record("K3", chapter="x")]
    assert list(frozen.differences(was, found, ["x"])) == [
        "K1 on m (x): a was 1.0, now it is 2.0",
        "K2 on m (x) is frozen, but this build did not register it",
    ]
    failed = record("K1", "m", FAILS, chapter="x")
    (said,) = frozen.differences(was[:1], [failed], ["x"])
    assert "verdict was 'holds', now it is 'fails'" in said
    (said,) = frozen.two_verdicts([*was, failed])
    assert said == "claim K1 has two verdicts on m: holds, fails"


def test_a_build_is_frozen_printed_and_read_again(tmp_path, monkeypatch, capsys):
    found = [record("K1", "tiny", words="error 5e-15", values={"error": 5e-15}, chapter="x")]
    html = tmp_path / "_build" / "html"
    data = {"model": "path/tiny", "claims": [{"found": [asdict(one) for one in found]}]}
    write_json(html / "claims.json", data)
    monkeypatch.setattr(command, "repository", lambda: tmp_path)
    assert command.main(["--freeze"]) == 0
    folder = tmp_path / paths.FROZEN_CLAIMS
    assert frozen.frozen_records(folder, "path/tiny") == ("path/tiny", found)
    assert frozen.frozen_records(folder, "another") == ("", [])
    for _ in ("as it was built", "as it was frozen"):
        capsys.readouterr()
        assert command.main(["K1", "K2"]) == 0
        shown = capsys.readouterr().out
        assert "✓ K1 holds (tiny): error 5e-15" in shown
        assert "not computed yet" in shown
        (html / "claims.json").unlink(missing_ok=True)
    assert command.main(["Z9"]) == 1
