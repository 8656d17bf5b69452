"""What stands beside a model's weights and changes what it computes: adapters, hooks, classes.

What is read must be what the model computes with. Where it is not, one sentence names the part and
says what to do, whether the model comes from a folder, from the hub or from memory.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import nn

from lnattn.errors import CheckpointError, one_line

#: The file by which transformers finds an adapter beside a model, and applies it.
ADAPTER_FILE = "adapter_config.json"
#: What adapters add to the names of a model: PEFT's, loralib's and those of the library `adapters`.
_ADDED = (
    r"base_layer|original_module|modules_to_save|loras?|lora_\w+|ia3_\w+|hada_\w+|lokr_\w+|oft_\w+|"
    r"boft_\w+|vera_\w+|vblora_\w+|randlora_\w+|fourierft_\w+|trainable_tokens_\w+|adaption_\w+|"
    r"adapters?|\w+_adapters?|adapter_\w+|prompt_encoder|prompt_embeddings?|prompt_tuning|"
    r"prefix_tuning|prefix_encoder|soft_prompts?"
)
_ADAPTER = re.compile(rf"(?:^|\.)(?:{_ADDED})(?:\.|$)")
#: What a module that is read as it is holds: anything else beside it changes it.
PLAIN = frozenset({"weight", "bias", "gamma", "beta"})
#: Libraries whose modules compute what transformers' do, and whose hooks change no number.
_TRUSTED = frozenset(
    {"torch", "transformers", "accelerate", "transformer_lens", "liger_kernel", "kernels", "apex"}
)


def refuse_adapters(label: str, names: Iterable[str]) -> None:
    """`CheckpointError` where a tensor among a model's is an adapter's."""
    if adapted := next((name for name in names if _ADAPTER.search(name)), None):
        raise CheckpointError(
            f"{label} holds adapters beside its weights ({one_line(adapted, 80)}), so neither "
            "are what the model computes with; merge them first (merge_and_unload) and save "
            "the model."
        )


def refuse_adapter_files(label: str, folder: Path) -> None:
    """`CheckpointError` where a folder keeps an adapter beside a model's weights."""
    if (folder / ADAPTER_FILE).exists():
        refuse_adapter_file(label)


def refuse_adapter_file(label: str) -> None:
    """Raises `CheckpointError` for a model beside whose weights lies an adapter."""
    raise CheckpointError(
        f"{label} holds an adapter ({ADAPTER_FILE}) beside its weights, and transformers applies "
        "it where PEFT is installed; merge it first (merge_and_unload) and save the model, or move "
        "the adapter elsewhere to read the weights alone."
    )


def beside(names: Iterable[str], module: str) -> str | None:
    """A tensor of a module that is none of a plain one's; None where there is none."""
    start = f"{module}."
    others = (name for name in names if name.startswith(start))
    return next((name for name in others if name.removeprefix(start) not in PLAIN), None)


def check_module(label: str, name: str, module: nn.Module) -> None:
    """`CheckpointError` where a module in memory computes something else than its weights say."""
    if hasattr(module, "_hf_hook"):  # accelerate moves weights between devices
        return
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    for hook in hooks:
        if not _is_trusted(hook):
            raise CheckpointError(
                f"{label}: {name!r} has a hook ({_called(hook)}), which may change what the model "
                "computes; remove it first (the handle's .remove())."
            )
    replacement = vars(module).get("forward")
    if replacement is not None and not _is_trusted(replacement):
        raise CheckpointError(
            f"{label}: the forward of {name!r} was replaced ({_called(replacement)}), so its "
            "weights do not say what it computes; give the model without that."
        )
    maker = next(kind for kind in type(module).__mro__ if "forward" in vars(kind))
    if _root(maker.__module__) not in _TRUSTED:
        raise CheckpointError(
            f"{label}: {name!r} is a {type(module).__name__} and none of transformers' modules, so "
            "its weights do not say what it computes; put a plain one in its place, merged with "
            "what it adds."
        )


def _is_trusted(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    made_by = getattr(function, "__module__", None) or type(function).__module__
    return _root(made_by) in _TRUSTED


def _root(module: str) -> str:
    return module.partition(".")[0]


def _called(function: Any) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    return one_line(name, 60)
