"""Which counts fit a tokenizer: found by what its tokens are, not by what a model is called.

A fine-tune of GPT-2 has GPT-2's tokens, and so has Whisper's English decoder; both add tokens of
their own behind them, which no text of ours contains.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scipy import sparse

from lnattn.errors import CorpusError, ResultError
from lnattn.json_files import read_json
from lnattn.text.counts import Counts


def vocabulary_sha256(tokenizer: Any) -> str:
    """SHA-256 over the tokens that texts are split into and their ids, added tokens left out.

    tokenizer: a `tokenizers.Tokenizer`, or a fast tokenizer of transformers. Raises `CorpusError`
    for anything else.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "get_added_tokens_decoder"):
        raise CorpusError(f"{type(tokenizer).__name__} is no fast tokenizer, so it has no hash.")
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    digest = hashlib.sha256()
    vocabulary = backend.get_vocab(with_added_tokens=False)
    for token, index in sorted(vocabulary.items(), key=lambda item: item[1]):
        if token not in added:
            digest.update(f"{index} {token}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def counts_by_vocabulary(
    tokenizer: Any, rows: int, records: Iterable[Path]
) -> tuple[Counts, Path] | None:
    """The first counts of this tokenizer's tokens, and their file; None where none fits.

    records: the .json files beside counts, in order of preference; what cannot be read, or says
    nothing of its vocabulary, is passed over. rows: how many embeddings the model has.
    """
    wanted = vocabulary_sha256(tokenizer)
    for record in records:
        try:
            made_with = read_json(record).get("tokenizer")
        except ResultError:
            continue
        if isinstance(made_with, dict) and made_with.get("vocabulary_sha256") == wanted:
            counts = resized(Counts.load(record.with_suffix(".npz")), rows)
            if counts is not None:
                return counts, record.with_suffix(".npz")
    return None


def resized(counts: Counts, rows: int) -> Counts | None:
    """The same counts for a vocabulary of `rows` ids; None where one that is counted lies beyond.

    A model may have more embeddings than its tokenizer has tokens, filled up to a round number.
    """
    if counts.vocab_size == rows:
        return counts
    common_ids = min(counts.vocab_size, rows)
    if counts.unigrams[common_ids:].any():
        return None
    unigrams = counts.unigrams[:common_ids].copy()
    unigrams.resize(rows)
    bigrams = counts.bigrams[:common_ids, :common_ids].copy()
    bigrams.resize((rows, rows))
    return Counts(unigrams, sparse.csr_array(bigrams), counts.record)
