"""The rules of the slides on circuits and the residual stream (R).

R1 to R4 are identities: the book checks that its functions obey them to rounding. R5 is a
definition; R6 and R7 are about trained models.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from lnattn.contribution.study import bootstrapped_means
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    Case,
    Record,
    rule,
)


@rule(
    "Holds if attention weights from W_QK equal those from queries and keys to {error:.0e}; in "
    "part if that takes b_QK beside it, without which a weight moves by more than {moved}."
)
def r1(case: Case, error: float, without_bias: float) -> Record:
    """R1, W_QK is enough. without_bias: largest change of a weight if b_QK is left out."""
    needed = without_bias > case.moved
    verdict = FAILS if error > case.error else HOLDS_IN_PART if needed else HOLDS
    words = f"largest error {error:.0e} with $b_{{QK}}$; {without_bias:.2f} without it"
    note = "with query biases, $b_{QK}$ is needed beside $W_{QK}$" if needed else ""
    return Record(verdict, words, note=note)


@rule("Holds if the sum over heads equals the block's output to {error:.0e} of its size.")
def r2(case: Case, error: float) -> Record:
    """R2, the block's output is a sum over heads."""
    words = f"largest relative error {error:.0e}, biases collected in $b^{{VO}}$"
    return Record(HOLDS if error <= case.error else FAILS, words)


@rule(
    "Holds if the parts sum to Hugging Face's logits to {float64:.0e} of their size in float64 and "
    "{float32:.0e} in float32."
)
def r3(case: Case, parts: int, float64: float, float32: float) -> Record:
    """R3, logits are a sum of parts. float64, float32: largest relative errors."""
    exact = float64 <= case.float64 and float32 <= case.float32
    words = f"{parts} parts; largest relative error {float64:.0e} in float64, {float32:.0e} in "
    note = "with the final LayerNorm divided out by its realised σ"
    return Record(HOLDS if exact else FAILS, f"{words}float32", note=note)


@rule("Holds if the four groups and the biases add up to the logits to {error:.0e} of their size.")
def r4(case: Case, attention_only: float, complete: float) -> Record:
    """R4, paths add up. Relative errors without feed-forward blocks, and with them as sources."""
    exact = max(attention_only, complete) <= case.error
    words = f"largest relative error {attention_only:.0e} without FFNs, {complete:.0e} with them"
    note = "with the patterns held fixed and biases as a fifth group"
    return Record(HOLDS if exact else FAILS, f"{words} as sources", note=note)


@rule(
    "A definition, which nothing can refute: holds if the scores that are read from factors equal "
    "the definition with dense matrices to {error:.0e}. What the scores say is claim R6."
)
def r5(case: Case, pairs: int, error: float) -> Record:
    """R5, the amount of composition. error: largest difference over the head pairs tried."""
    words = f"{pairs:,} pairs of heads: largest difference from the definition {error:.0e}"
    return Record(HOLDS if error <= case.error else FAILS, words)


@rule(
    "Holds if the largest z-score against random rotations exceeds {z} for Q or K, and usable "
    "pairs reach the top tenth of impossible ones more than {ratio} times as often for Q and for "
    "K; in part if only the first; else not seen."
)
def r6(
    case: Case, z: dict[str, float], tenth: dict[str, float], hundredth: dict[str, float]
) -> Record:
    """R6, Q- and K-composition. All by 'Q' and 'K'.

    z: largest z-score; tenth, hundredth: how many times as often usable pairs reach the score that
    this share of the impossible pairs reach.
    """
    trained = max(z["Q"], z["K"]) > case.z
    beyond = min(tenth["Q"], tenth["K"]) > case.ratio
    return Record(
        (HOLDS if beyond else HOLDS_IN_PART) if trained else NOT_SEEN,
        f"largest z {z['K']:.0f} (K), {z['Q']:.0f} (Q); impossible pairs' top tenth is reached "
        f"{tenth['K']:.1f} (K) and {tenth['Q']:.1f} (Q) times as often",
        {"z of K": z["K"], "z of Q": z["Q"]},
        f"in the top hundredth only {hundredth['K']:.1f} and {hundredth['Q']:.1f} times",
    )


@rule(
    "By how much the loss on the next token rises when paths are left out, with patterns and σ "
    "held fixed; documents drawn anew in pairs {draws} times. Holds if the 95 % interval of the "
    "difference says that paths through two heads cost less than those through one; fails if it "
    "says that they cost more; else undecided."
)
def r7(
    case: Case,
    one: Float[np.ndarray, "document"],
    two: Float[np.ndarray, "document"],
    tokens: Float[np.ndarray, "document"],
) -> Record:
    """R7, an ensemble of shallow networks.

    one, two: by document, how much the sum of losses rises without the paths through one head,
    without those through two; tokens: how many losses were summed.
    """
    sums, rows = np.stack([one, two], axis=1), np.stack([tokens, tokens], axis=1)
    rises = sums.sum(axis=0) / tokens.sum()
    drawn = bootstrapped_means(sums, rows, case.draws)
    low, high = np.quantile(drawn[:, 0] - drawn[:, 1], (0.025, 0.975))
    verdict = HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED
    return Record(
        verdict,
        f"leaving out all paths through one head costs {rises[0]:.3f} nats a token, through two "
        f"{rises[1]:.3f}",
        {"one head": rises[0], "two heads": rises[1]},
        f"difference {low:.3f} to {high:.3f} nats over {len(one)} documents"
        + ("; more documents would decide" if verdict == UNDECIDED else "")
        + "; the rule as it was first written, and a poor one: an interval says nothing of size",
    )
