"""B9: before the LayerNorm keys are unselectable, after it none."""

from __future__ import annotations

import numpy as np

from lnattn_book.claims.b08 import decide as decide_b8
from lnattn_book.claims.b08 import measure as measure_b8
from lnattn_book.claims.nulls import UNTRAINED
from lnattn_book.claims.rules import Effect, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def trials() -> list[Trial]:
    shares = np.array([[0.5, 0.4, 0.4, 0.4], [0.52, 0.42, 0.42, 0.42]])
    return [
        Trial("holds", HOLDS, (shares,)),
        Trial("fails", FAILS, (0 * shares,)),
    ]


b9 = register_rule(
    "B9",
    measure_b8,
    decide_b8,
    effect=Effect("share", unit="of the keys (least layer)", null=0, n="seeds", pick="least"),
    null_model=UNTRAINED,
    trials=trials,
)
