"""Records of what was found about a claim, and the rules that give their verdicts.

A rule judges the results of a study: `k6(spearman, model="gpt2") -> Record`. What it says to
readers, its thresholds and the grid of others as sensible stand in `book/claims.yml`; a judge has
no number of its own, so that it can be asked again with other ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from lnattn.errors import ResultError
from lnattn.storage import plain_scalar
from lnattn_book.claims.listed import Claim, claim

HOLDS = "holds"
HOLDS_IN_PART = "holds in part"
FAILS = "fails"
NOT_SEEN = "not seen in this model"
UNDECIDED = "undecided"
NOT_COMPUTABLE = "not computable"

#: The verdicts and the mark that stands before each in a table.
VERDICTS: Mapping[str, str] = {
    HOLDS: "✓",
    HOLDS_IN_PART: "◐",
    FAILS: "✗",
    NOT_SEEN: "○",
    UNDECIDED: "?",
    NOT_COMPUTABLE: "–",
}
#: What stands in place of a verdict where a claim was not asked, and where it is a derivation.
NOT_ASKED = "not asked"
DERIVED = "identity or arithmetic"
#: The marks of all that a claim can count as.
SIGNS: Mapping[str, str] = {**VERDICTS, NOT_ASKED: "·", DERIVED: "="}
#: A verdict that stands in less of its grid than this is called fragile.
FRAGILE = 0.8


@dataclass(frozen=True)
class Leaf:
    """A part of a compound claim with a verdict of its own; see `Record` for the fields."""

    name: str
    verdict: str
    words: str
    estimate: float | None = None
    unit: str = ""
    interval: tuple[float, float] | None = None
    null: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Record:
    """What was found about a claim in one model.

    verdict: one of `VERDICTS`; words: what was found; values: the numbers behind the words; note:
    what limits the verdict, and for 'undecided' what would decide; short: the one number by which
    models are set side by side. estimate, unit, interval (95 %), null (what chance or an untrained
    twin gives) and n (how many were judged): see `size`; leaves: the parts of a compound claim.
    claim, model, rule, kind, before (the verdict by the rule that this one replaced, if any) and
    stands (in how many cases of the grid the verdict is the same, and of how many) come from the
    `Rule`; function, cell, counted, chapter and execution from the chapter that registers it.
    """

    verdict: str
    words: str
    values: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    short: str = ""
    estimate: float | None = None
    unit: str = ""
    interval: tuple[float, float] | None = None
    null: float | None = None
    n: int | None = None
    leaves: tuple[Leaf, ...] = ()
    kind: str = ""
    claim: str = ""
    model: str = ""
    rule: str = ""
    before: str = ""
    stands: tuple[int, int] | None = None
    function: str = ""
    cell: str = ""
    counted: bool = True
    chapter: str = ""
    execution: int = 0

    @classmethod
    def of(cls, leaves: Sequence[Leaf], **more: Any) -> Record:
        """The record of a compound claim: words and verdict are those of its parts."""
        words = "; ".join(f"{one.name}: {one.words}" for one in leaves)
        return cls(total(leaves), words, leaves=tuple(leaves), **more)

    @property
    def mark(self) -> str:
        """The verdict's sign."""
        return VERDICTS[self.verdict]

    def __str__(self) -> str:
        return f"{self.claim} {self.verdict} ({self.model}): {self.words}"


def size(value: Any, unit: str = "", null: Any = None, n: Any = None) -> dict[str, Any]:
    """The fields of a record's effect; value: a number, or one with the ends of its interval.

    What is not finite, such as a median that no run reached, is left out.
    """
    estimate, *ends = (float(one) for one in np.atleast_1d(value))
    interval = (ends[0], ends[1]) if ends and np.isfinite(ends).all() else None
    if not np.isfinite(estimate):
        return {}
    null, n = None if null is None else float(null), None if n is None else int(n)
    return {"estimate": estimate, "unit": unit, "interval": interval, "null": null, "n": n}


class Case(SimpleNamespace):
    """What a rule is given beside results: the claim's parameters by name, and `own`.

    own: whether the results are of the model that the claim is about.
    """

    own: bool


