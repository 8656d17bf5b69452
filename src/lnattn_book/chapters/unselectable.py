"""What the chapter on unselectable keys states: shares by layer, head and width, beside the law.

Brody et al. 2023, §4.2 and Table 1. Keys of the small language models were decided by
`experiments/unselectable_lm`, those beside the law by `experiments/selectability_law`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from lnattn.selectability.decide import Selectability
from lnattn.selectability.gaussian import expected_share
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import frozen_nulls
from lnattn_book.page import Check, says
from lnattn_book.studies.keys_by_layer import LayerVerdicts
from lnattn_book.studies.language_models import BEFORE, KEYS, PAPER_SHAPE, FrozenArm
from lnattn_book.studies.random_keys import RandomGrid

#: Brody et al. 2023, Table 1: unselectable keys of a model without scaling, by layer, in percent.
TABLE_1 = (51.0, 32.2, 34.7, 36.8)
#: The places of a frozen model's keys: what LayerNorm reads, what it gives, and those of heads.
PLACES: Mapping[str, int | slice] = {
    "before LayerNorm": BEFORE,
    "in the layer": KEYS,
    "in the heads": slice(KEYS + 1, None),
}
#: Sets of keys that are set beside the law, as the page calls them.
SETS = {
    "full": "small models, LayerNorm",
    "no-scaling": "small models, without scaling",
    "minilm": "MiniLM",
    "book-gpt2": "book-gpt2",
    "book-llama": "book-llama",
    "gpt2": "GPT-2, positions",
}
#: Windows of text on which every layer of every small model was asked.
WINDOWS = 12


def nearest_point(
    key: Float[np.ndarray, "d"], others: Float[np.ndarray, "n d"], steps: int = 10_000
) -> Float[np.ndarray, "d"]:
    """The point of the others' hull that lies nearest to a key, by the walk that the chapter shows.

    Gilbert's: go from where one stands towards the other key that scores highest for the query
    `key − point`, as far as it helps. `lnattn.selectability` uses Wolfe's, which ends exactly.
    """
    point = others[0].astype(float)
    for _ in range(steps):
        query = key - point
        best = others[np.argmax(others @ query)]
        step = best - point
        if step @ query <= 1e-12:
            break
        point = point + min(1.0, step @ query / (step @ step)) * step
    return point


def two_examples(verdicts: Selectability) -> tuple[int, int]:
    """A key to draw as unselectable and one as selectable: those whose proofs are seen best.

    The unselectable one with the largest least weight in its mixture, and the corner with the
    largest margin.
    """
    least_weight = np.where(verdicts.support >= 0, verdicts.weights, 1).min(axis=1)
    inside = int(np.argmax(np.where(verdicts.selectable, -1, least_weight)))
    corner = int(np.argmax(np.where(verdicts.selectable, verdicts.margin, -1)))
    return inside, corner


# ---- Small language models -----------------------------------------------------------------------


def short_runs(arms: Sequence[FrozenArm]) -> list[FrozenArm]:
    """Those of the chapter: trained no longer than the plan; the appendix has the longer ones."""
    return [arm for arm in arms if arm.steps <= PAPER_SHAPE["steps"]]


def of_width(arms: Sequence[FrozenArm], arm: str, d: int) -> list[FrozenArm]:
    """The seeds of one arm and width."""
    return [run for run in arms if run.arm == arm and run.d == d]


def shares_by_layer(
    arms: Sequence[FrozenArm], arm: str, place: str, d: int = 8
) -> Float[np.ndarray, "seed layer"]:
    """Unselectable keys of an arm at one of `PLACES`, over windows (and heads)."""
    return np.array([run.share(PLACES[place]) for run in of_width(arms, arm, d)])


def table_1(arms: Sequence[FrozenArm], names: Mapping[str, str]) -> pd.DataFrame:
    """Table 1 with what was found: unselectable keys of width 8 in percent, by arm and layer.

    names: what each arm is called.
    """
    rows = {
        name: 100 * shares_by_layer(arms, arm, "in the layer").mean(axis=0)
        for arm, name in names.items()
    }
    rows["without scaling, reported"] = np.array(TABLE_1)
    columns = [f"layer {number}" for number in range(1, 5)]
    return pd.DataFrame(rows, index=columns).T.rename_axis("unselectable (%)")


def by_width(arms: Sequence[FrozenArm]) -> pd.DataFrame:
    """Mean shares of unselectable keys, in percent, by width, with scaling and without."""
    widths = sorted({run.d for run in arms})
    rows = []
    for d in widths:
        row: dict[str, Any] = {"width of the model": d, "of a head": d // 4}
        for arm, words in (("full", "LayerNorm"), ("no-scaling", "without scaling")):
            for place in ("in the layer", "in the heads"):
                row[f"{place}, {words}"] = 100 * shares_by_layer(arms, arm, place, d).mean()
        rows.append(row)
    return pd.DataFrame(rows).set_index(["width of the model", "of a head"])


def largest_with_scaling(arms: Sequence[FrozenArm]) -> float:
    """The largest share of unselectable keys in a layer of a model of width 8 that scales."""
    shares = [shares_by_layer(arms, arm, "in the layer").max() for arm in ("full", "no-projection")]
    return float(max(shares))


def mean_share(draws: Sequence[Mapping[str, Interval]]) -> float:
    """Unselectable keys in the mean over the draws of a claim's null model, as a share."""
    return float(np.mean([drawn["share"].value for drawn in draws]))


