"""The claims of the notes on transformer mathematics (M), judged by results as they are.

Most of them are identities. The book checks that its functions obey them to rounding, and that a
statement which is wrong as written fails. Names of the results are in `book/claims.yml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lnattn_book.claims.rules import Case, rule, stated

m3, m6, m7, m8, m12, m14 = map(stated, ("M3", "M6", "M7", "M8", "M12", "M14"))


@rule
def m4(case: Case, n: float, d: float, h: float) -> dict[str, Any]:
    """Exponents in N, D and H, at fixed D for H, beside those of the bound."""
    beyond = n - 2, d - 1, h - 1
    return {"over": max(beyond), "under": min(beyond), "h": h}


@rule
def m13(case: Case, sums: Sequence[float], transposed: Sequence[float]) -> dict[str, Any]:
    """Sums of weights by output, as written and transposed."""
    off, other = (float(np.abs(np.asarray(x) - 1).max()) for x in (sums, transposed))
    return {"off": off, "transposed": other}
