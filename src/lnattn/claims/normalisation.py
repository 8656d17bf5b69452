"""The rules of the book's own claims on normalisation (chapters 10 and 11): results to verdicts.

They take up what Brody et al. 2023 leave open, and were written, with their parameters in
`book/claims.yml`, before any of the runs they judge. Runs of the chapters' earlier experiments,
at other rates and with other arms, had been seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lnattn.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED, Case, Outcome, rule
from lnattn.studies.majority.model import ARMS
from lnattn.studies.majority.results import Experiment, lag
from lnattn.studies.selectability.exposure import exposure, lead
from lnattn.studies.selectability.sentiment import Sentiment

#: How N1 to N4 judge the ratios of two arms, or of several pairs.
_SOONER = (
    "until the shares of right answers {accuracies}, with 95 % bootstrap intervals over seeds, "
    "each arm at the rate and scale that did best in its sweeps. Holds if every interval lies "
    "above 1; in part if some lie above 1 and none below; fails if some lie below 1, or all reach "
    "from 1/{times:g} to {times:g} at most. Undecided otherwise, and with fewer than {runs} seeds."
)


@rule("By the ratio of median epochs, without projection over with it, " + _SOONER)
def n1(case: Case, runs: Experiment) -> Outcome:
    """N1, does the projection help at equal norm?"""
    return _sooner(case, runs, (("rms", "layernorm"),))


@rule("By the ratios of median epochs, with another vector over with 1, " + _SOONER)
def n2(case: Case, runs: Experiment) -> Outcome:
    """N2, does the direction of the projection matter?"""
    others = ("random-normal", "learnt-normal")
    return _sooner(case, runs, [(other, "layernorm") for other in others])


@rule(
    "By the ratios of median epochs, with uniform attention over without, for LayerNorm and for "
    "RMSNorm, " + _SOONER
)
def n3(case: Case, runs: Experiment) -> Outcome:
    """N3, does majority need attention that chooses?"""
    return _sooner(case, runs, [(f"uniform-{norm}", norm) for norm in ("layernorm", "rms")])


@rule("By the ratios of median epochs, without a norm over with LayerNorm and RMSNorm, " + _SOONER)
def n4(case: Case, runs: Experiment) -> Outcome:
    """N4, does the scaling matter?"""
    return _sooner(case, runs, [("unnormalised", norm) for norm in ("layernorm", "rms")])


def _sooner(case: Case, runs: Experiment, pairs: Sequence[tuple[str, str]]) -> Outcome:
    """pairs: names of arms, the one that should be slower first."""
    found = {
        pair: {level: lag(runs, *pair, accuracy=level) for level in case.accuracies}
        for pair in pairs
    }
    known = [one for ratios in found.values() for one in ratios.values() if one is not None]
    seeds = min(len(runs.of(arm).seeds) for pair in pairs for arm in pair)
    low = np.array([one.low for one in known])
    high = np.array([one.high for one in known])
    note = ""
    if not known or seeds < case.runs:
        verdict, note = UNDECIDED, f"{case.runs} seeds and runs that arrive would decide"
    elif (low > 1).all():
        verdict = HOLDS
    elif (high < 1).any():
        verdict = FAILS
    elif (low > 1).any():
        verdict = HOLDS_IN_PART
    elif (high <= case.times).all() and (low >= 1 / case.times).all():
        verdict = FAILS
    else:
        verdict, note = UNDECIDED, "more seeds would narrow the intervals"
    shown = "; ".join(
        f"{ARMS[slow].title} over {ARMS[fast].title}: "
        + ", ".join(
            f"{'neither arrives' if one is None else one} at {level:.0%}"
            for level, one in ratios.items()
        )
        for (slow, fast), ratios in found.items()
    )
    values = {
        f"{slow} over {fast} at {level:.0%}": one.value if np.isfinite(one.value) else str(one)
        for (slow, fast), ratios in found.items()
        for level, one in ratios.items()
        if one is not None
    }
    return Outcome(verdict, f"{shown} ({seeds} seeds)", values, note)


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
    "end below {much:.0%}. Undecided otherwise, and with fewer than {runs} seeds."
)
def n5(case: Case, found: Sentiment) -> Outcome:
    """N5, are deciding words more exposed?"""
    of = {
        arm: exposure(found, arm, least=case.least, decides=case.decides, neutral=case.neutral)
        for arm in _UNSCALED
    }
    above = [one.low > 0 and one.p < case.p for one in of.values()]
    seeds, note = found.right.shape[1], ""
    if seeds < case.runs:
        verdict, note = UNDECIDED, f"{case.runs} seeds or more would decide"
    elif any(above):
        verdict = HOLDS if all(above) else HOLDS_IN_PART
    elif all(one.high < case.much for one in of.values()):
        verdict = FAILS
    else:
        verdict, note = UNDECIDED, "more sentences would narrow the intervals"
    shown = "; ".join(
        f"{_UNSCALED[arm]} {one.rates[0]:.1%} of deciding and {one.rates[1]:.1%} of neutral words, "
        f"{_points(one.difference, one.low, one.high)}, p = {one.p:.2g}"
        for arm, one in of.items()
    )
    types = next(iter(of.values())).types
    return Outcome(
        verdict,
        f"{shown} ({types[0]} and {types[1]} words, {seeds} seeds)",
        {f"difference, {arm}": one.difference for arm, one in of.items()},
        note,
    )


@rule(
    "By the share of right answers on the validation sentences, with LayerNorms minus without, "
    "each arm at the best of {rates} rates on training sentences held back; mean over seeds with a "
    "95 % bootstrap interval over sentences and seeds. Holds if it lies above 0 both against no "
    "scaling and against no LayerNorms; in part if against one; fails if against neither. "
    "Undecided if against neither while an interval reaches beyond {much:.0%}, with fewer than "
    "{runs} seeds, or if no arm is above the more frequent label."
)
def n6(case: Case, found: Sentiment) -> Outcome:
    """N6, does the classifier need the scaling?"""
    leads = {arm: lead(found, "full", arm) for arm in _UNSCALED}
    above = [low > 0 for _, low, _ in leads.values()]
    right = {arm: float(found.right[found.of(arm)].mean()) for arm in ("full", *_UNSCALED)}
    seeds, note = found.right.shape[1], ""
    if seeds < case.runs or max(right.values()) <= found.majority:
        verdict, note = UNDECIDED, f"{case.runs} seeds of models that learn would decide"
    elif any(above):
        verdict = HOLDS if all(above) else HOLDS_IN_PART
    elif any(high > case.much for _, _, high in leads.values()):
        verdict, note = UNDECIDED, "more sentences or seeds would narrow the intervals"
    else:
        verdict = FAILS
    shown = "; ".join(
        f"{_UNSCALED[arm]} {right[arm]:.1%}, {_points(*one)}" for arm, one in leads.items()
    )
    return Outcome(
        verdict,
        f"with LayerNorms {right['full']:.1%} right (the more frequent label: {found.majority:.1%})"
        f", {shown} ({seeds} seeds)",
        {**right, "majority": found.majority},
        note,
    )


def _points(value: float, low: float, high: float) -> str:
    return f"{100 * value:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"
