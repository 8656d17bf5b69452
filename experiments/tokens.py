"""Byte-level BPE tokenizers for trainings: training one, and a corpus as one stream of ids."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from lnattn.errors import CorpusError

#: Ends every document, as in GPT-2.
END_OF_TEXT = "<|endoftext|>"
_BATCH = 1000


def train_bpe(documents: Iterable[str], vocab_size: int = 8192) -> PreTrainedTokenizerFast:
    """Train a GPT-2-style byte-level BPE: 256 bytes, merges, and `<|endoftext|>` as the last id.

    Any string can be encoded, since every byte is a token. `vocab_size` is exact when the corpus
    is large enough to fill it, otherwise `CorpusError`.
    """
    if vocab_size < 257:
        raise CorpusError(
            f"vocab_size = {vocab_size} is too small: 256 bytes and {END_OF_TEXT} need 257."
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    tokenizer.add_special_tokens([END_OF_TEXT])
    if tokenizer.get_vocab_size() != vocab_size:
        raise CorpusError(
            f"the corpus yields only {tokenizer.get_vocab_size()} tokens, not {vocab_size}; "
            "give more text or ask for a smaller vocabulary."
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        unk_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
    )


def encode_stream(documents: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    """All documents as one int32 array of token ids, each followed by `<|endoftext|>`."""
    end = tokenizer.eos_token_id
    documents = iter(documents)
    parts: list[np.ndarray] = []
    while batch := list(islice(documents, _BATCH)):
        for ids in tokenizer(batch, add_special_tokens=False, verbose=False)["input_ids"]:
            parts.append(np.asarray([*ids, end], dtype=np.int32))
    if not parts:
        raise CorpusError("no document was given to encode.")
    return np.concatenate(parts)
