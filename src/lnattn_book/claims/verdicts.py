"""Records of what was found about a claim, and the rules that give their verdicts.

A rule judges the results of a study: `k6(spearman, model="gpt2") -> Record`. Its thresholds stand
in `book/claims.yml` and are put into the rule's own words; what was found is worded from the
record's values, so that no number of a text stands in it alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class Record:
    """What was found about a claim in one model.

    verdict: one of `VERDICTS`; words: what was found, a format string over values and parameters
    until a `Rule` has filled it; values: the numbers behind the words; note: what limits the
    verdict, and for 'undecided' what would decide; short: the one number by which models are set
    side by side. estimate, unit, interval, null (what chance or an untrained twin gives) and n: the
    effect, where the rule has one; kind: derivation, number, trend or cause. claim, model, rule and
    before (the verdict by the rule that this one replaced, if any) come from the `Rule`; function,
    cell, counted, chapter and execution from the chapter that registers it.
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
    kind: str = ""
    claim: str = ""
    model: str = ""
    rule: str = ""
    before: str = ""
    function: str = ""
    cell: str = ""
    counted: bool = True
    chapter: str = ""
    execution: int = 0

    @property
    def mark(self) -> str:
        """The verdict's sign."""
        return VERDICTS[self.verdict]

    def __str__(self) -> str:
        return f"{self.claim} {self.verdict} ({self.model}): {self.words}"


class Case(SimpleNamespace):
    """What a rule is given beside results: the claim's parameters by name, and `own`.

    own: whether the results are of the model that the claim is about.
    """

    own: bool

    def __getattr__(self, name: str) -> Any:
        raise ResultError(f"the rule wants a parameter {name!r} that book/claims.yml lacks.")


@dataclass(frozen=True)
class Change:
    """A rule that replaced another one when its numbers had been seen; both verdicts are shown.

    date: of the change; why: in words; before: the verdict by the rule that was replaced.
    """

    date: str
    why: str
    before: Callable[..., str]


#: Every rule, by the claim's id.
RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Rule:
    """The rule of one claim. words: for readers; {name} stands for a parameter in claims.yml.

    judge: from a `Case` and results to a `Record`; measure: what `Record.short` is; changed: the
    rule before this one, where its numbers were known; kind: see `Record`.
    """

    claim: str
    words: str
    judge: Callable[..., Record]
    measure: str = ""
    changed: Change | None = None
    kind: str = "number"

    def in_words(self) -> str:
        """The rule for readers, with the claim's parameters."""
        return with_minus(self.words.format(**_shown(claim(self.claim))))

    def __call__(self, *results: Any, model: str, **named: Any) -> Record:
        """The record of these results, which are of `model`.

        On a model that the claim is not about, the absence of a phenomenon is no evidence: there a
        judge may say 'not seen in this model', which on the claim's own model means 'fails'.
        """
        about = claim(self.claim)
        case = Case(**about.rule, own=about.is_about(model))
        found = self.judge(case, *results, **named)
        if found.verdict not in VERDICTS:
            raise ResultError(f"{self.claim}: {found.verdict!r} is not a verdict.")
        if found.verdict == UNDECIDED and not found.note:
            raise ResultError(f"{self.claim}: 'undecided' must say what would decide.")
        values = {name: plain_scalar(value, name) for name, value in found.values.items()}
        before, notes = "", [found.note]
        if self.changed is not None:
            before = self.changed.before(case, *results, **named)
            notes.append(
                f"rule changed after the numbers on {self.changed.date}: {self.changed.why}; by "
                f"the rule before it: {before}"
            )
        absent = found.verdict == NOT_SEEN and case.own
        return replace(
            found,
            verdict=FAILS if absent else found.verdict,
            words=filled(found.words, _shown(about) | values),
            values=values,
            note=filled("; ".join(filter(None, notes)), _shown(about) | values),
            short=filled(found.short, _shown(about) | values),
            claim=self.claim,
            model=str(model),
            rule=self.in_words(),
            before=before,
            kind=found.kind or self.kind,
        )


def rule(
    words: str, measure: str = "", changed: Change | None = None, kind: str = "number"
) -> Callable[[Callable[..., Record]], Rule]:
    """Make the `Rule` of the claim that a function is named after, k5 of K5, and enter it."""

    def made(judge: Callable[..., Record]) -> Rule:
        one = Rule(judge.__name__.upper(), words, judge, measure, changed, kind)
        RULES[one.claim] = one
        return one

    return made


def rule_of(claim_id: str) -> str:
    """The rule of a claim in words; `ResultError` where it has none."""
    if claim_id not in RULES:
        raise ResultError(f"claim {claim_id} has no rule in lnattn_book.claims.")
    return RULES[claim_id].in_words()


def not_computable(claim_id: str, model: str, why: str) -> Record:
    """The record where a model lacks what the claim needs; `why` says what."""
    return Record(NOT_COMPUTABLE, why, claim=claim_id, model=model, rule=rule_of(claim_id))


_PLACE = re.compile(r"\{(\w[^{}:!]*)((?:![rs])?(?::[^{}]*)?)\}")


def filled(text: str, values: Mapping[str, Any]) -> str:
    """A text with {name:format} replaced by values; braces around no value's name stay (LaTeX)."""

    def value(match: re.Match[str]) -> str:
        known = match[1] in values
        return f"{{0{match[2]}}}".format(values[match[1]]) if known else match[0]

    return with_minus(_PLACE.sub(value, text))


def _shown(about: Claim) -> dict[str, Any]:
    """The parameters of a claim as texts have them."""
    return {k: _Listed(v) if isinstance(v, list) else v for k, v in about.rule.items()}


class _Listed(list[Any]):
    """Values that a rule's words show as 'a, b and c', or one of them by its index."""

    def __str__(self) -> str:
        return listed_words(map(str, self))


def of_heads(flags: Iterable[Any], none: str = FAILS) -> tuple[str, str]:
    """The verdict and a phrase such as '11 of 12 heads', from one flag for each head.

    All heads: the claim holds; some: in part; none: `none`. flags may be [case head], where cases
    are assumptions about what is not known: if they lead to different verdicts, it is undecided.
    """
    cases = np.atleast_2d(np.asarray(list(flags), dtype=bool))
    if cases.size == 0:
        raise ResultError("a verdict needs at least one head.")
    heads = cases.shape[1]
    sure, possible = int(cases.all(axis=0).sum()), int(cases.any(axis=0).sum())
    found = [
        HOLDS if count == heads else HOLDS_IN_PART if count else none for count in (sure, possible)
    ]
    words = f"{sure} of {heads} heads" if sure == possible else f"{sure} to {possible} of {heads}"
    words = words if sure == possible else f"{words} heads"
    return (found[0] if found[0] == found[1] else UNDECIDED), words


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
