"""Tiny random models with rotary or relative positions, and what Hugging Face computes in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import transformers as hf
from random_models import randomise
from torch import Tensor, nn

from lnattn.models.position_tables import modeling_of

VOCAB, LENGTH = 50, 14
_SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
#: Four query heads share two key heads, whose width is not d_model / heads.
_GROUPED = {**_SIZES, "num_key_value_heads": 2, "head_dim": 8}


_EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8}


def _rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 100.0, **more}}


def _long(*factors: list[float], **more: Any) -> dict[str, Any]:
    """Short and long factors of longrope, for texts that are longer than 10 tokens."""
    return _rope("longrope", short_factor=factors[0], long_factor=factors[1], **more)


_AFTER_10 = {"original_max_position_embeddings": 10}
#: One setting for each rotary type of transformers.
ROPES = {
    "default": _rope("default"),
    "linear": _rope("linear", factor=3.0),
    "dynamic": {**_rope("dynamic", factor=2.0), "max_position_embeddings": 10},
    "yarn": _rope("yarn", factor=4.0, original_max_position_embeddings=8),
    "longrope": _long([1.0, 1.5, 2.0, 1.2], [2.0, 3.0, 1.1, 1.7], factor=2.0, **_AFTER_10),
    "llama3": _rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16,
    ),
}  # fmt: skip
_TWO = {**_SIZES, "num_key_value_heads": 2}
_PART = {"partial_rotary_factor": 0.67}
_FEW = {"n_layer": 2, "n_head": 3, "bos_token_id": 0}
_MPT = {"d_model": 24, "n_layers": 2, "n_heads": 3, "max_seq_len": 64}
_T5 = {"d_model": 24, "d_kv": 7, "d_ff": 20, "num_layers": 2, "num_heads": 3}
_Q = {"query_pre_attn_scalar": 5, "sliding_window": 6}
#: The configuration class of each tiny model, and its settings.
KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    **{
        f"llama-{name}": (hf.LlamaConfig, {**_GROUPED, "attention_bias": True, **rope})
        for name, rope in ROPES.items()
    },
    "mistral": (hf.MistralConfig, {**_GROUPED, "sliding_window": 5}),
    "mistral-open": (hf.MistralConfig, {**_GROUPED, "sliding_window": None}),
    "mixtral": (hf.MixtralConfig, {**_GROUPED, "num_local_experts": 2, "sliding_window": 5}),
    "qwen2": (hf.Qwen2Config, {**_SIZES, "num_key_value_heads": 1}),
    "qwen2-window": (hf.Qwen2Config, {
        **_SIZES, "num_key_value_heads": 4, "use_sliding_window": True, "sliding_window": 4,
        "max_window_layers": 0,
    }),
    "qwen2_moe": (hf.Qwen2MoeConfig, {**_TWO, **_EXPERTS}),
    "qwen3": (hf.Qwen3Config, {**_GROUPED, "attention_bias": True}),
    "qwen3_moe": (hf.Qwen3MoeConfig, {**_GROUPED, **_EXPERTS}),
    "gemma": (hf.GemmaConfig, {**_GROUPED, "attention_bias": True}),
    "gemma2": (hf.Gemma2Config, {**_GROUPED, **_Q, "attn_logit_softcapping": 3.0}),
    "gemma3": (hf.Gemma3TextConfig, {**_GROUPED, **_Q}),
    "phi3": (hf.Phi3Config, {**_TWO, "sliding_window": 7}),
    "phi3-longrope": (
        hf.Phi3Config, {**_TWO, **_AFTER_10, **_long([1.0, 1.5, 2.0], [2.0, 3.0, 1.1])}
    ),
    "phi": (hf.PhiConfig, {**_SIZES, **_PART}),
    "phi-norms": (hf.PhiConfig, {**_SIZES, **_PART, "qk_layernorm": True}),
    "olmo": (hf.OlmoConfig, {**_TWO, "clip_qkv": 1.5}),
    "olmo2": (hf.Olmo2Config, _TWO),
    "olmo3": (hf.Olmo3Config, {**_TWO, "sliding_window": 6}),
    "arcee": (hf.ArceeConfig, _GROUPED),
    "seed_oss": (hf.SeedOssConfig, {**_GROUPED, "attention_bias": True}),
    "granitemoe": (hf.GraniteMoeConfig, {
        **_TWO, "num_local_experts": 2, "num_experts_per_tok": 1, "embedding_multiplier": 7.0,
        "attention_multiplier": 0.3,
    }),
    "vaultgemma": (hf.VaultGemmaConfig, {**_GROUPED, **_Q, "attn_logit_softcapping": 3.0}),
    "gpt_oss": (hf.GptOssConfig, {
        **_GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 6,
    }),
    "smollm3": (hf.SmolLM3Config, {**_TWO, "no_rope_layers": [1, 0]}),
    "smollm3-unturned": (hf.SmolLM3Config, {**_TWO, "no_rope_layers": [0, 1]}),
    "starcoder2": (hf.Starcoder2Config, {**_TWO, "sliding_window": 6}),
    "granite": (
        hf.GraniteConfig, {**_TWO, "embedding_multiplier": 7.0, "attention_multiplier": 0.3}
    ),
    "stablelm": (hf.StableLmConfig, {**_TWO, **_PART, "use_qkv_bias": True}),
    "stablelm-norms": (hf.StableLmConfig, {**_TWO, **_PART, "qk_layernorm": True}),
    "gpt_neox": (hf.GPTNeoXConfig, {**_SIZES, "rotary_pct": 0.67}),
    "gpt_neox-whole": (hf.GPTNeoXConfig, {**_SIZES, "rotary_pct": 1.0}),
    "gptj": (hf.GPTJConfig, {
        **_FEW, "n_embd": 24, "rotary_dim": 4, "n_positions": 64, "n_inner": 20, "eos_token_id": 0,
    }),
    "gptj-whole": (hf.GPTJConfig, {
        **_FEW, "n_embd": 24, "rotary_dim": 8, "n_positions": 64, "n_inner": 20, "eos_token_id": 0,
    }),
    "falcon": (hf.FalconConfig, {**_SIZES, "multi_query": True, "bias": True}),
    "falcon-heads": (
        hf.FalconConfig, {**_SIZES, "multi_query": False, "bias": True, "parallel_attn": False}
    ),
    "falcon-groups": (
        hf.FalconConfig, {**_SIZES, "new_decoder_architecture": True, "num_kv_heads": 2}
    ),
    "bloom": (hf.BloomConfig, {**_FEW, "hidden_size": 24}),
    "mpt": (hf.MptConfig, _MPT),
    "mpt-clipped": (hf.MptConfig, {**_MPT, "attn_config": {"clip_qkv": 1.5}}),
    "t5": (hf.T5Config, {
        **_T5, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10,
        "decoder_start_token_id": 0,
    }),
    "mt5": (hf.MT5Config, {**_T5, "decoder_start_token_id": 0}),
}  # fmt: skip


def in_double_precision(config: Any, patch: pytest.MonkeyPatch) -> None:
    """Let transformers' code of an architecture keep the double precision that it is given.

    It takes norms, angles and softmax in float32 whatever the dtype of the weights. To be called
    before the model is made, which computes its angles then.
    """
    module = modeling_of(hf.MODEL_MAPPING[type(config)])
    lifted = {**vars(torch), "float32": torch.float64, "float": torch.float64}
    patch.setattr(module, "torch", SimpleNamespace(**lifted))
    patch.setattr(torch.Tensor, "float", torch.Tensor.double)


def make(config: Any, dtype: torch.dtype = torch.float64, seed: int = 3) -> nn.Module:
    """A model with random parameters and eager attention, in evaluation mode."""
    # Experts one by one: the fused ones know no double precision.
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    model = hf.AutoModel.from_config(config, **eager)
    return randomise(model.to(dtype), seed, scale=0.4).eval()


def config_of(name: str) -> Any:
    """The configuration of one of `KINDS`."""
    config, settings = KINDS[name]
    return config(**{"vocab_size": VOCAB, **settings})


@dataclass(frozen=True)
class Seen:
    """What the first block computed. query, key: [head n d_head], turned; attention: [head n n]."""

    query: Tensor
    key: Tensor
    attention: Tensor

    @property
    def scores(self) -> Tensor:
        """q · k of the module's own queries and keys, not divided, without any bias."""
        return self.query @ self.key.mT


