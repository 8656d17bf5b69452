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
from lnattn.numerics.products import multiply
from lnattn.numerics.threads import one_thread_a_call
from lnattn.weights import Embeddings

#: Positions that a thread holds at one time: 128 × V numbers, 26 MB for GPT-2's vocabulary. The
#: matrix product packs all embeddings anew for each block, so a small block would cost more.
_BLOCK = 128

#: The 95% band of the paper's curves.
BAND = (0.025, 0.975)

#: Licence to reorder sums and fuse multiplications; infinities keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "nnan", "arcp"}

#: Size of the sample that tells where in a row to look for a quantile.
_SAMPLE = 1024


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
    the LayerNorm; block: positions that each thread holds at one time. Works in the dtype of the
    embeddings.
    Raises `TokenError` without token embeddings, `ShapeError` for quantiles outside 0 … 1 or out of
    order, or when ε = 0 and a token and a position cancel exactly.
    """
    low, high = quantiles
    if not 0 <= low <= high <= 1:
        raise ShapeError(f"quantiles must satisfy 0 ≤ low ≤ high ≤ 1, not {low} and {high}.")
    summary = np.empty((3, embeddings.n_positions))
    workers = torch.get_num_threads()
    with one_thread_a_call(), ThreadPoolExecutor(workers) as pool:
        token_variance = variances(embeddings.tokens()).numpy()
        position_variance = variances(embeddings.W_P).numpy()

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


def variances(rows: Float[Tensor, "n d_model"], block: int = 512) -> Float[Tensor, "n"]:
    """Var of each row: the mean squared distance of its coordinates to their mean."""
    parts = []
    for part in rows.split(block):
        centred = part - part.mean(dim=-1, keepdim=True)
        parts.append(torch.linalg.vector_norm(centred, dim=-1).square() / rows.shape[-1])
    return torch.cat(parts)


def covariance_blocks(
    embeddings: Embeddings, block: int = _BLOCK, worker: int = 0, workers: int = 1
) -> Iterator[tuple[slice, Float[Tensor, "rows vocab"]]]:
    """Cov(p_j, e_v) for all tokens, a block of positions at a time.

    Yields the slice of positions and a matrix that the next step overwrites. Of several workers,
    each with a matrix of its own, one takes every `workers`-th block.
    """
    if block < 1:
        raise ShapeError(f"a block must hold at least one position, not {block}.")
    tokens = embeddings.tokens()
    # Only one factor has to be centred: the mean of a token row meets coordinates that sum to 0.
    places = embeddings.W_P - embeddings.W_P.mean(dim=-1, keepdim=True)
    places = places / embeddings.d_model
    buffer = tokens.new_empty(min(block, len(places)), len(tokens))
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
    """out[0], out[1], out[2]: mean and two quantiles of 1/σ for each row of covariances."""
    vocab = covariance.shape[1]
    inverse, candidates = np.empty((2, vocab), covariance.dtype)
    for row, of_position in enumerate(position_variance):
        out[0, row] = _invert(covariance[row], token_variance, of_position, eps, inverse)
        sample = np.sort(inverse[:: max(1, vocab // _SAMPLE)])
        for line, level in enumerate(levels, start=1):
            out[line, row] = _quantile(inverse, level, sample, candidates)


def _quantile(
    values: np.ndarray, level: float, sample: np.ndarray, candidates: np.ndarray
) -> float:
    """One quantile of `values` with linear interpolation, by selection (Floyd and Rivest 1975).

    The sorted sample gives a narrow interval that very probably holds the wanted order statistics;
    one pass counts what lies below it and collects what lies in it. If they are not in it after
    all, which the counts tell, the interval becomes the whole line: the result is always exact.
    """
    place = level * (len(values) - 1)
    first = math.floor(place)
    second = min(first + 1, len(values) - 1)
    centre = level * (len(sample) - 1)
    # Five standard deviations of the rank of a sample's quantile.
    margin = 5 * math.sqrt(len(sample) * level * (1 - level)) + 2
    start, stop = math.floor(centre - margin), math.ceil(centre + margin)
    infinity = values.dtype.type(np.inf)
    floor = sample[start] if start >= 0 else -infinity
    ceiling = sample[stop] if stop < len(sample) else infinity
    below, inside = _collect(values, floor, ceiling, candidates)
    if not below <= first <= second < below + inside:
        below, inside = _collect(values, -infinity, infinity, candidates)
    found = candidates[:inside]
    found.partition(sorted({first - below, second - below}))
    lower, upper = float(found[first - below]), float(found[second - below])
    return lower + (place - first) * (upper - lower)


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
@no_type_check
def _invert(covariance, token_variance, position_variance, eps, inverse):
    """Write 1/σ of every token at one position to `inverse`; return the mean."""
    number = inverse.dtype.type
    add, small = number(position_variance), number(eps)
    total = 0.0
    for v in range(len(covariance)):
        # Rounding may leave a variance that cancels below zero; it is zero then.
        variance = max(token_variance[v] + add + number(2) * covariance[v], number(0)) + small
        inverse[v] = number(1) / np.sqrt(variance)
        total += inverse[v]
    return total / len(covariance)


@numba.njit(nogil=True, cache=True)
@no_type_check
def _collect(values, floor, ceiling, candidates):
    """Copy the values within [floor, ceiling] to `candidates`; count those below, and those."""
    below, inside = 0, 0
    for value in values:
        # Near the ends nearly all values take the same branch, which the processor then guesses.
        if value < floor:
            below += 1
        elif value <= ceiling:
            candidates[inside] = value
            inside += 1
    return below, inside
