"""Guarantees of a first layer over all texts, and what the rules G1 to G4 say of them.

`experiments/guarantees` asks a model, and its README has the rules in words; they are older than
the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from lnattn.storage import Result

#: Tokens of a text, and the nearest places that G3 asks of.
LENGTH, NEAR = 64, 10
#: What other places may hold: any token; or those that are seen in text, special ones apart.
VOCABULARIES = ("all", "written")
#: The kinds of queries.
KINDS = ("piece", "word")
#: A share of the tokens from which a rule says *most*, and from which *some*.
MOST, SOME = 0.5, 0.1
#: By how much a share must exceed that of a null.
BEYOND = 0.1


@dataclass(frozen=True, eq=False)
class Guaranteed(Result):
    """Least and greatest attention over all texts of `LENGTH` tokens, of one model.

    queries, keys: tokens and their main predecessors; least, greatest: of the query to that
    predecessor, one place before; wrong: least of pieces with each other's predecessors; near:
    least of the nearest `NEAR` places together. null_*: of all texts, heads in random order. never:
    keys that no query of the vocabulary gives more than half at any place of any text, and keys
    that no query puts first at any place: shares; null_never: of heads in random order; empty where
    that was not asked.
    """

    NAME: ClassVar[str] = "guarantees"

    queries: Int[np.ndarray, "kind token"]
    keys: Int[np.ndarray, "kind token"]
    least: Float[np.ndarray, "vocabulary kind head token"]
    greatest: Float[np.ndarray, "vocabulary kind head token"]
    wrong: Float[np.ndarray, "vocabulary head token"]
    near: Float[np.ndarray, "vocabulary kind head token"]
    null_least: Float[np.ndarray, "draw kind head null_token"]
    null_greatest: Float[np.ndarray, "draw kind head null_token"]
    null_near: Float[np.ndarray, "draw kind head null_token"]
    never: Float[np.ndarray, "what asked_head"]
    null_never: Float[np.ndarray, "null what asked_head"]
    record: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a rule says: the words, the share or number it was decided on, and those of its nulls.

    head: the head that was asked, where one was chosen.
    """

    says: str
    share: float
    nulls: Mapping[str, float]
    head: int | None = None


def joining(study: Guaranteed, vocabulary: int = 0) -> Outcome:
    """G1: pieces that give their main predecessor half or more in every text, in the best head."""
    shares = (study.least[vocabulary, 0] >= 0.5).mean(axis=-1)
    head = int(shares.argmax())
    wrong = float((study.wrong[vocabulary, head] >= 0.5).mean())
    nulls = {
        "whole words": float((study.least[vocabulary, 1, head] >= 0.5).mean()),
        "wrong predecessors": wrong,
        "heads in random order": _high((study.null_least[:, 0] >= 0.5).mean(axis=-1).max(axis=-1)),
    }
    share = float(shares[head])
    if share < SOME:
        says = "no head joins"
    elif share - wrong < BEYOND:
        says = "looks back at whatever stands there"
    elif share - max(nulls.values()) < BEYOND:
        says = "no more than its nulls"
    else:
        says = "joins most" if share >= MOST else "joins some"
    return Outcome(says, share, nulls, head)


def apart(study: Guaranteed, vocabulary: int = 0) -> Outcome:
    """G2: pairs of a piece and a word whose intervals do not meet, the piece's above; best head."""
    shares = _pairs_apart(study.least[vocabulary, 0], study.greatest[vocabulary, 1])
    head = int(shares.argmax())
    generator = np.random.default_rng(0)
    dealt = []
    for _ in range(len(study.null_least)):
        least = _both(study.least[vocabulary])
        greatest = _both(study.greatest[vocabulary])
        order = generator.permutation(least.shape[-1])
        pieces, words = np.split(order, 2)
        dealt.append(_pairs_apart(least[:, pieces], greatest[:, words]).max())
    random_order = [
        _pairs_apart(least, greatest).max()
        for least, greatest in zip(study.null_least[:, 0], study.null_greatest[:, 1], strict=True)
    ]
    nulls = {"kinds dealt anew": _high(dealt), "heads in random order": _high(random_order)}
    share = float(shares[head])
    if share < SOME:
        says = "intervals meet"
    elif share - max(nulls.values()) < BEYOND:
        says = "no more than its nulls"
    else:
        says = "most pairs apart" if share >= MOST else "some pairs apart"
    return Outcome(says, share, nulls, head)


def near(study: Guaranteed, vocabulary: int = 0) -> Outcome:
    """G3: heads whose nearest ten places get half or more in every text, whatever the query."""
    always = (_both(study.near[vocabulary]) >= 0.5).all(axis=-1)
    by_chance = (_both(study.null_near) >= 0.5).all(axis=-1).sum(axis=-1)
    share = int(always.sum())
    nulls = {"heads in random order": _high(by_chance)}
    if not share:
        says = "no head looks near in every text"
    elif share <= nulls["heads in random order"]:
        says = "no more heads than by chance"
    else:
        says = "heads look near in every text"
    return Outcome(says, share, nulls)


def never(study: Guaranteed, what: int = 0) -> Outcome | None:
    """G4: the share of keys that never get more than half (1: never come first), mean over heads.

    None where it was not asked.
    """
    if not len(study.null_never):
        return None
    share = float(study.never[what].mean())
    by_chance = study.null_never[:, what].mean(axis=-1)
    nulls = {"least": float(by_chance.min()), "most": float(by_chance.max())}
    says = "as many as by chance"
    if share > nulls["most"]:
        says = "more than by chance"
    elif share < nulls["least"]:
        says = "fewer than by chance"
    return Outcome(says, share, nulls)


def _pairs_apart(
    least: Float[np.ndarray, "head token"], greatest: Float[np.ndarray, "head other"]
) -> Float[np.ndarray, "head"]:
    """The share of pairs whose first is above the second."""
    return np.array(
        [
            np.searchsorted(np.sort(highs), lows, side="left").mean() / len(highs)
            for lows, highs in zip(least, greatest, strict=True)
        ]
    )


def _both(by_kind: Float[np.ndarray, "*what kind head token"]) -> Float[np.ndarray, "..."]:
    """Both kinds of queries in one axis: [*what head token]."""
    return np.concatenate([by_kind[..., kind, :, :] for kind in range(len(KINDS))], axis=-1)


def _high(draws: Any) -> float:
    """What no more than one draw in twenty exceeds."""
    return float(np.quantile(np.asarray(draws, dtype=float), 0.95, method="higher"))
