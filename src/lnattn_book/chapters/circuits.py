"""Circuits and the residual stream: how exact the sums are, and which heads could read which.

The errors of identities are measured in double precision, relative to the largest entry where that
is not a probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from lnattn.attention import head_scores
from lnattn.attention.circuits import Composition, Kind, ov_circuit, qk_circuit
from lnattn.attention.folding import fold, softmax_over_keys
from lnattn.attention.forward import multi_head_attention, pre_ln_layer
from lnattn.attention.layernorm import divide_by_sigma, layer_norm
from lnattn.attention.nulls import rotation_z
from lnattn.attention.residual import decompose, unembedding
from lnattn.attention.terms import sigma_of_pairs
from lnattn.composition import CompositionStudy, exceedances, pair_table
from lnattn.errors import ResultError
from lnattn.models.reference import load_reference_model
from lnattn.transformer import Block, Transformer
from lnattn.weights import AttentionLayer
from lnattn_book.studies import identities
from lnattn_book.studies.head_paths import two_layer_paths

KINDS = ("Q", "K", "V")


# ---- Two matrices and two vectors ----------------------------------------------------------------


class CircuitErrors(NamedTuple):
    """A block computed from its two circuits, against the block as it is written.

    attention: largest error of a weight; without_bias: the same where b_QK is left out, as the
    slides do; output: of what the block adds, relative.
    """

    attention: float
    without_bias: float
    output: float


def circuit_errors(layer: AttentionLayer, x: Float[Tensor, "n d_model"]) -> CircuitErrors:
    """How far a causal block's QK and OV circuits are from its attention and its output."""
    folded = fold(layer)
    u = divide_by_sigma(x, layer.ln.eps)
    compare = qk_circuit(folded).apply(u) @ u.T
    assertion = (folded.b_QK @ u.T)[:, None, :]
    alpha = softmax_over_keys(compare + assertion, folded.scale, causal=layer.causal)
    without = softmax_over_keys(compare, folded.scale, causal=layer.causal)
    usual = identities.original_attention(layer, x)
    output, _ = multi_head_attention(layer_norm(x, layer.ln), layer)
    written = (alpha @ ov_circuit(folded).apply(u)).sum(dim=0) + folded.b_VO
    return CircuitErrors(
        attention=float((alpha - usual).abs().max()),
        without_bias=float((without - usual).abs().max()),
        output=float((written - output).abs().max() / output.abs().max()),
    )


# ---- Which head could read which -----------------------------------------------------------------


