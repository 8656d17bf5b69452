"""Variances of token and position embeddings, and what they do to attention through σ.

Kamoda et al. 2025, §6.2–6.4. LayerNorm divides an input e_v + p_j by σ, whose square is
Var(e_v) + Var(p_j) + 2 Cov(e_v, p_j) + ε: large variances are turned down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, first_block
from lnattn.attention.layernorm import sigma
from lnattn.errors import ShapeError
from lnattn.inputs import checked_bigrams, plain_tensor, real_number, require
from lnattn.position.sigma import covariance_blocks, variances
from lnattn.stats import Correlation, spearman
from lnattn.weights import Embeddings


@dataclass(frozen=True, eq=False)
class VarianceOfInputs:
    """Everything that σ² of an input is made of.

    token: Var(e_v), [vocab]; position: Var(p_j), [position]; covariance: mean `|Cov(e_v, p_j)|`
    over all pairs; mean_sigma: mean of σ(e_v + p_j) over positions, [vocab].
    """

    token: Float[np.ndarray, "vocab"]
    position: Float[np.ndarray, "position"]
    covariance: float
    mean_sigma: Float[np.ndarray, "vocab"]

    @property
    def ratio(self) -> float:
        """Mean Var(e) over mean `|Cov(e, p)|`; the paper reports 46 for GPT-2 (footnote 8)."""
        return float(self.token.mean()) / self.covariance if self.covariance else math.inf


def variance_of_inputs(embeddings: Embeddings, eps: float) -> VarianceOfInputs:
    """Variances, mean absolute covariance and mean σ over all token–position pairs, in blocks.

    eps: that of the LayerNorm. Raises `TokenError` without token embeddings, `ShapeError` for an ε
    below 0.
    """
    require(embeddings, Embeddings, "embeddings")
    real_number(eps, "eps", least=0)
    token = variances(embeddings.tokens())
    position = variances(embeddings.W_P)
    total = 0.0
    sigma_sum = torch.zeros(len(token), dtype=torch.float64)
    for rows, covariance in covariance_blocks(embeddings):
        total += float(covariance.abs().sum(dtype=torch.float64))
        squared = covariance.mul_(2).add_(token).add_(position[rows, None])
        sigma_sum += squared.clamp_(min=0).add_(eps).sqrt_().sum(dim=0, dtype=torch.float64)
    mean = (sigma_sum / len(position)).numpy()
    return VarianceOfInputs(
        token=token.double().numpy(),
        position=position.double().numpy(),
        covariance=total / (len(token) * len(position)),
        mean_sigma=mean,
    )


@dataclass(frozen=True)
class Outliers:
    """How far the first and last position's variance lie from the rest.

    first, last: robust z-scores, (Var(p_j) − median) / (1.4826 × median absolute deviation);
    first_log, last_log: the same for log Var(p_j); interior_spread: interquartile range over median
    of the positions between.
    """

    first: float
    last: float
    first_log: float
    last_log: float
    interior_spread: float


def position_outliers(W_P: Float[Tensor, "position d_model"]) -> Outliers:
    """`outliers_of` the variances of position embeddings."""
    return outliers_of(variances(plain_tensor(W_P, "W_P").double()).numpy())


def outliers_of(variance: Float[np.ndarray, "position"]) -> Outliers:
    """z-scores of the first and last position's variance against the positions between (K13).

    Raises `ShapeError` for fewer than five positions, a variance of zero, or where more than half
    of the variances between are equal.
    """
    if len(variance) < 5:
        raise ShapeError(f"five positions are needed to call one an outlier, not {len(variance)}.")
    if variance.min() <= 0:
        raise ShapeError("a position embedding is constant, so its variance has no logarithm.")
    first, last = _ends_as_z(variance)
    first_log, last_log = _ends_as_z(np.log(variance))
    low, middle, high = np.quantile(variance[1:-1], (0.25, 0.5, 0.75))
    return Outliers(
        first=first,
        last=last,
        first_log=first_log,
        last_log=last_log,
        interior_spread=float((high - low) / middle),
    )


def _ends_as_z(values: np.ndarray) -> tuple[float, float]:
    """Robust z-scores of the first and last value against the values between."""
    inner = values[1:-1]
    centre = np.median(inner)
    # 1.4826 × MAD estimates the standard deviation of a normal distribution.
    scale = 1.4826 * np.median(np.abs(inner - centre))
    if scale == 0:
        raise ShapeError("more than half of the positions have the same variance; no z-score.")
    return float((values[0] - centre) / scale), float((values[-1] - centre) / scale)


@dataclass(frozen=True)
class Norms:
    """Spread of the token embeddings' norms, before and after each is divided by its own σ.

    Variances depend on the unit, so coefficients of variation (cv) are beside them; centred_after:
    largest relative departure of ‖e_v C / σ‖ from √d, zero but for ε.
    """

    variance_before: float
    variance_after: float
    cv_before: float
    cv_after: float
    centred_after: float


def token_norms(W_E: Float[Tensor, "vocab d_model"], eps: float) -> Norms:
    """Norms of the token embeddings before and after division by σ(e_v) (§6.3).

    Raises `ShapeError` for ε < 0, or where a σ is zero.
    """
    real_number(eps, "eps", least=0)
    W_E = plain_tensor(W_E, "W_E").double()
    width = W_E.shape[-1]
    divisor = sigma(W_E, eps)
    if not bool((divisor > 0).all()):
        raise ShapeError("a token embedding is constant and ε is 0; its σ is zero.")
    before = W_E.norm(dim=-1)
    after = before / divisor
    centred_norms = (variances(W_E) * width).sqrt() / divisor
    departure = centred_norms / math.sqrt(width) - 1
    return Norms(
        variance_before=float(before.var(correction=0)),
        variance_after=float(after.var(correction=0)),
        cv_before=float(before.std(correction=0) / before.mean()),
        cv_after=float(after.std(correction=0) / after.mean()),
        centred_after=float(departure.abs().max()),
    )


@dataclass(frozen=True, eq=False)
class FrequencyStudy:
    """T^e and Var(e) of the tokens that occur, against how often they occur.

    tokens: ids with at least `min_count` occurrences; counts: [token]; variance: Var(e), [token];
    asserted: T^e = b_QK e_vᵀ / mean_j σ, [head token], not divided by √d_head;
    variance_correlation and head_correlations: Spearman with the count.
    """

    tokens: Int[np.ndarray, "token"]
    counts: Int[np.ndarray, "token"]
    variance: Float[np.ndarray, "token"]
    asserted: Float[np.ndarray, "head token"]
    variance_correlation: Correlation
    head_correlations: tuple[Correlation, ...]

    def table(self) -> pd.DataFrame:
        """One row a head: Spearman of T^e with the count, and its interval."""
        rows = [(head.rho, head.low, head.high) for head in self.head_correlations]
        index = pd.RangeIndex(len(rows), name="head")
        return pd.DataFrame(rows, columns=["Spearman", "low", "high"], index=index)


def frequency_study(
    folded: FoldedAttention,
    embeddings: Embeddings,
    inputs: VarianceOfInputs,
    counts: Int[np.ndarray, "vocab"],
    min_count: int = 1,
) -> FrequencyStudy:
    """Relate T^e of every head, and Var(e), to token counts (K11, K12).

    counts: occurrences of each token id in a corpus; those below `min_count` are left out. The
    correlation is NaN in a head whose T^e is constant: without a query bias it asserts nothing.
    Raises `ShapeError` for counts of another vocabulary, and where fewer than four tokens are left.
    """
    first_block(folded)
    require(embeddings, Embeddings, "embeddings")
    every = embeddings.tokens()
    if len(counts) != len(every):
        raise ShapeError(
            f"there are counts of {len(counts)} tokens for a vocabulary of {len(every)}; count "
            "with this model's tokenizer."
        )
    tokens = np.flatnonzero(counts >= min_count)
    asserted = (folded.b_QK @ every.T).double().numpy() / inputs.mean_sigma
    asserted = asserted[:, tokens]
    counts = counts[tokens]
    variance = inputs.token[tokens]
    return FrequencyStudy(
        tokens=tokens,
        counts=counts,
        variance=variance,
        asserted=asserted,
        variance_correlation=spearman(variance, counts),
        head_correlations=tuple(
            spearman(head, counts)
            if np.ptp(head)
            else Correlation(rho=np.nan, low=np.nan, high=np.nan, n=len(head))
            for head in asserted
        ),
    )


#: Pairs that are sorted at a time.
_PAIRS = 1 << 22


def information_gain(bigrams: sparse.csr_array, seed: int = 0) -> Float[np.ndarray, "vocab"]:
    """How much a token tells about its successor: KL(P(next | token) ‖ P(next)), in nats (§6.3).

    bigrams: counts [previous next]. Read off few pairs it is too large, so the same with all
    successors permuted is subtracted, as Oyama et al. 2023 do. NaN for a token without a successor.
    Raises `CorpusError` for counts that are no square matrix of whole numbers ≥ 0.
    """
    rows = sparse.csr_array(checked_bigrams(bigrams))
    totals = rows.sum(axis=0)
    # One array of all pairs at a time; 32 bits hold any token id.
    permuted_successors = np.repeat(rows.indices.astype(np.int32), rows.data)
    np.random.default_rng(seed).shuffle(permuted_successors)
    ends = np.concatenate([[0], np.cumsum(rows.sum(axis=1))])
    # Blocks of rows that end where as many pairs more have come together.
    steps = np.arange(_PAIRS, ends[-1], _PAIRS)
    edges = np.unique([0, *np.searchsorted(ends, steps), len(totals)])
    gains = []
    for start, stop in pairwise(edges):
        pairs_a_row = np.diff(ends[start : stop + 1])
        row = np.repeat(np.arange(stop - start, dtype=np.int32), pairs_a_row)
        successor = permuted_successors[ends[start] : ends[stop]]
        shape = (stop - start, len(totals))
        ones = np.ones(len(row), np.int32)
        permuted = sparse.coo_array((ones, (row, successor)), shape=shape).tocsr()
        as_counted = _divergence_of_rows(rows[start:stop], totals)
        gains.append(as_counted - _divergence_of_rows(permuted, totals))
    return np.concatenate(gains)


def _divergence_of_rows(
    counts: sparse.csr_array, totals: Int[np.ndarray, "next"]
) -> Float[np.ndarray, "row"]:
    """KL of each row's distribution from that of the totals by column; NaN for an empty row."""
    pairs = counts.tocoo()
    of_row = counts.sum(axis=1)
    of_next = totals / totals.sum()
    share = pairs.data / of_row[pairs.row]
    terms = share * np.log(share / of_next[pairs.col])
    return np.where(of_row > 0, np.bincount(pairs.row, terms, minlength=len(of_row)), np.nan)
