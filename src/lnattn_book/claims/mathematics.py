"""The rules of the notes on transformer mathematics (M).

Most of their claims are identities. The book checks that its functions obey them to rounding, and
that a statement which is wrong as written fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    UNDECIDED,
    Case,
    Change,
    Record,
    rule,
)


@rule(
    "Holds if no weight is negative, each query's weights sum to 1 to {error:.0e}, and outputs are "
    "the weighted means of the values to the same."
)
def m1(case: Case, smallest: float, sums: float, means: float) -> Record:
    """M1, weights are probabilities. sums, means: largest differences from 1, from the means."""
    exact = smallest >= 0 and max(sums, means) <= case.error
    words = f"weights ≥ {smallest:.0f}; sums differ from 1 by at most {sums:.0e}"
    return Record(HOLDS if exact else FAILS, words)


@rule(
    "By ‖S − Sᵀ‖/‖S‖: holds if it is at most {symmetric:.0e} with one shared map and more than "
    "{asymmetric} with two."
)
def m2(case: Case, shared: float, separate: float) -> Record:
    """M2, one map gives symmetric scores."""
    differ = shared <= case.symmetric and separate > case.asymmetric
    words = f"‖S − Sᵀ‖/‖S‖ is {shared:.0e} with one map, {separate:.2f} with two"
    return Record(HOLDS if differ else FAILS, words)


@rule(
    "Holds if the mask as written hides the future whether weights are normalised over rows or "
    "over columns; in part if only for one of the two readings; else fails."
)
def m3(case: Case, by_rows: bool, by_columns: bool) -> Record:
    """M3, the mask. Whether a query sees only itself and earlier keys, by each reading."""
    right = [name for name, ok in (("rows", by_rows), ("columns", by_columns)) if ok]
    words = f"causal where weights are normalised over {' and over '.join(right) or 'nothing'}"
    verdict = {0: FAILS, 1: HOLDS_IN_PART, 2: HOLDS}[len(right)]
    return Record(verdict, words, note="" if len(right) == 2 else "the notes leave it ambiguous")


@rule(
    "By exponents of the counted operations in N, D and H: holds if they are 2, 1 and 1 to "
    "{error}; in part if none is larger, so that the bound is valid but loose; else fails."
)
def m4(case: Case, n: float, d: float, h: float) -> Record:
    """M4, the cost of attention. n, d, h: exponents, at fixed D for h."""
    gaps = (n - 2, d - 1, h - 1)
    tight = max(map(abs, gaps)) <= case.error
    verdict = HOLDS if tight else HOLDS_IN_PART if max(gaps) <= case.error else FAILS
    note = "" if tight else "$\\mathcal{O}(D N^2)$ over all heads together is the tight bound"
    return Record(
        verdict, f"exponents N {n:.2f}, D {d:.2f}, H {abs(h):.2f} (at fixed D)", note=note
    )


@rule("Holds if counted operations grow with exponents 1 in N and 2 in D, each to {error}.")
def m5(case: Case, n: float, d: float) -> Record:
    """M5, the cost of the feed-forward stage, with its width a multiple of D."""
    exact = max(abs(n - 1), abs(d - 2)) <= case.error
    words = f"exponents N {n:.2f}, D {d:.2f} (with F = 4 D)"
    return Record(HOLDS if exact else FAILS, words)


@rule("Holds if our layers equal the reference implementations' to {error:.0e} in each order.")
def m6(case: Case, pre: float, post: float, both: float) -> Record:
    """M6, pre- and post-LayerNorm layers, and both at once. Largest errors in float64."""
    words = f"largest error {pre:.0e} (pre-LN), {post:.0e} (post-LN), {both:.0e} (both), float64"
    note = "pre-LN against Hugging Face's GPT-2, the others against torch's modules"
    return Record(HOLDS if max(pre, post, both) <= case.error else FAILS, words, note=note)


@rule("Fails if changing one feature moves every other output by more than {moved:.0e}.")
def m7(case: Case, moved: float) -> Record:
    """M7, LayerNorm by feature. moved: the smallest change of another feature's output."""
    words = f"changing feature 0 moves each other feature by {moved:.2f} or more"
    note = "the formula beneath the sentence is right: mean and variance run over the features"
    return Record(FAILS if moved > case.moved else HOLDS, words, note=note)


@rule(
    "In stacks of {depth} layers with random weights, by the largest gradient of a layer's weights "
    "over the smallest, median over seeds: holds if it is below {even} with pre-LN and above it "
    "with post-LN; in part if it is below with both, but lower with pre-LN; else fails."
)
def m8(case: Case, pre: float, post: float) -> Record:
    """M8, gradients through depth. pre, post: largest over smallest norm of a layer's gradient."""
    if pre < case.even:
        verdict = HOLDS if post > case.even else HOLDS_IN_PART if pre < post else FAILS
    else:
        verdict = FAILS
    return Record(
        verdict,
        f"gradients of {case.depth} layers differ {pre:.1f} times with pre-LN, {post:.1f} times "
        "with post-LN",
        {"pre-LN": pre, "post-LN": post},
        "the rule as it was first written, and a poor one: it compares layers of one stack, not "
        "the last layer's gradient in stacks of several depths; at initialisation",
    )


