"""Is T^ee used where words or names are put together? What S7 and S8 share."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import is_true
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.rules import Decision, Measures, NotComputable, RuleContext
from lnattn_book.studies.ablation.losses import CLASSES, Ablations, interval


def measure_use(
    ablations: Ablations, specific: np.ndarray, of: str, tokens: int
) -> dict[str, Any] | NotComputable:
    """Excess losses without T^ee of all heads and of one; specific: AUROC less a wrong query's.

    of: the tokens that finish what others began; tokens: how many must have a match.
    """
    number = int(ablations.tokens[0, list(CLASSES).index(of), 1])
    if number < tokens:
        return NotComputable(f"{number} {of} with a match")
    head = int(specific.argmax())
    return {
        "whole": Interval(*interval(ablations.excess("ee", of=of, head=-1))),
        "alone": Interval(*interval(ablations.excess("ee", of=of, head=head))),
        "pairs": Interval(*interval(ablations.excess("pairs", of=of))),
        "tokens": number,
        "head": f"{head}",
    }


def decide_use(measures: Measures, context: RuleContext) -> Decision:
    """An interval that holds 0 is no difference seen, and is not said to be open."""
    whole = measures["whole"]
    alone = measures["alone"]
    lost = bool(whole.low > 0)
    much = lost and bool(alone.low > 0) and whole.value >= context["nats"]
    return Decision(
        {
            "without all heads' pairs more is lost": is_true(lost),
            "much, and in the head that knows most": is_true(much),
        },
        not_seen=bool(whole.high >= 0),
        more={"lost": lost, "much": much},
    )
