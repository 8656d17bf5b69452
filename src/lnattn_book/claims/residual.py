"""What the claims of the slides on circuits and the residual stream (R) are judged by.

R1 to R4 are identities: the book checks that its functions obey them to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.rules import Case, rule, stated
from lnattn_book.claims.verdicts import Between

r1, r2, r3, r4 = map(stated, ("R1", "R2", "R3", "R4"))


@rule
def r6(case: Case, tenth: np.ndarray, hundredth: np.ndarray) -> dict[str, Any]:
    """`lnattn.composition.exceedances` by the highest tenth and hundredth, [kind side layers]."""
    found = {
        f"{kind}_{name}": Between.resampled(*one[place].astype(np.float64))
        for name, one in (("tenth", tenth), ("hundredth", hundredth))
        for place, kind in enumerate("QK")
    }
    return {**found, "weakest": min(found.values(), key=lambda one: float(one.low))}


@rule
def r7(case: Case, one: np.ndarray, two: np.ndarray, tokens: np.ndarray) -> dict[str, Any]:
    """one, two: [document], how much the sum of losses rises without the paths through one head,
    without those through two; tokens: [document], how many losses were summed."""
    more = Between.resampled(one - two, tokens, case.draws)
    rises = {"one": one.sum() / tokens.sum(), "two": two.sum() / tokens.sum()}
    return {"more": more, **rises, "documents": len(one)}
