"""Made-up results on which rules are tried, with as little in them as a rule needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lnattn.affinity.by_distance import DistanceGrid
from lnattn.attention.terms import TERMS
from lnattn.stats import Correlation
from lnattn_book.claims.intervals import Interval
from lnattn_book.studies.layers_above import LayersAbove
from lnattn_book.studies.random_keys import RandomGrid
from lnattn_book.studies.unselectable_words import MarkedSentence

#: A number, with a fraction or without.
Real = float | int


def array(*values: Real) -> np.ndarray:
    """Numbers, one a head."""
    return np.array(values, dtype=float)


def sure(*means: Real, half: float = 0.01) -> np.ndarray:
    """Rows of mean, low and high."""
    return array(*means)[:, None] + half * array(0, -1, 1)


def near(*values: Real) -> Interval:
    """Numbers with narrow intervals."""
    return Interval.rows(sure(*values))


def about(value: Real) -> Interval:
    """One number with a narrow interval."""
    return Interval(value, value - 0.01, value + 0.01)


def rho(value: float, half: float = 0.02) -> Correlation:
    """A rank correlation with an interval of this half-width."""
    return Correlation(value, value - half, value + half, 1000)


def pairs(*best: Real, here: tuple[Real, ...] = (), repeated: bool = False) -> pd.DataFrame:
    """A look-up of Table 1; rows with NaN could not be looked up.

    repeated: whether all rows but the last are of one pair of tokens.
    """
    n = range(len(best))
    ids = [0] * (len(best) - 1) + [1] if repeated else list(n)
    table: dict[str, Any] = {"query": [f"q{i}" for i in n], "key": [f"k{i}" for i in n]}
    table |= {"query id": ids, "key id": ids}
    numbers = {
        "rank": [1 + i for i in n],
        "rank here": here or best,
        "best rank": best,
        "chance": [1000] * len(best),
    }
    return pd.DataFrame(table | numbers).astype(dict.fromkeys(numbers, "Int64"))


def curve(*heads: tuple[Real, Real]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Of each head ρ and the share of rising steps, the same up to each of three places."""
    spearman, rising = np.array(heads).T
    return spearman, [rising] * 3


def waves(*heads: tuple[Real, Real, Real]) -> pd.DataFrame:
    """A table of position terms: percentile of near keys, cycles, the wave's share."""
    return pd.DataFrame(heads, columns=["near T^pp percentile", "T^pp cycles", "T^pp wave share"])


def measured(skill: Any, itself: Any, predicted: Any) -> pd.DataFrame:
    """Attention on text beside its prediction by position, a row a head."""
    columns = {"skill, one text": skill, "itself, measured": itself}
    columns |= {"itself, by position": predicted}
    return pd.DataFrame(columns | {"skill, error": 0.01, "itself, error": 0.01})


def gpt2_heads(follower: int, selfish: int) -> pd.DataFrame:
    """Twelve heads, one of which follows position, and one attends to itself."""
    heads = np.arange(12)
    return measured((heads == follower) * 0.9, (heads == selfish) * 0.9, heads * 0.0)


def contributions(
    spread: float = 0.01, documents: int = 40, **means: Real
) -> tuple[np.ndarray, np.ndarray]:
    """Sums and rows of documents with these means and a spread between documents."""
    generator = np.random.default_rng(0)
    base = array(*(means.get(term, 1.0) for term in TERMS))
    rows = generator.integers(50, 200, size=(documents, 1)) * np.ones((1, len(TERMS)))
    return (base + spread * generator.standard_normal((documents, len(TERMS)))) * rows, rows


def grid_of_keys(share: Any) -> RandomGrid:
    """A grid with these mean shares [n d] of 10, 20 and 40 keys."""
    counts = np.array([10, 20, 40])
    lost = (np.array(share) * counts[:, None]).round().astype(np.int64)[..., None].repeat(2, 2)
    return RandomGrid(counts, np.array([3, 8]), lost, False, 0, 0)