@torch.no_grad()
def run(model: nn.Module, ids: Tensor, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Run a model on one text and look at what its first attention block compares."""
    found: list[tuple[Tensor, Tensor]] = []
    modeling = modeling_of(model)
    catch = _CATCHERS.get(model.config.model_type, _catch_eager)
    hooks = catch(model, modeling, found, monkeypatch)
    if model.config.is_encoder_decoder:
        attention = model(
            input_ids=ids[None], decoder_input_ids=ids[None, :1], output_attentions=True
        ).encoder_attentions[0][0]
    else:
        attention = model(ids[None], output_attentions=True).attentions[0][0]
    for hook in hooks or []:
        hook.remove()
    query, key = (found[0][0][0], found[0][1][0])
    return Seen(query, key.repeat_interleave(len(query) // len(key), 0), attention)


Found = list[tuple[Tensor, Tensor]]


def _catch_eager(_model: nn.Module, modeling: ModuleType, found: Found, patch) -> None:
    """Most families hand turned queries and keys to one function."""
    theirs = modeling.eager_attention_forward

    def watched(module: nn.Module, query: Tensor, key: Tensor, *rest: Any, **more: Any) -> Any:
        found.append((query, key))
        return theirs(module, query, key, *rest, **more)

    patch.setattr(modeling, "eager_attention_forward", watched)


def _catch_gptj(model: nn.Module, modeling: ModuleType, found: Found, _patch) -> list[Any]:
    """Queries and keys from what their projections give out, turned by transformers' functions."""
    mixer = model.get_submodule("h.0.attn")
    projected: list[Tensor] = []

    def note(_module: nn.Module, _given: Any, out: Tensor) -> None:
        projected.append(out.unflatten(-1, (mixer.num_attention_heads, mixer.head_dim)))
        if len(projected) == 2:
            found.append(tuple(map(turned, projected)))

    def turned(x: Tensor) -> Tensor:
        table = modeling.create_sinusoidal_positions(x.shape[1], mixer.rotary_dim).to(x.dtype)
        sin, cos = table[None].chunk(2, dim=-1)
        part = modeling.apply_rotary_pos_emb(x[..., : mixer.rotary_dim], sin, cos)
        return torch.cat((part, x[..., mixer.rotary_dim :]), dim=-1).transpose(1, 2)

    return [mixer.get_submodule(name).register_forward_hook(note) for name in ("q_proj", "k_proj")]


def _hook(path: str, split: Callable[[nn.Module, Tensor], tuple[Tensor, Tensor]]):
    """Queries and keys from what the joined projection of a module gives out."""

    def catch(model: nn.Module, _modeling: ModuleType, found: Found, _patch) -> list[Any]:
        module = model.get_submodule(path)
        mixer = model.get_submodule(path.rpartition(".")[0])
        hook = module.register_forward_hook(lambda _m, _x, out: found.append(split(mixer, out)))
        return [hook]

    return catch


def _falcon(mixer: Any, joined: Tensor) -> tuple[Tensor, Tensor]:
    """Falcon's three ways to lay out queries, keys and values side by side, turned."""
    modeling, config, width = modeling_of(mixer), mixer.config, mixer.head_dim
    heads = joined.unflatten(-1, (-1, width))
    if config.new_decoder_architecture:  # the queries of a group, its key, its value
        groups = heads.unflatten(2, (config.num_kv_heads, -1))
        query, key = groups[:, :, :, :-2].flatten(2, 3), groups[:, :, :, -2]
        key = key.repeat_interleave(query.shape[2] // key.shape[2], dim=2)
    elif config.multi_query:  # all queries, the key, the value
        query, key = heads[:, :, :-2], heads[:, :, -2:-1]
    else:  # query, key and value of a head, and so on
        query, key = heads[:, :, 0::3], heads[:, :, 1::3]
    rotary = modeling.FalconRotaryEmbedding(config)
    cos, sin = rotary(joined, torch.arange(joined.shape[1])[None])
    return modeling.apply_rotary_pos_emb(query.transpose(1, 2), key.transpose(1, 2), cos, sin)


def _bloom(mixer: Any, joined: Tensor) -> tuple[Tensor, Tensor]:
    """Query, key and value of a head, and so on."""
    heads = joined.unflatten(-1, (-1, 3, mixer.head_dim)).transpose(1, 2)
    return heads[..., 0, :], heads[..., 1, :]


def _mpt(mixer: Any, joined: Tensor) -> tuple[Tensor, Tensor]:
    if mixer.clip_qkv:
        joined = joined.clamp(-mixer.clip_qkv, mixer.clip_qkv)
    query, key, _ = joined.chunk(3, dim=2)
    shape = (*joined.shape[:2], mixer.n_heads, mixer.head_dim)
    return query.reshape(shape).transpose(1, 2), key.reshape(shape).transpose(1, 2)


_CATCHERS = {
    "gptj": _catch_gptj,
    "falcon": _hook("h.0.self_attention.query_key_value", _falcon),
    "bloom": _hook("h.0.self_attention.query_key_value", _bloom),
    "mpt": _hook("blocks.0.attn.Wqkv", _mpt),
}
