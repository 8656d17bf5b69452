"""The first layer of a model in memory: a Hugging Face module, or a bridge of TransformerLens 4."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lnattn.errors import CheckpointError
from lnattn.models.architectures import family_of
from lnattn.models.checkpoints import make_first_layer, read_first_layer
from lnattn.models.family import Family
from lnattn.models.refusals import MULTIMODAL
from lnattn.models.sources import InMemory
from lnattn.rotary.weights import AnyFirstLayer

#: What TransformerLens' bridge puts into the names of the modules that it watches.
_WATCHED = "._original_component"


def first_layer(model: Any, tokenizer: Any = None, layer: int = 0) -> AnyFirstLayer:
    """The embeddings and one attention block of a model in memory, as `load_first_layer` gives it.

    model: a Hugging Face model of any family that `load_first_layer` reads, bare or with any head,
    on any device, in any floating-point type; compiled, in DataParallel or a PEFT model whose
    adapters are merged: it is unwrapped. A `TransformerBridge` of TransformerLens 4 gives the
    weights of the model that it watches.
    tokenizer: of the model, kept in the result; layer: as for `load_first_layer`.

    The weights are copied to the CPU, in float32 or a wider type of their own; the model is left as
    it is. Raises `CheckpointError`, in one sentence, for anything else: a model without its weights
    (on the meta device, or in shards), quantised, with adapters beside its weights, or of a family
    that is not read.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> config = GPT2Config(n_embd=24, n_head=3, n_layer=2, vocab_size=50, n_positions=20)
    >>> first = first_layer(GPT2LMHeadModel(config))
    >>> first.attention.n_heads, first.embeddings.vocab_size
    (3, 50)
    """
    inner = unwrapped(model)
    family = family_of_module(inner)
    embeddings, attention = read_first_layer(family, layer)
    provenance = {
        "name": family.weights.label,
        "source": f"a {type(inner).__name__} in memory",
        "revision": None,
        "model_type": family.config["model_type"],
        **family.weights.record(),
        **family.notes(),
    }
    return make_first_layer(
        family, embeddings, attention, tokenizer=tokenizer, provenance=provenance
    )


def unwrapped(model: Any) -> nn.Module:
    """The Hugging Face model inside its wrappers; `CheckpointError` where there is none."""
    if not isinstance(model, nn.Module):
        raise CheckpointError(
            f"a {type(model).__name__} is no model in memory; give a torch.nn.Module of "
            "transformers, or a name or folder to load_first_layer."
        )
    visited = {id(model)}
    while (inner := _inner(model)) is not None and id(inner) not in visited:
        model = inner
        visited.add(id(model))
    if not hasattr(getattr(model, "config", None), "to_dict"):
        raise CheckpointError(
            f"a {type(model).__name__} has no configuration of transformers, so the layout of its "
            "weights is unknown; give the Hugging Face model that it was made from."
        )
    return model


def _inner(model: nn.Module) -> nn.Module | None:
    """What a wrapper holds; None for a model that is none."""
    if type(model).__name__ == "FullyShardedDataParallel":
        raise CheckpointError(
            "the weights of a FullyShardedDataParallel are in pieces; gather them into a whole "
            "model first."
        )
    if getattr(model, "compatibility_mode", False):
        raise CheckpointError(
            "the weights of this TransformerBridge have been processed (enable_compatibility_mode),"
            " so they are no longer the model's own; give a bridge before that."
        )
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return model.module
    children = dict(model.named_children())
    if "_orig_mod" in children:  # torch.compile; the name is that of a registered module
        return children["_orig_mod"]
    if hasattr(model, "peft_config") and hasattr(model, "get_base_model"):
        kinds: Any = model.peft_config
        if any(getattr(kind, "is_prompt_learning", False) for kind in kinds.values()):
            raise CheckpointError(
                "this PEFT model puts learnt vectors before every text (virtual tokens), which no "
                "token embedding describes; give its base model (get_base_model) without them."
            )
        return model.get_base_model()  # type: ignore[operator]
    if getattr(getattr(model, "config", None), "model_type", None) in MULTIMODAL:
        return _language_model(model)
    watched = getattr(model, "original_model", None)
    return watched if isinstance(watched, nn.Module) else None


def _language_model(model: nn.Module) -> nn.Module | None:
    """The model of text inside one of images and text."""
    names = ("language_model", "text_model")
    parts = [part for name, part in model.named_modules() if name.split(".")[-1] in names]
    return parts[0] if parts else None


def family_of_module(model: Any) -> Family:
    """A Hugging Face module's weights and configuration, ready to read; raises as `first_layer`."""
    label = _name(model)
    # The watched module comes after the one that watches it, and is the one that is meant.
    modules = {name.replace(_WATCHED, ""): module for name, module in model.named_modules()}
    return family_of(model.config.to_dict(), InMemory(label, _state(model, label), modules))


def _state(model: nn.Module, label: str) -> Mapping[str, Tensor]:
    """The module's tensors under the names that its family gives them."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if hasattr(tensor, "full_tensor"):
            raise CheckpointError(
                f"{label}: {name!r} is in pieces on several devices; gather the weights first."
            )
        tensors.setdefault(name.replace(_WATCHED, ""), tensor)
    return tensors


def _name(model: nn.Module) -> str:
    """How the model calls itself, without any path of this machine."""
    given = str(getattr(model, "name_or_path", "") or "")
    place = Path(given)
    if given and (place.is_absolute() or place.exists()):
        return place.name
    return given or type(model).__name__


def dtype_of(model: nn.Module) -> torch.dtype:
    """The type of a module's floating-point numbers, that of the first one."""
    return next(p.dtype for p in model.parameters() if p.is_floating_point())
