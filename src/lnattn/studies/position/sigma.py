"""1/σ of every token at every position, summarised position by position without storing it.

A position term of Kamoda et al. 2025 (§3.5) is a number that depends on positions only, divided by
σ(e_v + p_j), which depends on the token v as well. So the mean and the percentile band over all
tokens of *every* position term, in every head, follow from the mean and two quantiles of 1/σ at
each position: they are computed once, and a head costs a multiplication.

The variances come from one matrix product, since with centred p_j

    σ²(e_v + p_j) = Var(e_v) + Var(p_j) + 2 Cov(e_v, p_j) + ε,   Cov(e_v, p_j) = e_v · p_j / d,

taken a block of positions at a time: memory grows with the vocabulary, never with vocabulary ×
positions. Each row is then read while it is in cache, and its quantiles are selected, not sorted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import no_type_check

import numba
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import ShapeError
from lnattn.numerics import vectorised
from lnattn.numerics.compiled import forget_outdated
from lnattn.numerics.products import multiply
from lnattn.numerics.threads import in_parts, one_thread_a_call
from lnattn.numerics.vectorised import FAST, widest
from lnattn.weights import Embeddings

#: Positions that a thread holds at one time: 256 × V numbers, 51 MB for GPT-2's vocabulary. The
#: matrix product packs all embeddings anew for each block, so a small block would cost more.
_BLOCK = 256

#: The 95% band of the paper's curves.
BAND = (0.025, 0.975)

#: Bytes of 1/σ that are read again and again while they stay in a core's own cache.
_CACHED = 1 << 20
#: Size of the sample that tells where in a row to look for a quantile.
_SAMPLE = 2048
#: So often the search in the sample trusts it to be even; then it halves.
_JUMPS = 8
#: Values of which at once it is asked whether any is a candidate.
_CHUNK = 64


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

    Quantiles interpolate linearly between order statistics, as `numpy.quantile` does. eps: that of
    the LayerNorm; block: positions that each thread holds at one time, at most. Works in the dtype
    of the embeddings.
    Raises `TokenError` without token embeddings, `ShapeError` for quantiles outside 0 … 1 or out of
    order, or when ε = 0 and a token and a position cancel exactly.
    """
    low, high = quantiles
    if not 0 <= low <= high <= 1:
        raise ShapeError(f"quantiles must satisfy 0 ≤ low ≤ high ≤ 1, not {low} and {high}.")
    summary = np.empty((3, embeddings.n_positions))
    token_variance = variances(embeddings.tokens()).numpy()
    position_variance = variances(embeddings.W_P).numpy()
    workers = torch.get_num_threads()
    with one_thread_a_call(), ThreadPoolExecutor(workers) as pool:

        def summarise(worker: int) -> None:
            for rows, covariance in covariance_blocks(embeddings, block, worker, workers):
                _summarise_rows(
                    covariance.numpy(),
                    token_variance,
                    position_variance[rows],
                    eps,
                    quantiles,
                    summary[:, rows],
                )

        list(pool.map(summarise, range(workers)))
    if not np.isfinite(summary).all():
        raise ShapeError("σ is zero for some token and position; give an ε above zero.")
    return InverseSigma(summary[0], summary[1], summary[2], (low, high))


def assumed_inverse_sigma(
    W_P: Float[Tensor, "position d_model"], token_variance: float, eps: float
) -> InverseSigma:
    """1/σ if every token had the same variance and no covariance with any position.

    For a partial checkpoint whose token embeddings are missing: it shows how far a conclusion
    depends on them. No band, because nothing varies over tokens.
    """
    if not (math.isfinite(token_variance) and token_variance >= 0):
        raise ShapeError(f"the assumed variance must be a number ≥ 0, not {token_variance}.")
    variance = variances(W_P).double() + token_variance + eps
    if not bool((variance > 0).all()):
        raise ShapeError("σ is zero at some position; give an ε or a token variance above zero.")
    return InverseSigma(variance.rsqrt().numpy(), None, None)


def variances(rows: Float[Tensor, "n d_model"]) -> Float[Tensor, "n"]:
    """Var of each row: the mean squared distance of its coordinates to their mean."""
    found = np.empty(len(rows), rows.numpy().dtype)
    in_parts(lambda _, some: _variances(rows[some].numpy(), found[some]), len(rows))
    return torch.from_numpy(found)


def covariance_blocks(
    embeddings: Embeddings, block: int = _BLOCK, worker: int = 0, workers: int = 1
) -> Iterator[tuple[slice, Float[Tensor, "rows vocab"]]]:
    """Cov(p_j, e_v) for all tokens, a block of at most `block` positions at a time.

    Yields the slice of positions and a matrix that the next step overwrites. Of several workers,
    each with a matrix of its own, one takes every `workers`-th block.
    """
    if block < 1:
        raise ShapeError(f"a block must hold at least one position, not {block}.")
    tokens = embeddings.tokens()
    # Only one factor has to be centred: the mean of a token row meets coordinates that sum to 0.
    places = embeddings.W_P - embeddings.W_P.mean(dim=-1, keepdim=True)
    places = places / embeddings.d_model
    # Blocks of one height, as many for each worker: nobody waits for another at the end.
    rounds = math.ceil(len(places) / (workers * block))
    block = math.ceil(len(places) / (workers * rounds))
    # Not NumPy's: that asks the system for large pages, and waits where memory is in pieces.
    buffer = tokens.new_empty(block, len(tokens))
    for begin in range(worker * block, len(places), workers * block):
        rows = slice(begin, min(begin + block, len(places)))
        out = buffer[: rows.stop - rows.start]
        yield rows, multiply(places[rows], tokens.T, out=out)


