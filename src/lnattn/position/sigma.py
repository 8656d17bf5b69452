"""1/σ of every token at every position, summarised position by position without storing it.

A position term of Kamoda et al. 2025 (§3.5) depends on positions only but for its divisor
σ(e_v + p_j): its mean and band over all tokens follow from the mean and two quantiles of 1/σ at
each position. The variances come from one matrix product, since with centred p_j::

    σ²(e_v + p_j) = Var(e_v) + Var(p_j) + 2 Cov(e_v, p_j) + ε,   Cov(e_v, p_j) = e_v · p_j / d,

taken a block of positions at a time; of each row only the tails beside quantiles are sorted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.errors import ShapeError
from lnattn.inputs import plain_tensor, real_number, require, whole_number
from lnattn.products import multiply
from lnattn.weights import Embeddings

#: Positions held at one time: 256 × V numbers, 51 MB for GPT-2's vocabulary.
_BLOCK = 256

#: The 95% band of the paper's curves.
BAND = (0.025, 0.975)


@dataclass(frozen=True, eq=False)
class InverseSigma:
    """1/σ(e_v + p_j) over all tokens v, at each position j.

    mean, lower, upper: [position], float64; `quantiles`: the two levels that lower and upper are
    at. lower and upper are None where only one value of 1/σ is assumed for each position.
    """

    mean: Float[np.ndarray, "position"]
    lower: Float[np.ndarray, "position"] | None
    upper: Float[np.ndarray, "position"] | None
    quantiles: tuple[float, float] = BAND


def inverse_sigma_bands(
    embeddings: Embeddings,
    eps: float,
    quantiles: tuple[float, float] = BAND,
    block: int = _BLOCK,
) -> InverseSigma:
    """Mean and two quantiles of 1/σ(e_v + p_j) over all tokens, for every position.

    Quantiles interpolate linearly, as `numpy.quantile` does. eps: that of the LayerNorm; block:
    positions held at one time, at most. Works in the dtype of the embeddings. Raises `TokenError`
    without token embeddings, `ShapeError` for levels that are no quantiles, or where a σ is zero.
    """
    require(embeddings, Embeddings, "embeddings")
    real_number(eps, "eps", least=0)
    whole_number(block, "block")
    low, high = quantiles
    if not 0 <= low <= high <= 1:
        raise ShapeError(f"quantiles must satisfy 0 ≤ low ≤ high ≤ 1, not {low} and {high}.")
    tokens = variances(embeddings.tokens())
    positions = variances(embeddings.W_P)
    summary = np.empty((3, len(positions)))
    parts, places = np.modf(np.asarray(quantiles) * (len(tokens) - 1))
    # [below or above, level]: the values beside each quantile, and how much either counts.
    beside = np.stack([places, np.ceil(places + parts)]).astype(int)
    weights = np.stack([1 - parts, parts])
    threads = torch.get_num_threads()
    for rows, covariance in covariance_blocks(embeddings, block):
        variance = torch.add(tokens, covariance, alpha=2, out=covariance)
        # Rounding may leave a variance that cancels below zero; it is zero then.
        variance.add_(positions[rows, None] + eps).clamp_(min=eps)
        inverse = variance.rsqrt_().numpy()
        summary[0, rows] = inverse.mean(axis=1, dtype=np.float64)
        if not np.isfinite(summary[0, rows]).all():
            raise ShapeError("σ is zero for some token and position; give an ε above zero.")
        with ThreadPoolExecutor(threads) as pool:  # NumPy partitions without Python's lock
            values = np.array(list(pool.map(lambda row: _at_ranks(row, beside), inverse)))
        summary[1:, rows] = (values * weights).sum(axis=1).T
    mean, lower, upper = summary
    return InverseSigma(mean=mean, lower=lower, upper=upper, quantiles=quantiles)


def _at_ranks(
    row: Float[np.ndarray, "vocab"], ranks: Int[np.ndarray, "beside level"]
) -> Float[np.ndarray, "beside level"]:
    """The values at these ranks (0: the smallest), looked for from the nearer end of the row."""
    values = np.empty(ranks.shape, row.dtype)
    for level, (below, above) in enumerate(ranks.T.tolist()):
        if above < len(row) // 2:
            values[:, level] = np.partition(_smallest(row, above), (below, above))[[below, above]]
        else:
            from_top = [len(row) - 1 - rank for rank in (below, above)]
            values[:, level] = -np.partition(_smallest(-row, from_top[0]), from_top)[from_top]
    return values


def _smallest(row: Float[np.ndarray, "vocab"], rank: int) -> Float[np.ndarray, "smallest"]:
    """The smallest values of a row, those of ranks 0 … `rank` among them, in any order.

    Every 16th value tells where to cut. To copy what is below is faster than to partition it all.
    """
    sample = row[::16]
    expected = rank // 16
    cut = expected + 4 * math.isqrt(expected) + 4  # four standard deviations above
    if cut >= len(sample):
        return row
    tail = row[row <= np.partition(sample, cut)[cut]]
    return tail if len(tail) > rank else row


def assumed_inverse_sigma(
    W_P: Float[Tensor, "position d_model"], token_variance: float, eps: float
) -> InverseSigma:
    """1/σ if every token had the same variance and no covariance with any position, without band.

    For a partial checkpoint: it shows how far a conclusion depends on the missing token embeddings.
    Raises `ShapeError` for a variance or an ε below 0, or where σ would be zero.
    """
    real_number(token_variance, "token_variance", least=0)
    real_number(eps, "eps", least=0)
    variance = variances(plain_tensor(W_P, "W_P").double()) + token_variance + eps
    if not bool((variance > 0).all()):
        raise ShapeError("σ is zero at some position; give an ε or a token variance above zero.")
    return InverseSigma(mean=variance.rsqrt().numpy(), lower=None, upper=None)


def variances(rows: Float[Tensor, "n d_model"]) -> Float[Tensor, "n"]:
    """Var of each row: the mean squared distance of its coordinates to their mean."""
    return rows.var(dim=-1, correction=0)


def covariance_blocks(
    embeddings: Embeddings, block: int = _BLOCK
) -> Iterator[tuple[slice, Float[Tensor, "rows vocab"]]]:
    """Cov(p_j, e_v) for all tokens, a block of at most `block` positions at a time.

    Yields the slice of positions and a matrix [rows vocab] that the next step overwrites.
    """
    tokens = embeddings.tokens()
    # Only one factor has to be centred: the mean of a token row meets coordinates that sum to 0.
    places = (embeddings.W_P - embeddings.W_P.mean(dim=-1, keepdim=True)) / embeddings.d_model
    buffer = tokens.new_empty(min(block, len(places)), len(tokens))
    for begin in range(0, len(places), block):
        rows = slice(begin, min(begin + block, len(places)))
        yield rows, multiply(places[rows], tokens.T, out=buffer[: rows.stop - begin])
