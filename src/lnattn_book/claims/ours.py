"""The rules of this book, which no paper states: a function a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from lnattn.affinity.by_distance import DistanceGrid
from lnattn.affinity.subwords import TOPS, PieceRule, Subwords, TokenClasses
from lnattn.errors import ResultError
from lnattn.stats import bootstrap_means
from lnattn_book.claims.arms import ARMS_EXCHANGED, PROJECTED, measure_leads
from lnattn_book.claims.conditions import (
    above,
    any_of,
    at_least,
    at_most,
    below,
    each,
    every,
    is_true,
    most,
)
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import claim
from lnattn_book.claims.measures import Detail, Measures
from lnattn_book.claims.nulls import NONE, NullModel, flipped
from lnattn_book.claims.rules import (
    At,
    Decision,
    Effect,
    NotComputable,
    Parts,
    rule,
)
from lnattn_book.studies.ablation.losses import Ablations, interval
from lnattn_book.studies.joining_runs import JoiningRuns
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.layers_above import LayersAbove
from lnattn_book.studies.majority.long_runs import Experiment

# ---- Pieces of words -----------------------------------------------------------------------------


def piece_rule(classes: TokenClasses) -> PieceRule:
    """Which pieces are asked about in a vocabulary of this kind, as claim S1 says."""
    given = claim("S1").rule
    least, share = given["wordpiece" if classes.wordpiece else "byte_level"]
    return PieceRule(int(least), float(share))


def predecessors_found(at: At, subwords: Subwords) -> dict[str, Any] | NotComputable:
    """subwords: ranks of the main predecessors of pieces."""
    n = len(subwords.pieces)
    if n < at.pieces:
        return NotComputable(f"{n} {'piece fits' if n == 1 else 'pieces fit'} the rule")
    best = subwords.table(at.rank).loc["best"]
    share = Interval(*(float(best[name]) for name in ("found", "low", "high")))
    chance = float(best["chance"])
    return {
        "share": share,
        "found": share.value,
        "chance": chance,
        "band": float(best["chance high"]),
        "times": Interval(*(end / chance for end in share)),
        "pieces": n,
        "head": Detail(int(subwords.heads_of(at.rank).argmax())),
        "by_chance": Detail(subwords.chance[TOPS.index(at.rank), :, -1]),
    }


def exchanged_pieces(m: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """The share that is found in one of the draws in which pieces changed places."""
    share = float(generator.choice(m.by_chance))
    ends = binomtest(round(share * m.pieces), m.pieces).proportion_ci(method="wilson")
    return {"found": share, "times": Interval(*np.array([share, ends.low, ends.high]) / m.chance)}


@rule(
    "S1",
    measure=predecessors_found,
    effect=Effect("share", unit="of the pieces", null="chance", n="pieces"),
    null=NullModel("the pieces change places", exchanged_pieces),
    not_seen=True,
)
def s1(m: Measures, at: At) -> Parts:
    """A piece's main predecessor is among its best keys."""
    return {
        "more than chance": above(m.found, m.band),
        "many times chance": at_least(m.times, at.times),
    }


def lost_after_pieces(
    at: At, ablations: Ablations, specific: np.ndarray
) -> dict[str, Any] | NotComputable:
    """Excess losses without T^ee of all heads and of one.

    specific: AUROC less a wrong query's [head], which says of which.
    """
    pieces = int(ablations.tokens[0, 0, 1])
    if pieces < at.tokens:
        return NotComputable(f"{pieces} second pieces with a match")
    head = int(specific.argmax())
    return {
        "whole": Interval(*interval(ablations.excess("ee", head=-1))),
        "alone": Interval(*interval(ablations.excess("ee", head=head))),
        "pairs": Interval(*interval(ablations.excess("pairs"))),
        "tokens": pieces,
        "head": Detail(head),
    }


@rule(
    "S7",
    measure=lost_after_pieces,
    effect=Effect("whole", unit="nats", null=0, n="tokens"),
    null=NONE,
)
def s7(m: Measures, at: At) -> Decision:
    """A model uses token pairs to put split words together.

    An interval that holds 0 leaves open whether anything is lost.
    """
    lost = above(m.whole, 0)
    much = lost & above(m.alone, 0)
    if lost.values == 1 and m.whole.value < at.nats:
        much = is_true(False)
    return Decision(
        {
            "without all heads' pairs more is lost": lost,
            "much, and in the head that knows most": much,
        },
        lost=float(lost.values),
        much=float(much.values),
    )


