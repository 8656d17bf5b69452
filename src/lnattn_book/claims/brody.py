"""The rules of Brody et al. 2023: a function a claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import binom, binomtest

from lnattn_book.claims.arms import (
    ARMS_EXCHANGED,
    PROJECTED,
    end_lead,
    of_arms,
    random_directions,
    turned_back,
)
from lnattn_book.claims.conditions import (
    above,
    at_least,
    at_most,
    below,
    each,
    equal,
    every,
    is_true,
)
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.measures import Measures
from lnattn_book.claims.nulls import NONE, UNTRAINED, NullModel
from lnattn_book.claims.rules import At, Decision, Effect, Parts, Rule, rule
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.majority.encoder import ARMS
from lnattn_book.studies.majority.long_runs import Estimate, Experiment, lag
from lnattn_book.studies.majority.train import angles_to_ones
from lnattn_book.studies.random_keys import RandomGrid
from lnattn_book.studies.unselectable_words import MarkedSentence

# ---- Identities and derivations: what only a mistake can break -----------------------------------


def projections(
    at: At, constructions: float, ranks: Mapping[int, int], apart: float
) -> dict[str, Any]:
    """constructions: difference of C and B diag(1, …, 1, 0) B⁻¹; ranks: of C by width; apart:
    largest difference from the reference LayerNorm."""
    full = all(rank == width - 1 for width, rank in ranks.items())
    return {"constructions": constructions, "apart": apart, "full": full, "widths": len(ranks)}


b1 = Rule(
    "B1",
    lambda m, at: is_true(m.full) & at_most(m.constructions, at.error) & at_most(m.apart, at.error),
    projections,
    effect=Effect("apart", null=0, n="widths"),
)
b2 = Rule(
    "B2",
    lambda m, at: equal(m.distinct, 2) & at_most(m.error, at.error),
    effect=Effect("error", null=0, n="points"),
)
b3 = Rule(
    "B3",
    lambda m, at: equal(m.proved, m.keys) & equal(m.wins, 0),
    effect=Effect("wins", unit="wins", n="queries"),
)


def neighbours_in_grid(at: At, grid: RandomGrid) -> dict[str, Any]:
    """grid: of keys without LayerNorm."""
    share = grid.fraction
    return {
        "rises": (np.diff(share, axis=0) >= -at.noise).mean(),
        "falls": (np.diff(share, axis=1) <= at.noise).mean(),
        "corner": Interval(*mean_and_interval(grid.unselectable[-1, 0] / grid.counts[-1])),
        "far": share[-1, -1],
        "draws": grid.unselectable.shape[2],
    }


b7 = Rule(
    "B7",
    lambda m, at: {
        "more with more keys": at_least(m.rises, at.cells),
        "fewer with more dimensions": at_least(m.falls, at.cells),
        "many in the corner": above(m.corner, at.many),
    },
    neighbours_in_grid,
    effect=Effect("corner", unit="of the keys", null="far", n="draws"),
)


def off_as_reported(at: At, counts: Sequence[int]) -> dict[str, Any]:
    """Numbers of parameters, of the models in the order in which the claim has them."""
    named = zip(counts, at.unit, at.reported, strict=True)
    off = np.array([round(count / unit) - reported for count, unit, reported in named])
    return {"off": off, "counts": ", ".join(f"{count:,}" for count in counts)}


b12 = Rule(
    "B12",
    lambda m, at: each(("majority", "language model", "sentiment"), equal(m.off, 0)),
    off_as_reported,
)
b14 = Rule(
    "B14",
    lambda m, at: {
        "even attention needs the projection": above(m.uneven, at.error),
        "selecting any key needs the scaling": above(m.bare, 0) & equal(m.scaled, 0),
    },
    effect=Effect("bare", unit="of the keys", null="scaled"),
)
b16 = Rule(
    "B16",
    lambda m, at: {
        "in the width of the model": below(m.layers, at.rest),
        "inside heads": below(m.heads, at.rest),
    },
    effect=Effect("heads", unit="of the share is left inside heads", null=1, n="windows"),
)


def rises_with_keys(
    at: At, gaussian: Callable[[int, int], float], heads: np.ndarray, with_scaling: np.ndarray
) -> dict[str, Any]:
    """gaussian: the share of n Gaussian keys of a width; heads, with_scaling: shares in heads of
    trained models, without the scaling and with it, [width n], NaN where nothing was asked."""
    fewest = gaussian(at.short, at.width)
    most = gaussian(at.long, at.width)
    return {
        "times": most / fewest,
        "fewest": fewest,
        "most": most,
        "least": np.nanmin(np.diff(heads, axis=1)),
        "with_scaling": np.nanmin(np.diff(with_scaling, axis=1)),
    }


b17 = Rule(
    "B17",
    lambda m, at: {
        "of Gaussian keys": at_least(m.times, at.times),
        "in heads of trained models": at_least(m.least, 0),
    },
    rises_with_keys,
    effect=Effect("most", unit="of the Gaussian keys", null="fewest", exact=True),
)

# ---- Majority ------------------------------------------------------------------------------------


def epochs_times(at: At, runs: Experiment, without: str) -> dict[str, Any]:
    """Epochs to each level over those with projection; without: the arm that has none."""
    levels = {f"{level:.0%}": {"accuracy": level} for level in at.accuracies}
    levels |= {f"loss {level:g}": {"loss": level} for level in at.losses}
    lags = {name: lag(runs, without, PROJECTED, **level) for name, level in levels.items()}
    reached = {name: ratio for name, ratio in lags.items() if ratio is not None}
    measures: dict[str, Any] = {
        "ratio": Interval.rows(list(reached.values())),
        "seeds": len(set(runs.of(without).seeds) & set(runs.of(PROJECTED).seeds)),
        "levels": len(reached),
    }
    return measures | {name: ratio.value for name, ratio in reached.items()}


@rule(
    "B4",
    measure=epochs_times,
    effect=Effect("ratio", unit="times the epochs (least level)", null=1, n="seeds", pick="least"),
    null=ARMS_EXCHANGED,
)
def b4(m: Measures, at: At) -> Decision:
    """With projection majority is learnt in a third of the steps."""
    return Decision(
        {
            "sooner with projection": every(above(m.ratio, 1)),
            "in half of the steps or fewer": every(above(m.ratio, at.times)),
        },
        needs={"more seeds": at_least(m.seeds, at.runs), "longer runs": at_least(m.levels, 1)},
    )


def fall_of_angles(at: At, runs: Experiment, without: str) -> dict[str, Any]:
    """How far the mean angle falls. without: the arm that has no projection."""
    angles = [runs.of(arm).angle for arm in (PROJECTED, without)]
    return of_arms(*(angle[:, 0] - angle[:, -1] for angle in angles))


@rule(
    "B5",
    measure=fall_of_angles,
    effect=Effect("with", unit="°", null="without", n="runs"),
    null=NullModel("each run forwards or backwards in time, by chance", deal=turned_back),
)
def b5(m: Measures, at: At) -> Decision:
    """Queries turn towards 1 with projection only."""
    return Decision(
        {
            "it falls with projection": above(m["with"], at.turn),
            "it does not without": below(m["without"], at.turn),
        },
        needs={"more runs of each arm": at_least(m.runs, at.runs)},
    )


def angles_of_queries(at: At, runs: Experiment, without: str) -> dict[str, Any]:
    """How far trained queries are from 1. without: the arm that has no projection."""
    queries = [runs.of(arm).queries for arm in (PROJECTED, without)]
    return of_arms(*(angles_to_ones(trained).mean(axis=1) for trained in queries))


@rule(
    "B6",
    measure=angles_of_queries,
    effect=Effect("with", unit="°", null=57.3, n="runs"),
    null=NullModel("queries in random directions", deal=random_directions),
)
def b6(m: Measures, at: At) -> Decision:
    """In three dimensions the trained queries are close to 1."""
    return Decision(
        {
            "close to 1 with projection": below(m["with"], at.near),
            "not close without": above(m["without"], at.near),
        },
        needs={"more runs of each arm": at_least(m.runs, at.runs)},
    )


def leads_of_others(at: At, runs: Experiment, other: str, several: Sequence[str]) -> dict[str, Any]:
    """other, several: names of the arms with another normal vector, and with several."""
    arms = (other, *several)
    leads = 100 * np.array([end_lead(runs, arm, PROJECTED) for arm in arms])
    return {
        "lead": Interval.rows(leads),
        "other": Interval(*leads[0]),
        "arms": ", ".join(ARMS[arm].title.split(",")[0] for arm in arms),
        "seeds": len(runs.of(other).seeds),
    }


@rule(
    "B13",
    measure=leads_of_others,
    effect=Effect("other", unit="points", null=0, n="seeds"),
    null=NONE,
)
def b13(m: Measures, at: At) -> Decision:
    """Asked, not claimed: does another normal vector do as well?"""
    return Decision(
        {
            "another vector does as well": above(m.other, -at.much),
            "so do several": every(above(m.lead, -at.much)),
        },
        needs={"more seeds": at_least(m.seeds, at.runs)},
    )


def narrow_and_wide(at: At, ratios: Mapping[int, Estimate | float], seeds: int) -> dict[str, Any]:
    """ratios: epochs without the projection over those with it, by width, at equal norm."""
    widths = sorted(ratios)
    narrow = Interval.of(ratios[widths[0]])
    wide = [Interval.of(ratios[width]) for width in widths[1:]]
    return {"narrow": narrow, "wide": Interval.rows(wide), "widths": len(ratios), "seeds": seeds}


@rule(
    "B15",
    measure=narrow_and_wide,
    effect=Effect("narrow", unit="times at the smallest width", null=1, n="seeds"),
    null=NONE,
)
def b15(m: Measures, at: At) -> Decision:
    """Wider models depend less on the projection."""
    return Decision(
        {
            "at the paper's width it helps": above(m.narrow, at.times),
            "at larger widths it does not help": every(below(m.wide, at.times)),
        },
        needs={
            "more widths": at_least(m.widths, at.widths),
            "more seeds": at_least(m.seeds, at.runs),
        },
    )


# ---- Unselectable keys ---------------------------------------------------------------------------


def shares_by_layer(
    at: At, exact: np.ndarray, searched: np.ndarray | None = None
) -> dict[str, Any]:
    """exact: shares [seed layer]; searched: as the papers count, [layer]."""
    by_layer = Interval.rows([mean_and_interval(layer) for layer in exact.T])
    reported = np.array(at.reported) / 100
    measures: dict[str, Any] = {
        "share": by_layer,
        "part": Interval(*(np.asarray(end) / reported for end in by_layer)),
        "seeds": len(exact),
        "apart": float(100 * np.abs(by_layer.value - reported).max()),
        "by_search": "",
    }
    if searched is not None:
        listed = ", ".join(f"{100 * share:.1f}" for share in searched)
        measures["by_search"] = f"; by the papers' search {listed} %"
    shares = enumerate(by_layer.value, start=1)
    return measures | {f"layer_{n}": 100 * share for n, share in shares}


OF_THE_KEYS = Effect("share", unit="of the keys (least layer)", null=0, n="seeds", pick="least")


@rule("B8", measure=shares_by_layer, effect=OF_THE_KEYS, null=UNTRAINED)
def b8(m: Measures, at: At) -> Parts:
    """Without scaling a language model has unselectable keys in every layer."""
    return {
        "in every layer": every(at_least(m.share, at.some)),
        "half as many as reported, or more": every(at_least(m.part, at.half)),
    }


#: Before the LayerNorm keys are unselectable, after it none.
b9 = Rule("B9", b8.decide, shares_by_layer, effect=OF_THE_KEYS, null=UNTRAINED)


def losses_apart(
    at: At, held_out: np.ndarray, training: np.ndarray, tokens: float, rates: int
) -> dict[str, Any]:
    """held_out, training: [pair 2], with scaling and without, in nats a token; tokens: seen, as a
    share of the paper's; rates: learning rates tried for each arm."""
    return {
        "held_out": Interval(*mean_and_interval(held_out[:, 1] - held_out[:, 0])),
        "training": Interval(*mean_and_interval(training[:, 1] - training[:, 0])),
        "tokens": tokens,
        "rates": rates,
        "pairs": len(held_out),
    }


