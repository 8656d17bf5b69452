"""A rotary model's first layer and tokenizer for a browser: what `rotary-layer.js` needs.

As `first_layer`, but at such a layer a token is one direction, x/ρ(x), wherever it stands, and of
it only q̃ and k̃ are needed: the coordinates of its row times A_Q and A_K. `layer.js` holds these,
the constants q₀ and k₀ that the terms are split by, and the rotation of every position that a
sentence can have, by transformers' own code: a table of cosines and one of sines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from booksite.explorer.coding import coding_of, score_weights
from booksite.explorer.data import LONGEST
from booksite.explorer.digits import WEIGHT_DIGITS, packed_rows
from booksite.explorer.first_layer import PER_SHARD, by_column, plain, tokenizer_facts
from booksite.explorer.texts import script
from lnattn.attention.folding import fold
from lnattn.attention.relative import Constants, FoldedRelative, mean_vectors
from lnattn.errors import ResultError
from lnattn.relative import RelativeFirstLayer, Rotation

#: Bits of a coordinate on average: the room that a token takes, however large its vectors are.
BITS = 6.8
#: What the numbers in the browser are exact to, in steps of the coordinates: terms, and, divided by
#: the scale as scores are, attention and KL (nats).
TOLERANCE = {"terms": 4.0, "attention": 1.2, "kl": 3.0}
#: Positions that the tables hold: a sentence may begin late, to see that this changes nothing.
PLACES = 2 * LONGEST


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
    folded, tokens = fold(model.attention), model.embeddings.rows(slice(None))
    rows, rho = folded.normalised(tokens).numpy(), folded.divisors(tokens).tolist()
    sides = {one: getattr(folded, one).numpy() for one in ("W_Q", "b_Q", "W_K", "b_K")}
    weights, often = score_weights(rows, **sides), np.asarray(unigrams, dtype=np.float64)
    coding = coding_of(rows, weights, often @ rows / often.sum())
    means = mean_vectors(folded, model.embeddings, torch.as_tensor(unigrams))
    step = coding.step(BITS)
    sizes = {what: step if what == "terms" else step / folded.scale for what in TOLERANCE}
    exact = {what: float(f"{TOLERANCE[what] * size:.2g}") for what, size in sizes.items()}
    layer_facts = {"tolerance": exact, **_layer(model, folded, layer.rotation, means, coding.back)}
    yield "layer.js", script(f"{name}/layer", layer_facts)
    for number, first in enumerate(range(0, len(rows), PER_SHARD)):
        part = slice(first, first + PER_SHARD)
        value = {**coding.coded(rows[part], step), "rho": [float(f"{x:.5g}") for x in rho[part]]}
        yield f"rows-{number}.js", script(f"{name}/rows-{number}", value)


def _layer(
    model: RelativeFirstLayer,
    folded: FoldedRelative,
    rotation: Rotation,
    constants: Constants,
    back: np.ndarray,
) -> dict[str, Any]:
    places = torch.arange(min(PLACES, model.context or PLACES))
    cos, sin = rotation.tables(places, torch.float64)
    return {
        "positionsAre": "rotary",
        "heads": folded.n_heads,
        "keyHeads": folded.n_key_heads,
        "scale": folded.scale,
        "causal": folded.causal,
        "window": folded.window,
        "perShard": PER_SHARD,
        "interleaved": rotation.interleaved,
        "A_Q": by_column(torch.from_numpy(back) @ folded.W_Q),
        "A_K": by_column(torch.from_numpy(back) @ folded.W_K),
        "b_Q": plain(folded.b_Q),
        "b_K": plain(folded.b_K),
        "q0": plain(constants.q0),
        "k0": plain(constants.k0),
        "cos": packed_rows(cos.numpy(), WEIGHT_DIGITS),
        "sin": packed_rows(sin.numpy(), WEIGHT_DIGITS),
        **tokenizer_facts(model),
    }
