"""A rotary model's first layer and tokenizer for a browser: what the four terms need.

As `first_layer`, but at such a layer a token is one direction, x/ρ(x), wherever it stands: so the
rows hold that, and no divisor beside them. `layer.js` holds the folded weights of queries and of
shared keys, the constants q₀ and k₀ that the terms are split by, and the rotation of every position
that a sentence can have, as a table of cosines and one of sines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Int

from booksite.explorer.data import LONGEST
from booksite.explorer.first_layer import (
    PER_SHARD,
    ROW_DIGITS,
    WEIGHT_DIGITS,
    packed_rows,
    tokenizer_facts,
)
from booksite.explorer.texts import script
from lnattn.attention.folding import fold
from lnattn.attention.relative import mean_vectors
from lnattn.errors import ResultError
from lnattn.relative import RelativeFirstLayer


def rotary_scripts(
    model: RelativeFirstLayer, unigrams: Int[Any, "vocab"], name: str
) -> Iterator[tuple[str, str]]:
    """The scripts of a model with rotary positions as (file name, text), `layer.js` first.

    unigrams: how often each token occurs, the weights of the means q₀ and k₀; name: what the page
    calls the model. Raises `ResultError` for a layer that does more than turn its queries and keys:
    norms or bounds of them, a soft cap, a bias by distance.
    """
    layer = model.attention
    more = (layer.norm_Q, layer.norm_K, layer.clip, layer.soft_cap, layer.bias)
    if layer.rotation is None or any(one is not None for one in more):
        raise ResultError(
            f"{model.name} does more in its first layer than turn queries and keys, which the "
            "explorer does not compute; it shows such models by their frozen numbers only."
        )
    # In double precision the digits are the same on every machine.
    model = model.to(torch.float64)
    folded, embeddings = fold(model.attention), model.embeddings
    constants = mean_vectors(folded, embeddings, torch.as_tensor(unigrams))
    tables = layer.rotation.tables(torch.arange(LONGEST), torch.float64)
    value = {
        "positionsAre": "rotary",
        "heads": folded.n_heads,
        "keyHeads": folded.n_key_heads,
        "scale": folded.scale,
        "causal": folded.causal,
        "window": folded.window,
        "perShard": PER_SHARD,
        "interleaved": layer.rotation.interleaved,
        **{side: _by_column(getattr(folded, side)) for side in ("W_Q", "W_K")},
        **{side: _plain(getattr(folded, side)) for side in ("b_Q", "b_K")},
        "q0": _plain(constants.q0),
        "k0": _plain(constants.k0),
        "cos": packed_rows(tables[0].numpy(), WEIGHT_DIGITS),
        "sin": packed_rows(tables[1].numpy(), WEIGHT_DIGITS),
        **tokenizer_facts(model),
    }
    yield "layer.js", script(f"{name}/layer", value)
    for number, first in enumerate(range(0, embeddings.vocab_size, PER_SHARD)):
        some = embeddings.rows(slice(first, first + PER_SHARD))
        rows = packed_rows(folded.normalised(some).numpy(), ROW_DIGITS)
        yield f"rows-{number}.js", script(f"{name}/rows-{number}", rows)


def _by_column(weight: torch.Tensor) -> dict[str, Any]:
    """[head d_model d_head] as one row of digits for each coordinate of a query or key."""
    return packed_rows(weight.permute(0, 2, 1).flatten(0, 1).numpy(), WEIGHT_DIGITS)


def _plain(vector: torch.Tensor) -> list[float]:
    return [float(f"{x:.9g}") for x in vector.flatten().tolist()]
