"""The rules of the book's own claims on unselectable keys in all layers (chapter 11).

No paper states these. They were written, with their parameters in `book/claims.yml`, before any
deeper layer was asked.
"""

from __future__ import annotations

import numpy as np

from lnattn.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    Case,
    Outcome,
    rule,
)
from lnattn.studies.selectability.layers import PROPERTIES, LayerVerdicts

#: On which side of one half U2 expects each property.
_MORE = {"frequency": True, "position": True, "distance": False}


@rule(
    "Share of unselectable keys in a head, over all windows. Holds if it is below {share:.0%} in "
    "every head of every layer; in part if in more than half of the heads; else fails."
)
def u1(case: Case, found: LayerVerdicts) -> Outcome:
    """U1, nearly every key can be selected."""
    shares = found.by_head()
    few = shares < case.share
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    return Outcome(
        HOLDS if few.all() else HOLDS_IN_PART if few.mean() > 0.5 else FAILS,
        f"{int(few.sum())} of {few.size} heads; at most {shares.max():.2%}, in head {head} of "
        f"layer {layer}, and {shares.mean():.3%} of all {found.unselectable[0].size:,} keys",
        {"heads": int(few.sum()), "most": shares.max(), "share": shares.mean()},
        short=f"{shares.max():.2%}",
    )


@rule(
    "Probability that an unselectable key has more of a property than a selectable one of the same "
    "head and window (AUROC), averaged over those that have both kinds. Holds if the 95 % interval "
    "over windows lies above one half for the token's frequency and for its position, and below "
    "it for the distance from the mean key; in part if so for one or two; else fails. Not "
    "computable for fewer than {keys} unselectable keys."
)
def u2(case: Case, found: LayerVerdicts) -> Outcome:
    """U2, what unselectable keys have in common."""
    return _in_common(case, found, 0)


@rule(
    "As U2, for keys of which only the first quarter of a head's principal components is kept: "
    "holds if the AUROC's 95 % interval over windows lies above one half for frequency and for "
    "position, and below it for the distance from the mean key; in part if so for one or two; "
    "else fails. Not computable for fewer than {keys} unselectable keys."
)
def u3(case: Case, found: LayerVerdicts) -> Outcome:
    """U3, who would be lost first."""
    return _in_common(case, found, 1)


def _in_common(case: Case, found: LayerVerdicts, kept: int) -> Outcome:
    number = int(found.unselectable[kept].sum())
    if number < case.keys:
        few = f"{number} {'key is' if number == 1 else 'keys are'} unselectable"
        return Outcome(NOT_COMPUTABLE, few, {"keys": number})
    as_said, words, values = [], [], {}
    for name, (mean, low, high) in zip(PROPERTIES, found.common(kept), strict=True):
        as_said.append(low > 0.5 if _MORE[name] else high < 0.5)
        words.append(f"{name} {mean:.2f} [{low:.2f}, {high:.2f}]")
        values[name] = mean
    return Outcome(
        HOLDS if all(as_said) else HOLDS_IN_PART if any(as_said) else FAILS,
        f"AUROC of more of a property: {', '.join(words)}; {found.unselectable[kept].mean():.1%} "
        f"of the keys, {number:,}",
        {**values, "keys": number},
    )