def lost_where_most_join(
    at: At, joining: JoiningRuns, beside: JoiningRuns | None = None
) -> dict[str, Any] | NotComputable:
    """Losses of models that join pieces, at the snapshots where they do most.

    beside: models of which some join at no snapshot, with their losses at each.
    """
    seeds = len(joining.peaks())
    shares = joining.shares()
    if seeds < at.seeds:
        longest = shares.loc[shares["tokens trained"].idxmax()]
        return NotComputable(
            f"{seeds} of {shares.index.unique('seed').size} models join pieces; after "
            f"{longest['tokens trained'] / 1e6:.1f} million tokens {longest['found']:.1%} are "
            f"found, by chance up to {longest['chance high']:.1%}"
        )
    every_head = joining.of("after", "ee")
    joining_head = joining.of("after", "ee", "joining")
    return {
        "whole": Interval(*mean_and_interval(every_head["value"].to_numpy(), at.level)),
        "alone": joining_head["value"].to_numpy(),
        "alone_low": Detail(joining_head["low"].to_numpy()),
        "seeds": seeds,
        "level": Detail(at.level),
        "beside": Detail(_lost_without_joining(beside)),
    }


def _lost_without_joining(joining: JoiningRuns | None) -> np.ndarray | None:
    """Of seeds that join at no snapshot, value and low of what is lost at each, [snapshot 2]."""
    if joining is None:
        return None
    lost = joining.lost.query("measure == 'after' and removed == 'ee' and head == -1")
    return lost[~lost["seed"].isin(joining.peaks().index)][["value", "low"]].to_numpy()


def seeds_that_do_not_join(m: Measures, generator: np.random.Generator) -> dict[str, Any] | None:
    """As many snapshots of models that do not join."""
    if m.beside is None:
        return None
    picked = m.beside[generator.choice(len(m.beside), size=len(m.alone_low), replace=False)]
    return {
        "whole": Interval(*mean_and_interval(picked[:, 0], m.level)),
        "alone_low": picked[:, 1],
    }


@rule(
    "S11",
    measure=lost_where_most_join,
    effect=Effect("whole", unit="nats", null=0, n="seeds"),
    null=NullModel("snapshots of seeds that do not join", seeds_that_do_not_join),
)
def s11(m: Measures, at: At) -> Decision:
    """A first layer that joins pieces is used for it."""
    lost = 1.0 if m.whole.low > 0 else 0.0 if m.whole.high < at.nats else 0.5
    in_every_seed = bool((m.alone_low > 0).all())
    much = m.whole.value >= at.nats and in_every_seed
    in_head = float(much) if lost == 1 else lost
    return Decision(
        {
            "without all heads' pairs more is lost": is_true(lost),
            "much, and in the head that joins most": is_true(in_head),
        },
        lost=lost,
        much=in_head,
    )


# ---- Layers above the first ----------------------------------------------------------------------


def joined_by_layer(at: At, tables: LayersAbove) -> dict[str, Any]:
    """Of the queries without their mean, layer by layer above the first."""
    is_found = tables.found[0].astype(float)
    chance = tables.chance[0]
    by_luck = chance.mean(axis=1)
    excess = is_found - by_luck[:, None]
    shares = Interval.rows(bootstrap_means(is_found[1:])).bonferroni()
    band = np.quantile(chance[1:], 1 - 0.025 / max(len(is_found) - 1, 1), axis=1)
    return {
        "times": Interval(*(np.asarray(end) / by_luck[1:] for end in shares)),
        "beyond": Interval.of(shares.value - band),
        "more": Interval.rows(bootstrap_means(excess[1:] - excess[0])).bonferroni(),
        "first": float(excess[0].mean()),
        "pieces": is_found.shape[1],
        "layer": Detail(1 + int(np.argmax(excess[1:].mean(axis=1)))),
    }


@rule(
    "S13",
    measure=joined_by_layer,
    effect=Effect("more", unit="of the pieces (best layer)", null=0, n="pieces", pick="largest"),
    null=NullModel("the same embeddings; the entries of each block's weights in random order"),
)
def s13(m: Measures, at: At) -> Parts:
    """Layers above the first join pieces, too."""
    many = at_least(m.times, at.times)
    return {
        "a layer above joins": any_of(many & above(m.beyond, 0)),
        "it joins more than the first": any_of(above(m.more, 0)),
    }


