"""The rules of the residual-stream slides (R) and of the notes on transformer mathematics (M).

Most of their claims are identities. The book checks that its functions obey them to rounding, and
that a statement which is wrong as written fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from lnattn.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    Case,
    Outcome,
    rule,
)
from lnattn.studies.contribution.study import bootstrapped_means

# --- residual-stream slides -----------------------------------------------------------------------


@rule(
    "Holds if attention weights from W_QK equal those from queries and keys to {error:.0e}; in "
    "part if that takes b_QK beside it, without which a weight moves by more than {moved}."
)
def r1(case: Case, error: float, without_bias: float) -> Outcome:
    """R1, W_QK is enough. without_bias: largest change of a weight if b_QK is left out."""
    needed = without_bias > case.moved
    verdict = FAILS if error > case.error else HOLDS_IN_PART if needed else HOLDS
    words = f"largest error {error:.0e} with $b_{{QK}}$; {without_bias:.2f} without it"
    note = "with query biases, $b_{QK}$ is needed beside $W_{QK}$" if needed else ""
    return Outcome(verdict, words, note=note)


@rule("Holds if the sum over heads equals the block's output to {error:.0e} of its size.")
def r2(case: Case, error: float) -> Outcome:
    """R2, the block's output is a sum over heads."""
    words = f"largest relative error {error:.0e}, biases collected in $b^{{VO}}$"
    return Outcome(HOLDS if error <= case.error else FAILS, words)


@rule(
    "Holds if the parts sum to Hugging Face's logits to {float64:.0e} of their size in float64 and "
    "{float32:.0e} in float32."
)
def r3(case: Case, parts: int, float64: float, float32: float) -> Outcome:
    """R3, logits are a sum of parts. float64, float32: largest relative errors."""
    exact = float64 <= case.float64 and float32 <= case.float32
    words = f"{parts} parts; largest relative error {float64:.0e} in float64, {float32:.0e} in "
    note = "with the final LayerNorm divided out by its realised σ"
    return Outcome(HOLDS if exact else FAILS, f"{words}float32", note=note)


@rule("Holds if the four groups and the biases add up to the logits to {error:.0e} of their size.")
def r4(case: Case, attention_only: float, complete: float) -> Outcome:
    """R4, paths add up. Relative errors without feed-forward blocks, and with them as sources."""
    exact = max(attention_only, complete) <= case.error
    words = f"largest relative error {attention_only:.0e} without FFNs, {complete:.0e} with them"
    note = "with the patterns held fixed and biases as a fifth group"
    return Outcome(HOLDS if exact else FAILS, f"{words} as sources", note=note)


@rule(
    "A definition, which nothing can refute: holds if the scores that are read from factors equal "
    "the definition with dense matrices to {error:.0e}. What the scores say is claim R6."
)
def r5(case: Case, pairs: int, error: float) -> Outcome:
    """R5, the amount of composition. error: largest difference over the head pairs tried."""
    words = f"{pairs:,} pairs of heads: largest difference from the definition {error:.0e}"
    return Outcome(HOLDS if error <= case.error else FAILS, words)


@rule(
    "Holds if the largest z-score against random rotations exceeds {z} for Q or K, and usable "
    "pairs reach the top tenth of impossible ones more than {ratio} times as often for Q and for "
    "K; in part if only the first; else not seen."
)
def r6(
    case: Case, z: dict[str, float], tenth: dict[str, float], hundredth: dict[str, float]
) -> Outcome:
    """R6, Q- and K-composition. All by 'Q' and 'K'.

    z: largest z-score; tenth, hundredth: how many times as often usable pairs reach the score that
    this share of the impossible pairs reach.
    """
    trained = max(z["Q"], z["K"]) > case.z
    beyond = min(tenth["Q"], tenth["K"]) > case.ratio
    return Outcome(
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
    "says that they cost more; else undecided. Not seen if neither costs {least} nats a token."
)
def r7(
    case: Case,
    one: Float[np.ndarray, "document"],
    two: Float[np.ndarray, "document"],
    tokens: Float[np.ndarray, "document"],
) -> Outcome:
    """R7, an ensemble of shallow networks.

    one, two: by document, how much the sum of losses rises without the paths through one head,
    without those through two; tokens: how many losses were summed.
    """
    sums, rows = np.stack([one, two], axis=1), np.stack([tokens, tokens], axis=1)
    rises = sums.sum(axis=0) / tokens.sum()
    drawn = bootstrapped_means(sums, rows, case.draws)
    low, high = np.quantile(drawn[:, 0] - drawn[:, 1], (0.025, 0.975))
    verdict = HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED
    if rises.max() < case.least:
        verdict = NOT_SEEN
    return Outcome(
        verdict,
        f"leaving out all paths through one head costs {rises[0]:.3f} nats a token, through two "
        f"{rises[1]:.3f}",
        {"one head": rises[0], "two heads": rises[1]},
        f"difference {low:.3f} to {high:.3f} nats over {len(one)} documents"
        + ("; more documents would decide" if verdict == UNDECIDED else ""),
    )


