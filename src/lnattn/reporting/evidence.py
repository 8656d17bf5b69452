"""What the parts of a report read: a first layer, texts in its tokens, and counts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lnattn.attention.folding import FoldedAttention, fold
from lnattn.attention.nulls import permuted_weights
from lnattn.errors import CorpusError
from lnattn.ids import whole_ids
from lnattn.position.sigma import InverseSigma, inverse_sigma_bands
from lnattn.reporting.shipped import (
    sample_file,
    sample_tokens,
    shipped_counts,
    token_names,
    tokenizer_of,
)
from lnattn.rotary.fold import FoldedRelative, MeanVectors, fold_relative, mean_vectors
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer
from lnattn.text.corpora import read_documents
from lnattn.text.counts import Counts
from lnattn.text.vocabulary import resized
from lnattn.weights import FirstLayer

#: The parts that read texts read so many of them, each cut to so many tokens.
WINDOWS, LONGEST = 8, 256
#: A text of fewer tokens says little of where a head looks.
SHORTEST = 16


@dataclass(frozen=True, eq=False)
class Evidence:
    """A first layer and what its report is made from.

    whole: the model's name or module, for what only the whole model can tell; None where there is
    none. corpus: own texts or counts: files, `Counts`, or lists of token ids; empty for what ships.
    """

    model: AnyFirstLayer
    whole: Any = None
    corpus: Sequence[Any] = ()
    seed: int = 0

    @property
    def is_relative(self) -> bool:
        """Whether positions are rotary or relative: four terms, by distance."""
        return isinstance(self.model, RelativeFirstLayer)

    @property
    def context(self) -> int | None:
        """The longest text that the model reads, or None where nothing says so."""
        if isinstance(self.model, RelativeFirstLayer):
            return self.model.context
        return self.model.embeddings.n_positions

    @cached_property
    def folded(self) -> FoldedAttention:
        """The block of a model with absolute positions, folded."""
        assert isinstance(self.model, FirstLayer)
        return fold(self.model.attention)

    @cached_property
    def folded_relative(self) -> FoldedRelative:
        """The block of a model with rotary or relative positions, folded."""
        assert isinstance(self.model, RelativeFirstLayer)
        return fold_relative(self.model.attention)

    @cached_property
    def means(self) -> MeanVectors:
        """The mean query and key, weighted by the counts where they fit."""
        assert isinstance(self.model, RelativeFirstLayer)
        weights = None if self.counts is None else torch.from_numpy(self.counts[0].unigrams)
        return mean_vectors(self.folded_relative, self.model.embeddings, weights)

    @cached_property
    def inverse_sigma(self) -> InverseSigma:
        """1/σ of all tokens at every position; `TokenError` without token embeddings."""
        assert isinstance(self.model, FirstLayer)
        return inverse_sigma_bands(self.model.embeddings, self.folded.eps)

    def with_random_heads(self) -> Evidence:
        """The same for the model with its heads' weights in random order: it has learnt nothing.

        Its embeddings, and the norm that the heads read them through, stay as they are.
        """
        random = permuted_weights(self.model, self.seed, heads_only=True)
        counts = () if self.counts is None else (self.counts[0],)
        return Evidence(random, corpus=counts, seed=self.seed)

    # ---- texts ---------------------------------------------------------------------------------
    @cached_property
    def _given_corpus(self) -> tuple[list[list[int]], list[Counts]]:
        """Texts in token ids, and counts, of what the user gave."""
        texts: list[list[int]] = []
        counts: list[Counts] = []
        files: list[Path] = []
        for given in self.corpus:
            if isinstance(given, Counts):
                counts.append(given)
            elif isinstance(given, str | Path) and Path(given).suffix == ".npz":
                counts.append(Counts.load(given))
            elif isinstance(given, str | Path):
                files.append(Path(given))
            else:
                texts.append(whole_ids(given, self.model.embeddings.vocab_size).tolist())
        if files:
            tokenizer = tokenizer_of(self.model)
            for text in read_documents(files):
                ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
                texts.append(list(ids))
        return texts, counts

    @cached_property
    def texts(self) -> tuple[list[list[int]], str]:
        """Texts as token ids, and in words what they are: the user's, or the shipped sample.

        Raises `CorpusError` where there are neither.
        """
        texts, _ = self._given_corpus
        if texts:
            return texts, _in_words(texts)
        if not sample_file().is_file():
            raise CorpusError(
                "no text ships with this edition of the package; give some with --corpus FILE."
            )
        return sample_tokens(self.model), "openings of Wikipedia articles"

    @cached_property
    def windows(self) -> list[list[int]]:
        """The beginnings of some texts; `CorpusError` where all are short."""
        if isinstance(self.model, FirstLayer):
            self.model.embeddings.tokens()  # says what is missing
        texts, words = self.texts
        longest = min(LONGEST, self.context or LONGEST)
        enough = [ids[:longest] for ids in texts if len(ids) >= min(SHORTEST, longest)]
        if not enough:
            raise CorpusError(f"{words} have fewer than {SHORTEST} tokens each; give longer ones.")
        return sorted(enough, key=len, reverse=True)[:WINDOWS]

    # ---- counts --------------------------------------------------------------------------------
    @cached_property
    def counts(self) -> tuple[Counts, str] | None:
        """Counts of this model's tokens, and in words of what; None where none fit.

        Raises `CorpusError` for counts that were given and are of another vocabulary.
        """
        texts, given = self._given_corpus
        rows = self.model.embeddings.vocab_size
        if not rows:
            return None
        for counts in given:
            fitting = resized(counts, rows)
            if fitting is None:
                raise CorpusError(
                    f"the counts given are over {counts.vocab_size:,} tokens and the model has "
                    f"{rows:,}; count the corpus with the model's own tokenizer."
                )
            return fitting, "the counts given"
        if texts:
            documents = [np.asarray(ids) for ids in texts if ids]
            return Counts.from_documents(documents, rows), _in_words(texts)
        if self.model.tokenizer is None:
            return None
        return shipped_counts(self.model)

    def counted(self) -> tuple[Counts, str]:
        """As `counts`; `CorpusError`, with the command that mends it, where there are none."""
        if self.counts is None:
            raise CorpusError(
                "no counts of this vocabulary ship with the package; count a text of yours with "
                "lnattn count TEXT --tokenizer MODEL --out counts.npz and give --corpus counts.npz."
            )
        return self.counts

    @cached_property
    def token_names(self) -> list[str]:
        """The text of every token."""
        if self.model.tokenizer is None:
            return [str(i) for i in range(self.model.embeddings.vocab_size)]
        return token_names(self.model)


def _in_words(texts: list[list[int]]) -> str:
    return "the text given" if len(texts) == 1 else f"the {len(texts):,} texts given"