#: Every rule, by the claim's id.
RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Rule:
    """The rule of one claim. judge: from a `Case` and results to a `Record`."""

    claim: str
    judge: Callable[..., Record]
    before: Any = None  # until no module gives it

    def in_words(self) -> str:
        """The rule for readers, with the claim's parameters."""
        about = claim(self.claim)
        shown = {k: _Listed(v) if isinstance(v, list) else v for k, v in about.rule.items()}
        return with_minus(about.words.format(**shown))

    def __call__(self, *results: Any, model: str, **named: Any) -> Record:
        """The record of these results, which are of `model`.

        On a model that the claim is not about, the absence of a phenomenon is no evidence: there a
        judge may say 'not seen in this model', which on the claim's own model means 'fails'.
        """
        about, note, stands = claim(self.claim), "", None
        own = about.is_about(model)

        def judged(thresholds: Mapping[str, Any]) -> Record:
            found = self.judge(Case(**thresholds, own=own), *results, **named)
            return _of_own(found) if own else found

        found = judged(about.rule)
        _check(about, found)
        if before := about.changed.get("before", {}).get(model, ""):
            note = "rule changed after the numbers on {date}: {why}".format(**about.changed)
            note += f"; by the rule before it: {before}"
        if about.grid and found.verdict != NOT_COMPUTABLE:
            cases = [
                dict(zip(about.grid, some, strict=True)) for some in product(*about.grid.values())
            ]
            same = sum(judged({**about.rule, **one}).verdict == found.verdict for one in cases)
            stands = same, len(cases)
        return replace(
            found,
            words=with_minus(found.words),
            values={name: plain_scalar(value, name) for name, value in found.values.items()},
            note=with_minus("; ".join(filter(None, (found.note, note)))),
            short=with_minus(found.short),
            leaves=tuple(replace(one, words=with_minus(one.words)) for one in found.leaves),
            claim=self.claim,
            model=str(model),
            rule=self.in_words(),
            before=before,
            stands=stands,
            kind=about.kind,
        )


def rule(judge: Callable[..., Record]) -> Rule:
    """Make the `Rule` of the claim that a function is named after, k5 of K5, and enter it."""
    one = Rule(judge.__name__.upper(), judge)
    RULES[one.claim] = one
    return one


def not_computable(claim_id: str, model: str, why: str) -> Record:
    """The record where a model lacks what the claim needs; `why` says what."""
    about, words = claim(claim_id), RULES[claim_id].in_words()
    return Record(NOT_COMPUTABLE, why, claim=claim_id, model=model, rule=words, kind=about.kind)


def _of_own(found: Record) -> Record:
    """The record on the model that its claim is about: what is not seen there fails."""
    if found.leaves:
        seen = [replace(o, verdict=FAILS) if o.verdict == NOT_SEEN else o for o in found.leaves]
        return replace(found, verdict=total(seen), leaves=tuple(seen))
    return replace(found, verdict=FAILS) if found.verdict == NOT_SEEN else found


def _check(about: Claim, found: Record) -> None:
    """Raise `ResultError` for a record that says too little, or what no rule can say."""
    whole = {one.verdict for one in found.leaves}
    if not {found.verdict, *whole} <= set(VERDICTS):
        raise ResultError(f"{about.id}: {found.verdict!r} is not a verdict.")
    if found.verdict == UNDECIDED and not found.note:
        raise ResultError(f"{about.id}: 'undecided' must say what would decide.")
    if HOLDS_IN_PART in whole or {one.name for one in found.leaves} - set(about.leaves):
        raise ResultError(f"{about.id}: a leaf that no claim has, or that holds in part.")


# --- verdicts from flags and intervals ----------------------------------------------------------


def exact(met: Any) -> str:
    """The verdict on an identity: it holds or fails."""
    return HOLDS if met else FAILS


def graded(flags: Iterable[Any], none: str = FAILS, some: str = HOLDS_IN_PART) -> str:
    """'Holds' if all flags are set, `some` if some are, `none` if none is."""
    flags = [bool(one) for one in flags]
    return HOLDS if all(flags) else some if any(flags) else none


def by_interval(low: float, high: float) -> str:
    """'Holds' if an interval lies above 0, 'fails' if below, else 'undecided'."""
    return HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED


