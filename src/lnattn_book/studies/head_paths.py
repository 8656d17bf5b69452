"""Two layers, every path: direct, through one head, through two.

Elhage et al. 2021; Ferrando et al. 2024, §2.2.3. For an attention-only model the slides write::

    f(x) = x W_U + x W¹W_U + x W¹W²W_U + x W²W_U

with each head 'just an OV matrix'. A head also moves information between tokens, so here the same
four groups appear with their attention held fixed at the values it took: with A^h = α^h/σ (each
key's attention divided by its realised σ)::

    direct path      X                       full OV circuits  A¹ X W¹_VO  and  A² X W²_VO
    virtual heads    A² A¹ X W¹_VO W²_VO     for every pair of heads (h₁, h₂)

The remaining terms are biases; outputs of FFNs, if there are any, are extra sources that are not
taken apart, and the sum stays exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, fold
from lnattn.attention.layernorm import sigma
from lnattn.attention.residual import Readout, attend, decompose
from lnattn.attention.terms import check_indices
from lnattn.errors import ShapeError, TokenError
from lnattn.inputs import require
from lnattn.transformer import Transformer


@dataclass(frozen=True, eq=False)
class TwoLayerPaths:
    """Every path through two layers of one sequence, as summands of the final residual stream.

    first, second: full OV circuits of layers 0 and 1; mlp: what the FFNs add directly; mlp_second:
    the first FFN through the heads of layer 1; bias: all attention biases, directly and through
    layer 1. moves: the two matrices A = α/σ that were held fixed.
    """

    direct: Float[Tensor, "query d_model"]
    first: Float[Tensor, "head query d_model"]
    second: Float[Tensor, "head query d_model"]
    virtual: Float[Tensor, "first_head second_head query d_model"]
    mlp: Float[Tensor, "query d_model"]
    mlp_second: Float[Tensor, "head query d_model"]
    bias: Float[Tensor, "query d_model"]
    moves: tuple[Float[Tensor, "head query key"], Float[Tensor, "head query key"]]
    readout: Readout

    def groups(self) -> dict[str, Float[Tensor, "query d_model"]]:
        """Each kind of path summed over heads; the groups add up to the final stream."""
        return {
            "direct path": self.direct,
            "full OV circuits, layer 0": self.first.sum(0),
            "full OV circuits, layer 1": self.second.sum(0),
            "virtual heads": self.virtual.sum((0, 1)),
            "FFNs": self.mlp,
            "FFN 0 through layer 1": self.mlp_second.sum(0),
            "attention biases": self.bias,
        }

    def logits(self) -> Float[Tensor, "query vocab"]:
        """The model's logits, as the sum of all paths and the final bias."""
        return self.readout.logits(reduce(torch.add, self.groups().values())) + self.readout.bias

    def loss_without(
        self, token_ids: Int[Tensor, "query"] | list[int], *names: str
    ) -> Float[Tensor, "next"]:
        """The loss on each next token, in nats, without some of the `groups`.

        Patterns and the σ of the last LayerNorm stay those of the whole model. `ShapeError` for a
        name that is no group, `TokenError` for other token ids than one a query.
        """
        ids = check_indices(token_ids, len(self.readout.bias), "token id", "the vocabulary")
        if len(ids) != len(self.direct):
            raise TokenError(f"give the {len(self.direct)} tokens of the text, not {len(ids)}.")
        groups = self.groups()
        if unknown := set(names) - set(groups):
            raise ShapeError(f"{min(unknown)!r} is not one of: {', '.join(groups)}.")
        parts = [part for name, part in groups.items() if name not in names]
        remaining = sum(parts, start=torch.zeros_like(self.direct))
        logits = self.readout.logits(remaining) + self.readout.bias
        return torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")


def two_layer_paths(
    model: Transformer, token_ids: Int[Tensor, "query"] | list[int]
) -> TwoLayerPaths:
    """Expand a two-layer model's computation on one sequence into all its paths.

    Memory is head² · query · d_model numbers. Raises `ShapeError` unless the model has two layers
    and `TokenError` for ids that the model does not know.
    """
    require(model, Transformer, "model")
    if model.n_layers != 2:
        raise ShapeError(f"the expansion into paths is for two layers, not {model.n_layers}.")
    parts = decompose(model, token_ids)
    layer0 = fold(model.blocks[0].attention)
    layer1 = fold(model.blocks[1].attention)
    x = parts.direct
    first = parts.heads[0]
    middle = x + first.sum(0) + parts.biases[0] + parts.mlps[0]
    move0 = _move(parts.attention[0], x, layer0)
    move1 = _move(parts.attention[1], middle, layer1)
    constant = parts.biases[0].expand_as(x)
    return TwoLayerPaths(
        direct=x,
        first=first,
        second=attend(move1, x, layer1),
        virtual=attend(move1, first, layer1),
        mlp=parts.mlps.sum(0),
        mlp_second=attend(move1, parts.mlps[0], layer1),
        bias=parts.biases.sum(0) + attend(move1, constant, layer1).sum(0),
        moves=(move0, move1),
        readout=parts.readout,
    )


def _move(
    alpha: Float[Tensor, "head query key"], x: Float[Tensor, "key d_model"], folded: FoldedAttention
) -> Float[Tensor, "head query key"]:
    """A = α/σ_j: the attention with the division of the LayerNorm it reads through."""
    return alpha / sigma(x, folded.eps)
