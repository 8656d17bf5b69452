"""How each family of checkpoints names and lays out the weights that the formulas need.

A family turns a configuration and a source of named tensors into `Embeddings` and
`AttentionLayer` of one layout: W_Q, W_K, W_V [head d_model d_head], W_O [head d_head d_model],
used as x @ W. What a family does not have (a bias) becomes zeros, so that the algebra that
follows needs no special cases. `refusals` says which architectures do not fit, and why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lnattn.errors import CheckpointError
from lnattn.models.family import Family, WeightSource
from lnattn.models.refusals import language_model_of, reason_against
from lnattn.models.relative_families import RelativeFamily
from lnattn.models.relative_layouts import LAYOUTS
from lnattn.weights import AttentionLayer, Embeddings


class GPT2(Family):
    """GPT-2 small to XL, DistilGPT2, book-gpt2: pre-LN, causal, Conv1D weights stored [in, out]."""

    prefixes = ("transformer.", "")
    anchor = "wpe.weight"
    tokens = "wte.weight"
    first_layer = ("wpe.", "h.0.ln_1.", "h.0.attn.")
    output = "h.0.attn.c_proj"
    sizes = (
        ("hidden_size", "n_embd"),
        ("num_attention_heads", "n_head"),
        ("num_hidden_layers", "n_layer"),
    )

    def check_variant(self) -> None:
        if self.config.get("positions") == "rotary":
            self.refuse("its positions are rotary, as no released model of this family has them.")
        if self.flag("add_cross_attention", False):
            self.refuse(
                "its blocks also attend to an encoder, which the folding of one attention block "
                "does not describe; use a plain decoder."
            )

    def embeddings(self) -> Embeddings:
        positions = self.setting("max_position_embeddings", "n_positions", "n_ctx")
        vocab = self.setting("vocab_size")
        # A partial checkpoint has no token embeddings; position terms need none.
        table = self.token_table(self.tokens)
        tokens = None if table is None else self.read_full(table, vocab, self.d_model)
        return Embeddings(tokens, self.read("wpe.weight", positions, self.d_model))

    def attention(self, layer: int) -> AttentionLayer:
        d = self.d_model
        at = f"h.{layer}."
        # c_attn holds queries, keys and values side by side; within each, the heads side by side.
        weights = self.read(f"{at}attn.c_attn.weight", d, 3 * d).split(d, dim=1)
        biases = self.read(f"{at}attn.c_attn.bias", 3 * d).split(d)
        scale = math.sqrt(self.d_head) if self.flag("scale_attn_weights", True) else 1.0
        if self.flag("scale_attn_by_inverse_layer_idx", False):
            scale *= layer + 1
        scale = self.scale_told(f"{at}attn", scale)
        out = self.read(f"{at}attn.c_proj.weight", d, d), self.read(f"{at}attn.c_proj.bias", d)
        return self.assemble(
            layer,
            self.layer_norm(f"{at}ln_1", self.number("layer_norm_epsilon", 1e-5)),
            *zip(weights, biases, strict=True),
            out,
            scale=scale,
        )


class GPTNeo(Family):
    """GPT-Neo: pre-LN, causal, no biases on Q, K, V, and scores that are *not* divided by √d_head.

    Every second layer is local: a query sees the last `window` keys only.
    """

    prefixes = ("transformer.", "")
    anchor = "wpe.weight"
    tokens = "wte.weight"
    first_layer = ("wpe.", "h.0.ln_1.", "h.0.attn.")
    output = "h.0.attn.attention.out_proj"
    sizes = (
        ("hidden_size",),
        ("num_attention_heads", "num_heads"),
        ("num_hidden_layers", "num_layers"),
    )

    def embeddings(self) -> Embeddings:
        positions = self.setting("max_position_embeddings")
        vocab = self.setting("vocab_size")
        return Embeddings(
            self.token_rows(vocab),
            self.read("wpe.weight", positions, self.d_model),
        )

    def attention(self, layer: int) -> AttentionLayer:
        at = f"h.{layer}.attn.attention."
        return self.assemble(
            layer,
            self.layer_norm(f"h.{layer}.ln_1", self.number("layer_norm_epsilon", 1e-5)),
            *(self.linear(f"{at}{name}_proj", bias=False) for name in "qkv"),
            self.linear(f"{at}out_proj"),
            scale=self.scale_told(at.removesuffix("."), 1.0),
            window=self._window(layer),
        )

    def _window(self, layer: int) -> int | None:
        if self._kind_of_layer(layer) == "local":
            return self.setting("window_size")
        return None

    def _kind_of_layer(self, layer: int) -> str:
        """'local' or 'global', by a list of layers, or by patterns that are repeated."""
        listed = self.config.get("attention_layers")
        patterns = [[listed, 1]] if listed else self.config.get("attention_types", [])
        try:
            before = 0
            for kinds, times in patterns:
                # Not written out: a pattern may claim to be repeated a milliard times.
                if layer < before + len(kinds) * times:
                    return str(kinds[(layer - before) % len(kinds)])
                before += len(kinds) * times
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"{self.weights.label}: attention_types in config.json must be pairs of a list of "
                "'global' and 'local' and a number; take the one of these weights."
            ) from error
        return "global"


class OPT(Family):
    """OPT: pre-LN, causal; two unused rows stand before the first position embedding."""

    prefixes = ("model.decoder.", "decoder.", "")
    anchor = "embed_positions.weight"
    tokens = "embed_tokens.weight"
    first_layer = ("embed_positions.", "layers.0.self_attn")
    output = "layers.0.self_attn.out_proj"
    _OFFSET = 2

    def check_variant(self) -> None:
        if not self.flag("do_layer_norm_before", True):
            self.refuse(
                "in this variant of OPT (350M) no LayerNorm comes before the first attention "
                "block, so there is nothing to fold into it; use another size."
            )
        if self.config.get("word_embed_proj_dim", self.config.get("hidden_size")) != (
            self.config.get("hidden_size")
        ):
            self.refuse("its token embeddings are projected to another width before use.")
        if not self.flag("layer_norm_elementwise_affine", True):
            self.refuse("its LayerNorms have neither gain nor bias; there is nothing to fold.")

    def embeddings(self) -> Embeddings:
        positions = self.setting("max_position_embeddings")
        vocab = self.setting("vocab_size")
        rows = self.read("embed_positions.weight", positions + self._OFFSET, self.d_model)
        tokens = self.token_rows(vocab)
        return Embeddings(tokens, rows[self._OFFSET :].contiguous())

    def attention(self, layer: int) -> AttentionLayer:
        at = f"layers.{layer}.self_attn"
        bias = self.flag("enable_bias", True)
        return self.assemble(
            layer,
            self.layer_norm(f"{at}_layer_norm", 1e-5),
            *(self.linear(f"{at}.{name}_proj", bias=bias) for name in ("q", "k", "v", "out")),
            scale=self.scale_told(at, math.sqrt(self.d_head)),
        )


class Whisper(Family):
    """The decoder of Whisper: pre-LN, causal, learned positions, no bias on keys.

    Its blocks also attend to an encoder, but after their self-attention: block 0 reads token +
    position alone, so the six terms are exact there.
    """

    prefixes = ("model.decoder.", "decoder.", "")
    anchor = "embed_positions.weight"
    tokens = "embed_tokens.weight"
    first_layer = ("embed_positions.", "layers.0.self_attn")
    output = "layers.0.self_attn.out_proj"
    twins = ("proj_out.weight",)
    part = "decoder"
    sizes = (
        ("hidden_size", "d_model"),
        ("decoder_attention_heads",),
        ("decoder_layers",),
    )

    def embeddings(self) -> Embeddings:
        positions = self.setting("max_target_positions")
        vocab = self.setting("vocab_size")
        return Embeddings(
            self.token_rows(vocab),
            self.read("embed_positions.weight", positions, self.d_model),
        )

    def attention(self, layer: int) -> AttentionLayer:
        at = f"layers.{layer}.self_attn"
        return self.assemble(
            layer,
            self.layer_norm(f"{at}_layer_norm", 1e-5),
            *(self.linear(f"{at}.{name}_proj", bias=name != "k") for name in ("q", "k", "v")),
            self.linear(f"{at}.out_proj"),
            scale=self.scale_told(at, math.sqrt(self.d_head)),
        )


class BERT(Family):
    """BERT and MiniLM: bidirectional, post-LN.

    A post-LN block ends with its LayerNorm, so the LayerNorm that feeds a block is the previous
    one's last, and that of the embeddings feeds block 0. Block 0 therefore reads
    LN(token + position + type), which is what a pre-LN block does with token + position: the same
    algebra holds, with the embedding of token type 0 added to every position.
    """

    prefixes = ("bert.", "")
    twins = ("cls.predictions.decoder.weight",)
    anchor = "embeddings.position_embeddings.weight"
    tokens = "embeddings.word_embeddings.weight"
    first_layer = ("embeddings.", "encoder.layer.0.attention.")
    output = "encoder.layer.0.attention.output.dense"

    @property
    def offset(self) -> int:
        """How many rows of the table of positions stand before that of the first token."""
        return 0

    def check_variant(self) -> None:
        kind = self.config.get("position_embedding_type", "absolute")
        if kind != "absolute":
            self.refuse(
                f"its positions enter the scores themselves ({kind}) and not the input, so the "
                "six terms do not exist; use a model with absolute positions."
            )

    def embeddings(self) -> Embeddings:
        rows = self.setting("max_position_embeddings")
        types = self.setting("type_vocab_size")
        vocab = self.setting("vocab_size")
        d = self.d_model
        if self.offset >= rows:
            raise CheckpointError(
                f"{self.weights.label}: pad_token_id in config.json is {self.offset - 1}, so the "
                f"first position would be row {self.offset} of {rows}; take the one of these "
                "weights."
            )
        positions = self.read("embeddings.position_embeddings.weight", rows, d)[self.offset :]
        first_type = self.read("embeddings.token_type_embeddings.weight", types, d)[0]
        tokens = self.token_rows(vocab)
        return Embeddings(tokens, positions + first_type)

    def attention(self, layer: int) -> AttentionLayer:
        at = f"encoder.layer.{layer}.attention."
        ln = f"encoder.layer.{layer - 1}.output.LayerNorm" if layer else "embeddings.LayerNorm"
        return self.assemble(
            layer,
            self.layer_norm(ln, self.number("layer_norm_eps", 1e-12)),
            *(self.linear(f"{at}self.{name}") for name in ("query", "key", "value")),
            self.linear(f"{at}output.dense"),
            scale=self.scale_told(f"{at}self", math.sqrt(self.d_head)),
            causal=self.flag("is_decoder", False),
        )


class RoBERTa(BERT):
    """RoBERTa: as BERT, but positions are counted from the padding token's id + 1."""

    prefixes = ("roberta.", "")
    twins = ("lm_head.decoder.weight",)

    @property
    def offset(self) -> int:
        if self.config.get("pad_token_id") is None:  # transformers' default
            return 2
        return self.settings.whole("pad_token_id", lowest=0) + 1


