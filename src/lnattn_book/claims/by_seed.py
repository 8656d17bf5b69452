"""S13 and S14 of models that are alike but for their seed: over seeds.

Claims, thresholds and readers' words are those of one model (`ours`); what is compared with them
are means over seeds. `experiments/layers_above` says how, and said so before any number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lnattn_book.claims import ours
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.measures import Detail
from lnattn_book.claims.rules import At, Effect
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.layers_above import LayersAbove


def over_seeds(values: Any, level: float = 0.95) -> Interval:
    """Means over seeds with their intervals by Student's t; values: [seed] or [seed what].

    Several intervals hold together, with `level` for all of them.
    """
    table = np.asarray(values, dtype=np.float64)
    columns = table.reshape(len(table), -1).T
    each = 1 - (1 - level) / len(columns)
    return Interval.rows([mean_and_interval(column, each) for column in columns])


def rounded(interval: Any) -> tuple[float, ...]:
    """A mean and the ends of its interval, to two places: as pages say them.

    >>> rounded(Interval(0.123, -0.004, 0.25))
    (0.12, -0.0, 0.25)
    """
    return tuple(round(float(end), 2) for end in interval)


def joined_over_seeds(at: At, tables: Sequence[LayersAbove]) -> dict[str, Any]:
    """What S13 measures of each seed, over seeds; intervals hold for all layers together."""
    seeds = [ours.s13.measures(table) for table in tables]
    values = {
        name: over_seeds([np.asarray(Interval.of(seed[name]).value) for seed in seeds])
        for name in ("times", "beyond", "more")
    }
    first = float(np.mean([seed["first"] for seed in seeds]))
    pieces = round(float(np.mean([seed["pieces"] for seed in seeds])))
    layer = Detail(1 + int(np.argmax(values["more"].value)))
    return {**values, "first": first, "pieces": pieces, "layer": layer, "seeds": len(seeds)}


#: Layers above the first join pieces, too: over seeds.
joins_above = replace(
    ours.s13,
    measure=joined_over_seeds,
    effect=Effect("more", unit="of the pieces (best layer)", null=0, n="seeds", pick="largest"),
    unsure="more seeds",
)


def alone_over_seeds(at: At, tables: Sequence[LayersAbove]) -> dict[str, Any]:
    """What S14 measures of each seed, over seeds."""
    return alone_of([(table.far, table.spread) for table in tables])


def alone_of(seeds: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """far and spread of each seed: [window layer]."""
    shares = [1 - far[:, 1:].sum(axis=0) / spread[:, 1:].sum(axis=0) for far, spread in seeds]
    return {"share": over_seeds(shares), "seeds": len(seeds)}


#: What a token brings alone is most of what reaches a layer: over seeds.
alone = replace(
    ours.s14,
    measure=alone_over_seeds,
    effect=Effect("share", unit="of the variance (least layer)", null=0, n="seeds", pick="least"),
    unsure="more seeds",
)
