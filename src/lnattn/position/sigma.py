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
from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.compiled import compiled, in_threads
from lnattn.errors import ShapeError
from lnattn.inputs import plain_tensor, real_number, require, whole_number
from lnattn.products import multiply
from lnattn.weights import Embeddings

#: Positions held at one time: 256 × V numbers, 51 MB for GPT-2's vocabulary.
_BLOCK = 256

#: Rows whose variances are taken at one time: few stay in cache. torch's own `var` takes 7 times as
#: long.
_ROWS = 128

#: Positions whose rows a thread works on at one time: few stay in cache, and one would have threads
#: wait for Python's lock.
_FEW = 8

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
    tokens = variances(embeddings.tokens()).numpy()
    positions = (variances(embeddings.W_P) + eps).numpy()
    summary = np.empty((3, len(positions)))
    parts, places = np.modf(np.asarray(quantiles) * (len(tokens) - 1))
    # [below or above, level]: the values beside each quantile, and how much either counts.
    beside = np.stack([places, np.ceil(places + parts)]).astype(int)
    weights = np.stack([1 - parts, parts])
    least = tokens.dtype.type(eps)
    threads = torch.get_num_threads()

    def share(thread: int) -> None:
        """Summarise a thread's part of the block's positions."""
        begin = len(covariance) * thread // threads
        end = len(covariance) * (thread + 1) // threads
        scratch = np.empty((_FEW, len(tokens)), tokens.dtype)
        for start in range(begin, end, _FEW):
            rows = covariance[start : min(start + _FEW, end)]
            places = slice(block_start + start, block_start + start + len(rows))
            totals = _become_inverse_sigma(rows, tokens, positions[places], least)
            if not np.isfinite(totals).all():
                raise ShapeError("σ is zero for some token and position; give an ε above zero.")
            summary[0, places] = totals / len(tokens)
            values = _at_ranks(rows, beside, scratch)
            summary[1:, places] = (values * weights).sum(axis=1).T

    for block_places, covariances in covariance_blocks(embeddings, block):
        block_start = block_places.start
        covariance = covariances.numpy()
        in_threads(share, threads)
    mean, lower, upper = summary
    return InverseSigma(mean=mean, lower=lower, upper=upper, quantiles=quantiles)


@compiled(error_model="numpy", fastmath={"reassoc"})
@no_type_check  # keeps the tests' shape checker away from what numba compiles
def _become_inverse_sigma(rows, tokens, positions, least):
    """Turn covariances [position vocab] into 1/σ, of variances ≥ `least`; returns sums by row."""
    numerator = tokens.dtype.type(1)
    totals = np.zeros(len(rows))
    for j in range(len(rows)):
        total = 0.0
        for v in range(len(tokens)):
            # Rounding may leave a variance that cancels below zero; it is zero then.
            variance = max(tokens[v] + rows[j, v] + rows[j, v] + positions[j], least)
            rows[j, v] = numerator / np.sqrt(variance)
            total += rows[j, v]
        totals[j] = total
    return totals


def _at_ranks(
    rows: Float[np.ndarray, "row vocab"],
    ranks: Int[np.ndarray, "beside level"],
    scratch: Float[np.ndarray, "few vocab"],
) -> Float[np.ndarray, "row beside level"]:
    """Each row's values at these ranks (0: the smallest), looked for from the nearer end.

    scratch: as many rows or more, which are written over: fresh memory costs more than its use.
    """
    values = np.empty((len(rows), *ranks.shape), rows.dtype)
    last = rows.shape[1] - 1
    for level, (below, above) in enumerate(ranks.T.tolist()):
        from_below = above <= last // 2
        sign = rows.dtype.type(1 if from_below else -1)
        places = [below, above] if from_below else [last - below, last - above]
        for by_level, tail in zip(values, _smallest(rows, sign, max(places), scratch), strict=True):
            by_level[:, level] = sign * np.partition(tail, places)[places]
    return values


def _smallest(
    rows: Float[np.ndarray, "row vocab"],
    sign: np.floating,
    rank: int,
    scratch: Float[np.ndarray, "few vocab"],
) -> list[Float[np.ndarray, "smallest"]]:
    """Of each row of sign · rows the smallest values, those of ranks 0 … `rank` among them.

    In any order. Every 16th value tells where to cut. To copy what is below is faster than to
    partition it all.
    """
    sample = sign * rows[:, ::16]
    expected = rank // 16
    cut = expected + 4 * math.isqrt(expected) + 4  # four standard deviations above
    if cut >= sample.shape[1]:
        return list(sign * rows)
    sizes = _copy_up_to(np.partition(sample, cut)[:, cut], sign, rows, scratch)
    return [
        tail[:size] if size > rank else sign * row
        for tail, size, row in zip(scratch, sizes.tolist(), rows, strict=False)
    ]


@compiled
@no_type_check
def _copy_up_to(limits, sign, rows, tails):
    """Copy each row's values of sign · rows up to its limit to its tail; returns how many."""
    sizes = np.zeros(len(rows), np.int64)
    for j in range(len(rows)):
        size = 0
        for v in range(rows.shape[1]):  # no branch: a processor guesses wrong which are small
            tails[j, size] = sign * rows[j, v]
            size += tails[j, size] <= limits[j]
        sizes[j] = size
    return sizes


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
    squares = []
    for few in rows.split(_ROWS):
        centred = few - few.mean(dim=-1, keepdim=True)
        squares.append(torch.linalg.vecdot(centred, centred))
    return torch.cat(squares) / rows.shape[-1]


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