# --- notes on transformer mathematics -------------------------------------------------------------


@rule(
    "Holds if no weight is negative, each query's weights sum to 1 to {error:.0e}, and outputs are "
    "the weighted means of the values to the same."
)
def m1(case: Case, smallest: float, sums: float, means: float) -> Outcome:
    """M1, weights are probabilities. sums, means: largest differences from 1, from the means."""
    exact = smallest >= 0 and max(sums, means) <= case.error
    words = f"weights ≥ {smallest:.0f}; sums differ from 1 by at most {sums:.0e}"
    return Outcome(HOLDS if exact else FAILS, words)


@rule(
    "By ‖S − Sᵀ‖/‖S‖: holds if it is at most {symmetric:.0e} with one shared map and more than "
    "{asymmetric} with two."
)
def m2(case: Case, shared: float, separate: float) -> Outcome:
    """M2, one map gives symmetric scores."""
    differ = shared <= case.symmetric and separate > case.asymmetric
    words = f"‖S − Sᵀ‖/‖S‖ is {shared:.0e} with one map, {separate:.2f} with two"
    return Outcome(HOLDS if differ else FAILS, words)


@rule(
    "Holds if the mask as written hides the future whether weights are normalised over rows or "
    "over columns; in part if only for one of the two readings; else fails."
)
def m3(case: Case, by_rows: bool, by_columns: bool) -> Outcome:
    """M3, the mask. Whether a query sees only itself and earlier keys, by each reading."""
    right = [name for name, ok in (("rows", by_rows), ("columns", by_columns)) if ok]
    words = f"causal where weights are normalised over {' and over '.join(right) or 'nothing'}"
    verdict = {0: FAILS, 1: HOLDS_IN_PART, 2: HOLDS}[len(right)]
    return Outcome(verdict, words, note="" if len(right) == 2 else "the notes leave it ambiguous")


@rule(
    "By exponents of the counted operations in N, D and H: holds if they are 2, 1 and 1 to "
    "{error}; in part if none is larger, so that the bound is valid but loose; else fails."
)
def m4(case: Case, n: float, d: float, h: float) -> Outcome:
    """M4, the cost of attention. n, d, h: exponents, at fixed D for h."""
    gaps = (n - 2, d - 1, h - 1)
    tight = max(map(abs, gaps)) <= case.error
    verdict = HOLDS if tight else HOLDS_IN_PART if max(gaps) <= case.error else FAILS
    note = "" if tight else "$\\mathcal{O}(D N^2)$ over all heads together is the tight bound"
    return Outcome(
        verdict, f"exponents N {n:.2f}, D {d:.2f}, H {abs(h):.2f} (at fixed D)", note=note
    )


@rule("Holds if counted operations grow with exponents 1 in N and 2 in D, each to {error}.")
def m5(case: Case, n: float, d: float) -> Outcome:
    """M5, the cost of the feed-forward stage, with its width a multiple of D."""
    exact = max(abs(n - 1), abs(d - 2)) <= case.error
    words = f"exponents N {n:.2f}, D {d:.2f} (with F = 4 D)"
    return Outcome(HOLDS if exact else FAILS, words)


@rule("Holds if our layers equal the reference implementations' to {error:.0e} in each order.")
def m6(case: Case, pre: float, post: float, both: float) -> Outcome:
    """M6, pre- and post-LayerNorm layers, and both at once. Largest errors in float64."""
    words = f"largest error {pre:.0e} (pre-LN), {post:.0e} (post-LN), {both:.0e} (both), float64"
    note = "pre-LN against Hugging Face's GPT-2, the others against torch's modules"
    return Outcome(HOLDS if max(pre, post, both) <= case.error else FAILS, words, note=note)


@rule("Fails if changing one feature moves every other output by more than {moved:.0e}.")
def m7(case: Case, moved: float) -> Outcome:
    """M7, LayerNorm by feature. moved: the smallest change of another feature's output."""
    words = f"changing feature 0 moves each other feature by {moved:.2f} or more"
    note = "the formula beneath the sentence is right: mean and variance run over the features"
    return Outcome(FAILS if moved > case.moved else HOLDS, words, note=note)


