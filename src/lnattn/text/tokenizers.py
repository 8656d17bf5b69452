"""Tokenizers: loading one, and turning documents into token ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from lnattn.errors import CorpusError
from lnattn.models.tokenizer_files import load_tokenizer as load_tokenizer
from lnattn.models.tokenizer_files import tokenizer_errors, without_chance
from lnattn.progress import say

_BATCH = 1000
#: Characters of a document that is warned of: a tokenizer holds some 130 bytes for each.
LONG = 10_000_000


def plain_tokenizer(tokenizer: Any) -> str:
    """The JSON of a tokenizer without truncation and padding, which would change counts.

    tokenizer: a fast one of transformers, or one of `tokenizers`. Raises `CorpusError` for another.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise CorpusError(
            f"{type(tokenizer).__name__} is no fast tokenizer; convert it to a tokenizer.json."
        )
    with tokenizer_errors("this tokenizer cannot be written and read again"):
        fixed = without_chance(backend, "this tokenizer")
        plain = Tokenizer.from_str(fixed.to_str())
    plain.no_truncation()
    plain.no_padding()
    return plain.to_str()


def vocabulary_size(tokenizer_json: str) -> int:
    """The highest token id plus one, added tokens included."""
    return max(Tokenizer.from_str(tokenizer_json).get_vocab().values()) + 1


def split_at_special_tokens(tokenizer: Tokenizer, documents: Iterable[str]) -> Iterator[str]:
    """The documents, cut where the text of a special token stands in them.

    A corpus writes `<|endoftext|>` between texts, and no pair of tokens spans two of those; as text
    of a document it would become the token itself, with a pair on either side. Blank pieces are
    left out.
    """
    added = tokenizer.get_added_tokens_decoder().values()
    special = sorted((token.content for token in added if token.special), key=len, reverse=True)
    if not special:
        yield from documents
        return
    pattern = re.compile("|".join(map(re.escape, special)))
    for document in documents:
        if pattern.search(document) is None:
            yield document
        else:
            yield from (piece for piece in pattern.split(document) if piece.strip())


def encoded(tokenizer: Tokenizer, documents: Iterable[str]) -> Iterator[np.ndarray]:
    """The token ids of each document (int32), tokenised a million characters at a time."""
    batch: list[str] = []
    size = 0
    for document in chain(documents, [None]):
        if document is None or size >= 1 << 20 or len(batch) == _BATCH:
            with tokenizer_errors("this tokenizer cannot encode a text"):
                encodings = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            for encoding in encodings:
                yield np.array(encoding.ids, dtype=np.int32)
            batch = []
            size = 0
        if document is not None:
            batch.append(document)
            size += len(document)
            if len(document) > LONG:
                say(
                    f"a document of {len(document) / 1e6:.0f} million characters is tokenised "
                    f"whole, which takes some {len(document) * 0.13e-6:,.0f} MB; if it is several "
                    "texts, split it."
                )


def encode_documents(documents: Iterable[str], tokenizer: Any, context: int) -> Iterator[list[int]]:
    """Token ids of each document, cut to `context`, as the model expects to read them.

    tokenizer: a fast one of transformers (`PreTrainedTokenizerFast`).
    Where a tokenizer does not frame texts by itself, its beginning-of-text token is put first.
    Empty documents are left out.
    """
    for text in documents:
        with tokenizer_errors("this tokenizer cannot encode a text"):
            encoding = tokenizer(text, truncation=True, max_length=context, verbose=False)
        ids = list(encoding["input_ids"])
        first = tokenizer.bos_token_id
        if first is not None and ids[:1] != [first]:
            ids = [first, *ids][:context]
        if ids:
            yield ids
