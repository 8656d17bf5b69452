"""Matrices kept as a product of two thin factors.

A head's circuits are d_model × d_model but have rank d_head at most. What is asked of them is
computed from the factors, at a cost of d_model · d_head².
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import ShapeError


@dataclass(frozen=True, eq=False)
class FactoredMatrix:
    """M = left @ right, a batch of matrices given by their factors.

    left: `[*batch row rank]`; right: `[*batch rank col]`; one floating-point dtype for both. The
    batch axes must be equal (for a layer's circuits there is one, `head`). Raises `ShapeError`
    where the factors do not fit together.
    """

    left: Float[Tensor, "*batch row rank"]
    right: Float[Tensor, "*batch rank col"]

    def __post_init__(self) -> None:
        left = self.left.shape
        right = self.right.shape
        if len(left) < 2 or left[:-2] != right[:-2] or left[-1] != right[-2]:
            raise ShapeError(
                f"the factors have shapes {list(left)} and {list(right)}; they must be "
                "[*batch row rank] and [*batch rank col] with equal batch axes and rank."
            )
        if self.left.dtype != self.right.dtype or not self.left.is_floating_point():
            raise ShapeError(
                f"the factors have dtypes {self.left.dtype} and {self.right.dtype}; "
                "convert both to one floating-point dtype."
            )

    @property
    def T(self) -> FactoredMatrix:
        """The transposed matrix, still factored."""
        return FactoredMatrix(self.right.mT, self.left.mT)

    def dense(self) -> Float[Tensor, "*batch row col"]:
        """The product itself. Costs row · col numbers per matrix; no method here needs it."""
        return self.left @ self.right

    def apply(self, x: Float[Tensor, "*any row"]) -> Float[Tensor, "*out col"]:
        """x M for row vectors x, through the thin inner dimension; batch axes come first."""
        return (x @ self.left) @ self.right


def qr_r(tall: Float[Tensor, "*batch row col"]) -> Float[Tensor, "*batch min col"]:
    """R of the thin QR decomposition: keeps every norm ‖tall · X‖ = ‖R · X‖ in col × col.

    Not the root of the Gram matrix tallᵀ tall, which squares the condition and so loses half of
    the digits.
    """
    return torch.linalg.qr(tall, mode="r").R
