"""Rules: from the results of a study to the record of a claim.

`k6(spearman=trends, model="gpt2") -> Record`. A claim is a function of its source's module: it
compares measures with thresholds. `rule` makes it a `Rule`, with what measures, what learnt nothing
and which number is shown. Thresholds and what readers are told stand in `book/claims.yml`, so that
a rule has no number of its own and can be asked again with other ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np

from lnattn.errors import ResultError
from lnattn_book.claims.conditions import Condition, Truths, any_of, at, every
from lnattn_book.claims.found import filled, found, in_words, numbers, short
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import Claim, claim
from lnattn_book.claims.measures import Measures
from lnattn_book.claims.nulls import LEVEL, NONE, NullModel
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    Leaf,
    Record,
    effect_fields,
    listed_words,
    total,
)

#: What is said of a claim that holds where nobody knows whether its null model meets it.
NULL_NOT_ASKED = "its null model was not asked of this model"


# ---- What a rule is given, and what it says ------------------------------------------------------


@dataclass(frozen=True)
class At:
    """Where a rule is asked: thresholds, the claim's own or others that are as sensible, by name.

    own: whether results are of the model that the claim is about; asked: thresholds that were.

    >>> At({"share": 0.5}).share
    0.5
    """

    thresholds: Mapping[str, Any]
    own: bool = False
    asked: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.thresholds:
            raise AttributeError(name)
        self.asked[name] = self.thresholds[name]
        return self.asked[name]

    def in_named(self, heads: list[int] | int, truths: Truths) -> Condition:
        """In the heads that the paper names; on other models, in some head."""
        return at(heads, truths) if self.own else any_of(truths)


@dataclass(frozen=True)
class NotComputable:
    """What is measured where results are too few to be judged; words: what there was."""

    words: str


#: What a rule says: the one condition of a claim, or those of its parts by name.
Parts = Mapping[str, Condition | Truths] | Condition | Truths


class Decision:
    """What a rule says, where it says more than conditions.

    needs: by what would decide, conditions without which nothing is decided; not_seen: whether what
    does not hold is merely not seen, on models that the claim is not about (None: as the rule
    says); measures: what thresholds make of measures.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        needs: Mapping[str, Condition | Truths] | None = None,
        not_seen: bool | None = None,
        **measures: Any,
    ) -> None:
        self.parts = {"": parts} if isinstance(parts, Condition | Truths) else parts
        self.needs = needs or {}
        self.not_seen = not_seen
        self.measures = measures


#: What chance gives of an effect is what the null model has.
OF_THE_NULL = "its null model"