def said_by_lone_tokens(at: At, tables: LayersAbove) -> dict[str, Any]:
    """Shares of the variance in text, layer by layer above the first, over windows."""
    return share_of_variance(tables.far, tables.spread)


def share_of_variance(far: np.ndarray, spread: np.ndarray) -> dict[str, Any]:
    """far, spread: [window layer]."""
    left = Interval.bootstrap_ratio(far[:, 1:], spread[:, 1:])
    share = Interval(1 - left.value, 1 - left.high, 1 - left.low).bonferroni()
    return {"share": share, "windows": len(far)}


@rule(
    "S14",
    measure=said_by_lone_tokens,
    effect=Effect("share", unit="of the variance (least layer)", null=0, n="windows", pick="least"),
    null=NullModel("the lone vector of another token of the same text, at the same position"),
)
def s14(m: Measures, at: At) -> Parts:
    """What a token brings alone is most of what reaches a layer."""
    alone = above(m.share, at.share)
    return {"in some layer": any_of(alone), "in every layer": every(alone)}


# ---- Rotary positions ----------------------------------------------------------------------------


def skill_one_apart(at: At, grid: DistanceGrid) -> dict[str, Any]:
    """By head: AUROC of a query for the token one before it, less that of a wrong query."""
    return {"skill": Interval.rows(grid.interval()).bonferroni()}


def queries_exchanged(generator: np.random.Generator, grid: DistanceGrid) -> tuple[DistanceGrid]:
    """Each query and the wrong one beside it, exchanged with probability one half."""
    stay = generator.random(grid.own.shape[-1]) < 0.5
    own = np.where(stay, grid.own, grid.wrong)
    return (replace(grid, own=own, wrong=np.where(stay, grid.wrong, grid.own)),)


@rule(
    "D1",
    measure=skill_one_apart,
    effect=Effect("skill", unit="AUROC (best head)", null=0, pick="largest"),
    null=NullModel(
        "each query exchanged with a wrong one, by chance", deal=queries_exchanged, draws=40
    ),
    not_seen=True,
)
def d1(m: Measures, at: At) -> Parts:
    """A rotary first layer looks for the token before."""
    return {
        "some head knows": any_of(above(m.skill, 0)),
        "some head knows much": any_of(at_least(m.skill, at.skill)),
    }


def near_by_distance(at: At, share: np.ndarray, null: np.ndarray) -> dict[str, Any]:
    """share, null: [head], of attention by distance alone on the nearest keys."""
    even = at.near / at.context
    return {"times_even": share / even, "null": null / even, "usual": np.median(null) / even}


