"""Results that a study might give, made up for the rules of `test_verdicts`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from lnattn.affinity.subwords import Pieces, Subwords
from lnattn.attention.terms import TERMS
from lnattn.majority.results import Curves, Experiment
from lnattn.majority.train import MajorityPlan
from lnattn.selectability.random_keys import RandomGrid
from lnattn.stats import Correlation
from lnattn_book.words import MarkedSentence, Sentiment


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def pairs(*best: float, chance: float = 1000, here: tuple = (), **more: Any) -> pd.DataFrame:
    """A look-up of Table 1; rows with NaN could not be looked up."""
    n = range(len(best))
    table = {"query": [f"q{i}" for i in n], "key": [f"k{i}" for i in n], "query id": n, "key id": n}
    heads = [0 if np.isnan(one) else 2 for one in best]
    numbers = {"rank": [1 + i for i in n], "rank here": here or best, "best rank": best}
    numbers |= {"best head": heads, "chance": [chance] * len(best)}
    return pd.DataFrame(table | numbers | more).astype(dict.fromkeys(numbers, "Int64"))


def waves(*heads: tuple[float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(heads, columns=["near T^pp percentile", "T^pp cycles", "T^pp wave share"])


def measured(skill: Any, itself: Any, predicted: Any) -> pd.DataFrame:
    of = {"skill, one text": skill, "itself, measured": itself, "itself, by position": predicted}
    return pd.DataFrame(of)


def sure(*means: float, half: float = 0.01) -> np.ndarray:
    """Rows of mean, low and high."""
    return array(*means)[:, None] + half * array(0, -1, 1)


def gpt2_heads(follower: int, selfish: int) -> pd.DataFrame:
    heads = np.arange(12)
    return measured((heads == follower) * 0.9, (heads == selfish) * 0.9, heads * 0.0)


def contributions(spread: float = 0.01, documents: int = 40, **means: float):
    """Sums and rows of documents with these means and a spread between documents."""
    generator = np.random.default_rng(0)
    base = array(*(means.get(term, 1.0) for term in TERMS))
    rows = generator.integers(50, 200, size=(documents, 1)) * np.ones((1, len(TERMS)))
    return (base + spread * generator.standard_normal((documents, len(TERMS)))) * rows, rows


def rho(value: float, half: float = 0.02) -> Correlation:
    return Correlation(value, value - half, value + half, 1000)


def curves(arm: str, pace: list[float], fall=(30.0,), tilt=(10.0,), stops_at: float = 1.0):
    """Runs whose accuracy is 1 − exp(−epoch / pace), whose loss is one minus that, and so on."""
    epoch, runs = np.arange(0, 1001), len(pace)
    accuracy = np.minimum(1 - np.exp(-epoch / np.array(pace)[:, None]), stops_at)
    tilts = np.radians(np.resize(np.array(tilt, dtype=float), runs))
    # A direction that is `tilt` away from 1, towards a vector of the plane.
    ones, plane = np.ones(3) / np.sqrt(3), array(1, -1, 0) / np.sqrt(2)
    queries = np.cos(tilts)[:, None] * ones + np.sin(tilts)[:, None] * plane
    falls = np.resize(np.array(fall, dtype=float), runs)[:, None]
    return Curves(
        arm=arm,
        plan=MajorityPlan(d_model=3, classes=4),
        seeds=tuple(range(runs)),
        epoch=epoch,
        loss=1 - accuracy,
        accuracy=accuracy,
        angle=60 - falls * epoch / epoch[-1],
        spread=accuracy,
        queries=np.repeat(queries[:, None], 4, axis=1),
        keys=np.repeat(queries[:, None], 4, axis=1),
    )


def beside(pace: list[float] = [100.0] * 6, **other: Any) -> tuple[Experiment, str]:
    """An arm with projection at pace 100, and one without, named rms, at another pace."""
    own = {name: other.pop(name) for name in ("fall", "tilt") if name in other}
    without = {name.removesuffix("_without"): value for name, value in other.items()}
    arms = (curves("layernorm", [100.0] * len(pace), **own), curves("rms", pace, **without))
    return Experiment(arms, {}), "rms"


def ends(noise: float = 0.001, runs: int = 6, **less: Any) -> Experiment:
    """Arms by name, with _ for -, and how much less each gets right at the end."""
    wiggle = noise * np.random.default_rng(1).normal(size=(len(less), runs))
    made = []
    for (name, by), own in zip(less.items(), wiggle, strict=True):
        one = curves(name.replace("_", "-"), [100.0] * runs)
        made.append(
            replace(one, accuracy=one.accuracy - 0.3 - np.reshape(by, (-1, 1)) + own[:, None])
        )
    return Experiment(tuple(made), {})


def normals(other: float, several: float, **more: Any):
    runs = ends(layernorm=0.0, other_normal=-other, three_normals=-several, **more)
    return runs, "other-normal", ["three-normals"]


def grid_of_keys(share) -> RandomGrid:
    """A grid with these mean shares [n d] of 10, 20 and 40 keys."""
    counts = np.array([10, 20, 40])
    lost = (np.array(share) * counts[:, None]).round().astype(np.int64)[..., None]
    return RandomGrid(counts, np.array([3, 8]), lost, False, 0, 0)


def marked(exact: tuple[bool, bool, bool], base: float):
    """Two sentences with a marked word each, of which that of the first may be lost."""
    words, none = ("a", "great", "film"), (False,) * 3
    return [MarkedSentence(words, e, none, (False, True, False)) for e in (exact, none)], base


def classifiers(extra=(0.0, 0.0), right=(0.8, 0.8, 0.8), seeds: int = 5, types: int = 400):
    """Half of the types decide; they are lost more often by `extra` in the arms without scaling."""
    rng = np.random.default_rng(0)
    decides, of_word = np.arange(types) % 2 == 0, np.repeat(np.arange(types), 6)
    chance = 0.1 + np.multiply.outer([0.0, *extra], decides)
    sentences = rng.random((1, seeds, 4000))
    shares = {"positive_share": 0.6, "positive_share_of_training": 0.5}
    return Sentiment(
        right=sentences < np.array(right)[:, None, None],
        unselectable=rng.random((3, seeds, len(of_word))) < chance[:, None, of_word],
        by_layer=np.zeros((3, seeds, 4)),
        held_back=np.zeros(3),
        sentence=of_word,
        type=of_word,
        count=np.full(types, 40),
        positive=np.where(decides, 38, 20),
        record={"arms": ["full", "no-scaling", "none"], **shares},
    )


def subwords(found: int, n: int, chance: float, spread: float = 0.01) -> Subwords:
    """`found` of n pieces at rank 1 in head 1, the others at 500; chance around a mean."""
    ranks = np.full((2, n), 500, dtype=np.int32)
    ranks[1, :found] = 1
    drawn = chance + spread * np.linspace(-1, 1, 101)
    pieces = Pieces(*np.zeros((2, n), dtype=np.int64), np.full(n, 0.5), np.full(n, 100))
    return Subwords(pieces, ranks, np.broadcast_to(drawn[None, :, None], (2, 101, 3)))


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


def composition(keys: float, queries: float):
    return {"K": 3.0, "Q": 3.0}, {"K": keys, "Q": queries}
