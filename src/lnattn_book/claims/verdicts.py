"""Records of what was found about a claim, and the rules that give their verdicts.

A rule judges the results of a study: `k6(spearman, model="gpt2") -> Record`. What it says to
readers, and its thresholds, stand side by side in `book/claims.yml`; a judge has no number of its
own. Most rules have one of three shapes: `limits` (all must be met), `graded` flags (all, some,
none) and `by_interval` (on which side of 0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from lnattn.errors import ResultError
from lnattn.storage import plain_scalar
from lnattn_book.claims.listed import Claim, claim
from lnattn_book.claims.words import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    VERDICTS,
    heads_where,
    listed_words,
    of_heads,
    with_minus,
)

#: For chapters: what they need of `words` is here too.
__all__ = ["FAILS", "HOLDS", "HOLDS_IN_PART", "NOT_COMPUTABLE", "NOT_SEEN", "RULES", "UNDECIDED"]
__all__ += ["VERDICTS", "Case", "Record", "Rule", "heads_where", "limits", "listed_words"]
__all__ += ["not_computable", "of_heads", "replacing", "rule", "rule_of", "size", "with_minus"]


@dataclass(frozen=True)
class Record:
    """What was found about a claim in one model.

    verdict: one of `VERDICTS`; words: what was found; values: the numbers behind the words; note:
    what limits the verdict, and for 'undecided' what would decide; short: the one number by which
    models are set side by side. estimate, unit, interval (95 %), null (what chance or an untrained
    twin gives) and n (how many were judged): see `size`. claim, model, rule, kind and before (the
    verdict by the rule that this one replaced, if any) come from the `Rule`; function, cell,
    counted, chapter and execution from the chapter that registers it.
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

    def effect(self) -> str:
        """The estimate with unit, interval, chance and n, as far as they are known."""
        if self.estimate is None:
            return ""
        ends = self.interval and f" [{self.interval[0]:.3g}, {self.interval[1]:.3g}]"
        chance = "" if self.null is None else f", chance {self.null:.3g}"
        number = "" if self.n is None else f", n = {self.n:,}"
        unit = f" {self.unit}" if self.unit else ""
        return with_minus(f"{self.estimate:.3g}{unit}{ends or ''}{chance}{number}")


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

    def __getattr__(self, name: str) -> Any:
        raise ResultError(f"the rule wants a parameter {name!r} that book/claims.yml lacks.")


#: Every rule, by the claim's id.
RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Rule:
    """The rule of one claim. judge: from a `Case` and results to a `Record`.

    before: the verdict by the rule that this one replaced when its numbers had been seen; both are
    shown, with the date and the reason in claims.yml.
    """

    claim: str
    judge: Callable[..., Record]
    before: Callable[..., str] | None = None

    def in_words(self) -> str:
        """The rule for readers, with the claim's parameters."""
        about = claim(self.claim)
        return with_minus(about.words.format(**_shown(about)))

    def __call__(self, *results: Any, model: str, **named: Any) -> Record:
        """The record of these results, which are of `model`.

        On a model that the claim is not about, the absence of a phenomenon is no evidence: there a
        judge may say 'not seen in this model', which on the claim's own model means 'fails'.
        """
        about = claim(self.claim)
        case = Case(**about.rule, own=about.is_about(model))
        found, before = self.judge(case, *results, **named), ""
        if found.verdict not in VERDICTS:
            raise ResultError(f"{self.claim}: {found.verdict!r} is not a verdict.")
        if found.verdict == UNDECIDED and not found.note:
            raise ResultError(f"{self.claim}: 'undecided' must say what would decide.")
        notes = [found.note]
        if self.before is not None:
            before = self.before(case, *results, **named)
            notes.append(
                "rule changed after the numbers on {date}: {why}".format(**about.changed)
                + f"; by the rule before it: {before}"
            )
        return replace(
            found,
            verdict=FAILS if found.verdict == NOT_SEEN and case.own else found.verdict,
            words=with_minus(found.words),
            values={name: plain_scalar(value, name) for name, value in found.values.items()},
            note=with_minus("; ".join(filter(None, notes))),
            short=with_minus(found.short),
            claim=self.claim,
            model=str(model),
            rule=self.in_words(),
            before=before,
            kind=about.kind,
        )


def rule(judge: Callable[..., Record], before: Callable[..., str] | None = None) -> Rule:
    """Make the `Rule` of the claim that a function is named after, k5 of K5, and enter it."""
    one = Rule(judge.__name__.upper(), judge, before)
    RULES[one.claim] = one
    return one


def replacing(before: Callable[..., str]) -> Callable[[Callable[..., Record]], Rule]:
    """`rule`, where another rule stood before it, which the verdict gives too."""
    return lambda judge: rule(judge, before)


def limits(
    claim_id: str,
    names: str,
    met: Callable[[Case, SimpleNamespace], bool],
    words: str,
    note: str = "",
    effect: Callable[[SimpleNamespace], Mapping[str, Any]] = lambda _got: {},
) -> Rule:
    """The rule of an identity: holds if all its limits are met, else fails.

    names: of the results, in order; words and note: templates over the results.
    """

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
    """The rule of a claim in words; `ResultError` where it has none."""
    if claim_id not in RULES:
        raise ResultError(f"claim {claim_id} has no rule in lnattn_book.claims.")
    return RULES[claim_id].in_words()


def not_computable(claim_id: str, model: str, why: str) -> Record:
    """The record where a model lacks what the claim needs; `why` says what."""
    kind = claim(claim_id).kind
    return Record(
        NOT_COMPUTABLE, why, claim=claim_id, model=model, rule=rule_of(claim_id), kind=kind
    )


def _shown(about: Claim) -> dict[str, Any]:
    """The parameters of a claim as texts have them."""
    return {k: _Listed(v) if isinstance(v, list) else v for k, v in about.rule.items()}


class _Listed(list[Any]):
    """Values that a rule's words show as 'a, b and c', or one of them by its index."""

    def __str__(self) -> str:
        return listed_words(map(str, self))
