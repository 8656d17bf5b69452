"""How large composition scores are when nothing composes: two yardsticks.

1. *Random rotation.* Keep every head's own singular values but turn the writer against the reader
   by a random rotation U. With p, q the squared singular values of writer and reader divided by
   their sums, the squared score is S = Σ_ij p_i q_j U_ij². Its mean is 1/d_model *exactly*, and
   its variance has a closed form (`rotation_moments`).
2. *Impossible pairs.* Scores of heads that write after, or beside, the head that reads.

The first tests against 'no relation at all', which real models fail everywhere; the second tests
against 'no more relation than any two heads have'.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.circuits import KINDS, Composition, Kind
from lnattn.errors import ShapeError
from lnattn.inputs import one_of, whole_number
from lnattn.weights import AttentionBlock

#: A first layer, of learned positions or of rotary ones.
M = TypeVar("M", bound=Any)


def random_baseline(d_model: int) -> float:
    """1/√d_model: the root mean square of the score of two unrelated heads.

    Holds for every shape of the singular values, Gaussian weights included, since E[U_ij²] is
    1/d_model for a random rotation U. This is what 'the baseline subtracted' subtracts. Raises
    `ShapeError` for a width below 1.
    """
    whole_number(d_model, "d_model")
    return d_model**-0.5


def rotation_moments(
    p: Float[Tensor, "*#batch value"], q: Float[Tensor, "*#batch value2"], d_model: int
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Mean and variance of the *squared* score under a random rotation of the residual stream.

    p, q: squared singular values divided by their sum; batch axes broadcast. Follows from the
    moments of a Haar orthogonal matrix: E[U_ij⁴] = 3/(d(d+2)), E[U_ij² U_ik²] = 1/(d(d+2)) in one
    row or column, E[U_ij² U_kl²] = (d+1)/(d(d−1)(d+2)) otherwise. Raises `ShapeError` for a width
    below 2, where nothing can be rotated.
    """
    whole_number(d_model, "d_model", least=2)
    d = float(d_model)
    P = p.square().sum(-1)
    Q = q.square().sum(-1)
    # Each product below is the weight of one of the three kinds of index pairs. Subtracting 1/d²
    # inside them, not at the end, avoids cancelling two nearly equal numbers.
    same = 3 / (d * (d + 2)) - 1 / d**2
    line = 1 / (d * (d + 2)) - 1 / d**2
    apart = (d + 1) / (d * (d - 1) * (d + 2)) - 1 / d**2
    variance = P * Q * same + (P * (1 - Q) + (1 - P) * Q) * line + (1 - P) * (1 - Q) * apart
    return torch.full_like(variance, 1 / d), variance.clamp_min(0)


def rotation_z(composition: Composition, kind: Kind) -> Float[Tensor, "layer head layer head"]:
    """(S − E S)/√Var S of every squared score S under the random-rotation null.

    NaN where the score was not computed. Raises `ShapeError` for a kind that is none.
    """
    index = KINDS.index(one_of(kind, KINDS, "kind"))
    p = composition.write_spectrum[:, :, None, None]
    q = composition.read_spectrum[index]
    mean, variance = rotation_moments(p, q, composition.d_model)
    return (composition.scores[index].square() - mean) / variance.sqrt()


def permuted_weights(model: M, seed: int, *, heads_only: bool = False) -> M:
    """A model with the entries of every tensor in random order: values stay, places are chance.

    heads_only: leave the embeddings, and the norm that heads read them through, as they are. Raises
    `ShapeError` for anything but a first layer.
    """
    if not isinstance(getattr(model, "attention", None), AttentionBlock):
        raise ShapeError(
            f"model must be a first layer, not a {type(model).__name__}; load one with "
            "lnattn.load_first_layer(name)."
        )
    generator = torch.Generator().manual_seed(seed)

    def permuted(owner: Any) -> Any:
        tensors = {}
        for name, value in vars(owner).items():
            if isinstance(value, Tensor):
                order = torch.randperm(value.numel(), generator=generator)
                tensors[name] = value.flatten()[order].view_as(value)
        return replace(owner, **tensors)

    norm = model.attention.ln
    attention = permuted(model.attention)
    about = {**model.provenance, "name": f"{model.name}, permuted", "null_seed": seed}
    if heads_only:
        return replace(model, attention=attention, provenance=about)
    attention = replace(attention, ln=norm if norm is None else permuted(norm))
    embeddings = permuted(model.embeddings)
    return replace(model, embeddings=embeddings, attention=attention, provenance=about)
