"""The rules of the notes on transformer mathematics (M).

Most of their claims are identities. The book checks that its functions obey them to rounding, and
that a statement which is wrong as written fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lnattn_book.claims.verdicts import Case, Record, limits, replacing, rule, size
from lnattn_book.claims.words import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED, graded

#: Weights are probabilities: the smallest weight, largest differences from 1 and from the means.
m1 = limits(
    "M1",
    "smallest sums means",
    lambda case, got: got.smallest >= 0 and max(got.sums, got.means) <= case.error,
    "weights ≥ {smallest:.0f}; sums differ from 1 by at most {sums:.0e}",
)
#: ‖S − Sᵀ‖/‖S‖ with one map and with two.
m2 = limits(
    "M2",
    "shared separate",
    lambda case, got: got.shared <= case.symmetric and got.separate > case.asymmetric,
    "‖S − Sᵀ‖/‖S‖ is {shared:.0e} with one map, {separate:.2f} with two",
    effect=lambda got: size(got.shared, null=got.separate),
)
#: The cost of the feed-forward stage, with its width a multiple of D: exponents.
m5 = limits(
    "M5",
    "n d",
    lambda case, got: max(abs(got.n - 1), abs(got.d - 2)) <= case.error,
    "exponents N {n:.2f}, D {d:.2f} (with F = 4 D)",
)
#: Pre- and post-LayerNorm layers, and both at once: largest errors in float64.
m6 = limits(
    "M6",
    "pre post both",
    lambda case, got: max(got.pre, got.post, got.both) <= case.error,
    "largest error {pre:.0e} (pre-LN), {post:.0e} (post-LN), {both:.0e} (both), float64",
    "pre-LN against Hugging Face's GPT-2, the others against torch's modules",
)
#: LayerNorm by feature: the smallest change of another feature's output.
m7 = limits(
    "M7",
    "moved",
    lambda case, got: got.moved <= case.moved,
    "changing feature 0 moves each other feature by {moved:.2f} or more",
    "the formula beneath the sentence is right: mean and variance run over the features",
    lambda got: size(got.moved, null=0),
)
#: How far a query moves when another token changes, by each contraction.
m12 = limits(
    "M12",
    "over_seq over_feat",
    lambda case, got: got.over_seq <= case.moved,
    "another token moves a query by {over_seq:.2f} if the map is contracted over seq, by "
    "{over_feat:.0f} over feat",
    "the maps act on features; contracted over seq they also fix the length of a text",
    lambda got: size(got.over_seq, null=got.over_feat),
)


@rule
def m3(case: Case, by_rows: bool, by_columns: bool) -> Record:
    """M3, the mask. Whether a query sees only itself and earlier keys, by each reading."""
    right = [name for name, ok in (("rows", by_rows), ("columns", by_columns)) if ok]
    words = f"causal where weights are normalised over {' and over '.join(right) or 'nothing'}"
    note = "" if len(right) == 2 else "the notes leave it ambiguous"
    return Record(graded((by_rows, by_columns)), words, note=note)


@rule
def m4(case: Case, n: float, d: float, h: float) -> Record:
    """M4, the cost of attention. n, d, h: exponents, at fixed D for h."""
    gaps = (n - 2, d - 1, h - 1)
    tight = max(map(abs, gaps)) <= case.error
    verdict = HOLDS if tight else HOLDS_IN_PART if max(gaps) <= case.error else FAILS
    note = "" if tight else "$\\mathcal{O}(D N^2)$ over all heads together is the tight bound"
    return Record(
        verdict, f"exponents N {n:.2f}, D {d:.2f}, H {abs(h):.2f} (at fixed D)", note=note
    )


@rule
def m8(case: Case, pre: float, post: float) -> Record:
    """M8, gradients through depth. pre, post: largest over smallest norm of a layer's gradient."""
    below = HOLDS if post > case.even else HOLDS_IN_PART if pre < post else FAILS
    return Record(
        below if pre < case.even else FAILS,
        f"gradients of {case.depth} layers differ {pre:.1f} times with pre-LN, {post:.1f} times "
        "with post-LN",
        {"pre-LN": pre, "post-LN": post},
        "the rule as it was first written, and a poor one: it compares layers of one stack, not "
        "the last layer's gradient in stacks of several depths; at initialisation",
        **size(pre, "times", post),
    )


def _m9_before(case: Case, pre: float, post: float) -> str:
    above = (pre > case.alike, post > case.alike)
    if above == (True, False):
        return HOLDS
    return HOLDS_IN_PART if above == (True, True) or pre > post else FAILS


@replacing(_m9_before)
def m9(case: Case, pre: float, post: float) -> Record:
    """M9, representation collapse. pre, post: cosine between a last layer's input and output."""
    by_steps = float(np.sqrt(1 - 1 / case.depth))
    expected = abs(pre - by_steps) <= case.near
    return Record(
        UNDECIDED if expected else _m9_before(case, pre, post),
        f"cosine between input and output of the last layer {pre:.3f} with pre-LN, {post:.3f} "
        "with post-LN",
        {"pre-LN": pre, "post-LN": post},
        f"equal random steps alone give {by_steps:.3f}; trained layers would decide"
        if expected
        else "at initialisation: training may change it",
        **size(pre, "cosine", by_steps),
    )


@rule
def m10(case: Case, removed: Mapping[str, float]) -> Record:
    """M10, a decoder has half the parameters. removed: shares by what was counted."""
    return Record(
        graded(abs(share - 0.5) <= case.points for share in removed.values()),
        "removed: " + ", ".join(f"{share:.0%} ({what})" for what, share in removed.items()),
        dict(removed),
        **size(np.median(list(removed.values())), "of the parameters", n=len(removed)),
    )


@rule
def m11(case: Case, before: float, after: float, moved: float) -> Record:
    """M11, division by √|feat|. moved: how far a weight moves if |feat| is read as the model's."""
    even = abs(before - 0.5) <= case.error and abs(after) <= case.error
    return Record(
        HOLDS if even else FAILS,
        f"exponent {before:.2f} before, {after:z.2f} after",
        {"before": before, "after": after},
        f"|feat| must be that of a head: with the model's, a weight moves by up to {moved:.2f}",
        **size(after, "exponent", 0),
    )


@rule
def m13(case: Case, sums: Sequence[float], transposed: Sequence[float]) -> Record:
    """M13, normalised over columns. Sums of weights by output, as written and transposed."""
    off, other = (float(np.abs(np.asarray(x) - 1).max()) for x in (sums, transposed))
    verdict = HOLDS if off <= case.error else HOLDS_IN_PART if other <= case.error else FAILS
    return Record(
        verdict,
        f"weights of an output of A X sum to {min(sums):.2f} to {max(sums):.2f}; those of Aᵀ X are "
        f"off 1 by {other:.0e}",
        note="" if verdict == HOLDS else "the notes leave open which index is the query's",
        **size(off, "off 1", other),
    )