def beside_what_learnt_nothing(arms: Sequence[FrozenArm]) -> dict[str, float]:
    """Unselectable keys of the models of width 8, as shares, and of what has learnt nothing."""
    without = shares_by_layer(arms, "no-scaling", "in the layer").mean()
    inputs = shares_by_layer(arms, "full", "before LayerNorm").mean()
    before = {of: mean_share(frozen_nulls(of)["trained here, d = 8"]) for of in ("B8", "B9")}
    return {
        "without scaling": float(without),
        "the same before training": before["B8"],
        "what enters LayerNorm": float(inputs),
        "what enters it before training": before["B9"],
        "900 Gaussian keys, 7 dimensions": share_of_gaussian_keys(900, 8),
    }


def lost_in_all_layers(results: Path, models: Iterable[str]) -> dict[str, int]:
    """How many keys no query can select in any head of any layer, by model."""
    return {model: lost_keys(LayerVerdicts.read(results / model)) for model in models}


def lost_keys(layers: LayerVerdicts) -> int:
    """How many keys no query can select, over all heads, layers, windows and positions."""
    return int(layers.unselectable[0].sum())


def _by_window(arms: Sequence[FrozenArm], place: str, d: int) -> Float[np.ndarray, "window"]:
    """Shares without scaling by window of text, over seeds and layers (and heads)."""
    shares = [
        run.arrays["exact"][:, PLACES[place]].reshape(4, -1, WINDOWS).mean(axis=(0, 1))
        for run in of_width(arms, "no-scaling", d)
    ]
    return np.mean(shares, axis=0)


def left_at_width(arms: Sequence[FrozenArm], place: str, wide: int = 64) -> Interval:
    """Unselectable keys at a large width through those at 8, without scaling, windows resampled."""
    return Interval.bootstrap_ratio(_by_window(arms, place, wide), _by_window(arms, place, 8))


def lost_by_number(
    law: Mapping[str, np.ndarray], record: Mapping[str, Any], name: str
) -> Float[np.ndarray, "width n"]:
    """Unselectable keys in heads of one of the law's sets by their number; NaN: not asked."""
    place = record["sets"].index(name)
    return np.where(law["n"][place] > 0, law["share"][place], np.nan)


def share_of_gaussian_keys(keys: int, d: int, projected: bool = True) -> float:
    """What as many Gaussian keys lose in the dimensions that LayerNorm's projection leaves."""
    return expected_share(keys, d - 1 if projected else d)


def unevenness(keys: Float[np.ndarray, "n d"]) -> float:
    """How far attention is from even, at most, for the query 0 (claim B14)."""
    scores = keys @ np.zeros(keys.shape[1])
    attention = np.exp(scores) / np.exp(scores).sum()
    return float(np.abs(attention - 1 / len(keys)).max())


# ---- What the chapter says -----------------------------------------------------------------------


