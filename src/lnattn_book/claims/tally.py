"""How many claims hold: counted from the records, put into a sentence, never typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lnattn_book.claims.ledger import own_first
from lnattn_book.claims.listed import Claim
from lnattn_book.claims.nulls import NONE
from lnattn_book.claims.verdicts import (
    ABSENT,
    DERIVED,
    NOT_ASKED,
    SIGNS,
    Record,
    listed_words,
    robustness,
)

#: The first letters of the claims of the two papers.
PAPERS = "KB"


def record_of(claim: Claim, records: Sequence[Record], model: str) -> Record | None:
    """The record that counts for a claim, of those that are `counted`; None where there is none.

    Of its own checkpoint where it is about one; else of the model that the book was built on, and
    where that has none, of any. The record of the claim's own chapter comes first.
    """
    mine = [record for record in own_first(claim, records) if record.counted]
    if claim.needs_checkpoint:
        mine = [record for record in mine if claim.is_about(record.model)]
    else:
        mine = [record for record in mine if record.model == model] or mine
    return mine[0] if mine else None


def verdict_of(claim: Claim, records: Sequence[Record], model: str) -> str:
    """The verdict that counts for a claim (`record_of`), or why there is none."""
    record = record_of(claim, records, model)
    if record is None:
        return ABSENT if claim.needs_checkpoint else NOT_ASKED
    return record.verdict


def tally(
    claims: Iterable[Claim], records: Sequence[Record], model: str
) -> dict[str, dict[str, int]]:
    """Number of claims by the first letter of their ids and what they count as.

    model: the one the book was built on. A paper's question is none of its claims; a derivation
    counts as one, whatever became of it.
    """
    counts: dict[str, Counter[str]] = {}
    for claim in claims:
        if claim.kind != "question":
            what = verdict_of(claim, records, model) if claim.could_fail else DERIVED
            counts.setdefault(claim.id[0], Counter())[what] += 1
    return {letter: {name: row[name] for name in SIGNS} for letter, row in counts.items()}


def sentence(counts: Mapping[str, Mapping[str, int]]) -> str:
    """One sentence on the claims of the two papers, from a `tally`."""
    both = sum((Counter(counts.get(letter, {})) for letter in PAPERS), Counter())
    derived = both.pop(DERIVED, 0)
    shown = ", ".join(_by_sign(both))
    return (
        f"Of the {derived + both.total()} claims of the two papers {derived} are identities or "
        f"arithmetic, which only a mistake could break; of the {both.total()} that could fail: "
        f"{shown}."
    )


@dataclass(frozen=True)
class Caveats:
    """What limits the verdicts that count, by ids: of claims that could fail.

    interval_only: no null model could be drawn; fragile: another verdict at more than a fifth of
    the sensible thresholds; changed: the rule was changed when its numbers were known.
    """

    could_fail: list[str]
    interval_only: list[str]
    fragile: list[str]
    changed: list[str]

    @property
    def sentence(self) -> str:
        """'Of these 26 …', with the ids where they are few."""
        return (
            f"Of {len(self.could_fail)} that could fail, {_named(self.interval_only)} "
            f"{_have(self.interval_only)} no null model but an interval only; the verdicts of "
            f"{_named(self.fragile)} are fragile; the rules of {len(self.changed)} were changed "
            "after the numbers."
        )


def caveats(claims: Iterable[Claim], records: Sequence[Record], model: str) -> Caveats:
    """What limits the verdicts that count (`record_of`), of all claims but derivations."""
    asked = [claim for claim in claims if claim.could_fail]
    counting = {claim.id: record_of(claim, records, model) for claim in asked}
    judged = {name: record for name, record in counting.items() if record is not None}
    return Caveats(
        could_fail=[claim.id for claim in asked],
        interval_only=[n for n, record in judged.items() if record.null_model == NONE.words],
        fragile=[n for n, record in judged.items() if robustness(record).endswith("fragile")],
        changed=[claim.id for claim in asked if claim.changed],
    )


def _named(ids: Sequence[str]) -> str:
    """'none', or '2 (B13 and B15)'."""
    return f"{len(ids)} ({listed_words(ids)})" if ids else "none"


def _have(ids: Sequence[str]) -> str:
    return "has" if len(ids) == 1 else "have"


def _by_sign(counts: Mapping[str, int]) -> Iterator[str]:
    """'4 ✓ holds', …: each sign once; where it has several causes, their sum and each of them."""
    causes: dict[str, dict[str, int]] = {}
    for what, sign in SIGNS.items():
        if counts.get(what):
            causes.setdefault(sign, {})[what] = counts[what]
    for sign, by_cause in causes.items():
        if len(by_cause) == 1:
            ((cause, count),) = by_cause.items()
            yield f"{count} {sign} {cause}"
        else:
            each = ", ".join(f"{count} {cause}" for cause, count in by_cause.items())
            yield f"{sum(by_cause.values())} {sign} ({each})"
