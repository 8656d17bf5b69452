"""A model's first layer, tokenizer and neighbours of tokens, as the explorer's page reads them.

The page computes everything itself, of these models as of a reader's own checkpoint, so all that is
written is weights, in safetensors files: `layer.js` with the first layer; `places.js` with the
positions that no sentence reaches; the embeddings in blocks of tokens, `rows-0.js`, `rows-1.js` and
so on, of which a sentence needs those of its own tokens; `opening.js` and `pair.js`, the queries
and keys of a sentence; and `tokenizer.js`, the tokenizer.json.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors.numpy import save

from booksite.explorer.texts import script
from lnattn.attention.folding import fold
from lnattn.attention.terms import six_terms
from lnattn.errors import ResultError, TokenError
from lnattn.rotary.fold import fold_relative, mean_vectors
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer
from lnattn.text.tokenizers import encode_documents
from lnattn.weights import FirstLayer, LayerNorm, require_absolute
from lnattn_book.studies.affinity_study import counts_and_source

#: Bytes of token embeddings that a page may bring.
MOST = 16_000_000
#: Longest sentence, in tokens, special ones included: its maps must fit on a phone.
LONGEST = 64
#: Tokens of a block of embeddings.
BLOCK = 64


def scripts_of(
    model: AnyFirstLayer, name: str, sentence: str = "", pair: str = ""
) -> Iterator[tuple[str, str]]:
    """The scripts of a model as (file name, text).

    name: its folder; sentence, pair: those whose queries and keys come with a page, in `opening.js`
    and `pair.js`.
    Raises `TokenError` for a model without tokenizer or embeddings, `ResultError` for one that the
    page cannot compute or whose embeddings are too large for it.
    """
    if model.tokenizer is None:
        raise TokenError(f"{model.name} has no tokenizer, so no sentence can be typed; add one.")
    tensors, about = weights(model)
    rows = packed(tokens_of(model))
    size = rows["W_E"].nbytes
    if size > MOST:
        raise ResultError(f"its embeddings take {size / 1e6:.0f} MB; open its model.safetensors.")
    edition = edition_of(tensors | rows)
    beyond = tensors.get("positions", np.empty(0))[LONGEST:]
    if len(beyond):
        tensors["positions"] = tensors["positions"][:LONGEST]
        yield "places.js", script(f"{name}/places", _file({"positions": beyond}, edition))
    stored = {"dtype": "I8" if rows["W_E"].dtype == np.int8 else "F16", "block": BLOCK}
    facts = about | {"rows": {**edition, **stored, "order": order_of_blocks(model)}}
    yield "layer.js", script(f"{name}/layer", _file(tensors, facts))
    for number, first in enumerate(range(0, about["vocab"], BLOCK)):
        block = {key: tensor[first : first + BLOCK] for key, tensor in rows.items()}
        text = script(f"{name}/rows-{number}", _file(block, {**edition, "first": first}))
        yield f"rows-{number}.js", text
    backend = json.loads(model.tokenizer.backend_tokenizer.to_str())
    yield "tokenizer.js", script(f"{name}/tokenizer", backend)
    for part, text in {"opening": sentence, "pair": pair}.items():
        if text:
            shown = opening(require_absolute(model), text, about)
            yield f"{part}.js", script(f"{name}/{part}", shown)


def facts_of(model: AnyFirstLayer, scripts: dict[str, str]) -> dict[str, Any]:
    """What is known of a model before anything of it is loaded: its size, and how much there is."""
    weight: dict[str, int] = {}
    for name, text in scripts.items():
        kind = name.partition(".")[0].partition("-")[0]
        weight[kind] = weight.get(kind, 0) + len(text)
    return {
        "heads": model.attention.n_heads,
        "vocab": model.embeddings.vocab_size,
        "begin": model.tokenizer.bos_token_id,
        "bytes": weight,
    }


def edition_of(tensors: dict[str, np.ndarray]) -> dict[str, str]:
    """What all files of these weights say, so that a page takes no block of others for theirs."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return {"edition": digest.hexdigest()[:16]}


def order_of_blocks(model: AnyFirstLayer) -> list[int]:
    """The blocks of embeddings, those first whose tokens are most frequent."""
    often = np.asarray(counts_and_source(model)[0].unigrams)
    blocks = np.add.reduceat(often, np.arange(0, len(often), BLOCK))
    return np.argsort(-blocks, kind="stable").tolist()


