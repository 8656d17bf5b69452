"""The forward pass of a training step: bfloat16 where the processor multiplies it faster.

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

from experiments.book_model.chunked_loss import chunked_loss
from experiments.book_model.narrow_attention import HEAD_WIDTH, narrow_attention
from experiments.book_model.narrow_loss import WIDTH, narrow_loss

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def fastest_precision(device: str) -> str:
    """bfloat16 on a processor with instructions for its products (AMX, AVX-512), or a GPU."""
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported(False) else "float32"
    able = torch.cpu.get_capabilities() if device == "cpu" else {}
    return "bfloat16" if able.get("amx_bf16") or able.get("avx512_bf16") else "float32"


def _plain(x: Tensor) -> bool:
    """Whether the compiled kernels for narrow models can read it."""
    return x.dtype == torch.float32 and x.device.type == "cpu"


def whole_attention(
    module: torch.nn.Module,
    query: Float[Tensor, "batch head token d_head"],
    key: Float[Tensor, "batch key_head token d_head"],
    value: Float[Tensor, "batch key_head token d_head"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Float[Tensor, "batch token head d_head"], None]:
    """Causal attention as two batched matrix products: at 256 tokens faster than flash attention.

    Heads of width 2 have a kernel of their own (`narrow_attention`). For whole windows without
    padding; the mask given is not read.
    """
    batch, heads, tokens, width = query.shape
    scale = width**-0.5 if scaling is None else scaling
    if width == HEAD_WIDTH and _plain(query) and key.shape == query.shape and not dropout:
        return narrow_attention(query, key, value, scale), None
    repeats = heads // key.shape[1]
    q, k, v = (
        x.flatten(0, 1)
        for x in (query, key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1))
    )
    future = q.new_full((tokens, tokens), -torch.inf).triu(1)
    scores = torch.baddbmm(future.expand(len(q), -1, -1), q, k.transpose(1, 2), alpha=scale)
    attention = torch.nn.functional.dropout(scores.softmax(-1), dropout, module.training)
    return (attention @ v).view(batch, heads, tokens, width).transpose(1, 2).contiguous(), None


def own_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any
) -> tuple[Float[Tensor, "batch token head d_head"], None]:
    """The attention of tokens that see themselves alone: a softmax over one key, so its value."""
    repeats = query.shape[1] // value.shape[1]
    return value.repeat_interleave(repeats, 1).transpose(1, 2).contiguous(), None


#: Names under which `transformers` knows the two kinds of attention that are trained with.
ATTENTION = {"causal": "lnattn_whole", "diagonal": "lnattn_own"}

for _name, _function in (("causal", whole_attention), ("diagonal", own_attention)):
    AttentionInterface.register(ATTENTION[_name], _function)
    AttentionMaskInterface.register(ATTENTION[_name], lambda *_, **__: None)


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
        copies = {n: p.to(lower) for n, p in named if p is not table}
        hidden = run(x, copies)
        next_token = narrow_loss if hidden.shape[-1] == WIDTH and _plain(hidden) else chunked_loss
        return next_token(hidden.flatten(0, 1), table, rows[:, 1:].flatten())

    return loss
