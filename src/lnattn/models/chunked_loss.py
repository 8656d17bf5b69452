"""Next-token cross-entropy of tied logits, a few rows at a time: all logits never exist at once.

For narrow models the logits are by far the largest array of a training step. Here a chunk of them
is made, used for the loss and for its gradient at once, and overwritten while still in the cache.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import GPT2LMHeadModel

#: Rows of logits at a time: at 8,192 tokens of vocabulary, 2 MiB.
ROWS = 64


class _ChunkedLoss(torch.autograd.Function):
    """Mean over rows of −log softmax(x W_Eᵀ)[target], with both gradients made on the way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, W_E: Tensor, targets: Tensor) -> Tensor:
        total = x.new_zeros(())
        x_grad, W_grad = torch.empty_like(x), torch.zeros_like(W_E)
        for start in range(0, len(x), ROWS):
            rows, wanted = x[start : start + ROWS], targets[start : start + ROWS, None]
            p = rows @ W_E.T
            top = p.amax(dim=1, keepdim=True)
            chosen = p.gather(1, wanted) - top
            p.sub_(top).exp_()
            sums = p.sum(dim=1, keepdim=True)
            total += (sums.log() - chosen).sum()
            p.div_(sums)
            p.scatter_add_(1, wanted, p.new_full(wanted.shape, -1.0))
            x_grad[start : start + ROWS] = p @ W_E
            W_grad.addmm_(p.T, rows)
        ctx.save_for_backward(x_grad, W_grad)
        ctx.rows = len(x)
        return total / len(x)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        x_grad, W_grad = ctx.saved_tensors
        scale = upstream / ctx.rows
        return x_grad * scale, W_grad * scale, None


def chunked_loss(
    x: Float[Tensor, "rows d_model"],
    W_E: Float[Tensor, "vocab d_model"],
    targets: Int[Tensor, "rows"],
) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats of logits x W_Eᵀ, equal to torch's but for rounding."""
    return _ChunkedLoss.apply(x, W_E, targets)


def next_token_loss(
    model: GPT2LMHeadModel, rows: Int[Tensor, "batch context_plus_1"]
) -> Float[Tensor, ""]:
    """The training loss of a GPT-2 on windows of one token more than its context."""
    x = model.transformer(rows[:, :-1]).last_hidden_state
    return chunked_loss(x.flatten(0, 1), model.transformer.wte.weight, rows[:, 1:].flatten())
