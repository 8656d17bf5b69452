"""The rules of the book's own claims on what is used (chapter 08): from results to verdicts.

They were written, with their parameters, before any of their models was run without a part of its
scores.
"""

from __future__ import annotations

import numpy as np

from lnattn.ablation.study import CLASSES, Ablations, interval
from lnattn_book.claims.verdicts import Case, Record, rule, size
from lnattn_book.claims.words import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
)
from lnattn_book.joining import Joining, over_seeds


def in_words(found: tuple[float, float, float]) -> str:
    """A value with its interval: '+0.123 [+0.100, +0.150]'."""
    return "{:+.3f} [{:+.3f}, {:+.3f}]".format(*found)


@rule
def s7(case: Case, found: Ablations, specific: np.ndarray) -> Record:
    """S7, T^ee is used where words are put together. specific: AUROC less a wrong query's [head]"""
    return _used(case, found, specific, "second pieces")


@rule
def s8(case: Case, found: Ablations, specific: np.ndarray) -> Record:
    """S8, T^ee is used where names are put together; as `s7`."""
    return _used(case, found, specific, "second words of names")


def _used(case: Case, found: Ablations, specific: np.ndarray, of: str) -> Record:
    number = int(found.tokens[0, list(CLASSES).index(of), 1])
    if number < case.tokens:
        return Record(NOT_COMPUTABLE, f"{number} {of} with a match")
    head = int(specific.argmax())
    whole, alone = (interval(found.excess("ee", of=of, head=one)) for one in (-1, head))
    pairs = interval(found.excess("pairs", of=of))
    verdict = FAILS if whole[2] < 0 else NOT_SEEN
    if whole[1] > 0:
        verdict = HOLDS if whole[0] >= case.nats and alone[1] > 0 else HOLDS_IN_PART
    return Record(
        verdict,
        f"nats without T^ee: {in_words(whole)}; of head {head} alone: {in_words(alone)}; of "
        f"counted pairs only: {in_words(pairs)}; {number:,} tokens",
        {"whole": whole[0], "alone": alone[0], "pairs": pairs[0], "tokens": number},
        short=f"{whole[0]:+.3f}",
        **size(whole, "nats", 0, number),
    )


@rule
def s11(case: Case, found: Joining) -> Record:
    """S11, a first layer that joins pieces is used for it."""
    peaks, shares = found.peaks(), found.shares()
    if len(peaks) < case.seeds:
        most = shares.loc[shares["tokens trained"].idxmax()]
        return Record(
            NOT_COMPUTABLE,
            f"{len(peaks)} of {shares.index.unique('seed').size} models join pieces; after "
            f"{most['tokens trained'] / 1e6:.1f} million tokens {most['found']:.1%} are found, "
            f"by chance up to {most['chance high']:.1%}",
        )
    every, alone = found.of("after", "ee"), found.of("after", "ee", "joining")
    whole = over_seeds(every["value"])
    if whole[1] > 0:
        each = bool((alone["low"] > 0).all())
        verdict = HOLDS if whole[0] >= case.nats and each else HOLDS_IN_PART
    else:
        verdict = FAILS if whole[2] < case.nats else UNDECIDED
    return Record(
        verdict,
        f"nats without T^ee: {in_words(whole)} over {len(peaks)} seeds; of the joining head alone: "
        + ", ".join(in_words(tuple(row)) for row in alone.to_numpy()),
        {"whole": whole[0], "alone": alone["value"].mean(), "seeds": len(peaks)},
        "more seeds, or longer runs, would decide" if verdict == UNDECIDED else "",
        short=f"{whole[0]:+.3f}",
        **size(whole, "nats", 0, len(peaks)),
    )
