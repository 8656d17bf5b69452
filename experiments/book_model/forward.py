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
from transformers.masking_utils import AttentionMaskInterface

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def fastest_precision(device: str) -> str:
    """bfloat16 on a processor with instructions for its products (AMX, AVX-512), or a GPU."""
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported(False) else "float32"
    able = torch.cpu.get_capabilities() if device == "cpu" else {}
    return "bfloat16" if able.get("amx_bf16") or able.get("avx512_bf16") else "float32"


def own_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any
) -> tuple[Float[Tensor, "batch token head d_head"], None]:
    """The attention of tokens that see themselves alone: a softmax over one key, so its value."""
    repeats = query.shape[1] // value.shape[1]
    return value.repeat_interleave(repeats, 1).transpose(1, 2).contiguous(), None


#: Names under which `transformers` knows the two kinds of attention that are trained with.
ATTENTION = {"causal": "eager", "diagonal": "lnattn_own"}

AttentionInterface.register(ATTENTION["diagonal"], own_attention)
AttentionMaskInterface.register(ATTENTION["diagonal"], lambda *_, **__: None)


def training_loss(
    model: PreTrainedModel, precision: str, compiled: bool = False
) -> Callable[[Int[Tensor, "batch context_plus_1"]], Float[Tensor, ""]]:
    """The mean next-token loss of a model on windows, as a function of their rows.

    model: a causal language model with tied embeddings in float32 (or, in tests, float64, which
    precision "float32" leaves as it is); compiled: run its blocks through torch.compile.
    """
    base, table = model.base_model, model.get_input_embeddings().weight
    lower = PRECISIONS[precision] if precision != "float32" else table.dtype

    def blocks(x: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        inputs = {"inputs_embeds": x, "use_cache": False}
        return torch.func.functional_call(base, parameters, (), inputs).last_hidden_state

    run = torch.compile(blocks) if compiled else blocks

    def loss(rows: Tensor) -> Tensor:
        # The embedding's gradient sums over many tokens: it is looked up, and summed, in float32.
        x = torch.nn.functional.embedding(rows[:, :-1], table).to(lower)
        named = base.named_parameters() if lower != table.dtype else ()
        hidden = run(x, {n: p.to(lower) for n, p in named if p is not table})
        logits = (hidden @ table.to(lower).T).to(table.dtype)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())

    return loss
