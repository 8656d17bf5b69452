"""Every rule on made-up results: a planted effect holds, none fails, and what lies between.

`TRIALS` has, by claim, a verdict and the results that must get it; most are at a threshold.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lnattn_book.claims
from lnattn.attention.terms import TERMS
from lnattn.errors import ResultError
from lnattn.selectability.random_keys import RandomGrid
from lnattn.stats import Correlation
from lnattn_book.claims import ours
from lnattn_book.claims.rules import RULES
from lnattn_book.claims.verdicts import VERDICTS, Between, Record, effect
from lnattn_book.words import MarkedSentence

for _one in pkgutil.iter_modules(lnattn_book.claims.__path__):
    if _one.name != "__main__":
        importlib.import_module(f"lnattn_book.claims.{_one.name}")

OWN, OTHER = "gpt2", "somebody/tiny"
#: Holds, holds in part, fails, not seen, undecided, not computable.
H, P, F, N, U, NOT_COMPUTABLE = VERDICTS


def asked(claim_id: str, *results: Any, model: str = OTHER, **named: Any) -> Record:
    """The record, after a look at what every one must have."""
    found = RULES[claim_id](*results, model=model, **named)
    assert found.words
    assert found.verdict != U or found.note
    assert found.interval is None or found.interval[0] <= found.estimate <= found.interval[1]
    return found


# --- results that a study might give --------------------------------------------------------------


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def pairs(*best: float, here: tuple = (), **more: Any) -> pd.DataFrame:
    """A look-up of Table 1; rows with NaN could not be looked up."""
    n = range(len(best))
    table = {"query": [f"q{i}" for i in n], "key": [f"k{i}" for i in n], "query id": n, "key id": n}
    numbers = {"rank": [1 + i for i in n], "rank here": here or best, "best rank": best}
    numbers |= {"chance": [1000] * len(best)}
    return pd.DataFrame(table | numbers | more).astype(dict.fromkeys(numbers, "Int64"))


def waves(*heads: tuple[float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(heads, columns=["near T^pp percentile", "T^pp cycles", "T^pp wave share"])


def measured(skill: Any, itself: Any, predicted: Any) -> pd.DataFrame:
    of = {"skill, one text": skill, "itself, measured": itself, "itself, by position": predicted}
    return pd.DataFrame(of | {"skill, error": 0.01, "itself, error": 0.01})


def gpt2_heads(follower: int, selfish: int) -> pd.DataFrame:
    heads = np.arange(12)
    return measured((heads == follower) * 0.9, (heads == selfish) * 0.9, heads * 0.0)


def sure(*means: float, half: float = 0.01) -> np.ndarray:
    """Rows of mean, low and high."""
    return array(*means)[:, None] + half * array(0, -1, 1)


def contributions(spread: float = 0.01, documents: int = 40, **means: float):
    """Sums and rows of documents with these means and a spread between documents."""
    generator = np.random.default_rng(0)
    base = array(*(means.get(term, 1.0) for term in TERMS))
    rows = generator.integers(50, 200, size=(documents, 1)) * np.ones((1, len(TERMS)))
    return (base + spread * generator.standard_normal((documents, len(TERMS)))) * rows, rows


def rho(value: float, half: float = 0.02) -> Correlation:
    return Correlation(value, value - half, value + half, 1000)


def grid_of_keys(share) -> RandomGrid:
    """A grid with these mean shares [n d] of 10, 20 and 40 keys."""
    counts = np.array([10, 20, 40])
    lost = (np.array(share) * counts[:, None]).round().astype(np.int64)[..., None].repeat(2, 2)
    return RandomGrid(counts, np.array([3, 8]), lost, False, 0, 0)


def marked(exact: tuple[bool, bool, bool], base: float):
    """Two sentences with a marked word each, of which that of the first may be lost."""
    words, none = ("a", "great", "film"), (False,) * 3
    return [MarkedSentence(words, e, none, (False, True, False)) for e in (exact, none)], base


def written(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"along": values, "low": 0.8})


def arms(along_n, along_1, seeds: int = 5):
    noise = np.exp(np.random.default_rng(0).normal(0, 0.05, seeds))
    return tuple(
        {"SGD": a * noise, "Adam": b * noise, "AdamW": b * noise} for a, b in (along_n, along_1)
    )


def first_steps(mean: float, n: int = 60):
    spread = np.random.default_rng(0).normal(0, 0.1, n)
    return (spread - spread.mean() + mean,)


def paths(one: float, two: float):
    noise = np.random.default_rng(0).normal(size=30)
    return 100 * one + noise, 100 * two - noise, np.full(30, 100.0)


def composition(keys: float, queries: float, layers: int = 66):
    """Of two layers three usable pairs for each other one in the highest tenth, fewer beyond."""
    few = np.stack([array(queries, keys, 1), np.ones(3)], axis=1)[..., None]
    return np.tile([[3], [1]], (3, 1, layers)), few * (1 + np.linspace(-0.1, 0.1, layers))


def near(*values: float) -> Between:
    return Between.rows(sure(*values))


def fading(*heads: np.ndarray, noise: float = 0.01) -> np.ndarray:
    """Attention on position 0 [text head query], of twenty texts."""
    return np.stack(heads) * np.exp(noise * np.random.default_rng(0).normal(size=(20, 1, 40)))


z, noise = np.arange(12.0), np.random.default_rng(0).permutation(12.0 * np.arange(12))
better = np.array([[6.0, 6.5], [6.1, 6.58], [6.0, 6.49]])
mixed = np.array([[6.0, 6.5], [6.1, 6.4], [6.0, 6.1]])  # lower in each, by chance as like as not
worse = better[:, ::-1]
ranks, even = {2: 1, 8: 7}, 10 / 256
fades, level = np.exp(-np.arange(40) / 5), 1 / np.arange(2.0, 42)
both, bend, far, faint = (0.9, 2.5, 0.9), (0.9, 0.6, 0.9), (0.3, 2.5, 0.9), (0.3, 2.5, 0.1)
shares = np.array([[0.5, 0.4, 0.4, 0.4], [0.52, 0.42, 0.42, 0.42]])


#: Verdict and results, by claim; those of GPT-2's own in `OF_GPT2`.
TRIALS: dict[str, list[tuple[str, tuple | dict]]] = {
    "K1": [(H, (1e-15, 1e-6)), (F, (1e-9, 1e-6)), (F, (1e-15, 1e-3))],
    # A test that cannot see a bias at all says nothing about one.
    "K2": [(H, (1e-15, 0.5)), (F, (1e-3, 0.5)), (F, (1e-15, 1e-15))],
    "K3": [
        *((H, (pairs(1, 2, 3, 9, 10),)), (P, (pairs(1, 2, 3, 9, 11),))),
        *((N, (pairs(*[900] * 9),)), (U, (pairs(1, 2, 3, 4, np.nan),))),
        (U, (pairs(100, 400, 600, 1200, 1500),)),  # half of chance lies in the interval
        (U, (pairs(1, 1, 1, 1, 900, **{"query id": [0, 0, 0, 0, 1], "key id": [2, 2, 2, 2, 3]}),)),
    ],
    "K4": [
        *((H, (sure(5, 0.5, -1),)), (P, (sure(5, 1.5, -1),)), (N, (sure(5, 3, 1.5),))),
        (U, (sure(2, 0, 0),)),
    ],
    "K5": [
        (H, (array(0.9, 0.6), sure(0.2, 0.01), [0])),
        # Largest AUROC by popular keys alone; the pairs' head is found by its skill only.
        (P, (array(0.9, 0.8), sure(0.01, 0.1), [1])),
        *((F, (array(0.9, 0.8), sure(0.2, 0.01), [1])), (N, (array(0.9), sure(0.02), [0]))),
        *((U, (array(0.9, 0.6), sure(0.2, 0.01), [])), (U, (array(0.9), sure(0.049), [0]))),
        # A tie decides nothing where the verdict hangs on it.
        (U, (array(0.9, 0.8, 0.5), sure(0.2, 0.01, 0.0), [0, 1])),
        (F, (array(0.9, 0.8, 0.5), sure(0.2, 0.01, 0.0), [1, 2])),
    ],
    "K6": [
        *((H, (array(0.95, 0.99),)), (P, (array(0.95, -0.99),)), (N, (array(0.1, 0.2),))),
        (U, (np.array([[0.95, 0.99], [0.95, 0.5]]),)),
    ],
    "K7": [
        *((H, (waves(both, both),)), (P, (waves(both, far),)), (P, (waves(both, bend),))),
        (N, (waves((0.3, 0.6, 0.9), faint),)),
    ],
    "K8": [
        *((H, (array(0.9, 0.6), array(0.1, 0.2))), (P, (array(0.9, 0.6), array(0.1, 0.8)))),
        (N, (array(0.1, 0.2), array(0, 0))),  # no wave, which nothing can hide
    ],
    "K9": [
        (H, (measured([0.9, 0.1], [0.1, 0.8], [0.1, 0.1]),)),
        (P, (measured([0.9], [0.1], [0.1]),)),
        # A head that position alone sends to itself is no evidence.
        *((N, (measured([0.2], [0.8], [0.7]),)), (U, (measured([0.5], [0.1], [0.1]),))),
    ],
    "K10": [
        *((H, contributions(ep=0.1, pe=0.1)), (P, contributions(ep=0.1, pe=1.5, e=0.5))),
        *((F, contributions(ep=1.5, pe=1.5)), (U, contributions(ep=0.1, pe=1.0, spread=0.5))),
        (U, contributions(documents=1)),
    ],
    "K11": [
        (H, ([rho(0.6), rho(-0.7), rho(0.8), rho(0.0)], 5_000_000)),
        (P, ([rho(0.6), rho(-0.7), rho(0.4), rho(0.0)], 5_000_000)),
        *((N, ([rho(0.3), rho(0.4)], 5_000_000)), (U, ([rho(0.6)] * 3, 42_000))),
    ],
    "K12": [
        *((H, (rho(-0.5), 46.0, 5_000_000)), (P, (rho(-0.5), 7.0, 5_000_000))),
        # Far from 0 by its interval alone, as the correlation of many tokens is even by chance.
        *((F, (rho(-0.05), 7.0, 5_000_000)), (U, (rho(-0.5), 46.0, 42_000))),
    ],
    "K13": [(H, (50.0, -40.0, 0.05)), (P, (50.0, 0.0, 0.7)), (N, (5.0, 0.0, 0.7))],
    "K14": [(H, (array(0.01, 0.09),)), (P, (array(0.01, 0.5),)), (N, (array(0.4, 0.5),))],
    # Amplified, but by a positive score, is not this mechanism.
    "K15": [
        *((H, (array(-3, -2), near(2, 1.2))), (P, (array(-3, -2), near(2, 1.05)))),
        *((N, (array(3, -2), near(2, 1))), (U, (array(-3, -2), near(1.1, 1)))),
    ],
    "K16": [
        *((H, (z, -z + 0.01 * noise)), (F, (z, z + 0.01 * noise)), (U, (z, noise))),
        (U, (z[:3], -z[:3])),
    ],
    "K17": [
        *((H, ([rho(0.2), rho(0.0)], 5_000_000)), (N, ([rho(0.05), rho(0.0)], 5_000_000))),
        *((U, ([rho(0.11)], 5_000_000)), (U, ([rho(0.2)], 42_000))),
    ],
    "K18": [(H, (near(0.05), 9)), (F, (near(0.2), 9)), (U, (near(0.1), 9))],
    "K19": [(H, (rho(-0.2), [rho(0.0), rho(-0.5)])), (N, (rho(-0.2), [rho(0.0), rho(0.1)]))],
    # Even attention does not fade; a sink that takes half of all does not either.
    "K20": [
        *((H, (fading(fades, fades),)), (P, (fading(fades, np.full(40, 0.5)),))),
        *((N, (fading(level),)), (U, (fading(level * np.linspace(1, 0.4, 40), noise=0.3),))),
    ],
    "K21": [(H, (near(1, 19.4),)), (N, (near(1, 2),)), (U, (near(1, 10),))],
    "K22": [(H, (0.0,)), (F, (0.3,))],
    "F1": [(H, (1e-15, 8, 8)), (P, (1e-15, 8, 2)), (F, (1e-3, 8, 2))],
    "B1": [
        *((H, (1e-15, ranks, 1e-12)), (F, (1e-5, ranks, 1e-12)), (F, (1e-15, ranks, 1e-5))),
        (F, (1e-15, {2: 1, 8: 8}, 1e-12)),
    ],
    "B2": [(H, (100, 2, 1e-12)), (F, (100, 3, 1e-12)), (F, (100, 2, 1e-3))],
    "B3": [(H, (9, 9, 0, 1000)), (F, (9, 8, 0, 1000)), (F, (9, 9, 1, 1000))],
    "B7": [
        *((H, (grid_of_keys([[0.2, 0], [0.4, 0], [0.7, 0.1]]),)),),
        *((P, (grid_of_keys([[0.2, 0], [0.3, 0], [0.4, 0.1]]),)),),
        (F, (grid_of_keys([[0.2, 0.3], [0.1, 0.3], [0, 0.1]]),)),
    ],
    # A layer with next to none is no confirmation, whatever the model with scaling does.
    "B8": [
        *((H, (shares, array(0.3, 0.3, 0.3, 0.3))), (F, (0 * shares,)), (U, (shares[:1],))),
        *((P, (shares * [1, 1, 1, 0.125],)), (F, (shares * [1, 1, 1, 0.001],))),
    ],
    "B9": [(H, (shares,)), (F, (0 * shares,))],
    "B10": [
        *((H, (better, better, 0.5, 5)), (U, (better, mixed, 0.5, 5)), (F, (worse, worse, 0.5, 5))),
        *((P, (better, worse, 0.5, 5)), (U, (better, better, 0.003, 5))),
    ],
    # One of two marked words is more than chance gives if one of a hundred is lost.
    "B11": [
        *((H, marked((False, True, False), 0.01)), (U, marked((False, True, False), 0.1))),
        *((F, marked((True, False, False), 0.9)), (U, marked((True, False, False), 0.1))),
    ],
    "B12": [(H, ([584, 413_752, 446_250],)), (F, ([585, 413_499, 458_458],))],
    "B14": [(H, (0.1, 0.7, 0.0)), (P, (0.0, 0.7, 0.0)), (F, (0.0, 0.7, 0.1))],
    "B15": [
        *((H, ({8: 2.0, 16: 1.1, 32: 0.9}, 5)), (P, ({8: 0.5, 16: 1.1, 32: 0.9}, 5))),
        *((F, ({8: 1.1, 16: 2.0, 32: 0.9}, 5)), (U, ({8: 2.0, 16: 1.1}, 5))),
    ],
    "B16": [(H, (0.0, 0.05, 12)), (P, (0.0, 0.5, 12)), (F, (0.2, 0.5, 12))],
    "M3": [(H, (True, True)), (P, (False, True)), (F, (False, False))],
    "M4": [(H, {"over": 0.0, "under": 0.0, "h": 1.0}), (F, {"over": 0.5, "under": -1.0, "h": 1.0})],
    "M6": [(H, (1e-9, 1e-9, 1e-9)), (F, (1e-9, 1e-9, 1e-2))],
    "M7": [(H, (0.0,)), (F, (0.1,))],
    "M8": [(H, (2.0, 50.0, 5)), (P, (2.0, 5.0, 5)), (F, (5.0, 2.0, 5)), (F, (20.0, 50.0, 5))],
    "M12": [(H, (0.0, 0.0)), (F, (0.5, 0.0))],
    "M13": [(H, {"off": 0.0, "transposed": 0.0}), (F, {"off": 1.1, "transposed": 1.1})],
    "M14": [(H, (0.6, 4096)), (F, (0.4, 1024))],
    "R1": [(H, (1e-15, 0.0)), (P, (1e-15, 0.4)), (F, (1e-6, 0.4))],
    "R2": [(H, (1e-15,)), (F, (1e-6,))],
    "R3": [(H, (40, 1e-15, 1e-6)), (F, (40, 1e-15, 1e-3)), (F, (40, 1e-6, 1e-6))],
    "R4": [(H, (1e-15, 1e-14)), (F, (1e-15, 1e-6))],
    "R6": [
        *((H, composition(3.0, 2.0)), (P, composition(3.0, 1.2)), (F, composition(1.2, 1.0))),
        # Half of the pairs of layers have many usable ones in the tail, the others none.
        (U, (composition(3, 3)[0], np.tile([[3, 0], [1, 1]], (3, 1, 3)))),
    ],
    "R7": [(H, paths(2.0, 0.5)), (F, paths(0.5, 2.0)), (U, paths(1.0, 1.0)), (H, paths(0.5, 0.0))],
    "D1": [
        (H, (np.array([[0.08, 0.06, 0.1], [0.09, -0.01, 0.2]]),)),
        *((P, (np.array([[0.02, 0.01, 0.03]]),)), (N, (np.array([[-0.02, -0.03, -0.01]]),))),
        # Above 0 by its own interval, but not as the best of four heads.
        (U, (np.array([[0.02, 0.001, 0.03], *[[0, -0.01, 0.01]] * 3]),)),
    ],
    "D3": [
        (H, (array(2.1, 3) * even, array(1, 1) * even)),
        (F, (array(1.9, 1) * even, array(3, 3) * even)),
        (U, (array(2.1, 3) * even, array(1, 3) * even)),  # heads that learned nothing do, too
    ],
    "D5": [
        *((H, (array(2, 3, 4), array(1, 2, 3.1))), (F, (array(1, 2, 3.1), array(2, 3, 4)))),
        *((U, (array(0, 1, 2), array(1, 1, 1))), (U, (array(2, 2.1), array(1, 1)))),
    ],
    "N7": [
        *((H, (written(0.1, 0.3, 0.79),)), (P, (written(0.1, 0.3, 0.81),))),
        (F, (written(0.1, 0.9, 1.0, 0.2),)),  # one half is not more than half
    ],
    "N8": [
        *((H, (written(0.7, *[1.1] * 9),)), (P, (written(0.7, 0.7, *[1.1] * 8),))),
        *((P, (written(1.6, 1.7),)), (F, (written(0.1, 0.2),))),
    ],
    "N10": [
        *((H, arms((0.1, 0.3), (1, 1))), (P, arms((0.1, 0.6), (1, 1)))),
        # 1 is avoided whatever the norm removes.
        *((F, arms((0.1, 0.3), (0.1, 0.3))), (U, arms((0.1, 0.3), (1, 1), seeds=4))),
    ],
    "N11": [
        *((H, first_steps(0.36)), (P, first_steps(0.6)), (U, first_steps(0.36, n=49))),
        *((F, first_steps(0.0)), (F, first_steps(1))),
    ],
}  # fmt: skip
flat = (0.3, 0.6, 0.9)
#: The same of the model that claims are about: absence is evidence there, and heads are named.
OF_GPT2 = [
    ("K3", H, (pairs(1, 1, 1, 1, 1, here=(1, 2, 3, 4, 5)), [1, 2])),
    ("K3", P, (pairs(1, 1, 1, 1, 1, here=(1, 2, 3, 4, 5)), [1, 3])),
    ("K3", F, (pairs(1, 1, 1, 1, 1, here=(2, 3, 4, 5, 6)),)),
    *(("K4", F, (sure(1.9, 0, 0),)), ("K5", F, (array(0.9, 0.8), sure(0.02, 0.0), [0]))),
    *(("K6", F, (np.full(8, 0.1),)), ("K6", P, (array(0.5, 0.95, *[0.5] * 5, 0.95),))),
    *(("K7", P, (waves(flat, both, *[flat] * 5, both),)), ("K9", H, (gpt2_heads(7, 1),))),
    *(("K8", F, (np.full(8, 0.1), np.zeros(8))), ("K9", F, (gpt2_heads(6, 2),))),
]
#: Tried with their studies, in their tests.
ELSEWHERE = {"S1", "S7", "S8", "S11", "U1", "U4", "U5", "B4", "B5", "B6", "B13"}
ELSEWHERE |= {"N1", "N3", "N4", "N5", "N6"}
ALL = [(one, OTHER, *trial) for one, rows in TRIALS.items() for trial in rows]
ALL += [(one, OWN, *trial) for one, *trial in OF_GPT2]


@pytest.mark.parametrize(("claim_id", "model", "verdict", "results"), ALL)
def test_a_rule_finds_what_was_planted_and_nothing_else(claim_id, model, verdict, results):
    given, named = ((), results) if isinstance(results, dict) else (results, {})
    assert asked(claim_id, *given, model=model, **named).verdict == verdict


def test_every_rule_is_tried_and_can_both_hold_and_fail():
    assert set(TRIALS) == set(RULES) - ELSEWHERE
    for claim_id, rows in TRIALS.items():
        given = {verdict for verdict, _ in rows}
        assert H in given, claim_id
        assert given & {F, N}, f"nothing can fail {claim_id}"


def test_words_say_what_was_found():
    """Each of these was once wrong, or could be without anyone noticing."""
    falls = asked("K6", array(0.95, -0.99))
    assert falls.words == "some head: 1 of 2 heads (0); every head: 1 of 2 heads (0)"
    assert falls.values == {"spearman, least": -0.99, "spearman, most": 0.95}
    assert effect(falls) == "−0.02 ρ (median head), exact: nothing is drawn, chance 0, n = 2"
    assert "every head: 1 to 2 of 2 heads" in asked("K6", np.array([[0.95, 0.99], [0.95, 0]])).words
    # (0.5 + 0.3 + 0.1) / 3, and t = 4.303 times the standard error 0.1155 on either side.
    scaling = asked("B10", mixed, mixed, 0.5, 5)
    assert "held out: held out 0.3 [−0.197, 0.797]" in scaling.words
    np.testing.assert_allclose(scaling.interval, (-0.197, 0.797), atol=5e-4)


def test_nothing_gives_no_verdict():
    with pytest.raises(ResultError):
        ours.n7(written(), model=OTHER)
    with pytest.raises(ResultError):
        ours.geometric(np.array([]))


def test_intervals_of_effects_are_those_of_what_is_drawn_anew():
    """Of a median; of a ratio that changes with the documents; of one word in seven (exact)."""
    value, low, high = Between.median(np.array([0.0] * 30 + [1.0] * 31 + [2.0] * 30))
    assert (value, low, high) == (1, 1, 1) != Between.median(np.arange(9.0))
    ratio = RULES["K10"](*contributions(ep=0.1, pe=1.0, spread=0.5), model="gpt2")
    assert ratio.interval[0] < ratio.estimate < ratio.interval[1]
    one = MarkedSentence(("a",) * 7, (True, *[False] * 6), (False,) * 7, (True,) * 7)
    found = RULES["B11"]([one], 0.07, model="trained here").interval
    np.testing.assert_allclose(found, (7 * 0.00361, 7 * 0.57872), rtol=1e-3)
