"""S7: a model uses token pairs to put split words together."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Effect, NotComputable, RuleContext, register_rule
from lnattn_book.claims.use import decide_use, measure_use
from lnattn_book.studies.ablation.losses import Ablations


def measure(
    context: RuleContext, ablations: Ablations, specific: np.ndarray
) -> dict[str, Any] | NotComputable:
    """Is T^ee used where words are put together? specific: AUROC less a wrong query's [head]."""
    return measure_use(ablations, specific, "second pieces", context["tokens"])


#: What learnt nothing.
NULL = noise_around("as much lost after matched tokens", {"whole": 0.0, "alone": 0.0})

s7 = register_rule(
    "S7",
    measure,
    decide_use,
    effect=Effect("whole", unit="nats", null=0, n="tokens"),
    null_model=NULL,
)
