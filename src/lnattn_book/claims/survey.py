"""Which claims about first layers hold for which model, and for models that learned nothing.

Every claim is asked by its one rule, in `kamoda` and its two neighbours; the chapters
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

from lnattn.affinity.table1 import pair_heads
from lnattn.affinity.vectors import same_token_z
from lnattn.attention.nulls import permuted_weights
from lnattn.contribution.study import contributions
from lnattn.errors import ResultError
from lnattn.position import curves, variance
from lnattn.position.first_token import first_token_switch
from lnattn.position.measured import (
    beside_position,
    measured_attention,
    near_share,
)
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.storage import provenance, read_result, write_result
from lnattn_book.claims import kamoda, kamoda_position, kamoda_variance
from lnattn_book.claims.evidence import Evidence
from lnattn_book.claims.ledger import as_record
from lnattn_book.claims.verdicts import Record, Rule, not_computable, rule_of
from lnattn_book.claims.words import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
)

M = TypeVar("M", bound=AnyFirstLayer)
#: Tokens of the windows in which the 'if first token' switch is tried.
SWITCH_WINDOW = 256


def _k6(seen: Evidence) -> tuple[Any, ...]:
    if seen.model.is_partial:
        return (seen.without_tokens.spearman,)
    return (np.array([curves.trend(curve).spearman for curve in seen.bias.term_p().mean]),)


def _k7(seen: Evidence) -> tuple[Any, ...]:
    if seen.model.is_partial:
        return (seen.without_tokens.table(),)
    near = curves.nearness(seen.folded, seen.model.embeddings.W_P, seen.inverse_sigma)
    return (curves.position_table(seen.bias, near),)


def _k8(seen: Evidence) -> tuple[Any, ...]:
    if seen.model.is_partial:
        found = seen.without_tokens
        return found.near[:, :, -1], found.echo[:, :, -1]
    shares = near_share(seen.bias.attention(), seen.queries, seen.bias.causal)
    return shares[:, -1], curves.wave_recurrence(seen.bias)[:, -1]


def _k9(seen: Evidence) -> tuple[Any, ...]:
    texts = seen.windows(seen.queries[-1] + 1)
    found = measured_attention(seen.folded, seen.model.embeddings, texts, seen.queries)
    return (beside_position(found, seen.bias),)


def _k10(seen: Evidence) -> tuple[Any, ...]:
    found = contributions(seen.folded, seen.model.embeddings, seen.framed)
    return found.document_sums, found.document_rows


def _k13(seen: Evidence) -> tuple[Any, ...]:
    found = variance.position_outliers(seen.model.embeddings.W_P)
    return found.first, found.last_log, found.interior_spread


def _k15(seen: Evidence) -> tuple[Any, ...]:
    texts = seen.windows(min(seen.model.embeddings.n_positions, SWITCH_WINDOW))
    found = first_token_switch(seen.folded, seen.model.embeddings, texts)
    return found.score, found.amplification()


#: The rule of each claim, the results that it judges, and whether token embeddings are needed.
ASKED: Mapping[str, tuple[Rule, Callable[[Evidence], tuple[Any, ...]], bool]] = {
    "K3": (kamoda.k3, lambda seen: (seen.pairs,), True),
    "K4": (kamoda.k4, lambda seen: (same_token_z(seen.vectors).mean(dim=1).numpy(),), True),
    "K5": (kamoda.k5, lambda seen: (*seen.auroc(), pair_heads(seen.pairs)), True),
    "K6": (kamoda_position.k6, _k6, False),
    "K7": (kamoda_position.k7, _k7, False),
    "K8": (kamoda_position.k8, _k8, False),
    "K9": (kamoda_position.k9, _k9, True),
    "K10": (kamoda.k10, _k10, True),
    "K11": (
        kamoda_variance.k11,
        lambda seen: (seen.frequency.head_correlations, seen.counted.tokens),
        True,
    ),
    "K12": (
        kamoda_variance.k12,
        lambda seen: (
            seen.frequency.variance_correlation,
            seen.inputs.ratio,
            seen.counted.tokens,
        ),
        True,
    ),
    "K13": (kamoda_variance.k13, _k13, False),
    "K14": (
        kamoda_variance.k14,
        lambda seen: (curves.last_rows(seen.folded, seen.model.embeddings.W_P).ratio,),
        False,
    ),
    "K15": (kamoda_variance.k15, _k15, True),
}


def survey(seen: Evidence) -> dict[str, Record]:
    """The verdict on each claim of `ASKED` for one model.

    A partial checkpoint gets those about positions only; the others say what is missing.
    """
    needs = f"needs {kamoda_position.TOKENS}"
    return {
        name: not_computable(name, seen.name, needs)
        if seen.model.is_partial and needs_tokens
        else rule(*results(seen), model=seen.name)
        for name, (rule, results, needs_tokens) in ASKED.items()
    }


def survey_of_null(seen: Evidence, seeds: Sequence[int] = range(5)) -> dict[str, Record]:
    """The survey of several nulls of one model as one: the best verdict that any deal gets.

    If a null passes, the claim is easy to meet by chance; `short` says how many got as far.
    """
    runs = [
        survey(
            replace(seen, model=permuted_weights(seen.model, seed), study=None, seed=seed, name="")
        )
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
    found: Mapping[str, Record],
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
) -> tuple[dict[str, Record], dict[str, Any]]:
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
    return {row["claim"]: as_record(row, f"{folder}/{name}.json") for row in rows}, record
