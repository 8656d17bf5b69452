"""The rules of the book's own claims on unselectable keys in all layers (chapter 11).

No paper states these. They were written, with their parameters in `book/claims.yml`, before any
deeper layer was asked.
"""

from __future__ import annotations

import numpy as np

from lnattn.selectability.layers import PROPERTIES, LayerVerdicts
from lnattn_book.claims.verdicts import Case, Record, replacing, rule, size
from lnattn_book.claims.words import FAILS, HOLDS, HOLDS_IN_PART, NOT_COMPUTABLE, graded

#: On which side of one half U2 expects each property.
_MORE = {"frequency": True, "position": True, "distance": False}


@rule
def u1(case: Case, found: LayerVerdicts) -> Record:
    """U1, nearly every key can be selected."""
    shares = found.by_head()
    few = shares < case.share
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    most = f"at most {shares.max():.2%}, in head {head} of layer {layer}, and {shares.mean():.3%}"
    lost = most if shares.any() else "none"
    return Record(
        HOLDS if few.all() else HOLDS_IN_PART if few.mean() > 0.5 else FAILS,
        f"{int(few.sum())} of {few.size} heads; {lost} of all {found.unselectable[0].size:,} keys",
        {"heads": int(few.sum()), "most": shares.max(), "share": shares.mean()},
        short=f"{shares.max():.2%}",
        **size(shares.mean(), "of the keys", n=found.unselectable[0].size),
    )


def _in_common_before(case: Case, found: LayerVerdicts, kept: int) -> str:
    if int(found.unselectable[kept].sum()) < case.keys:
        return NOT_COMPUTABLE
    as_said = [
        low > 0.5 if _MORE[name] else high < 0.5
        for name, (_, low, high) in zip(PROPERTIES, found.common(kept), strict=True)
    ]
    return graded(as_said)


@replacing(lambda case, found: _in_common_before(case, found, 0))
def u2(case: Case, found: LayerVerdicts) -> Record:
    """U2, what unselectable keys have in common."""
    return _in_common(case, found, 0)


@replacing(lambda case, found: _in_common_before(case, found, 1))
def u3(case: Case, found: LayerVerdicts) -> Record:
    """U3, who would be lost first: unselectable in a quarter of the dimensions."""
    return _in_common(case, found, 1)


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
        graded(large),
        f"AUROC of more of a property: {', '.join(words)}; {found.unselectable[kept].mean():.1%} "
        f"of the keys, {number:,}",
        {**values, "keys": number},
        **size(found.common(kept)[0], "AUROC of frequency", 0.5, number),
    )
