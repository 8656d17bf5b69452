"""Loss and gradients by the model's parameters: what the kernel is given of them, and the way back.

In NumPy, because torch's autograd takes longer over these few small arrays than the kernel over a
fifth of a batch. Each function makes a part of the kernel's `Weights` and hands on how a gradient
goes back through it, its *pullback*, whose lines are derivatives of the function's, last first
(`Forward`). The oracle is `train.evaluate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8

from experiments.majority.kernel import Weights, batch_loss
from lnattn_book.studies.majority.encoder import DIRECTION, Variant, other_normals
from lnattn_book.studies.majority.train import Learner

#: The matrix of the feed-forward layer that comes first, and what goes into it.
FIRST = (
    "layer.linear1.weight",
    "layer.linear1.bias",
    "layer.norm2.weight",
    "layer.norm2.bias",
)


class FastLearner(Learner):
    """A `Learner` whose steps are the kernel's: for the long runs."""

    def loss(self, counts: UInt8[np.ndarray, "batch classes"]) -> float:
        """The mean loss of a batch, in nats; its gradients become those of the parameters."""
        arrays = {name: value.detach().numpy() for name, value in self.parameters.items()}
        loss, gradients = loss_and_gradients(arrays, self.arm, counts)
        for name, value in self.parameters.items():
            if value.requires_grad:
                value.grad = torch.from_numpy(np.ascontiguousarray(gradients[name]))
        return loss

    def accuracy(self, counts: UInt8[np.ndarray, "batch classes"]) -> float:
        """The share of right answers."""
        arrays = {name: value.detach().numpy() for name, value in self.parameters.items()}
        return accuracy_of(arrays, self.arm, counts)


class Forward(NamedTuple):
    """What a function gives: an array, or several, and the way back through it.

    pullback: from the gradients of the results, in their order, those of the function's arrays.
    """

    result: Any
    pullback: Callable[..., Any]


def loss_and_gradients(
    parameters: Mapping[str, np.ndarray], arm: Variant, counts: UInt8[np.ndarray, "batch classes"]
) -> tuple[float, dict[str, np.ndarray]]:
    """The mean cross-entropy of `train.evaluate` in nats, and its gradient by each parameter.

    parameters: as in `initial_parameters`, float32, by name as their gradients are.
    """
    weights = kernel_weights(parameters, arm)
    loss, _, gradients = batch_loss(weights.result, counts, gradients=True)
    return loss, weights.pullback(gradients)


def accuracy_of(
    parameters: Mapping[str, np.ndarray], arm: Variant, counts: UInt8[np.ndarray, "batch classes"]
) -> float:
    """The share of right answers of `train.evaluate`."""
    weights = kernel_weights(parameters, arm).result
    return batch_loss(weights, counts, gradients=False)[1]


def kernel_weights(parameters: Mapping[str, np.ndarray], arm: Variant) -> Forward:
    """What the kernel computes with, and how its gradients become those of the parameters."""
    E = parameters["embedding.weight"]
    W_in = parameters["layer.self_attn.in_proj_weight"]
    W_O = parameters["layer.self_attn.out_proj.weight"]
    added_to = E + parameters["layer.self_attn.out_proj.bias"]
    P = _projection(parameters.get(DIRECTION), arm, E.shape[1])
    y = _normalised(E, P.result, arm)
    attention = _attention(y.result, W_in, W_O, arm)
    mixing = _mixing(added_to, *attention.result)
    W_1 = _first_matrix(*(parameters[name] for name in FIRST))
    W_2 = np.column_stack([parameters["layer.linear2.weight"], parameters["layer.linear2.bias"]])

    def pullback(gradients: Weights) -> dict[str, np.ndarray]:
        d_first = W_1.pullback(gradients.W_1)
        d_added_to, *d_attention = mixing.pullback(gradients.mixing)
        d_y, d_W_in, d_W_O = attention.pullback(*d_attention)
        d_E, d_P = y.pullback(d_y)
        by_name = {
            "embedding.weight": gradients.embedding + d_added_to + d_E,
            "layer.self_attn.in_proj_weight": d_W_in,
            "layer.self_attn.out_proj.weight": d_W_O,
            "layer.self_attn.out_proj.bias": d_added_to.sum(axis=0),
            "layer.linear2.weight": gradients.W_2[:, :-1],
            "layer.linear2.bias": gradients.W_2[:, -1],
            **dict(zip(FIRST, d_first, strict=True)),
        }
        if DIRECTION in parameters:
            (by_name[DIRECTION],) = P.pullback(d_P)
        return by_name

    weights = Weights(embedding=E, mixing=mixing.result, W_1=W_1.result, W_2=W_2)
    return Forward(weights, pullback)


def _projection(direction: Float[np.ndarray, "d"] | None, arm: Variant, d: int) -> Forward:
    """P [d d] of `Variant.normalise`: it projects along fixed vectors, then along the direction."""
    fixed = _fixed_projection(arm, d)
    if direction is None:
        return Forward(fixed, lambda _: ())
    length = np.sqrt(direction @ direction)
    u = direction / length
    P = fixed - np.outer(fixed @ u, u)

    def pullback(d_P: np.ndarray) -> tuple[np.ndarray]:
        d_u = -(d_P.T @ fixed @ u + fixed @ d_P @ u)
        return ((d_u - u * (u @ d_u)) / length,)

    return Forward(P, pullback)


