"""How many claims hold: counted from the records, put into a sentence, never typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lnattn_book.claims.ledger import own_first
from lnattn_book.claims.listed import Claim
from lnattn_book.claims.verdicts import ABSENT, DERIVED, NOT_ASKED, SIGNS, Record, counts_as

#: The first letters of the claims of the two papers.
PAPERS = "KB"


def verdict_of(claim: Claim, records: Sequence[Record], model: str) -> str:
    """The verdict that counts for a claim, of the records that are `counted`.

    Of its own checkpoint where it is about one; else of the model that the book was built on, and
    where that has none, of any. The record of the claim's own chapter comes first.
    """
    mine = [record for record in own_first(claim, records) if record.counted]
    if claim.needs_checkpoint:
        mine = [record for record in mine if claim.is_about(record.model)]
    else:
        mine = [record for record in mine if record.model == model] or mine
    return mine[0].verdict if mine else ABSENT if claim.needs_checkpoint else NOT_ASKED


def tally(
    claims: Iterable[Claim], records: Sequence[Record], model: str
) -> dict[str, dict[str, int]]:
    """Number of claims by the first letter of their ids and what they count as.

    model: the one the book was built on. A paper's question is none of its claims.
    """
    counts: dict[str, Counter[str]] = {}
    for claim in claims:
        if claim.kind != "question":
            what = counts_as(claim, verdict_of(claim, records, model))
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
