"""The rules of the book's own claims on rotary models (chapter 13): from results to verdicts.

No paper states these. `book/claims.yml`, which has their parameters, says what was known when they
were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from lnattn.claims.listed import claim
from lnattn.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    Case,
    Outcome,
    heads_where,
    of_heads,
    rule,
)

#: How far a verdict can go, best first.
_ORDER = (HOLDS, HOLDS_IN_PART, FAILS)
#: What the rules with a null say of it.
_NULL = (
    " Null: heads dealt anew over the same embeddings; a note says how many deals get as far, and "
    "whether these are more than {chance:.0%} of them."
)


def near_keys() -> int:
    """How many of the nearest keys D3 is about."""
    return int(claim("D3").rule["near"])


@rule(
    "AUROC of T^ee one token apart against bigrams, minus that of a wrong query. Holds if it is "
    "{skill} or more in some head and its 95 % interval lies above 0; in part if only the interval "
    "does; else not seen."
)
def d1(case: Case, skill: Float[np.ndarray, "head 3"]) -> Outcome:
    """D1, a rotary first layer looks for the token before. skill: mean, low, high of each head."""
    above = skill[:, 1] > 0
    strong = above & (skill[:, 0] >= case.skill)
    top = int(skill[:, 0].argmax())
    return Outcome(
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
def d2(case: Case, skill: Float[np.ndarray, "turn counted head"]) -> Outcome:
    """D2, the right distance. skill: AUROC minus that of a wrong query."""
    head = int(skill[0, 0].argmax())
    best = skill[:, :, head].argmax(axis=0)
    right = best == np.arange(skill.shape[1])
    verdict = HOLDS if right.all() else HOLDS_IN_PART if right[0] else FAILS
    if skill[0, 0, head] < case.skill:
        verdict = NOT_SEEN
    turned = ", ".join(f"pairs {n + 1} apart by a turn of {b + 1}" for n, b in enumerate(best))
    return Outcome(verdict, f"head {head}: {turned}", {"head": head, "right": int(right.sum())})


@rule(
    "Attention by the last term alone, over {context} keys. Holds if in every head the {near} "
    "nearest get {times} times their even share or more; in part if in some; else fails."
)
def d3(case: Case, share: Float[np.ndarray, "head"], null: Float[np.ndarray, "head"]) -> Outcome:
    """D3, nearness by distance alone. share, null: of the nearest keys, in a model and a null."""
    even = case.near / case.context
    verdict, words = of_heads(share >= case.times * even)
    chance = int((null >= case.times * even).sum())
    return Outcome(
        verdict,
        f"{words}; weights dealt anew: {chance} of {len(null)}",
        {"most": share.max(), "least": share.min(), "null": chance},
    )


@rule(
    "Shares in the variance of a score, tokens drawn by their counts, over {context} distances. "
    "Holds if distance alone has less than {share:.0%} of it in every head; in part if in some; "
    "else fails." + _NULL
)
def d4(
    case: Case, share: Float[np.ndarray, "head"], null: Float[np.ndarray, "deal head"]
) -> Outcome:
    """D4, tokens outweigh distance. share, null: of the term `d`, in a model and in deals."""
    verdict, words = of_heads(share < case.share)
    dealt = [of_heads(deal < case.share)[0] for deal in null]
    return _beside_chance(
        case,
        Outcome(
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
def d5(case: Case, difference: Float[np.ndarray, "3"], unlike: Sequence[str]) -> Outcome:
    """D5, rotary positions leave more to words.

    difference: mean, low, high; unlike: what the trainings of the two differ in, in words.
    """
    mean, low, high = difference
    verdict = HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED
    note = "" if verdict != UNDECIDED else "more query tokens, or more seeds of both models"
    if unlike:
        verdict, note = UNDECIDED, f"the same training for both; they differ in {', '.join(unlike)}"
    return Outcome(verdict, f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]", {"mean": mean}, note)


@rule(
    "Mean divergence of attention when a term is removed, over texts and heads. Holds if `ed` has "
    "the smallest of the four; else fails." + _NULL
)
def d6(
    case: Case,
    means: Float[np.ndarray, "4"],
    names: Sequence[str],
    null: Float[np.ndarray, "deal 4"],
) -> Outcome:
    """D6, a query's wish for a distance matters least. means, null: nats, by the terms' names."""
    order = [names[i] for i in np.argsort(-means)]
    shown = ", ".join(f"{name} {means[list(names).index(name)]:.3f}" for name in order)
    found = dict(zip(names, means, strict=True))
    verdict, *dealt = (
        HOLDS if names[int(one.argmin())] == "ed" else FAILS for one in (means, *null)
    )
    return _beside_chance(case, Outcome(verdict, f"nats: {shown}", found), dealt)


@rule(
    "Spearman of what a key asserts one token before its query with its token's count. Holds if "
    "it is {rho} or more in size in {heads} heads or more; in part if in one; else fails." + _NULL
)
def d7(case: Case, rho: Float[np.ndarray, "head"], null: Float[np.ndarray, "deal head"]) -> Outcome:
    """D7, self-assertion goes with frequency. rho, null: Spearman of each head."""
    strong = np.abs(rho) >= case.rho
    counts = [int((np.abs(one) >= case.rho).sum()) for one in (rho, *null)]
    verdict, *dealt = (
        HOLDS if count >= case.heads else HOLDS_IN_PART if count else FAILS for count in counts
    )
    return _beside_chance(
        case,
        Outcome(
            verdict,
            f"{counts[0]} of {len(rho)} heads ({heads_where(strong)}), from {rho.min():+.2f} to "
            f"{rho.max():+.2f}",
            {"heads": counts[0], "least": rho.min(), "most": rho.max()},
        ),
        dealt,
    )


def _beside_chance(case: Case, found: Outcome, dealt: Iterable[str]) -> Outcome:
    """The outcome, with a note on how many deals of the heads get as far; all get to a failure."""
    if found.verdict == FAILS:
        return found
    far = [_ORDER.index(verdict) <= _ORDER.index(found.verdict) for verdict in dealt]
    often = sum(far) > case.chance * len(far)
    known = ": they learned nothing and do as well" if often else ""
    return replace(found, note=f"heads dealt anew get as far in {sum(far)} of {len(far)}{known}")
