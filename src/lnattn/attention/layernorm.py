"""LayerNorm taken apart: a projection, a scaling, and then an affine map.

Brody et al. 2023, §2 and App. C; Kamoda et al. 2025, Eq. 2–3 and 9. Row vectors: x in R^{1×d}.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from lnattn.errors import ShapeError
from lnattn.weights import LayerNorm


def center(x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """x C without building C: subtract from each vector the mean of its coordinates."""
    return x - x.mean(dim=-1, keepdim=True)


def sigma(x: Float[Tensor, "*batch d"], eps: float = 0.0) -> Float[Tensor, "*batch"]:
    """σ(x) = √(mean((x − μ)²) + ε), the divisor of LayerNorm (Kamoda et al. 2025, Eq. 3)."""
    return (center(x).square().mean(dim=-1) + eps).sqrt()


def standardise(x: Float[Tensor, "*batch d"], eps: float = 0.0) -> Float[Tensor, "*batch d"]:
    """Centre and divide by σ: LayerNorm before gain and bias.

    With ε = 0 every result has norm √d exactly (Brody et al. 2023, Eq. 5); a constant vector has
    no direction left after centring and gives NaN. With ε > 0 it gives 0.
    """
    return center(x) / sigma(x, eps).unsqueeze(-1)


def divide_by_sigma(x: Float[Tensor, "*batch d"], eps: float) -> Float[Tensor, "*batch d"]:
    """LN'(x) = x/σ(x): all that is left of LayerNorm once C, γ and β are folded away.

    Kamoda et al. 2025, §3.4. The mean is *not* subtracted here; the folded weights do that.
    """
    return x / sigma(x, eps).unsqueeze(-1)


def layer_norm(x: Float[Tensor, "*batch d"], ln: LayerNorm) -> Float[Tensor, "*batch d"]:
    """LayerNorm as written in the original: standardise, then γ and β (Kamoda et al., Eq. 2).

    Raises `ShapeError` for an x of another width than the norm's.
    """
    if x.shape[-1] != ln.d_model:
        raise ShapeError(
            f"x has {x.shape[-1]} coordinates but the LayerNorm has {ln.d_model}; take both from "
            "one model."
        )
    return standardise(x, ln.eps) * ln.gamma + ln.beta
