"""Checkpoints that a guest may bring: small, random, and each odd in one way.

`make` writes one of them as a folder that `load_first_layer` opens; `ODD` names them all: every
family with learned positions, by its case, and what is odd in a GPT-2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import families
import torch
import transformers as hf
from families import LEARNED_EACH
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn

from conformance.cases import CASES, HEADS, settings_of
from lnattn.text.corpora import read_documents
from lnattn_book.studies.samples import sample_file

VOCAB, CONTEXT = 600, 64
END = "<|endoftext|>"
#: What families call the number of positions that they have learned.
_LENGTHS = ("n_positions", "max_position_embeddings", "max_target_positions")


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


def reading(kind: str, **changes: Any) -> nn.Module:
    """A model of a kind that reads texts of 64 of the tokenizer's tokens."""
    own = settings_of(CASES[kind])
    longer = {
        name: own[name] + CONTEXT - families.CONTEXT  # RoBERTa has rows beside those
        for name in _LENGTHS
        if name in own
    }
    return families.make(kind, torch.float32, **{"vocab_size": VOCAB, **longer, **changes})


def _without_biases(**changes: Any) -> nn.Module:
    """As nanoGPT trains by default: no bias anywhere, in LayerNorms neither."""
    model = reading("gpt2", **changes)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    return model


def _extreme() -> nn.Module:
    """Finite and as far from a trained model as that allows: one head saturates, one is even."""
    model = reading("gpt2")
    with torch.no_grad():
        joint = model.transformer.h[0].attn.c_attn.weight
        of_one_head = model.config.n_embd // HEADS
        joint[:, :of_one_head] *= 1e3
        joint[:, of_one_head : 2 * of_one_head] = 0
    return model


#: Name → the model.
ODD: dict[str, Callable[[], nn.Module]] = {
    **{kind: partial(reading, kind) for kind in LEARNED_EACH},
    "untied": partial(reading, "gpt2-untied"),
    "no-biases": _without_biases,
    "one-head": partial(_without_biases, num_hidden_layers=1, n_head=1),
    "context-40": partial(reading, "gpt2", n_positions=40),
    "small-eps": partial(reading, "gpt2", layer_norm_epsilon=1e-12),
    "extreme": _extreme,
}


def make(name: str, folder: Path) -> Path:
    """Write the checkpoint and its tokenizer; the folder."""
    ODD[name]().save_pretrained(folder)
    tokenizer(folder)
    return folder
