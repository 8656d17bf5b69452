"""How much each term adds to the divergence of attention from even attention: shares that add up.

Leaving a term out moves attention by some nats, but the nats of all terms have no sum. Along the
path from even attention to the head's own, p(t) = softmax(t z) for t from 0 to 1, the divergence
KL(p(t) ‖ p(0)) grows by t Cov_t(z, z) dt. The scores z are a sum of terms z⁽ᵏ⁾, and a covariance is
a sum over them, so each term has its share (integrated gradients, Sundararajan et al. 2017, by
component of the scores; Kamoda, note of July 2026)::

    KL(p(1) ‖ p(0)) = Σ_k I_k,
    I_k = ∫₀¹ t Cov_t(z⁽ᵏ⁾, z) dt = Σ_j z⁽ᵏ⁾_j w_j,    w_j = ∫₀¹ p_j(t) (f_j − E_t[f]) f'_j dt.

One weight w_j a key serves all terms. Here f_j = t z_j is what the softmax takes at t, and f'_j is
1; with a soft cap c, f_j = c tanh(t z_j / c), and f'_j = 1 − (f_j / c)². A share is negative where
a term pulls attention back to even. A learned sink is one more key, of which no term speaks: z is 0
there, and its logit stands beside f along the whole path.

The error in the sum of the shares is known for every query, as the divergence itself is
(`AdditiveKL.error`); for scores that differ by 1,000 nats at most it stays below 1e-10.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lnattn.attention.terms import PairTerms
from lnattn.contribution.kl import SixTermBlocks
from lnattn.inputs import require

#: Queries whose scores are held at one time: few, so that they stay in the processor's cache.
_BLOCK = 64
#: By how much two scores may differ in the first panel of the quadrature, in nats.
_FIRST_PANEL = 8.0
#: The same in every panel beside a sink, which may be overtaken anywhere on the path.
_SINK_PANEL = 4.0


class AdditiveKL(NamedTuple):
    """Shares of the terms in KL(attention ‖ even attention over the keys seen), in nats, float64.

    shares: [term head query], in the order of `terms.names`; divergence: [head query], what they
    add up to.
    """

    shares: Float[Tensor, "term head query"]
    divergence: Float[Tensor, "head query"]

    @property
    def error(self) -> Float[Tensor, "head query"]:
        """What the quadrature leaves of the sum: `|Σ shares − divergence|`."""
        return (self.shares.sum(0) - self.divergence).abs()


def additive_kl(terms: PairTerms) -> AdditiveKL:
    """The share of every term in the divergence of attention from even attention.

    terms: of one sequence, from `six_terms` or `distance_terms`. Computed in float64 from scores in
    the terms' own dtype; time is some fifty exponentials a score. Raises `ShapeError` for anything
    else than terms.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-gpt2")
    >>> terms = lnattn.six_terms(lnattn.fold(model.attention), model.embeddings, [464, 3290, 318])
    >>> added = additive_kl(terms)
    >>> tuple(added.shares.shape), bool(added.error.max() < 1e-10)  # term, head, query
    ((6, 8, 3), True)
    """
    require(terms, PairTerms, "terms")
    heads, n, _ = terms[terms.names[0]].shape
    seen = visible_keys(n, terms.folded.causal, terms.folded.window)
    cap = getattr(terms.folded, "soft_cap", None)
    sinks = getattr(terms.folded, "sinks", None)
    if sinks is not None:
        seen = torch.nn.functional.pad(seen, (0, 1), value=True)
    shares = torch.empty(len(terms.names), heads, n, dtype=torch.float64)
    divergence = torch.empty(heads, n, dtype=torch.float64)
    for head in range(heads):
        for queries in torch.arange(n).split(_BLOCK):
            parts = [terms[name][head, queries].double() for name in terms.names]
            z = torch.stack(parts) / terms.folded.scale
            beside = None
            if sinks is not None:
                z = torch.nn.functional.pad(z, (0, 1))
                beside = torch.zeros(n + 1, dtype=torch.float64)
                beside[-1] = sinks[head]
            shares[:, head, queries] = _shares(z, seen[queries], cap, beside)
            divergence[head, queries] = _divergence(z.sum(0), seen[queries], cap, beside)
    return AdditiveKL(shares, divergence)


class SixTermShares(SixTermBlocks):
    """Computes the shares of documents, one call each; made as `SixTermBlocks` is.

    The shares of `additive_kl`, of scores in single precision that are never held all at once.
    """

    def __call__(self, token_ids: Int[Tensor, "n"] | list[int]) -> Float[np.ndarray, "term head n"]:
        """Shares of the terms in KL(α ‖ even attention) in nats, in the order of `TERMS`, float32.

        Raises `TokenError` for an empty document, one longer than the context, or an unknown token.
        """
        return self.measure(token_ids, _shares_of_block, keys_last=True)


def _shares_of_block(
    terms: Float[np.ndarray, "term query key"], begin: int | None
) -> Float[np.ndarray, "term query"]:
    """Shares in a block of queries, the first of which is at `begin`; None: all see all keys."""
    _, queries, keys = terms.shape
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if begin is not None:
        seen = seen.tril(begin)
    return _shares(torch.from_numpy(terms).double(), seen, cap=None).numpy()


def visible_keys(n: int, causal: bool, window: int | None) -> Bool[Tensor, "query key"]:
    """Which keys each of n queries sees."""
    seen = torch.ones(n, n, dtype=torch.bool)
    if causal:
        seen = seen.tril()
        if window is not None:
            seen = seen.triu(1 - window)
    return seen


def _shares(
    z: Float[Tensor, "term query key"],
    seen: Bool[Tensor, "query key"],
    cap: float | None,
    beside: Float[Tensor, "key"] | None = None,
) -> Float[Tensor, "term query"]:
    """I_k of the terms z⁽ᵏ⁾, which are divided by the scale; beside: logits that no term moves."""
    scores = z.sum(0)
    weights = torch.zeros_like(scores)
    for t, step in _path(scores, seen, cap, has_sink=beside is not None):
        f = _capped(t * scores, cap)
        logits = f if beside is None else f + beside
        p = logits.masked_fill(~seen, -torch.inf).softmax(dim=-1)
        slope = 1.0 if cap is None else 1 - (f / cap) ** 2
        weights += step * p * (f - (p * f).sum(dim=-1, keepdim=True)) * slope
    return torch.einsum("tqk,qk->tq", z, weights)


def _divergence(
    scores: Float[Tensor, "query key"],
    seen: Bool[Tensor, "query key"],
    cap: float | None,
    beside: Float[Tensor, "key"] | None = None,
) -> Float[Tensor, "query"]:
    """KL(attention ‖ even attention) by its definition; beside: as in `_shares`."""
    fixed = torch.zeros_like(scores) if beside is None else beside.expand_as(scores)
    logits = _capped(scores, cap) + fixed
    log_p = logits.masked_fill(~seen, -torch.inf).log_softmax(dim=-1)
    log_even = fixed.masked_fill(~seen, -torch.inf).log_softmax(dim=-1)
    surprise = (log_p - log_even).masked_fill(~seen, 0.0)
    return (log_p.exp() * surprise).sum(dim=-1)


def _capped(scores: Tensor, cap: float | None) -> Tensor:
    return scores if cap is None else cap * torch.tanh(scores / cap)


def _path(
    scores: Float[Tensor, "query key"],
    seen: Bool[Tensor, "query key"],
    cap: float | None,
    has_sink: bool,
) -> Iterator[tuple[float, float]]:
    """Points t and weights of ∫₀¹ dt: 16 of Gauss and Legendre in panels that double in length.

    The first is so short that no score in it differs from another by more than 8 nats: attention
    changes fastest near 0. Beside a sink all panels are short.
    """
    largest = scores.masked_fill(~seen, -torch.inf).amax(dim=-1)
    least = scores.masked_fill(~seen, torch.inf).amin(dim=-1)
    spread = float((largest - least).max())
    if cap is not None:  # it bends the path, the sooner the larger a score is
        spread = max(spread, 16 * float(scores[seen].abs().max()) / cap)
    doublings = max(0, int(np.ceil(np.log2(max(spread, 1.0) / _FIRST_PANEL))))
    edges = np.append(0.0, 0.5 ** np.arange(doublings, -1, -1))
    if has_sink:
        edges = np.linspace(0.0, 1.0, 1 + max(1, int(np.ceil(spread / _SINK_PANEL))))
    points, weights = np.polynomial.legendre.leggauss(16)
    for start, end in pairwise(edges):
        half = (end - start) / 2
        yield from zip(start + half * (1 + points), half * weights, strict=True)