@rule(
    "In stacks of {depth} layers with random weights, by the largest gradient of a layer's weights "
    "over the smallest, median over seeds: holds if it is below {even} with pre-LN and above it "
    "with post-LN; not seen if it is below with both, so that there is nothing to cure; else fails."
)
def m8(case: Case, pre: float, post: float) -> Outcome:
    """M8, gradients through depth. pre, post: largest over smallest norm of a layer's gradient."""
    even = (pre < case.even, post < case.even)
    verdict = {(True, False): HOLDS, (True, True): NOT_SEEN}.get(even, FAILS)
    return Outcome(
        verdict,
        f"gradients of {case.depth} layers differ {pre:.1f} times with pre-LN, {post:.1f} times "
        "with post-LN",
        {"pre-LN": pre, "post-LN": post},
        "at initialisation: training may change it",
    )


@rule(
    "By the mean cosine between what the last of {depth} layers with random weights gets and gives "
    "out, median over seeds: holds if it is above {alike} with pre-LN and below with post-LN; in "
    "part if it is above with both, or below with both but higher with pre-LN; else fails."
)
def m9(case: Case, pre: float, post: float) -> Outcome:
    """M9, representation collapse. pre, post: cosine between a last layer's input and output."""
    above = (pre > case.alike, post > case.alike)
    if above == (True, False):
        verdict = HOLDS
    else:
        verdict = HOLDS_IN_PART if above == (True, True) or pre > post else FAILS
    return Outcome(
        verdict,
        f"cosine between input and output of the last layer {pre:.3f} with pre-LN, {post:.3f} "
        "with post-LN",
        {"pre-LN": pre, "post-LN": post},
        "at initialisation: training may change it",
    )


@rule(
    "Holds if the encoder, and the attention to it, are half of all parameters, give or take "
    "{points:.0%}, in every size, whether embeddings are counted or not; in part in some; else "
    "fails."
)
def m10(case: Case, removed: Mapping[str, float]) -> Outcome:
    """M10, a decoder has half the parameters. removed: shares by what was counted."""
    near = [abs(share - 0.5) <= case.points for share in removed.values()]
    return Outcome(
        HOLDS if all(near) else HOLDS_IN_PART if any(near) else FAILS,
        "removed: " + ", ".join(f"{share:.0%} ({what})" for what, share in removed.items()),
        dict(removed),
    )


@rule(
    "By the exponent with which the standard deviation of products of random queries and keys "
    "grows with the number of features: holds if it is 1/2 before the division and 0 after it, to "
    "{error}; else fails."
)
def m11(case: Case, before: float, after: float, moved: float) -> Outcome:
    """M11, division by √|feat|. moved: how far a weight moves if |feat| is read as the model's."""
    even = abs(before - 0.5) <= case.error and abs(after) <= case.error
    return Outcome(
        HOLDS if even else FAILS,
        f"exponent {before:.2f} before, {after:z.2f} after",
        {"before": before, "after": after},
        f"|feat| must be that of a head: with the model's, a weight moves by up to {moved:.2f}",
    )


@rule(
    "A query belongs to one token: fails if, contracted over seq, changing another token moves it "
    "by more than {moved:.0e}; else holds."
)
def m12(case: Case, over_seq: float, over_feat: float) -> Outcome:
    """M12, maps over seq. How far a query moves when another token changes, by each contraction."""
    words = f"another token moves a query by {over_seq:.2f} if the map is contracted over seq, by "
    note = "the maps act on features; contracted over seq they also fix the length of a text"
    verdict = FAILS if over_seq > case.moved else HOLDS
    return Outcome(verdict, f"{words}{over_feat:.0f} over feat", note=note)


@rule(
    "With A normalised over columns: holds if the weights of every output of Y = A X sum to 1 to "
    "{error:.0e}; in part if only those of Y = Aᵀ X do, where A's first index is the key's; else "
    "fails."
)
def m13(case: Case, sums: Sequence[float], transposed: Sequence[float]) -> Outcome:
    """M13, normalised over columns. Sums of weights by output, as written and transposed."""
    off, other = (float(np.abs(np.asarray(x) - 1).max()) for x in (sums, transposed))
    verdict = HOLDS if off <= case.error else HOLDS_IN_PART if other <= case.error else FAILS
    return Outcome(
        verdict,
        f"weights of an output of A X sum to {min(sums):.2f} to {max(sums):.2f}; those of Aᵀ X are "
        f"off 1 by {other:.0e}",
        note="" if verdict == HOLDS else "the notes leave open which index is the query's",
    )
