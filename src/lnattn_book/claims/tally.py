"""How many claims hold: counted from the ledger, put into a sentence, never typed.

Claims about a published checkpoint are counted apart from the others, and what another model gave
in its place apart from both: it is no verdict on the paper.
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

#: What stands in place of a verdict where a claim was not asked.
NOT_ASKED = "not asked"

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
    """Count claims by their records; see `Tally`. model: the one the book was built on.

    Of several records for one claim and model, that of the claim's own chapter counts, and only
    one that is `counted`.
    """
    claims, counted = list(claims), [entry for entry in found if entry.counted]

    def verdicts(some: Iterable[Claim], asked: Callable[[Claim, Record], bool]) -> Counter[str]:
        entries = ((c, [e for e in counted if e.claim == c.id and asked(c, e)]) for c in some)
        return Counter(own_first(c, of)[0].verdict if of else NOT_ASKED for c, of in entries)

    # Without a given checkpoint another model's record will do where this one has none.
    here = {entry.claim for entry in counted if entry.model == model}
    general, ours = (
        verdicts(
            (
                claim
                for claim in claims
                if (its_own or not claim.needs_checkpoint) and claim.is_ours is its_own
            ),
            lambda claim, entry: entry.model == model or claim.id not in here,
        )
        for its_own in (False, True)
    )
    of: dict[str, dict[str, Counter[str]]] = {}
    for own in CHECKPOINTS:
        about = [claim for claim in claims if claim.model == own and not claim.is_ours]
        if about:
            of[own] = {own: verdicts(about, lambda claim, entry: claim.is_about(entry.model))}
            if not about[0].is_about(model):
                of[own][model] = verdicts(about, lambda _, entry: entry.model == model)
    return Tally(model, general, of, ours)


def _in_words(counts: Counter[str]) -> str:
    """'25 hold, 3 hold in part and 1 fails'; 'holds' first, always."""
    shown = {HOLDS: counts[HOLDS]} | {v: counts[v] for v in _WORDS if counts[v]}
    return listed_words(
        [f"{count} {_WORDS[verdict][count != 1]}" for verdict, count in shown.items()]
    )


def own_first(claim: Claim, entries: Iterable[Record]) -> list[Record]:
    """The records of the claim's own chapter before those of others."""
    return sorted(entries, key=lambda entry: entry.chapter.split("/")[-1] != claim.chapter)


def by_model(found: Iterable[Record]) -> dict[str, dict[str, int]]:
    """Number of claims by model and verdict; models by how many claims they were asked."""
    counts: dict[str, Counter[str]] = {}
    for model, verdict, _ in {(entry.model, entry.verdict, entry.claim) for entry in found}:
        counts.setdefault(model, Counter())[verdict] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0]))
    return {model: {verdict: row[verdict] for verdict in VERDICTS} for model, row in ordered}


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
