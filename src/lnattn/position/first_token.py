"""The 'if first token' switch: what a large σ at position 0 does to attention (K15).

Kamoda et al. 2025, §6.4: where b_QK p_0ᵀ is negative, position 0 would be shunned; a large σ_0
shrinks that negative score and makes position 0 a sink. The test is a counterfactual: the same
scores with σ_0 replaced by the median σ of the other inputs, everything else untouched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from lnattn.attention.folding import FoldedAttention, softmax_over_keys
from lnattn.attention.layernorm import sigma
from lnattn.attention.terms import look_up
from lnattn.weights import Embeddings


@dataclass(frozen=True, eq=False)
class FirstTokenSwitch:
    """Attention on position 0, as it is and with an ordinary σ there.

    true, median: attention on key 0 with its own σ and with the median σ, by text, queries 1 …;
    score: [head], b_QK p_0ᵀ, undivided; sigma_ratio: σ_0 over the median (a mean over texts).
    """

    true: Float[np.ndarray, "text head query"]
    median: Float[np.ndarray, "text head query"]
    score: Float[np.ndarray, "head"]
    sigma_ratio: float

    def amplification(self) -> Float[np.ndarray, "head"]:
        """Mean attention on position 0 over all queries: with its own σ, over with the median."""
        return self.true.mean(axis=(0, 2)) / self.median.mean(axis=(0, 2))


def first_token_switch(
    folded: FoldedAttention, embeddings: Embeddings, token_windows: Int[np.ndarray, "window token"]
) -> FirstTokenSwitch:
    """The counterfactual, as keys alone, for attention on windows of text."""
    count, n = token_windows.shape
    both = torch.zeros(2, count, folded.n_heads, n - 1, dtype=torch.float64)
    ratio = 0.0
    for text, ids in enumerate(torch.from_numpy(token_windows)):
        tokens, positions = look_up(embeddings, ids)
        inputs = tokens + positions
        divisor = sigma(inputs, folded.eps)
        larger = float(divisor[0] / divisor[1:].median())
        ratio += larger / count
        scores = folded.scores(inputs)
        for which in range(2):
            if which:
                # A key's score is linear in the key, so dividing it by another σ rescales it.
                scores[:, :, 0] *= larger
            alpha = softmax_over_keys(scores, folded.scale, folded.causal, None, folded.window)
            both[which, text] = alpha[:, 1:, 0]
    score = (folded.b_QK @ embeddings.W_P[0]).double().numpy()
    return FirstTokenSwitch(both[0].numpy(), both[1].numpy(), score, ratio)
