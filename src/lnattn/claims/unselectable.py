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
    shares = found.unselectable.mean(axis=(2, 3))
    few = shares < case.share
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    return Outcome(
        HOLDS if few.all() else HOLDS_IN_PART if few.mean() > 0.5 else FAILS,
        f"{int(few.sum())} of {few.size} heads; at most {shares.max():.2%}, in head {head} of "
        f"layer {layer}, and {shares.mean():.3%} of all {found.unselectable.size:,} keys",
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
    number = int(found.unselectable.sum())
    if number < case.keys:
        keys = "key is" if number == 1 else "keys are"
        return Outcome(NOT_COMPUTABLE, f"{number} {keys} unselectable", {"keys": number})
    as_said, words, values = [], [], {}
    for name, (mean, low, high) in zip(PROPERTIES, found.common(), strict=True):
        as_said.append(low > 0.5 if _MORE[name] else high < 0.5)
        words.append(f"{name} {mean:.2f} [{low:.2f}, {high:.2f}]")
        values[name] = mean
    verdict = HOLDS if all(as_said) else HOLDS_IN_PART if any(as_said) else FAILS
    return Outcome(
        verdict,
        f"AUROC of more of a property: {', '.join(words)}; {number:,} unselectable keys",
        {**values, "keys": number},
    )
