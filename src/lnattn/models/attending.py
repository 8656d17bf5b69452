"""Running a whole Hugging Face model whose keys are noted, or whose first layer attends as told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
_NAME = "lnattn"
#: What is asked in each layer: its number, queries and keys; a pattern to attend by, or None.
_Attend = Callable[[int, Tensor, Tensor], Tensor | None]


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **settings: Any
) -> tuple[Tensor, Tensor | None]:
    """transformers' own attention, but by another pattern where one is told."""
    attend: _Attend | None = settings.pop("attend", None)
    pattern = None if attend is None else attend(module.layer_idx, query, key)
    if pattern is None:
        return sdpa_attention_forward(module, query, key, value, mask, **settings)
    pattern = pattern.to(value.dtype)
    values = value.repeat_interleave(pattern.shape[1] // value.shape[1], dim=1)
    return (pattern @ values).transpose(1, 2).contiguous(), pattern


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)


def implementation_of(model: Any) -> str | None:
    """The kind of attention that a model runs with, such as 'eager'; None where it does not say.

    transformers has a public function to set it, and none to ask for it.
    """
    kind = getattr(model.config, "_attn_implementation", None)
    return kind if isinstance(kind, str) else None


@contextmanager
def patched(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """The model, ready for `losses` and `keys_of_layers`; afterwards it attends as before."""
    before = implementation_of(model)
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
    batch = ids.expand(1 if patterns is None else len(patterns), -1)
    logits = _run(model, batch, lambda layer, *_: patterns if layer == 0 else None).logits[:, :-1]
    # One text at a time: the logits of several do not fit into a core's cache.
    return torch.stack([cross_entropy(of_text, ids[1:], reduction="none") for of_text in logits])


@torch.inference_mode()
def keys_of_layers(
    model: PreTrainedModel, ids: Int[Tensor, "n"]
) -> list[Float[Tensor, "key_head n d_head"]]:
    """The keys of every layer as queries meet them: with their bias, turned as at their positions.

    The model is in `patched`; raises as `losses`.
    """
    keys: dict[int, Tensor] = {}
    _run(model, ids[None], lambda layer, _, key: keys.update({layer: key[0]}))
    return [keys[layer] for layer in sorted(keys)]


def _run(model: PreTrainedModel, ids: Int[Tensor, "batch n"], attend: _Attend) -> Any:
    """The model's output, after asking in every layer what it shall do."""
    layers = []

    def noting(layer: int, query: Tensor, key: Tensor) -> Tensor | None:
        layers.append(layer)
        return attend(layer, query, key)

    out = model(ids, use_cache=False, attend=noting)
    if not layers:
        raise CheckpointError(
            f"a {model.config.model_type} model computes its attention in code of its own, so it "
            "cannot be asked for its keys, nor told where to look."
        )
    return out