@rule(
    "By the mean cosine between what the last of {depth} layers with random weights gets and gives "
    "out, median over seeds: holds if it is above {alike} with pre-LN and below with post-LN; in "
    "part if it is above with both, or below with both but higher with pre-LN; else fails. "
    "Undecided if with pre-LN it is within {near} of √(1 − 1/{depth}), what a stream of equal "
    "random steps has whatever the layers do.",
    "",
    Change(
        "23 Nov 2026",
        "arithmetic alone gives the value with pre-LN, so that the verdict could not come out "
        "otherwise",
        lambda case, pre, post: _m9_before(case, pre, post),
    ),
)
def m9(case: Case, pre: float, post: float) -> Record:
    """M9, representation collapse. pre, post: cosine between a last layer's input and output."""
    by_steps = float(np.sqrt(1 - 1 / case.depth))
    expected = abs(pre - by_steps) <= case.near
    note = f"equal random steps alone give {by_steps:.3f}; trained layers would decide"
    verdict = UNDECIDED if expected else _m9_before(case, pre, post)
    return Record(
        verdict,
        f"cosine between input and output of the last layer {pre:.3f} with pre-LN, {post:.3f} "
        "with post-LN",
        {"pre-LN": pre, "post-LN": post},
        note if expected else "at initialisation: training may change it",
    )


def _m9_before(case: Case, pre: float, post: float) -> str:
    above = (pre > case.alike, post > case.alike)
    if above == (True, False):
        return HOLDS
    return HOLDS_IN_PART if above == (True, True) or pre > post else FAILS


@rule(
    "Holds if the encoder, and the attention to it, are half of all parameters, give or take "
    "{points:.0%}, in every size, whether embeddings are counted or not; in part in some; else "
    "fails."
)
def m10(case: Case, removed: Mapping[str, float]) -> Record:
    """M10, a decoder has half the parameters. removed: shares by what was counted."""
    near = [abs(share - 0.5) <= case.points for share in removed.values()]
    return Record(
        HOLDS if all(near) else HOLDS_IN_PART if any(near) else FAILS,
        "removed: " + ", ".join(f"{share:.0%} ({what})" for what, share in removed.items()),
        dict(removed),
    )


@rule(
    "By the exponent with which the standard deviation of products of random queries and keys "
    "grows with the number of features: holds if it is 1/2 before the division and 0 after it, to "
    "{error}; else fails."
)
def m11(case: Case, before: float, after: float, moved: float) -> Record:
    """M11, division by √|feat|. moved: how far a weight moves if |feat| is read as the model's."""
    even = abs(before - 0.5) <= case.error and abs(after) <= case.error
    return Record(
        HOLDS if even else FAILS,
        f"exponent {before:.2f} before, {after:z.2f} after",
        {"before": before, "after": after},
        f"|feat| must be that of a head: with the model's, a weight moves by up to {moved:.2f}",
    )


@rule(
    "A query belongs to one token: fails if, contracted over seq, changing another token moves it "
    "by more than {moved:.0e}; else holds."
)
def m12(case: Case, over_seq: float, over_feat: float) -> Record:
    """M12, maps over seq. How far a query moves when another token changes, by each contraction."""
    words = f"another token moves a query by {over_seq:.2f} if the map is contracted over seq, by "
    note = "the maps act on features; contracted over seq they also fix the length of a text"
    verdict = FAILS if over_seq > case.moved else HOLDS
    return Record(verdict, f"{words}{over_feat:.0f} over feat", note=note)


@rule(
    "With A normalised over columns: holds if the weights of every output of Y = A X sum to 1 to "
    "{error:.0e}; in part if only those of Y = Aᵀ X do, where A's first index is the key's; else "
    "fails."
)
def m13(case: Case, sums: Sequence[float], transposed: Sequence[float]) -> Record:
    """M13, normalised over columns. Sums of weights by output, as written and transposed."""
    off, other = (float(np.abs(np.asarray(x) - 1).max()) for x in (sums, transposed))
    verdict = HOLDS if off <= case.error else HOLDS_IN_PART if other <= case.error else FAILS
    return Record(
        verdict,
        f"weights of an output of A X sum to {min(sums):.2f} to {max(sums):.2f}; those of Aᵀ X are "
        f"off 1 by {other:.0e}",
        note="" if verdict == HOLDS else "the notes leave open which index is the query's",
    )