def checks(
    arms: Sequence[FrozenArm],
    shares: Mapping[str, float],
    *,
    bare: RandomGrid,
    scaled: RandomGrid,
    lost: Mapping[str, int],
    walked: Bool[np.ndarray, "key"],
    proved: int,
) -> Iterator[Check]:
    """What the page of chapter 9 says of its numbers.

    shares: as `beside_what_learnt_nothing` has them; bare, scaled: the grids of random keys without
    LayerNorm and with it; lost: unselectable keys of real models; walked: of which keys in the
    plane the page's own walk finds what the package finds; proved: how many verdicts are proved.
    """
    yield says("Ten lines do it for one key", walked)
    yield says("can check them, here in fractions", proved == len(walked), found=proved)
    eight = list(bare.widths).index(8)
    having_it = bare.probability[-1, eight]
    lost_of_scaled = int(scaled.unselectable.sum())
    yield says(
        "After LayerNorm no key of the whole grid is unselectable",
        lost_of_scaled == 0,
        found=lost_of_scaled,
    )
    yield says("of 60 keys of width 8 about 4 %", 60, 8, bare.fraction[-1, eight])
    yield says("some nine sets in ten have such a key", 0.85 < having_it < 0.95, found=having_it)
    yield from _checks_of_models(arms, shares)
    yield says(
        "of 64 Gaussian keys of width 8 a head loses 4 %, of 4,096 of them 72 %",
        64,
        8,
        expected_share(64, 8),
        4096,
        expected_share(4096, 8),
    )
    none_lost = [number == 0 for number in lost.values()]
    most_by_law = expected_share(1024, 32)
    yield says("in two, 98 % are lost; in thirty-two, none", _in_heads(arms, 8), none_lost)
    yield says(
        "32 and 64, the law gives none, and none is lost", 32, 64, most_by_law < 1e-6, none_lost
    )
    yield says("every key of our texts can be selected", none_lost, found=list(lost.values()))


def _in_heads(arms: Sequence[FrozenArm], d: int, arm: str = "full") -> float:
    return float(shares_by_layer(arms, arm, "in the heads", d).mean())


def _checks_of_models(arms: Sequence[FrozenArm], shares: Mapping[str, float]) -> Iterator[Check]:
    without = shares["without scaling"]
    by_layer = shares_by_layer(arms, "no-scaling", "in the layer").mean(axis=0)
    largest = largest_with_scaling(arms)
    yield says("yes: 47 % of the keys in language models of width 8", without, 8)
    yield says("Without scaling 47 % of the keys are unselectable over all layers", without)
    yield says("than the paper reports in any", 100 * by_layer > TABLE_1)
    yield says("With scaling none are, which is the theorem", largest == 0, found=largest)
    inputs = shares["what enters LayerNorm"]
    yield says("intact model's LayerNorm a third are", 0.32 < inputs < 0.35, found=inputs)
    before = shares["the same before training"]
    gaussian = shares["900 Gaussian keys, 7 dimensions"]
    yield says(
        "before any training lose more than after it",
        before > without,
        shares["what enters it before training"] > inputs,
    )
    yield says(
        "and so do as many Gaussian keys in seven dimensions", gaussian > without, found=gaussian
    )
    yield says("though every layer has such keys", by_layer > 0.01, found=by_layer)
    more_without = _in_heads(arms, 8, "no-scaling") - _in_heads(arms, 8)
    yield says(
        "98 % of the keys are unselectable with LayerNorm, hardly fewer than without its scaling",
        _in_heads(arms, 8),
        0 < more_without < 0.02,
    )
    wide = [d for d in sorted({run.d for run in arms}) if d >= 32]
    in_layers = [
        shares_by_layer(arms, arm, "in the layer", d).mean()
        for arm in ("full", "no-scaling")
        for d in wide
    ]
    yield says("From width 32 on no key of a layer", 32, np.array(in_layers) < 5e-4)
    in_sixteen = [_in_heads(arms, 64, arm) for arm in ("full", "no-scaling")]
    yield says("in heads of width 16 fewer than 1 %", 16, max(in_sixteen))
    wider = {run.seed for run in arms if run.d > 8}
    yield says("there is one training, so no interval", len(wider) == 1)
    yield says(
        "In language models of width 8 47 % of the keys, fewer than of Gaussian ones",
        8,
        without,
        without < gaussian,
    )
    yield says("98 % of the keys of the same models", _in_heads(arms, 8))
