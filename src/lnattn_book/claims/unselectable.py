"""The rules of the book's own claims on unselectable keys in all layers (chapter 11).

No paper states these. They were written, with their parameters in `book/claims.yml`, before any
deeper layer was asked.
"""

from __future__ import annotations

import numpy as np

from lnattn.selectability.layers import PROPERTIES, LayerVerdicts
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    Case,
    Change,
    Record,
    rule,
)

#: On which side of one half U2 expects each property.
_MORE = {"frequency": True, "position": True, "distance": False}
_WHY = (
    "keys inside the hull lie near its mean whatever they are of, so that a part of the verdict "
    "could not come out otherwise; and differences of no size counted"
)


@rule(
    "Share of unselectable keys in a head, over all windows. Holds if it is below {share:.0%} in "
    "every head of every layer; in part if in more than half of the heads; else fails."
)
def u1(case: Case, found: LayerVerdicts) -> Record:
    """U1, nearly every key can be selected."""
    shares = found.by_head()
    few = shares < case.share
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    return Record(
        HOLDS if few.all() else HOLDS_IN_PART if few.mean() > 0.5 else FAILS,
        f"{int(few.sum())} of {few.size} heads; at most {shares.max():.2%}, in head {head} of "
        f"layer {layer}, and {shares.mean():.3%} of all {found.unselectable[0].size:,} keys",
        {"heads": int(few.sum()), "most": shares.max(), "share": shares.mean()},
        short=f"{shares.max():.2%}",
    )


@rule(
    "Probability that an unselectable key has more of a property than a selectable one of the same "
    "head and window (AUROC), averaged over those that have both kinds. Holds if the 95 % interval "
    "over windows lies above one half by {size} or more for the token's frequency and for its "
    "position; in part if for one; else fails. That such keys lie near the mean is geometry, which "
    "Gaussian keys show more strongly, and is not judged. Not computable for fewer than {keys} "
    "unselectable keys.",
    "",
    Change("23 Nov 2026", _WHY, lambda case, found: _in_common_before(case, found, 0)),
)
def u2(case: Case, found: LayerVerdicts) -> Record:
    """U2, what unselectable keys have in common."""
    return _in_common(case, found, 0)


@rule(
    "As U2, for keys of which only the first quarter of a head's principal components is kept: "
    "holds if the AUROC's 95 % interval over windows lies above one half by {size} or more for "
    "frequency and for position; in part if for one; else fails. That such keys lie near the mean "
    "is geometry and is not judged. Not computable for fewer than {keys} unselectable keys.",
    "",
    Change("23 Nov 2026", _WHY, lambda case, found: _in_common_before(case, found, 1)),
)
def u3(case: Case, found: LayerVerdicts) -> Record:
    """U3, who would be lost first."""
    return _in_common(case, found, 1)


def _in_common_before(case: Case, found: LayerVerdicts, kept: int) -> str:
    if int(found.unselectable[kept].sum()) < case.keys:
        return NOT_COMPUTABLE
    as_said = [
        low > 0.5 if _MORE[name] else high < 0.5
        for name, (_, low, high) in zip(PROPERTIES, found.common(kept), strict=True)
    ]
    return HOLDS if all(as_said) else HOLDS_IN_PART if any(as_said) else FAILS


def _in_common(case: Case, found: LayerVerdicts, kept: int) -> Record:
    number = int(found.unselectable[kept].sum())
    if number < case.keys:
        few = f"{number} {'key is' if number == 1 else 'keys are'} unselectable"
        return Record(NOT_COMPUTABLE, few, {"keys": number})
    large, words, values = [], [], {}
    for name, (mean, low, high) in zip(PROPERTIES, found.common(kept), strict=True):
        if _MORE[name]:
            large.append(low >= 0.5 + case.size)
        words.append(f"{name} {mean:.2f} [{low:.2f}, {high:.2f}]")
        values[name] = mean
    return Record(
        HOLDS if all(large) else HOLDS_IN_PART if any(large) else FAILS,
        f"AUROC of more of a property: {', '.join(words)}; {found.unselectable[kept].mean():.1%} "
        f"of the keys, {number:,}",
        {**values, "keys": number},
    )
