"""The rules of Brody et al. 2023: from what a study found to a verdict, one function a claim.

Those on unselectable keys are in `brody_keys`. Arguments are results: small numbers, or the
frozen runs of a study as it reads them. That projected keys lie in the plane is algebra, so B6 does
not judge it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lnattn.majority.model import ARMS
from lnattn.majority.results import Estimate, Experiment, lag, words
from lnattn.majority.train import angles_to_ones
from lnattn_book.claims.normalisation import end_lead
from lnattn_book.claims.verdicts import Case, Record, limits, replacing, rule, size
from lnattn_book.claims.words import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED, graded

#: The arm with the projection; claims about the projection set another beside it.
PROJECTED = "layernorm"


@rule
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
        **size(apart, null=0, n=len(ranks)),
    )


#: A plane becomes two points. error: largest distance from the nearer of the two.
b2 = limits(
    "B2",
    "points distinct error",
    lambda case, got: got.distinct == 2 and got.error <= case.error,
    "{distinct} distinct images of {points:,} points, off by at most {error:.0e}",
    effect=lambda got: size(got.error, null=0, n=got.points),
)
#: Hull points are never selected. wins: queries that an unselectable key won.
b3 = limits(
    "B3",
    "keys proved wins queries",
    lambda case, got: got.proved == got.keys and got.wins == 0,
    "{proved} of {keys} verdicts proved in fractions; unselectable keys win {wins} of {queries:,} "
    "random queries",
    effect=lambda got: size(got.wins, "wins", n=got.queries),
)


@rule
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
    low, high = (np.array([getattr(r, end) for r in found.values()]) for end in ("low", "high"))
    above = {bound: int((low > bound).sum()) for bound in (1, case.times)}
    open_ = ((low <= 1) & (high >= 1)).all() and (high > case.times).any()
    verdict = UNDECIDED if open_ else FAILS
    if above[1] and not (high < 1).any():
        verdict = HOLDS if above[case.times] == len(found) else HOLDS_IN_PART
    shown = ", ".join(f"{words(ratio.value)} at {level}" for level, ratio in found.items())
    middle = sorted(found.values(), key=lambda ratio: ratio.value)[len(found) // 2]
    return Record(
        verdict,
        f"without projection {shown} times the epochs ({seeds} seeds)",
        {k: r.value if np.isfinite(r.value) else words(r.value) for k, r in found.items()},
        f"the interval lies above 1 at {above[1]}, above {case.times:g} at {above[case.times]} of "
        f"{len(found)} levels" + ("" if above[1] else "; more seeds would narrow it"),
        **size(
            (middle.value, middle.low, middle.high), "times the epochs (middle level)", 1, seeds
        ),
    )


@rule
def b5(case: Case, runs: Experiment, without: str) -> Record:
    """B5, queries turn to 1 with projection only. without: the arm that has no projection."""
    arms = map(runs.of, (PROJECTED, without))
    falls = [curves.angle[:, 0] - curves.angle[:, -1] for curves in arms]
    turned = [fall > case.turn for fall in falls]
    middle = [float(np.median(fall)) for fall in falls]
    return _by_arms(
        case,
        turned,
        f"the queries turn in {_of(turned[0])} runs with projection, in {_of(turned[1])} without",
        dict(zip(("with", "without"), middle, strict=True)),
        f"the median angle falls by {middle[0]:.0f}° with it, by {middle[1]:.0f}° without",
        size(middle[0], "°", middle[1], len(falls[0])),
    )


@rule
def b6(case: Case, runs: Experiment, without: str) -> Record:
    """B6, queries near 1 in three dimensions. without: the arm that has no projection."""
    arms = map(runs.of, (PROJECTED, without))
    tilts = [angles_to_ones(curves.queries).mean(axis=1) for curves in arms]
    near, random = [tilt < case.near for tilt in tilts], float(np.degrees(1))
    return _by_arms(
        case,
        near,
        f"trained queries within {case.near}° of 1 in {_of(near[0])} runs with projection, in "
        f"{_of(near[1])} without",
        {"with": float(tilts[0].mean()), "without": float(tilts[1].mean())},
        # The mean angle of a random direction to a line in three dimensions is one radian.
        f"random queries would be at {random:.0f}°",
        size(tilts[0].mean(), "°", random, len(tilts[0])),
    )


def _by_arms(
    case: Case, flags: Sequence[np.ndarray], shown: str, values: dict, note: str, effect: dict
) -> Record:
    """From a flag of every run with projection, and of every run without."""
    with_it, without = flags
    mostly = with_it.mean() > 0.5 > without.mean()
    verdict = HOLDS_IN_PART if mostly else FAILS
    if with_it.all() and not without.any():
        verdict = HOLDS
    if min(map(len, flags)) < case.runs:
        verdict, note = UNDECIDED, f"{case.runs} runs an arm or more would decide"
    return Record(verdict, shown, values, note, **effect)


def _of(flags: np.ndarray) -> str:
    return f"{int(flags.sum())} of {len(flags)}"


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


@replacing(_b13_before)
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
        verdict = graded(close.values())
    shown = "; ".join(
        f"{ARMS[arm].title.split(',')[0]} {100 * mean:+.1f} points ({100 * low:+.1f} to "
        f"{100 * high:+.1f})"
        for arm, (mean, low, high) in leads.items()
    )
    words = f"right at the end, less LayerNorm's, {seeds} seeds: {shown}"
    effect = size(100 * np.array(leads[other]), "points", 0, seeds)
    return Record(verdict, words, {arm: mean for arm, (mean, *_) in leads.items()}, note, **effect)
