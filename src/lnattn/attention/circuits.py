"""Circuits of attention heads and how much the heads of two layers compose.

The residual stream is read through W_Q, W_K, W_V and written through W_O (Elhage et al. 2021;
Ferrando et al. 2024, §2). Of a head only two products matter::

    W_QK = W_Q W_Kᵀ  (where to attend)      W_OV = W_V W_O  (what to move)

So a later head can use what an earlier one wrote in three ways, and how much it does is always::

    ‖W_OV M‖_F / (‖W_OV‖_F ‖M‖_F)

    V-composition  M = W_OV of the later head   its values carry what the earlier head wrote
    Q-composition  M = W_QK                     its queries do
    K-composition  M = W_QKᵀ                    its keys do

Every function takes an `AttentionLayer` (raw weights) or a `FoldedAttention` (C diag(γ) W).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lnattn.attention.factored import FactoredMatrix, qr_r
from lnattn.attention.folding import FoldedAttention
from lnattn.errors import ShapeError
from lnattn.inputs import one_of, require, shown
from lnattn.weights import AttentionLayer

Kind = Literal["Q", "K", "V"]
KINDS: tuple[Kind, ...] = ("Q", "K", "V")


#: The four matrices of every head, raw or folded.
HeadWeights = AttentionLayer | FoldedAttention


def qk_circuit(layer: HeadWeights) -> FactoredMatrix:
    """W_QK = W_Q W_Kᵀ, [head d_model d_model], rank ≤ d_head: a pair scores x_i W_QK x_jᵀ."""
    require(layer, (AttentionLayer, FoldedAttention), "layer")
    return FactoredMatrix(layer.W_Q, layer.W_K.mT)


def ov_circuit(layer: HeadWeights) -> FactoredMatrix:
    """W_OV = W_V W_O, [head d_model d_model], rank ≤ d_head: what a head adds is x_j W_OV."""
    require(layer, (AttentionLayer, FoldedAttention), "layer")
    return FactoredMatrix(layer.W_V, layer.W_O)


def read_circuit(layer: HeadWeights, kind: Kind) -> FactoredMatrix:
    """The matrix M through which a later head reads: W_QK, W_QKᵀ or W_OV for Q, K or V.

    [head d_model d_model], as its factors. Raises `ShapeError` for another kind.
    """
    if kind == "V":
        return ov_circuit(layer)
    if kind == "Q":
        return qk_circuit(layer)
    if kind == "K":
        return qk_circuit(layer).T
    raise ShapeError(f"composition is of kind 'Q', 'K' or 'V', not {shown(kind)}.")


def _unit(thin: Float[Tensor, "head a b"]) -> Float[Tensor, "head a b"]:
    """Divide every head's matrix by its norm; a head of zeros stays zero: it composes with none."""
    size = torch.linalg.matrix_norm(thin, keepdim=True)
    return thin / torch.where(size > 0, size, torch.ones_like(size))


def write_factor(layer: HeadWeights) -> Float[Tensor, "head rank d_model"]:
    """W_OV of norm 1, turned on its input side so that only rank rows remain.

    W_V = Q R gives ‖W_V W_O M‖ = ‖R W_O M‖ for every M: the d_model rows shrink to d_head.
    """
    return _unit(qr_r(layer.W_V) @ layer.W_O)


def read_factor(layer: HeadWeights, kind: Kind) -> Float[Tensor, "head d_model rank"]:
    """M of norm 1 for one kind of composition, turned on its output side to rank columns."""
    circuit = read_circuit(layer, kind)
    return _unit(circuit.left @ qr_r(circuit.right.mT).mT)


def _pair_norms(
    write: Float[Tensor, "writer rank d_model"], read: Float[Tensor, "reader d_model rank"]
) -> Float[Tensor, "writer reader"]:
    """‖write_a read_b‖_F for all heads a, b: one matrix product, then sums of squares."""
    writers, rank, d_model = write.shape
    product = write.reshape(writers * rank, d_model) @ read.transpose(0, 1).reshape(d_model, -1)
    squares = product.square_().reshape(writers * rank, len(read), -1).sum(-1)
    return squares.reshape(writers, rank, len(read)).sum(1).sqrt_()


