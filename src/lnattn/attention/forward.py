"""A transformer layer, one function per equation, its axes named in the signatures.

N tokens (`query`, `key`), D features (`d_model`), H heads (`head`) of `d_head` features each, an
FFN of `d_mlp` features. Written to be read and to be measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lnattn.attention.layernorm import layer_norm
from lnattn.errors import ShapeError
from lnattn.inputs import Mask, checked_mask, require, whole_number
from lnattn.transformer import ACTIVATIONS, Block, FeedForward
from lnattn.weights import AttentionLayer, LayerNorm


def causal_mask(queries: int, keys: int, window: int | None = None) -> Bool[Tensor, "query key"]:
    """True where query i may see key j. The queries are the last positions of the keys.

    window: a query sees only the last so many keys, itself included (GPT-Neo's local layers).
    Raises `ShapeError` for more queries than keys, or a window that holds no key.
    """
    if window is not None:
        whole_number(window, "window")
    if not 1 <= queries <= keys:
        raise ShapeError(f"a causal mask needs 1 ≤ queries ≤ keys, not {queries} and {keys}.")
    visible = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return visible if window is None else visible.triu(keys - queries - window + 1)


def attention_pattern(
    q: Float[Tensor, "head query d_head"],
    k: Float[Tensor, "head key d_head"],
    scale: float,
    mask: Mask | None = None,
) -> Float[Tensor, "head query key"]:
    """α = softmax over `key` of (q · k)/scale, each row a probability distribution over tokens.

    Raises `ShapeError` for a mask of another shape than the scores: one row would be taken for all.
    """
    if mask is not None:
        if tuple(getattr(mask, "shape", ())) != (q.shape[1], k.shape[1]):
            given = list(getattr(mask, "shape", []))
            raise ShapeError(
                f"the mask must be [query key] = [{q.shape[1]}, {k.shape[1]}], not {given}."
            )
        mask = checked_mask(mask, (q.shape[1], k.shape[1]), "query key").to(q.device)
    scores = (q @ k.mT) / scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1)


@dataclass(frozen=True, eq=False)
class KeyValueCache:
    """The keys and values of the tokens already seen, for decoding one token at a time."""

    k: Float[Tensor, "head key d_head"]
    v: Float[Tensor, "head key d_head"]

    def extended(
        self, k: Float[Tensor, "head new d_head"], v: Float[Tensor, "head new d_head"]
    ) -> KeyValueCache:
        """A cache that also holds the keys and values of new tokens."""
        return KeyValueCache(torch.cat((self.k, k), dim=1), torch.cat((self.v, v), dim=1))


def project(
    x: Float[Tensor, "token d_model"],
    W: Float[Tensor, "head d_model d_head"],
    b: Float[Tensor, "head d_head"],
) -> Float[Tensor, "head token d_head"]:
    """x W + b for every head: one matrix product over the axis `d_model`."""
    heads, d_model, d_head = W.shape
    # [head d_model d_head] -> [d_model head·d_head]: a view, where the weights are stored so.
    flat = x @ W.transpose(0, 1).reshape(d_model, heads * d_head)
    return flat.reshape(len(x), heads, d_head).transpose(0, 1) + b[:, None]


def multi_head_attention(
    x: Float[Tensor, "query d_model"],
    layer: AttentionLayer,
    past: KeyValueCache | None = None,
) -> tuple[Float[Tensor, "query d_model"], KeyValueCache]:
    """Σ_h α_h (x W_V + b_V) W_O + b_O, and the keys and values for the next call.

    x is what the LayerNorm gives out; with `past` the new tokens only, which see the cached ones
    too. Raises `ShapeError` for an x of another width than the block's.
    """
    require(layer, AttentionLayer, "layer")
    if x.shape[-1] != layer.d_model:
        raise ShapeError(f"x has {x.shape[-1]} coordinates but W_Q reads {layer.d_model}.")
    q = project(x, layer.W_Q, layer.b_Q)
    now = KeyValueCache(project(x, layer.W_K, layer.b_K), project(x, layer.W_V, layer.b_V))
    if past is not None:
        now = past.extended(now.k, now.v)
    mask = causal_mask(len(x), now.k.shape[1], layer.window) if layer.causal else None
    alpha = attention_pattern(q, now.k, layer.scale, mask)
    mixed = (alpha @ now.v).transpose(0, 1).reshape(len(x), -1)
    return mixed @ layer.W_O.reshape(-1, layer.d_model) + layer.b_O, now


def feed_forward(x: Float[Tensor, "token d_model"], mlp: FeedForward) -> Tensor:
    """g(x W_in + b_in) W_out + b_out, each token by itself: [token d_model]."""
    hidden = ACTIVATIONS[mlp.activation](x @ mlp.W_in + mlp.b_in)
    return hidden @ mlp.W_out + mlp.b_out


def pre_ln_layer(
    x: Float[Tensor, "token d_model"], block: Block, past: KeyValueCache | None = None
) -> tuple[Float[Tensor, "token d_model"], KeyValueCache]:
    """x + MHA(LN(x)), then x + FFN(LN(x)): the stream itself is never normalised (GPT-2)."""
    update, cache = multi_head_attention(layer_norm(x, block.attention.ln), block.attention, past)
    x = x + update
    if block.mlp is not None:
        x = x + feed_forward(layer_norm(x, block.mlp.ln), block.mlp)
    return x, cache


def post_ln_layer(
    x: Float[Tensor, "token d_model"], block: Block
) -> Float[Tensor, "token d_model"]:
    """LN(x + MHA(x)), then LN(x + FFN(x)): Vaswani et al. 2017, BERT.

    The block's two LayerNorms are read as those *after* attention and FFN.
    """
    update, _ = multi_head_attention(x, block.attention)
    x = layer_norm(x + update, block.attention.ln)
    if block.mlp is not None:
        x = layer_norm(x + feed_forward(x, block.mlp), block.mlp.ln)
    return x


def both_ln_layer(
    x: Float[Tensor, "token d_model"], block: Block, after: tuple[LayerNorm, LayerNorm]
) -> Float[Tensor, "token d_model"]:
    """LN'(x + MHA(LN(x))), then LN'(x + FFN(LN(x))): normalised before each stage and after it.

    after: the LayerNorms LN' that follow attention and FFN; the block has those before them.
    """
    update, _ = multi_head_attention(layer_norm(x, block.attention.ln), block.attention)
    x = layer_norm(x + update, after[0])
    if block.mlp is not None:
        update = feed_forward(layer_norm(x, block.mlp.ln), block.mlp)
        x = layer_norm(x + update, after[1])
    return x
