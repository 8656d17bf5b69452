"""Families whose positions are rotary or relative: one reader for all of `relative_layouts`.

Sizes, biases, ε and the scale of the scores are those of transformers' own model of a
configuration, which is built without memory (on the meta device).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from lnattn.errors import CheckpointError, LnattnError, one_line
from lnattn.models import position_tables
from lnattn.models.adapters import check_module
from lnattn.models.family import Family
from lnattn.models.relative_layouts import LAYOUTS, Layout
from lnattn.models.settings import checked_number, checked_whole
from lnattn.rotary.weights import (
    DistanceBias,
    HeadNorm,
    RelativeAttention,
    RMSNorm,
    Rotation,
    TokenEmbeddings,
)
from lnattn.weights import LayerNorm

#: Settings that say nothing about the first layer, and with which transformers would make tables of
#: any length, or look for code and libraries that reading needs none of.
_DROPPED = (
    "model_type",
    "num_labels",
    "id2label",
    "label2id",
    "attn_implementation",
    "_attn_implementation",
    "dtype",
    "torch_dtype",
    "auto_map",
    "pruned_heads",
)
#: How families call their number of layers, and lists with an entry for each layer.
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers")
_BY_LAYER = ("layer_types", "mlp_layer_types", "no_rope_layers")
#: Sizes with which a module without memory is made; the weights are compared with them afterwards.
_SIZES = [
    "hidden_size",
    "n_embd",
    "d_model",
    "intermediate_size",
    "n_inner",
    "d_ff",
    "ffn_hidden_size",
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "num_key_value_heads",
    "num_kv_heads",
    "head_dim",
    "d_kv",
    "rotary_dim",
    "vocab_size",
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
]

#: Families that may look both ways. transformers itself does so in some kernels and not in others.
_GEMMAS = ("gemma", "gemma2", "gemma3_text")


class RelativeFamily(Family):
    """The first block of a model of `LAYOUTS`, read from named tensors."""

    def find_sizes(self) -> None:
        layout = self.layout
        self.aliases = layout.aliases
        self.twins = layout.twins
        self.tokens = f"{layout.tokens}.weight"
        # Falcon's new decoders keep a norm for attention beside the one for the FFN.
        norms = [f"{layout.block}.{name}." for name in (layout.norm, "ln_attn") if name]
        of_tokens = [f"{layout.tokens_norm}."] if layout.tokens_norm else []
        self.first_layer = (f"{layout.block}.{layout.attention}.", *norms, *of_tokens)
        query = f"{layout.block}.{layout.attention}.{layout.query}.weight"
        self.prefix = self.find_prefix(layout.prefixes, self.tokens, query)
        label = self.weights.label
        config = self.full_config
        self.d_model = checked_whole(config.hidden_size, "hidden_size", label)
        heads = config.num_attention_heads
        self.n_heads = checked_whole(heads, "num_attention_heads", label)

    # ---- transformers' own view of the configuration ---------------------------------------
    @cached_property
    def layout(self) -> Layout:
        return LAYOUTS[str(self.config["model_type"])]

    @cached_property
    def n_layers(self) -> int:  # type: ignore[override]
        """How many layers the model has, of which one is read."""
        given = [name for name in _LAYERS if name in self.config]
        if given:
            return self.setting(*given)
        from transformers import AutoConfig

        return int(AutoConfig.for_model(str(self.config["model_type"])).num_hidden_layers)

    @cached_property
    def full_config(self) -> Any:
        """The configuration with every default filled in, as transformers understands it.

        Of one layer: the model would have all of them, though one is read.
        """
        from transformers import AutoConfig

        kind = str(self.config["model_type"])
        label = self.weights.label
        given = {name: value for name, value in self.config.items() if name not in _DROPPED}
        for name in _SIZES:
            if given.get(name) is not None:
                checked_whole(given[name], name, label, lowest=0)
        given |= {name: 1 for name in _LAYERS if name in given} or {"num_hidden_layers": 1}
        for name in _BY_LAYER:
            if isinstance(given.get(name), list):
                given[name] = given[name][:1]
        return self._made("read", lambda: AutoConfig.for_model(kind, **given))

    @cached_property
    def skeleton(self) -> nn.Module:
        """The model's embeddings and first block with shapes and settings, but no numbers."""
        from transformers import AutoModel

        def make() -> nn.Module:
            # Whatever kernel a configuration asks for: none is run.
            return AutoModel.from_config(self.full_config, attn_implementation="eager")

        with torch.device("meta"):
            return self._made("make a model of", make)

    def _made(self, what: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except LnattnError:
            raise
        except Exception as error:  # transformers raises what it likes for a broken setting
            raise CheckpointError(
                f"{self.weights.label}: transformers cannot {what} its config.json "
                f"({type(error).__name__}: {one_line(error)}); take the one that belongs to the "
                "weights."
            ) from error

    def is_tied(self) -> bool:
        return bool(getattr(self.full_config, "tie_word_embeddings", False))

    def module(self, *path: str) -> Any:
        """A module of the model in memory, or of transformers' own for this configuration."""
        name = ".".join(path)
        here = self.module_at(self.prefix + name)
        return self.skeleton.get_submodule(name) if here is None else here

    @cached_property
    def mixer(self) -> Any:
        """The attention module of the first block."""
        return self.module(self.layout.block, self.layout.attention)

    # ---- what `Family` asks for ------------------------------------------------------------
    def check_variant(self) -> None:
        kind = self.config["model_type"]
        if kind == "falcon" and self.flag("alibi", False):
            self.refuse(
                "this Falcon rounds its ALiBi penalties to half precision at absolute positions, "
                "so they are no function of the distance."
            )
        if kind in _GEMMAS and self.flag("use_bidirectional_attention", False):
            self.refuse(f"the attention of this {kind} is bidirectional, which is not read here.")

    def embeddings(self) -> TokenEmbeddings:
        return self._made("read the embeddings by", self._embeddings)

    def attention(self, layer: int) -> RelativeAttention:
        if layer:
            self.refuse(
                f"only layer 0 of such a model is read, not layer {layer}: with rotary or relative "
                "positions the terms need queries and keys that depend on a token alone."
            )
        return self._made("read the first block by", self._first_block)

    def _embeddings(self) -> TokenEmbeddings:
        layout = self.layout
        table = self.token_table(self.tokens) or self.prefix + self.tokens
        shape = self._shape(layout.tokens, table)
        factor = math.sqrt(self.d_model) if layout.factor == "root" else 1.0
        if layout.factor not in ("", "root"):
            factor = self._number(getattr(self.full_config, layout.factor), layout.factor)
        ln = self._layer_norm(layout.tokens_norm) if layout.tokens_norm else None
        return TokenEmbeddings(self.read_full(table, *shape, widen=False), factor, ln)

    def _first_block(self) -> RelativeAttention:
        (W_Q, b_Q), (W_K, b_K) = self._projections()
        scale = self._scale()
        return RelativeAttention(
            ln=self._norm(),
            W_Q=W_Q,
            b_Q=b_Q,
            W_K=W_K,
            b_K=b_K,
            scale=scale,
            norm_Q=self._head_norm(self.layout.norms[0], len(W_Q), W_Q.shape[2]),
            norm_K=self._head_norm(self.layout.norms[1], len(W_K), W_K.shape[2]),
            clip=self._clip(),
            rotation=self._rotation(),
            bias=self._bias(scale),
            soft_cap=self._soft_cap(),
            sinks=self._sinks(len(W_Q)),
            window=self._window(),
            causal=self.layout.positions != "t5",
        )

    def notes(self) -> dict[str, Any]:
        kind = getattr(self.full_config, "rope_parameters", None) or {}
        kind = kind.get(self._layer_type(), kind) or {}
        return {
            "positions": {
                "rotary": f"rotary ({kind.get('rope_type', 'default')})",
                "gptj": "rotary (interleaved)",
                "bloom": "ALiBi",
                "mpt": "ALiBi",
                "t5": "learned bias for buckets of distances",
            }[self.layout.positions]
        }

    @property
    def context(self) -> int | None:
        """The longest text the model was made for."""
        for name in ("max_position_embeddings", "max_seq_len", "seq_length", "n_positions"):
            if isinstance(value := getattr(self.full_config, name, None), int):
                return value
        return None

    # ---- the parts -------------------------------------------------------------------------
    def _projections(self) -> tuple[list[Tensor], list[Tensor]]:
        """W [head d_model d_head] and b [head d_head] of queries, and of keys by key head."""
        layout = self.layout
        mixer = self.mixer
        heads = self.n_heads
        queries = self._linear(layout.query)
        rows = len(queries[0])
        if not layout.joined:
            keys = self._linear(layout.key)
            d_head = rows // heads
            self._check_division(rows, heads, heads)
            self._check_division(len(keys[0]), d_head, heads)
            self._check_division(heads, len(keys[0]) // d_head, heads)
        else:
            counts = (getattr(mixer, name, 0) for name in ("num_kv_heads", "num_key_value_heads"))
            key_heads: int = next(filter(None, counts), heads)
            d_head = rows // (heads + 2 * key_heads)
            self._check_division(rows, heads + 2 * key_heads, heads)
            self._check_division(heads, key_heads, heads)
            # One group, of all heads, is both: Falcon with a single key.
            if layout.joined == "groups":
                group = heads // key_heads
                parts = [part.unflatten(0, (key_heads, group + 2, d_head)) for part in queries]
                keys = [part[:, group].flatten(0, 1) for part in parts]
                queries = [part[:, :group].flatten(0, 2) for part in parts]
            else:
                cut = heads * d_head
                stop = (heads + key_heads) * d_head
                keys = [part[cut:stop] for part in queries]
                queries = [part[:cut] for part in queries]
        # [head·d_head d_model] -> [head d_model d_head], used as x @ W; [head d_head].
        for pair in (queries, keys):
            pair[0] = pair[0].unflatten(0, (-1, d_head)).transpose(1, 2).contiguous()
            pair[1] = pair[1].unflatten(0, (-1, d_head)).contiguous()
        return queries, keys

    def _check_division(self, number: int, parts: int, heads: int) -> None:
        """Raise `CheckpointError` where coordinates or heads cannot be dealt evenly."""
        if parts < 1 or number % parts:
            raise CheckpointError(
                f"{self.weights.label}: config.json asks for {heads} heads, and {number} cannot be "
                f"divided evenly by {parts}, as these weights would need; take the one of these "
                "weights."
            )

    def _linear(self, name: str) -> list[Tensor]:
        """A torch.nn.Linear's weight [out in] and bias [out], zeros where it has none."""
        full = f"{self.layout.block}.{self.layout.attention}.{name}"
        module = self.module(full)
        weight = self.read(f"{full}.weight", *self._shape(full))
        if module.bias is None:
            return [weight, weight.new_zeros(len(weight))]
        return [weight, self.read(f"{full}.bias", len(weight))]

    def _shape(self, name: str, full: str = "") -> tuple[int, ...]:
        """The shape of a module's weight; `CheckpointError` where there is no such tensor.

        full: the tensor's whole name, where it is stored under another.
        """
        self.check_there(full or f"{self.prefix}{name}.weight")
        return tuple(self.module(name).weight.shape)

    def _norm(self) -> LayerNorm | RMSNorm | None:
        block = self.layout.block
        name = self.layout.norm
        # Falcon's new decoders keep a norm for attention beside the one for the FFN.
        name = "ln_attn" if hasattr(self.module(block), "ln_attn") else name
        if not name:
            return None
        if self.layout.centred:
            return self._layer_norm(f"{block}.{name}")
        return RMSNorm(self._gain(f"{block}.{name}"), self._eps(f"{block}.{name}"))

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
        gain = self.read(f"{name}.weight", *self._shape(name))
        return gain + 1 if self.layout.one_plus else gain

    def _eps(self, name: str) -> float:
        module = self.module(name)
        eps = module.eps if hasattr(module, "eps") else module.variance_epsilon
        return checked_number(eps, f"the ε of {name}", self.weights.label)

    def _head_norm(self, name: str, heads: int, d_head: int) -> HeadNorm | None:
        if not hasattr(self.mixer, name):
            return None
        at = f"{self.layout.block}.{self.layout.attention}.{name}"
        module = self.module(at)
        shape = (heads, d_head)
        if hasattr(module, "norms"):  # StableLM: a LayerNorm for each head
            names = [f"{at}.norms.{head}" for head in range(heads)]
            gamma = torch.stack([self.read(f"{norm}.weight", d_head) for norm in names])
            return HeadNorm(gamma, torch.zeros_like(gamma), self._eps(names[0]), centred=True)
        joint = self.layout.joint_norms
        gamma = self._gain(at)
        gamma = gamma.reshape(shape) if joint else gamma.expand(shape).contiguous()
        beta = torch.zeros_like(gamma)
        if getattr(module, "bias", None) is not None:
            beta = self.read(f"{at}.bias", d_head).expand(shape).contiguous()
        return HeadNorm(
            gamma=gamma,
            beta=beta,
            eps=self._eps(at),
            centred=isinstance(module, nn.LayerNorm),
            joint=joint,
        )

    def _scale(self) -> float:
        """What the scores are divided by."""
        if hasattr(self.mixer, "scale_attn"):  # GPT-J
            return self._number(float(self.mixer.scale_attn), "the scale of its scores")
        for name in ("scaling", "inv_norm_factor", "softmax_scale"):
            if hasattr(self.mixer, name):
                return 1.0 / self._number(getattr(self.mixer, name), "the scale of its scores")
        raise CheckpointError(
            f"{self.weights.label}: this version of transformers does not tell the scale of its "
            "scores; install transformers 5 or newer."
        )

    def _number(self, value: Any, name: str) -> float:
        """A finite number > 0, as transformers understood a setting."""
        return checked_number(value, name, self.weights.label, above=True)

    def _clip(self) -> float | None:
        """The bound of the coordinates of queries and keys, None where they have none."""
        value = getattr(self.mixer, "clip_qkv", None)  # MPT's module keeps it
        if value is None and self.layout.clip:
            value = self.full_config.clip_qkv
        return None if value is None else self._number(value, "clip_qkv")

    def _soft_cap(self) -> float | None:
        if not self.layout.soft_cap:
            return None
        cap = self.full_config.attn_logit_softcapping
        return None if cap is None else self._number(cap, "attn_logit_softcapping")

    def _window(self) -> int | None:
        owner = self.full_config if self.layout.window else self.mixer
        window = getattr(owner, "sliding_window", None)
        if window is None:
            return None
        return checked_whole(window, "sliding_window", self.weights.label)

    def _sinks(self, heads: int) -> Tensor | None:
        name = self.layout.sinks
        if not name:
            return None
        return self.read(f"{self.layout.block}.{self.layout.attention}.{name}", heads)

    def _layer_type(self) -> str | None:
        """'sliding_attention' or 'full_attention', where transformers tells such layers apart."""
        named = getattr(self.mixer, "layer_type", None)
        return named or getattr(self.mixer, "attention_type", None)  # OLMo-3

    def _rotation(self) -> Rotation | None:
        kind = self.layout.positions
        if kind == "gptj":
            name = ("embed_positions",)
            # Before transformers 5.24 each layer's attention has a table.
            table = self.told(f"{self.layout.block}.{self.layout.attention}", name, None)
            table = self.told("rotary_emb", name, table)
            return position_tables.gptj(self.skeleton, self.full_config, self.mixer.head_dim, table)
        if kind != "rotary" or not getattr(self.mixer, "use_rope", True):
            return None
        module = self.module("rotary_emb")
        layer_type = self._layer_type() if isinstance(module.rope_type, dict) else None
        own = module if self.in_memory else None
        if own is not None:
            check_module(self.weights.label, f"{self.prefix}rotary_emb", own)
        return position_tables.rotary(type(module), self.full_config, layer_type, own)

    def _bias(self, scale: float) -> DistanceBias | None:
        kind = self.layout.positions
        if kind in ("bloom", "mpt"):
            return position_tables.alibi(self.skeleton, self.n_heads, scale, kind)
        if kind == "t5":
            at = f"{self.layout.block}.{self.layout.attention}.relative_attention_bias"
            weight = self.read(f"{at}.weight", *self._shape(at))
            return position_tables.t5_buckets(self.mixer, weight)
        return None
