"""Matrices kept as a product of two thin factors.

A head's circuits are d_model × d_model but have rank d_head at most. Everything asked of them here
(norms, eigenvalues, products) is computed from the factors, at a cost of d_model · d_head².
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from lnattn.errors import ShapeError


@dataclass(frozen=True, eq=False)
class FactoredMatrix:
    """M = left @ right, a batch of matrices given by their factors.

    left: [*batch row rank]; right: [*batch rank col]; one floating-point dtype for both. The
    batch axes must be equal (for a layer's circuits there is one, `head`).
    """

    left: Float[Tensor, "*batch row rank"]
    right: Float[Tensor, "*batch rank col"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the dense matrix, batch axes first."""
        return (*self.left.shape[:-1], self.right.shape[-1])

    @property
    def inner(self) -> int:
        """The inner dimension, an upper bound of the rank (d_head for a head's circuit)."""
        return self.left.shape[-1]

    @property
    def T(self) -> FactoredMatrix:
        """The transposed matrix, still factored."""
        return FactoredMatrix(self.right.mT, self.left.mT)

    def __getitem__(self, index: int | slice) -> FactoredMatrix:
        """Select along the first batch axis: `circuit[head]`."""
        return FactoredMatrix(self.left[index], self.right[index])

    def dense(self) -> Float[Tensor, "*batch row col"]:
        """The product itself. Costs row · col numbers per matrix; no method here needs it."""
        return self.left @ self.right

    def apply(self, x: Float[Tensor, "*any row"]) -> Float[Tensor, "*out col"]:
        """x M for row vectors x, through the thin inner dimension; batch axes come first."""
        return (x @ self.left) @ self.right

    def __matmul__(self, other: FactoredMatrix | Tensor) -> FactoredMatrix:
        """M N, factored with the smaller of the two inner dimensions."""
        if isinstance(other, Tensor):
            return FactoredMatrix(self.left, self.right @ other)
        if not isinstance(other, FactoredMatrix):
            return NotImplemented
        middle = self.right @ other.left
        if self.inner <= other.inner:
            return FactoredMatrix(self.left, middle @ other.right)
        return FactoredMatrix(self.left @ middle, other.right)

    def __rmatmul__(self, other: Tensor) -> FactoredMatrix:
        return FactoredMatrix(other @ self.left, self.right)

    def core(self) -> Float[Tensor, "*batch small small2"]:
        """R_A R_Bᵀ, where left = Q_A R_A and rightᵀ = Q_B R_B with orthonormal columns in Q.

        M = Q_A · core · Q_Bᵀ, so the core has M's norm and M's non-zero singular values.
        """
        return triangle(self.left) @ triangle(self.right.mT).mT

    def norm(self) -> Float[Tensor, "*batch"]:
        """Frobenius norm."""
        return torch.linalg.matrix_norm(self.core())

    def eigenvalues(self) -> Complex[Tensor, "*batch value"]:
        """The min(row, rank) eigenvalues that can differ from zero, by falling modulus.

        AB and BA have the same non-zero eigenvalues, so those of right @ left are all there is.
        """
        self._need_square("eigenvalues")
        small = self.right @ self.left if self.inner <= self.shape[-1] else self.dense()
        values = torch.linalg.eigvals(small)
        return values.gather(-1, values.abs().argsort(-1, descending=True))

    def _need_square(self, what: str) -> None:
        if self.shape[-1] != self.shape[-2]:
            raise ShapeError(
                f"only a square matrix has {what}, not one of shape {list(self.shape[-2:])}."
            )


def triangle(tall: Float[Tensor, "*batch row col"]) -> Float[Tensor, "*batch min col"]:
    """R of the thin QR decomposition: keeps every norm ‖tall · X‖ = ‖R · X‖ in col × col."""
    return torch.linalg.qr(tall, mode="r").R
