"""A model's first attention layer and its tokenizer, small enough for a browser to compute with.

The scripts `bpe.js` and `first-layer.js` turn any text into tokens, six terms and attention. What
they need is written here: `layer.js` holds the folded W'_Q and W'_K, the positions and the merges,
at 18 bits a number; `rows-N.js` the embeddings of some tokens, in coordinates of which most are
small (`coding`). `TOLERANCE` says what that costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from booksite.explorer.coding import Coding, coding_of, score_weights
from booksite.explorer.digits import WEIGHT_DIGITS, digits, packed_rows
from booksite.explorer.texts import script
from lnattn.attention.folding import FoldedAttention, fold
from lnattn.errors import ResultError, TokenError
from lnattn.relative import AnyFirstLayer
from lnattn.studies.affinity.vectors import mean_sigma
from lnattn.weights import FirstLayer

#: Tokens of one script of embeddings.
PER_SHARD = 64
#: How far terms, attention and KL (nats) in the browser may lie from `six_terms` in float64, and
#: the step to which a row's coordinates are rounded for it.
TOLERANCE = {"terms": 0.04, "attention": 0.001, "kl": 0.004}
STEP = 0.012
#: How much an embedding itself counts beside its queries and keys: σ, too, is made of it.
_ITSELF = 1.0


def layer_scripts(model: FirstLayer, name: str) -> Iterator[tuple[str, str]]:
    """The scripts of a model with learned positions as (file name, text), `layer.js` first.

    name: what the page calls the model. Raises `TokenError` for a model without token embeddings,
    `ResultError` for a tokenizer that is no byte-level BPE.
    """
    # In double precision the digits are the same on every machine.
    model = model.to(torch.float64)
    folded = fold(model.attention)
    sigma = mean_sigma(model.embeddings, model.attention.ln.eps).numpy()
    written = np.array([float(f"{x:.5g}") for x in sigma])
    rows = model.embeddings.tokens().numpy() / written[:, None]
    coding = _coding(folded, rows)
    yield "layer.js", script(f"{name}/layer", _layer(model, folded, coding))
    for number, first in enumerate(range(0, len(rows), PER_SHARD)):
        part = slice(first, first + PER_SHARD)
        value = {**coding.coded(rows[part], STEP), "sigma": written[part].tolist()}
        yield f"rows-{number}.js", script(f"{name}/rows-{number}", value)


def _coding(folded: FoldedAttention, rows: Float[np.ndarray, "vocab d_model"]) -> Coding:
    """Coordinates of x/σ whose rounding costs all scores alike, and σ no more."""
    W_Q, W_K, b_Q = (getattr(folded, one).numpy() for one in ("W_Q", "W_K", "b_Q"))
    weights = score_weights(rows, W_Q, b_Q, W_K, np.zeros_like(b_Q))
    return coding_of(rows, np.hstack([weights, _ITSELF * np.eye(folded.d_model)]))


def _layer(model: FirstLayer, folded: FoldedAttention, coding: Coding) -> dict[str, Any]:
    return {
        "positionsAre": "learned",
        "heads": folded.n_heads,
        "scale": folded.scale,
        "eps": folded.eps,
        "causal": folded.causal,
        "window": folded.window,
        "perShard": PER_SHARD,
        **{side: by_column(getattr(folded, side)) for side in ("W_Q", "W_K")},
        "b_Q": plain(folded.b_Q),
        "mean": plain(coding.mean),
        "back": packed_rows(coding.back, WEIGHT_DIGITS),
        "positions": packed_rows(model.embeddings.W_P.numpy(), WEIGHT_DIGITS),
        **tokenizer_facts(model),
    }


def by_column(weight: Float[torch.Tensor, "head d d_head"]) -> dict[str, Any]:
    """Weights as one row of digits for each coordinate of a query or key."""
    return packed_rows(weight.permute(0, 2, 1).flatten(0, 1).numpy(), WEIGHT_DIGITS)


def plain(vector: torch.Tensor | np.ndarray) -> list[float]:
    """A few numbers, written out."""
    return [float(f"{x:.9g}") for x in vector.flatten().tolist()]


def tokenizer_facts(model: AnyFirstLayer) -> dict[str, Any]:
    """What `bpe.js` needs: merges in the order in which they were learned, and whole tokens."""
    if model.tokenizer is None:
        raise TokenError(f"{model.name} has no tokenizer, so no sentence can be typed; add one.")
    facts = json.loads(model.tokenizer.backend_tokenizer.to_str())
    splitter = facts["pre_tokenizer"] or {}
    if (
        facts["model"]["type"] != "BPE"
        or splitter.get("type") != "ByteLevel"
        or facts["normalizer"]
    ):
        raise ResultError(f"the tokenizer of {model.name} is no byte-level BPE such as GPT-2's.")
    vocab = facts["model"]["vocab"]
    pairs = [
        pair if isinstance(pair, list) else pair.split(" ") for pair in facts["model"]["merges"]
    ]
    ids = np.array([[vocab[left], vocab[right]] for left, right in pairs], dtype=np.int64)
    return {
        "merges": digits(ids, WEIGHT_DIGITS),
        "added": [token["id"] for token in facts["added_tokens"]],
        "begin": model.tokenizer.bos_token_id,
    }
