"""Text and counts that ship with the book, for the chapters that need real text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from lnattn.errors import TokenError
from lnattn.position.measured import windows
from lnattn.reporting.shipped import sample_file as sample_file
from lnattn.reporting.shipped import sample_tokens as sample_tokens
from lnattn.reporting.shipped import shipped_counts
from lnattn.reporting.shipped import token_names as token_names
from lnattn.reporting.shipped import tokenizer_of as tokenizer_of
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.text.corpora import read_documents
from lnattn.text.counts import Counts
from lnattn.text.tokenizers import encode_documents
from lnattn.weights import FirstLayer

#: Fewer windows than these are too few for a mean.
FEWEST_WINDOWS = 10


def sample_windows(
    model: AnyFirstLayer, length: int, first: int | None = None
) -> tuple[Int[np.ndarray, "window token"], str]:
    """Windows of the sample, and in words what they are.

    length, first: as for `windows`, which cuts each document by itself. Where the documents are too
    short for a few such windows, they are joined, with the tokenizer's end-of-text token between.
    """
    documents = sample_tokens(model)
    body = length - (first is not None)
    if _are_long(documents, body):
        return windows(documents, length, first), "each a part of one article"
    end = model.tokenizer.eos_token_id
    between = [] if end is None else [end]
    joined = [token for ids in documents for token in (*ids, *between)]
    return windows([joined], length, first), (
        f"cut from the articles one after another, because too few have {body:,} tokens"
        + (", with an end-of-text token after each" if between else "")
    )


def sample_articles(model: AnyFirstLayer, length: int) -> Int[np.ndarray, "window"] | None:
    """Which article each of `sample_windows` is a part of; None where articles were joined."""
    documents = sample_tokens(model)
    if not _are_long(documents, length):
        return None
    return np.repeat(np.arange(len(documents)), [len(ids) // length for ids in documents])


def _are_long(documents: Sequence[Sequence[int]], body: int) -> bool:
    """Whether documents have enough windows of so many tokens."""
    return sum(len(ids) // body for ids in documents) >= FEWEST_WINDOWS


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

    Those that ship are found by the tokens that they count (`shipped_counts`). For any other model
    the small sample is counted here, and the words say so.
    """
    shipped = shipped_counts(model)
    if shipped is not None:
        return shipped
    documents = [np.asarray(ids) for ids in sample_tokens(model)]
    counts = Counts.from_documents(documents, model.embeddings.vocab_size)
    return counts, f"only the {len(documents)} sample documents: no larger counts fit this model"
