"""The first layers that a library would compute with one ingredient wrong, by the ingredient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from conformance.oracle import FirstLayer, Norm, Rotation


def broken(layer: FirstLayer) -> Iterator[tuple[str, FirstLayer]]:
    """Every ingredient of a layer (in float64) and the layer with it left out or mistaken."""
    yield from _of_mask(layer)
    yield from _of_what_is_read(layer)
    yield from _of_projections(layer)
    yield from _of_scores(layer)
    if layer.rotation is not None:
        for name, rotation in _of_rotation(layer.rotation, layer.W_Q.shape[2]):
            yield f"rotation: {name}", replace(layer, rotation=rotation)


def _of_mask(layer: FirstLayer) -> Iterator[tuple[str, FirstLayer]]:
    if not layer.causal:
        yield "mask: looks back only", replace(layer, causal=True)
        return
    yield "mask: looks ahead", replace(layer, causal=False)
    if layer.penalty is None and layer.window is None:
        ones = np.ones((len(layer.W_Q), 1, 1))
        yield (
            "mask: added to the scores as 0 and 1",
            replace(layer, causal=False, penalty=lambda distance: ones * (distance >= 0)),
        )
    if layer.window is not None:
        yield "window: one key more", replace(layer, window=layer.window + 1)
        yield "window: one key fewer", replace(layer, window=layer.window - 1)
        yield "window: none", replace(layer, window=None)


def _of_what_is_read(layer: FirstLayer) -> Iterator[tuple[str, FirstLayer]]:
    """Embeddings, positions, and the norm that feeds the block."""
    if layer.norm is not None:
        yield from _of_norm("norm", layer.norm, lambda norm: replace(layer, norm=norm))
        if layer.positions is None:
            yield "norm: skipped", replace(layer, norm=None)
    if layer.norm_E is not None:
        yield from _of_norm(
            "norm of tokens", layer.norm_E, lambda norm: replace(layer, norm_E=norm)
        )
        yield "norm of tokens: skipped", replace(layer, norm_E=None)
    if layer.factor != 1:
        yield "factor of tokens", replace(layer, factor=1)
    if layer.positions is not None:
        yield "offset of positions", replace(layer, positions=layer.positions[1:])


def _of_projections(layer: FirstLayer) -> Iterator[tuple[str, FirstLayer]]:
    if layer.b_Q.any():
        yield "bias of queries", replace(layer, b_Q=layer.b_Q * 0)
    if layer.b_K.any() and (layer.rotation or layer.norm_K or layer.clip):
        # Else it adds the same number to all scores of a query, which the softmax ignores (K2).
        yield "bias of keys", replace(layer, b_K=layer.b_K * 0)
    if 1 < len(layer.W_K) < len(layer.W_Q):
        yield "groups: every other head", _regrouped(layer)
    if layer.norm_Q is not None:
        yield from _of_norm("norm of queries", layer.norm_Q, lambda n: replace(layer, norm_Q=n))
        yield "norm of queries: skipped", replace(layer, norm_Q=None)
    if layer.norm_K is not None:
        yield from _of_norm("norm of keys", layer.norm_K, lambda n: replace(layer, norm_K=n))
        yield "norm of keys: skipped", replace(layer, norm_K=None)
    if layer.clip is not None:
        yield "clip", replace(layer, clip=None)


def _of_scores(layer: FirstLayer) -> Iterator[tuple[str, FirstLayer]]:
    root = float(layer.W_Q.shape[2]) ** 0.5
    yield "scale", replace(layer, scale=layer.scale * 1.5)
    if layer.scale != root:
        yield "scale: √d_head", replace(layer, scale=root)
    if layer.cap is not None:
        yield "soft cap", replace(layer, cap=None)
    if layer.sinks is not None:
        yield "sinks", replace(layer, sinks=None)
    if layer.penalty is not None:
        penalty = layer.penalty
        yield "penalty by distance", replace(layer, penalty=None)
        yield "penalty: one key off", replace(layer, penalty=lambda d: penalty(d + np.sign(d)))
        yield "penalty: heads in another order", replace(layer, penalty=lambda d: penalty(d)[::-1])


def _of_norm(
    what: str, norm: Norm, put: Callable[[Norm], FirstLayer]
) -> Iterator[tuple[str, FirstLayer]]:
    yield f"{what}: ε", put(replace(norm, eps=0.0))
    if norm.eps != 1e-5:
        yield f"{what}: ε of 1e-5", put(replace(norm, eps=1e-5))
    if (norm.gamma != 1).any():
        yield f"{what}: gain", put(replace(norm, gamma=norm.gamma * 0 + 1))
    if norm.beta.any():
        yield f"{what}: bias", put(replace(norm, beta=norm.beta * 0))
    yield f"{what}: the other kind", put(replace(norm, centred=not norm.centred))
    if norm.gamma.ndim == 2:
        yield f"{what}: heads together or apart", put(replace(norm, joint=not norm.joint))


def _of_rotation(rotation: Rotation, d_head: int) -> Iterator[tuple[str, Rotation | None]]:
    speeds = rotation.speeds
    yield "none", None
    yield "the other way round", replace(rotation, speeds=lambda n: -speeds(n))
    if len(speeds(1)) > 1:
        yield "neighbours for halves", replace(rotation, interleaved=not rotation.interleaved)
        yield "speeds in another order", replace(rotation, speeds=lambda n: speeds(n)[::-1])
        if 4 * len(speeds(1)) <= d_head:
            yield "more coordinates", replace(rotation, speeds=lambda n: np.tile(speeds(n), 2))
    if rotation.unscaled is not None:
        unscaled = rotation.unscaled
        yield "its scheme", replace(rotation, speeds=lambda _: unscaled)
    if rotation.factor != 1:
        yield "factor", replace(rotation, factor=1)
    if (speeds(1) != speeds(10)).any():
        yield "as of a short text", replace(rotation, speeds=lambda _: speeds(1))


def _regrouped(layer: FirstLayer) -> FirstLayer:
    """Key heads dealt out in turn, and not each to a group of neighbours."""
    times = len(layer.W_Q) // len(layer.W_K)
    norm = layer.norm_K
    if norm is not None:  # where it is over all heads, the copies change no mean square
        gamma = np.tile(norm.gamma, (times, 1))
        norm = replace(norm, gamma=gamma, beta=np.tile(norm.beta, (times, 1)))
    return replace(
        layer,
        W_K=np.tile(layer.W_K, (times, 1, 1)),
        b_K=np.tile(layer.b_K, (times, 1)),
        norm_K=norm,
    )
