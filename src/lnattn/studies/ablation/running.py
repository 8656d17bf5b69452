"""Running a whole Hugging Face model whose first layer attends as it is told.

Everything but the first layer's attention pattern is the model's own: its values, its output map,
all that follows. So whatever differs from the unmodified model is the pattern's doing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from lnattn.errors import CheckpointError

#: The name under which transformers finds our attention function.
_NAME = "lnattn_first_layer"


@dataclass(eq=False)
class _Told:
    """A pattern on its way to the first layer, which notes that it has arrived."""

    pattern: Float[Tensor, "batch head n n"]
    arrived: bool = False


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **settings: Any
) -> tuple[Tensor, Tensor | None]:
    """transformers' own attention in every layer but the first, which takes the told pattern."""
    told: _Told | None = settings.pop("told", None)
    if told is None or module.layer_idx != 0:
        return sdpa_attention_forward(module, query, key, value, mask, **settings)
    told.arrived = True
    pattern = told.pattern.to(value.dtype)
    values = value.repeat_interleave(pattern.shape[1] // value.shape[1], dim=1)
    return (pattern @ values).transpose(1, 2).contiguous(), pattern


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)


@contextmanager
def patched(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """The model, ready to be told a pattern; afterwards it attends as it did before."""
    before = model.config._attn_implementation
    model.set_attn_implementation(_NAME)
    try:
        yield model
    finally:
        model.set_attn_implementation(before)


@torch.inference_mode()
def losses(
    model: PreTrainedModel,
    ids: Int[Tensor, "n"],
    patterns: Float[Tensor, "batch head n n"] | None = None,
) -> Float[Tensor, "batch predicted"]:
    """Loss in nats of tokens 1 … n − 1, each from those before it, for each pattern of layer 0.

    Without patterns, of the model as it is (a batch of one). The model is in `patched`. Raises
    `CheckpointError` where a model's code does not ask transformers for its attention function.
    """
    told = None if patterns is None else _Told(patterns)
    batch = 1 if patterns is None else len(patterns)
    more = {} if told is None else {"told": told}
    logits = model(ids.expand(batch, -1), use_cache=False, **more).logits[:, :-1]
    if told is not None and not told.arrived:
        raise CheckpointError(
            f"a {model.config.model_type} model computes its attention in code of its own, so its "
            "first layer cannot be told where to look."
        )
    # One text at a time: the logits of several do not fit into a core's cache.
    return torch.stack([cross_entropy(one, ids[1:], reduction="none") for one in logits])
