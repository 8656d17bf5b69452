"""How many claims hold: counted from the ledger, put into a sentence, never typed.

Claims about a published checkpoint are counted apart from the others, and what another model gave
in its place apart from both: it is no verdict on the paper. Derivations are counted apart from what
could fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lnattn_book.claims.listed import CHECKPOINTS, Claim
from lnattn_book.claims.verdicts import Record
from lnattn_book.claims.words import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    VERDICTS,
    listed_words,
)

#: What stands in place of a verdict where a claim was not asked, and where it is a derivation.
NOT_ASKED = "not asked"
DERIVED = "identity or arithmetic"
#: The first letters of the claims of the two papers.
PAPERS = "KB"

_WORDS = {
    HOLDS: ("holds", "hold"),
    HOLDS_IN_PART: ("holds in part", "hold in part"),
    FAILS: ("fails", "fail"),
    NOT_SEEN: ("is not seen there", "are not seen there"),
    UNDECIDED: ("is undecided", "are undecided"),
    NOT_COMPUTABLE: ("cannot be computed", "cannot be computed"),
    NOT_ASKED: ("was not asked", "were not asked"),
}
_NAMES = {"gpt2": "GPT-2"}


@dataclass(frozen=True)
class Tally:
    """Claims by verdict, each claim once in each group.

    model: what the book was built on; general: claims that need no published checkpoint; of: for
    each checkpoint that claims are about, verdicts by the model that they were asked of, the
    checkpoint itself first; ours: claims that the book makes itself, in no other group.
    """

    model: str
    general: Counter[str]
    of: Mapping[str, Mapping[str, Counter[str]]]
    ours: Counter[str]

    def sentence(self) -> str:
        """'Of 44 claims, 31 need no given checkpoint: 25 hold, …'."""
        free, ours, said = self.general.total(), self.ours.total(), []
        if free:
            total = free + sum(asked[own].total() for own, asked in self.of.items())
            need = "needs" if free == 1 else "need"
            said.append(
                f"Of {total} claims, {free} {need} no given checkpoint: {_in_words(self.general)}."
            )
        for own, asked in self.of.items():
            name, count = _NAMES.get(own, own), asked[own].total()
            be = "is" if count == 1 else "are"
            said.append(
                f"{count} {be} about {name}. Asked of {name} itself, {_in_words(asked[own])}."
            )
            said += [
                f"Asked of {model}, which stands in for it, {_in_words(counts)}."
                for model, counts in asked.items()
                if model != own
            ]
        if ours:
            said.append(f"Of {ours} of the book's own, {_in_words(self.ours)}.")
        return " ".join(said)

    def as_data(self) -> dict[str, object]:
        """The counts as plain data."""
        return {"general": self.general, **self.of, "ours": self.ours}


def tally(claims: Iterable[Claim], found: Sequence[Record], model: str) -> Tally:
    """Count claims by their records; see `Tally`. model: the one the book was built on."""
    claims = list(claims)

    def count(
        some: Iterable[Claim], asked: Callable[[Claim, Record], bool] | None = None
    ) -> Counter[str]:
        return Counter(verdict_of(one, found, model, asked) for one in some)

    general = count(c for c in claims if not (c.needs_checkpoint or c.is_ours))
    of: dict[str, dict[str, Counter[str]]] = {}
    for own in CHECKPOINTS:
        about = [claim for claim in claims if claim.model == own and not claim.is_ours]
        if about:
            of[own] = {own: count(about)}
            if not about[0].is_about(model):
                of[own][model] = count(about, lambda _, one: one.model == model)
    return Tally(model, general, of, count(c for c in claims if c.is_ours))


def verdict_of(
    claim: Claim,
    found: Sequence[Record],
    model: str,
    asked: Callable[[Claim, Record], bool] | None = None,
) -> str:
    """The verdict that counts for a claim, of the records that are `counted`.

    Of its own checkpoint where it is about one; else of the model that the book was built on, and
    where that has none, of any. The record of the claim's own chapter comes first.
    """
    mine = [one for one in found if one.claim == claim.id and one.counted]
    if asked is not None:
        mine = [one for one in mine if asked(claim, one)]
    elif claim.needs_checkpoint and not claim.is_ours:
        mine = [one for one in mine if claim.is_about(one.model)]
    else:
        mine = [one for one in mine if one.model == model] or mine
    return own_first(claim, mine)[0].verdict if mine else NOT_ASKED


def by_source(
    claims: Iterable[Claim], found: Sequence[Record], model: str
) -> dict[str, dict[str, int]]:
    """Number of claims by the first letter of their ids and verdict; derivations by themselves.

    A derivation that holds counts as `DERIVED`: only a mistake could break it.
    """
    counts: dict[str, Counter[str]] = {}
    for claim in claims:
        verdict = verdict_of(claim, found, model)
        derived = claim.kind == "derivation" and verdict == HOLDS
        counts.setdefault(claim.id[0], Counter())[DERIVED if derived else verdict] += 1
    order = (*VERDICTS, NOT_ASKED, DERIVED)
    return {letter: {name: row[name] for name in order} for letter, row in counts.items()}


def papers_sentence(counts: Mapping[str, Mapping[str, int]]) -> str:
    """One sentence on the claims of the two papers, from `by_source`."""
    both: Counter[str] = Counter()
    for letter in PAPERS:
        both.update(counts.get(letter, {}))
    derived, could_fail = both.pop(DERIVED, 0), both.total()
    return (
        f"Of the {derived + could_fail} claims of the two papers {derived} are identities or "
        f"arithmetic, which only a mistake could break; of the {could_fail} that could fail, "
        f"{_in_words(both)}."
    )


def _in_words(counts: Counter[str]) -> str:
    """'25 hold, 3 hold in part and 1 fails'; 'holds' first, always."""
    shown = {HOLDS: counts[HOLDS]} | {v: counts[v] for v in _WORDS if counts[v]}
    return listed_words(
        [f"{count} {_WORDS[verdict][count != 1]}" for verdict, count in shown.items()]
    )


def own_first(claim: Claim, entries: Iterable[Record]) -> list[Record]:
    """The records of the claim's own chapter before those of others."""
    return sorted(entries, key=lambda entry: entry.chapter.split("/")[-1] != claim.chapter)


def two_verdicts(found: Iterable[Record]) -> list[str]:
    """Claims that have two verdicts for one model, in words: a claim has one rule."""
    verdicts: dict[tuple[str, str], set[str]] = {}
    for entry in found:
        verdicts.setdefault((entry.claim, entry.model), set()).add(entry.verdict)
    return [
        f"claim {claim_id} has {len(several)} verdicts on {model}: {', '.join(sorted(several))}"
        for (claim_id, model), several in verdicts.items()
        if len(several) > 1
    ]
