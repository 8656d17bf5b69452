"""How much of σ attention needs: σ(x) replaced by its mean over text, KL(α ‖ α_σ̄) per head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float

from lnattn.attention.folding import FoldedAttention
from lnattn.attention.layernorm import sigma
from lnattn.attention.terms import SixTerms, six_terms
from lnattn.errors import CorpusError
from lnattn.weights import Embeddings


@dataclass(frozen=True, eq=False)
class GivenSigma(SixTerms):
    """Six terms with any divisors in the place of σ(x_i); given: [n], positive."""

    given: Float[torch.Tensor, "n"] = field(default_factory=lambda: torch.ones(1))

    @cached_property
    def sigma(self) -> Float[torch.Tensor, "n"]:
        """The divisors that were given."""
        return self.given


@dataclass(frozen=True, eq=False)
class MeanSigma:
    """What constant divisors do to attention. KL in nats, mean over queries that see two keys.

    sigma: σ̄, the mean over the inputs of all texts but the first of each; first: the mean of the
    first; kl: [head], one σ̄ for all; kl_but_first: [head], where the first input of each text
    has its own mean; total: [head], KL(α ‖ uniform over the keys seen), for comparison.
    """

    sigma: float
    first: float
    kl: Float[np.ndarray, "head"]
    kl_but_first: Float[np.ndarray, "head"]
    total: Float[np.ndarray, "head"]


def mean_sigma_study(
    folded: FoldedAttention, embeddings: Embeddings, texts: Sequence[Sequence[int]]
) -> MeanSigma:
    """KL(α ‖ α_σ̄) of a first layer over texts of token ids, each of two tokens at least.

    Raises `CorpusError` without such texts, and `TokenError` as `six_terms` does.
    """
    token_ids = [list(ids) for ids in texts if len(ids) > 1]
    if not token_ids:
        raise CorpusError("no text of two tokens or more was given; attention needs two keys.")
    parts = [six_terms(folded, embeddings, ids) for ids in token_ids]
    divisors = [sigma(part.tokens + part.positions, folded.eps) for part in parts]
    bar = float(torch.cat([one[1:] for one in divisors]).mean())
    first = float(torch.stack([one[0] for one in divisors]).mean())
    sums, queries = np.zeros((3, folded.n_heads)), 0
    for part, true in zip(parts, divisors, strict=True):
        alpha = part.attention()
        flat = torch.full_like(true, bar)
        but_first = torch.cat([true.new_tensor([first]), flat[1:]])
        seen = SixTerms.softmax(part, torch.zeros_like(alpha))
        others = [
            GivenSigma(folded, part.tokens, part.positions, given).attention()
            for given in (flat, but_first)
        ]
        rows = slice(1 if folded.causal else 0, None)
        for place, other in enumerate((*others, seen)):
            ratio = alpha.clamp_min(1e-30).log() - other.clamp_min(1e-30).log()
            kl = torch.where(alpha > 0, alpha * ratio, 0.0).sum(-1)[:, rows]
            sums[place] += kl.double().sum(-1).numpy()
        queries += kl.shape[1]
    return MeanSigma(bar, first, *(sums / queries))
