"""The rules of the notes on transformer mathematics: a function a claim."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import above, at_least, at_most, below, is_true
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import claim
from lnattn_book.claims.measures import Measures
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import At, Effect, Parts, Rule, rule
from lnattn_book.studies.depth import ORDERS, turned_by_steps

# ---- Identities and arithmetic: what only a mistake can break ------------------------------------

m3 = Rule(
    "M3",
    lambda m, at: {"over rows": is_true(m.by_rows), "over columns": is_true(m.by_columns)},
)
m4 = Rule(
    "M4",
    lambda m, at: {
        "a valid bound": at_most(m.over, at.error),
        "a tight one": at_least(m.under, -at.error),
    },
    effect=Effect("h", unit="exponent of H", null=1),
)
m6 = Rule(
    "M6",
    lambda m, at: at_most(m.pre, at.error) & at_most(m.post, at.error) & at_most(m.both, at.error),
)
m7 = Rule("M7", lambda m, at: at_most(m.moved, at.moved), effect=Effect("moved", null=0))
m12 = Rule(
    "M12",
    lambda m, at: at_most(m.over_seq, at.moved),
    effect=Effect("over_seq", null="over_feat"),
)
m13 = Rule(
    "M13",
    lambda m, at: {
        "as written": at_most(m.off, at.error),
        "with the key first": at_most(m.transposed, at.error),
    },
    effect=Effect("off", unit="off 1", null="transposed"),
)
# share: of the operations of attention, at a context of so many tokens.
m14 = Rule(
    "M14",
    lambda m, at: above(m.share, at.share),
    effect=Effect("share", unit="of the operations", exact=True),
)
# scores, weights: of one map, how far from symmetric; two: scores of two maps.
m15 = Rule(
    "M15",
    lambda m, at: {
        "scores of one map": at_most(m.scores, at.error),
        "weights of one map": at_most(m.weights, at.error),
        "not with two maps": above(m.two, at.apart),
    },
    effect=Effect("weights", unit="from symmetric", null="two"),
)

# ---- What could fail -----------------------------------------------------------------------------


def exchanged(m: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """Each order in the other's place."""
    return {"pre": m.post, "post": m.pre}


@rule(
    "M8",
    effect=Effect("pre", unit="times", null="post", n="seeds"),
    null=NullModel("the two orders exchanged", exchanged, draws=1),
)
def m8(m: Measures, at: At) -> Parts:
    """Pre-LN keeps gradients even through many layers."""
    even = below(m.pre, at.even)
    return {
        "even with pre-LN, and more so than with post-LN": even & below(m.pre, m.post),
        "uneven with post-LN only": even & above(m.post, at.even),
    }


def likeness(at: At, pre: np.ndarray, post: np.ndarray) -> dict[str, Any]:
    """pre, post: cosine of the last layer's input and output, [seed], in either order."""
    return {
        "pre": Interval.bootstrap_median(pre),
        "less": Interval.bootstrap_median(np.subtract(pre, post)),
        "steps": (1 - 1 / at.depth) ** 0.5,
        "seeds": len(pre),
    }


def random_steps(
    generator: np.random.Generator, pre: np.ndarray, post: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Stacks as many and as deep, whose stages add random vectors of one size."""
    depth = claim("M16").rule["depth"]
    return tuple(
        np.array([turned_by_steps(order, depth, generator) for _ in range(len(pre))])
        for order in ORDERS
    )


@rule(
    "M16",
    measure=likeness,
    effect=Effect("pre", unit="cosine", null="steps", n="seeds"),
    null=NullModel("stages that add random vectors of one size", deal=random_steps, draws=20),
)
def m16(m: Measures, at: At) -> Parts:
    """Pre-LN could collapse representations, post-LN helps."""
    return {
        "less change than by steps of one size, with pre-LN": above(m.pre, m.steps + at.more),
        "more change with post-LN": above(m.less, at.less),
    }
