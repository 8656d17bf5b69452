"""What the majority model computes before it meets a sequence: its classes' scores and values.

All runs of a stack at once, and by hand the way back from the gradients of scores and values to
those of the parameters: these matrices are so small that autograd's bookkeeping takes longer than
all their products. First axis of every array: the run. See `kernel` for what follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from experiments.majority.kernel import Weights, padded
from lnattn.majority.model import DIRECTION, Arm, other_normals

EMBEDDING = "embedding.weight"
_IN, _OUT = "layer.self_attn.in_proj_weight", "layer.self_attn.out_proj.weight"


class Layout(NamedTuple):
    """Names, shapes and places of the parameters in one flat vector."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    ends: tuple[int, ...]

    def views(self, flat: Any) -> dict[str, Any]:
        """Each parameter of all runs, [run, *shape], as a view into `flat` [run, parameters].

        flat: a tensor or an array; the views are the same.
        """
        starts = (0, *self.ends[:-1])
        return {
            name: flat[:, start:end].reshape(-1, *shape)
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


def attention_of(parameters: Mapping[str, Any], arm: Arm) -> Attention:
    """Queries, keys and values of every class. parameters: with a run axis (`Layout.views`)."""
    head = Head({name: np.asarray(value) for name, value in parameters.items()}, arm)
    found = (head.normalised.y, head.queries, head.scores, head.values)
    return Attention(*(torch.from_numpy(array) for array in found))


class Head:
    """Scores [run, C, C] and values [run, C, d] of every class, and the way back to the parameters.

    parameters: arrays with a run axis, in whose precision all is computed.
    """

    def __init__(self, parameters: Mapping[str, np.ndarray], arm: Arm) -> None:
        self.arm, self.parameters = arm, parameters
        self.normalised = Normalised(parameters[EMBEDDING], parameters.get(DIRECTION), arm)
        y = self.normalised.y
        d = y.shape[-1]
        self._W_Q, self._W_K, self._W_V = np.split(parameters[_IN], 3, axis=1)
        self._for_scores, self._for_values = (
            y / d if arm.small == which else y for which in ("scores", "values")
        )
        self._Q = self._for_scores @ _T(self._W_Q)
        self.queries = self._Q @ self._W_K / math.sqrt(d)
        self.scores = self.queries @ _T(self._for_scores)
        if arm.uniform:
            self.scores[:] = 0
        self._V = self._for_values @ _T(self._W_V)
        self.values = self._V @ _T(parameters[_OUT])

    def gradients(self, d_scores: np.ndarray, d_values: np.ndarray) -> dict[str, np.ndarray]:
        """∂loss/∂ every parameter that scores and values are made of, given ∂loss/∂ these two."""
        d_V = d_values @ self.parameters[_OUT]
        d_y = d_V @ self._W_V
        d = d_y.shape[-1]
        d_W = np.zeros_like(self.parameters[_IN])
        d_W[:, 2 * d :] = _T(d_V) @ self._for_values
        if self.arm.small == "values":
            d_y /= d
        if not self.arm.uniform:
            d_queries = d_scores @ self._for_scores / math.sqrt(d)
            d_Q = d_queries @ _T(self._W_K)
            d_W[:, :d] = _T(d_Q) @ self._for_scores
            d_W[:, d : 2 * d] = _T(self._Q) @ d_queries
            along = d_Q @ self._W_Q + _T(d_scores) @ self.queries
            d_y += along / d if self.arm.small == "scores" else along
        return {
            **self.normalised.gradients(d_y),
            _IN: d_W,
            _OUT: _T(d_values) @ self._V,
        }


class Normalised:
    """`Arm.normalise` of the embeddings of all runs [run, C, d], in `y`, and the way back.

    Row by row y = c·x P/|r|, where P takes out what the arm projects along, and r, which gives the
    length, is x P or, for 'sigma', x less its mean. direction: [run, d], of arms that have one.
    """

    def __init__(self, x: np.ndarray, direction: np.ndarray | None, arm: Arm) -> None:
        d = x.shape[-1]
        self._arm, self._P = arm, _projection(arm, d, x.dtype)
        self._before = x @ self._P
        self._u = None
        kept = self._before
        if direction is not None:
            self._length = np.linalg.norm(direction, axis=-1)[:, None, None]
            self._u = direction[:, None] / self._length
            kept = kept - (kept * self._u).sum(axis=-1, keepdims=True) * self._u
        self._kept, self.y = kept, kept
        if arm.norm == "none":
            return
        self._r = x - x.mean(axis=-1, keepdims=True) if arm.norm == "sigma" else kept
        self._square = (self._r * self._r).sum(axis=-1, keepdims=True)
        c = 1 / math.sqrt(d) if arm.norm == "inverse" else math.sqrt(d)
        self._factor = c / np.sqrt(self._square)
        self.y = kept * self._factor

    def gradients(self, d_y: np.ndarray) -> dict[str, np.ndarray]:
        """∂loss/∂ the embeddings and, if it is learnt, the direction, given ∂loss/∂y."""
        d_x, d_kept = np.zeros_like(d_y), d_y
        if self._arm.norm != "none":
            along = (d_y * self.y).sum(axis=-1, keepdims=True) / self._square
            d_kept = d_y * self._factor
            if self._arm.norm == "sigma":
                # r has no mean, so that its gradient, a multiple of r, passes through centring.
                d_x -= along * self._r
            else:
                d_kept -= along * self._r
        found = {}
        if self._u is not None:
            u = self._u
            of_kept = (d_kept * u).sum(axis=-1, keepdims=True)
            if self._arm.direction == "learnt":
                inner = (self._before * u).sum(axis=-1, keepdims=True)
                d_u = -(of_kept * self._before + inner * d_kept).sum(axis=1, keepdims=True)
                d_u -= (d_u * u).sum(axis=-1, keepdims=True) * u
                found[DIRECTION] = (d_u / self._length)[:, 0]
            d_kept = d_kept - of_kept * u
        return {EMBEDDING: d_x + d_kept @ self._P, **found}


@lru_cache
def _projection(arm: Arm, d: int, dtype: np.dtype) -> np.ndarray:
    """P, symmetric [d, d]: without 1, if the arm projects, and without its other vectors."""
    P = np.eye(d) - arm.project / d
    if arm.others:
        normals = other_normals(d, arm.others).numpy()
        P -= normals.T @ normals
    return P.astype(dtype)


def weights_of(parameters: Mapping[str, np.ndarray], head: Head) -> Weights:
    """All that the kernel reads, padded, first axis the run."""
    e, W1 = parameters[EMBEDDING], parameters["layer.linear1.weight"]
    W2 = parameters["layer.linear2.weight"]
    return Weights(
        scores=head.scores,
        values=head.values,
        start=e + parameters["layer.self_attn.out_proj.bias"][:, None],
        embedding=_padded(e),
        embedding_T=_padded(_T(e)),
        W1=_padded(W1),
        b1=np.ascontiguousarray(parameters["layer.linear1.bias"]),
        W1_T=_padded(_T(W1)),
        W2=_padded(W2),
        b2=np.ascontiguousarray(parameters["layer.linear2.bias"]),
        W2_T=_padded(_T(W2)),
        gain=np.ascontiguousarray(parameters["layer.norm2.weight"]),
        shift=np.ascontiguousarray(parameters["layer.norm2.bias"]),
    )


def _padded(value: np.ndarray) -> np.ndarray:
    found = np.zeros((*value.shape[:-1], padded(value.shape[-1])), value.dtype)
    found[..., : value.shape[-1]] = value
    return found


def _T(matrices: np.ndarray) -> np.ndarray:
    return matrices.swapaxes(-1, -2)
