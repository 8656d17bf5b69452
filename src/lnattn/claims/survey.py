"""Which claims about first layers hold for which model, and for models that learned nothing.

Each claim is asked by its rule in `lnattn.claims.kamoda`. Beside a model stands its *null*:
the same model with the entries of every tensor dealt out anew. A claim that the null passes too
says nothing about training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lnattn.claims.kamoda import RULES, Subject
from lnattn.errors import ResultError
from lnattn.storage import provenance, read_result, write_result
from lnattn.weights import FirstLayer


@dataclass(frozen=True)
class Finding:
    """One claim for one model.

    value: the measure, NaN where it cannot be computed, and then `holds` is None; note: what else
    there is to say, or why there is no value.
    """

    claim: str
    value: float
    holds: bool | None
    note: str = ""


def survey(
    model: FirstLayer, documents: Sequence[Sequence[int]] = (), *, seed: int = 0
) -> dict[str, Finding]:
    """All of `RULES` for one model.

    documents: token ids of some texts, by the model's own tokenizer, for the claims that need text
    or counts. A partial checkpoint gets the claims about positions only; the others say so.
    """
    subject = Subject(model, documents, seed)
    found = {}
    for claim, rule in RULES.items():
        if rule.needs_tokens and model.is_partial:
            found[claim] = Finding(claim, float("nan"), None, "needs token embeddings")
            continue
        found[claim] = Finding(claim, *rule.compute(subject))
    return found


def dealt_anew(model: FirstLayer, seed: int) -> FirstLayer:
    """The null: the entries of every tensor of a model, in random order.

    All distributions of values stay as training left them; which number stands where is chance.
    """
    generator = torch.Generator().manual_seed(seed)

    def deal(tensor: Tensor) -> Tensor:
        return tensor.flatten()[torch.randperm(tensor.numel(), generator=generator)].view_as(tensor)

    def all_of(owner: Any) -> Any:
        tensors = {k: deal(v) for k, v in vars(owner).items() if isinstance(v, Tensor)}
        return replace(owner, **tensors)

    attention = replace(all_of(model.attention), ln=all_of(model.attention.ln))
    about = {**model.provenance, "name": f"{model.name}, dealt anew", "null_seed": seed}
    return replace(
        model, embeddings=all_of(model.embeddings), attention=attention, provenance=about
    )


def survey_of_null(
    model: FirstLayer, documents: Sequence[Sequence[int]] = (), *, seeds: Sequence[int] = range(5)
) -> dict[str, Finding]:
    """The survey of several nulls of one model, as one: the median value of each claim.

    `holds` is true where any of them passes: the claim is then easy to meet by chance.
    """
    runs = [survey(dealt_anew(model, seed), documents, seed=seed) for seed in seeds]
    together = {}
    for claim in RULES:
        found = [run[claim] for run in runs]
        if found[0].holds is None:
            together[claim] = found[0]
            continue
        passed = sum(bool(one.holds) for one in found)
        value = float(np.median([one.value for one in found]))
        together[claim] = Finding(claim, value, passed > 0, f"{passed} of {len(runs)} pass")
    return together


def write_survey(
    folder: Path | str,
    found: Mapping[str, Finding],
    model: FirstLayer,
    name: str = "survey",
    **facts: Any,
) -> Path:
    """Freeze a survey as folder/name.npz and .json; returns the path of the record."""
    values = np.array([found[claim].value for claim in found])
    rows = [
        {"claim": f.claim, "holds": f.holds, "note": f.note, "measure": RULES[f.claim].measure}
        for f in found.values()
    ]
    about = {k: v for k, v in model.provenance.items() if k != "tensors"}
    record = provenance(study="survey of claims", model=about, findings=rows, **facts)
    return write_result(folder, name, {"values": values}, record)


def read_survey(
    folder: Path | str, name: str = "survey"
) -> tuple[dict[str, Finding], dict[str, Any]]:
    """A frozen survey and its record; `ResultError` where it is missing, damaged or outdated."""
    arrays, record = read_result(folder, name)
    rows = record.get("findings", [])
    if len(rows) != len(arrays.get("values", [])) or {r["claim"] for r in rows} - set(RULES):
        raise ResultError(f"{folder}/{name}.json does not fit its arrays; compute it again.")
    outdated = [r["claim"] for r in rows if r["measure"] != RULES[r["claim"]].measure]
    if outdated:
        raise ResultError(f"{folder}/{name}.json measures {outdated[0]} in another way; recompute.")
    found = {
        row["claim"]: Finding(row["claim"], float(value), row["holds"], row["note"])
        for row, value in zip(rows, arrays["values"], strict=True)
    }
    return found, record


def encode_documents(model: FirstLayer, documents: Sequence[str]) -> list[list[int]]:
    """Token ids of texts by a model's own tokenizer, without special tokens; [] without one."""
    if model.tokenizer is None or model.is_partial:
        return []
    return model.tokenizer(list(documents), add_special_tokens=False, verbose=False)["input_ids"]
