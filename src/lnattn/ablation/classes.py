"""Which tokens of a text finish what another token began: second pieces, second words of names.

Both are found by spelling alone, with no list of words and no model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int


@dataclass(frozen=True, eq=False)
class Spelling:
    """What a vocabulary's spelling tells of each token. All bool [vocab].

    continuation: letters that continue a word; word: letters that begin one; capital: whether
    letters begin with a capital.
    """

    continuation: Bool[np.ndarray, "vocab"]
    word: Bool[np.ndarray, "vocab"]
    capital: Bool[np.ndarray, "vocab"]

    @property
    def letters(self) -> Bool[np.ndarray, "vocab"]:
        return self.continuation | self.word


def second_pieces(spelling: Spelling, ids: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """A token that continues a word, right after the token that begins it."""
    found = np.zeros(len(ids), dtype=bool)
    found[1:] = spelling.word[ids[:-1]] & spelling.continuation[ids[1:]]
    return found


def second_words_of_names(spelling: Spelling, ids: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """The second of two capitalised words, each one token, after letters without a capital.

    That leaves out beginnings of sentences; what follows must not continue the second word.
    """
    whole = spelling.word & spelling.capital
    found = np.zeros(len(ids), dtype=bool)
    before, first, second = ids[:-3], ids[1:-2], ids[2:-1]
    found[2:-1] = (spelling.letters & ~spelling.capital)[before] & whole[first] & whole[second]
    found[:-1] &= ~spelling.continuation[ids[1:]]
    return found