def measured_beside(m: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """The same model with its heads in random order, which was measured beside it."""
    return {"times_even": m.null}


@rule(
    "D3",
    measure=near_by_distance,
    effect=Effect(
        "times_even", unit="times the even share (median head)", null="usual", exact=True
    ),
    null=NullModel("the same model, heads in random order", measured_beside, draws=1),
)
def d3(m: Measures, at: At) -> Parts:
    """Distance alone favours near keys."""
    near = at_least(m.times_even, at.times)
    return {"some head": any_of(near), "every head": every(near)}


def twins_apart(at: At, rotary: np.ndarray, learned: np.ndarray) -> dict[str, Any]:
    """rotary, learned: skill of the best head of two models alike but for positions, [seed]."""
    more = Interval(*mean_and_interval(rotary - learned, at.level))
    return {"more": more, "pairs": len(rotary)}


def kinds_exchanged(
    generator: np.random.Generator, rotary: np.ndarray, learned: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The two of a pair, exchanged with probability one half."""
    return flipped(generator, rotary, learned)


@rule(
    "D5",
    measure=twins_apart,
    effect=Effect("more", unit="AUROC", null=0, n="pairs"),
    null=NullModel("the two kinds exchanged, pair by pair", deal=kinds_exchanged),
)
def d5(m: Measures, at: At) -> Decision:
    """Rotary positions leave more to words in the first layer."""
    return Decision(above(m.more, 0), needs={"more pairs": at_least(m.pairs, at.pairs)})


# ---- Normalisation and keys ----------------------------------------------------------------------


def lead_of_projection(at: At, runs: Experiment, other: str = "rms") -> dict[str, Any]:
    """runs: every arm at its best rate and scale."""
    return measure_leads(runs, [(other, PROJECTED)])


@rule(
    "N1",
    measure=lead_of_projection,
    effect=Effect("lead", unit="points (least pair)", null=0, n="seeds", pick="least"),
    null=ARMS_EXCHANGED,
)
def n1(m: Measures, at: At) -> Decision:
    """Majority is learnt better with the projection, at equal norm."""
    return Decision(every(above(m.lead, 0)), needs={"more seeds": at_least(m.seeds, at.runs)})


def along_1(at: At, table: pd.DataFrame) -> dict[str, Any]:
    """table: columns `along`, `low`; a row a matrix that only writes. `times`: A over chance or
    chance over A, whichever is larger."""
    if table.empty:
        raise ResultError("no matrix that only writes was given.")
    below_chance = (table["along"] < table["low"]).to_numpy()
    mean = float(np.exp(np.log(table["along"]).mean()))
    return {
        "below": below_chance,
        "share": below_chance.mean(),
        "times": max(mean, 1 / mean),
        "along": table["along"].to_numpy(),
        "mean": mean,
        "matrices": len(table),
    }


def random_signs(m: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """Directions of random signs, of which a fortieth lies below the tail."""
    return {"below": generator.random(m.matrices) < 0.025}


@rule(
    "N7",
    measure=along_1,
    effect=Effect("mean", unit="A (geometric mean)", null=1, n="matrices", exact=True),
    null=NullModel("a direction of random signs in place of 1", random_signs),
)
def n7(m: Measures, at: At) -> Parts:
    """Models that centre write less along 1 than chance."""
    below_chance = is_true(m.below)
    return {"in most matrices": most(below_chance), "in every one": every(below_chance)}


def along_1_beside(
    at: At, table: pd.DataFrame, centring: Sequence[pd.DataFrame] = ()
) -> dict[str, Any]:
    """centring: the same tables of models whose readers centre."""
    return {**along_1(at, table), "centring": Detail([along_1(at, other) for other in centring])}


def one_that_centres(m: Measures, generator: np.random.Generator) -> dict[str, Any] | None:
    """One of the models whose readers centre."""
    return dict(m.centring[int(generator.integers(len(m.centring)))]) if m.centring else None


@rule(
    "N8",
    measure=along_1_beside,
    effect=Effect("mean", unit="A (geometric mean)", null=1, n="matrices", exact=True),
    null=NullModel("the models whose readers centre", one_that_centres),
)
def n8(m: Measures, at: At) -> Parts:
    """With RMSNorm matrices write along 1 as chance has it."""
    return {
        "of the size of chance": at_most(m.times, at.factor),
        "few below chance": at_most(m.share, at.share),
    }


#: What chance has of the energy of Adam's first step along a direction that its gradient lacks.
FIRST_STEP = 1 - 2 / np.pi


def first_steps(at: At, first: np.ndarray) -> dict[str, Any]:
    """first: A of Adam's first step, [seed]."""
    step = bootstrap_means(np.asarray(first)[None], draws=10_000)[0]
    return {"step": Interval(*step.tolist()), "seeds": len(first)}


@rule(
    "N11",
    measure=first_steps,
    effect=Effect("step", unit="of chance", null=1, n="seeds"),
    null=NONE,
)
def n11(m: Measures, at: At) -> Decision:
    """Adam writes along 1 where its gradient has nothing."""
    between = bool(m.step.low > 0 and m.step.high < 1)
    off = abs(m.step.value - FIRST_STEP)
    return Decision(
        {
            "between nothing and chance": is_true(between),
            "as predicted": at_most(off, at.within),
        },
        needs={"more seeds": at_least(m.seeds, at.runs)},
        between=between,
        off=off,
    )


@rule(
    "U4",
    effect=Effect("furthest", unit="of its width", null=1),
    null=NONE,
)
def u4(m: Measures, at: At) -> Parts:
    """Heads lose as many keys as Gaussian ones of their width. ratio: [2, 4, 8, 16 dimensions]."""
    alike = above(m.ratio, at.low) & below(m.ratio, at.high)
    return each([f"{width} dimensions" for width in (2, 4, 8, 16)], alike)
