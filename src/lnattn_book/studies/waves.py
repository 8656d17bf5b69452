"""How often the waves of T^pp turn in a context, and how often those of smooth positions do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float

from lnattn.attention.folding import fold
from lnattn.position.bias import position_bias, share_of_context
from lnattn.position.curves import dominant_wave
from lnattn.weights import FirstLayer


def turns(first: FirstLayer) -> Float[np.ndarray, "head"]:
    """How often each head's strongest wave of p_i W_QK p_jᵀ fits into the context (K7's wave).

    i: the last of the paper's queries, 1000 of 1,024. Not divided by σ, which GPT-2's weights
    without tokens do not have.
    """
    W_P = first.embeddings.W_P
    query = share_of_context(len(W_P))[-1]
    curves = position_bias(fold(first.attention), W_P, [query]).comparison[:, 0]
    return np.array([dominant_wave(curve).cycles for curve in curves])


def with_smooth_positions(first: FirstLayer, seed: int) -> FirstLayer:
    """The same heads with other positions, which are as large in each direction and as smooth.

    The principal curves of the positions, but for the first and the last, are each replaced by a
    random one: Gaussian, with the same variance and the same mean squared step. Their spectrum has
    no line: a wave in it is luck.
    """
    rng = np.random.default_rng(seed)
    W_P = first.embeddings.W_P.double().numpy()
    inner = W_P[1:-1]
    mean = inner.mean(axis=0)
    curves, sizes, directions = np.linalg.svd(inner - mean, full_matrices=False)
    drawn = np.stack([smooth_curve(curve, rng) for curve in curves.T], axis=1)
    changed = W_P.copy()
    changed[1:-1] = mean + (drawn * sizes) @ directions
    positions = torch.from_numpy(changed).to(first.embeddings.W_P.dtype)
    return replace(first, embeddings=replace(first.embeddings, W_P=positions))


def smooth_curve(
    curve: Float[np.ndarray, "place"], rng: np.random.Generator
) -> Float[np.ndarray, "place"]:
    """A stationary Gaussian curve of mean 0, with the variance and mean squared step of another.

    Its autocorrelation is that of white noise under a Gaussian window, whose width the step gives.
    """
    n = len(curve)
    variance = float(np.var(curve))
    step = float(np.square(np.diff(curve)).mean())
    same = 1 - step / (2 * variance)  # the correlation of neighbours
    width = np.inf if same >= 1 else np.sqrt(-0.25 / np.log(max(same, 1e-6)))
    width = min(width, n)
    reach = int(np.ceil(4 * width)) + 1
    window = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    drawn = np.convolve(rng.standard_normal(n + 2 * reach), window, mode="valid")
    drawn -= drawn.mean()
    return drawn * np.sqrt(variance / np.var(drawn))
