"""The rules of the slides on circuits and the residual stream (R).

R1 to R4 are identities: the book checks that its functions obey them to rounding. R5 is a
definition; R6 and R7 are about trained models.
"""

from __future__ import annotations

import numpy as np

from lnattn.contribution.study import bootstrapped_means
from lnattn_book.claims.verdicts import Case, Record, limits, rule, size
from lnattn_book.claims.words import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED, by_interval


@rule
def r1(case: Case, error: float, without_bias: float) -> Record:
    """R1, W_QK is enough. without_bias: largest change of a weight if b_QK is left out."""
    needed = without_bias > case.moved
    return Record(
        FAILS if error > case.error else HOLDS_IN_PART if needed else HOLDS,
        f"largest error {error:.0e} with $b_{{QK}}$; {without_bias:.2f} without it",
        note="with query biases, $b_{QK}$ is needed beside $W_{QK}$" if needed else "",
        **size(error, null=without_bias),
    )


#: The block's output is a sum over heads: the largest relative error.
r2 = limits(
    "R2",
    "error",
    lambda case, got: got.error <= case.error,
    "largest relative error {error:.0e}, biases collected in $b^{{VO}}$",
    effect=lambda got: size(got.error, null=0),
)
#: Logits are a sum of so many parts: largest relative errors.
r3 = limits(
    "R3",
    "parts float64 float32",
    lambda case, got: got.float64 <= case.float64 and got.float32 <= case.float32,
    "{parts} parts; largest relative error {float64:.0e} in float64, {float32:.0e} in float32",
    "with the final LayerNorm divided out by its realised σ",
    lambda got: size(got.float64, null=0, n=got.parts),
)
#: Paths add up: relative errors without feed-forward blocks, and with them as sources.
r4 = limits(
    "R4",
    "attention_only complete",
    lambda case, got: max(got.attention_only, got.complete) <= case.error,
    "largest relative error {attention_only:.0e} without FFNs, {complete:.0e} with them as sources",
    "with the patterns held fixed and biases as a fifth group",
    lambda got: size(max(got.attention_only, got.complete), null=0),
)
#: The amount of composition: the largest difference from its definition over the pairs tried.
r5 = limits(
    "R5",
    "pairs error",
    lambda case, got: got.error <= case.error,
    "{pairs:,} pairs of heads: largest difference from the definition {error:.0e}",
    effect=lambda got: size(got.error, null=0, n=got.pairs),
)


@rule
def r6(
    case: Case, z: dict[str, float], tenth: dict[str, float], hundredth: dict[str, float]
) -> Record:
    """R6, Q- and K-composition. All by 'Q' and 'K'.

    z: largest z-score; tenth, hundredth: how many times as often usable pairs reach the score that
    this share of the impossible pairs reach.
    """
    beyond = HOLDS if min(tenth["Q"], tenth["K"]) > case.ratio else HOLDS_IN_PART
    return Record(
        beyond if max(z["Q"], z["K"]) > case.z else NOT_SEEN,
        f"largest z {z['K']:.0f} (K), {z['Q']:.0f} (Q); impossible pairs' top tenth is reached "
        f"{tenth['K']:.1f} (K) and {tenth['Q']:.1f} (Q) times as often",
        {"z of K": z["K"], "z of Q": z["Q"]},
        f"in the top hundredth only {hundredth['K']:.1f} and {hundredth['Q']:.1f} times",
        **size(min(tenth["Q"], tenth["K"]), "times as often", 1),
    )


@rule
def r7(case: Case, one: np.ndarray, two: np.ndarray, tokens: np.ndarray) -> Record:
    """R7, an ensemble of shallow networks.

    one, two: [document], how much the sum of losses rises without the paths through one head,
    without those through two; tokens: [document], how many losses were summed.
    """
    sums, rows = np.stack([one, two], axis=1), np.stack([tokens, tokens], axis=1)
    rises = sums.sum(axis=0) / tokens.sum()
    drawn = bootstrapped_means(sums, rows, case.draws)
    low, high = np.quantile(drawn[:, 0] - drawn[:, 1], (0.025, 0.975))
    verdict = by_interval(low, high)
    return Record(
        verdict,
        f"leaving out all paths through one head costs {rises[0]:.3f} nats a token, through two "
        f"{rises[1]:.3f}",
        {"one head": rises[0], "two heads": rises[1]},
        f"difference {low:.3f} to {high:.3f} nats over {len(one)} documents"
        + ("; more documents would decide" if verdict == UNDECIDED else "")
        + "; the rule as it was first written, and a poor one: an interval says nothing of size",
        **size((rises[0] - rises[1], low, high), "nats a token", 0, len(one)),
    )
