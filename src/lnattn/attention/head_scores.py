"""What a single head does: does it copy, does it look one step back?

The scores go back to Elhage et al. 2021, need no text, and describe a *tendency*: copying ignores
where the head looks, previous-token every token.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention import layernorm
from lnattn.attention.circuits import HeadWeights
from lnattn.attention.factored import FactoredMatrix
from lnattn.attention.folding import FoldedAttention, softmax_over_keys
from lnattn.errors import ShapeError
from lnattn.inputs import matrix, require
from lnattn.weights import AttentionLayer


def copying_score(
    layer: HeadWeights,
    W_E: Float[Tensor, "vocab d_model"],
    W_U: Float[Tensor, "d_model vocab"],
) -> Float[Tensor, "head"]:
    """Σλ / Σ|λ| over the eigenvalues of W_E W_OV W_U ('token in → logit out'), in [−1, 1].

    Near 1: seeing a token raises the logits of tokens like it. A head of zeros scores 0. The
    non-zero eigenvalues are those of the d_head × d_head matrix W_O (W_U W_E) W_V; complex ones
    come in conjugate pairs, so the sum is real. Pass a `FoldedAttention` to read tokens through the
    layer's LayerNorm, and W_U with the final one folded in (`unembedding` in `residual`). Raises
    `ShapeError` where the three do not fit together.
    """
    require(layer, (AttentionLayer, FoldedAttention), "layer")
    if W_E.shape != W_U.mT.shape or W_E.shape[-1] != layer.d_model:
        raise ShapeError(
            f"W_E {list(W_E.shape)} and W_U {list(W_U.shape)} must be [vocab d_model] and "
            f"[d_model vocab] with d_model = {layer.d_model}."
        )
    values = FactoredMatrix((W_U @ W_E) @ layer.W_V, layer.W_O).eigenvalues()
    size = values.abs().sum(-1)
    return values.real.sum(-1) / torch.where(size > 0, size, torch.ones_like(size))


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