@dataclass(frozen=True)
class Effect:
    """The measure that is shown beside a verdict.

    of: its name; pick: which head of an array, else the median of all; null: what chance gives, a
    number, the name of a measure, or `OF_THE_NULL`, for what the null model has in the median; n:
    the name of the measure that says how many were judged; exact: nothing is drawn, so that no
    interval is missing.
    """

    of: str
    unit: str = ""
    null: str | float | int | None = None
    n: str | None = None
    pick: Literal["median", "largest", "least"] = "median"
    exact: bool = False

    def fields(
        self, measures: Mapping[str, Any], nulls: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """The fields of a record that show it. nulls: measures of the null model, draw by draw."""
        interval = Interval.of(measures[self.of])
        ends = np.stack(np.broadcast_arrays(*map(np.asarray, interval))).T
        n = None if self.n is None else int(Interval.of(measures[self.n]).value)
        if ends.ndim > 1:
            n = len(ends) if n is None else n
            order = np.argsort(ends[:, 0])
            picked = {"largest": ends[order[-1]], "least": ends[order[0]]}
            ends = picked.get(self.pick, np.full(3, np.median(ends[:, 0])))
        shown = ends if ends[1] < ends[2] else ends[:1]
        null: Any = self.null
        if null == OF_THE_NULL:
            drawn = [replace(self, null=None).fields(of_draw)["estimate"] for of_draw in nulls]
            null = float(np.median(drawn)) if drawn else None
        elif isinstance(null, str):
            null = float(Interval.of(measures[null]).value)
        return {**effect_fields(shown, self.unit, null, n), "exact": self.exact}


# ---- Rules ---------------------------------------------------------------------------------------

Measure = Callable[..., Mapping[str, Any] | NotComputable]
Decide = Callable[[Measures, At], Decision | Parts]


def as_given(at: At, **measures: Any) -> dict[str, Any]:
    """Results that are measures already, by name."""
    return measures


@dataclass(frozen=True)
class Rule:
    """The rule of one claim.

    decide: what holds of measures; measure: makes them of results; effect: what is shown beside the
    verdict; null: what learnt nothing, of which the rule is asked as well (None: of what only a
    mistake can break); not_seen: see `Decision`; unsure: what would decide, where it is not what
    the claim's texts say.
    """

    claim: str
    decide: Decide
    measure: Measure = as_given
    effect: Effect | None = None
    null: NullModel | None = None
    not_seen: bool = False
    unsure: str = ""

    def measures(self, *results: Any, **named: Any) -> Mapping[str, Any]:
        """What is measured of results by the claim's thresholds; {} where that is nothing."""
        measured = self.measure(At(claim(self.claim).rule), *results, **named)
        return {} if isinstance(measured, NotComputable) else measured

    def __call__(self, *results: Any, model: str, **named: Any) -> Record:
        """The record of these results, which are of `model`.

        On a model that the claim is not about, the absence of a phenomenon is no evidence: there a
        claim may be 'not seen in this model' that on its own model 'fails'.
        """
        about = claim(self.claim)
        own = about.is_about(model)
        known: list[tuple[dict[str, Any], Mapping[str, Any] | NotComputable, list[Any]]] = []

        def measured(thresholds: Mapping[str, Any]) -> tuple[Any, list[Any]]:
            # Most measures ask for no threshold, and to draw the null model's takes longest.
            for asked, measures, nulls in known:
                if all(thresholds[name] == value for name, value in asked.items()):
                    return measures, nulls
            place = At(thresholds, own)
            measures = self.measure(place, *results, **named)
            nulls = []
            if not isinstance(measures, NotComputable):
                nulls = self.null_measures(measures, model, place, *results, **named)
            known.append((place.asked, measures, nulls))
            return measures, nulls

        def judged(thresholds: Mapping[str, Any]) -> Record:
            measures, nulls = measured(thresholds)
            if isinstance(measures, NotComputable):
                return Record(NOT_COMPUTABLE, measures.words)
            return self.judge(measures, At(thresholds, own), nulls)

        record = judged(about.rule)
        before = about.changed.get("before", {}).get(model, "")
        return replace(
            record,
            note="; ".join(filter(None, (record.note, before and _changed(about, before)))),
            claim=self.claim,
            model=str(model),
            rule=in_words(about),
            before=before,
            stands=_stands(about, record, judged),
            kind=about.kind,
        )

    def null_measures(
        self, measures: Mapping[str, Any], model: str, place: At, *results: Any, **named: Any
    ) -> list[Mapping[str, Any]]:
        """What is measured of the null model, draw by draw; [] where it was not asked."""
        if self.null is None:
            return []
        again: Callable[..., Any] = partial(self.measure, place, **named)
        return self.null.measures(self.claim, model, measures, again, results)

    def judge(
        self, measures: Mapping[str, Any], place: At, nulls: Sequence[Mapping[str, Any]] = ()
    ) -> Record:
        """The record that measures give, before the model and the rule are named.

        nulls: measures of the null model. A part that holds in it as well, in more than one of
        twenty draws, is undecided; where another part holds which the null does not meet, the
        verdict is that of the others.
        """
        about = claim(self.claim)
        decision = self._said(measures, place)
        measures = {**measures, **decision.measures}
        otherwise = self._otherwise(decision, place)
        missing = [what for what, need in decision.needs.items() if _condition(need).truth < 1]
        null = self.of_null(nulls, place)
        leaves = []
        beyond_null = []
        for name, part in decision.parts.items():
            condition = _condition(part)
            verdict = UNDECIDED if missing else _verdict(condition.truth, otherwise)
            words = found(about, name, condition, measures)
            met_by_null = verdict == HOLDS and null.meets(name)
            if met_by_null:
                verdict = UNDECIDED
                words = f"{words}, which the null model meets as well"
            shown = name if place.own else name.replace("the heads named", "some head")
            leaves.append(Leaf(shown, verdict, words))
            beyond_null += [] if met_by_null else [leaves[-1]]
        some_hold = any(leaf.verdict == HOLDS for leaf in beyond_null)
        verdict = total(beyond_null if some_hold else leaves)
        note = filled(about.texts.get("note", ""), measures)
        if verdict == UNDECIDED:
            by_null = len(beyond_null) < len(leaves)
            would = missing or [
                "a measure that the null model does not meet"
                if by_null
                else self.unsure or filled(about.texts.get("unsure", ""), measures)
            ]
            if not any(would):
                raise ResultError(f"{about.id}: 'undecided' must say what would decide.")
            note = "; ".join(filter(None, (note, f"{listed_words(would)} would decide")))
        elif verdict in (HOLDS, HOLDS_IN_PART) and self.null not in (None, NONE) and not nulls:
            note = "; ".join(filter(None, (note, NULL_NOT_ASKED)))
        more: dict[str, Any] = {"values": numbers(measures), "note": note}
        if self.effect is not None:
            more |= self.effect.fields(measures, nulls)
        more["short"] = short(about, leaves, measures, more.get("estimate"))
        more |= null.fields(self.null)
        words = leaves[0].words
        if list(decision.parts) != [""]:
            words = "; ".join(f"{leaf.name}: {leaf.words}" for leaf in leaves)
            more["leaves"] = tuple(leaves)
        return Record(verdict, words, **more)

    def _said(self, measures: Mapping[str, Any], place: At) -> Decision:
        said = self.decide(Measures(measures), place)
        return said if isinstance(said, Decision) else Decision(said)

    def _otherwise(self, decision: Decision, place: At) -> str:
        """The verdict on a part that does not hold."""
        not_seen = self.not_seen if decision.not_seen is None else decision.not_seen
        return NOT_SEEN if not_seen and not place.own else FAILS

    def of_null(self, nulls: Iterable[Mapping[str, Any]], place: At) -> OfNull:
        """What the rule says of each draw of the null model."""
        holding: Counter[str] = Counter()
        verdicts = []
        for measures in nulls:
            decision = self._said(measures, place)
            otherwise = self._otherwise(decision, place)
            leaves = []
            for name, part in decision.parts.items():
                verdict = _verdict(_condition(part).truth, otherwise)
                holding[name] += verdict == HOLDS
                leaves.append(Leaf(name, verdict, ""))
            verdicts.append(total(leaves))
        return OfNull(holding, tuple(verdicts))


def rule(
    claim_id: str,
    *,
    measure: Measure = as_given,
    effect: Effect | None = None,
    null: NullModel | None = None,
    not_seen: bool = False,
    unsure: str = "",
) -> Callable[[Decide], Rule]:
    """What makes a function the rule of a claim of `book/claims.yml`; parameters as of `Rule`."""
    return lambda decide: Rule(claim_id, decide, measure, effect, null, not_seen, unsure)


@dataclass(frozen=True)
class OfNull:
    """What a rule says of a null model: in how many draws each part holds, and every verdict."""

    holding: Mapping[str, int]
    verdicts: tuple[str, ...]

    def meets(self, part: str) -> bool:
        """Whether a part of the claim holds in more than one of twenty draws."""
        return self.holding.get(part, 0) > LEVEL * len(self.verdicts)

    def fields(self, null_model: NullModel | None) -> dict[str, Any]:
        """The fields of a record: which null model, its verdict, and in how many draws."""
        if null_model is None:
            return {}
        if null_model is NONE:
            return {"null_model": NONE.words}
        if not self.verdicts:
            return {"null_model": null_model.words, "null_verdict": "not asked of this model"}
        draws = Counter(self.verdicts)
        often = [
            verdict
            for verdict in (HOLDS, HOLDS_IN_PART)
            if draws[verdict] > LEVEL * len(self.verdicts)
        ]
        verdict = often[0] if often else draws.most_common(1)[0][0]
        return {
            "null_model": null_model.words,
            "null_verdict": verdict,
            "null_draws": (draws[verdict], len(self.verdicts)),
        }


def not_computable(claim_id: str, model: str, why: str) -> Record:
    """The record where a model lacks what the claim needs; `why` says what."""
    about = claim(claim_id)
    words = in_words(about)
    return Record(NOT_COMPUTABLE, why, claim=claim_id, model=model, rule=words, kind=about.kind)


def _stands(
    about: Claim, record: Record, judged: Callable[[Mapping[str, Any]], Record]
) -> tuple[int, int] | None:
    """With how many combinations of sensible thresholds the verdict is the same, and of how
    many."""
    if not about.grid or record.verdict == NOT_COMPUTABLE:
        return None
    choices = [
        dict(zip(about.grid, values, strict=True)) for values in product(*about.grid.values())
    ]
    same = sum(judged({**about.rule, **choice}).verdict == record.verdict for choice in choices)
    return same, len(choices)


def _condition(part: Condition | Truths) -> Condition:
    return every(part) if isinstance(part, Truths) else part


def _verdict(truth: float, otherwise: str) -> str:
    """The verdict on a part; otherwise: that on one which does not hold."""
    if np.isnan(truth):
        return NOT_COMPUTABLE
    return {1.0: HOLDS, 0.0: otherwise}.get(truth, UNDECIDED)


def _changed(about: Claim, before: str) -> str:
    """That a rule was changed after its numbers, and the verdict of the one before it."""
    said = "rule changed after the numbers on {date}: {why}".format(**about.changed)
    return f"{said}; by the rule before it: {before}"
