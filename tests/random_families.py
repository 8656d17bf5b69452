"""Tiny random models of every supported family, and what Hugging Face computes with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers as hf
from random_models import randomise
from torch import Tensor, nn

D_MODEL, HEADS, VOCAB, CONTEXT = 24, 3, 50, 20
_BERT_SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": D_MODEL,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "intermediate_size": 32,
    "type_vocab_size": 2,
}


@dataclass(frozen=True)
class Kind:
    """How to build a family's tiny model and where its modules are.

    norm, out: the LayerNorm that feeds an attention block, and its output projection.
    """

    build: Callable[[], nn.Module]
    norm: Callable[[nn.Module, int], nn.Module]
    out: Callable[[nn.Module, int], nn.Module]
    causal: bool = True


def _pre_ln(block: str) -> Callable[[nn.Module, int], nn.Module]:
    return lambda model, layer: model.get_submodule(block.format(layer))


def _bert_norm(prefix: str) -> Callable[[nn.Module, int], nn.Module]:
    return lambda model, layer: model.get_submodule(
        f"{prefix}encoder.layer.{layer - 1}.output.LayerNorm"
        if layer
        else f"{prefix}embeddings.LayerNorm"
    )


def _gpt2(**changes: Any) -> nn.Module:
    sizes = {"n_embd": D_MODEL, "n_head": HEADS, "n_layer": 2, "n_positions": CONTEXT}
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=VOCAB, bos_token_id=0, eos_token_id=0, **sizes, **changes)
    )


def _gpt_neo() -> nn.Module:
    return hf.GPTNeoForCausalLM(
        hf.GPTNeoConfig(
            vocab_size=VOCAB,
            hidden_size=D_MODEL,
            num_heads=HEADS,
            num_layers=2,
            attention_types=[[["global", "local"], 1]],
            max_position_embeddings=CONTEXT,
            window_size=8,
            intermediate_size=32,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def _opt(**changes: Any) -> nn.Module:
    return hf.OPTForCausalLM(
        hf.OPTConfig(
            vocab_size=VOCAB,
            hidden_size=D_MODEL,
            word_embed_proj_dim=D_MODEL,
            num_hidden_layers=2,
            num_attention_heads=HEADS,
            ffn_dim=32,
            max_position_embeddings=CONTEXT,
            **changes,
        )
    )


def _whisper(kind: type, **changes: Any) -> nn.Module:
    return kind(
        hf.WhisperConfig(
            vocab_size=VOCAB,
            d_model=D_MODEL,
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=16,
            decoder_ffn_dim=32,
            num_mel_bins=4,
            max_source_positions=6,
            max_target_positions=CONTEXT,
            pad_token_id=0,
            bos_token_id=0,
            eos_token_id=0,
            decoder_start_token_id=1,
            suppress_tokens=None,
            begin_suppress_tokens=None,
            **changes,
        )
    )


def _bert(**changes: Any) -> hf.BertConfig:
    return hf.BertConfig(max_position_embeddings=CONTEXT, **_BERT_SIZES, **changes)


def _electra() -> nn.Module:
    sizes = {"max_position_embeddings": CONTEXT, "embedding_size": D_MODEL, **_BERT_SIZES}
    return hf.ElectraModel(hf.ElectraConfig(**sizes))


def _roberta() -> nn.Module:
    # Two rows more than positions: RoBERTa counts from the padding token's id + 1.
    return hf.RobertaModel(
        hf.RobertaConfig(max_position_embeddings=CONTEXT + 2, pad_token_id=1, **_BERT_SIZES)
    )


_GPT2_NORM, _GPT2_OUT = _pre_ln("transformer.h.{}.ln_1"), _pre_ln("transformer.h.{}.attn.c_proj")
_BERT_OUT = "{}encoder.layer.{{}}.attention.output.dense"

KINDS = {
    "gpt2": Kind(_gpt2, _GPT2_NORM, _GPT2_OUT),
    "gpt2-unscaled": Kind(lambda: _gpt2(scale_attn_weights=False), _GPT2_NORM, _GPT2_OUT),
    "gpt2-by-layer": Kind(
        lambda: _gpt2(scale_attn_by_inverse_layer_idx=True), _GPT2_NORM, _GPT2_OUT
    ),
    "gpt_neo": Kind(_gpt_neo, _GPT2_NORM, _pre_ln("transformer.h.{}.attn.attention.out_proj")),
    "opt": Kind(
        _opt,
        _pre_ln("model.decoder.layers.{}.self_attn_layer_norm"),
        _pre_ln("model.decoder.layers.{}.self_attn.out_proj"),
    ),
    "opt-without-biases": Kind(
        lambda: _opt(enable_bias=False),
        _pre_ln("model.decoder.layers.{}.self_attn_layer_norm"),
        _pre_ln("model.decoder.layers.{}.self_attn.out_proj"),
    ),
    "whisper": Kind(
        lambda: _whisper(hf.WhisperForConditionalGeneration),
        _pre_ln("model.decoder.layers.{}.self_attn_layer_norm"),
        _pre_ln("model.decoder.layers.{}.self_attn.out_proj"),
    ),
    "whisper-decoder": Kind(
        lambda: _whisper(hf.WhisperForCausalLM),
        _pre_ln("model.decoder.layers.{}.self_attn_layer_norm"),
        _pre_ln("model.decoder.layers.{}.self_attn.out_proj"),
    ),
    "bert": Kind(
        lambda: hf.BertForMaskedLM(_bert()),
        _bert_norm("bert."),
        _pre_ln(_BERT_OUT.format("bert.")),
        causal=False,
    ),
    "bert-without-head": Kind(
        lambda: hf.BertModel(_bert()), _bert_norm(""), _pre_ln(_BERT_OUT.format("")), causal=False
    ),
    "bert-decoder": Kind(
        lambda: hf.BertModel(_bert(is_decoder=True)), _bert_norm(""), _pre_ln(_BERT_OUT.format(""))
    ),
    "electra": Kind(_electra, _bert_norm(""), _pre_ln(_BERT_OUT.format("")), causal=False),
    "roberta": Kind(_roberta, _bert_norm(""), _pre_ln(_BERT_OUT.format("")), causal=False),
}


def make(kind: str, dtype: torch.dtype, seed: int = 3) -> nn.Module:
    """A model with random parameters and eager attention, in evaluation mode."""
    model = randomise(KINDS[kind].build().to(dtype), seed)
    model.set_attn_implementation("eager")
    return model.eval()


def save(model: nn.Module, folder: Path) -> Path:
    """Save as a checkpoint folder, in the model's own dtype."""
    model.save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class Seen:
    """What one block of the Hugging Face model received and returned.

    into_norm: [batch n d_model], what its LayerNorm was given; attention: [batch head n n];
    output: [batch n d_model], what the block adds.
    """

    into_norm: Tensor
    attention: Tensor
    output: Tensor


@torch.no_grad()
def run(model: nn.Module, kind: str, ids: Tensor, mask: Tensor | None = None) -> list[Seen]:
    """Run a model and look into every attention block."""
    caught: dict[tuple[str, int], Tensor] = {}
    hooks = []
    for layer in range(2):
        norm, out = KINDS[kind].norm(model, layer), KINDS[kind].out(model, layer)
        hooks += [
            norm.register_forward_hook(
                lambda _m, given, _r, key=("in", layer): caught.__setitem__(key, given[0])
            ),
            out.register_forward_hook(
                lambda _m, _g, result, key=("out", layer): caught.__setitem__(key, result)
            ),
        ]
    whole = model.get_decoder() if kind.startswith("whisper") else model  # without any sound
    attentions = whole(ids, attention_mask=mask, output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    return [Seen(caught["in", i], attentions[i], caught["out", i]) for i in range(2)]


def save_tokenizer(folder: Path, size: int) -> Path:
    """A tokenizer that knows so many words."""
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({f"w{i}": i for i in range(size)}, unk_token="w0")
    )
    hf.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0").save_pretrained(folder)
    return folder
