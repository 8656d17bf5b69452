"""A model's first attention layer and its tokenizer, small enough for a browser to compute with.

The scripts `bpe.js` and `first-layer.js` turn any text into tokens, six terms and attention. What
they need is written here: `layer.js` holds the folded W'_Q and W'_K, the positions and the merges;
`rows-N.js` the embeddings of some tokens. Numbers are base64 digits, since a page that was opened
from a disk may load scripts but no other files: two digits (12 bits) for an entry of an embedding,
three (18 bits) for the weights, and a scale for each row. `TOLERANCE` says what that costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from booksite.explorer.texts import script
from lnattn.attention.folding import fold
from lnattn.errors import ResultError, TokenError
from lnattn.studies.affinity.vectors import mean_sigma
from lnattn.weights import FirstLayer

#: Tokens of one script of embeddings.
PER_SHARD = 64
#: Digits of an entry of an embedding, and of all other numbers.
ROW_DIGITS, WEIGHT_DIGITS = 2, 3
#: How far terms, attention and KL (nats) in the browser may lie from `six_terms` in float64.
TOLERANCE = {"terms": 0.02, "attention": 0.0005, "kl": 0.002}
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def digits(values: Int[np.ndarray, "..."], width: int) -> str:
    """Whole numbers from 0 to 64^width − 1 in base64 digits, the highest first, without gaps."""
    if values.size and not 0 <= values.min() <= values.max() < 64**width:
        raise ResultError(f"a number does not fit into {width} base64 digits.")
    places = 64 ** np.arange(width)[::-1]
    alphabet = np.frombuffer(_ALPHABET, dtype=np.uint8)
    return alphabet[values.astype(np.int64).reshape(-1, 1) // places % 64].tobytes().decode("ascii")


def numbers(text: str, width: int) -> list[int]:
    """What `digits` wrote."""
    values = np.array([_ALPHABET.index(letter) for letter in text.encode("ascii")], dtype=np.int64)
    return (values.reshape(-1, width) @ 64 ** np.arange(width)[::-1]).tolist()


def packed_rows(rows: Float[np.ndarray, "row column"], width: int) -> dict[str, Any]:
    """Real numbers in `width` digits each; the largest of a row, in size, uses them in full."""
    middle = 64**width // 2
    largest = np.abs(rows).max(axis=1, keepdims=True)
    # What the browser multiplies with is the scale as written: round it before it is used.
    scales = np.array([[float(f"{x:.5g}")] for x in (1.0001 * largest / (middle - 2)).ravel()])
    whole = np.rint(np.divide(rows, scales, out=np.zeros_like(rows), where=scales > 0))
    return {
        "width": width,
        "scales": scales.ravel().tolist(),
        "digits": digits(whole.astype(np.int64) + middle, width),
    }


def layer_scripts(model: FirstLayer, name: str) -> Iterator[tuple[str, str]]:
    """The scripts of a model with learned positions as (file name, text), `layer.js` first.

    name: what the page calls the model. Raises `TokenError` for a model without token embeddings,
    `ResultError` for a tokenizer that is no byte-level BPE.
    """
    if model.embeddings.W_E is None:
        raise TokenError(f"{model.name} has no token embeddings; load a complete model.")
    yield "layer.js", script(f"{name}/layer", _layer(model))
    rows = model.embeddings.W_E.double().numpy()
    sigma = mean_sigma(model.embeddings, model.attention.ln.eps).double().numpy()
    for number, first in enumerate(range(0, len(rows), PER_SHARD)):
        part = slice(first, first + PER_SHARD)
        value = {
            **packed_rows(rows[part], ROW_DIGITS),
            "sigma": [float(f"{x:.5g}") for x in sigma[part]],
        }
        yield f"rows-{number}.js", script(f"{name}/rows-{number}", value)


def _layer(model: FirstLayer) -> dict[str, Any]:
    folded, by_column = fold(model.attention), {}
    for side in ("W_Q", "W_K"):
        weight = getattr(folded, side).double().permute(0, 2, 1).reshape(-1, folded.d_model)
        by_column[side] = packed_rows(weight.numpy(), WEIGHT_DIGITS)
    return {
        "positionsAre": "learned",
        "heads": folded.n_heads,
        "scale": folded.scale,
        "eps": folded.eps,
        "causal": folded.causal,
        "window": folded.window,
        "perShard": PER_SHARD,
        **by_column,
        "b_Q": [float(f"{x:.9g}") for x in folded.b_Q.flatten().tolist()],
        "positions": packed_rows(model.embeddings.W_P.double().numpy(), WEIGHT_DIGITS),
        **tokenizer_facts(model),
    }


def tokenizer_facts(model: FirstLayer) -> dict[str, Any]:
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
