"""The rules of Kamoda et al. 2025, section 6: what the variances that LayerNorm divides by know.

As in `lnattn_book.claims.kamoda`, arguments are the results as plain arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from lnattn.stats import Correlation
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    Case,
    Record,
    of_heads,
    rule,
)


@rule(
    "By Spearman's ρ of T^e with the count of a token, over the tokens that occur: holds if the 95 "
    "% interval of |ρ| lies above {rho} in {heads} heads or more ('several'); in part if in fewer; "
    "else not seen. Undecided for counts of fewer than {tokens:,.0f} tokens.",
    measure="heads with |ρ| beyond the limit",
)
def k11(case: Case, correlations: Sequence[Correlation], tokens: int) -> Record:
    """K11, T^e knows frequency. correlations: one a head; tokens: how many were counted."""
    strong = np.array([min(abs(one.low), abs(one.high)) > case.rho for one in correlations])
    strong &= np.array([one.low * one.high > 0 for one in correlations])
    strongest = max(correlations, key=lambda one: abs(one.rho))
    words = f"|ρ| above {case.rho} in {of_heads(strong)[1]}; strongest {strongest}"
    values = {f"head {head}": one.rho for head, one in enumerate(correlations)}
    short = of_heads(strong)[1]
    if tokens < case.tokens:
        return Record(UNDECIDED, words, values, _more_counts(tokens), short)
    verdict = HOLDS if strong.sum() >= case.heads else HOLDS_IN_PART if strong.any() else NOT_SEEN
    return Record(verdict, words, values, short=short)


@rule(
    "Holds if the 95 % interval of Spearman's ρ of Var(e) with the count lies below {rho} and mean "
    "Var(e) is more than {ratio} times mean |Cov(e, p)|; in part if only the first; else fails, "
    "since over many tokens chance alone gives small ρ with intervals below 0. That division by σ "
    "evens out the norms is algebra and is not judged. Undecided for counts of fewer than "
    "{tokens:,.0f} tokens.",
    measure="ρ(Var(e), count)",
)
def k12(case: Case, correlation: Correlation, ratio: float, tokens: int) -> Record:
    """K12, rare tokens vary more. ratio: mean Var(e) over mean |Cov(e, p)|; tokens: counted."""
    words = f"ρ = {correlation}; covariance {ratio:.1f} times smaller"
    values = {"spearman": correlation.rho, "ratio": ratio}
    short = f"{correlation.rho:.2f}"
    if tokens < case.tokens:
        return Record(UNDECIDED, words, values, _more_counts(tokens), short)
    rare = HOLDS if ratio > case.ratio else HOLDS_IN_PART
    return Record(rare if correlation.high < case.rho else FAILS, words, values, short=short)


def _more_counts(tokens: int) -> str:
    return f"only {tokens:,} tokens were counted; the counts of a larger corpus would decide"


@rule(
    "Holds if the robust z-score of Var(p) exceeds {z} at the first position and, in logarithms, "
    "lies below −{z} at the last, and the interquartile range between them is less than "
    "{spread:.0%} of the median; in part if some of the three; else not seen.",
    measure="z of the first position",
)
def k13(case: Case, first: float, last_log: float, spread: float) -> Record:
    """K13, Var(p) is a step function. See `lnattn.position.variance.Outliers`."""
    parts = (first > case.z, last_log < -case.z, spread < case.spread)
    return Record(
        HOLDS if all(parts) else HOLDS_IN_PART if any(parts) else NOT_SEEN,
        f"z of the first {first:.1f}, of the last (in logarithms) {last_log:.1f}; interior spread "
        f"{spread:.0%}",
        {"first": first, "last": last_log, "spread": spread},
        short=f"{first:.0f}",
    )


@rule(
    "By the spread of the last row of p W_QK pᵀ over the median spread of the four rows before it: "
    "holds if it is below {spread} in every head; in part if in some; else not seen, as in a model "
    "that was trained at its last position.",
    measure="heads with a flat last row",
)
def k14(case: Case, ratio: Float[np.ndarray, "head"]) -> Record:
    """K14, the last row was not trained. ratio: of each head."""
    verdict, heads = of_heads(ratio < case.spread, none=NOT_SEEN)
    return Record(
        verdict,
        f"spread {ratio.min():.1%} to {ratio.max():.1%} of its neighbours': below "
        f"{case.spread:.0%} in {heads}",
        {"largest": ratio.max()},
        short=heads,
    )


@rule(
    "A head has the switch if its score at position 0 is negative and attention there, over text, "
    "is more than {gain} times what it would be with the median σ. Holds if all heads have it; in "
    "part if some; else not seen.",
    measure="heads with the switch",
)
def k15(
    case: Case, score: Float[np.ndarray, "head"], amplification: Float[np.ndarray, "head"]
) -> Record:
    """K15, the 'if first token' switch. score: b_QK p_0ᵀ; amplification: on text."""
    negative = score < 0
    verdict, heads = of_heads(negative & (amplification > case.gain), none=NOT_SEEN)
    return Record(
        verdict,
        f"the switch is in {heads}: negative score in {negative.sum()}, attention on position 0 "
        f"multiplied by {amplification.min():.2f} to {amplification.max():.2f}",
        {"largest": amplification.max(), "smallest": amplification.min()},
        short=heads,
    )
