"""Text and counts that ship with the package or its repository, in a model's own tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lnattn.errors import TokenError
from lnattn.models.checkpoints import BOOK_MODELS
from lnattn.paths import data_folder
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.text.counts import Counts
from lnattn.text.vocabulary import counts_by_vocabulary


def sample_file() -> Path:
    """The sample of Wikipedia text in data/text, held out from the embedded model's training."""
    return data_folder() / "text" / "sample.jsonl"


def sample_texts() -> list[str]:
    """The sample's documents. Read by ourselves: a library of corpora would need a cache."""
    lines = sample_file().read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines if line]


def tokenizer_of(model: AnyFirstLayer) -> Any:
    """The model's tokenizer; `TokenError` where it has none."""
    if model.tokenizer is None:
        raise TokenError(
            f"{model.name} has no tokenizer beside its weights, so no text can be read; add one."
        )
    return model.tokenizer


def sample_tokens(model: AnyFirstLayer) -> list[list[int]]:
    """The sample's documents in full, as token ids of this model, without special tokens."""
    tokenizer = tokenizer_of(model)
    return [
        tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        for text in sample_texts()
    ]


def shipped_counts(model: AnyFirstLayer) -> tuple[Counts, str] | None:
    """The counts that ship in this model's tokens, and in words where they are from; or None.

    They are found by the tokens that they count, whatever the model is called: of an embedded
    model's training text, or of Wikipedia articles and books.
    """
    of_book_models = [data_folder() / name / "counts.json" for name in BOOK_MODELS]
    of_others = sorted((data_folder() / "counts").glob("*.json"))
    rows = model.embeddings.vocab_size
    match = counts_by_vocabulary(tokenizer_of(model), rows, [*of_book_models, *of_others])
    if match is None:
        return None
    counts, path = match
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