class Electra(BERT):
    """ELECTRA whose embeddings are as wide as the model: as BERT."""

    prefixes = ("electra.", "")
    twins = ("generator_lm_head.weight",)

    def check_variant(self) -> None:
        super().check_variant()
        width = self.config.get("embedding_size", 128)
        if width != self.config.get("hidden_size", 256):
            self.refuse(
                f"its embeddings are {width} wide and projected to the width of the model after "
                "their LayerNorm, which the folding does not describe; use a model of equal widths."
            )


#: Families by the `model_type` of config.json.
FAMILIES: dict[str, type[Family]] = {
    "gpt2": GPT2,
    "gpt_neo": GPTNeo,
    "opt": OPT,
    "whisper": Whisper,
    "bert": BERT,
    "roberta": RoBERTa,
    "xlm-roberta": RoBERTa,
    "camembert": RoBERTa,
    "electra": Electra,
    **dict.fromkeys(LAYOUTS, RelativeFamily),
}


def check_supported(config: Mapping[str, Any], label: str) -> None:
    """Raise `CheckpointError` with the reason where an architecture does not fit the algebra."""
    reason = reason_against(config, known=str(config.get("model_type")) in FAMILIES)
    if reason is not None:
        raise CheckpointError(
            f"{label} cannot be used: {reason} lnattn reads {', '.join(FAMILIES)}."
        )


def family_of(config: Mapping[str, Any], weights: WeightSource) -> Family:
    """The family that a configuration names, ready to read; raises as `check_supported`.

    Of a model of images and text it is that of the language model inside.
    """
    config = language_model_of(config)
    check_supported(config, weights.label)
    return FAMILIES[str(config["model_type"])](config, weights)