def usable_and_impossible(
    composition: Composition, shares: Sequence[float], draws: int = 2000, seed: int = 0
) -> pd.DataFrame:
    """How many usable pairs of heads there are for each impossible one among the highest scores.

    Counted for each two layers by themselves, among the highest share of both kinds together. One
    row for each kind and share: usable, impossible, ratio, and its 95 % interval, low to high, from
    drawing *layers*: the pairs of layers share them and are not independent.
    """
    layers = composition.scores.shape[1]
    if layers < 2:
        raise ResultError("a model of one layer has no head that could read another.")
    drawn = np.random.default_rng(seed).multinomial(layers, np.full(layers, 1 / layers), size=draws)
    first, second = np.triu_indices(layers, k=1)
    weights = drawn[:, first] * drawn[:, second]  # [draw pair]
    rows = []
    for share in shares:
        counts = exceedances(composition, share)  # [kind side pair]
        for kind, (usable, impossible) in zip(KINDS, counts, strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = (weights @ usable) / (weights @ impossible)
                ratio = usable.sum() / impossible.sum()
            low, high = np.nanquantile(ratios, (0.025, 0.975), method="nearest")
            rows.append((kind, share, usable.sum(), impossible.sum(), ratio, low, high))
    columns = ["kind", "share", "usable", "impossible", "ratio", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def beyond_rotations(composition: Composition, kind: Kind, z: float = 4.0) -> float:
    """Share of the usable pairs whose squared score is z deviations above random rotations."""
    return float((rotation_z(composition, kind)[composition.possible()] > z).double().mean())


def strongest_pairs(study: CompositionStudy, count: int = 3) -> pd.DataFrame:
    """The highest scores of each kind among pairs that the model can use.

    Raises `ResultError` for a model of one layer, in which no head reads another.
    """
    if not study.raw.possible().any():
        raise ResultError(f"{study.name} has one layer, so no head reads another.")
    kinds: tuple[Kind, ...] = ("K", "Q", "V")
    tables = [
        pair_table(study.raw, kind).query("possible").assign(kind=kind).head(count)
        for kind in kinds
    ]
    columns = ["kind", "writer", "reader", "score", "z", "impossible_share", "special"]
    return pd.concat(tables, ignore_index=True)[columns]


def previous_token_heads(model: Transformer, count: int = 6) -> pd.DataFrame:
    """The heads with most attention on the previous token from positions alone, and copying.

    copying: the sum of the eigenvalues of W_E W_VO W_U over the sum of their moduli.
    """
    W_E = model.embeddings.tokens()
    W_P = model.embeddings.W_P
    W_U, _ = unembedding(model.ln_f, model.W_U)
    everywhere = torch.arange(len(W_E)), torch.arange(len(W_P))
    pairs = sigma_of_pairs(model.embeddings, *everywhere, model.ln_f.eps)
    blocks = [fold(block.attention) for block in model.blocks]
    copying = torch.stack([head_scores.copying_score(block, W_E, W_U) for block in blocks])
    sigma = pairs.mean(0)
    previous = torch.stack(
        [head_scores.previous_token_score(block, W_P, sigma) for block in blocks]
    )
    layers, heads = previous.shape
    table = pd.DataFrame(
        {
            "head": [f"{layer}.{head}" for layer in range(layers) for head in range(heads)],
            "on the previous token": previous.flatten().numpy(),
            "copying": copying.flatten().numpy(),
        }
    )
    return table.nlargest(count, "on the previous token")


# ---- Sums ----------------------------------------------------------------------------------------


@torch.no_grad()
def sum_errors(model: Transformer, name: str, ids: Sequence[int]) -> dict[torch.dtype, float]:
    """Logits as a sum over parts against those of the whole model's last state, by dtype.

    name: what Hugging Face's model is loaded by; it is gone before the sum is made, since each of
    them takes a gigabyte in double precision. The parts are added one after another: the logits of
    all at once would take more.
    """
    states = _last_states(load_reference_model(name), ids)
    return {dtype: _sum_error(model.to(dtype), last, ids) for dtype, last in states.items()}


def _sum_error(
    model: Transformer, last: Float[Tensor, "query d_model"], ids: Sequence[int]
) -> float:
    """The largest difference of a logit, beside the largest one; last: the reference's state."""
    logits = last @ model.W_U
    parts = decompose(model, [*ids])
    summed = parts.readout.bias.repeat(len(ids), 1)
    for part in parts.stream():
        summed += parts.readout.logits(part)
    return float((summed - logits).abs().max() / logits.abs().max())


@torch.no_grad()
def _last_states(
    reference: PreTrainedModel, ids: Sequence[int]
) -> dict[torch.dtype, Float[Tensor, "query d_model"]]:
    """The last hidden state of a text in single and in double precision."""
    return {
        dtype: reference.to(dtype)(torch.tensor([[*ids]])).last_hidden_state[0]
        for dtype in (torch.float32, torch.float64)
    }


class PathLosses(NamedTuple):
    """Losses of documents where groups of paths are left out.

    sums: [document kind], the first kind with nothing left out; tokens: [document], how many
    losses are in a sum.
    """

    sums: Float[np.ndarray, "document kind"]
    tokens: Float[np.ndarray, "document"]

    def rises(self) -> Float[np.ndarray, "kind"]:
        """By how much the loss rises without each group, in nats a token."""
        per_token = self.sums.sum(axis=0) / self.tokens.sum()
        return per_token[1:] - per_token[0]


def path_losses(
    model: Transformer, documents: Sequence[Sequence[int]], left_out: Mapping[str, Sequence[str]]
) -> PathLosses:
    """The loss of each document from all paths of a model of two layers, and without some.

    left_out: name → groups of paths (`lnattn_book.studies.head_paths`).
    """
    sums = []
    for ids in documents:
        paths = two_layer_paths(model, [*ids])
        without = ((), *left_out.values())
        sums.append([float(paths.loss_without([*ids], *names).sum()) for names in without])
    return PathLosses(np.array(sums), np.array([len(ids) - 1.0 for ids in documents]))


class PathErrors(NamedTuple):
    """Logits summed over paths against those of the model: without its FFNs, and whole."""

    attention_only: float
    whole: float


def path_errors(model: Transformer, ids: Sequence[int] | Int[Tensor, "n"]) -> PathErrors:
    """How far the sum over all paths of a model of two layers is from its logits, relative."""
    model = model.to(torch.float64)
    ids = torch.as_tensor(ids)
    attention_alone = tuple(Block(block.attention) for block in model.blocks)
    bare = type(model)(model.embeddings, attention_alone, model.ln_f, model.W_U)
    stream = bare.embeddings.tokens()[ids] + bare.embeddings.W_P[: len(ids)]
    for block in bare.blocks:
        stream, _ = pre_ln_layer(stream, block)
    exact = layer_norm(stream, bare.ln_f) @ bare.W_U
    return PathErrors(
        attention_only=_relative(two_layer_paths(bare, ids).logits(), exact),
        whole=_relative(two_layer_paths(model, ids).logits(), decompose(model, ids).logits()),
    )


def _relative(values: Tensor, exact: Tensor) -> float:
    return float((values - exact).abs().max() / exact.abs().max())
