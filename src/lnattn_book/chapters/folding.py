"""Folding, looked at: one head's scores before and after, and what an absurd bias moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from lnattn.attention.folding import fold
from lnattn.attention.forward import project
from lnattn.attention.layernorm import layer_norm
from lnattn.rotary.fold import fold_relative
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.weights import AttentionLayer, FirstLayer
from lnattn_book.page import Check, says
from lnattn_book.studies.identities import attention_error, original_attention
from lnattn_book.studies.samples import sentence_ids

#: What a bias is set off by, to see what comes of it: far more than any that training gave.
ABSURD = 100.0


def left_over(
    layer: AttentionLayer, x: Float[Tensor, "n d_model"], head: int
) -> Float[Tensor, "query key"]:
    """The original scores of one head less the folded ones: what folding leaves out.

    Folding drops what depends on the query alone, so each row is one number over and over.
    """
    y = layer_norm(x, layer.ln)
    queries = project(y, layer.W_Q, layer.b_Q)[head]
    keys = project(y, layer.W_K, layer.b_K)[head]
    return queries @ keys.T - fold(layer).scores(x)[head]


def inputs_of(model: FirstLayer, text: str) -> Float[Tensor, "n d_model"]:
    """What the first layer reads of a sentence, e + p, cut to the context; in double precision."""
    ids = sentence_ids(model, text)
    return (model.embeddings.tokens()[ids] + model.embeddings.W_P[: len(ids)]).double()


def moved_by_bias(layer: AttentionLayer, x: Float[Tensor, "n d_model"]) -> dict[str, float]:
    """How far an attention weight moves at most where the key bias, or the query bias, is absurd.

    Each in turn is raised by `ABSURD` in all coordinates. In double precision; x as from
    `inputs_of`.
    """
    layer = layer.to(torch.float64)
    usual = original_attention(layer, x)
    changed: Mapping[str, AttentionLayer] = {
        "b_K": replace(layer, b_K=layer.b_K + ABSURD),
        "b_Q": replace(layer, b_Q=layer.b_Q + ABSURD),
    }
    moved = {name: original_attention(other, x) - usual for name, other in changed.items()}
    return {name: float(difference.abs().max()) for name, difference in moved.items()}


def largest_query_bias(model: AnyFirstLayer) -> float:
    """The largest entry of the folded b′^Q in size, where the query map itself has no bias."""
    layer = model.attention
    if isinstance(layer, AttentionLayer):
        layer = replace(layer, b_Q=torch.zeros_like(layer.b_Q))
        return float(fold(layer).b_Q.abs().max())
    return float(fold_relative(layer).b_Q.abs().max())


def trained_errors(reference: PreTrainedModel, model: FirstLayer, text: str) -> dict[str, float]:
    """max |α' − α| of the folded first layer against a whole model, by dtype, on a sentence."""
    ids = sentence_ids(model, text)
    dtypes = (torch.float32, torch.float64)
    return {
        str(dtype).removeprefix("torch."): attention_error(reference, model, ids, dtype)
        for dtype in dtypes
    }


def checks(
    apart: float,
    uneven: float,
    worst: Mapping[str, float],
    moved: Mapping[str, float],
    lengths: Mapping[str, Float[Tensor, ""]],
) -> Iterator[Check]:
    """What the page says of its numbers.

    apart: the largest difference of the scores by hand from the package's; uneven: the largest
    deviation within a row of `left_over`; worst: the largest error by dtype. moved: as from
    `moved_by_bias`; lengths: of book-gpt2's biases, mean over heads.
    """
    exact = worst["float64"]
    yield says("the model's own, up to rounding", exact < 1e-13, found=exact)
    yield says(
        "whatever it is, no attention weight changes", moved["b_K"] < 1e-8, found=moved["b_K"]
    )
    yield says("gives to three tokens, by hand", apart < 1e-3, found=apart)
    yield says("one number for each query, the same for every key", uneven < 1e-3, found=uneven)
    yield says("in about the sixth digit", 1e-7 < worst["float32"] < 1e-5, found=worst["float32"])
    yield says("in about the fifteenth", 1e-16 < exact < 1e-13, found=exact)
    yield says("An error in the formula would stay where it is", exact < 1e-6 * worst["float32"])
    yield says("The key bias moves nothing", moved["b_K"] < 1e-8, moved["b_Q"] > 1e-2)
    yield says("an idle parameter need not be small", lengths["b_K"] > 1, found=lengths["b_K"])
