"""What the majority model computes before it meets a sequence: its classes' scores and values.

All runs of a stack at once, by torch, so that autograd finds the gradients of this part. First
axis of every tensor: the run. See `kernel` for what follows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from lnattn.studies.majority.kernel import Weights, padded
from lnattn.studies.majority.model import DIRECTION, Arm

_HEAD = (
    "embedding.weight",
    "layer.self_attn.in_proj_weight",
    "layer.self_attn.out_proj.weight",
)


def head_of(arm: Arm) -> tuple[str, ...]:
    """The trained parameters that decide the classes' scores and values."""
    return (*_HEAD, DIRECTION) if arm.direction == "learnt" else _HEAD


class Layout(NamedTuple):
    """Names, shapes and places of the parameters in one flat vector."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    ends: tuple[int, ...]

    def views(self, flat: Float[Tensor, "run parameters"]) -> dict[str, Tensor]:
        """Each parameter of all runs, [run, *shape], as a view into `flat`."""
        starts = (0, *self.ends[:-1])
        return {
            name: flat[:, start:end].unflatten(1, shape)
            for name, shape, start, end in zip(
                self.names, self.shapes, starts, self.ends, strict=True
            )
        }


def layout_of(parameters: dict[str, Tensor]) -> Layout:
    """The layout in which these parameters, without a run axis, are laid end to end."""
    ends = np.cumsum([value.numel() for value in parameters.values()])
    shapes = tuple(value.shape for value in parameters.values())
    return Layout(tuple(parameters), shapes, tuple(int(end) for end in ends))


class Attention(NamedTuple):
    """What attention computes before it meets a sequence; first axis: the run.

    normalised: the classes' inputs y; queries: y Q Kᵀ/√d, what a key is multiplied with (Eq. 6);
    scores: S, [query class, key class]; values: v, already multiplied with attention's output
    matrix.
    """

    normalised: Float[Tensor, "run classes d"]
    queries: Float[Tensor, "run classes d"]
    scores: Float[Tensor, "run classes classes"]
    values: Float[Tensor, "run classes d"]


def attention_of(parameters: dict[str, Tensor], arm: Arm) -> Attention:
    """Queries, keys and values of every class. parameters: with a run axis (`Layout.views`)."""
    direction = parameters.get(DIRECTION)
    y = arm.normalise(
        parameters["embedding.weight"], None if direction is None else direction[:, None]
    )
    W_Q, W_K, W_V = parameters["layer.self_attn.in_proj_weight"].chunk(3, dim=1)
    of_scores, of_values = arm.score_inputs(y), arm.value_inputs(y)
    queries = of_scores @ W_Q.mT @ W_K / math.sqrt(y.shape[-1])
    values = of_values @ W_V.mT @ parameters["layer.self_attn.out_proj.weight"].mT
    scores = queries @ of_scores.mT
    # Not zeros of their own: autograd must find its way to the parameters.
    return Attention(y, queries, 0 * scores if arm.uniform else scores, values)


def weights_of(parameters: dict[str, Tensor], attention: Attention) -> Weights:
    """All that the kernel reads, padded, first axis the run; they share memory where they can."""
    e, W1 = parameters["embedding.weight"], parameters["layer.linear1.weight"]
    W2 = parameters["layer.linear2.weight"]
    return Weights(
        scores=_plain(attention.scores.detach()),
        values=_plain(attention.values.detach()),
        start=_plain(e + parameters["layer.self_attn.out_proj.bias"][:, None]),
        embedding=_padded(e),
        embedding_T=_padded(e.mT),
        W1=_padded(W1),
        b1=_plain(parameters["layer.linear1.bias"]),
        W1_T=_padded(W1.mT),
        W2=_padded(W2),
        b2=_plain(parameters["layer.linear2.bias"]),
        W2_T=_padded(W2.mT),
        gain=_plain(parameters["layer.norm2.weight"]),
        shift=_plain(parameters["layer.norm2.bias"]),
    )


def _plain(value: Tensor) -> np.ndarray:
    return value.contiguous().numpy()


def _padded(value: Tensor) -> np.ndarray:
    missing = padded(value.shape[-1]) - value.shape[-1]
    return _plain(pad(value, (0, missing)) if missing else value)
