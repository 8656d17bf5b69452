"""Rules: from the results of a study to the record of a claim.

`k6(spearman, model="gpt2") -> Record`. A rule first measures, by a function named after its claim
or by taking results as they are; what its measures must be, what readers are told and what other
thresholds would be as sensible stands in `book/claims.yml` (`judged`, see `Claim`). So a rule has
no number of its own, and can be asked again with other ones.

A condition such as 'any skill > 0 and rho < -0.1' compares measures with limits and says for how
many values it must hold: 'all' (if it says nothing), 'any', 'most' (more than half), '3 of', or
'at [1, 7]', the places named. Its truth is 1, 0, or ½ where an interval holds the limit; 'and' and
'all' are the least of truths, 'any' is the largest (Kleene's logic). What is NaN was not asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from operator import eq, ge, gt, le, lt
from types import SimpleNamespace
from typing import Any

import numpy as np

from lnattn.errors import ResultError
from lnattn_book.claims.listed import Claim, claim
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    Between,
    Leaf,
    Record,
    Shown,
    listed_words,
    size,
    total,
    with_minus,
)

#: 'named [1, 7]': in the heads that the paper names, and on other models in some head.
_NAMED = re.compile(r"named (\[[\d, ]+\]|\d+) ")
#: What compares a measure with a limit.
_SIGNS = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq}
#: For how many of the values a condition holds, and what it compares.
_PARTS = re.compile(r"(?:(all|any|most|\d+ of|at \[[\d, ]+\]) )?(.+)")


#: What a measure is given beside results: the claim's parameters by name, and `own`, whether the
#: results are of the model that the claim is about.
Case = SimpleNamespace
#: Every rule, by the claim's id.
RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Rule:
    """The rule of one claim.

    measure: from a `Case` and results to measures by name (numbers, arrays [head], `Between`), or
    to a whole `Record` where there is nothing to compare; None takes results as they are.
    """

    claim: str
    measure: Callable[..., dict[str, Any] | Record] | None = None

    def in_words(self) -> str:
        """The rule for readers, with the claim's parameters."""
        about = claim(self.claim)
        shown = {k: _Listed(v) if isinstance(v, list) else v for k, v in about.rule.items()}
        return with_minus(about.words.format(**shown))

    def __call__(self, *results: Any, model: str, **named: Any) -> Record:
        """The record of these results, which are of `model`.

        On a model that the claim is not about, the absence of a phenomenon is no evidence: there a
        claim may be 'not seen in this model' that on its own model 'fails'.
        """
        about, note, stands = claim(self.claim), "", None

        def judged(thresholds: Mapping[str, Any]) -> Record:
            case = Case(**thresholds, own=about.is_about(model))
            if self.measure is not None:
                found = self.measure(case, *results, **named)
            else:
                takes = about.judged.get("takes", "").split()
                found = dict(zip(takes, results, strict=False)) | named
            return found if isinstance(found, Record) else judge(about, case, found)

        found = judged(about.rule)
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
            note="; ".join(filter(None, (found.note, note))),
            claim=self.claim,
            model=str(model),
            rule=self.in_words(),
            before=before,
            stands=stands,
            kind=about.kind,
        )


def rule(measure: Callable[..., dict[str, Any] | Record]) -> Rule:
    """Make the `Rule` of the claim that a function is named after, k5 of K5, and enter it."""
    return stated(measure.__name__.upper(), measure)


def stated(claim_id: str, measure: Callable[..., dict[str, Any] | Record] | None = None) -> Rule:
    """Enter the `Rule` of a claim whose results are its measures, or need this one first."""
    RULES[claim_id] = Rule(claim_id, measure)
    return RULES[claim_id]


def not_computable(claim_id: str, model: str, why: str) -> Record:
    """The record where a model lacks what the claim needs; `why` says what."""
    about, words = claim(claim_id), RULES[claim_id].in_words()
    return Record(NOT_COMPUTABLE, why, claim=claim_id, model=model, rule=words, kind=about.kind)


