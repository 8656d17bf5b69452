"""The rules of the book's own claims on rotary models (chapter 13): from results to verdicts.

No paper states these. `book/claims.yml`, which has their parameters, says what was known when they
were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from lnattn_book.claims.listed import claim
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    Case,
    Change,
    Record,
    heads_where,
    of_heads,
    rule,
)

#: How far a verdict can go, best first.
_ORDER = (HOLDS, HOLDS_IN_PART, FAILS)


def _without_null(before: Callable[..., str]) -> Change:
    """That shuffled heads which get as far were a note, and decided nothing."""
    why = "a claim that heads met which learned nothing had counted as one that holds"
    return Change("23 Nov 2026", why, lambda case, *given, **_named: before(case, *given))


def _d4_alone(case: Case, share: np.ndarray, *_null: np.ndarray) -> str:
    return of_heads(share < case.share)[0]


def _d6_alone(_case: Case, means: np.ndarray, names: Sequence[str], *_null: np.ndarray) -> str:
    return HOLDS if names[int(means.argmin())] == "ed" else FAILS


def _d7_alone(case: Case, rho: np.ndarray, *_null: np.ndarray) -> str:
    count = int((np.abs(rho) >= case.rho).sum())
    return HOLDS if count >= case.heads else HOLDS_IN_PART if count else FAILS


#: What book-gpt2 and book-llama differ in besides their positions.
TWINS_DIFFER = ("RMSNorm for LayerNorm", "keys shared by four heads", "SwiGLU for GELU")

#: What the rules with a null say of it.
_NULL = (
    " Undecided if more than {chance:.0%} of the deals of a null get as far: heads with shuffled "
    "weights over the same embeddings."
)


def near_keys() -> int:
    """How many of the nearest keys D3 is about."""
    return int(claim("D3").rule["near"])


@rule(
    "AUROC of T^ee one token apart against bigrams, minus that of a wrong query. Holds if it is "
    "{skill} or more in some head and its 95 % interval lies above 0; in part if only the interval "
    "does; else not seen."
)
def d1(case: Case, skill: Float[np.ndarray, "head 3"]) -> Record:
    """D1, a rotary first layer looks for the token before. skill: mean, low, high of each head."""
    above = skill[:, 1] > 0
    strong = above & (skill[:, 0] >= case.skill)
    top = int(skill[:, 0].argmax())
    return Record(
        HOLDS if strong.any() else HOLDS_IN_PART if above.any() else NOT_SEEN,
        f"{int(strong.sum())} of {len(skill)} heads ({heads_where(strong)}); most in head {top}: "
        f"{skill[top, 0]:+.3f} [{skill[top, 1]:+.3f}, {skill[top, 2]:+.3f}]",
        {"most": skill[top, 0], "strong": int(strong.sum()), "head": top},
        short=f"{skill[top, 0]:+.3f}",
    )


@rule(
    "Queries turned by 1, 2 and 3 against pairs counted 1, 2 and 3 apart, in the head with the "
    "most skill at 1. Holds if each kind of pair is found best by queries turned as far as the "
    "pair is apart; in part if neighbours are; else fails. Not seen if no skill is {skill} or more."
)
def d2(case: Case, skill: Float[np.ndarray, "turn counted head"]) -> Record:
    """D2, the right distance. skill: AUROC minus that of a wrong query."""
    head = int(skill[0, 0].argmax())
    best = skill[:, :, head].argmax(axis=0)
    right = best == np.arange(skill.shape[1])
    verdict = HOLDS if right.all() else HOLDS_IN_PART if right[0] else FAILS
    if skill[0, 0, head] < case.skill:
        verdict = NOT_SEEN
    turned = ", ".join(f"pairs {n + 1} apart by a turn of {b + 1}" for n, b in enumerate(best))
    return Record(verdict, f"head {head}: {turned}", {"head": head, "right": int(right.sum())})


@rule(
    "Attention by the last term alone, over {context} keys. Holds if in every head the {near} "
    "nearest get {times} times their even share or more; in part if in some; else fails."
)
def d3(case: Case, share: Float[np.ndarray, "head"], null: Float[np.ndarray, "head"]) -> Record:
    """D3, nearness by distance alone. share, null: of the nearest keys, in a model and a null."""
    even = case.near / case.context
    verdict, words = of_heads(share >= case.times * even)
    chance = int((null >= case.times * even).sum())
    return Record(
        verdict,
        f"{words}; weights dealt anew: {chance} of {len(null)}",
        {"most": share.max(), "least": share.min(), "null": chance},
    )


@rule(
    "Shares in the variance of scores between the keys of a query, tokens drawn by their counts, "
    "over {context} distances (a query's mean score, which no softmax sees, is taken off). "
    "Holds if distance alone has less than {share:.0%} of it in every head; in part if in some; "
    "else fails." + _NULL,
    "",
    _without_null(_d4_alone),
)
def d4(
    case: Case, share: Float[np.ndarray, "head"], null: Float[np.ndarray, "deal head"]
) -> Record:
    """D4, tokens outweigh distance. share, null: of the term `d`, in a model and in deals."""
    verdict, words = of_heads(share < case.share)
    dealt = [_d4_alone(case, deal) for deal in null]
    return _beside_chance(
        case,
        Record(
            verdict,
            f"{words}; from {share.min():.1%} to {share.max():.1%}",
            {"least": share.min(), "most": share.max()},
            short=f"{np.median(share):.0%}",
        ),
        dealt,
    )


@rule(
    "Skill (D1) of each model's best head, on the same query tokens and counts. Holds if the 95 % "
    "interval of the rotary model's minus the other's lies above 0; fails if below; else "
    "undecided, as for models that differ in their training and not in their positions alone."
)
def d5(case: Case, difference: Float[np.ndarray, "3"], unlike: Sequence[str]) -> Record:
    """D5, rotary positions leave more to words.

    difference: mean, low, high; unlike: what the two differ in besides positions, in words.
    """
    mean, low, high = difference
    verdict = HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED
    note = "" if verdict != UNDECIDED else "more query tokens, or more seeds of both models"
    if unlike:
        verdict, note = (
            UNDECIDED,
            f"a pair alike but for positions; these differ in {', '.join(unlike)}",
        )
    return Record(verdict, f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]", {"mean": mean}, note)


@rule(
    "Mean divergence of attention when a term is removed, over texts and heads. Holds if `ed` has "
    "the smallest of the four; else fails." + _NULL,
    "",
    _without_null(_d6_alone),
)
def d6(
    case: Case,
    means: Float[np.ndarray, "4"],
    names: Sequence[str],
    null: Float[np.ndarray, "deal 4"],
) -> Record:
    """D6, a query's wish for a distance matters least. means, null: nats, by the terms' names."""
    order = [names[i] for i in np.argsort(-means)]
    shown = ", ".join(f"{name} {means[list(names).index(name)]:.3f}" for name in order)
    found = dict(zip(names, means, strict=True))
    verdict, *dealt = (_d6_alone(case, one, names) for one in (means, *null))
    return _beside_chance(case, Record(verdict, f"nats: {shown}", found), dealt)


@rule(
    "Spearman of what a key asserts one token before its query with its token's count. Holds if "
    "it is {rho} or more in size in {heads} heads or more; in part if in one; else fails." + _NULL,
    "",
    _without_null(_d7_alone),
)
def d7(case: Case, rho: Float[np.ndarray, "head"], null: Float[np.ndarray, "deal head"]) -> Record:
    """D7, self-assertion goes with frequency. rho, null: Spearman of each head."""
    strong = np.abs(rho) >= case.rho
    count = int(strong.sum())
    verdict, *dealt = (_d7_alone(case, one) for one in (rho, *null))
    return _beside_chance(
        case,
        Record(
            verdict,
            f"{count} of {len(rho)} heads ({heads_where(strong)}), from {rho.min():+.2f} to "
            f"{rho.max():+.2f}",
            {"heads": count, "least": rho.min(), "most": rho.max()},
        ),
        dealt,
    )


def _beside_chance(case: Case, found: Record, dealt: Iterable[str]) -> Record:
    """The outcome; undecided where shuffled heads get as far too often. All get to a failure."""
    if found.verdict == FAILS:
        return found
    far = [_ORDER.index(verdict) <= _ORDER.index(found.verdict) for verdict in dealt]
    note = f"shuffled heads get as far in {sum(far)} of {len(far)}"
    if sum(far) <= case.chance * len(far):
        return replace(found, note=note)
    note += f"; a measure that they do not meet would decide (shown: {found.verdict})"
    return replace(found, verdict=UNDECIDED, note=note)
