"""How many claims hold: counted from the ledger, put into a sentence, never typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lnattn.claims.ledger import Entry
from lnattn.claims.listed import Claim
from lnattn.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_COMPUTABLE, VERDICTS

#: What records say in place of a model's name where the claim needs no given checkpoint.
NO_CHECKPOINT = ("no model", "any (algebra)", "random keys", "trained here")

_WORDS = {
    HOLDS: ("holds", "hold"),
    HOLDS_IN_PART: ("holds in part", "hold in part"),
    FAILS: ("fails", "fail"),
    NOT_COMPUTABLE: ("cannot be computed with it", "cannot be computed with it"),
}


@dataclass(frozen=True)
class Tally:
    """Claims by verdict for one model, and how many claims there are in all.

    elsewhere: claims that were asked of other models only; missing: of none so far.
    """

    model: str
    verdicts: Mapping[str, int]
    total: int
    elsewhere: int
    missing: int

    def sentence(self) -> str:
        """'31 of 44 claims hold on book-gpt2 …', with what became of the others."""
        held = self.verdicts[HOLDS]
        rest = [
            f"{count} {_WORDS[verdict][count != 1]}"
            for verdict, count in self.verdicts.items()
            if verdict != HOLDS and count
        ]
        if self.elsewhere:
            be = "is" if self.elsewhere == 1 else "are"
            rest.append(f"{self.elsewhere} {be} about other models only")
        if self.missing:
            be = "is" if self.missing == 1 else "are"
            rest.append(f"{self.missing} {be} not yet registered")
        verb = "holds" if held == 1 else "hold"
        tail = f"; {listed(rest)}" if rest else ""
        return f"{held} of {self.total} claims {verb} on {self.model}{tail}."


def tally(claims: Iterable[Claim], found: Sequence[Entry], model: str) -> Tally:
    """Count each claim once, by its record for this model, or for no given model.

    Where several chapters asked a claim of one model, the claim's own chapter counts.
    """
    verdicts: Counter[str] = Counter()
    total = elsewhere = missing = 0
    for claim in claims:
        total += 1
        mine = [entry for entry in found if entry.id == claim.id]
        here = [entry for entry in mine if entry.model == model] or [
            entry for entry in mine if needs_no_checkpoint(entry)
        ]
        if here:
            verdicts[own_first(claim, here)[0].verdict] += 1
        elif mine:
            elsewhere += 1
        else:
            missing += 1
    counted = {verdict: verdicts[verdict] for verdict in VERDICTS}
    return Tally(model, counted, total, elsewhere, missing)


def needs_no_checkpoint(entry: Entry) -> bool:
    """Whether a record is about algebra, or about models that the book trains itself."""
    return entry.model.startswith(NO_CHECKPOINT)


def own_first(claim: Claim, entries: Iterable[Entry]) -> list[Entry]:
    """The records of the claim's own chapter before those of others."""
    return sorted(entries, key=lambda entry: entry.chapter.split("/")[-1] != claim.chapter)


def by_model(found: Iterable[Entry]) -> dict[str, dict[str, int]]:
    """Number of records by model and verdict; models by how many records they have."""
    counts: dict[str, Counter[str]] = {}
    for entry in found:
        counts.setdefault(entry.model, Counter())[entry.verdict] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0]))
    return {model: {verdict: row[verdict] for verdict in VERDICTS} for model, row in ordered}


def listed(parts: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
