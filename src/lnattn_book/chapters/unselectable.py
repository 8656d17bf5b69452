"""What the chapter on unselectable keys states: shares by layer, head and width, beside the law.

Brody et al. 2023, §4.2 and Table 1. Keys of the small language models were decided by
`experiments/unselectable_lm`, those beside the law by `experiments/selectability_law`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from lnattn.selectability.decide import Selectability
from lnattn.selectability.gaussian import expected_share
from lnattn_book.claims.intervals import Interval
from lnattn_book.studies.keys_by_layer import LayerVerdicts
from lnattn_book.studies.language_models import BEFORE, KEYS, PAPER_SHAPE, FrozenArm

#: Brody et al. 2023, Table 1: unselectable keys of a model without scaling, by layer, in percent.
TABLE_1 = (51.0, 32.2, 34.7, 36.8)
#: The places of a frozen model's keys: what LayerNorm reads, what it gives, and those of heads.
PLACES: Mapping[str, int | slice] = {
    "before LayerNorm": BEFORE,
    "in the layer": KEYS,
    "in the heads": slice(KEYS + 1, None),
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


def share_of_gaussian_keys(keys: int, d: int, projected: bool = True) -> float:
    """What as many Gaussian keys lose in the dimensions that LayerNorm's projection leaves."""
    return expected_share(keys, d - 1 if projected else d)


def unevenness(keys: Float[np.ndarray, "n d"]) -> float:
    """How far attention is from even, at most, for the query 0 (claim B14)."""
    scores = keys @ np.zeros(keys.shape[1])
    attention = np.exp(scores) / np.exp(scores).sum()
    return float(np.abs(attention - 1 / len(keys)).max())


# ---- The law -------------------------------------------------------------------------------------

#: Sets of keys that are set beside the law, as the page calls them.
SETS = {
    "full": "small models, LayerNorm",
    "no-scaling": "small models, without scaling",
    "minilm": "MiniLM",
    "book-gpt2": "book-gpt2",
    "book-llama": "book-llama",
    "gpt2": "GPT-2, positions",
}


def ratios(law: Mapping[str, np.ndarray], record: Mapping[str, Any], name: str) -> Interval:
    """A set's effective dimensions through its real ones, by width; NaN where it was not asked."""
    place = record["sets"].index(name)
    rows = np.where(law["asked"][place][:, None], law["ratio"][place], np.nan)
    return Interval.rows(rows)


def ratios_of_sets(
    law: Mapping[str, np.ndarray], record: Mapping[str, Any], widths: int
) -> dict[str, np.ndarray]:
    """The ratios of every set without their intervals, at the first so many widths."""
    return {name: ratios(law, record, name).value[:widths] for name in record["sets"]}


def furthest(ratio: Interval) -> Interval:
    """The ratio of the width at which a set lies furthest from the law."""
    place = int(np.nanargmax(np.abs(np.log(ratio.value))))
    return Interval(*(end[place] for end in ratio))


def ratio_table(law: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> pd.DataFrame:
    """Of every set: as how many times its dimensions it does, at the widths that were asked."""
    rows = {}
    for name in record["sets"]:
        value, low, high = ratios(law, record, name)
        rows[SETS[name]] = {
            f"d′ = {width}": f"{value[i]:.2f} [{low[i]:.2f}, {high[i]:.2f}]"
            for i, width in enumerate(record["dims"])
            if np.isfinite(value[i])
        }
    return pd.DataFrame(rows).T.rename_axis("keys of")


def largest_miss(law: Mapping[str, np.ndarray], counts: Sequence[int]) -> float:
    """How far the share that the walk found is from the law, at most, over 100 draws a cell."""
    share = law["unselectable"].mean(axis=2) / np.asarray(counts)[:, None]
    return float(np.abs(share - law["expected"]).max())
