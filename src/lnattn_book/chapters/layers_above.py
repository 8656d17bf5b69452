"""What the companion on the layers above the first states: tables of the frozen results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from lnattn_book.claims import by_seed
from lnattn_book.claims.verdicts import Record
from lnattn_book.studies.layers_above import LayersAbove, frozen

#: Whose layers were asked.
MODELS = ("book-gpt2", "book-llama", "minilm", "whisper-tiny.en")
#: Sets of models that are alike but for their seed, trained here: the names of their tables.
SETS = {
    "twins, learned": tuple(f"causal-{seed}" for seed in range(5)),
    "twins, rotary": tuple(f"rotary-{seed}" for seed in range(5)),
    "joining, seeds 5 to 7": tuple(f"seed-{seed}" for seed in range(5, 8)),
}


def frozen_sets() -> dict[str, list[LayersAbove]]:
    """What is frozen of each model of each of `SETS`."""
    return {name: [frozen(model) for model in models] for name, models in SETS.items()}


def by_set(sets: Mapping[str, Sequence[LayersAbove]]) -> pd.DataFrame:
    """A row a set and layer, means over its seeds.

    found, chance: shares of pieces, of queries without their mean; own, another's: of the variance
    in text, what lone vectors of the same tokens account for, and of other tokens.
    """
    rows = {}
    for name, tables in sets.items():
        for layer in range(tables[0].n_layers):
            of_layer = [table.table().loc[layer] for table in tables]
            columns = "found, without their mean", "chance, without their mean", "alone"
            means = [np.mean([row[column] for row in of_layer]) for column in columns]
            other = np.mean([row["another token's"] for row in of_layer])
            rows[name, layer] = (*map(float, means), float(other))
    return _by_layer(rows, ["found", "chance", "own", "another's"])


def judged(sets: Mapping[str, Sequence[LayersAbove]]) -> dict[str, dict[str, Record]]:
    """The records of S13 and S14 over the seeds of each set, by claim and set."""
    return {
        rule.claim: {name: rule(tables, model=name) for name, tables in sets.items()}
        for rule in (by_seed.joins_above, by_seed.alone)
    }


def frozen_tables() -> dict[str, LayersAbove]:
    """What is frozen of each of `MODELS`."""
    return {model: frozen(model) for model in MODELS}


def joining(tables: Mapping[str, LayersAbove]) -> pd.DataFrame:
    """A row a model and layer: the share of pieces whose predecessor is found, and that by chance.

    Of queries without their mean. found, low, high: with Wilson's 95 % interval over pieces;
    chance, chance low, chance high: of exchanged pieces, with the band that holds 95 % of them.
    """
    rows = {}
    for model, table in tables.items():
        for layer in range(table.n_layers):
            is_found = table.found[0, layer]
            chance = table.chance[0, layer]
            ends = binomtest(int(is_found.sum()), len(is_found)).proportion_ci(method="wilson")
            band = np.quantile(chance, (0.025, 0.975))
            rows[model, layer] = (is_found.mean(), ends.low, ends.high, chance.mean(), *band)
    columns = ["found", "low", "high", "chance", "chance low", "chance high"]
    return _by_layer(rows, columns)


def shares_alone(tables: Mapping[str, LayersAbove]) -> pd.DataFrame:
    """A row a model and layer: of the variance in text, what lone vectors account for.

    own: those of the same tokens; another's: those of other tokens of the text.
    """
    rows = {}
    for model, table in tables.items():
        for layer, row in table.table().iterrows():
            rows[model, layer] = (row["alone"], row["another token's"])
    return _by_layer(rows, ["own", "another's"])


def above_first(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of layers above the first."""
    return table[table.index.get_level_values("layer") > 0]


def share_of_heads(table: LayersAbove, layer: int, heads: tuple[int, ...]) -> float:
    """Of the pieces that are found in a layer, the share that these heads find."""
    found_by_head = table.heads[0][layer]
    return float(found_by_head[list(heads)].sum() / found_by_head.sum())


def _by_layer(rows: Mapping[tuple[str, int], tuple[float, ...]], names: list[str]) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(rows, names=["model", "layer"])
    return pd.DataFrame(rows.values(), index=index, columns=names)
