"""Which claims about first layers hold for which model, and for models that learned nothing.

Every claim is asked by its one rule, in `lnattn.claims.kamoda` and its two neighbours; the chapters
that look at a claim closely call the same rule with the same results. Beside a model stands its
*null*: the same model with the entries of every tensor dealt out anew. A claim that the null passes
too says nothing about training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from lnattn.claims import kamoda, kamoda_position, kamoda_variance
from lnattn.claims.evidence import Evidence
from lnattn.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    Verdict,
    not_computable,
    rule_of,
)
from lnattn.errors import ResultError
from lnattn.relative import AnyFirstLayer
from lnattn.storage import provenance, read_result, write_result
from lnattn.studies.affinity.vectors import same_token_z
from lnattn.studies.contribution.study import contributions
from lnattn.studies.position import curves, variance
from lnattn.studies.position.first_token import first_token_switch_on_text
from lnattn.studies.position.measured import (
    beside_position,
    measured_attention,
    near_share,
)

M = TypeVar("M", bound=AnyFirstLayer)
#: Tokens of the windows in which the 'if first token' switch is tried.
SWITCH_WINDOW = 256


def _k3(seen: Evidence) -> Verdict:
    return kamoda.k3(seen.pairs, model=seen.name)


def _k4(seen: Evidence) -> Verdict:
    return kamoda.k4(same_token_z(seen.vectors).mean(dim=1).numpy(), model=seen.name)


def _k5(seen: Evidence) -> Verdict:
    return kamoda.k5(*seen.auroc(), kamoda.pair_head(seen.pairs), model=seen.name)


def _k6(seen: Evidence) -> Verdict:
    if seen.model.is_partial:
        return kamoda_position.k6(seen.without_tokens.spearman, model=seen.name)
    rho = [curves.trend(curve).spearman for curve in seen.bias.term_p().mean]
    return kamoda_position.k6(np.array(rho), model=seen.name)


def _k7(seen: Evidence) -> Verdict:
    if seen.model.is_partial:
        return kamoda_position.k7(seen.without_tokens.table(), model=seen.name)
    near = curves.nearness(seen.folded, seen.model.embeddings.W_P, seen.inverse_sigma)
    return kamoda_position.k7(curves.position_table(seen.bias, near), model=seen.name)


def _k8(seen: Evidence) -> Verdict:
    if seen.model.is_partial:
        found = seen.without_tokens
        return kamoda_position.k8(found.near[:, :, -1], found.echo[:, :, -1], model=seen.name)
    shares = near_share(seen.bias.attention(), seen.queries, seen.bias.causal)
    return kamoda_position.k8(shares[:, -1], curves.echo(seen.bias)[:, -1], model=seen.name)


def _k9(seen: Evidence) -> Verdict:
    assert seen.cut is not None
    texts = seen.cut(seen.queries[-1] + 1)
    found = measured_attention(seen.folded, seen.model.embeddings, texts, seen.queries)
    return kamoda_position.k9(beside_position(found, seen.bias), model=seen.name)


def _k10(seen: Evidence) -> Verdict:
    result = contributions(seen.folded, seen.model.embeddings, seen.framed)
    return kamoda.k10(result.document_sums, result.document_rows, model=seen.name)


def _k11(seen: Evidence) -> Verdict:
    assert seen.counts is not None
    return kamoda_variance.k11(
        seen.frequency.head_correlations, seen.counts.tokens, model=seen.name
    )


def _k12(seen: Evidence) -> Verdict:
    assert seen.counts is not None
    found = seen.frequency.variance_correlation
    return kamoda_variance.k12(found, seen.inputs.ratio, seen.counts.tokens, model=seen.name)


def _k13(seen: Evidence) -> Verdict:
    found = variance.position_outliers(seen.model.embeddings.W_P)
    return kamoda_variance.k13(found.first, found.last_log, found.interior_spread, model=seen.name)


def _k14(seen: Evidence) -> Verdict:
    rows = curves.last_rows(seen.folded, seen.model.embeddings.W_P)
    return kamoda_variance.k14(rows.ratio, model=seen.name)


def _k15(seen: Evidence) -> Verdict:
    assert seen.cut is not None
    texts = seen.cut(min(seen.model.embeddings.n_positions, SWITCH_WINDOW))
    found = first_token_switch_on_text(seen.folded, seen.model.embeddings, texts)
    return kamoda_variance.k15(found.score, found.amplification(), model=seen.name)


#: How each claim is asked, and whether it can be where the token embeddings are missing.
ASKED: Mapping[str, tuple[Callable[[Evidence], Verdict], bool]] = {
    "K3": (_k3, False),
    "K4": (_k4, False),
    "K5": (_k5, False),
    "K6": (_k6, True),
    "K7": (_k7, True),
    "K8": (_k8, True),
    "K9": (_k9, False),
    "K10": (_k10, False),
    "K11": (_k11, False),
    "K12": (_k12, False),
    "K13": (_k13, True),
    "K14": (_k14, True),
    "K15": (_k15, False),
}


def survey(seen: Evidence) -> dict[str, Verdict]:
    """The verdict on each claim of `ASKED` for one model.

    A partial checkpoint gets those about positions only; the others say what is missing.
    """
    partial = seen.model.is_partial
    return {
        claim: not_computable(claim, seen.name, f"needs {kamoda_position.TOKENS}")
        if partial and not without_tokens
        else ask(seen)
        for claim, (ask, without_tokens) in ASKED.items()
    }


def dealt_anew(model: M, seed: int, *, heads_only: bool = False) -> M:
    """The null: the entries of every tensor of a model, in random order.

    All distributions of values stay as training left them; which number stands where is chance.
    heads_only: leave the embeddings, and the norm that heads read them through, as they are.
    """
    generator = torch.Generator().manual_seed(seed)

    def deal(tensor: Tensor) -> Tensor:
        return tensor.flatten()[torch.randperm(tensor.numel(), generator=generator)].view_as(tensor)

    def all_of(owner: Any) -> Any:
        tensors = {k: deal(v) for k, v in vars(owner).items() if isinstance(v, Tensor)}
        return replace(owner, **tensors)

    norm, attention = model.attention.ln, all_of(model.attention)
    about = {**model.provenance, "name": f"{model.name}, dealt anew", "null_seed": seed}
    if heads_only:
        return replace(model, attention=attention, provenance=about)
    attention = replace(attention, ln=norm if norm is None else all_of(norm))
    return replace(
        model, embeddings=all_of(model.embeddings), attention=attention, provenance=about
    )


def survey_of_null(seen: Evidence, seeds: Sequence[int] = range(5)) -> dict[str, Verdict]:
    """The survey of several nulls of one model as one: the best verdict that any deal gets.

    If a null passes, the claim is easy to meet by chance; `short` says how many got as far.
    """
    runs = [
        survey(replace(seen, model=dealt_anew(seen.model, seed), study=None, seed=seed, name=""))
        for seed in seeds
    ]
    together = {}
    for claim in ASKED:
        found = sorted((run[claim] for run in runs), key=lambda one: _BEST.index(one.verdict))
        count = sum(one.verdict == found[0].verdict for one in found)
        name = f"{seen.name}, dealt anew"
        together[claim] = replace(found[0], model=name, short=f"{count} of {len(runs)}")
    return together


_BEST = (HOLDS, HOLDS_IN_PART, UNDECIDED, FAILS, NOT_SEEN, NOT_COMPUTABLE)


def write_survey(
    folder: Path | str,
    found: Mapping[str, Verdict],
    model: AnyFirstLayer,
    name: str = "survey",
    **facts: Any,
) -> Path:
    """Freeze a survey as folder/name.npz and .json; returns the path of the record."""
    rows = [asdict(one) for one in found.values()]
    values = {f"{one.claim}: {key}": v for one in found.values() for key, v in one.values.items()}
    numbers = np.array([v for v in values.values() if isinstance(v, int | float)], dtype=float)
    about = {k: v for k, v in model.provenance.items() if k != "tensors"}
    record = provenance(study="survey of claims", model=about, verdicts=rows, **facts)
    return write_result(folder, name, {"values": numbers}, record)


def read_survey(
    folder: Path | str, name: str = "survey"
) -> tuple[dict[str, Verdict], dict[str, Any]]:
    """A frozen survey and its record; `ResultError` where it is missing, damaged or outdated."""
    _, record = read_result(folder, name)
    rows = record.get("verdicts", [])
    if [row.get("claim") for row in rows] != list(ASKED):
        raise ResultError(f"{folder}/{name}.json is no survey of these claims; compute it again.")
    outdated = [row["claim"] for row in rows if row["rule"] != rule_of(row["claim"])]
    if outdated:
        raise ResultError(
            f"{folder}/{name}.json was made by another rule of {outdated[0]}; compute it again."
        )
    return {row["claim"]: Verdict(**row) for row in rows}, record