def composition_scores(
    earlier: HeadWeights, later: HeadWeights, kind: Kind
) -> Float[Tensor, "earlier_head later_head"]:
    """‖W_OV M‖_F / (‖W_OV‖_F ‖M‖_F) for every head of `earlier` and every head of `later`.

    kind: "Q", "K" or "V" (see the module's head for M). Between 0 and 1; heads of zeros score 0.
    Raises `ShapeError` for another kind, or layers of different widths.
    """
    read = read_factor(later, kind)
    require(earlier, (AttentionLayer, FoldedAttention), "earlier")
    if earlier.d_model != later.d_model:
        raise ShapeError(
            f"the earlier layer writes {earlier.d_model} coordinates but the later one reads "
            f"{later.d_model}; take both from the same model."
        )
    return _pair_norms(write_factor(earlier), read)


@dataclass(frozen=True, eq=False)
class Composition:
    """Composition scores of a whole model, and what their null distribution needs.

    scores: [kind writer_layer writer_head reader_layer reader_head], kinds in the order of
    `KINDS`; NaN for pairs that were not computed. write_spectrum, read_spectrum: the squared
    singular values of W_OV and of M divided by their sum, [layer head value] and
    [kind layer head value].
    """

    scores: Float[Tensor, "kind writer_layer writer_head reader_layer reader_head"]
    write_spectrum: Float[Tensor, "layer head value"]
    read_spectrum: Float[Tensor, "kind layer head value"]
    d_model: int

    def of(self, kind: Kind) -> Float[Tensor, "writer_layer writer_head reader_layer reader_head"]:
        """The scores of one kind; `ShapeError` for a kind that is none."""
        return self.scores[KINDS.index(one_of(kind, KINDS, "kind"))]

    def possible(self) -> Bool[Tensor, "writer_layer writer_head reader_layer reader_head"]:
        """True where the reader's layer comes after the writer's, so that the model can use it."""
        layer = torch.arange(self.scores.shape[1])
        later = layer[:, None] < layer
        return later[:, None, :, None].expand(self.scores.shape[1:])


def model_composition(layers: Sequence[HeadWeights], *, impossible: bool = False) -> Composition:
    """Composition scores between all heads of all layers, a layer pair after another.

    Only pairs with the reader in a later layer, unless `impossible` asks for the others too: no
    computation can use those. Raises `ShapeError` for no layer, or layers of different shapes.
    """
    for layer in layers:
        require(layer, (AttentionLayer, FoldedAttention), "a layer")
    shapes = {tuple(layer.W_Q.shape) for layer in layers}
    if len(shapes) != 1:
        raise ShapeError(
            f"composition needs one or more layers of one shape, not {len(layers)} layers of "
            f"{len(shapes)} shapes; take all from one model."
        )
    heads, d_model, _ = layers[0].W_Q.shape
    write = [write_factor(layer) for layer in layers]
    read = [torch.cat([read_factor(layer, kind) for kind in KINDS]) for layer in layers]
    scores = write[0].new_full((len(KINDS), len(layers), heads, len(layers), heads), torch.nan)
    for a, writer in enumerate(write):
        for b, reader in enumerate(read):
            if b > a or impossible:
                pair = _pair_norms(writer, reader).reshape(heads, len(KINDS), heads)
                scores[:, a, :, b] = pair.transpose(0, 1)
    spectra = torch.stack([_spectrum(reader.mT) for reader in read])
    return Composition(
        scores=scores,
        write_spectrum=torch.stack([_spectrum(writer) for writer in write]),
        read_spectrum=spectra.unflatten(1, (len(KINDS), heads)).transpose(0, 1),
        d_model=d_model,
    )


def _spectrum(unit: Float[Tensor, "head rank d_model"]) -> Float[Tensor, "head rank"]:
    """Squared singular values of matrices of norm 1, descending, to absolute working precision."""
    return torch.linalg.eigvalsh(unit @ unit.mT).flip(-1).clamp_min(0)
