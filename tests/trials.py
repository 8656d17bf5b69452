"""Trials of rules: made-up results, and the verdict that each must get, claim by claim.

A rule must find what was planted and nothing else: every claim has trials in which it holds and in
which it fails or is not seen, and most have noise that leaves it open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from made_up import (
    about,
    array,
    composition,
    contributions,
    curve,
    fading,
    first_steps,
    gpt2_heads,
    grid_of_keys,
    layers_alone,
    layers_that_find,
    marked,
    measured,
    near,
    own_less_wrong,
    pairs,
    paths,
    rho,
    sure,
    value_lengths,
    waves,
    written,
)
from made_up_runs import beside, ends, normals

from lnattn.selectability.gaussian import expected_share
from lnattn_book.claims import brody, kamoda, mathematics, ours, residual
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.measures import Detail
from lnattn_book.claims.rules import Rule
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED

#: Every rule, by the claim's id.
RULES = {
    rule.claim: rule
    for source in (kamoda, brody, residual, mathematics, ours)
    for rule in vars(source).values()
    if isinstance(rule, Rule)
}


class Trial:
    """Results, as a rule is called with them, and the verdict that they must get.

    name: what was planted; own: whether they are of the model that the claim is about; measures: in
    place of results, where these take a study that its own test makes up.
    """

    def __init__(
        self,
        name: str,
        verdict: str,
        *results: Any,
        own: bool = False,
        measures: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        self.name = name
        self.verdict = verdict
        self.results = results
        self.own = own
        self.named = named
        self.measures = measures


def planted(name: str, verdict: str, **measures: Any) -> Trial:
    """A trial of measures."""
    return Trial(name, verdict, measures=measures)


# T^p of a head: ρ, and the share of rising steps.
STEADY, BENT, FALLING, LEVEL_CURVE = (0.99, 1.0), (0.95, 0.7), (-0.99, 0.0), (0.1, 0.5)
# Position terms: cycles, and how near and wavy.
BEND, BOTH, FLAT = (0.9, 0.6, 0.9), (0.9, 2.5, 0.9), (0.3, 0.6, 0.9)
FAINT, FAR = (0.3, 2.5, 0.1), (0.3, 2.5, 0.9)
# T^p over 200 places, of which four make up the first 22 of 1,024.
UPHILL = np.arange(200.0)
BENT_BEFORE = np.where(UPHILL < 4, 400.0, UPHILL)
ROUND = np.cos(UPHILL / 10)
Z = np.arange(12.0)
# Shares of unselectable keys, [width n]; of the second width the last number was not asked.
RISING = np.array([[0.1, 0.2, 0.4], [0.0, 0.1, np.nan]])
NOISE = np.random.default_rng(0).permutation(12.0 * Z)
# Attention on the first token, query by query.
FADES, LEVEL = np.exp(-np.arange(40) / 5), 1 / np.arange(2.0, 42)
RANKS = {2: 1, 8: 7}
#: Shares that are found where pieces change places.
BY_CHANCE = np.random.default_rng(0).binomial(500, 0.04, 300) / 500
#: Losses of snapshots that do not join, and the low ends of their intervals.
BESIDE = np.array([[0.01, -0.01], [0.0, -0.02], [-0.01, -0.03], [0.015, 0.001]])
#: Best ranks of five keys for random queries.
RANDOM_RANKS = np.random.default_rng(0).integers(1, 2000, (20, 5))
SHARES = np.array([[0.5, 0.4, 0.4, 0.4], [0.52, 0.42, 0.42, 0.42]])
# Losses with scaling and without, pair by pair.
BETTER = np.array([[6.0, 6.5], [6.1, 6.58], [6.0, 6.49]] * 2)
MIXED = BETTER + np.array([[0, 0], [0, -0.2], [0, -0.4], [0, -0.7], [0, -0.1], [0, -0.5]])
WORSE = BETTER[:, ::-1]
THREE = BETTER[:3], BETTER[:3]
EVEN = 10 / 256

TRIALS: dict[str, list[Trial]] = {
    "K1": [
        Trial("holds", HOLDS, float64=1e-15, float32=1e-06),
        Trial("fails", FAILS, float64=1e-09, float32=1e-06),
        Trial("fails 2", FAILS, float64=1e-15, float32=0.001),
    ],
    "K2": [
        Trial("holds", HOLDS, key=1e-15, query=0.5),
        Trial("fails", FAILS, key=0.001, query=0.5),
        Trial("a test that sees no bias at all", FAILS, key=1e-15, query=1e-15),
    ],
    "K3": [
        Trial("holds", HOLDS, pairs(1, 2, 3, 9, 10), [], RANDOM_RANKS),
        Trial("in part", HOLDS_IN_PART, pairs(1, 2, 3, 9, 11)),
        Trial("not seen", NOT_SEEN, pairs(*[900] * 9)),
        Trial("too few pairs", UNDECIDED, pairs(1, 2, 3, 4, np.nan)),
        Trial("half of chance lies in the interval", UNDECIDED, pairs(100, 400, 600, 1200, 1500)),
        Trial("one pair four times over", UNDECIDED, pairs(1, 1, 1, 1, 900, repeated=True)),
        Trial(
            "holds on GPT-2", HOLDS, pairs(1, 1, 1, 1, 1, here=(1, 2, 3, 4, 5)), [1, 2], own=True
        ),
        Trial(
            "in part on GPT-2",
            HOLDS_IN_PART,
            pairs(1, 1, 1, 1, 1, here=(1, 2, 3, 4, 5)),
            [1, 3],
            own=True,
        ),
        Trial("fails on GPT-2", FAILS, pairs(1, 1, 1, 1, 1, here=(2, 3, 4, 5, 6)), own=True),
    ],
    "K4": [
        Trial("holds", HOLDS, sure(5, 0.5, -1)),
        Trial("in part", HOLDS_IN_PART, sure(5, 1.5, -1)),
        Trial("not seen", NOT_SEEN, sure(5, 3, 1.5)),
        Trial("undecided", UNDECIDED, sure(2, 0, 0)),
        Trial("fails on GPT-2", FAILS, sure(1.9, 0, 0), own=True),
    ],
    "K5": [
        Trial("holds", HOLDS, array(0.9, 0.6), sure(0.2, 0.01), [0]),
        Trial(
            "largest AUROC by popular keys alone",
            HOLDS_IN_PART,
            array(0.9, 0.8),
            sure(0.01, 0.1),
            [1],
        ),
        Trial("fails", FAILS, array(0.9, 0.8), sure(0.2, 0.01), [1]),
        Trial("not seen", NOT_SEEN, array(0.9), sure(0.02), [0]),
        Trial("no pair", UNDECIDED, array(0.9, 0.6), sure(0.2, 0.01), []),
        Trial("the interval holds the limit", UNDECIDED, array(0.9), sure(0.049), [0]),
        Trial(
            "a tie on which the verdict hangs",
            UNDECIDED,
            array(0.9, 0.8, 0.5),
            sure(0.2, 0.01, 0.0),
            [0, 1],
        ),
        Trial(
            "a tie on which nothing hangs",
            FAILS,
            array(0.9, 0.8, 0.5),
            sure(0.2, 0.01, 0.0),
            [1, 2],
        ),
        Trial("fails on GPT-2", FAILS, array(0.9, 0.8), sure(0.02, 0.0), [0], own=True),
    ],
    "K6": [
        Trial("holds", HOLDS, *curve(STEADY, STEADY)),
        Trial("one head falls", HOLDS_IN_PART, *curve(STEADY, FALLING)),
        Trial("in trend alone", HOLDS_IN_PART, *curve(BENT, BENT)),
        Trial("not seen", NOT_SEEN, *curve(LEVEL_CURVE, LEVEL_CURVE)),
        Trial(
            "undecided",
            UNDECIDED,
            np.array([[0.95, 0.99], [0.95, 0.5]]),
            [np.ones((2, 2))] * 3,
        ),
        Trial("fails on GPT-2", FAILS, *curve(*[LEVEL_CURVE] * 8), own=True),
        Trial(
            "in trend on GPT-2",
            HOLDS_IN_PART,
            *curve(LEVEL_CURVE, BENT, *[LEVEL_CURVE] * 5, BENT),
            own=True,
        ),
    ],
    "K7": [
        Trial("holds", HOLDS, waves(BOTH, BOTH)),
        Trial("one head near the query only far", HOLDS_IN_PART, waves(BOTH, FAR)),
        Trial("one head without a wave", HOLDS_IN_PART, waves(BOTH, BEND)),
        Trial("not seen", NOT_SEEN, waves((0.3, 0.6, 0.9), FAINT)),
        Trial("in part on GPT-2", HOLDS_IN_PART, waves(FLAT, BOTH, *[FLAT] * 5, BOTH), own=True),
    ],
    "K8": [
        Trial("holds", HOLDS, array(0.9, 0.6), array(0.1, 0.2)),
        Trial("in part", HOLDS_IN_PART, array(0.9, 0.6), array(0.1, 0.8)),
        Trial("no wave, which nothing can hide", NOT_SEEN, array(0.1, 0.2), array(0, 0)),
        Trial("fails on GPT-2", FAILS, np.full(8, 0.1), np.zeros(8), own=True),
    ],
    "K9": [
        Trial("holds", HOLDS, measured([0.9, 0.1], [0.1, 0.8], [0.1, 0.1])),
        Trial("in part", HOLDS_IN_PART, measured([0.9], [0.1], [0.1])),
        Trial("position alone sends a head to itself", NOT_SEEN, measured([0.2], [0.8], [0.7])),
        Trial("undecided", UNDECIDED, measured([0.5], [0.1], [0.1])),
        Trial("holds on GPT-2", HOLDS, gpt2_heads(7, 1), own=True),
        Trial("fails on GPT-2", FAILS, gpt2_heads(6, 2), own=True),
    ],
    "K23": [
        Trial("holds", HOLDS, np.stack([UPHILL, -UPHILL])),
        Trial("bent at its beginning", HOLDS_IN_PART, np.stack([BENT_BEFORE, UPHILL**9])),
        Trial("not seen", NOT_SEEN, np.stack([ROUND, ROUND])),
        Trial("undecided", UNDECIDED, np.stack([[UPHILL, UPHILL], [ROUND, ROUND]])),
        Trial("fails on GPT-2", FAILS, np.stack([UPHILL, *[ROUND] * 7]), own=True),
        Trial(
            "bent on GPT-2",
            HOLDS_IN_PART,
            np.stack([ROUND, BENT_BEFORE, *[ROUND] * 5, BENT_BEFORE]),
            own=True,
        ),
    ],
    "K24": [
        Trial("holds", HOLDS, np.linspace(-39, -1, 20), own=True),
        Trial("one key in twenty apart", HOLDS, np.linspace(-38, 1, 20), own=True),
        Trial("both signs", HOLDS_IN_PART, np.linspace(-17, 12, 20), own=True),
        Trial("as wide as tokens", FAILS, np.linspace(-80, 100, 20), own=True),
        Trial("not seen", NOT_SEEN, np.linspace(-80, 100, 20)),
    ],
    "K10": [
        Trial("holds", HOLDS, *contributions(ep=0.1, pe=0.1)),
        Trial("in part", HOLDS_IN_PART, *contributions(ep=0.1, pe=1.5, e=0.5)),
        Trial("fails", FAILS, *contributions(ep=1.5, pe=1.5)),
        Trial("too much noise", UNDECIDED, *contributions(ep=0.1, pe=1.0, spread=0.5)),
        Trial("one document", UNDECIDED, *contributions(documents=1)),
    ],
    "K11": [
        Trial("holds", HOLDS, [rho(0.6), rho(-0.7), rho(0.8), rho(0.0)], 5000000),
        Trial("in part", HOLDS_IN_PART, [rho(0.6), rho(-0.7), rho(0.4), rho(0.0)], 5000000),
        Trial("not seen", NOT_SEEN, [rho(0.3), rho(0.4)], 5000000),
        Trial("too small a corpus", UNDECIDED, [rho(0.6)] * 3, 42000),
    ],
    "K12": [
        Trial("holds", HOLDS, rho(-0.5), 46.0, 5000000),
        Trial("in part", HOLDS_IN_PART, rho(-0.5), 7.0, 5000000),
        Trial("far from 0 by its interval alone", FAILS, rho(-0.05), 7.0, 5000000),
        Trial("too small a corpus", UNDECIDED, rho(-0.5), 46.0, 42000),
    ],
    "K13": [
        Trial("holds", HOLDS, first=50.0, last=-40.0, spread=0.05),
        Trial("in part", HOLDS_IN_PART, first=50.0, last=0.0, spread=0.7),
        Trial("not seen", NOT_SEEN, first=5.0, last=0.0, spread=0.7),
    ],
    "K14": [
        Trial("holds", HOLDS, ratio=array(0.01, 0.09)),
        Trial("in part", HOLDS_IN_PART, ratio=array(0.01, 0.5)),
        Trial("not seen", NOT_SEEN, ratio=array(0.4, 0.5)),
    ],
    "K15": [
        Trial("holds", HOLDS, score=array(-3, -2), amplification=near(2, 1.2)),
        Trial("in part", HOLDS_IN_PART, score=array(-3, -2), amplification=near(2, 1.05)),
        Trial(
            "amplified, but by a positive score",
            NOT_SEEN,
            score=array(3, -2),
            amplification=near(2, 1),
        ),
        Trial("undecided", UNDECIDED, score=array(-3, -2), amplification=near(1.1, 1)),
    ],
    "K16": [
        Trial("holds", HOLDS, Z, -Z + 0.01 * NOISE),
        Trial("fails", FAILS, Z, Z + 0.01 * NOISE),
        Trial("noise", UNDECIDED, Z, NOISE),
        Trial("three heads", UNDECIDED, Z[:3], -Z[:3]),
    ],
    "K17": [
        Trial("holds", HOLDS, [rho(0.2), rho(0.0)], 5000000),
        Trial("not seen", NOT_SEEN, [rho(0.05), rho(0.0)], 5000000),
        Trial("noise", UNDECIDED, [rho(0.11)], 5000000),
        Trial("too small a corpus", UNDECIDED, [rho(0.2)], 42000),
    ],
    "K18": [
        Trial("holds", HOLDS, left=near(0.05), tokens=9),
        Trial("fails", FAILS, left=near(0.2), tokens=9),
        Trial("undecided", UNDECIDED, left=near(0.1), tokens=9),
    ],
    "K19": [
        Trial("holds", HOLDS, rho(-0.2), [rho(0.0), rho(-0.5)]),
        Trial("not seen", NOT_SEEN, rho(-0.2), [rho(0.0), rho(0.1)]),
    ],
    "K20": [
        Trial("holds", HOLDS, fading(FADES, FADES)),
        Trial(
            "one head takes half of all throughout", HOLDS_IN_PART, fading(FADES, np.full(40, 0.5))
        ),
        Trial("a head that looks near has no sink to lose", HOLDS, fading(FADES, FADES / 10)),
        Trial("below even attention", NOT_SEEN, fading(0.8 * LEVEL)),
        Trial("a sink that stays", NOT_SEEN, fading(2 * LEVEL)),
        Trial("noise", UNDECIDED, fading(LEVEL * np.linspace(1, 0.4, 40), noise=0.3)),
    ],
    "K21": [
        Trial("holds", HOLDS, value_lengths(1, 19.4)),
        Trial("not seen", NOT_SEEN, value_lengths(1, 2)),
        Trial("undecided", UNDECIDED, value_lengths(1, 10, spread=0.05)),
    ],
    "K22": [
        Trial("holds", HOLDS, left=0.0, of_named=0.0),
        Trial("LayerNorm's own bias makes one as well", HOLDS_IN_PART, left=0.3, of_named=0.0),
        Trial("fails", FAILS, left=0.3, of_named=0.2),
    ],
    "F1": [
        Trial("holds", HOLDS, error=1e-15, rows=8, columns=8),
        Trial("in part", HOLDS_IN_PART, error=1e-15, rows=8, columns=2),
        Trial("fails", FAILS, error=0.001, rows=8, columns=2),
    ],
    "B1": [
        Trial("holds", HOLDS, 1e-15, RANKS, 1e-12),
        Trial("fails", FAILS, 1e-05, RANKS, 1e-12),
        Trial("fails 2", FAILS, 1e-15, RANKS, 1e-05),
        Trial("fails 3", FAILS, 1e-15, {2: 1, 8: 8}, 1e-12),
    ],
    "B2": [
        Trial("holds", HOLDS, points=100, distinct=2, error=1e-12),
        Trial("fails", FAILS, points=100, distinct=3, error=1e-12),
        Trial("fails 2", FAILS, points=100, distinct=2, error=0.001),
    ],
    "B3": [
        Trial("holds", HOLDS, keys=9, proved=9, wins=0, queries=1000),
        Trial("fails", FAILS, keys=9, proved=8, wins=0, queries=1000),
        Trial("fails 2", FAILS, keys=9, proved=9, wins=1, queries=1000),
    ],
    "B7": [
        Trial("holds", HOLDS, grid_of_keys([[0.2, 0], [0.4, 0], [0.7, 0.1]])),
        Trial("in part", HOLDS_IN_PART, grid_of_keys([[0.2, 0], [0.3, 0], [0.4, 0.1]])),
        Trial("fewer keys with more", FAILS, grid_of_keys([[0.2, 0.3], [0.1, 0.3], [0, 0.1]])),
    ],
    "B8": [
        Trial("holds", HOLDS, SHARES, array(0.3, 0.3, 0.3, 0.3)),
        Trial("none", FAILS, 0 * SHARES),
        Trial("one seed", UNDECIDED, SHARES[:1]),
        Trial("one layer with few", HOLDS_IN_PART, SHARES * [1, 1, 1, 0.125]),
        Trial("one layer with next to none", FAILS, SHARES * [1, 1, 1, 0.001]),
    ],
    "B9": [
        Trial("holds", HOLDS, SHARES),
        Trial("fails", FAILS, 0 * SHARES),
    ],
    "B10": [
        Trial("holds", HOLDS, BETTER, BETTER, 0.5, 5),
        Trial("lower in each pair, by chance as like as not", UNDECIDED, BETTER, MIXED, 0.5, 5),
        Trial("three pairs, which chance orders so in one of eight", UNDECIDED, *THREE, 0.5, 5),
        Trial("fails", FAILS, WORSE, WORSE, 0.5, 5),
        Trial("in part", HOLDS_IN_PART, BETTER, WORSE, 0.5, 5),
        Trial("too few tokens", UNDECIDED, BETTER, BETTER, 0.003, 5),
    ],
    "B11": [
        Trial("holds", HOLDS, *marked((False, True, False), 0.01)),
        Trial("one of ten is lost anyway", UNDECIDED, *marked((False, True, False), 0.1)),
        Trial("fails", FAILS, *marked((True, False, False), 0.9)),
        Trial("none lost, as by chance", UNDECIDED, *marked((True, False, False), 0.1)),
    ],
    "B12": [
        Trial("holds", HOLDS, [584, 413752, 446250]),
        Trial("fails", FAILS, [585, 413499, 458458]),
    ],
    "B14": [
        Trial("holds", HOLDS, uneven=0.1, bare=0.7, scaled=0.0),
        Trial("in part", HOLDS_IN_PART, uneven=0.0, bare=0.7, scaled=0.0),
        Trial("fails", FAILS, uneven=0.0, bare=0.7, scaled=0.1),
    ],
    "B15": [
        Trial("holds", HOLDS, {8: 2.0, 16: 1.1, 32: 0.9}, 5),
        Trial("no help at any width", HOLDS_IN_PART, {8: 0.5, 16: 1.1, 32: 0.9}, 5),
        Trial("fails", FAILS, {8: 1.1, 16: 2.0, 32: 0.9}, 5),
        Trial("undecided", UNDECIDED, {8: 2.0, 16: 1.1}, 5),
    ],
    "B16": [
        Trial("holds", HOLDS, layers=0.0, heads=0.05, windows=12),
        Trial("in part", HOLDS_IN_PART, layers=0.0, heads=0.5, windows=12),
        Trial("fails", FAILS, layers=0.2, heads=0.5, windows=12),
    ],
    "B17": [
        Trial("holds", HOLDS, expected_share, RISING, RISING),
        Trial("as many", HOLDS_IN_PART, lambda n, d: 0.3, RISING, RISING),
        Trial("fewer in some heads", HOLDS_IN_PART, expected_share, -RISING, RISING),
        Trial("fails", FAILS, lambda n, d: 0.3, -RISING, RISING),
    ],
    "R1": [
        Trial("holds", HOLDS, error=1e-15, without_bias=0.0),
        Trial("in part", HOLDS_IN_PART, error=1e-15, without_bias=0.4),
        Trial("fails", FAILS, error=1e-06, without_bias=0.4),
    ],
    "R2": [
        Trial("holds", HOLDS, error=1e-15),
        Trial("fails", FAILS, error=1e-06),
    ],
    "R3": [
        Trial("holds", HOLDS, parts=40, float64=1e-15, float32=1e-06),
        Trial("fails", FAILS, parts=40, float64=1e-15, float32=0.001),
        Trial("fails 2", FAILS, parts=40, float64=1e-06, float32=1e-06),
    ],
    "R4": [
        Trial("holds", HOLDS, attention_only=1e-15, complete=1e-14),
        Trial("fails", FAILS, attention_only=1e-15, complete=1e-06),
    ],
    "R6": [
        Trial("holds", HOLDS, *composition(3.0, 2.0)),
        Trial("in part", HOLDS_IN_PART, *composition(3.0, 1.2)),
        Trial("fails", FAILS, *composition(1.2, 1.0)),
        Trial(
            "half of the layer pairs have none in the tail",
            UNDECIDED,
            composition(3, 3)[0],
            np.tile([[3, 0], [1, 1]], (3, 1, 33)),
        ),
    ],
    "R7": [
        Trial("holds", HOLDS, *paths(2.0, 0.5)),
        Trial("fails", FAILS, *paths(0.5, 2.0)),
        Trial("undecided", UNDECIDED, *paths(1.0, 1.0)),
        Trial("holds 2", HOLDS, *paths(0.5, 0.0)),
    ],
    "M3": [
        Trial("holds", HOLDS, by_rows=True, by_columns=True),
        Trial("in part", HOLDS_IN_PART, by_rows=False, by_columns=True),
        Trial("fails", FAILS, by_rows=False, by_columns=False),
    ],
    "M4": [
        Trial("holds", HOLDS, over=0.0, under=0.0, h=1.0),
        Trial("fails", FAILS, over=0.5, under=-1.0, h=1.0),
    ],
    "M6": [
        Trial("holds", HOLDS, pre=1e-09, post=1e-09, both=1e-09),
        Trial("fails", FAILS, pre=1e-09, post=1e-09, both=0.01),
    ],
    "M7": [
        Trial("holds", HOLDS, moved=0.0),
        Trial("fails", FAILS, moved=0.1),
    ],
    "M8": [
        Trial("holds", HOLDS, pre=2.0, post=50.0, seeds=5),
        Trial("in part", HOLDS_IN_PART, pre=2.0, post=5.0, seeds=5),
        Trial("fails", FAILS, pre=5.0, post=2.0, seeds=5),
        Trial("fails 2", FAILS, pre=20.0, post=50.0, seeds=5),
    ],
    "M12": [
        Trial("holds", HOLDS, over_seq=0.0, over_feat=0.0),
        Trial("fails", FAILS, over_seq=0.5, over_feat=0.0),
    ],
    "M13": [
        Trial("holds", HOLDS, off=0.0, transposed=0.0),
        Trial("fails", FAILS, off=1.1, transposed=1.1),
    ],
    "M15": [
        Trial("holds", HOLDS, scores=0.0, weights=0.0, two=0.5),
        Trial("in part", HOLDS_IN_PART, scores=0.0, weights=0.2, two=0.5),
        Trial("fails", FAILS, scores=0.1, weights=0.2, two=0.001),
    ],
    "M16": [
        Trial("holds", HOLDS, array(0.997, 0.998, 0.999), array(0.6, 0.61, 0.62)),
        Trial("by their number alone", UNDECIDED, array(0.98, 0.981), array(0.6, 0.61)),
        Trial("as much by either", FAILS, array(0.9, 0.91), array(0.9, 0.91)),
    ],
    "M14": [
        Trial("holds", HOLDS, share=0.6, context=4096),
        Trial("fails", FAILS, share=0.4, context=1024),
    ],
    "S13": [
        Trial("holds", HOLDS, layers_that_find(0.05, 0.05, 0.4)),
        Trial("the first joins most", HOLDS_IN_PART, layers_that_find(0.5, 0.3, 0.05)),
        Trial("chance in every layer", FAILS, layers_that_find(0.05, 0.05, 0.05)),
    ],
    "S14": [
        Trial("holds", HOLDS, layers_alone(1.0, 0.9, 0.7)),
        Trial("in one layer", HOLDS_IN_PART, layers_alone(1.0, 0.7, 0.3)),
        Trial("in none", FAILS, layers_alone(1.0, 0.3, -0.2)),
    ],
    "D1": [
        Trial("holds", HOLDS, own_less_wrong((0.08, 0.02), (0.09, 0.1))),
        Trial("in part", HOLDS_IN_PART, own_less_wrong((0.02, 0.01))),
        Trial("not seen", NOT_SEEN, own_less_wrong((-0.02, 0.01))),
        Trial(
            "above 0 alone, but not as the best of four",
            UNDECIDED,
            own_less_wrong((0.02, 0.018), *[(0, 0.01)] * 3),
        ),
    ],
    "D3": [
        Trial("holds", HOLDS, array(2.1, 3) * EVEN, array(1, 1) * EVEN),
        Trial("fails", FAILS, array(1.9, 1) * EVEN, array(3, 3) * EVEN),
        Trial(
            "heads that learnt nothing do, too", UNDECIDED, array(2.1, 3) * EVEN, array(2, 3) * EVEN
        ),
    ],
    "D5": [
        Trial("holds", HOLDS, array(2, 3, 4, 5, 6), array(1, 2, 3.1, 4, 5)),
        Trial("three pairs", UNDECIDED, array(2, 3, 4), array(1, 2, 3.1)),
        Trial("fails", FAILS, array(1, 2, 3.1), array(2, 3, 4)),
        Trial("noise", UNDECIDED, array(0, 1, 2), array(1, 1, 1)),
        Trial("two pairs", UNDECIDED, array(2, 2.1), array(1, 1)),
    ],
    "N7": [
        Trial("holds", HOLDS, written(0.1, 0.3, 0.79)),
        Trial("in part", HOLDS_IN_PART, written(0.1, 0.3, 0.81)),
        Trial("one half is not more than half", FAILS, written(0.1, 0.9, 1.0, 0.2)),
    ],
    "N8": [
        Trial("holds", HOLDS, written(0.7, *[1.1] * 9), [written(0.1, 0.2)]),
        Trial("in part", HOLDS_IN_PART, written(0.7, 0.7, *[1.1] * 8)),
        Trial("in part 2", HOLDS_IN_PART, written(1.6, 1.7)),
        Trial("fails", FAILS, written(0.1, 0.2)),
    ],
    "N11": [
        Trial("holds", HOLDS, *first_steps(0.36)),
        Trial("in part", HOLDS_IN_PART, *first_steps(0.6)),
        Trial("49 seeds", UNDECIDED, *first_steps(0.36, n=49)),
        Trial("nothing", FAILS, *first_steps(0.0)),
        Trial("as much as chance", FAILS, *first_steps(1)),
    ],
    "B4": [
        Trial("holds", HOLDS, *beside([300, 310, 290, 300, 305, 295])),
        Trial("sooner", HOLDS_IN_PART, *beside([150, 155, 145, 150, 152, 148])),
        Trial("fails", FAILS, *beside([97] * 6)),
        Trial("two minds", UNDECIDED, *beside([60, 90, 150, 260, 300, 320])),
        Trial("the slower arm never arrives", HOLDS, *beside([300] * 6, stops_at_without=0.75)),
        Trial("as fast up to 82 %, then never", FAILS, *beside([100] * 6, stops_at_without=0.82)),
    ],
    "B5": [
        Trial("holds", HOLDS, *beside(fall=[30], fall_without=[5])),
        Trial("both turn", HOLDS_IN_PART, *beside(fall=[30], fall_without=[30])),
        Trial("fails", FAILS, *beside(fall=[5], fall_without=[30])),
        Trial("some do", UNDECIDED, *beside(fall=[30, 5], fall_without=[5])),
    ],
    "B6": [
        Trial("holds", HOLDS, *beside(tilt=[10], tilt_without=[50])),
        # Queries in random directions are not close to 1 either: that half alone decides nothing.
        Trial("neither is close", UNDECIDED, *beside(tilt=[60], tilt_without=[50])),
        Trial("fails", FAILS, *beside(tilt=[60])),
        Trial("two runs", UNDECIDED, *beside([100.0] * 2, tilt=[10], tilt_without=[50])),
    ],
    "B13": [
        Trial("holds", HOLDS, *normals(0.0, 0.0)),
        Trial("several do better", HOLDS_IN_PART, *normals(0.0, -0.1)),
        Trial("fails", FAILS, *normals(-0.05, -0.05)),
        Trial("noise", UNDECIDED, *normals(0.0, 0.0, noise=0.05)),
    ],
    "S1": [
        planted(
            "holds",
            HOLDS,
            share=Interval(0.3, 0.28, 0.32),
            found=0.3,
            chance=0.04,
            band=0.05,
            times=Interval(7.5, 7, 8),
            pieces=500,
            head=Detail(4),
            by_chance=Detail(BY_CHANCE),
        ),
        planted(
            "chance",
            NOT_SEEN,
            share=Interval(0.04, 0.03, 0.05),
            found=0.04,
            chance=0.04,
            band=0.05,
            times=Interval(1, 0.8, 1.2),
            pieces=500,
            head=Detail(4),
            by_chance=Detail(BY_CHANCE),
        ),
    ],
    "S7": [
        planted(
            "holds",
            HOLDS,
            whole=about(0.05),
            alone=about(0.05),
            pairs=about(0.05),
            tokens=500,
            head=Detail(1),
        ),
        planted(
            "fails",
            FAILS,
            whole=about(-0.05),
            alone=about(0.05),
            pairs=about(0.05),
            tokens=500,
            head=Detail(1),
        ),
        planted(
            "less than asked, for sure",
            HOLDS_IN_PART,
            whole=Interval(0.01, 0.005, 0.015),
            alone=about(0.05),
            pairs=about(0.05),
            tokens=500,
            head=Detail(1),
        ),
        planted(
            "an interval that holds 0",
            UNDECIDED,
            whole=Interval(0.01, -0.005, 0.025),
            alone=about(0.05),
            pairs=about(0.05),
            tokens=500,
            head=Detail(1),
        ),
        planted(
            "of one head it holds 0",
            UNDECIDED,
            whole=about(0.05),
            alone=Interval(0.01, -0.005, 0.025),
            pairs=about(0.05),
            tokens=500,
            head=Detail(1),
        ),
    ],
    "S11": [
        planted(
            "holds",
            HOLDS,
            whole=Interval(0.08, 0.04, 0.12),
            alone=array(0.08, 0.09),
            alone_low=Detail(array(0.05, 0.06)),
            seeds=2,
            level=Detail(0.975),
            beside=Detail(BESIDE),
        ),
        planted(
            "fails",
            FAILS,
            whole=Interval(0.0, -0.01, 0.01),
            alone=array(0.08, 0.09),
            alone_low=Detail(array(0.05, 0.06)),
            seeds=2,
            level=Detail(0.975),
            beside=Detail(BESIDE),
        ),
    ],
    "N1": [
        Trial("holds", HOLDS, *ends(layernorm=0, rms=0.02)),
        Trial("fails", FAILS, *ends(layernorm=0.02, rms=0)),
        Trial("alike", UNDECIDED, *ends(layernorm=0, rms=0)),
        Trial("nine seeds", UNDECIDED, *ends(runs=9, layernorm=0, rms=0.02)),
        Trial(
            "a large difference of which the runs are of two minds",
            UNDECIDED,
            *ends(layernorm=0, rms=np.tile([0.1, -0.09], 5)),
        ),
    ],
    "U4": [
        Trial("holds", HOLDS, ratio=near(1, 1, 1, 1), furthest=1.0),
        Trial("one width", HOLDS_IN_PART, ratio=near(1, 2, 2, 2), furthest=2.0),
        Trial("fails", FAILS, ratio=near(2, 2, 2, 2), furthest=2.0),
        Trial("open", UNDECIDED, ratio=near(1.25, 2, 2, 2), furthest=2.0),
    ],
}
