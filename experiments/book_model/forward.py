"""The loss of a training step: next-token cross-entropy, multiplied in float32 or bfloat16.

The parameters stay in float32, and so do their gradients and moments. Of every matrix a bfloat16
copy is made once a step, inside the graph, instead of at every operation as autocast does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.models.gpt2.modeling_gpt2 import eager_attention_forward

from lnattn.rotary.weights import apply_rotary

#: Rows whose logits are made at once; so many stay in a processor's cache.
_ROWS = 128
#: The same on a GPU, which waits for each call: 256 MiB of logits.
_ROWS_OF_A_GPU = 8192
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def fastest_precision(device: str) -> str:
    """bfloat16 on a processor with instructions for its products (AMX, AVX-512), or a GPU."""
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported(False) else "float32"
    able = torch.cpu.get_capabilities() if device == "cpu" else {}
    return "bfloat16" if able.get("amx_bf16") or able.get("avx512_bf16") else "float32"


def rotary_tables(positions: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """cos and sin, [n width] in float32, by which a Llama turns vectors; its base is 10,000."""
    theta = 10_000.0 ** -(torch.arange(0, width, 2, device=positions.device) / width)
    angle = (positions[:, None] * theta).repeat(1, 2)
    return angle.cos(), angle.sin()


def rotary_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, *mask: Any, **more: Any
) -> tuple[Tensor, Tensor]:
    """GPT-2's own attention, but of queries and keys that are turned by their positions."""
    cos, sin = rotary_tables(torch.arange(query.shape[2], device=query.device), query.shape[3])
    turned = [apply_rotary(x, cos.to(x.dtype), sin.to(x.dtype)) for x in (query, key)]
    return eager_attention_forward(module, *turned, value, *mask, **more)


#: Names under which `transformers` knows the kinds of attention that GPT-2s are trained with.
ATTENTION = {"causal": "eager", "rotary": "lnattn_rotary"}

AttentionInterface.register(ATTENTION["rotary"], rotary_attention)
AttentionMaskInterface.register(ATTENTION["rotary"], eager_mask)


class CrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of hidden rows, with its gradient, a few rows at a time.

    A step's logits at once go through memory six times, which takes as long as the products do.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, table: Tensor, following: Tensor) -> Tensor:
        total = 0.0
        rows = []
        of_table = torch.zeros_like(table)
        rows_at_once = _ROWS_OF_A_GPU if hidden.is_cuda else _ROWS
        parts = (hidden.split(rows_at_once), following[:, None].split(rows_at_once))
        for part, targets in zip(*parts, strict=True):
            logits = (part @ table.T).to(torch.promote_types(part.dtype, torch.float32))
            log_share = logits.log_softmax(dim=1)
            total = total - log_share.gather(1, targets).sum() / len(hidden)
            if any(ctx.needs_input_grad):
                slope = log_share.exp_().scatter_add_(1, targets, -torch.ones_like(logits[:, :1]))
                slope = (slope / len(hidden)).to(part.dtype)
                rows.append(slope @ table)
                of_table.addmm_(slope.T, part)
        ctx.save_for_backward(torch.cat(rows) if rows else hidden, of_table)
        return total

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, None]:
        rows, of_table = ctx.saved_tensors
        return slope.to(rows) * rows, slope.to(rows) * of_table, None


def training_loss(
    model: PreTrainedModel, precision: str
) -> Callable[[Int[Tensor, "batch context_plus_1"]], Float[Tensor, ""]]:
    """The mean next-token loss of a model on windows, as a function of their rows.

    model: a causal language model in float32 (or, in tests, float64, which precision "float32"
    leaves as it is).
    """
    base = model.base_model
    table = model.get_input_embeddings().weight
    unembedding = model.get_output_embeddings().weight  # the same, where they are tied
    lower = PRECISIONS[precision] if precision != "float32" else table.dtype

    def blocks(x: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        inputs = {"inputs_embeds": x, "use_cache": False}
        return torch.func.functional_call(base, parameters, (), inputs).last_hidden_state

    def loss(rows: Tensor) -> Tensor:
        # The embedding's gradient sums over many tokens: it is looked up, and summed, in float32.
        x = torch.nn.functional.embedding(rows[:, :-1], table).to(lower)
        named = base.named_parameters() if lower != table.dtype else ()
        hidden = blocks(x, {n: p.to(lower) for n, p in named if p is not table})
        return CrossEntropy.apply(
            hidden.flatten(0, 1), unembedding.to(lower), rows[:, 1:].flatten()
        )

    return loss
