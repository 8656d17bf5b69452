"""How many claims hold: counted from the records, put into a sentence, never typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lnattn_book.claims.ledger import own_first
from lnattn_book.claims.listed import Claim
from lnattn_book.claims.verdicts import ABSENT, DERIVED, NOT_ASKED, SIGNS, Record, robustness

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


def fragile(claims: Iterable[Claim], records: Sequence[Record], model: str) -> list[str]:
    """The ids of the claims whose verdict that counts would be another one at other thresholds."""
    return [
        claim.id
        for claim in claims
        if (record := record_of(claim, records, model)) and robustness(record).endswith("fragile")
    ]


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
