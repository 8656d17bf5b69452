"""The rules of the book's own claims on normalisation (chapters 10 and 11): results to verdicts.

They take up what Brody et al. 2023 leave open. All were written before the runs they judge, and
changed after them: each rule says how, and its verdicts give the one by the rule before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lnattn.majority.model import ARMS
from lnattn.majority.results import Experiment, lag
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    UNDECIDED,
    Case,
    Change,
    Record,
    rule,
)
from lnattn_book.exposure import exposure, lead
from lnattn_book.language_models import mean_and_interval
from lnattn_book.words import Sentiment

#: How N1 to N4 judge the ends of two arms, or of several pairs.
_BETTER = (
    "at the end of training, paired by seed, each arm at the rate and scale that did best in its "
    "sweeps. Holds if every mean difference is above 0 with its 95 % interval by Student's t; in "
    "part if some are and none is below; fails if some are below; undecided while no interval "
    "leaves 0 out, and with fewer than {runs} seeds."
)


def _sooner_before(case: Case, runs: Experiment, pairs: Sequence[tuple[str, str]]) -> str:
    """The verdict by ratios of epochs to three levels, each measured to one epoch in two."""
    known = [lag(runs, *pair, accuracy=level) for pair in pairs for level in case.accuracies]
    low, high = (np.array([getattr(r, end) for r in known if r]) for end in ("low", "high"))
    if not len(low) or min(len(runs.of(arm).seeds) for pair in pairs for arm in pair) < case.runs:
        return UNDECIDED
    if (high < 1).any() or ((high <= case.times) & (low >= 1 / case.times)).all():
        return FAILS
    return HOLDS if (low > 1).all() else HOLDS_IN_PART if (low > 1).any() else UNDECIDED


def _changed(pairs: Sequence[tuple[str, str]]) -> Change:
    return Change(
        "23 Nov 2026",
        "runs are measured once an epoch and reach 80 % after two of them, so that ratios of "
        "epochs were the grid's; the end of training is judged instead",
        lambda case, runs: _sooner_before(case, runs, pairs),
    )


_N1 = (("rms", "layernorm"),)
_N2 = (("random-normal", "layernorm"), ("learnt-normal", "layernorm"))
_N3 = (("uniform-layernorm", "layernorm"), ("uniform-rms", "rms"))
_N4 = (("unnormalised", "layernorm"), ("unnormalised", "rms"))


@rule(
    "By the share of right answers with the projection less without, " + _BETTER, "", _changed(_N1)
)
def n1(case: Case, runs: Experiment) -> Record:
    """N1, does the projection help at equal norm?"""
    return _better(case, runs, _N1)


@rule(
    "By the share of right answers with 1 less with another vector, " + _BETTER, "", _changed(_N2)
)
def n2(case: Case, runs: Experiment) -> Record:
    """N2, does the direction of the projection matter?"""
    return _better(case, runs, _N2)


@rule(
    "By the share of right answers without uniform attention less with it, for LayerNorm and for "
    "RMSNorm, " + _BETTER,
    "",
    _changed(_N3),
)
def n3(case: Case, runs: Experiment) -> Record:
    """N3, does majority need attention that chooses?"""
    return _better(case, runs, _N3)


@rule(
    "By the share of right answers with LayerNorm and with RMSNorm less without a norm, " + _BETTER,
    "",
    _changed(_N4),
)
def n4(case: Case, runs: Experiment) -> Record:
    """N4, does the scaling matter?"""
    return _better(case, runs, _N4)


def _better(case: Case, runs: Experiment, pairs: Sequence[tuple[str, str]]) -> Record:
    """pairs: names of arms, the one that should be worse first."""
    leads = {pair: end_lead(runs, *reversed(pair)) for pair in pairs}
    low, high = (np.array([one[i] for one in leads.values()]) for i in (1, 2))
    seeds, note = min(len(runs.of(arm).seeds) for pair in pairs for arm in pair), ""
    if seeds < case.runs:
        verdict, note = UNDECIDED, f"{case.runs} seeds would decide"
    elif (high < 0).any():
        verdict = FAILS
    elif (low > 0).any():
        verdict = HOLDS if (low > 0).all() else HOLDS_IN_PART
    else:
        verdict, note = UNDECIDED, "no difference is seen; more seeds would narrow the intervals"
    shown = "; ".join(
        f"{ARMS[better].title} less {ARMS[worse].title}: {_points(*one)}"
        for (worse, better), one in leads.items()
    )
    values = {f"{better} less {worse}": one[0] for (worse, better), one in leads.items()}
    return Record(verdict, f"{shown} ({seeds} seeds)", values, note)


def end_lead(runs: Experiment, one: str, other: str) -> tuple[float, float, float]:
    """How much more an arm gets right at the end than another: mean over seeds, and interval."""
    of, than = runs.of(one), runs.of(other)
    common = [seed for seed in of.seeds if seed in than.seeds]
    ends = (arm.accuracy[[arm.seeds.index(seed) for seed in common], -1] for arm in (of, than))
    return mean_and_interval(np.subtract(*ends, dtype=np.float64))


# --- the words of sentences -----------------------------------------------------------------------

#: The classifiers whose keys can be unselectable.
_UNSCALED = {"no-scaling": "without scaling", "none": "without LayerNorms"}


@rule(
    "Words of at least {least} training sentences decide if the share of positive ones among these "
    "is {decides:g} standard errors or more from that of all sentences, and are neutral if less "
    "than {neutral:g}. In bins of doubling frequency: the share of the deciding words' occurrences "
    "in the validation sentences that are unselectable in some layer, minus that of the neutral "
    "ones'; mean over seeds. Holds if with both classifiers, without scaling and without "
    "LayerNorms, it is above 0 with p < {p:g}, the words dealt anew within bins, and a 95 % "
    "bootstrap interval over words and seeds above 0; in part if with one; fails if both intervals "
    "end below {much:.0%}. Undecided otherwise, with fewer than {runs} seeds, or if one of the two "
    "is right no more often than the more frequent label.",
    "",
    Change(
        "23 Nov 2026",
        "a classifier that learnt nothing has no words that decide",
        lambda case, found: _n5_before(case, found),
    ),
)
def n5(case: Case, found: Sentiment) -> Record:
    """N5, are deciding words more exposed?"""
    of = {
        arm: exposure(found, arm, least=case.least, decides=case.decides, neutral=case.neutral)
        for arm in _UNSCALED
    }
    seeds, note = found.right.shape[1], ""
    verdict = _n5_before(case, found)
    idle = [_UNSCALED[arm] for arm in _UNSCALED if _right(found, arm) <= found.majority]
    if idle:
        verdict, note = UNDECIDED, f"models {' and '.join(idle)} that learn would decide"
    elif verdict == UNDECIDED:
        note = f"{case.runs} seeds or more, or more sentences, would decide"
    shown = "; ".join(
        f"{_UNSCALED[arm]} {one.rates[0]:.1%} of deciding and {one.rates[1]:.1%} of neutral words, "
        f"{_points(one.difference, one.low, one.high)}, p = {one.p:.2g}"
        for arm, one in of.items()
    )
    types = next(iter(of.values())).types
    return Record(
        verdict,
        f"{shown} ({types[0]} and {types[1]} words, {seeds} seeds)",
        {f"difference, {arm}": one.difference for arm, one in of.items()},
        note,
    )


def _right(found: Sentiment, arm: str) -> float:
    return float(found.right[found.of(arm)].mean())


def _n5_before(case: Case, found: Sentiment) -> str:
    """The verdict on N5 whether the classifiers learnt anything or not."""
    of = [
        exposure(found, arm, least=case.least, decides=case.decides, neutral=case.neutral)
        for arm in _UNSCALED
    ]
    above = [one.low > 0 and one.p < case.p for one in of]
    if found.right.shape[1] < case.runs:
        return UNDECIDED
    if any(above):
        return HOLDS if all(above) else HOLDS_IN_PART
    return FAILS if all(one.high < case.much for one in of) else UNDECIDED


@rule(
    "By the share of right answers on the validation sentences, with LayerNorms minus without, "
    "each arm at the best of {rates} rates on training sentences held back; mean over seeds with a "
    "95 % bootstrap interval over sentences and seeds. Holds if it lies above 0 both against no "
    "scaling and against no LayerNorms; in part if against one; fails if against neither. "
    "Undecided if against neither while an interval reaches beyond {much:.0%}, with fewer than "
    "{runs} seeds, or if one of the arms is no better than the more frequent label.",
    "",
    Change(
        "23 Nov 2026",
        "an arm that learnt nothing is no match: each arm must be better than the more frequent "
        "label, and not one of them",
        lambda case, found: _n6_before(case, found, max),
    ),
)
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
    )


def _n6_before(case: Case, found: Sentiment, arms: Callable[..., float]) -> str:
    """The verdict on N6 if the best of the arms must have learnt (arms: max), or the worst."""
    leads = [lead(found, "full", arm) for arm in _UNSCALED]
    above = [low > 0 for _, low, _ in leads]
    learnt = arms(_right(found, arm) for arm in ("full", *_UNSCALED)) > found.majority
    if found.right.shape[1] < case.runs or not learnt:
        return UNDECIDED
    if any(above):
        return HOLDS if all(above) else HOLDS_IN_PART
    return UNDECIDED if any(high > case.much for _, _, high in leads) else FAILS


def _points(value: float, low: float, high: float) -> str:
    return f"{100 * value:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"