def opening(model: FirstLayer, sentence: str, about: dict[str, Any]) -> bytes:
    """A sentence's queries and keys in parts, from which the page makes its terms and attention."""
    ids = next(iter(encode_documents([sentence], model.tokenizer, LONGEST)))
    words = [model.tokenizer.decode([token]) for token in ids]
    terms = six_terms(fold(model.attention), model.embeddings, ids)
    tensors = {}
    for side, parts in (("q", terms.query_parts), ("k", terms.key_parts)):
        for name, vectors in parts.items():
            flat = vectors.expand(-1, len(ids), -1).permute(1, 0, 2).reshape(len(ids), -1)
            tensors[f"{side}.{name}"] = _half(flat)
    said = {**about, "text": sentence, "tokens": words}
    return _file(tensors, said)


def _file(tensors: dict[str, np.ndarray], about: dict[str, Any]) -> bytes:
    """A safetensors file; what is said of it stands under one name, for names have no order."""
    return save(tensors, {"about": json.dumps(about)})


def weights(model: AnyFirstLayer) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A layer's tensors but the embeddings, and its settings, as `checkpoint.js` names them."""
    layer = model.attention
    rotary = isinstance(model, RelativeFirstLayer)
    if layer.ln is None:
        raise ResultError(f"{model.name} has no norm before its first attention; ask the package.")
    heads, d, width = layer.W_Q.shape
    about: dict[str, Any] = {
        "d": d,
        "heads": heads,
        "keyHeads": len(layer.W_K),
        "eps": layer.ln.eps,
        "scale": layer.scale,
        "causal": layer.causal,
        "window": layer.window,
        "norm": "layer" if isinstance(layer.ln, LayerNorm) else "rms",
        "positionsAre": "rotary" if rotary else "learned",
        "vocab": model.embeddings.vocab_size,
    }
    tensors = {"gamma": layer.ln.gamma}
    if isinstance(layer.ln, LayerNorm):
        tensors["beta"] = layer.ln.beta
    for side in ("Q", "K"):
        matrix = getattr(layer, f"W_{side}")
        bias = getattr(layer, f"b_{side}")
        tensors[f"W_{side}"] = matrix.permute(1, 0, 2).reshape(d, -1)
        tensors[f"b_{side}"] = bias.flatten()
    if isinstance(model, RelativeFirstLayer):
        tensors["frequencies"] = frequencies(model, width)
        often = torch.as_tensor(counts_and_source(model)[0].unigrams)
        means = mean_vectors(fold_relative(model.attention), model.embeddings, often)
        tensors |= {"q0": means.q0.flatten(), "k0": means.k0.flatten()}
        about["places"] = min(2 * LONGEST, model.context or 2 * LONGEST)
    else:
        tensors["positions"] = model.embeddings.W_P
        about["places"] = len(model.embeddings.W_P)
    return {name: _half(tensor) for name, tensor in tensors.items()}, about


def frequencies(model: RelativeFirstLayer, width: int) -> torch.Tensor:
    """By how much each pair of coordinates turns from one position to the next, [width / 2].

    Raises `ResultError` for a layer that does more than turn its queries and keys alike.
    """
    layer = model.attention
    more = (layer.norm_Q, layer.norm_K, layer.clip, layer.soft_cap, layer.bias, layer.sinks)
    rotation = layer.rotation
    if (
        rotation is None
        or rotation.interleaved
        or layer.ln is None
        or any(x is not None for x in more)
    ):
        raise ResultError("it does more in its first layer than turn queries and keys.")
    cos, sin = rotation.tables(torch.arange(2), torch.float64)
    turns = torch.atan2(sin[1], cos[1])[: width // 2]
    if cos.shape[1] != width or not torch.allclose(torch.hypot(sin, cos), torch.ones_like(cos)):
        raise ResultError("it turns only a part of its queries and keys, or stretches them.")
    return turns


def tokens_of(model: AnyFirstLayer) -> Float[np.ndarray, "vocab d"]:
    """The token embeddings as single-precision numbers."""
    rows = (
        model.embeddings.tokens()
        if isinstance(model, FirstLayer)
        else model.embeddings.rows(slice(None))
    )
    return rows.float().numpy()


def _half(values: torch.Tensor) -> np.ndarray:
    """In half precision, as the embedded models are stored."""
    return np.ascontiguousarray(values.numpy().astype(np.float16))


def packed(rows: Float[np.ndarray, "vocab d"]) -> dict[str, np.ndarray]:
    """Embeddings in half precision where that loses nothing, else bytes and a scale of each row."""
    half = rows.astype(np.float16)
    if np.array_equal(half, rows):
        return {"W_E": half}
    scale = np.abs(rows).max(axis=1) / 127
    scale[scale == 0] = 1
    whole = np.rint(rows / scale[:, None]).astype(np.int8)
    return {"W_E": whole, "W_E.scale": scale.astype(np.float32)}
