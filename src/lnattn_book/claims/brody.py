"""The rules of Brody et al. 2023: from what a study found to a verdict, one function a claim.

Those on unselectable keys are in `brody_keys`. Arguments are results: small numbers, or the
frozen runs of a study as it reads them. Parameters (`case.…`) are those of the claim's entry in
`book/claims.yml`. That projected keys lie in the plane is algebra, so B6 does not judge it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool

from lnattn.majority.model import ARMS
from lnattn.majority.results import Estimate, Experiment, lag, words
from lnattn.majority.train import angles_to_ones
from lnattn_book.claims.normalisation import end_lead
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

#: The arm with the projection; claims about the projection set another beside it.
PROJECTED = "layernorm"


# --- the geometry of LayerNorm --------------------------------------------------------------------


@rule(
    "Holds if the two constructions of the projection differ by at most {error:.0e}, its rank is "
    "d − 1 in every width tried, and torch's LayerNorm without ε, gain and bias equals √d xC/‖xC‖ "
    "to {error:.0e}."
)
def b1(case: Case, constructions: float, ranks: Mapping[int, int], apart: float) -> Record:
    """B1, projection and scaling. constructions: difference of C and B diag(1, …, 1, 0) B⁻¹;
    ranks: of C by width; apart: largest difference from the reference LayerNorm."""
    full = all(rank == width - 1 for width, rank in ranks.items())
    exact = max(constructions, apart) <= case.error
    return Record(
        HOLDS if full and exact else FAILS,
        f"off torch's LayerNorm by at most {apart:.0e}; constructions of the projection differ by "
        f"{constructions:.0e}; rank {'d − 1 in each' if full else 'not d − 1 in some'} of "
        f"{len(ranks)} widths",
    )


@rule("Holds if all images lie within {error:.0e} of √d v or of −√d v, and both occur.")
def b2(case: Case, points: int, distinct: int, error: float) -> Record:
    """B2, a plane becomes two points. error: largest distance from the nearer of the two."""
    text = f"{distinct} distinct images of {points:,} points, off by at most {error:.0e}"
    return Record(HOLDS if distinct == 2 and error <= case.error else FAILS, text)


@rule(
    "A theorem, proved in the text. Holds if every verdict of the decision procedure, on keys that "
    "lie inside and on corners, is proved in fractions, and no random query selects a key that is "
    "said to be unselectable."
)
def b3(case: Case, keys: int, proved: int, wins: int, queries: int) -> Record:
    """B3, hull points are never selected. wins: queries that an unselectable key won."""
    text = f"{proved} of {keys} verdicts proved in fractions; unselectable keys win {wins} of "
    text += f"{queries:,} random queries"
    return Record(HOLDS if proved == keys and wins == 0 else FAILS, text)


# --- majority -------------------------------------------------------------------------------------


@rule(
    "By the ratio of median epochs, without projection to with it (0 if only the former arrives), "
    "until the shares of right answers {accuracies} and until a training loss of {losses}, with "
    "95 % bootstrap intervals over seeds. Holds if every interval lies above {times:g}; in part if "
    "some lie above 1 and none below; else fails. Undecided if every interval holds 1 and one "
    "reaches beyond {times:g}, or with fewer than {runs} seeds."
)
def b4(case: Case, runs: Experiment, without: str) -> Record:
    """B4, projection speeds up the majority task. without: the arm that has no projection."""
    found: dict[str, Estimate] = {}
    for kind, levels in (("accuracy", case.accuracies), ("loss", case.losses)):
        for level in levels:
            ratio = lag(runs, without, PROJECTED, **{kind: level})
            if ratio is not None:
                found[f"{level:.0%}" if kind == "accuracy" else f"loss {level:g}"] = ratio
    seeds = len(set(runs.of(without).seeds) & set(runs.of(PROJECTED).seeds))
    if not found or seeds < case.runs:
        note = "needs longer runs" if not found else f"needs {case.runs} seeds or more"
        return Record(UNDECIDED, f"{seeds} seeds, {len(found)} ratios", note=note)
    low = np.array([ratio.low for ratio in found.values()])
    high = np.array([ratio.high for ratio in found.values()])
    shown = ", ".join(f"{words(ratio.value)} at {level}" for level, ratio in found.items())
    return Record(
        _by_ratios(low, high, case.times),
        f"without projection {shown} times the epochs ({seeds} seeds)",
        {level: _finite(ratio.value) for level, ratio in found.items()},
        _on_ratios(found, case.times),
    )


def _by_ratios(low: np.ndarray, high: np.ndarray, times: float) -> str:
    if (low > times).all():
        return HOLDS
    if (low > 1).any() and not (high < 1).any():
        return HOLDS_IN_PART
    open_ = ((low <= 1) & (high >= 1)).all() and (high > times).any()
    return UNDECIDED if open_ else FAILS


def _on_ratios(found: Mapping[str, Estimate], times: float) -> str:
    """How many levels show what; and what is missing where they decide nothing."""
    above = {bound: sum(r.low > bound for r in found.values()) for bound in (1, times)}
    text = f"the interval lies above 1 at {above[1]}, above {times:g} at {above[times]} of "
    return f"{text}{len(found)} levels" + ("" if above[1] else "; more seeds would narrow it")


def _finite(value: float) -> float | str:
    """A median that no run reached is no number for a record."""
    return value if np.isfinite(value) else words(value)


@rule(
    "A run turns if the mean angle between queries and 1 falls by more than {turn}° from start to "
    "end. Holds if all runs with projection turn and none without; in part if more than half with "
    "it and fewer than half without; else fails. Undecided with fewer than {runs} runs an arm."
)
def b5(case: Case, runs: Experiment, without: str) -> Record:
    """B5, queries turn to 1 with projection only. without: the arm that has no projection."""
    falls = [
        curves.angle[:, 0] - curves.angle[:, -1] for curves in map(runs.of, (PROJECTED, without))
    ]
    turned = [fall > case.turn for fall in falls]
    middle = [float(np.median(fall)) for fall in falls]
    found = Record(
        _by_arms(*turned),
        f"the queries turn in {_of(turned[0])} runs with projection, in {_of(turned[1])} without",
        {"with": middle[0], "without": middle[1]},
        f"the median angle falls by {middle[0]:.0f}° with it, by {middle[1]:.0f}° without",
    )
    return _or_too_few(found, turned, case.runs)


@rule(
    "A run counts if its trained queries at d = 3 are within {near}° of 1 on average. Holds if all "
    "runs with projection count and none without; in part if more than half with it and fewer than "
    "half without; else fails. Undecided with fewer than {runs} runs an arm. That projected keys "
    "lie in the plane is algebra and is not judged."
)
def b6(case: Case, runs: Experiment, without: str) -> Record:
    """B6, queries near 1 in three dimensions. without: the arm that has no projection."""
    tilts = [
        angles_to_ones(curves.queries).mean(axis=1) for curves in map(runs.of, (PROJECTED, without))
    ]
    near = [tilt < case.near for tilt in tilts]
    found = Record(
        _by_arms(*near),
        f"trained queries within {case.near}° of 1 in {_of(near[0])} runs with projection, in "
        f"{_of(near[1])} without",
        {"with": float(tilts[0].mean()), "without": float(tilts[1].mean())},
        # The mean angle of a random direction to a line in three dimensions is one radian.
        f"random queries would be at {np.degrees(1):.0f}°",
    )
    return _or_too_few(found, near, case.runs)


def _b13_before(case: Case, runs: Experiment, other: str, several: Sequence[str]) -> str:
    """The verdict by ratios of epochs, of which one level and one measured step decided."""
    ratios = {
        arm: [r for level in case.accuracies if (r := lag(runs, arm, PROJECTED, accuracy=level))]
        for arm in (other, *several)
    }
    slower = {arm: any(ratio.low > 1 for ratio in found) for arm, found in ratios.items()}
    if slower[other]:
        return FAILS
    wide = not ratios[other] or any(ratio.high > case.times for ratio in ratios[other])
    if len(runs.of(other).seeds) < case.runs or wide:
        return UNDECIDED
    return HOLDS_IN_PART if any(slower.values()) else HOLDS


@rule(
    "By the share of right answers at the end of training, with other normal vectors less with "
    "LayerNorm's, paired by seed, with 95 % intervals by Student's t. Fails if it is lower with "
    "one other vector; holds if it is lower with none of the arms by {much:.0%} or more, intervals "
    "and all; in part if only with several vectors it may be; undecided otherwise, and with fewer "
    "than {runs} seeds.",
    "",
    Change(
        "23 Nov 2026",
        "one step between two measurements, at one of three levels, had decided; and the paper "
        "asks this and does not claim it",
        _b13_before,
    ),
)
def b13(case: Case, runs: Experiment, other: str, several: Sequence[str]) -> Record:
    """B13, other or several normal vectors. other, several: names of the arms."""
    leads = {arm: end_lead(runs, arm, PROJECTED) for arm in (other, *several)}
    close = {arm: low > -case.much for arm, (_, low, _) in leads.items()}
    seeds, note = len(runs.of(other).seeds), ""
    if leads[other][2] < 0:
        verdict = FAILS
    elif seeds < case.runs or not close[other]:
        verdict = UNDECIDED
        note = "no difference is seen; more seeds would narrow the interval"
    else:
        verdict = HOLDS if all(close.values()) else HOLDS_IN_PART
    shown = "; ".join(
        f"{ARMS[arm].title.split(',')[0]} {100 * mean:+.1f} points ({100 * low:+.1f} to "
        f"{100 * high:+.1f})"
        for arm, (mean, low, high) in leads.items()
    )
    values = {arm: mean for arm, (mean, *_) in leads.items()}
    return Record(
        verdict, f"right at the end, less LayerNorm's, {seeds} seeds: {shown}", values, note
    )


def _by_arms(with_it: Bool[np.ndarray, "run"], without: Bool[np.ndarray, "other"]) -> str:
    if with_it.all() and not without.any():
        return HOLDS
    mostly = with_it.mean() > 0.5 > without.mean()
    return HOLDS_IN_PART if mostly else FAILS


def _or_too_few(found: Record, flags: Sequence[np.ndarray], least: int) -> Record:
    if min(map(len, flags)) >= least:
        return found
    note = f"{least} runs an arm or more would decide"
    return Record(UNDECIDED, found.words, found.values, note)


def _of(flags: np.ndarray) -> str:
    return f"{int(flags.sum())} of {len(flags)}"
