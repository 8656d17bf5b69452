"""What the claims of the slides on circuits and the residual stream (R) are judged by.

R1 to R4 are identities: the book checks that its functions obey them to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn.contribution.study import bootstrapped_means
from lnattn_book.claims.rules import Case, rule, stated
from lnattn_book.claims.verdicts import Between

r1, r2, r3, r4 = map(stated, ("R1", "R2", "R3", "R4"))


@rule
def r6(case: Case, tenth: dict[str, float], hundredth: dict[str, float]) -> dict[str, Any]:
    """By 'Q' and 'K': how many times as often usable pairs of heads reach the score that a tenth,
    and a hundredth, of the impossible pairs reach."""
    return {f"{kind}": min(tenth[kind], hundredth[kind]) for kind in "QK"} | {
        "tenth": np.array([tenth[kind] for kind in "QK"]),
        "hundredth": np.array([hundredth[kind] for kind in "QK"]),
    }


@rule
def r7(case: Case, one: np.ndarray, two: np.ndarray, tokens: np.ndarray) -> dict[str, Any]:
    """one, two: [document], how much the sum of losses rises without the paths through one head,
    without those through two; tokens: [document], how many losses were summed."""
    sums, rows = np.stack([one, two], axis=1), np.stack([tokens, tokens], axis=1)
    rises = sums.sum(axis=0) / tokens.sum()
    drawn = bootstrapped_means(sums, rows, case.draws)
    low, high = np.quantile(drawn[:, 0] - drawn[:, 1], (0.025, 0.975))
    more = Between(rises[0] - rises[1], low, high)
    return {"more": more, "one": rises[0], "two": rises[1], "documents": len(one)}
