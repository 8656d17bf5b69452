"""Text and counts that ship with the book, for the chapters that need real text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from lnattn.errors import TokenError
from lnattn.models.checkpoints import BOOK_MODELS
from lnattn.paths import data_folder
from lnattn.position.measured import windows
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.text.corpora import read_documents
from lnattn.text.counts import Counts
from lnattn.text.tokenizers import encode_documents
from lnattn.text.vocabulary import counts_by_vocabulary
from lnattn.weights import FirstLayer

#: Fewer windows than these are too few for a mean.
FEWEST_WINDOWS = 10


def sample_file() -> Path:
    """The sample of Wikipedia text in data/text, held out from the embedded model's training."""
    return data_folder() / "text" / "sample.jsonl"


def sample_tokens(model: AnyFirstLayer) -> list[list[int]]:
    """The sample's documents in full, as token ids of this model, without special tokens."""
    tokenizer = tokenizer_of(model)
    return [
        tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        for text in read_documents([sample_file()])
    ]


def sample_windows(
    model: AnyFirstLayer, length: int, first: int | None = None
) -> tuple[Int[np.ndarray, "window token"], str]:
    """Windows of the sample, and in words what they are.

    length, first: as for `windows`, which cuts each document by itself. Where the documents are too
    short for a few such windows, they are joined, with the tokenizer's end-of-text token between.
    """
    documents = sample_tokens(model)
    body = length - (first is not None)
    if sum(len(ids) // body for ids in documents) >= FEWEST_WINDOWS:
        return windows(documents, length, first), "each a part of one article"
    end = model.tokenizer.eos_token_id
    between = [] if end is None else [end]
    joined = [token for ids in documents for token in (*ids, *between)]
    return windows([joined], length, first), (
        f"cut from the articles one after another, because too few have {body:,} tokens"
        + (", with an end-of-text token after each" if between else "")
    )


def sample_framed(model: FirstLayer) -> list[list[int]]:
    """The sample's documents as the model expects to read them, cut to its context."""
    texts = read_documents([sample_file()])
    context = model.embeddings.n_positions
    return list(encode_documents(texts, tokenizer_of(model), context))


def sentence_ids(model: FirstLayer, text: str) -> Int[Tensor, "token"]:
    """A sentence as the model's own tokenizer frames it, cut to its context.

    Raises `TokenError` for a model without a tokenizer, and for a text without tokens.
    """
    ids = tokenizer_of(model)(text)["input_ids"][: model.embeddings.n_positions]
    if not len(ids):
        raise TokenError(f"{text!r} has no tokens in {model.name}; give a sentence.")
    return torch.tensor(ids)


def token_counts(model: AnyFirstLayer) -> tuple[Counts, str]:
    """Counts of this model's tokens, and in words where they are from.

    Those that ship with the book are found by the tokens that they count, whatever the model is
    called: of an embedded model's training text, or of Wikipedia articles and books. For any other
    model the small sample is counted here, and the words say so.
    """
    rows = model.embeddings.vocab_size
    own = [data_folder() / name / "counts.json" for name in BOOK_MODELS]
    of_others = sorted((data_folder() / "counts").glob("*.json"))
    found = counts_by_vocabulary(tokenizer_of(model), rows, [*own, *of_others])
    if found is None:
        documents = [np.asarray(ids) for ids in sample_tokens(model)]
        counts = Counts.from_documents(documents, rows)
        words = f"only the {len(documents)} sample documents: no larger counts fit this model"
        return counts, words
    counts, path = found
    if path.parent.name not in BOOK_MODELS:
        return counts, "Wikipedia articles, books and web pages, in this model's tokens"
    if model.name in BOOK_MODELS:
        return counts, "its own training text"
    return counts, f"the text that {path.parent.name} was trained on, in this model's tokens"


def token_names(model: AnyFirstLayer) -> list[str]:
    """The text of every token for figures and tables: ␣ is a space, ⏎ a line break.

    WordPiece keeps its '##'. An id that the tokenizer does not know is named by its number.
    """
    tokenizer = tokenizer_of(model)
    pieces = tokenizer.convert_ids_to_tokens(range(model.embeddings.vocab_size))
    if "##s" in tokenizer.get_vocab():
        return [piece or str(i) for i, piece in enumerate(pieces)]
    return [
        str(i)
        if piece is None
        else tokenizer.convert_tokens_to_string([piece]).replace(" ", "␣").replace("\n", "⏎")
        for i, piece in enumerate(pieces)
    ]


def tokenizer_of(model: AnyFirstLayer) -> Any:
    """The model's tokenizer; `TokenError` where it has none."""
    if model.tokenizer is None:
        raise TokenError(
            f"{model.name} has no tokenizer beside its weights, so no text can be read; add one."
        )
    return model.tokenizer
