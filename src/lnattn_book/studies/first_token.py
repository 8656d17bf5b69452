"""The 'if first token' switch: what a large σ at position 0 does to attention (K15).

Kamoda et al. 2025, §6.4: where b_QK p_0ᵀ is negative, position 0 would be shunned; a large σ_0
shrinks that negative score and makes position 0 a sink. The test is a counterfactual: the same
scores with σ_0 replaced by the median σ of the other inputs, everything else untouched. It is asked
of attention on text (`first_token_switch`) or of attention by position alone (`switch_by_place`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, first_block, softmax_over_keys
from lnattn.attention.layernorm import sigma
from lnattn.attention.terms import input_rows
from lnattn.errors import ShapeError
from lnattn.inputs import require, whole_number
from lnattn.position.bias import position_bias
from lnattn.position.sigma import InverseSigma
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
    """The counterfactual, as keys alone, for attention on windows of text.

    token_windows: [window token], ids, two or more a window. Kamoda et al. 2025, §6.4. Raises
    `ShapeError` for shorter windows or another kind of weights, `TokenError` for unknown tokens.
    """
    first_block(folded)
    require(embeddings, Embeddings, "embeddings")
    count, n = token_windows.shape
    if count < 1 or n < 2:
        raise ShapeError(
            f"the switch needs one window or more, of two tokens or more, not {count} of {n}."
        )
    attention_on_first = torch.zeros(2, count, folded.n_heads, n - 1, dtype=torch.float64)
    ratio = 0.0
    for text, ids in enumerate(torch.from_numpy(token_windows)):
        tokens, positions = input_rows(embeddings, ids)
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
            attention_on_first[which, text] = alpha[:, 1:, 0]
    score = (folded.b_QK @ embeddings.W_P[0]).double().numpy()
    return FirstTokenSwitch(
        true=attention_on_first[0].numpy(),
        median=attention_on_first[1].numpy(),
        score=score,
        sigma_ratio=ratio,
    )


def switch_by_place(
    folded: FoldedAttention,
    W_P: Float[Tensor, "position d_model"],
    inverse_sigma: InverseSigma,
    block: int = 128,
) -> FirstTokenSwitch:
    """The counterfactual for attention by position alone, softmax of (T^p + T^pp)/√d_head.

    No token embedding is needed but for 1/σ, which `assumed_inverse_sigma` or
    `inverse_sigma_bands` gives; only its mean is used. The axis of texts has length 1. block: how
    many queries are held at one time. Raises `ShapeError` for a layer with local attention, or 1/σ
    of another number of positions.
    """
    whole_number(block, "block")
    if len(inverse_sigma.mean) != len(W_P) or len(W_P) < 2:
        raise ShapeError(
            f"1/σ covers {len(inverse_sigma.mean)} positions and W_P {len(W_P)}; both must have "
            "the same two or more."
        )
    mean = inverse_sigma.mean
    ordinary = mean.copy()
    ordinary[0] = np.median(mean[1:])
    divisors = (mean, ordinary)
    n = len(mean)
    attention = np.empty((2, 1, folded.n_heads, n - 1))
    for begin in range(1, n, block):
        queries = range(begin, min(begin + block, n))
        bias = position_bias(folded, W_P, queries)
        for case, divisor in enumerate(divisors):
            divided = replace(
                bias, inverse_sigma=InverseSigma(mean=divisor, lower=None, upper=None)
            )
            attention[case, 0, :, begin - 1 : queries.stop - 1] = divided.attention()[:, :, 0]
    score = position_bias(folded, W_P, [0]).self_assertion[:, 0]
    return FirstTokenSwitch(
        true=attention[0],
        median=attention[1],
        score=score,
        sigma_ratio=float(ordinary[0] / mean[0]),
    )
