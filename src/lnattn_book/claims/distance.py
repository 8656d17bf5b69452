"""The rules of the book's own claims on rotary models (chapter 13): from results to verdicts.

No paper states these. `book/claims.yml`, which has their parameters, says what was known when they
were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from lnattn_book.claims.listed import claim
from lnattn_book.claims.verdicts import Case, Record, replacing, rule, size
from lnattn_book.claims.words import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    by_interval,
    heads_where,
    of_heads,
)

#: How far a verdict can go, best first.
_ORDER = (HOLDS, HOLDS_IN_PART, FAILS)

#: What book-gpt2 and book-llama differ in besides their positions.
TWINS_DIFFER = ("RMSNorm for LayerNorm", "keys shared by four heads", "SwiGLU for GELU")


def near_keys() -> int:
    """How many of the nearest keys D3 is about."""
    return int(claim("D3").rule["near"])


@rule
def d1(case: Case, skill: np.ndarray) -> Record:
    """D1, a rotary first layer looks for the token before. skill: [head 3], mean, low, high."""
    above = skill[:, 1] > 0
    strong, top = above & (skill[:, 0] >= case.skill), int(skill[:, 0].argmax())
    return Record(
        HOLDS if strong.any() else HOLDS_IN_PART if above.any() else NOT_SEEN,
        f"{int(strong.sum())} of {len(skill)} heads ({heads_where(strong)}); most in head {top}: "
        f"{skill[top, 0]:+.3f} [{skill[top, 1]:+.3f}, {skill[top, 2]:+.3f}]",
        {"most": skill[top, 0], "strong": int(strong.sum()), "head": top},
        short=f"{skill[top, 0]:+.3f}",
        **size(skill[top], "AUROC (best head)", 0, len(skill)),
    )


@rule
def d2(case: Case, skill: np.ndarray) -> Record:
    """D2, the right distance. skill: [turn counted head], AUROC minus that of a wrong query."""
    head = int(skill[0, 0].argmax())
    best = skill[:, :, head].argmax(axis=0)
    right = best == np.arange(skill.shape[1])
    verdict = HOLDS if right.all() else HOLDS_IN_PART if right[0] else FAILS
    turned = ", ".join(f"pairs {n + 1} apart by a turn of {b + 1}" for n, b in enumerate(best))
    return Record(
        verdict if skill[0, 0, head] >= case.skill else NOT_SEEN,
        f"head {head}: {turned}",
        {"head": head, "right": int(right.sum())},
        **size(right.mean(), "of the distances", 1 / len(right), len(right)),
    )


@rule
def d3(case: Case, share: np.ndarray, null: np.ndarray) -> Record:
    """D3, nearness by distance alone. share, null: [head], of the nearest keys."""
    even = case.near / case.context
    verdict, words = of_heads(share >= case.times * even)
    chance = int((null >= case.times * even).sum())
    return Record(
        verdict,
        f"{words}; weights dealt anew: {chance} of {len(null)}",
        {"most": share.max(), "least": share.min(), "null": chance},
        **size(np.median(share) / even, "times the even share (median head)", 1, len(share)),
    )


def _d4_alone(case: Case, share: np.ndarray, *_null: np.ndarray) -> str:
    return of_heads(share < case.share)[0]


@replacing(_d4_alone)
def d4(case: Case, share: np.ndarray, null: np.ndarray) -> Record:
    """D4, tokens outweigh distance. share: of the term `d` [head]; null: [deal head]."""
    found = Record(
        _d4_alone(case, share),
        f"{of_heads(share < case.share)[1]}; from {share.min():.1%} to {share.max():.1%}",
        {"least": share.min(), "most": share.max()},
        short=f"{np.median(share):.0%}",
        **size(np.median(share), "of the variance (median head)", np.median(null), len(share)),
    )
    return _beside_chance(case, found, (_d4_alone(case, deal) for deal in null))


@rule
def d5(case: Case, difference: np.ndarray, unlike: Sequence[str]) -> Record:
    """D5, rotary positions leave more to words.

    difference: mean, low, high; unlike: what the two differ in besides positions, in words.
    """
    mean, low, high = difference
    verdict, note = by_interval(low, high), ""
    if unlike:
        verdict = UNDECIDED
        note = f"a pair alike but for positions; these differ in {', '.join(unlike)}"
    elif verdict == UNDECIDED:
        note = "more query tokens, or more seeds of both models"
    words = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
    return Record(verdict, words, {"mean": mean}, note, **size(difference, "AUROC", 0))


def _d6_alone(_case: Case, means: np.ndarray, names: Sequence[str], *_null: np.ndarray) -> str:
    return HOLDS if names[int(means.argmin())] == "ed" else FAILS


@replacing(_d6_alone)
def d6(case: Case, means: np.ndarray, names: Sequence[str], null: np.ndarray) -> Record:
    """D6, a query's wish for a distance matters least. means: [term], null: [deal term], nats."""
    order = [names[i] for i in np.argsort(-means)]
    found = dict(zip(names, means, strict=True))
    verdict, *dealt = (_d6_alone(case, one, names) for one in (means, *null))
    shown = ", ".join(f"{name} {found[name]:.3f}" for name in order)
    others = min(value for name, value in found.items() if name != "ed")
    effect = size(found["ed"], "nats (chance: the least other)", others)
    return _beside_chance(case, Record(verdict, f"nats: {shown}", found, **effect), dealt)


def _d7_alone(case: Case, rho: np.ndarray, *_null: np.ndarray) -> str:
    count = int((np.abs(rho) >= case.rho).sum())
    return HOLDS if count >= case.heads else HOLDS_IN_PART if count else FAILS


@replacing(_d7_alone)
def d7(case: Case, rho: np.ndarray, null: np.ndarray) -> Record:
    """D7, self-assertion goes with frequency. rho: Spearman [head]; null: [deal head]."""
    strong = np.abs(rho) >= case.rho
    count, most = int(strong.sum()), rho[int(np.abs(rho).argmax())]
    found = Record(
        _d7_alone(case, rho),
        f"{count} of {len(rho)} heads ({heads_where(strong)}), from {rho.min():+.2f} to "
        f"{rho.max():+.2f}",
        {"heads": count, "least": rho.min(), "most": rho.max()},
        **size(most, "ρ (strongest head)", np.median(np.abs(null).max(axis=1)), len(rho)),
    )
    return _beside_chance(case, found, (_d7_alone(case, one) for one in null))


def _beside_chance(case: Case, found: Record, dealt: Iterable[str]) -> Record:
    """The record; undecided where shuffled heads get as far too often. All get to a failure."""
    if found.verdict == FAILS:
        return found
    far = [_ORDER.index(verdict) <= _ORDER.index(found.verdict) for verdict in dealt]
    note = f"shuffled heads get as far in {sum(far)} of {len(far)}"
    if sum(far) <= case.chance * len(far):
        return replace(found, note=note)
    note += f"; a measure that they do not meet would decide (shown: {found.verdict})"
    return replace(found, verdict=UNDECIDED, note=note)
