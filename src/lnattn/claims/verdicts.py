"""Verdicts on claims, and what every rule that gives one shares.

A rule is a function from the results of a study to an `Outcome`, marked with `@rule(...)`. Its
thresholds stand in `book/claims.yml`, and nowhere else; the decorator hands them in and puts them
into the rule's own words, so that page and computation cannot part. What is called is then

    k6(spearman, model="gpt2") -> Verdict

and chapters, the survey of models and the claims page show that one verdict.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from lnattn.claims.listed import Claim, claim
from lnattn.errors import ResultError
from lnattn.storage import plain_scalar

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
class Outcome:
    """What a rule makes of results, before it is known which model they are of.

    verdict: one of `VERDICTS`; words: what was found; values: the numbers behind the words;
    note: what limits the verdict, and for 'undecided' what would decide; short: the one number by
    which models are set side by side.
    """

    verdict: str
    words: str
    values: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    short: str = ""


@dataclass(frozen=True)
class Verdict:
    """An `Outcome` with the claim and the model that it is about, and the rule in words."""

    claim: str
    model: str
    verdict: str
    words: str
    rule: str
    values: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    short: str = ""

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


@runtime_checkable
class Rule(Protocol):
    """A claim's rule as it is called; words, measure: those given to `rule`."""

    words: str
    measure: str
    __signature__: inspect.Signature

    def __call__(self, *results: Any, model: str, **named: Any) -> Verdict: ...


#: Every rule, by the claim's id.
RULES: dict[str, Rule] = {}


def rule(words: str, measure: str = "") -> Callable[[Callable[..., Outcome]], Rule]:
    """Make the rule of the claim that a function is named after, k5 of K5.

    words: the rule for readers; {name} stands for a parameter of the claim in `book/claims.yml`.
    measure: what the one number is by which models are set side by side (`Outcome.short`).
    The function gets a `Case` first. The rule made of it has no such argument and one more,
    `model`: the name of the model that the results are of. On a model that the claim is not about,
    the absence of a phenomenon is no evidence, so there a rule may say 'not seen in this model';
    on the claim's own model that means 'fails'.
    """

    def mark(function: Callable[..., Outcome]) -> Rule:
        claim_id = function.__name__.upper()

        def judge(*results: Any, model: str, **named: Any) -> Verdict:
            about = claim(claim_id)
            case = Case(**(about.rule or {}), own=about.is_about(model))
            found = function(case, *results, **named)
            if found.verdict not in VERDICTS:
                raise ResultError(f"{claim_id}: {found.verdict!r} is not a verdict.")
            if found.verdict == UNDECIDED and not found.note:
                raise ResultError(f"{claim_id}: 'undecided' must say what would decide.")
            absent = found.verdict == NOT_SEEN and case.own
            return Verdict(
                claim=claim_id,
                model=str(model),
                verdict=FAILS if absent else found.verdict,
                words=with_minus(found.words),
                rule=in_words(about, words),
                values={name: plain_scalar(value, name) for name, value in found.values.items()},
                note=with_minus(found.note),
                short=with_minus(found.short),
            )

        asked = inspect.signature(function)
        _case, *others = asked.parameters.values()
        name = inspect.Parameter("model", inspect.Parameter.KEYWORD_ONLY, annotation=str)
        judge.__name__, judge.__qualname__ = function.__name__, function.__qualname__
        judge.__module__, judge.__doc__ = function.__module__, function.__doc__
        made = cast(Rule, judge)  # a function, since the API reference shows functions only
        made.__signature__ = asked.replace(parameters=[*others, name], return_annotation=Verdict)
        made.words, made.measure = words, measure
        RULES[claim_id] = made
        return made

    return mark


def in_words(about: Claim, words: str) -> str:
    """A rule for readers, with the claim's parameters put in."""
    shown = {
        name: _Listed(value) if isinstance(value, list) else value
        for name, value in (about.rule or {}).items()
    }
    return with_minus(words.format(**shown))


class _Listed(list[Any]):
    """Values that a rule's words show as 'a, b and c', or one of them by its index."""

    def __str__(self) -> str:
        return listed_words(map(str, self))


def not_computable(claim_id: str, model: str, why: str) -> Verdict:
    """The verdict where a model lacks what the claim needs; `why` says what."""
    return Verdict(claim_id, model, NOT_COMPUTABLE, why, rule_of(claim_id))


def rule_of(claim_id: str) -> str:
    """The rule of a claim in words; `ResultError` where it has none."""
    if claim_id not in RULES:
        raise ResultError(f"claim {claim_id} has no rule in lnattn.claims.")
    return in_words(claim(claim_id), RULES[claim_id].words)


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
    found = [_by_count(count, heads, none) for count in (sure, possible)]
    words = f"{sure} of {heads} heads"
    if sure != possible:
        words = f"{sure} to {possible} of {heads} heads"
    return (found[0] if found[0] == found[1] else UNDECIDED), words


def _by_count(count: int, of: int, none: str) -> str:
    return HOLDS if count == of else HOLDS_IN_PART if count else none


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
