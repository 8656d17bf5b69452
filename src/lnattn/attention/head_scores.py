"""Where a head looks when it sees positions only, and how much of it falls one step back.

The scores go back to Elhage et al. 2021, need no text, and describe a *tendency*: they leave out
every token.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention import layernorm
from lnattn.attention.folding import FoldedAttention, softmax_over_keys
from lnattn.errors import ShapeError
from lnattn.inputs import matrix, require


def position_attention(
    folded: FoldedAttention,
    W_P: Float[Tensor, "n d_model"],
    sigma: Float[Tensor, "n"] | None = None,
) -> Float[Tensor, "head n n"]:
    """softmax_j((T^pp + T^p)/√d_head): where a head looks when it sees positions only.

    W_P: the embeddings of n consecutive positions. sigma: the divisor of each position, the mean
    over tokens of σ(e_v + p_j) where known; by default σ(p_j), which overstates the scores. Exact
    for layer 0; in a later layer the *direct path* from the position embeddings only. Raises
    `ShapeError` for a W_P of another width, or a sigma that is not one positive number a position.
    """
    require(folded, FoldedAttention, "folded")
    W_P = matrix(W_P, "W_P", "n d_model", (None, folded.d_model), folded.W_Q.dtype)
    divisor = layernorm.sigma(W_P, folded.eps) if sigma is None else sigma
    if divisor.shape != W_P.shape[:1] or not bool((divisor > 0).all()):
        raise ShapeError(f"sigma must hold one positive number for each of {len(W_P)} positions.")
    u = W_P / divisor[:, None]
    queries = u @ folded.W_Q + folded.b_Q[:, None, :]
    scores = queries @ (u @ folded.W_K).mT
    return softmax_over_keys(scores, folded.scale, folded.causal, window=folded.window)


def previous_token_score(
    folded: FoldedAttention,
    W_P: Float[Tensor, "n d_model"],
    sigma: Float[Tensor, "n"] | None = None,
) -> Float[Tensor, "head"]:
    """Mean over queries i = 1 … n−1 of the attention on key i − 1, from position terms alone.

    Between 0 and 1; arguments as in `position_attention`. By chance, with even attention over the
    i + 1 keys that query i sees, it is the mean of 1/(i + 1): about ln(n)/n, .006 for 1,024
    positions. Raises `ShapeError` for fewer than two positions.
    """
    if len(W_P) < 2:
        raise ShapeError("a previous-token score needs two positions or more.")
    return torch.diagonal(position_attention(folded, W_P, sigma), -1, -2, -1).mean(-1)
