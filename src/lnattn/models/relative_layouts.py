"""What families with rotary or relative positions call their tensors, and what they do besides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Layout:
    """Where a family keeps the tensors of its first block, and what it does besides.

    block: the module of the first block; norm, attention, query, key, norms: modules inside, ''
    where there is none. joined: how the rows of `query` are shared: all queries, all keys, all
    values (`blocks`), or the queries of a group, its key, its value, and so on (`groups`). centred:
    LayerNorm and not RMSNorm; one_plus: the gain is stored less 1; joint_norms: one norm over all
    heads; factor: the setting that multiplies embeddings, or 'root' for √d_model; window: the
    window is that of the configuration, whatever the layer; soft_cap: scores are capped; clip:
    coordinates of queries and keys are bounded by the setting clip_qkv; sinks: the tensor of
    learned sinks, a logit for each head. A setting that is not named here is none of the family's,
    and is not looked at, whatever a config.json holds. aliases, twins: other names of the token
    embeddings, without prefix: always, and where they are tied.
    """

    prefixes: tuple[str, ...] = ("model.", "")
    tokens: str = "embed_tokens"
    tokens_norm: str = ""
    block: str = "layers.0"
    norm: str = "input_layernorm"
    attention: str = "self_attn"
    query: str = "q_proj"
    key: str = "k_proj"
    joined: Literal["", "blocks", "groups"] = ""
    norms: tuple[str, str] = ("q_norm", "k_norm")
    centred: bool = False
    one_plus: bool = False
    joint_norms: bool = False
    factor: str = ""
    window: bool = False
    soft_cap: bool = False
    clip: bool = False
    sinks: str = ""
    aliases: tuple[str, ...] = ()
    twins: tuple[str, ...] = ("lm_head.weight",)
    positions: Literal["rotary", "gptj", "bloom", "mpt", "t5"] = "rotary"


_LLAMA = Layout()
_LAYER_NORM = Layout(centred=True)
_GEMMA = Layout(one_plus=True, factor="root")
_JOINED = Layout(query="query_key_value", joined="groups", centred=True)
#: Decoders laid out as GPT-2 is.
_DECODER = replace(
    _JOINED,
    prefixes=("transformer.", ""),
    tokens="word_embeddings",
    block="h.0",
    attention="self_attention",
)
_T5 = Layout(
    prefixes=("", "transformer."),
    tokens="shared",
    block="encoder.block.0",
    norm="layer.0.layer_norm",
    attention="layer.0.SelfAttention",
    query="q",
    key="k",
    aliases=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    positions="t5",
)
_GPTJ = replace(_DECODER, tokens="wte", norm="ln_1", attention="attn", query="q_proj", joined="")
_MPT = replace(_DECODER, tokens="wte", block="blocks.0", norm="norm_1", attention="attn")

#: Families by the `model_type` of config.json.
LAYOUTS: dict[str, Layout] = {
    "llama": _LLAMA,  # SmolLM and SmolLM2 are Llamas too
    **dict.fromkeys(("arcee", "seed_oss"), _LLAMA),
    "mistral": Layout(window=True),
    "mixtral": Layout(window=True),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"), _LLAMA),
    **dict.fromkeys(("granite", "granitemoe"), Layout(factor="embedding_multiplier")),
    "gpt_oss": Layout(sinks="sinks"),
    "gemma": _GEMMA,
    **dict.fromkeys(("gemma2", "vaultgemma"), replace(_GEMMA, soft_cap=True)),
    "gemma3_text": _GEMMA,
    "phi3": Layout(query="qkv_proj", joined="blocks", window=True),
    "phi": Layout(centred=True, norms=("q_layernorm", "k_layernorm")),
    "olmo": replace(_LAYER_NORM, clip=True),
    **dict.fromkeys(("olmo2", "olmo3"), Layout(norm="", joint_norms=True)),
    "starcoder2": Layout(centred=True, window=True),
    "stablelm": Layout(centred=True, norms=("q_layernorm", "k_layernorm")),
    "gpt_neox": replace(
        _JOINED,
        prefixes=("gpt_neox.", ""),
        tokens="embed_in",
        attention="attention",
        twins=("embed_out.weight", "lm_head.weight"),
    ),
    "gptj": replace(_GPTJ, positions="gptj"),
    "falcon": _DECODER,
    "bloom": replace(_DECODER, tokens_norm="word_embeddings_layernorm", positions="bloom"),
    "mpt": replace(_MPT, query="Wqkv", joined="blocks", positions="mpt"),
    "t5": _T5,
    "mt5": _T5,
}
