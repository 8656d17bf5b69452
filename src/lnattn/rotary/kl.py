"""KL divergence of removing each of the four terms by distance (Kamoda et al. 2025, §6.1)."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.forward import causal_mask
from lnattn.errors import ShapeError
from lnattn.rotary.fold import FoldedRelative, MeanVectors, mean_vectors
from lnattn.rotary.terms import DISTANCE_TERMS, distance_terms
from lnattn.rotary.weights import TokenEmbeddings


class DistanceKL:
    """Divergences of documents, one call each; the counterpart of `SixTermKL`.

    constants: q₀ and k₀ (`mean_vectors` unless given); scale: what the scores are divided by before
    the softmax (default: the model's own). Raises `ShapeError` for a scale that is not positive.
    """

    def __init__(
        self,
        folded: FoldedRelative,
        embeddings: TokenEmbeddings,
        constants: MeanVectors | None = None,
        scale: float | None = None,
    ) -> None:
        if scale is not None and not scale > 0:
            raise ShapeError(f"the softmax's scale must be a positive number, not {scale}.")
        self._folded, self._embeddings = folded, embeddings
        self._constants = mean_vectors(folded, embeddings) if constants is None else constants
        self._factor = 1.0 if scale is None else folded.scale / scale

    def __call__(self, token_ids: Int[Tensor, "n"] | list[int]) -> Float[np.ndarray, "term head n"]:
        """KL(α ‖ α without T) in nats for T in the order of `DISTANCE_TERMS`, float32.

        Raises `TokenError` for an empty document or an unknown token.
        """
        folded = self._folded
        terms = distance_terms(folded, self._embeddings, token_ids, constants=self._constants)
        n = len(terms.positions)
        hidden = torch.zeros(n, n, dtype=torch.bool)
        if folded.causal:
            hidden = ~causal_mask(n, n, folded.window)
        total = terms.scores()

        def log_attention(scores: Tensor) -> Tensor:
            scaled = folded.capped(scores) * self._factor
            return scaled.masked_fill(hidden, -torch.inf).log_softmax(dim=-1)

        before = log_attention(total)
        alpha = before.exp()
        found = []
        for name in DISTANCE_TERMS:
            change = (before - log_attention(total - terms[name])).masked_fill(hidden, 0.0)
            found.append((alpha * change).sum(dim=-1).clamp_min(0))
        return torch.stack(found).float().numpy()
