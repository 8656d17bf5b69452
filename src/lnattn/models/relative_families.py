"""Families whose positions are rotary or relative: one reader for all of `relative_layouts`.

Sizes, biases, ε and the scale of the scores are those of transformers' own model of a
configuration, which is built without memory (on the meta device).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from lnattn.errors import CheckpointError
from lnattn.models import position_tables
from lnattn.models.family import Family, WeightSource
from lnattn.models.relative_layouts import LAYOUTS
from lnattn.rotary.weights import (
    DistanceBias,
    HeadNorm,
    RelativeAttention,
    RMSNorm,
    Rotation,
    TokenEmbeddings,
)
from lnattn.weights import LayerNorm


class RelativeFamily(Family):
    """The first block of a model of `LAYOUTS`, read from named tensors."""

    def __init__(self, config: Mapping[str, Any], weights: WeightSource) -> None:
        self.config, self.weights = config, weights
        self.layout = LAYOUTS[str(config["model_type"])]
        self.check_variant()
        anchor = f"{self.layout.tokens}.weight"
        prefix = next((p for p in self.layout.prefixes if p + anchor in weights), None)
        if prefix is None:
            raise CheckpointError(
                f"{weights.label} holds no tensor {anchor!r}, so it is no "
                f"{config.get('model_type')} checkpoint as its config.json says; "
                "give a folder whose weights and configuration belong together."
            )
        self.prefix = prefix
        self.d_model = int(self.full_config.hidden_size)
        self.n_heads = int(self.full_config.num_attention_heads)
        self.n_layers = int(self.full_config.num_hidden_layers)

    # ---- transformers' own view of the configuration ---------------------------------------
    @cached_property
    def full_config(self) -> Any:
        """The configuration with every default filled in, as transformers understands it."""
        from transformers import AutoConfig

        given = {name: value for name, value in self.config.items() if name != "model_type"}
        try:
            return AutoConfig.for_model(str(self.config["model_type"]), **given)
        except Exception as error:  # transformers raises what it likes for a broken setting
            raise CheckpointError(
                f"{self.weights.label}: transformers cannot read its config.json "
                f"({type(error).__name__}: {error}); take the one that belongs to the weights."
            ) from error

    @cached_property
    def skeleton(self) -> nn.Module:
        """The model with shapes and settings but no numbers."""
        from transformers import AutoModel

        try:
            with torch.device("meta"):
                return AutoModel.from_config(self.full_config)
        except Exception as error:
            raise CheckpointError(
                f"{self.weights.label}: transformers cannot make a model of its config.json "
                f"({type(error).__name__}: {error}); take the one that belongs to the weights."
            ) from error

    def module(self, *path: str) -> Any:
        return self.skeleton.get_submodule(".".join(path))

    @cached_property
    def block(self) -> Any:
        return self.module(self.layout.block)

    @cached_property
    def mixer(self) -> Any:
        """The attention module of the first block."""
        return self.module(self.layout.block, self.layout.attention)

    # ---- what `Family` asks for ------------------------------------------------------------
    def check_variant(self) -> None:
        config, kind = self.config, self.config["model_type"]
        if kind == "falcon" and config.get("alibi"):
            self.refuse(
                "this Falcon rounds its ALiBi penalties to half precision at absolute positions, "
                "so they are no function of the distance."
            )
        if config.get("use_bidirectional_attention"):
            self.refuse("its attention is bidirectional inside a window, which is not read here.")

    def embeddings(self) -> TokenEmbeddings:
        layout = self.layout
        shape = tuple(self.module(layout.tokens).weight.shape)
        name = f"{layout.tokens}.weight"
        factor = math.sqrt(self.d_model) if layout.factor == "root" else 1.0
        if layout.factor not in ("", "root"):
            factor = float(getattr(self.full_config, layout.factor))
        return TokenEmbeddings(
            self.read(name, *shape, widen=False),
            factor,
            self._layer_norm(layout.tokens_norm) if layout.tokens_norm else None,
        )

    def attention(self, layer: int) -> RelativeAttention:
        if layer:
            self.refuse(
                f"only layer 0 of such a model is read, not layer {layer}: with rotary or relative "
                "positions the terms need queries and keys that depend on a token alone."
            )
        query, key = self._projections()
        scale = self._scale()
        heads, key_heads = len(query[0]), len(key[0])
        return RelativeAttention(
            ln=self._norm(),
            W_Q=query[0],
            b_Q=query[1],
            W_K=key[0],
            b_K=key[1],
            scale=scale,
            norm_Q=self._head_norm(self.layout.norms[0], heads, query[0].shape[2]),
            norm_K=self._head_norm(self.layout.norms[1], key_heads, key[0].shape[2]),
            clip=getattr(self.mixer, "clip_qkv", None)
            or getattr(self.full_config, "clip_qkv", None),
            rotation=self._rotation(),
            bias=self._bias(scale),
            soft_cap=self.full_config.attn_logit_softcapping if self.layout.soft_cap else None,
            window=self._window(),
            causal=self.layout.positions != "t5",
        )

    def notes(self, layer: int) -> dict[str, Any]:
        config, layout = self.full_config, self.layout
        kind = getattr(config, "rope_parameters", None) or {}
        kind = kind.get(getattr(self.mixer, "layer_type", None), kind) or {}
        positions = {
            "rotary": f"rotary ({kind.get('rope_type', 'default')})",
            "gptj": "rotary (interleaved)",
            "bloom": "ALiBi",
            "mpt": "ALiBi",
            "t5": "learned bias for buckets of distances",
        }[layout.positions]
        window = self._window()
        norm = "LayerNorm" if layout.centred else "RMSNorm" if layout.norm else "none"
        return {
            "normalisation": norm,
            "positions": positions,
            **({"attention_window": window} if window else {}),
        }

    @property
    def context(self) -> int | None:
        """The longest text the model was made for."""
        for name in ("max_position_embeddings", "max_seq_len", "seq_length", "n_positions"):
            if isinstance(value := getattr(self.full_config, name, None), int):
                return value
        return None

    # ---- the parts -------------------------------------------------------------------------
    def _projections(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """(W, b) of queries, [head d_model d_head], and of keys, [key_head d_model d_head]."""
        if not self.layout.joined:
            query, key = (self._linear(name) for name in (self.layout.query, self.layout.key))
            d_head = len(query[0]) // self.n_heads
            return self._by_head(*query, d_head), self._by_head(*key, d_head)
        mixer = self.mixer
        counts = (getattr(mixer, name, 0) for name in ("num_kv_heads", "num_key_value_heads"))
        key_heads: int = next(filter(None, counts), self.n_heads)
        weight, bias = self._linear(self.layout.query)
        d_head = len(weight) // (self.n_heads + 2 * key_heads)
        # One group, of all heads, is both: Falcon with a single key.
        if self.layout.joined == "groups":
            group = self.n_heads // key_heads
            parts = [t.unflatten(0, (key_heads, group + 2, d_head)) for t in (weight, bias)]
            queries = [part[:, :group].flatten(0, 2) for part in parts]
            keys = [part[:, group].flatten(0, 1) for part in parts]
        else:
            cut = self.n_heads * d_head
            queries = [t[:cut] for t in (weight, bias)]
            keys = [t[cut : cut + key_heads * d_head] for t in (weight, bias)]
        (W_Q, b_Q), (W_K, b_K) = queries, keys
        return self._by_head(W_Q, b_Q, d_head), self._by_head(W_K, b_K, d_head)

    def _linear(self, name: str) -> tuple[Tensor, Tensor]:
        """A torch.nn.Linear's weight [out in] and bias [out], zeros where it has none."""
        module = self.module(self.layout.block, self.layout.attention, name)
        full = f"{self.layout.block}.{self.layout.attention}.{name}"
        weight = self.read(f"{full}.weight", *module.weight.shape)
        if module.bias is None:
            return weight, weight.new_zeros(len(weight))
        return weight, self.read(f"{full}.bias", len(weight))

    def _by_head(self, weight: Tensor, bias: Tensor, d_head: int) -> tuple[Tensor, Tensor]:
        """[head·d_head d_model] -> [head d_model d_head], used as x @ W; [head d_head]."""
        heads = weight.unflatten(0, (-1, d_head)).transpose(1, 2)
        return heads.contiguous(), bias.unflatten(0, (-1, d_head)).contiguous()

    def _norm(self) -> LayerNorm | RMSNorm | None:
        layout = self.layout
        # Falcon's new decoders keep a norm for attention beside the one for the FFN.
        name = "ln_attn" if hasattr(self.block, "ln_attn") else layout.norm
        if not name:
            return None
        if layout.centred:
            return self._layer_norm(f"{layout.block}.{name}")
        return RMSNorm(self._gain(f"{layout.block}.{name}"), self._eps(f"{layout.block}.{name}"))

    def _layer_norm(self, name: str) -> LayerNorm:
        module = self.module(name)
        if getattr(module, "weight", None) is None:  # OLMo: neither gain nor bias
            like = self._linear(self.layout.query)[0]
            return LayerNorm(like.new_ones(self.d_model), like.new_zeros(self.d_model), 1e-5)
        gamma = self.read(f"{name}.weight", self.d_model)
        has_shift = getattr(module, "bias", None) is not None
        beta = self.read(f"{name}.bias", self.d_model) if has_shift else torch.zeros_like(gamma)
        return LayerNorm(gamma, beta, self._eps(name))

    def _gain(self, name: str) -> Tensor:
        gain = self.read(f"{name}.weight", *self.module(name).weight.shape)
        return gain + 1 if self.layout.one_plus else gain

    def _eps(self, name: str) -> float:
        module = self.module(name)
        return float(module.eps if hasattr(module, "eps") else module.variance_epsilon)

    def _head_norm(self, name: str, heads: int, d_head: int) -> HeadNorm | None:
        if not hasattr(self.mixer, name):
            return None
        at = f"{self.layout.block}.{self.layout.attention}.{name}"
        module = self.module(at)
        if hasattr(module, "norms"):  # StableLM: a LayerNorm for each head
            names = [f"{at}.norms.{head}" for head in range(heads)]
            gamma = torch.stack([self.read(f"{one}.weight", d_head) for one in names])
            return HeadNorm(gamma, torch.zeros_like(gamma), self._eps(names[0]), centred=True)
        joint, centred = self.layout.joint_norms, isinstance(module, nn.LayerNorm)
        gamma = self._gain(at)
        shape = (heads, d_head)
        gamma = gamma.reshape(shape) if joint else gamma.expand(shape).contiguous()
        beta = torch.zeros_like(gamma)
        if getattr(module, "bias", None) is not None:
            beta = self.read(f"{at}.bias", d_head).expand(shape).contiguous()
        return HeadNorm(gamma, beta, self._eps(at), centred, joint)

    def _scale(self) -> float:
        """What the scores are divided by."""
        mixer = self.mixer
        if hasattr(mixer, "scale_attn"):  # GPT-J
            return float(mixer.scale_attn)
        for name in ("scaling", "inv_norm_factor", "softmax_scale"):
            if hasattr(mixer, name):
                return 1.0 / float(getattr(mixer, name))
        raise CheckpointError(
            f"{self.weights.label}: this version of transformers does not tell the scale of its "
            "scores; install transformers 5 or newer."
        )

    def _window(self) -> int | None:
        if self.layout.window:
            return getattr(self.full_config, "sliding_window", None)
        return getattr(self.mixer, "sliding_window", None)

    def _rotation(self) -> Rotation | None:
        kind = self.layout.positions
        if kind == "gptj":
            return position_tables.gptj(self.skeleton, self.full_config)
        if kind != "rotary" or not getattr(self.mixer, "use_rope", True):
            return None
        module = self.module("rotary_emb")
        by_layer = isinstance(module.rope_type, dict)
        return position_tables.rotary(
            type(module), self.full_config, self.mixer.layer_type if by_layer else None
        )

    def _bias(self, scale: float) -> DistanceBias | None:
        kind = self.layout.positions
        if kind == "bloom":
            return position_tables.alibi(
                position_tables.bloom_slopes(self.skeleton, self.n_heads), scale
            )
        if kind == "mpt":
            return position_tables.alibi(
                position_tables.mpt_slopes(self.skeleton, self.n_heads), scale
            )
        if kind == "t5":
            at = f"{self.layout.block}.{self.layout.attention}.relative_attention_bias"
            weight = self.read(f"{at}.weight", *self.module(at).weight.shape)
            return position_tables.t5_buckets(self.mixer, weight)
        return None