# --- conditions --------------------------------------------------------------------------------


def truths(condition: str, measures: Mapping[str, Any]) -> np.ndarray:
    """The truth of each comparison joined by 'and', for each value, before any counting."""
    _, rest = _parts(condition)
    found: Any = np.float64(1)
    for one in rest.split(" and "):
        name, *compared = one.split(" ")
        if name not in measures:
            raise ResultError(f"{condition!r} asks for {name}, which is not measured.")
        value, low, high = map(np.asarray, Between.of(measures[name]))
        if compared:
            sign, limit = _SIGNS[compared[0]], compared[1]
            than = float(Between.of(measures[limit]).value) if limit in measures else float(limit)
            true = (np.asarray(sign(low, than), float) + sign(high, than)) / 2
        else:
            true = value.astype(np.float64)
        found = np.minimum(found, np.where(np.isnan(value), np.nan, true))
    return np.asarray(found)


def truth(condition: str, measures: Mapping[str, Any]) -> float:
    """1, ½ or 0 for a whole condition; NaN where nothing could be asked."""
    how, _ = _parts(condition)
    found = np.atleast_1d(truths(condition, measures))
    found = found[places(condition, found)]
    found = np.sort(found[~np.isnan(found)])
    if not found.size:
        return np.nan
    least = {"any": 1, "most": found.size // 2 + 1}.get(how, found.size)
    least = int(how[:-3]) if how.endswith(" of") else least
    return float(found[-least]) if least <= found.size else 0.0


def places(condition: str, values: np.ndarray) -> list[int]:
    """Which of the values a condition is about: those that it names, or all."""
    how, _ = _parts(condition)
    return [int(one) for one in re.findall(r"\d+", how)] if "at" in how else [*range(len(values))]


def names_of(condition: str) -> list[str]:
    """What a condition compares, in its order: measures, and limits that may be measures."""
    return [one for one in _parts(condition)[1].split(" ") if one not in ("and", *_SIGNS)]


def _parts(condition: str) -> tuple[str, str]:
    found = _PARTS.fullmatch(condition)
    if found is None:
        raise ResultError(f"{condition!r} is no condition.")
    return found[1] or "all", found[2]


# --- judging ------------------------------------------------------------------------------------


def judge(about: Claim, case: Case, measures: Mapping[str, Any]) -> Record:
    """The record that a claim's conditions give, before the model and the rule are named."""
    says, parts = about.judged, about.judged.get("leaves", {"": about.judged.get("holds", "")})
    limits = vars(case)
    absent = measures.get("absent", says.get("absent", False)) and not case.own
    note = _said(says.get("note", ""), measures)
    said = says.get("said", "")
    wanted = [
        what
        for need, what in says.get("needs", {}).items()
        if truth(need.format(**limits), measures) < 1
    ]
    met = says.get("met_by", "")
    easy = bool(met) and truth(met.format(**limits), measures) == 1
    leaves = []
    for name, condition in parts.items():
        condition = condition.format(**limits)
        if named := _NAMED.match(condition):
            where = f"at [{named[1].strip('[]')}]" if case.own else "any"
            condition = f"{where} {condition[named.end() :]}"
        known = truth(condition, measures)
        verdict = {1.0: HOLDS, 0.0: NOT_SEEN if absent else FAILS}.get(known, UNDECIDED)
        if wanted or (easy and verdict == HOLDS):
            verdict = UNDECIDED
        elif np.isnan(known):
            verdict = NOT_COMPUTABLE
        template = said.get(name, "") if isinstance(said, Mapping) else said * (not name)
        words = _said(template, measures) or _measured(condition, measures, says.get("each", ""))
        shown = name if case.own else name.replace("the heads named", "some head")
        leaves.append(Leaf(shown, verdict, words))
    verdict = total(leaves)
    if verdict == UNDECIDED or wanted:
        unsure = wanted or [_said(says.get("unsure", ""), measures)]
        if easy:
            unsure = ["a measure that the null does not meet"]
        note = "; ".join(filter(None, (note, f"{listed_words(unsure)} would decide")))
        if not any(unsure):
            raise ResultError(f"{about.id}: 'undecided' must say what would decide.")
    effect = _effect(says.get("effect", {}), measures)
    more: dict[str, Any] = {"values": dict(_numbers(measures)), "note": note, **effect}
    if "short" in says:
        more["short"] = _said(says["short"], {**measures, "met": leaves[-1].words.split(" (")[0]})
    elif about.measure and "estimate" in effect:
        more["short"] = _number(effect["estimate"])
    if list(parts) == [""]:
        return Record(verdict, leaves[0].words, **more)
    return Record.of(leaves, **more)


def _measured(condition: str, measures: Mapping[str, Any], each: str) -> str:
    """What was measured for one condition: numbers, or in how many heads it is met."""
    known = truths(condition, measures)
    if known.ndim:
        asked = [place for place in places(condition, known) if not np.isnan(known[place])]
        sure, maybe = (int((known[asked] >= least).sum()) for least in (1, 0.5))
        count = f"{sure}" if sure == maybe else f"{sure} to {maybe}"
        which = [str(place) for place in asked if known[place] == 1]
        listed = f" ({listed_words(which)})" if 0 < len(which) < min(max(len(asked), 3), 9) else ""
        return f"{count} of {len(asked)} {each or 'heads'}{listed}" if asked else "not asked"
    names = [name for name in dict.fromkeys(names_of(condition)) if name in measures]
    said = (f"{name} {Shown(measures[name]):.3g}".replace("_", " ") for name in names)
    return with_minus(", ".join(said))


def _effect(says: Mapping[str, Any], measures: Mapping[str, Any]) -> dict[str, Any]:
    """The effect's fields: of one measure, or of its median, 'max' or 'min' over heads."""
    if not says:
        return {}
    how, _, name = says["of"].rpartition(" ")
    ends = np.stack(np.broadcast_arrays(*map(np.asarray, Between.of(measures[name])))).T
    n = says.get("n") and measures[says["n"]]
    if ends.ndim > 1:
        order = np.argsort(ends[:, 0])
        n = len(ends) if n is None else n
        place = {"max": order[-1], "min": order[0]}.get(how, order[(len(order) - 1) // 2])
        ends = ends[place] if how else np.array([np.median(ends[:, 0])] * 3)
    interval = ends if ends[1] < ends[2] else ends[:1]
    null = says.get("chance")
    null = float(Between.of(measures[null]).value) if isinstance(null, str) else null
    return {**size(interval, says.get("unit", ""), null, n), "exact": says.get("exact", False)}


def _numbers(measures: Mapping[str, Any]) -> Any:
    """Names and numbers of the measures: of arrays the least and the most."""
    for name, one in measures.items():
        if isinstance(one, str | dict) or name == "absent":
            continue
        value, clear = np.asarray(Between.of(one).value, dtype=np.float64), name.replace("_", " ")
        known = value[np.isfinite(value)]
        if value.ndim and known.size:
            yield f"{clear}, least", float(known.min())
            yield f"{clear}, most", float(known.max())
        elif known.size:
            yield clear, float(value)


def _said(template: str, measures: Mapping[str, Any]) -> str:
    return with_minus(template.format(**{name: Shown(one) for name, one in measures.items()}))


def _number(value: float) -> str:
    return with_minus(f"{value:,.0f}" if abs(value) >= 50 else f"{value:.2f}")


class _Listed(list[Any]):
    """Values that a rule's words show as 'a, b and c', or one of them by its index."""

    def __str__(self) -> str:
        return listed_words(map(str, self))
