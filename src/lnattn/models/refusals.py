"""Architectures whose attention is not read, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lnattn.errors import one_line

_LATENT = (
    "its keys are unpacked from a latent vector that is shared by all heads (MLA) and only partly "
    "turned by rotary positions, which the four terms by distance are not written for."
)
_NO_SCORES = (
    "its layers carry a state from token to token and compare no query with a key, so there are "
    "no attention scores to take apart."
)
_HYBRID = (
    "most of its layers carry a state from token to token (a state-space model), the first among "
    "them, so there are no attention scores at the embeddings."
)
_CROSS = (
    "its decoder attends to an encoder's output, whose keys depend on a whole text and not on a "
    "token, and its encoder is not one that lnattn has a tested reader for."
)
_RELATIVE = (
    "its scores compare tokens with embeddings of their relative distance, so that they are no "
    "sum of the six terms, nor of the four by distance."
)
_PART = (
    "its language model is one part of a multimodal checkpoint, which takes its own way with text; "
    "save the language model by itself."
)
_LINEAR = (
    "its first layer is one of linear attention or a state-space model, which carries a state from "
    "token to token, so there are no attention scores at the embeddings."
)
#: Reasons by the `model_type` of config.json.
REFUSED = {
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), _LATENT),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"), _NO_SCORES),
    **dict.fromkeys(("jamba", "zamba", "zamba2", "bamba", "falcon_h1"), _HYBRID),
    **dict.fromkeys(("bart", "mbart", "marian", "pegasus", "m2m_100"), _CROSS),
    **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe"), _LINEAR),
    **dict.fromkeys(("llama4", "paligemma", "gemma3n"), _PART),
    **dict.fromkeys(("deberta", "deberta-v2", "xlnet", "mpnet", "transfo-xl"), _RELATIVE),
}

#: Models of images and text whose language model reads a text as it would by itself: its settings
#: stand in `text_config`, its tensors under a name of their own (`family.WRAPPERS`).
MULTIMODAL = ("gemma3", "mistral3", "llava", "llava_next", "internvl", "idefics3", "smolvlm")

#: Settings that give away what an architecture is like whose name is not in the table.
_SIGNS = {
    "kv_lora_rank": _LATENT,
    "state_size": _NO_SCORES,
}
#: Where a quantization_config names the modules that it leaves as they are.
_LEFT_AS_THEY_ARE = (
    *("modules_to_not_convert", "ignored_layers", "ignore"),
    *("llm_int8_skip_modules", "exclude_modules"),
)
_QUANTISED = (
    "its weights are quantised, so what would be folded is not what the model computes; use the "
    "unquantised checkpoint."
)
#: What a configuration calls layers that compare no query with a key.
_STATES = ("linear_attention", "mamba", "mamba2", "conv", "recurrent")


def language_model_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of the language model inside one of `MULTIMODAL`; others as they are."""
    inner = config.get("text_config")
    if config.get("model_type") in MULTIMODAL and isinstance(inner, Mapping):
        return inner
    return config


def reason_against(config: Mapping[str, Any], *, known: bool) -> str | None:
    """Why a checkpoint of this configuration cannot be used, as a sentence; None where it can.

    known: whether a family for its `model_type` exists.
    """
    if config.get("quantization_config") and not _left_as_they_are(config):
        return _QUANTISED
    kind = config.get("model_type")
    if not isinstance(kind, str) or not kind:
        return "its config.json names no model_type, so the layout of its weights is unknown."
    if kind in MULTIMODAL:
        return f"{kind}: its config.json has no text_config, the settings of its language model."
    if kind in REFUSED:
        return f"{kind}: {REFUSED[kind]}"
    if known:
        return None
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and kinds and kinds[0] in _STATES:
        return f"{kind}: {_LINEAR}"
    shown = one_line(ascii(kind), 80)
    reasons = [reason for sign, reason in _SIGNS.items() if config.get(sign) not in (None, False)]
    if reasons:
        return f"{shown}: {reasons[0]}"
    return f"its architecture {shown} is not one that lnattn knows."


def reason_against_part(config: Mapping[str, Any], module: str) -> str | None:
    """Why a module with float weights cannot be read, as a sentence; None where it can.

    A quantised checkpoint may leave its attention as it is (gpt_oss quantises its experts only).
    What it does not leave, transformers quantises when it loads it.

    >>> config = {"quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn"]}}
    >>> reason_against_part(config, "model.layers.0.self_attn.q_proj") is None
    True
    """
    if not config.get("quantization_config"):
        return None
    left = any(_names(pattern, module) for pattern in _left_as_they_are(config))
    return None if left else _QUANTISED


def _left_as_they_are(config: Mapping[str, Any]) -> list[str]:
    """What a quantised checkpoint's configuration calls the modules that are not quantised."""
    settings = config["quantization_config"]
    if not isinstance(settings, Mapping):
        return []
    lists = [settings.get(name) for name in _LEFT_AS_THEY_ARE]
    names = [name for listed in lists if isinstance(listed, list) for name in listed]
    return [name for name in names if isinstance(name, str) and name]


def _names(pattern: str, module: str) -> bool:
    """Whether a pattern names a module or one that it is in, as libraries read such patterns."""
    if f".{pattern}." in f".{module}.":
        return True
    try:
        named = re.compile(rf"(?:{pattern.removeprefix('re:')})(?:\.|$)")
    except re.error:
        return False
    # A model without its head is saved without the name that it has beside one.
    return bool(named.match(module) or named.match(f"model.{module}"))
