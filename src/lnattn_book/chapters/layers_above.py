"""What the companion on the layers above the first states: tables of the frozen results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from lnattn_book.claims import by_seed, ours
from lnattn_book.claims.verdicts import Record
from lnattn_book.page import Check, says
from lnattn_book.studies.layers_above import LayersAbove, frozen

#: Whose layers were asked.
MODELS = ("book-gpt2", "book-llama", "minilm", "whisper-tiny.en")
#: Sets of models that are alike but for their seed, trained here: the names of their tables.
SETS = {
    "twins, learned": tuple(f"causal-{seed}" for seed in range(5)),
    "twins, rotary": tuple(f"rotary-{seed}" for seed in range(5)),
    "joining, seeds 5 to 7": tuple(f"seed-{seed}" for seed in range(5, 8)),
}


#: The sets that are twins, and the one whose first layers join.
*TWINS, YOUNG = SETS


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


def records(
    tables: Mapping[str, LayersAbove], sets: Mapping[str, Sequence[LayersAbove]]
) -> dict[str, dict[str, Record]]:
    """The records of S13 and S14, by claim and name: of each model, and over seeds of each set."""
    judged = {}
    for rule, over_seeds in ((ours.s13, by_seed.joins_above), (ours.s14, by_seed.alone)):
        of_models = {name: rule(table, model=name) for name, table in tables.items()}
        of_sets = {name: over_seeds(alike, model=name) for name, alike in sets.items()}
        judged[rule.claim] = of_models | of_sets
    return judged


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


# ---- What the page says --------------------------------------------------------------------------


def checks(
    tables: Mapping[str, LayersAbove],
    sets: Mapping[str, Sequence[LayersAbove]],
    judged: Mapping[str, Mapping[str, Record]],
    deep: pd.DataFrame,
    share: float,
) -> Iterator[Check]:
    """What the page says.

    judged: of `records`; deep: SmolLM2's table; share: what lone tokens account for in the page's
    sentence.
    """
    yield from _checks_of_pieces(tables, joining(tables))
    yield from _checks_of_variance(shares_alone(tables), share)
    yield from _checks_of_seeds(sets, judged)
    yield from _checks_of_depth(deep)
    yield from _checks_of_verdicts(tables, judged)
    lone = pd.concat([shares_alone(tables).own, by_set(sets).own])
    yield from _checks_in_short(above_first(lone), deep)


def _checks_of_pieces(
    tables: Mapping[str, LayersAbove], of_pieces: pd.DataFrame
) -> Iterator[Check]:
    """of_pieces: of `joining`."""
    first = of_pieces.xs(0, level="layer")
    above = above_first(of_pieces)
    yield says("MiniLM's first layer finds the predecessor of 27 %", first.found["minilm"])
    yield says("later ones 2 % at most", above.found.max())
    yield says("27 %, where chance gives 3 %", *first.loc["minilm", ["found", "chance"]])
    by_heads = share_of_heads(tables["minilm"], layer=0, heads=(4, 5))
    yield says("it is heads 4 and 5 that find 83 % of them", 4, 5, by_heads)
    yield says(
        "Later layers find 2.0 % at most",
        above.found.max(),
        len(above) == 10,
    )
    within = above.found <= above["chance high"]
    yield says("none lies above the band of chance", within)
    pieces = tables["whisper-tiny.en"].found.shape[-1]
    whisper = first.loc["whisper-tiny.en"]
    yield says("that of Whisper's decoder 5 of 300 pieces", whisper.found * pieces, pieces)
    of_the_book = first.loc[["book-gpt2", "book-llama"]]
    yield says(
        "those of the book's own two fewer than exchanged pieces do",
        of_the_book.found < of_the_book.chance,
        found=of_the_book.found,
    )


def _checks_of_variance(shares: pd.DataFrame, in_the_sentence: float) -> Iterator[Check]:
    above = above_first(shares)
    yield says("0.57 of the variance", shares.own["minilm", 1])
    others = above.own.drop(("minilm", 1))
    yield says(
        "in every other layer above a first one less than a seventh",
        others < 1 / 7,
        found=others.max(),
    )
    negative = above.own < 0
    yield says(
        "In eight of ten it is negative",
        negative.sum() == 8,
        len(above) == 10,
        found=negative.sum(),
    )
    yield says("Another token's vector is worse in every layer", shares.own > shares["another's"])
    yield says(
        "only MiniLM's layer 1 reads mostly what lone tokens would bring",
        1,
        above.own["minilm", 1] > 0.5,
        others < 0.5,
        in_the_sentence > 0.5,
        found=in_the_sentence,
    )


def _checks_of_seeds(
    sets: Mapping[str, Sequence[LayersAbove]], judged: Mapping[str, Mapping[str, Record]]
) -> Iterator[Check]:
    means = by_set(sets)
    joins = {name: judged["S13"][name].leaves[0].verdict for name in sets}
    yield says(
        "In neither kind of twins does the layer above the first join pieces",
        [joins[name] == "fails" for name in TWINS],
    )
    yield says(
        "in the models that join, three seeds do not decide",
        joins[YOUNG] == "undecided",
        len(sets[YOUNG]) == 3,
    )
    above = above_first(means)
    yield says(
        "In the mean over seeds later layers find 3 % at most",
        above.found.max(),
        len(above) == 5,
    )
    of_twins = [judged["S14"][name] for name in TWINS]
    learned, rotary = of_twins
    of_rotary = [table.table()["alone"][1] for table in sets["twins, rotary"]]
    yield says(
        "accounts for .56 of the variance, with .54 to .58 in each of five seeds",
        rotary.estimate,
        min(of_rotary),
        max(of_rotary),
        rotary.verdict == "holds",
        len(of_rotary) == 5,
    )
    yield says(
        "With learned positions it is .19, in those that join .43",
        learned.estimate,
        means.own[YOUNG, 1],
        learned.verdict == "fails",
    )


def _checks_of_depth(deep: pd.DataFrame) -> Iterator[Check]:
    shares = deep["found, without their mean"]
    yield says(
        "In no layer more than one of 300 pieces finds its predecessor",
        300,
        shares < 1.5 / 300,
        len(deep) == 30,
        found=shares.max(),
    )
    yield says("A lone token accounts for 0.45 of the variance in layer 1", deep.alone[1], 1)
    yield says(
        "in every layer above it is further from the one in text than the mean vector is",
        deep.alone.loc[2:] < 0,
    )


def _checks_of_verdicts(
    tables: Mapping[str, LayersAbove], judged: Mapping[str, Mapping[str, Record]]
) -> Iterator[Check]:
    joins = {name: record.leaves[0].verdict for name, record in judged["S13"].items()}
    more = {name: record.leaves[1].verdict for name, record in judged["S13"].items()}
    yield says(
        "no layer above joins in any of the four or in the twins",
        [joins[name] == "fails" for name in (*tables, *TWINS)],
        len(tables) == 4,
    )
    excluded = {name for name, verdict in more.items() if verdict == "fails"}
    yield says(
        "is excluded in MiniLM, and in the twins with learned positions",
        excluded == {"minilm", "twins, learned"},
    )
    yield says(
        "In four models and ten twins none does; in three others it is open",
        [joins[name] == "fails" for name in (*tables, *TWINS)],
        joins[YOUNG] == "undecided",
    )


def _checks_in_short(lone: pd.Series, deep: pd.DataFrame) -> Iterator[Check]:
    """lone: of the variance, what lone tokens account for in layers above the first."""
    half = lone[[("minilm", 1), ("twins, rotary", 1)]]
    yield says(
        "In layer 1 of MiniLM and of the rotary twins it accounts for more than half",
        1,
        half > 0.5,
        found=half,
    )
    yield says(
        "of SmolLM2 and the models that join for 0.45 and 0.43", deep.alone[1], lone[YOUNG, 1]
    )
    elsewhere = np.concatenate(
        [lone.drop([*half.index, (YOUNG, 1)]).to_numpy(), deep.alone.loc[2:].to_numpy()]
    )
    yield says(
        "elsewhere for a fifth at most",
        elsewhere < 0.2,
        len(elsewhere) == 40,
        found=elsewhere.max(),
    )
