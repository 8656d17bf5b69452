"""The numbers of the page on costs: how operations grow, what goes with an encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import torch

from lnattn_book.page import Check, says
from lnattn_book.studies.costs import profiling
from lnattn_book.studies.costs.formulas import LayerSize, layer_parameters, product_costs

__all__ = ["bytes_with_twice_the_heads", "exponents", "removed_parameters", "share_beside_products"]

#: Sizes at which operations are counted, where another size is varied: tokens, width, heads.
_SIZES = {"N": 64, "D": 96, "H": 6}
#: Layers, and tokens of the vocabulary, of the encoder-decoder that the notes speak of.
_LAYERS = 6
_VOCABULARY = 37_000


def counted_operations(parts: Sequence[str], *, N: int, D: int, H: int) -> int:
    """Operations that torch executes for some products of a layer: N tokens, width D, H heads."""
    block = profiling.random_block(D, H, 4 * D)
    profile = profiling.profile_layer(block, torch.zeros(N, D))
    return int(profile.loc[list(parts), "operations"].sum())


def exponents(
    groups: Mapping[str, Sequence[str]], varied: Mapping[str, Sequence[int]]
) -> pd.DataFrame:
    """With which power of a size the counted operations grow: a row a group, a column a size.

    groups: name → products; varied: 'N', 'D' or 'H' → its values, at which a line is fitted to the
    logarithms.
    """
    table = {}
    for axis, values in varied.items():
        powers = {}
        for name, parts in groups.items():
            counts = [counted_operations(parts, **{**_SIZES, axis: value}) for value in values]
            powers[name] = np.polyfit(np.log(values), np.log(counts), 1)[0]
        table[axis] = powers
    return pd.DataFrame(table)


def share_beside_products(tokens: int, width: int, heads: int, d_mlp: int) -> float:
    """The share of all bytes, as counted, that operators without multiplications move."""
    block = profiling.random_block(width, heads, d_mlp)
    counted = profiling.profile_layer(block, torch.zeros(tokens, width))
    beside = counted.loc[counted["operations"] == 0, "bytes"].sum()
    return float(beside / counted["bytes"].sum())


def bytes_with_twice_the_heads(tokens: int, width: int, heads: int, d_mlp: int) -> float:
    """The bytes of the scores of a layer with twice the heads, over those with `heads`."""
    few = product_costs(LayerSize(tokens, tokens, width, heads, d_mlp))
    many = product_costs(LayerSize(tokens, tokens, width, 2 * heads, d_mlp))
    return float(many.loc["scores", "bytes"] / few.loc["scores", "bytes"])


def removed_parameters(sizes: Mapping[str, tuple[int, int]]) -> pd.DataFrame:
    """The share of an encoder-decoder's parameters that goes with the encoder and its attention.

    sizes: name → (width, width of the FFN). A row a name: of the layers, and with embeddings.
    """
    rows = {}
    for name, (width, d_mlp) in sizes.items():
        alone = _LAYERS * layer_parameters(width, d_mlp)
        pair = alone + _LAYERS * layer_parameters(width, d_mlp, attentions=2, norms=3)
        embeddings = _VOCABULARY * width
        rows[name] = {
            "of the layers": 1 - alone / pair,
            "with embeddings": 1 - (alone + embeddings) / (pair + embeddings),
        }
    return pd.DataFrame(rows).T


def checks(
    counted: pd.DataFrame,
    powers: pd.DataFrame,
    removed: pd.DataFrame,
    shares: Mapping[str, float],
    intensity: Mapping[str, float],
) -> Iterator[Check]:
    """What the page says of its numbers.

    counted: products by formula and by count; powers, removed: what `exponents` and
    `removed_parameters` give; shares: 'crossing', in tokens, 'beside' and 'twice the heads', what
    the functions of these names give; intensity: operations a byte, of a 'prompt' and 'decoded'.
    """
    pairs = [counted[name] == counted[f"counted_{name}"] for name in ("operations", "bytes")]
    beside = shares["beside"]
    twice = shares["twice the heads"]
    with_heads = powers["H"]["scores and values"]
    of_ffn = powers.loc["FFN", ["N", "D"]].to_numpy()
    of_layers = removed["of the layers"].min()
    yield says("operations only at 4,608 tokens", shares["crossing"])
    yield says("Formula and count agree to the last unit", *pairs)
    yield says("move about half of all bytes", 0.35 < beside < 0.65, found=beside)
    yield says("for the FFN, which is right", abs(of_ffn - [1, 2]) < 0.01, found=of_ffn)
    yield says("whatever H is", abs(with_heads) < 0.01, found=with_heads)
    yield says("from 12 heads to 24 the bytes of the scores nearly double", 12, 24, 1.7 < twice < 2)
    yield says(
        "of the layers themselves more than half",
        of_layers > 0.5 > removed["with embeddings"].max(),
        found=of_layers,
    )
    prompt = intensity["prompt"]
    decoded = intensity["decoded"]
    yield says("With 512 tokens a layer does more than a hundred operations", 512, prompt > 100)
    yield says("does half an operation for a byte", 0.4 < decoded < 0.6, found=decoded)
