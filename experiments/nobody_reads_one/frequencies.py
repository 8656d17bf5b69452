"""Rotary scores by frequency: a query against a key at distance Δ is a sum of cosines.

A pair of coordinates that turns by θ_f a position is one complex number, and Re(q e^{iθΔ} k̄)
gives::

    q R_Δ kᵀ = c + Σ_f a_f cos(θ_f Δ + φ_f),   a_f = |q_f| |k_f|,  φ_f = arg q_f − arg k_f,

exactly, with c from the coordinates that are not turned. Of q₀ and k₀ it is 'distance alone', T^d.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import ShapeError
from lnattn.inputs import require
from lnattn.rotary.fold import FoldedRelative


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Amplitude and phase of a head's score at every frequency, before the scale; float64.

    theta: [frequency], radians a position, fastest first in most models; amplitude, phase:
    [head frequency]; constant: [head], of the coordinates that no position turns.
    """

    theta: Float[Tensor, "frequency"]
    amplitude: Float[Tensor, "head frequency"]
    phase: Float[Tensor, "head frequency"]
    constant: Float[Tensor, "head"]

    def curve(self, distances: Tensor) -> Float[Tensor, "head distance"]:
        """c + Σ_f a_f cos(θ_f Δ + φ_f) at the given distances Δ = i − j."""
        angle = self.theta[:, None] * distances.to(self.theta) + self.phase[..., None]
        return self.constant[:, None] + (self.amplitude[..., None] * angle.cos()).sum(1)

    def phase_coherence(self, distance: int) -> Float[Tensor, "head"]:
        """Σ_f a_f cos(θ_f Δ + φ_f) over Σ_f a_f: 1 where all phases meet at this distance."""
        reached = self.curve(torch.tensor([distance]))[:, 0] - self.constant
        return reached / self.amplitude.sum(1)


def spectrum(
    folded: FoldedRelative,
    query: Float[Tensor, "head d_head"],
    key: Float[Tensor, "key_head d_head"],
) -> Spectrum:
    """The spectrum of one query vector a head against one key vector, neither turned.

    With `mean_vectors(folded, embeddings)` it is that of T^d. Raises `ShapeError` for a block
    without rotation, or vectors of other shapes. Exact where a position always turns by the same
    angle; not for models that choose their angles by the length of the text.
    """
    require(folded, FoldedRelative, "folded")
    if query.shape != folded.b_Q.shape or key.shape != folded.b_K.shape:
        raise ShapeError(
            f"query and key must have the shapes {list(folded.b_Q.shape)} and "
            f"{list(folded.b_K.shape)}, not {list(query.shape)} and {list(key.shape)}."
        )
    if folded.rotation is None:
        raise ShapeError("this block turns no coordinates, so its scores have no frequencies.")
    q = query.double()
    k = folded.per_head(key).double()
    # From float32 tables an angle has an error of 1e-7, and a thousand positions 1e-4.
    all_cos, all_sin = folded.rotation.tables(torch.arange(2), torch.float64)
    cos = all_cos[1]  # of one position's step
    sin = all_sin[1]
    n = cos.shape[0]
    if folded.rotation.interleaved:
        first = slice(0, n, 2)
        second = slice(1, n, 2)
    else:
        first = slice(0, n // 2)
        second = slice(n // 2, n)
    conjugate_key = torch.complex(k[:, first], -k[:, second])
    product = torch.complex(q[:, first], q[:, second]) * conjugate_key
    product = product * (cos[first].square() + sin[first].square())  # tables may stretch
    return Spectrum(
        theta=torch.atan2(sin[first], cos[first]),
        amplitude=product.abs(),
        phase=product.angle(),
        constant=(q[:, n:] * k[:, n:]).sum(1),
    )
