"""The rules of the slides on circuits and the residual stream: a function a claim."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from lnattn.stats import resampled_counts
from lnattn_book.claims.conditions import above, at_most
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.measures import Measures
from lnattn_book.claims.nulls import NullModel, flipped
from lnattn_book.claims.rules import At, Effect, Parts, Rule, rule

# ---- Identities: what only a mistake can break ---------------------------------------------------

r1 = Rule(
    "R1",
    lambda m, at: {
        "with the query bias beside it": at_most(m.error, at.error),
        "by the product alone": at_most(m.without_bias, at.moved),
    },
    effect=Effect("error", null="without_bias"),
)
r2 = Rule("R2", lambda m, at: at_most(m.error, at.error), effect=Effect("error", null=0))
r3 = Rule(
    "R3",
    lambda m, at: at_most(m.float64, at.float64) & at_most(m.float32, at.float32),
    effect=Effect("float64", null=0, n="parts"),
)
r4 = Rule(
    "R4",
    lambda m, at: at_most(m.attention_only, at.error) & at_most(m.complete, at.error),
    effect=Effect("attention_only", null=0),
)

# ---- What could fail -----------------------------------------------------------------------------


def composition(at: At, tenth: np.ndarray, hundredth: np.ndarray) -> dict[str, Any]:
    """`lnattn.composition.exceedances` by the highest tenth and hundredth, [kind side layers].

    Pairs of layers share them, so that layers are drawn and not pairs.
    """
    measures = {
        f"{kind}_{name}": ratio_by_layer(tail[place].astype(np.float64))
        for name, tail in (("tenth", tenth), ("hundredth", hundredth))
        for place, kind in enumerate("QK")
    }
    return {**measures, "weakest": min(measures.values(), key=lambda ratio: float(ratio.low))}


def ratio_by_layer(tail: Float[np.ndarray, "2 layers"], draws: int = 2000) -> Interval:
    """Usable pairs of heads over others, when layers are drawn anew.

    tail: of each two layers, in the order of `itertools.combinations`. A pair of layers is taken as
    often as both of them are drawn.
    """
    layers = round((1 + np.sqrt(1 + 8 * tail.shape[1])) / 2)
    first, second = np.triu_indices(layers, k=1)
    times = resampled_counts(layers, draws)
    usable, others = tail @ (times[:, first] * times[:, second]).T
    drawn = np.divide(usable, others, out=np.full(draws, np.inf), where=others > 0)
    low, high = np.quantile(drawn, (0.025, 0.975), method="closest_observation")
    return Interval(tail[0].sum() / tail[1].sum(), low, high)


def sides_exchanged(
    generator: np.random.Generator, tenth: np.ndarray, hundredth: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of each two layers, pairs that can compose and those that cannot, exchanged by chance."""
    swap = generator.random(tenth.shape[-1]) < 0.5
    return np.where(swap, tenth[:, ::-1], tenth), np.where(swap, hundredth[:, ::-1], hundredth)


@rule(
    "R6",
    measure=composition,
    effect=Effect("weakest", unit="times as many", null=1),
    null=NullModel(
        "which pairs can compose exchanged, two layers by two layers",
        deal=sides_exchanged,
        draws=60,
    ),
)
def r6(m: Measures, at: At) -> Parts:
    """Heads also compose through queries and keys."""
    return {
        "through keys": above(m.K_tenth, at.ratio) & above(m.K_hundredth, at.ratio),
        "through queries": above(m.Q_tenth, at.ratio) & above(m.Q_hundredth, at.ratio),
    }


def costs_of_paths(at: At, one: np.ndarray, two: np.ndarray, tokens: np.ndarray) -> dict[str, Any]:
    """one, two: [document], how much the sum of losses rises without the paths through one head,
    without those through two; tokens: [document], how many losses were summed."""
    more = Interval.bootstrap_ratio(one - two, tokens, at.draws)
    rises = {"one": one.sum() / tokens.sum(), "two": two.sum() / tokens.sum()}
    return {"more": more, **rises, "documents": len(one)}


def paths_exchanged(
    generator: np.random.Generator, one: np.ndarray, two: np.ndarray, tokens: np.ndarray
) -> tuple[np.ndarray, ...]:
    """What the two sorts of paths cost, exchanged with probability one half in each document."""
    return (*flipped(generator, one, two), tokens)


@rule(
    "R7",
    measure=costs_of_paths,
    effect=Effect("more", unit="nats a token", null=0, n="documents"),
    null=NullModel(
        "paths through one head and through two exchanged, text by text", deal=paths_exchanged
    ),
)
def r7(m: Measures, at: At) -> Parts:
    """A residual network is an ensemble of shallow ones."""
    return above(m.more, 0)
