"""Words that no query can select: sentences and classifiers of sentiment, frozen (B11).

Brody et al. 2023, App. D, Tables 3 and 4. `experiments/unselectable_lm` and `experiments/sentiment`
made what is read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from lnattn.errors import ResultError
from lnattn.storage import Result, read_result

#: How the sentences of the paper's Table 3 begin in the treebank, and their words in bold there.
TABLE_3 = {
    "whether you like rap music": ("talent", "power"),
    "it is great summer fun": ("fun",),
    "the lion king was a roaring": ("success",),
    "it provides the grand": ("entertainment",),
    "some of their jokes work": ("far", "offensive"),
}
WORDS = "words"


@dataclass(frozen=True)
class MarkedSentence:
    """One sentence with its unselectable words.

    words: separated by spaces; exact, searched: whether some token of the word is unselectable in
    some layer, by the geometry and by the papers' search; bold: the paper's own marks.
    """

    words: tuple[str, ...]
    exact: tuple[bool, ...]
    searched: tuple[bool, ...]
    bold: tuple[bool, ...]

    @property
    def markdown(self) -> str:
        """The sentence, with the words bold that are unselectable by the geometry."""
        shown = zip(self.words, self.exact, strict=True)
        return " ".join(f"**{word}**" if marked else word for word, marked in shown)


def frozen_words(folder: Path | str) -> tuple[dict[str, np.ndarray], list[MarkedSentence], dict]:
    """The shares, the marked sentences and the record that `freeze_words` wrote."""
    arrays, record = read_result(folder, WORDS)
    marked = [
        MarkedSentence(**{key: tuple(value) for key, value in example.items()})
        for example in record["examples"]
    ]
    return arrays, marked, record


@dataclass(frozen=True)
class Sentiment(Result):
    """What the classifiers say, and which words they cannot look up.

    Axes: arms in the order of `record["arms"]`, seeds of `record["seeds"]`; `word`: every word of
    every validation sentence, end to end. right: the label is the one named. unselectable: in some
    layer; by_layer: shares of all words. held_back: share of right answers on training sentences
    that were held back, of each arm as its search chose it. sentence, type: of each word; an
    unknown one is of type −1. count, positive: in how many training sentences a type occurs, and in
    how many positive ones.
    """

    NAME: ClassVar[str] = "sentiment"

    right: Bool[np.ndarray, "arm seed sentence"]
    unselectable: Bool[np.ndarray, "arm seed word"]
    by_layer: Float[np.ndarray, "arm seed layer"]
    held_back: Float[np.ndarray, "arm"]
    sentence: Int[np.ndarray, "word"]
    type: Int[np.ndarray, "word"]
    count: Int[np.ndarray, "type"]
    positive: Int[np.ndarray, "type"]
    record: Mapping[str, Any]

    def of(self, arm: str) -> int:
        """The place of an arm on the first axis."""
        if arm not in self.record["arms"]:
            raise ResultError(f"arm {arm!r} is not one of: {', '.join(self.record['arms'])}.")
        return self.record["arms"].index(arm)

    @property
    def majority(self) -> float:
        """The share of right answers of whoever always names the more frequent label."""
        share = self.record["positive_share"]
        return max(share, 1 - share)

    def marked(self, arm: str, seed: int = 0) -> list[MarkedSentence]:
        """The sentences of the paper's Table 4, as one model of an arm marks them."""
        sentences = []
        for example in self.record["examples"]:
            marks = self.unselectable[self.of(arm), seed, self.sentence == example["sentence"]]
            words = example["words"]
            bold = example["bold"]
            shown = (tuple(map(bool, marks)), (), tuple(word in bold for word in words))
            sentences.append(MarkedSentence(tuple(words), *shown))
        return sentences

    def weight(self) -> Float[np.ndarray, "type"]:
        """By how many standard errors a type's share of positive sentences is off that of all."""
        share = self.record["positive_share_of_training"]
        error = np.sqrt(self.count * share * (1 - share))
        return (self.positive - self.count * share) / np.maximum(error, 1e-12)
