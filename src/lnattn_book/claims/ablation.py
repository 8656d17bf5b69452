"""The rules of the book's own claims on what is used (chapter 06): from results to verdicts.

They were written, with their parameters, before any model was run without a part of its scores.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
from scipy.stats import rankdata, spearmanr

from lnattn.ablation.study import CLASSES, Ablations, interval
from lnattn_book.claims.verdicts import Case, Record, rule, size
from lnattn_book.claims.words import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    by_interval,
)

#: Up to so many heads every order of them is counted; beyond, a sample of orders.
_ALL_ORDERS = 8


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
def s9(
    case: Case,
    by_head: np.ndarray,
    auroc: np.ndarray,
    specific: np.ndarray,
    divergence: np.ndarray,
) -> Record:
    """S9, what weights foretell is what is used. by_head: [draw head]; the others [head]."""
    named = {"specific AUROC": specific, "AUROC": auroc, "divergence": divergence}
    rho = {
        name: interval(np.array([spearmanr(one, used).statistic for used in by_head]))
        for name, one in named.items()
    }
    p = {name: _share_as_high(one, by_head[0]) for name, one in named.items()}
    first, *others = (rho[name][1] > 0 and p[name] < case.p for name in named)
    verdict = FAILS if rho["specific AUROC"][2] < 0 else UNDECIDED
    found = Record(
        HOLDS if first else HOLDS_IN_PART if any(others) else verdict,
        "; ".join(f"{name}: ρ = {in_words(rho[name])}, p = {p[name]:.3f}" for name in named),
        {name: rho[name][0] for name in named},
        **size(rho["specific AUROC"], "ρ", 0, len(auroc)),
    )
    note = "a model with more heads would decide" if found.verdict == UNDECIDED else ""
    return replace(found, note=note)


@rule
def s10(case: Case, found: Ablations) -> Record:
    """S10, place joins words more than content does."""
    place, content = found.excess("place"), found.excess("ee")
    difference = interval(place - content)
    verdict = by_interval(*difference[1:])
    return Record(
        verdict,
        f"nats: {in_words(interval(place))} without place, {in_words(interval(content))} without "
        f"T^ee; difference {in_words(difference)}",
        {"place": place[0], "content": content[0], "difference": difference[0]},
        "more documents would decide" if verdict == UNDECIDED else "",
        **size(difference, "nats", 0),
    )


def _share_as_high(one: np.ndarray, other: np.ndarray) -> float:
    """Share of the orders of heads in which two rankings [head] agree as well, or better."""
    first, second = rankdata(one), rankdata(other)
    if len(one) <= _ALL_ORDERS:
        orders = np.array(list(permutations(second)))
    else:
        rng = np.random.default_rng(0)
        orders = np.array([second, *(rng.permutation(second) for _ in range(20_000))])
    return float((orders @ first >= second @ first - 1e-9).mean())
