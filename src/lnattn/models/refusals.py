"""Architectures whose attention the folding or the six terms do not fit, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RMS = (
    "its RMSNorm divides by the root mean square without subtracting the mean, so there is no "
    "centring to fold and the identities of this book do not apply."
)
_ROTARY = (
    "its rotary positions turn queries and keys inside the attention instead of being added to "
    "the input, so there are no position embeddings and no six terms."
)
_RMS_ROTARY = f"{_RMS[:-1]}; moreover {_ROTARY}"
_ALIBI = (
    "its positions are a penalty on the distance, added to the scores (ALiBi), not vectors added "
    "to the input, so there are no position embeddings and no six terms."
)
_RELATIVE = (
    "its scores contain a bias for the relative distance of two tokens, which is no product of "
    "two input vectors, so the six terms do not add up to them."
)
_T5 = f"its LayerNorm is an RMSNorm without centring; moreover {_RELATIVE}"

#: Reasons by the `model_type` of config.json.
REFUSED = {
    **dict.fromkeys(
        (
            "llama",
            "mistral",
            "mixtral",
            "ministral",
            "gemma",
            "gemma2",
            "gemma3",
            "gemma3_text",
            "qwen2",
            "qwen3",
            "qwen2_moe",
            "qwen3_moe",
            "phi3",
            "deepseek_v2",
            "deepseek_v3",
            "olmo2",
            "smollm3",
            "granite",
        ),
        _RMS_ROTARY,
    ),
    **dict.fromkeys(
        (
            "gpt_neox",
            "gpt_neox_japanese",
            "gptj",
            "codegen",
            "phi",
            "stablelm",
            "starcoder2",
            "falcon",
            "modernbert",
            "nomic_bert",
            "persimmon",
            "olmo",
            "cohere",
            "roformer",
        ),
        _ROTARY,
    ),
    **dict.fromkeys(("bloom", "mpt"), _ALIBI),
    **dict.fromkeys(("t5", "mt5", "umt5", "longt5", "switch_transformers"), _T5),
    **dict.fromkeys(("deberta", "deberta-v2", "xlnet", "mpnet", "transfo-xl"), _RELATIVE),
}

#: Settings that give an architecture away whose name is not in the table.
_SIGNS = {
    "rms_norm_eps": _RMS,
    "rope_theta": _ROTARY,
    "rope_parameters": _ROTARY,
    "rope_scaling": _ROTARY,
    "rotary_dim": _ROTARY,
    "rotary_pct": _ROTARY,
    "relative_attention_num_buckets": _RELATIVE,
}


def reason_against(config: Mapping[str, Any], *, known: bool) -> str | None:
    """Why a checkpoint of this configuration cannot be used, as a sentence; None where it can.

    known: whether a family for its `model_type` exists.
    """
    if config.get("quantization_config"):
        return (
            "its weights are quantised, so what would be folded is not what the model computes; "
            "use the unquantised checkpoint."
        )
    kind = config.get("model_type")
    if kind in REFUSED:
        return f"{kind}: {REFUSED[kind]}"
    if known:
        return None
    if config.get("alibi"):
        return f"{kind}: {_ALIBI}"
    found = [reason for sign, reason in _SIGNS.items() if config.get(sign) is not None]
    if found:
        return f"{kind}: {found[0]}"
    if not kind:
        return "its config.json names no model_type, so the layout of its weights is unknown."
    return f"its architecture {kind!r} is not one that lnattn knows."
