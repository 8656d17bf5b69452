"""The rules of the book's own claims on normalisation (chapters 10 and 11): results to verdicts.

They take up what Brody et al. 2023 leave open. All were written before the runs they judge, and
changed after them: `book/claims.yml` says why, and the verdicts give the one by the rule before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lnattn.majority.model import ARMS
from lnattn.majority.results import Experiment, lag
from lnattn_book.claims.verdicts import RULES, Case, Record, Rule, replacing, size
from lnattn_book.claims.words import FAILS, UNDECIDED, graded
from lnattn_book.exposure import exposure, lead
from lnattn_book.language_models import mean_and_interval
from lnattn_book.words import Sentiment

Pairs = Sequence[tuple[str, str]]


def _sooner_before(case: Case, runs: Experiment, pairs: Pairs) -> str:
    """The verdict by ratios of epochs to three levels, each measured to one epoch in two."""
    known = [lag(runs, *pair, accuracy=level) for pair in pairs for level in case.accuracies]
    low, high = (np.array([getattr(r, end) for r in known if r]) for end in ("low", "high"))
    if not len(low) or _seeds(runs, pairs) < case.runs:
        return UNDECIDED
    if (high < 1).any() or ((high <= case.times) & (low >= 1 / case.times)).all():
        return FAILS
    return graded(low > 1, none=UNDECIDED)


def _seeds(runs: Experiment, pairs: Pairs) -> int:
    return min(len(runs.of(arm).seeds) for pair in pairs for arm in pair)


def _better(claim_id: str, *pairs: tuple[str, str]) -> Rule:
    """The rule that arms end better than others. pairs: of arms, the one that should be worse first

    N1: does the projection help at equal norm? N2: does its direction matter? N3: does majority
    need attention that chooses? N4: does the scaling matter?
    """

    def judge(case: Case, runs: Experiment) -> Record:
        leads = {pair: end_lead(runs, *reversed(pair)) for pair in pairs}
        low, high = (np.array([one[i] for one in leads.values()]) for i in (1, 2))
        seeds, note = _seeds(runs, pairs), ""
        verdict = FAILS if (high < 0).any() else graded(low > 0, none=UNDECIDED)
        if seeds < case.runs:
            verdict, note = UNDECIDED, f"{case.runs} seeds would decide"
        elif verdict == UNDECIDED:
            note = "no difference is seen; more seeds would narrow the intervals"
        shown = "; ".join(
            f"{ARMS[better].title} less {ARMS[worse].title}: {_points(*one)}"
            for (worse, better), one in leads.items()
        )
        values = {f"{better} less {worse}": one[0] for (worse, better), one in leads.items()}
        effect = size(100 * np.array(leads[pairs[0]]), "points", 0, seeds)
        return Record(verdict, f"{shown} ({seeds} seeds)", values, note, **effect)

    RULES[claim_id] = Rule(claim_id, judge, lambda case, runs: _sooner_before(case, runs, pairs))
    return RULES[claim_id]


n1 = _better("N1", ("rms", "layernorm"))
n2 = _better("N2", ("random-normal", "layernorm"), ("learnt-normal", "layernorm"))
n3 = _better("N3", ("uniform-layernorm", "layernorm"), ("uniform-rms", "rms"))
n4 = _better("N4", ("unnormalised", "layernorm"), ("unnormalised", "rms"))


def end_lead(runs: Experiment, one: str, other: str) -> tuple[float, float, float]:
    """How much more an arm gets right at the end than another: mean over seeds, and interval."""
    of, than = runs.of(one), runs.of(other)
    common = [seed for seed in of.seeds if seed in than.seeds]
    ends = (arm.accuracy[[arm.seeds.index(seed) for seed in common], -1] for arm in (of, than))
    return mean_and_interval(np.subtract(*ends, dtype=np.float64))


#: The classifiers whose keys can be unselectable.
_UNSCALED = {"no-scaling": "without scaling", "none": "without LayerNorms"}


def _exposed(case: Case, found: Sentiment) -> dict:
    return {
        arm: exposure(found, arm, least=case.least, decides=case.decides, neutral=case.neutral)
        for arm in _UNSCALED
    }


def _n5_before(case: Case, found: Sentiment) -> str:
    """The verdict on N5 whether the classifiers learnt anything or not."""
    of = _exposed(case, found).values()
    if found.right.shape[1] < case.runs:
        return UNDECIDED
    none = FAILS if all(one.high < case.much for one in of) else UNDECIDED
    return graded((one.low > 0 and one.p < case.p for one in of), none=none)


@replacing(_n5_before)
def n5(case: Case, found: Sentiment) -> Record:
    """N5, are deciding words more exposed?"""
    of, seeds, verdict = _exposed(case, found), found.right.shape[1], _n5_before(case, found)
    idle = [_UNSCALED[arm] for arm in _UNSCALED if _right(found, arm) <= found.majority]
    note = f"{case.runs} seeds or more, or more sentences, would decide"
    if idle:
        verdict, note = UNDECIDED, f"models {' and '.join(idle)} that learn would decide"
    shown = "; ".join(
        f"{_UNSCALED[arm]} {one.rates[0]:.1%} of deciding and {one.rates[1]:.1%} of neutral words, "
        f"{_points(one.difference, one.low, one.high)}, p = {one.p:.2g}"
        for arm, one in of.items()
    )
    first = of["no-scaling"]
    return Record(
        verdict,
        f"{shown} ({first.types[0]} and {first.types[1]} words, {seeds} seeds)",
        {f"difference, {arm}": one.difference for arm, one in of.items()},
        note if verdict == UNDECIDED else "",
        **size(100 * np.array([first.difference, first.low, first.high]), "points", 0, seeds),
    )


def _right(found: Sentiment, arm: str) -> float:
    return float(found.right[found.of(arm)].mean())


def _n6_before(case: Case, found: Sentiment, arms: Callable[..., float] = max) -> str:
    """The verdict on N6 if the best of the arms must have learnt (arms: max), or the worst."""
    leads = [lead(found, "full", arm) for arm in _UNSCALED]
    learnt = arms(_right(found, arm) for arm in ("full", *_UNSCALED)) > found.majority
    if found.right.shape[1] < case.runs or not learnt:
        return UNDECIDED
    none = UNDECIDED if any(high > case.much for _, _, high in leads) else FAILS
    return graded((low > 0 for _, low, _ in leads), none=none)


@replacing(_n6_before)
def n6(case: Case, found: Sentiment) -> Record:
    """N6, does the classifier need the scaling?"""
    leads = {arm: lead(found, "full", arm) for arm in _UNSCALED}
    right = {arm: _right(found, arm) for arm in ("full", *_UNSCALED)}
    seeds, verdict, note = found.right.shape[1], _n6_before(case, found, min), ""
    if seeds < case.runs or min(right.values()) <= found.majority:
        note = f"{case.runs} seeds of models that learn would decide, in every arm"
    elif verdict == UNDECIDED:
        note = "more sentences or seeds would narrow the intervals"
    shown = "; ".join(
        f"{_UNSCALED[arm]} {right[arm]:.1%}, {_points(*one)}" for arm, one in leads.items()
    )
    return Record(
        verdict,
        f"with LayerNorms {right['full']:.1%} right (the more frequent label: {found.majority:.1%})"
        f", {shown} ({seeds} seeds)",
        {**right, "majority": found.majority},
        note,
        **size(100 * np.array(leads["no-scaling"]), "points", 0, seeds),
    )


def _points(value: float, low: float, high: float) -> str:
    return f"{100 * value:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"
