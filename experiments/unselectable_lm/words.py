"""Which words of a sentence no query can select (B11; Brody et al. 2023, App. D, Table 3)."""

from __future__ import annotations

import copy
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool
from transformers import GPT2LMHeadModel

from experiments.unselectable_lm.small_models import keys_of_layers, load_arm
from lnattn.errors import CorpusError
from lnattn.selectability.decide import selectability
from lnattn.storage import provenance, sha256_of_file, write_result
from lnattn.text.tokenizers import load_tokenizer
from lnattn_book.studies.papers_search import bounded_search
from lnattn_book.studies.unselectable_words import TABLE_3, WORDS, MarkedSentence


def unselectable_tokens(
    model: GPT2LMHeadModel, token_ids: Sequence[int], searched: bool = False
) -> Bool[np.ndarray, "layer n"]:
    """Which tokens are unselectable keys of which layer; `searched`: by the papers' search."""
    if searched:
        keys = keys_of_layers(model, token_ids)["keys"]
        return np.stack([~bounded_search(layer).selectable for layer in keys])
    keys = keys_of_layers(copy.deepcopy(model).double(), token_ids)["keys"]
    return np.stack([~selectability(layer).selectable for layer in keys])


def treebank_rows(path: Path | str, *columns: str) -> list[dict[str, str]]:
    """The rows of a tab-separated file; `CorpusError` where it lacks one of these columns."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        missing = [column for column in columns if column not in (rows.fieldnames or ())]
        if missing:
            raise CorpusError(f"{path} has no column {missing[0]!r}; give the treebank's TSV.")
        return list(rows)


def treebank_sentences(path: Path | str) -> list[str]:
    """The column `sentence` of a tab-separated file; `CorpusError` where there is none."""
    return [row["sentence"].strip() for row in treebank_rows(path, "sentence")]


def freeze_words(
    arm: Path | str, sentences: Path | str, tokenizer: Path | str, out: Path | str
) -> Path:
    """Decide all tokens of all sentences, mark the words of the paper's five, and freeze both.

    Raises `CorpusError` if a sentence of the paper's Table 3 is not in the file.
    """
    model, record = load_arm(arm, tokenizer)
    bpe = load_tokenizer(tokenizer)
    texts = treebank_sentences(sentences)
    layers = model.config.n_layer
    lost = np.zeros(layers)
    tokens = 0
    anywhere = 0
    for text in texts:
        marks = unselectable_tokens(model, bpe(text, add_special_tokens=False)["input_ids"])
        lost += marks.sum(axis=1)
        anywhere += int(marks.any(axis=0).sum())
        tokens += marks.shape[1]
    examples = [
        _marked(model, bpe, _starting(texts, start), bold) for start, bold in TABLE_3.items()
    ]
    return write_result(
        out,
        WORDS,
        {"share_by_layer": lost / tokens, "share_in_any_layer": np.array(anywhere / tokens)},
        provenance(
            arm=record["arm"],
            plan=record["plan"],
            weights_sha256=record["weights_sha256"],
            sentences=Path(sentences).name,
            sentences_sha256=sha256_of_file(sentences),
            count=len(texts),
            tokens=tokens,
            examples=[vars(example) for example in examples],
        ),
    )


def _starting(texts: Sequence[str], start: str) -> str:
    for text in texts:
        if text.startswith(start):
            return text
    raise CorpusError(f"no sentence starts with {start!r}; give the treebank's validation split.")


def _marked(model: GPT2LMHeadModel, bpe: Any, text: str, bold: Sequence[str]) -> MarkedSentence:
    words = text.split()
    # As the language model reads it: every word but the first brings its space along.
    pieces = [
        bpe(word if i == 0 else f" {word}", add_special_tokens=False)["input_ids"]
        for i, word in enumerate(words)
    ]
    owner = np.repeat(np.arange(len(words)), [len(piece) for piece in pieces])
    ids = [token for piece in pieces for token in piece]

    def marked(searched: bool) -> tuple[bool, ...]:
        lost = np.any(unselectable_tokens(model, ids, searched), axis=0)
        return tuple(bool(lost[owner == i].any()) for i in range(len(words)))

    exact = marked(searched=False)
    searched = marked(searched=True)
    return MarkedSentence(tuple(words), exact, searched, tuple(word in bold for word in words))
