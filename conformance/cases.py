"""The table of cases: a tiny model for every family that is read, and every variant of a score.

A case is what `AutoConfig.for_model(case.model_type, **settings_of(case))` makes. The tests of the
package take the same table (`tests/families.py`): a family with a case here is compared, mutated,
read as a module in memory, run on a token alone and damaged, without another line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VOCAB, CONTEXT, D_MODEL, HEADS = 50, 20, 16, 2
#: Large enough that a score without it, or with the usual one, is another.
EPS = 0.05
#: One shorter than every window and original context, one longer.
SEQUENCES = ((7, 5, 9), (7, 5, 9, 11, 7, 30, 41, 5, 13, 22))


@dataclass(frozen=True)
class Case:
    """model_type: of config.json; says: what in it changes a score; settings: of two layers.

    head: which model is saved: 'CausalLM', 'MaskedLM', or '' for one without a head; quiet: with
    embeddings so small that an ε of 1e-5, which no setting changes, is felt.
    """

    model_type: str
    says: str
    settings: Mapping[str, Any]
    head: str = "CausalLM"
    quiet: bool = False


def settings_of(case: Case, layers: int = 1) -> dict[str, Any]:
    """The settings of so many layers, one or two."""
    settings = dict(case.settings)
    count = "decoder_layers" if case.model_type == "whisper" else "num_hidden_layers"
    for name in ("layer_types", "no_rope_layers"):
        if name in settings:
            settings[name] = settings[name][:layers]
    if "attention_types" in settings:  # GPT-Neo
        ((kinds, _),) = settings["attention_types"]
        settings["attention_types"] = [[kinds[:layers], 1]]
    return {"vocab_size": VOCAB, count: layers, **settings}


_ENDS = {"bos_token_id": 0, "eos_token_id": 0}
_LEARNED = {"hidden_size": D_MODEL, "max_position_embeddings": CONTEXT}
_GPT2 = {"n_embd": D_MODEL, "n_head": HEADS, "n_positions": CONTEXT, "n_inner": 16, **_ENDS}
_GPT2 |= {"layer_norm_epsilon": EPS}
_NEO = {**_LEARNED, "num_heads": HEADS, "intermediate_size": 16, "layer_norm_epsilon": EPS, **_ENDS}
_OPT = {**_LEARNED, "word_embed_proj_dim": D_MODEL, "num_attention_heads": HEADS, "ffn_dim": 16}
_WHISPER = {
    "d_model": D_MODEL, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 4,
    "decoder_attention_heads": HEADS, "decoder_ffn_dim": 4, "num_mel_bins": 2,
    "max_source_positions": 6, "max_target_positions": CONTEXT, "pad_token_id": 0, **_ENDS,
    "decoder_start_token_id": 1, "suppress_tokens": None, "begin_suppress_tokens": None,
}  # fmt: skip
_BERT = {
    **_LEARNED, "num_attention_heads": HEADS, "intermediate_size": 16, "type_vocab_size": 2,
    "layer_norm_eps": EPS,
}  # fmt: skip
#: Two rows more than positions: RoBERTa counts from the padding token's id + 1.
_ROBERTA = {**_BERT, "max_position_embeddings": CONTEXT + 2, "pad_token_id": 1}

_SIZES = {
    "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 8,
    "max_position_embeddings": 64, "pad_token_id": 0, **_ENDS,
}  # fmt: skip
_RMS = {**_SIZES, "rms_norm_eps": EPS}
_CENTRED = {**_SIZES, "layer_norm_eps": EPS}
#: Four query heads share two key heads.
_TWO = {**_RMS, "num_key_value_heads": 2}
#: And their width is not d_model / heads.
_GROUPED = {**_TWO, "head_dim": 6}
_EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8}
_LOCAL_EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
_GRANITE = {**_TWO, "embedding_multiplier": 3.0, "attention_multiplier": 0.3}
#: Gemma's embeddings are multiplied by 4 = √16.
_GEMMA = {**_GROUPED, "rms_norm_eps": 16 * EPS}
_GEMMA2 = {**_GEMMA, "query_pre_attn_scalar": 5, "sliding_window": 6}
_NEOX = {**_CENTRED, "rotary_pct": 0.5}
_GPTJ = {
    "n_head": 2, "n_embd": 16, "n_positions": 64, "n_inner": 16, "layer_norm_epsilon": EPS, **_ENDS
}  # fmt: skip
_FALCON = {**_SIZES, "layer_norm_epsilon": EPS, "bias": True}
_BLOOM = {"n_head": 3, "hidden_size": 12, "layer_norm_epsilon": EPS, **_ENDS}
_MPT = {"d_model": 12, "n_heads": 3, "max_seq_len": 64, "layer_norm_epsilon": EPS}
_T5 = {
    "d_model": 16, "d_kv": 7, "d_ff": 16, "num_heads": 3, "layer_norm_epsilon": EPS,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10,
    "num_decoder_layers": 1, "decoder_start_token_id": 0,
}  # fmt: skip


def rope(kind: str, **more: Any) -> dict[str, Any]:
    """The setting of a rotary scheme, with angles that differ within ten tokens."""
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 100.0, **more}}


_AFTER_8 = {"original_max_position_embeddings": 8}
_LONG = {"short_factor": [1.0, 1.5, 2.0], "long_factor": [2.0, 3.0, 1.1]}
#: One setting for each rotary scheme of models that are read.
ROPES = {
    "default": rope("default"),
    "linear": rope("linear", factor=3.0),
    "dynamic": {**rope("dynamic", factor=2.0), "max_position_embeddings": 8},
    "yarn": rope("yarn", factor=4.0, **_AFTER_8),
    "longrope": {**rope("longrope", factor=2.0, **_LONG, **_AFTER_8), **_AFTER_8},
    "llama3": rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, **_AFTER_8),
    "proportional": rope("proportional", partial_rotary_factor=0.7),
}

CASES: dict[str, Case] = {
    "gpt2": Case("gpt2", "learned positions; queries, keys and values in one Conv1D", _GPT2),
    "gpt2-unscaled": Case("gpt2", "no scale", {**_GPT2, "scale_attn_weights": False}),
    "gpt2-by-layer": Case(
        "gpt2", "a scale that grows by layer", {**_GPT2, "scale_attn_by_inverse_layer_idx": True}
    ),
    "gpt2-untied": Case(
        "gpt2", "an unembedding of its own", {**_GPT2, "tie_word_embeddings": False}
    ),
    "gpt_neo": Case(
        "gpt_neo",
        "no scale, no biases on queries and keys",
        {**_NEO, "attention_types": [[["global", "local"], 1]], "window_size": 4},
    ),
    "gpt_neo-local": Case(
        "gpt_neo",
        "a window in the first layer",
        {**_NEO, "attention_types": [[["local", "global"], 1]], "window_size": 4},
    ),
    "opt": Case("opt", "two rows before the first position", _OPT, quiet=True),
    "opt-without-biases": Case("opt", "no biases", {**_OPT, "enable_bias": False}, quiet=True),
    "whisper": Case(
        "whisper", "a decoder beside an encoder; no bias on keys", _WHISPER, "Seq2SeqLM", quiet=True
    ),
    "whisper-decoder": Case("whisper", "the decoder by itself", _WHISPER, quiet=True),
    "bert": Case(
        "bert", "post-LN: embeddings, token types and their norm; both ways", _BERT, "MaskedLM"
    ),
    "bert-without-head": Case("bert", "names without a prefix", _BERT, ""),
    "bert-decoder": Case("bert", "a BERT that looks back only", {**_BERT, "is_decoder": True}, ""),
    "roberta": Case("roberta", "positions from the padding token's id + 1", _ROBERTA, "MaskedLM"),
    "xlm-roberta": Case("xlm-roberta", "as RoBERTa", _ROBERTA, "MaskedLM"),
    "camembert": Case("camembert", "as RoBERTa", _ROBERTA, "MaskedLM"),
    "electra": Case(
        "electra",
        "as BERT, where embeddings are as wide as the model",
        {**_BERT, "embedding_size": D_MODEL},
        "MaskedLM",
    ),
    **{
        f"llama-{name}": Case(
            "llama",
            f"grouped queries of their own width, biases, rotation: {name}",
            {**_GROUPED, "attention_bias": True, **setting},
        )
        for name, setting in ROPES.items()
    },
    "llama-tied": Case("llama", "tied, no biases", {**_GROUPED, "tie_word_embeddings": True}),
    "arcee": Case("arcee", "as Llama", _GROUPED),
    "seed_oss": Case("seed_oss", "as Llama, with biases", {**_GROUPED, "attention_bias": True}),
    "mistral": Case("mistral", "a window in every layer", {**_GROUPED, "sliding_window": 5}),
    "mistral-open": Case("mistral", "no window", {**_GROUPED, "sliding_window": None}),
    "mixtral": Case("mixtral", "a window", {**_GROUPED, **_LOCAL_EXPERTS, "sliding_window": 5}),
    "qwen2": Case(
        "qwen2", "biases on queries and keys; one key head", {**_RMS, "num_key_value_heads": 1}
    ),
    "qwen2-window": Case(
        "qwen2",
        "a window that a setting turns on",
        {
            **_RMS,
            "num_key_value_heads": 4,
            "use_sliding_window": True,
            "sliding_window": 4,
            "max_window_layers": 0,
        },
    ),
    "qwen2_moe": Case(
        "qwen2_moe", "as Qwen 2", {**_TWO, **_EXPERTS, "shared_expert_intermediate_size": 8}
    ),
    "qwen3": Case(
        "qwen3", "norms of queries and keys, by head", {**_GROUPED, "attention_bias": True}
    ),
    "qwen3_moe": Case("qwen3_moe", "norms of queries and keys", {**_GROUPED, **_EXPERTS}),
    "gemma": Case(
        "gemma",
        "embeddings times √d_model; gains stored less 1",
        {**_GEMMA, "attention_bias": True},
    ),
    "gemma2": Case(
        "gemma2",
        "a soft cap, a window, a scale by setting",
        {**_GEMMA2, "attn_logit_softcapping": 3.0},
    ),
    "vaultgemma": Case("vaultgemma", "as Gemma 2", {**_GEMMA2, "attn_logit_softcapping": 3.0}),
    "gemma3": Case(
        "gemma3_text", "norms of queries and keys; local layers turn by their own base", _GEMMA2
    ),
    "phi3": Case("phi3", "queries, keys and values in one matrix", {**_TWO, "sliding_window": 7}),
    "phi3-longrope": Case(
        "phi3",
        "LongRoPE by the model's own settings",
        {
            **_TWO,
            **_AFTER_8,
            "hidden_size": 24,
            **rope("longrope", **_LONG, **_AFTER_8),
        },
    ),
    "phi": Case(
        "phi",
        "parallel block; half of the coordinates turn",
        {**_CENTRED, "partial_rotary_factor": 0.5},
    ),
    "phi-norms": Case(
        "phi",
        "norms of queries and keys with biases",
        {
            **_CENTRED,
            "partial_rotary_factor": 0.5,
            "qk_layernorm": True,
        },
    ),
    "olmo": Case(
        "olmo",
        "a norm without gain and bias; clipped queries and keys",
        {**_TWO, "clip_qkv": 0.5},
        quiet=True,
    ),
    "olmo2": Case("olmo2", "no norm before; one norm over all queries, one over all keys", _TWO),
    "olmo3": Case("olmo3", "as OLMo 2, with a window", {**_TWO, "sliding_window": 6}),
    "smollm3": Case("smollm3", "a first layer that turns", {**_TWO, "no_rope_layers": [1, 0]}),
    "smollm3-unturned": Case(
        "smollm3", "a first layer without positions", {**_TWO, "no_rope_layers": [0, 1]}
    ),
    "starcoder2": Case(
        "starcoder2",
        "LayerNorm, biases, a window",
        {
            **_SIZES,
            "num_key_value_heads": 2,
            "norm_epsilon": EPS,
            "sliding_window": 6,
        },
    ),
    "granite": Case("granite", "embeddings and scores times settings", _GRANITE),
    "granitemoe": Case("granitemoe", "as Granite", {**_GRANITE, **_LOCAL_EXPERTS}),
    "gpt_oss": Case(
        "gpt_oss",
        "learned sinks, a window, YaRN without rounding of its range",
        {
            **_GROUPED,
            **_LOCAL_EXPERTS,
            "sliding_window": 6,
            **rope("yarn", factor=4.0, truncate=False, **_AFTER_8),
        },
    ),
    "stablelm": Case(
        "stablelm",
        "LayerNorm, a share of the coordinates turns, biases",
        {
            **_CENTRED,
            "num_key_value_heads": 2,
            "partial_rotary_factor": 0.5,
            "use_qkv_bias": True,
        },
    ),
    "stablelm-norms": Case(
        "stablelm",
        "a norm for every head of queries and keys",
        {
            **_CENTRED,
            "num_key_value_heads": 2,
            "partial_rotary_factor": 0.5,
            "qk_layernorm": True,
        },
    ),
    "gpt_neox": Case("gpt_neox", "heads side by side, parallel block, half turns", _NEOX),
    "gpt_neox-whole": Case("gpt_neox", "all coordinates turn", {**_NEOX, "rotary_pct": 1.0}),
    "gptj": Case(
        "gptj", "neighbouring coordinates turn together, half of them", {**_GPTJ, "rotary_dim": 4}
    ),
    "gptj-whole": Case("gptj", "all neighbours turn", {**_GPTJ, "rotary_dim": 8}),
    "falcon": Case("falcon", "one key head", {**_FALCON, "multi_query": True}),
    "falcon-heads": Case(
        "falcon",
        "query, key and value of a head side by side; no parallel block",
        {**_FALCON, "multi_query": False, "parallel_attn": False},
    ),
    "falcon-groups": Case(
        "falcon",
        "groups side by side, a norm for attention of its own",
        {
            **_FALCON,
            "new_decoder_architecture": True,
            "num_kv_heads": 2,
        },
    ),
    "bloom": Case("bloom", "ALiBi of three heads; a norm of the embeddings", _BLOOM),
    "mpt": Case("mpt", "ALiBi of three heads", _MPT),
    "mpt-clipped": Case(
        "mpt", "clipped queries and keys", {**_MPT, "attn_config": {"clip_qkv": 1.5}}
    ),
    "t5": Case("t5", "learned buckets of distances, no scale, both ways", _T5, "Seq2SeqLM"),
    "mt5": Case("mt5", "as T5, untied", _T5, "Seq2SeqLM"),
}
