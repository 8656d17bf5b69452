"""The rules of Kamoda et al. 2025, section 6: what the variances that LayerNorm divides by know.

As in `lnattn_book.claims.kamoda`, arguments are the results as plain arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lnattn.stats import Correlation
from lnattn_book.claims.verdicts import Case, Record, rule, size
from lnattn_book.claims.words import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    graded,
    of_heads,
)


@rule
def k11(case: Case, correlations: Sequence[Correlation], tokens: int) -> Record:
    """K11, T^e knows frequency. correlations: one a head; tokens: how many were counted."""
    beyond = [min(abs(one.low), abs(one.high)) > case.rho for one in correlations]
    strong = np.array(beyond) & np.array([one.low * one.high > 0 for one in correlations])
    strongest, heads = max(correlations, key=lambda one: abs(one.rho)), of_heads(strong)[1]
    some = HOLDS if strong.sum() >= case.heads else HOLDS_IN_PART
    return _counted(
        case,
        tokens,
        Record(
            some if strong.any() else NOT_SEEN,
            f"|ρ| above {case.rho} in {heads}; strongest {strongest}",
            {f"head {head}": one.rho for head, one in enumerate(correlations)},
            short=heads,
            **_rho(strongest),
        ),
    )


@rule
def k12(case: Case, correlation: Correlation, ratio: float, tokens: int) -> Record:
    """K12, rare tokens vary more. ratio: mean Var(e) over mean |Cov(e, p)|; tokens: counted."""
    rare = HOLDS if ratio > case.ratio else HOLDS_IN_PART
    return _counted(
        case,
        tokens,
        Record(
            rare if correlation.high < case.rho else FAILS,
            f"ρ = {correlation}; covariance {ratio:.1f} times smaller",
            {"spearman": correlation.rho, "ratio": ratio},
            short=f"{correlation.rho:.2f}",
            **_rho(correlation),
        ),
    )


@rule
def k13(case: Case, first: float, last_log: float, spread: float) -> Record:
    """K13, Var(p) is a step function. See `lnattn.position.variance.Outliers`."""
    return Record(
        graded((first > case.z, last_log < -case.z, spread < case.spread), none=NOT_SEEN),
        f"z of the first {first:.1f}, of the last (in logarithms) {last_log:.1f}; interior spread "
        f"{spread:.0%}",
        {"first": first, "last": last_log, "spread": spread},
        short=f"{first:.0f}",
        **size(first, "robust z of the first position", 0),
    )


@rule
def k14(case: Case, ratio: np.ndarray) -> Record:
    """K14, the last row was not trained. ratio: [head]."""
    verdict, heads = of_heads(ratio < case.spread, none=NOT_SEEN)
    return Record(
        verdict,
        f"spread {ratio.min():.1%} to {ratio.max():.1%} of its neighbours': below "
        f"{case.spread:.0%} in {heads}",
        {"largest": ratio.max()},
        short=heads,
        **size(np.median(ratio), "of the neighbours' spread (median head)", 1, len(ratio)),
    )


@rule
def k15(case: Case, score: np.ndarray, amplification: np.ndarray) -> Record:
    """K15, the 'if first token' switch. score: b_QK p_0ᵀ; amplification: on text; both [head]."""
    negative = score < 0
    verdict, heads = of_heads(negative & (amplification > case.gain), none=NOT_SEEN)
    return Record(
        verdict,
        f"the switch is in {heads}: negative score in {negative.sum()}, attention on position 0 "
        f"multiplied by {amplification.min():.2f} to {amplification.max():.2f}",
        {"largest": amplification.max(), "smallest": amplification.min()},
        short=heads,
        **size(np.median(amplification), "times (median head)", 1, len(score)),
    )


def _rho(one: Correlation) -> dict[str, Any]:
    return size((one.rho, one.low, one.high), "ρ", 0, one.n)


def _counted(case: Case, tokens: int, found: Record) -> Record:
    """The record; undecided where too few tokens were counted."""
    if tokens >= case.tokens:
        return found
    note = f"only {tokens:,} tokens were counted; the counts of a larger corpus would decide"
    return replace(found, verdict=UNDECIDED, note=note)
