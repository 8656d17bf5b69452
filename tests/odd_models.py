"""Made checkpoints that a guest may bring: small, random, and each odd in one way.

`make` writes one of them as a folder that `load_first_layer` opens; `ODD` names them all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from random_models import randomise
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn

from lnattn.text.corpora import read_documents
from lnattn_book.studies.samples import sample_file

VOCAB, CONTEXT, D_MODEL, HEADS, LAYERS = 600, 64, 32, 4, 2
END = "<|endoftext|>"


def tokenizer(folder: Path) -> None:
    """A byte-level tokenizer of 600 tokens, trained on the book's sample of text."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(read_documents([sample_file()]), trainer)
    fast = hf.PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=END, eos_token=END)
    fast.save_pretrained(folder)


def _gpt2(**changes: Any) -> nn.Module:
    sizes = {"n_embd": D_MODEL, "n_head": HEADS, "n_layer": LAYERS, "n_positions": CONTEXT}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=VOCAB, **{**sizes, **ends, **changes}))


def _without_biases(**changes: Any) -> nn.Module:
    """As nanoGPT trains by default: no bias anywhere, in LayerNorms neither."""
    model = randomise(_gpt2(**changes), seed=1, scale=0.2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    return model


def _extreme() -> nn.Module:
    """Finite and as far from a trained model as that allows: one head saturates, one is even."""
    model = randomise(_gpt2(), seed=1, scale=0.2)
    with torch.no_grad():
        joint = model.transformer.h[0].attn.c_attn.weight
        joint[:, : D_MODEL // HEADS] *= 1e3
        joint[:, D_MODEL // HEADS : 2 * D_MODEL // HEADS] = 0
    return model


def _opt() -> nn.Module:
    return hf.OPTForCausalLM(
        hf.OPTConfig(
            vocab_size=VOCAB,
            hidden_size=D_MODEL,
            word_embed_proj_dim=D_MODEL,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            ffn_dim=64,
            max_position_embeddings=CONTEXT,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def _gpt_neo() -> nn.Module:
    return hf.GPTNeoForCausalLM(
        hf.GPTNeoConfig(
            vocab_size=VOCAB,
            hidden_size=D_MODEL,
            num_heads=HEADS,
            num_layers=LAYERS,
            attention_types=[[["global", "local"], 1]],
            max_position_embeddings=CONTEXT,
            window_size=8,
            intermediate_size=64,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def _bert() -> nn.Module:
    return hf.BertForMaskedLM(
        hf.BertConfig(
            vocab_size=VOCAB,
            hidden_size=D_MODEL,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=64,
            max_position_embeddings=CONTEXT,
        )
    )


#: Name → the model, in noise unless it has drawn its own weights.
ODD: dict[str, Callable[[], nn.Module]] = {
    "no-biases": _without_biases,
    "one-head": lambda: _without_biases(n_layer=1, n_head=1),
    "context-40": lambda: randomise(_gpt2(n_positions=40), 2, 0.2),
    "opt": lambda: randomise(_opt(), 3, 0.2),
    "gpt-neo": lambda: randomise(_gpt_neo(), 4, 0.2),
    "bert": lambda: randomise(_bert(), 5, 0.2),
    "untied": lambda: randomise(_gpt2(tie_word_embeddings=False), 6, 0.2),
    "small-eps": lambda: randomise(_gpt2(layer_norm_epsilon=1e-12), 7, 0.2),
    "extreme": _extreme,
}


def make(name: str, folder: Path) -> Path:
    """Write the checkpoint and its tokenizer; the folder."""
    ODD[name]().save_pretrained(folder)
    tokenizer(folder)
    return folder