def pairs_exchanged(
    generator: np.random.Generator, held_out: np.ndarray, training: np.ndarray, *settings: Any
) -> tuple[Any, ...]:
    """Both losses of a pair exchanged, with probability one half."""
    swap = generator.random((len(held_out), 1)) < 0.5
    losses = (np.where(swap, loss[:, ::-1], loss) for loss in (held_out, training))
    return (*losses, *settings)


@rule(
    "B10",
    measure=losses_apart,
    effect=Effect("held_out", unit="nats a token", null=0, n="pairs"),
    null=NullModel("the two arms exchanged, pair by pair", deal=pairs_exchanged),
)
def b10(m: Measures, at: At) -> Decision:
    """With scaling the language model's loss is lower."""
    return Decision(
        {"held out": above(m.held_out, 0), "in training": above(m.training, 0)},
        needs={
            "more tokens": at_least(m.tokens, at.tokens),
            "more learning rates": at_least(m.rates, at.rates),
            "more pairs": at_least(m.pairs, at.pairs),
        },
    )


def luck_of(lost: int, words: int, base: float) -> float:
    """How likely chance loses so many words or more; of no word, how likely it loses none."""
    return float(binom.sf(lost - 1, words, base) if lost else binom.pmf(0, words, base))


def marked_words(at: At, sentences: Sequence[MarkedSentence], base: float) -> dict[str, Any]:
    """base: share of all tokens that are unselectable in some layer."""
    marked = [
        exact
        for sentence in sentences
        for exact, bold in zip(sentence.exact, sentence.bold, strict=True)
        if bold
    ]
    lost = int(sum(marked))
    words = len(marked)
    ends = binomtest(lost, words).proportion_ci()
    return {
        "luck": luck_of(lost, words, base),
        "marked": Interval(lost, words * ends.low, words * ends.high),
        "lost": lost,
        "words": words,
        "base": base,
        "expected": base * words,
    }


def lost_by_luck(m: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """As many words, lost as any token is."""
    lost = int(generator.binomial(m.words, m.base))
    return {"lost": lost, "luck": luck_of(lost, m.words, m.base)}


@rule(
    "B11",
    measure=marked_words,
    effect=Effect("marked", unit="marked words", null="expected", n="words"),
    null=NullModel("words that are lost as any token is", lost_by_luck),
)
def b11(m: Measures, at: At) -> Decision:
    """Words that decide a sentiment can be unselectable."""
    can = float(m.lost > 0) if m.luck < at.p else 0.5
    return Decision(is_true(can), can=can)