@lru_cache
def _fixed_projection(arm: Variant, d: int) -> Float[np.ndarray, "d d"]:
    """The projection that all runs of an arm have, float32."""
    P = np.eye(d) - (1 / d if arm.project else 0)
    if arm.others:
        normals = other_normals(d, arm.others).numpy()
        P -= normals.T @ normals
    return P.astype(np.float32)


def _normalised(
    E: Float[np.ndarray, "classes d"], P: Float[np.ndarray, "d d"], arm: Variant
) -> Forward:
    """`Variant.normalise`, [class d]: s p/‖q‖ with p = E P and q = p, or q = E − mean E; or p."""
    d = E.shape[1]
    p = E @ P
    if arm.norm == "none":
        return Forward(p, lambda d_y: (d_y @ P.T, E.T @ d_y))
    by_sigma = arm.norm == "sigma"
    s = np.float32(1 / math.sqrt(d) if arm.norm == "inverse" else math.sqrt(d))
    q = E - E.mean(axis=1, keepdims=True) if by_sigma else p
    squares = (q * q).sum(axis=1, keepdims=True)
    scale = s / np.sqrt(squares)
    y = p * scale

    def pullback(d_y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        d_p = d_y * scale
        d_q = -q * ((d_y * y).sum(axis=1, keepdims=True) / squares)  # its mean is that of q
        if by_sigma:
            return d_p @ P.T + d_q, E.T @ d_p
        return (d_p + d_q) @ P.T, E.T @ (d_p + d_q)

    return Forward(y, pullback)


def _attention(
    y: Float[np.ndarray, "classes d"],
    W_in: Float[np.ndarray, "3*d d"],
    W_O: Float[np.ndarray, "d d"],
    arm: Variant,
) -> Forward:
    """Weights e^{S − max S} [query key] with S = t (y W_Qᵀ)(y W_Kᵀ)ᵀ, and values y W_Vᵀ W_Oᵀ."""
    d = y.shape[1]
    W_Q, W_K, W_V = W_in.reshape(3, d, d)
    t = np.float32(0 if arm.uniform else d ** (-2.5 if arm.small == "scores" else -0.5))
    s = np.float32(1 / d if arm.small == "values" else 1)
    queries = t * (y @ W_Q.T)
    keys = y @ W_K.T
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    inner = s * (y @ W_V.T)
    values = inner @ W_O.T

    def pullback(d_weights: np.ndarray, d_values: np.ndarray) -> tuple[np.ndarray, ...]:
        d_W_O = d_values.T @ inner
        d_inner = s * (d_values @ W_O)
        d_scores = d_weights * weights  # whose sum over keys is 0: the maximum has no gradient
        d_queries = t * (d_scores @ keys)
        d_keys = d_scores.T @ queries
        d_parts = np.concatenate([d_queries, d_keys, d_inner], axis=1)  # [class 3d]
        return d_parts @ W_in, d_parts.T @ y, d_W_O

    return Forward((weights, values), pullback)


def _mixing(
    added_to: Float[np.ndarray, "query d"],
    weights: Float[np.ndarray, "query key"],
    values: Float[np.ndarray, "key d"],
) -> Forward:
    """w_ck [v_k + a_c; 1], [query key d+1].

    As the weights sum to 1, what attention is added to joins the values.
    """
    factors = weights[:, :, None]
    outputs = np.ones((*weights.shape, values.shape[1] + 1), np.float32)
    outputs[:, :, :-1] = values + added_to[:, None]

    def pullback(d_mixing: np.ndarray) -> tuple[np.ndarray, ...]:
        d_weights = np.einsum("qkd,qkd->qk", d_mixing, outputs)
        d_outputs = (d_mixing * factors)[:, :, :-1]
        return d_outputs.sum(axis=1), d_weights, d_outputs.sum(axis=0)

    return Forward(outputs * factors, pullback)


def _first_matrix(
    W: Float[np.ndarray, "d d"],
    b: Float[np.ndarray, "d"],
    gain: Float[np.ndarray, "d"],
    bias: Float[np.ndarray, "d"],
) -> Forward:
    """LayerNorm's gain and bias in the matrix after it [d d+1], whose rows are centred as x is."""
    scaled = W * gain
    centred = scaled - scaled.mean(axis=1, keepdims=True)

    def pullback(d_W_1: np.ndarray) -> tuple[np.ndarray, ...]:
        d_b = d_W_1[:, -1]
        d_scaled = d_W_1[:, :-1] - d_W_1[:, :-1].mean(axis=1, keepdims=True)
        d_W = d_scaled * gain + np.outer(d_b, bias)
        return d_W, d_b, (d_scaled * W).sum(axis=0), d_b @ W

    return Forward(np.column_stack([centred, W @ bias + b]), pullback)
