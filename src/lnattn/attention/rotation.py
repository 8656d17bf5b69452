"""Turning queries and keys by their positions (rotary embeddings, Su et al. 2021)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import ShapeError
from lnattn.relative import Rotation


def turn(
    x: Float[Tensor, "*batch n d_head"],
    positions: Tensor,
    rotation: Rotation | None,
) -> Float[Tensor, "*batch n d_head"]:
    """x R: row m of x turned as at positions[m]; x itself where there is no rotation (R = I).

    A score (q R_i)(k R_j)ᵀ depends on i − j alone, but for the rounding of the tables, which
    transformers computes in single precision.
    """
    if rotation is None:
        return x
    cos, sin = (table.to(x.device) for table in rotation.tables(positions, x.dtype))
    return rotate(x, cos, sin, rotation.interleaved)


def rotate(
    x: Float[Tensor, "*batch n d_head"],
    cos: Float[Tensor, "n turned"],
    sin: Float[Tensor, "n turned"],
    interleaved: bool = False,
) -> Float[Tensor, "*batch n d_head"]:
    """x ⊙ cos + (x turned by 90°) ⊙ sin on the first `turned` coordinates; the rest unchanged."""
    turned = cos.shape[-1]
    if turned % 2 or turned > x.shape[-1]:
        raise ShapeError(f"{turned} of {x.shape[-1]} coordinates cannot be turned in pairs.")
    some = x[..., :turned]
    if interleaved:
        quarter = torch.stack((-some[..., 1::2], some[..., ::2]), dim=-1).flatten(-2)
    else:
        quarter = torch.cat((-some[..., turned // 2 :], some[..., : turned // 2]), dim=-1)
    return torch.cat((some * cos + quarter * sin, x[..., turned:]), dim=-1)