def marked(exact: tuple[bool, bool, bool], base: Real) -> tuple[list[MarkedSentence], float]:
    """Two sentences with a marked word each, of which that of the first may be lost."""
    words = ("a", "great", "film")
    none = (False,) * 3
    sentences = [MarkedSentence(words, lost, none, (False, True, False)) for lost in (exact, none)]
    return sentences, base


def written(*values: Real) -> pd.DataFrame:
    """What matrices write along 1, where chance has 0.8 or more."""
    return pd.DataFrame({"along": values, "low": 0.8})


def own_less_wrong(*heads: tuple[Real, Real], queries: int = 200) -> DistanceGrid:
    """AUROC less a wrong query's: of each head its mean, and half of its 95 % interval."""
    noise = np.random.default_rng(0).standard_normal((len(heads), queries))
    noise = (noise - noise.mean(axis=1, keepdims=True)) / noise.std(axis=1, keepdims=True)
    means, halves = np.array(heads, dtype=float).T[..., None]
    own = 0.5 + means + halves * queries**0.5 / 1.96 * noise
    wrong = np.full_like(own, 0.5)
    return DistanceGrid((1,), (1,), np.arange(queries), own[None, None], wrong[None, None])


def value_lengths(*times: Real, spread: float = 0.01) -> list[np.ndarray]:
    """Of twelve texts, [head token]: the first token's is so many times shorter than the others."""
    noise = np.random.default_rng(0).standard_normal(12)
    texts = 1 + spread * (noise - noise.mean())
    lengths = np.ones((len(times), 20))
    lengths[:, 1:] = array(*times)[:, None]
    return [np.concatenate([lengths[:, :1], of_text * lengths[:, 1:]], 1) for of_text in texts]


def first_steps(mean: Real, n: int = 60) -> tuple[np.ndarray]:
    """What a first step writes, by seed, with this mean."""
    spread = np.random.default_rng(0).normal(0, 0.1, n)
    return (spread - spread.mean() + mean,)


def paths(one: Real, two: Real) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses of 30 documents without paths through one head and through two, and their tokens."""
    noise = np.random.default_rng(0).normal(size=30)
    return 100 * one + noise, 100 * two - noise, np.full(30, 100.0)


def composition(keys: Real, queries: Real, layers: int = 66) -> tuple[np.ndarray, np.ndarray]:
    """Of two layers three usable pairs for each other one in the highest tenth, fewer beyond."""
    few = np.stack([array(queries, keys, 1), np.ones(3)], axis=1)[..., None]
    return np.tile([[3], [1]], (3, 1, layers)), few * (1 + np.linspace(-0.1, 0.1, layers))


def fading(*heads: np.ndarray, noise: float = 0.01) -> np.ndarray:
    """Attention on position 0 [text head query], of twenty texts."""
    texts = np.random.default_rng(0).normal(size=(20, 1, 40))
    return np.asarray(np.stack(heads) * np.exp(noise * texts))


def layers_that_find(*shares: float) -> LayersAbove:
    """Tables of layers that find these shares of 400 pieces, where chance finds 5 %."""
    layers = len(shares)
    is_found = np.arange(400) < 400 * np.array(shares)[:, None]
    drawn = np.random.default_rng(0).binomial(400, 0.05, size=(2, 1, 1000)) / 400
    chance = drawn.repeat(layers, axis=1)
    sums = np.ones((3, layers))
    heads = np.ones((2, layers, 1))
    return LayersAbove(np.stack([is_found] * 2), chance, heads, sums, sums, sums, {})


def layers_alone(*shares: float) -> LayersAbove:
    """Tables of layers in which lone tokens say these shares of the variance."""
    windows = np.random.default_rng(0).uniform(0.99, 1.01, size=(16, 1))
    spread = windows * np.ones(len(shares))
    far = (1 - np.array(shares)) * spread
    is_found = np.ones((2, len(shares), 10), dtype=bool)
    chance = np.ones((2, len(shares), 3))
    return LayersAbove(is_found, chance, chance, far, spread, spread, {})
