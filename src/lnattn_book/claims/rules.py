"""Rules: from the results of a study to the record of a claim.

`k6(spearman, model="gpt2") -> Record`. Each claim is a module, `k06` of K6: `measure` makes numbers
of results, `decide` compares them with the claim's thresholds, and `register_rule` enters both.
Thresholds and what readers are told stand in `book/claims.yml`, so that a rule has no number of its
own and can be asked again with other ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

import numpy as np

from lnattn.errors import ResultError
from lnattn_book.claims.conditions import Condition, Truths, any_of, at, every
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import Claim, claim
from lnattn_book.claims.nulls import LEVEL, NullModel
from lnattn_book.claims.trials import Trial
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
    format_measure,
    listed_words,
    total,
    with_minus,
)

#: The measures of a claim by name: numbers, arrays [head], intervals, texts.
Measures = Mapping[str, Any]
#: What is said of a claim that holds where nobody knows whether its null model meets it.
NULL_NOT_ASKED = "its null model was not asked of this model"
#: Every rule, by the claim's id.
RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class RuleContext:
    """What a rule is given beside results.

    thresholds: the claim's own, or others that are as sensible; own: whether the results are of the
    model that the claim is about.

    >>> RuleContext({"share": 0.5}, own=False)["share"]
    0.5
    """

    thresholds: Mapping[str, Any]
    own: bool

    def __getitem__(self, name: str) -> Any:
        return self.thresholds[name]

    def named(self, heads: list[int] | int, truths: Truths) -> Condition:
        """In the heads that the paper names; on other models, in some head."""
        return at(heads, truths) if self.own else any_of(truths)


class _Noted(dict[str, Any]):
    """Thresholds, and those of them that were asked for."""

    def __init__(self, thresholds: Mapping[str, Any]) -> None:
        super().__init__(thresholds)
        self.asked: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        self.asked[name] = super().__getitem__(name)
        return self.asked[name]


@dataclass(frozen=True)
class Detail:
    """A measure that decides, but is not among the numbers of a record."""

    value: Any


@dataclass(frozen=True)
class NotComputable:
    """What `measure` gives where results are too few to be judged; words: what there was."""

    words: str


@dataclass(frozen=True)
class Decision:
    """What `decide` says of measures.

    parts: conditions by the names of the parts of a compound claim, or one under ''; needs: by what
    would decide, conditions without which nothing is decided; not_seen: whether what does not hold
    is merely not seen, on models that the claim is not about (None: as the rule says); more:
    measures that thresholds make.
    """

    parts: Mapping[str, Condition | Truths]
    needs: Mapping[str, Condition | Truths] = field(default_factory=dict)
    not_seen: bool | None = None
    more: Measures = field(default_factory=dict)

    @classmethod
    def of(cls, decided: Decision | Mapping[str, Any] | Condition | Truths) -> Decision:
        """Of parts alone, or of the one condition of a claim that has no parts."""
        if isinstance(decided, Decision):
            return decided
        return cls({"": decided} if isinstance(decided, Condition | Truths) else decided)


@dataclass(frozen=True)
class Effect:
    """The measure that is shown beside a verdict.

    of: its name; pick: which head of an array, else the median of all; null: what chance gives, a
    number or the name of a measure; n: the name of the measure that says how many were judged;
    exact: nothing is drawn, so that no interval is missing.
    """

    of: str
    unit: str = ""
    null: str | float | int | None = None
    n: str | None = None
    pick: Literal["median", "largest", "least"] = "median"
    exact: bool = False

    def fields(self, measures: Measures) -> dict[str, Any]:
        """The fields of a record that show it."""
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
        if isinstance(null, str):
            null = float(Interval.of(measures[null]).value)
        return {**effect_fields(shown, self.unit, null, n), "exact": self.exact}


Measure = Callable[..., "dict[str, Any] | NotComputable"]
Decide = Callable[[Measures, RuleContext], "Decision | Mapping[str, Any] | Condition | Truths"]


@dataclass(frozen=True)
class Rule:
    """The rule of one claim.

    measure: from a `RuleContext` and results to measures by name; decide: from measures and a
    `RuleContext` to what holds of them; effect: what is shown beside the verdict; not_seen: see
    `Decision`; null_model: what learnt nothing, of which the rule is asked as well (None: of what
    only a mistake can break); trials: made-up results and their verdicts (None: they stand with the
    study's test); unsure: what would decide, where it is not what the claim's texts say.
    """

    claim: str
    measure: Measure
    decide: Decide
    effect: Effect | None = None
    not_seen: bool = False
    null_model: NullModel | None = None
    trials: Callable[[], list[Trial]] | None = None
    unsure: str = ""

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
        about = claim(self.claim)
        own = about.is_about(model)
        asked_before: list[tuple[Mapping[str, Any], Measures | NotComputable, list[Measures]]] = []

        def measured(
            thresholds: Mapping[str, Any],
        ) -> tuple[Measures | NotComputable, list[Measures]]:
            # Most measures ask for no threshold, and to draw the null model's takes longest.
            for asked, measures, nulls in asked_before:
                if all(thresholds[name] == value for name, value in asked.items()):
                    return measures, nulls
            noted = _Noted(thresholds)
            measures = self.measure(RuleContext(noted, own=own), *results, **named)
            nulls = []
            if not isinstance(measures, NotComputable):
                nulls = self.null_measures(measures, model)
            asked_before.append((noted.asked, measures, nulls))
            return measures, nulls

        def judged(thresholds: Mapping[str, Any]) -> Record:
            measures, nulls = measured(thresholds)
            if isinstance(measures, NotComputable):
                return Record(NOT_COMPUTABLE, measures.words)
            return self.judge(measures, RuleContext(thresholds, own=own), nulls)

        record = judged(about.rule)
        before = about.changed.get("before", {}).get(model, "")
        return replace(
            record,
            note="; ".join(filter(None, (record.note, before and _changed(about, before)))),
            claim=self.claim,
            model=str(model),
            rule=self.in_words(),
            before=before,
            stands=self._stands(record, judged),
            kind=about.kind,
        )

    def _stands(
        self, record: Record, judged: Callable[[Mapping[str, Any]], Record]
    ) -> tuple[int, int] | None:
        """With how many combinations of sensible thresholds the verdict is the same, and of how
        many."""
        about = claim(self.claim)
        if not about.grid or record.verdict == NOT_COMPUTABLE:
            return None
        choices = [
            dict(zip(about.grid, values, strict=True)) for values in product(*about.grid.values())
        ]
        same = sum(judged({**about.rule, **choice}).verdict == record.verdict for choice in choices)
        return same, len(choices)

    def null_measures(self, measures: Measures, model: str) -> list[Measures]:
        """What is measured of the null model, draw by draw; [] where it was not asked."""
        if self.null_model is None:
            return []
        return self.null_model.measures(self.claim, model, measures)

    def judge(
        self, measures: Measures, context: RuleContext, nulls: Sequence[Measures] = ()
    ) -> Record:
        """The record that measures give, before the model and the rule are named.

        nulls: measures of the null model. A part that holds in it as well, in more than one of
        twenty draws, is undecided; where another part holds which the null does not meet, the
        verdict is that of the others.
        """
        about = claim(self.claim)
        decision = Decision.of(self.decide(measures, context))
        measures = {**measures, **decision.more}
        otherwise = self._otherwise(decision, context)
        missing = [what for what, need in decision.needs.items() if _condition(need).truth < 1]
        null = self._of_null(nulls, context)
        leaves = []
        beyond_null = []
        for name, part in decision.parts.items():
            condition = _condition(part)
            verdict = UNDECIDED if missing else _verdict(condition.truth, otherwise)
            words = _found(about, name, condition, measures)
            met_by_null = verdict == HOLDS and null.meets(name)
            if met_by_null:
                verdict = UNDECIDED
                words = f"{words}, which the null model meets as well"
            shown = name if context.own else name.replace("the heads named", "some head")
            leaves.append(Leaf(shown, verdict, words))
            beyond_null += [] if met_by_null else [leaves[-1]]
        verdict = (
            total(beyond_null)
            if any(leaf.verdict == HOLDS for leaf in beyond_null)
            else total(leaves)
        )
        note = _filled(about.texts.get("note", ""), measures)
        if verdict == UNDECIDED:
            by_null = len(beyond_null) < len(leaves)
            would = missing or [
                "a measure that the null model does not meet"
                if by_null
                else self.unsure or _filled(about.texts.get("unsure", ""), measures)
            ]
            if not any(would):
                raise ResultError(f"{about.id}: 'undecided' must say what would decide.")
            note = "; ".join(filter(None, (note, f"{listed_words(would)} would decide")))
        elif verdict in (HOLDS, HOLDS_IN_PART) and self.null_model is not None and not nulls:
            note = "; ".join(filter(None, (note, NULL_NOT_ASKED)))
        more: dict[str, Any] = {"values": dict(_numbers(measures)), "note": note}
        if self.effect is not None:
            more |= self.effect.fields(measures)
        more["short"] = _short(about, leaves, measures, more.get("estimate"))
        more |= null.fields(self.null_model)
        words = leaves[0].words
        if list(decision.parts) != [""]:
            words = "; ".join(f"{leaf.name}: {leaf.words}" for leaf in leaves)
            more["leaves"] = tuple(leaves)
        return Record(verdict, words, **more)

    def _otherwise(self, decision: Decision, context: RuleContext) -> str:
        """The verdict on a part that does not hold."""
        not_seen = self.not_seen if decision.not_seen is None else decision.not_seen
        return NOT_SEEN if not_seen and not context.own else FAILS

    def _of_null(self, nulls: Sequence[Measures], context: RuleContext) -> OfNull:
        """What the rule says of each draw of the null model."""
        holding: dict[str, int] = {}
        verdicts = []
        for measures in nulls:
            decision = Decision.of(self.decide(measures, context))
            otherwise = self._otherwise(decision, context)
            leaves = []
            for name, part in decision.parts.items():
                verdict = _verdict(_condition(part).truth, otherwise)
                holding[name] = holding.get(name, 0) + (verdict == HOLDS)
                leaves.append(Leaf(name, verdict, ""))
            verdicts.append(total(leaves))
        return OfNull(holding, tuple(verdicts))


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


def register_rule(
    claim_id: str,
    measure: Measure,
    decide: Decide,
    *,
    effect: Effect | None = None,
    not_seen: bool = False,
    null_model: NullModel | None = None,
    trials: Callable[[], list[Trial]] | None = None,
) -> Rule:
    """Enter and return the `Rule` of a claim of `book/claims.yml`; parameters as there."""
    RULES[claim_id] = Rule(claim_id, measure, decide, effect, not_seen, null_model, trials)
    return RULES[claim_id]


def not_computable(claim_id: str, model: str, why: str) -> Record:
    """The record where a model lacks what the claim needs; `why` says what."""
    about = claim(claim_id)
    words = RULES[claim_id].in_words()
    return Record(NOT_COMPUTABLE, why, claim=claim_id, model=model, rule=words, kind=about.kind)


def _condition(part: Condition | Truths) -> Condition:
    return every(part) if isinstance(part, Truths) else part


def _verdict(truth: float, otherwise: str) -> str:
    """The verdict on a part; otherwise: that on one which does not hold."""
    if np.isnan(truth):
        return NOT_COMPUTABLE
    return {1.0: HOLDS, 0.0: otherwise}.get(truth, UNDECIDED)


# --- words --------------------------------------------------------------------------------------


def _changed(about: Claim, before: str) -> str:
    """That a rule was changed after its numbers, and the verdict of the one before it."""
    said = "rule changed after the numbers on {date}: {why}".format(**about.changed)
    return f"{said}; by the rule before it: {before}"


def _found(about: Claim, name: str, condition: Condition, measures: Measures) -> str:
    """What was found of a part: its text with numbers, or in how many heads it holds."""
    texts = about.texts.get("found", {})
    template = texts.get(name, "") if isinstance(texts, Mapping) else ("" if name else texts)
    if template:
        return _filled(template, measures)
    if not condition.truths.ndim:
        raise ResultError(f"{about.id} has no text for what was found of {name!r}.")
    return _count(condition, about.texts.get("each", "heads"))


def _count(condition: Condition, things: str) -> str:
    """'2 of 8 heads (4 and 7)': of how many things a condition holds, and of which.

    Of one thing alone 'yes', 'no' or 'open'; where intervals leave some open, how many for sure.
    """
    asked = [place for place in condition.asked if not np.isnan(condition.truths[place])]
    if not asked:
        return "not asked"
    sure, possible = condition.numbers
    if len(asked) == 1:
        return "open" if sure < possible else "yes" if sure else "no"
    number = f"{sure}" if sure == possible else f"{sure} for sure, at most {possible}"
    holding = [str(place) for place in asked if condition.truths[place] == 1]
    few = 0 < len(holding) < min(max(len(asked), 3), 9)
    which = f" ({listed_words(holding)})" if few else ""
    return f"{number} of {len(asked)} {things}{which}"


def _short(about: Claim, leaves: list[Leaf], measures: Measures, estimate: float | None) -> str:
    """The one number by which models are set side by side, if the claim has one."""
    if "short" in about.texts:
        met = leaves[-1].words.split(" (")[0]
        return _filled(about.texts["short"], {**measures, "met": met})
    if about.measure and estimate is not None:
        return with_minus(f"{estimate:,.0f}" if abs(estimate) >= 50 else f"{estimate:.2f}")
    return ""


def _numbers(measures: Measures) -> Any:
    """Names and numbers of the measures: of arrays the least and the most."""
    for name, measure in measures.items():
        if isinstance(measure, str | Detail):
            continue
        value = np.asarray(Interval.of(measure).value, dtype=float)
        clear = name.replace("_", " ")
        known = value[np.isfinite(value)]
        if value.ndim and known.size:
            yield f"{clear}, least", float(known.min())
            yield f"{clear}, most", float(known.max())
        elif known.size:
            yield clear, float(value)


def _filled(template: str, measures: Measures) -> str:
    return with_minus(template.format(**{k: _Formatted(v) for k, v in measures.items()}))


class _Formatted:
    """A measure that a template can format."""

    def __init__(self, measure: Any) -> None:
        self.measure = measure

    def __format__(self, spec: str) -> str:
        return format_measure(self.measure, spec)


class _Listed(list[Any]):
    """Values that a rule's words show as 'a, b and c', or one of them by its index."""

    def __str__(self) -> str:
        return listed_words(map(str, self))