def _summarise_rows(
    covariance: np.ndarray,
    token_variance: np.ndarray,
    position_variance: np.ndarray,
    eps: float,
    levels: tuple[float, float],
    out: np.ndarray,
) -> None:
    """out[0], out[1], out[2]: mean and two quantiles of 1/σ for each row of covariances.

    The covariances are written over, a few rows at a time that fit into a core's cache.
    """
    vocab = covariance.shape[1]
    candidates = np.empty(vocab, covariance.dtype)
    few = max(1, _CACHED // covariance[0].nbytes)
    for begin in range(0, len(covariance), few):
        rows = slice(begin, begin + few)
        inverse = covariance[rows]
        _invert(inverse, token_variance, position_variance[rows], eps, out[0, rows])
        sample = np.sort(inverse[:, :: max(1, vocab // _SAMPLE)])
        _quantiles(inverse, levels, sample, candidates, out[1:, rows])


@numba.njit(nogil=True, cache=True, fastmath=FAST)
@no_type_check
def _variances(rows, out):
    """Each row is read twice while it is in the first-level cache."""
    widest()
    number, width = rows.dtype.type, rows.shape[1]
    for r in range(len(rows)):
        total = number(0)
        for c in range(width):
            total += rows[r, c]
        mean = total / number(width)
        squares = number(0)
        for c in range(width):
            apart = rows[r, c] - mean
            squares += apart * apart
        out[r] = squares / number(width)


@numba.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
@no_type_check
def _invert(covariance, token_variance, position_variance, eps, mean):
    """Write 1/σ of every token at some positions over the covariances, and fill the means."""
    widest()
    number = covariance.dtype.type
    small = number(eps)
    for row in range(len(covariance)):
        add, total = number(position_variance[row]), 0.0
        for v in range(len(token_variance)):
            # Rounding may leave a variance that cancels below zero; it is zero then.
            variance = max(token_variance[v] + add + number(2) * covariance[row, v], number(0))
            covariance[row, v] = number(1) / np.sqrt(variance + small)
            total += covariance[row, v]
        mean[row] = total / len(token_variance)


@numba.njit(nogil=True, cache=True)
@no_type_check
def _quantiles(rows, levels, sample, candidates, out):
    """Fill out[level, row]; sample: for each row some of its values, ascending."""
    for row in range(len(rows)):
        for line in range(len(levels)):
            out[line, row] = _quantile(rows[row], levels[line], sample[row], candidates)


@numba.njit(nogil=True, cache=True)
@no_type_check
def _quantile(values, level, sample, candidates):
    """One quantile of `values` with linear interpolation, by selection.

    sample: some of the values, ascending. Counting how many values lie below one of them takes
    far less time than choosing among values, so counts find the two neighbours in the sample
    between which the wanted order statistics lie; only what lies there is sorted. The result is
    exact whatever the sample, which decides only how much that is.
    """
    place = level * (len(values) - 1)
    first = math.floor(place)
    second = min(first + 1, len(values) - 1)
    below, inside = _collect(values, first, sample, candidates)
    found = candidates[:inside]
    found.sort()
    lower, upper = np.float64(found[first - below]), np.float64(found[second - below])
    return lower + (place - first) * (upper - lower)


@numba.njit(nogil=True, cache=True)
@no_type_check
def _count_below(values, threshold):
    """How many values are less than the threshold."""
    widest()
    below = np.int32(0)
    for v in range(len(values)):
        below = np.int32(below + np.int32(values[v] < threshold))
    return below


@numba.njit(nogil=True, cache=True)
@no_type_check
def _collect(values, rank, sample, candidates):
    """Copy the values of this rank and the next to `candidates`, with few others.

    Returns how many values lie below all candidates, and how many candidates there are.
    """
    # At least `rank` values lie below sample[high], and at most `rank` below sample[low].
    low, high, below = -1, len(sample), 0
    middle = rank * len(sample) // len(values)
    for attempt in range(len(sample)):
        if high - low == 1:
            break
        count = _count_below(values, sample[middle])
        # By so many places the sample is off here; half of what is left once that does not help.
        jump = 1 + abs(rank - count) * len(sample) // len(values)
        if count <= rank:
            low, below, middle = middle, count, middle + jump
        else:
            high, middle = middle, middle - jump
        if not low < middle < high or attempt > _JUMPS:
            middle = (low + high) // 2
    # The next rank may be the upper neighbour itself, so that is taken too.
    infinity = values.dtype.type(np.inf)
    floor = sample[low] if low >= 0 else -infinity
    ceiling = sample[high] if high < len(sample) else infinity
    inside = 0
    for begin in range(0, len(values), _CHUNK):
        chunk = values[begin : begin + _CHUNK]
        if len(chunk) == _CHUNK:  # a fixed number of turns: the compiler makes it vectors
            some = np.int32(0)
            for v in range(_CHUNK):
                some = np.int32(some + np.int32((chunk[v] >= floor) & (chunk[v] <= ceiling)))
            if some == 0:
                continue
        for v in range(len(chunk)):
            if floor <= chunk[v] <= ceiling:
                candidates[inside] = chunk[v]
                inside += 1
    return below, inside


forget_outdated(__name__, vectorised)