def of_heads(flags: Iterable[Any], none: str = FAILS) -> tuple[str, str]:
    """The verdict and a phrase such as '11 of 12 heads', from one flag for each head.

    All heads: the claim holds; some: in part; none: `none`. flags may be [case head], where cases
    are assumptions about what is not known: if they lead to different verdicts, it is undecided.
    """
    cases = np.atleast_2d(np.asarray(list(flags), dtype=bool))
    if cases.size == 0:
        raise ResultError("a verdict needs at least one head.")
    sure, possible = np.asarray(cases.all(axis=0)), np.asarray(cases.any(axis=0))
    least, most, heads = int(sure.sum()), int(possible.sum()), cases.shape[1]
    found = {graded(list(sure), none), graded(list(possible), none)}
    words = f"{least} of {heads} heads" if least == most else f"{least} to {most} of {heads} heads"
    return (found.pop() if len(found) == 1 else UNDECIDED), words


def total(leaves: Iterable[Leaf]) -> str:
    """The verdict on a compound claim, from those of its parts; only here can it hold in part."""
    found = {one.verdict for one in leaves} - {NOT_COMPUTABLE}
    if found <= {HOLDS}:
        return HOLDS if found else NOT_COMPUTABLE
    if HOLDS in found and found & {FAILS, NOT_SEEN}:
        return HOLDS_IN_PART
    return UNDECIDED if UNDECIDED in found else FAILS if FAILS in found else NOT_SEEN


def counts_as(about: Claim, verdict: str) -> str:
    """The verdict, or `DERIVED` for a derivation that holds: only a mistake could break it."""
    return DERIVED if about.kind == "derivation" and verdict == HOLDS else verdict


# --- words --------------------------------------------------------------------------------------


def effect(one: Leaf | Record) -> str:
    """The estimate with unit, interval, chance and n, as far as they are known."""
    if one.estimate is None:
        return ""
    ends = one.interval and f" [{one.interval[0]:.3g}, {one.interval[1]:.3g}]"
    chance = "" if one.null is None else f", chance {one.null:.3g}"
    number = "" if one.n is None else f", n = {one.n:,}"
    unit = f" {one.unit}" if one.unit else ""
    return with_minus(f"{one.estimate:.3g}{unit}{ends or ''}{chance}{number}")


def robustness(one: Record) -> str:
    """'the verdict stands with 18 of 25 thresholds (72%): fragile'; '' where there is no grid."""
    if one.stands is None:
        return ""
    same, cases = one.stands
    fragile = ": fragile" if same < FRAGILE * cases else ""
    share = f"{same} of {cases} choices of thresholds ({same / cases:.0%})"
    return f"the verdict stands with {share}{fragile}"


def heads_where(flags: Iterable[Any]) -> str:
    """The heads whose flag is set, for a sentence: '0, 2 and 3'; 'none' where there is none."""
    return listed_words([str(head) for head, flag in enumerate(flags) if flag]) or "none"


def listed_words(parts: Iterable[str]) -> str:
    """'a', 'a and b', 'a, b and c'; '' for nothing."""
    *others, last = list(parts) or [""]
    return f"{', '.join(others)} and {last}" if others else last


def with_minus(text: str) -> str:
    """Text with the hyphen before a number replaced by a minus sign; 5e-15 keeps its own."""
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)


class _Listed(list[Any]):
    """Values that a rule's words show as 'a, b and c', or one of them by its index."""

    def __str__(self) -> str:
        return listed_words(map(str, self))


# --- until no module needs them -----------------------------------------------------------------


def replacing(_before: Any) -> Callable[[Callable[..., Record]], Rule]:
    return rule


def limits(
    claim_id: str, names: str, met: Any, words: str, note: str = "", effect: Any = lambda _got: {}
) -> Rule:
    def judge(case: Case, *results: Any, **named: Any) -> Record:
        got = SimpleNamespace(**dict(zip(names.split(), results, strict=False)), **named)
        if vars(got).keys() != set(names.split()):
            raise ResultError(f"the rule of {claim_id} judges {names}, not {', '.join(vars(got))}.")
        said = vars(got)
        verdict = HOLDS if met(case, got) else FAILS
        return Record(verdict, words.format(**said), note=note.format(**said), **effect(got))

    RULES[claim_id] = Rule(claim_id, judge)
    return RULES[claim_id]


def rule_of(claim_id: str) -> str:
    return RULES[claim_id].in_words()
