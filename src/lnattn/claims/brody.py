"""The rules of Brody et al. 2023: from what a study found to a verdict, one function a claim.

Arguments are results: small numbers, or the frozen runs of a study as it reads them. Parameters
(`case.…`) are those of the claim's entry in `book/claims.yml`. That no key is unselectable after
LayerNorm is Theorem 1 and can fail in no run, so B7 to B9 do not judge it; neither does B6 judge
that projected keys lie in the plane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from lnattn.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    UNDECIDED,
    Case,
    Outcome,
    rule,
)
from lnattn.studies.majority.model import ARMS
from lnattn.studies.majority.results import Estimate, Experiment, lag, words
from lnattn.studies.majority.runs import angles_to_ones

if TYPE_CHECKING:
    from lnattn.studies.selectability.random_keys import RandomGrid
    from lnattn.studies.selectability.words import MarkedSentence

#: The arm with the projection; claims about the projection set another beside it.
PROJECTED = "layernorm"


# --- the geometry of LayerNorm --------------------------------------------------------------------


@rule(
    "Holds if the two constructions of the projection differ by at most {error:.0e}, its rank is "
    "d − 1 in every width tried, and torch's LayerNorm without ε, gain and bias equals √d xC/‖xC‖ "
    "to {error:.0e}."
)
def b1(case: Case, constructions: float, ranks: Mapping[int, int], apart: float) -> Outcome:
    """B1, projection and scaling. constructions: difference of C and B diag(1, …, 1, 0) B⁻¹;
    ranks: of C by width; apart: largest difference from the reference LayerNorm."""
    full = all(rank == width - 1 for width, rank in ranks.items())
    exact = max(constructions, apart) <= case.error
    return Outcome(
        HOLDS if full and exact else FAILS,
        f"off torch's LayerNorm by at most {apart:.0e}; constructions of the projection differ by "
        f"{constructions:.0e}; rank {'d − 1 in each' if full else 'not d − 1 in some'} of "
        f"{len(ranks)} widths",
    )


@rule("Holds if all images lie within {error:.0e} of √d v or of −√d v, and both occur.")
def b2(case: Case, points: int, distinct: int, error: float) -> Outcome:
    """B2, a plane becomes two points. error: largest distance from the nearer of the two."""
    text = f"{distinct} distinct images of {points:,} points, off by at most {error:.0e}"
    return Outcome(HOLDS if distinct == 2 and error <= case.error else FAILS, text)


@rule(
    "A theorem, proved in the text. Holds if every verdict of the decision procedure, on keys that "
    "lie inside and on corners, is proved in fractions, and no random query selects a key that is "
    "said to be unselectable."
)
def b3(case: Case, keys: int, proved: int, wins: int, queries: int) -> Outcome:
    """B3, hull points are never selected. wins: queries that an unselectable key won."""
    text = f"{proved} of {keys} verdicts proved in fractions; unselectable keys win {wins} of "
    text += f"{queries:,} random queries"
    return Outcome(HOLDS if proved == keys and wins == 0 else FAILS, text)


# --- majority -------------------------------------------------------------------------------------


@rule(
    "By the ratio of median epochs, without projection to with it (0 if only the former arrives), "
    "until the shares of right answers {accuracies} and the training losses {losses}, with 95 % "
    "bootstrap intervals over seeds. Holds if every interval lies above {times:g}; in part if some "
    "lie above 1 and none below; else fails. Undecided if every interval holds 1 and one reaches "
    "beyond {times:g}, or with fewer than {runs} seeds."
)
def b4(case: Case, runs: Experiment, without: str) -> Outcome:
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
        return Outcome(UNDECIDED, f"{seeds} seeds, {len(found)} ratios", note=note)
    low = np.array([ratio.low for ratio in found.values()])
    high = np.array([ratio.high for ratio in found.values()])
    shown = ", ".join(f"{words(ratio.value)} at {level}" for level, ratio in found.items())
    return Outcome(
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
def b5(case: Case, runs: Experiment, without: str) -> Outcome:
    """B5, queries turn to 1 with projection only. without: the arm that has no projection."""
    falls = [
        curves.angle[:, 0] - curves.angle[:, -1] for curves in map(runs.of, (PROJECTED, without))
    ]
    turned = [fall > case.turn for fall in falls]
    middle = [float(np.median(fall)) for fall in falls]
    found = Outcome(
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
def b6(case: Case, runs: Experiment, without: str) -> Outcome:
    """B6, queries near 1 in three dimensions. without: the arm that has no projection."""
    tilts = [
        angles_to_ones(curves.queries).mean(axis=1) for curves in map(runs.of, (PROJECTED, without))
    ]
    near = [tilt < case.near for tilt in tilts]
    found = Outcome(
        _by_arms(*near),
        f"trained queries within {case.near}° of 1 in {_of(near[0])} runs with projection, in "
        f"{_of(near[1])} without",
        {"with": float(tilts[0].mean()), "without": float(tilts[1].mean())},
        # The mean angle of a random direction to a line in three dimensions is one radian.
        f"random queries would be at {np.degrees(1):.0f}°",
    )
    return _or_too_few(found, near, case.runs)


@rule(
    "By the ratio of median epochs, with other normal vectors over LayerNorm, until the shares of "
    "right answers {accuracies}, with 95 % bootstrap intervals over seeds. An arm is slower if an "
    "interval lies above 1. Holds if no arm is slower; in part if only arms with several normal "
    "vectors are; fails if the arm with one other vector is. Undecided if it is not slower but an "
    "interval reaches beyond {times:g}, or with fewer than {runs} seeds."
)
def b13(case: Case, runs: Experiment, other: str, several: Sequence[str]) -> Outcome:
    """B13, other or several normal vectors. other, several: names of the arms."""
    found = {
        arm: {level: lag(runs, arm, PROJECTED, accuracy=level) for level in case.accuracies}
        for arm in (other, *several)
    }
    known = {arm: [r for r in ratios.values() if r is not None] for arm, ratios in found.items()}
    slower = {arm: any(ratio.low > 1 for ratio in ratios) for arm, ratios in known.items()}
    wide = not known[other] or any(ratio.high > case.times for ratio in known[other])
    seeds, note = len(runs.of(other).seeds), ""
    if slower[other]:
        verdict = FAILS
    elif seeds < case.runs or wide:
        verdict, note = (
            UNDECIDED,
            f"{case.runs} seeds or more, and narrower intervals, would decide",
        )
    else:
        verdict = HOLDS_IN_PART if any(slower.values()) else HOLDS
    shown = "; ".join(
        f"{ARMS[arm].title.split(',')[0]}: "
        + ", ".join(f"{ratio} at {at:.0%}" for at, ratio in ratios.items() if ratio is not None)
        for arm, ratios in found.items()
    )
    return Outcome(
        verdict,
        f"epochs over those of LayerNorm, {seeds} seeds: {shown}",
        {
            f"{arm} at {at:.0%}": _finite(ratio.value)
            for arm, ratios in found.items()
            for at, ratio in ratios.items()
            if ratio is not None
        },
        note,
    )


def _by_arms(with_it: Bool[np.ndarray, "run"], without: Bool[np.ndarray, "other"]) -> str:
    if with_it.all() and not without.any():
        return HOLDS
    mostly = with_it.mean() > 0.5 > without.mean()
    return HOLDS_IN_PART if mostly else FAILS


def _or_too_few(found: Outcome, flags: Sequence[np.ndarray], least: int) -> Outcome:
    if min(map(len, flags)) >= least:
        return found
    note = f"{least} runs an arm or more would decide"
    return Outcome(UNDECIDED, found.words, found.values, note)


def _of(flags: np.ndarray) -> str:
    return f"{int(flags.sum())} of {len(flags)}"


# --- unselectable keys ----------------------------------------------------------------------------


@rule(
    "By the mean share of unselectable keys, neighbouring cells of the grid compared: holds if the "
    "share rises with n and falls with d in {cells:.0%} of the pairs, up to {noise:.0%} of noise, "
    "and exceeds {many:.0%} at the largest n and smallest d; in part if some of the three; else "
    "fails. That it is 0 after LayerNorm is Theorem 1 and is not judged."
)
def b7(case: Case, grid: RandomGrid) -> Outcome:
    """B7, random keys. grid: of keys without LayerNorm."""
    share = grid.fraction
    rises = (np.diff(share, axis=0) >= -case.noise).mean()
    falls = (np.diff(share, axis=1) <= case.noise).mean()
    corner, far = share[-1, 0], share[-1, -1]
    parts = (rises >= case.cells, falls >= case.cells, corner > case.many)
    return Outcome(
        HOLDS if all(parts) else HOLDS_IN_PART if any(parts) else FAILS,
        f"mean share {corner:.0%} at n = {grid.counts[-1]}, d = {grid.widths[0]} and {far:.1%} at "
        f"d = {grid.widths[-1]}; rises with n in {rises:.0%}, falls with d in {falls:.0%} of pairs",
        {"corner": corner, "far": far},
        "text and code of the paper name different quantities",
    )


@rule(
    "By the exact share of unselectable keys of a model without scaling, averaged over seeds, "
    "beside the reported {reported} %: holds if every layer has at least {half:.0%} of what is "
    "reported; in part if every layer has at least {some:.0%} of its keys unselectable; else "
    "fails. That it is 0 with scaling is Theorem 1 and is not judged."
)
def b8(
    case: Case, exact: Float[np.ndarray, "seed layer"], searched: Float[np.ndarray, "layer"]
) -> Outcome:
    """B8, without scaling. searched: shares as the papers' search counts them, as in Table 1."""
    note = f"by the papers' search {_percent(searched)} %"
    return _by_layers(case, exact, "without scaling", note)


@rule(
    "By the exact share of unselectable keys before the LayerNorm of a model that has one, "
    "averaged over seeds, beside the reported {reported} %: holds if every layer has at least "
    "{half:.0%} of what is reported; in part if every layer has at least {some:.0%} of its keys "
    "unselectable; else fails. That it is 0 after is Theorem 1 and is not judged."
)
def b9(case: Case, exact: Float[np.ndarray, "seed layer"]) -> Outcome:
    """B9, before LayerNorm. exact: shares by seed and layer."""
    return _by_layers(case, exact, "before LayerNorm", "")


def _by_layers(case: Case, exact: Float[np.ndarray, "seed layer"], what: str, note: str) -> Outcome:
    mean, reported = exact.mean(axis=0), np.array(case.reported) / 100
    if (mean >= case.half * reported).all():
        verdict = HOLDS
    else:
        verdict = HOLDS_IN_PART if (mean >= case.some).all() else FAILS
    farthest = 100 * np.abs(mean - reported).max()
    spread = 100 * np.ptp(exact, axis=0).max()
    far = f"up to {farthest:.1f} points from the paper's; seeds differ by up to {spread:.1f}"
    return Outcome(
        verdict,
        f"{_percent(mean)} % {what}, mean of {len(exact)} seeds",
        {f"layer {i}": 100 * value for i, value in enumerate(mean, start=1)},
        "; ".join(filter(None, (far, note))),
    )


def _percent(shares: Sequence[float] | np.ndarray) -> str:
    return ", ".join(f"{100 * share:.1f}" for share in shares)


@rule(
    "By the loss at the end of training, pairs of runs with one seed: holds if it is lower with "
    "scaling in every pair, held out and in training; in part if only one of the two, or only on "
    "average; else fails. Undecided below {tokens:.0%} of the paper's tokens, or with fewer than "
    "{rates} learning rates tried for each arm."
)
def b10(
    case: Case,
    held_out: Float[np.ndarray, "pair 2"],
    training: Float[np.ndarray, "pair 2"],
    tokens: float,
    rates: int,
) -> Outcome:
    """B10, the loss is lower with scaling. Losses with scaling and without, in nats a token;
    tokens: seen, as a share of the paper's; rates: learning rates tried for each arm."""
    ends = "; ".join(f"{with_:.3f} against {without:.3f}" for with_, without in held_out)
    lead = {
        name: float((losses[:, 1] - losses[:, 0]).mean())
        for name, losses in (("held out", held_out), ("training", training))
    }
    if tokens < case.tokens or rates < case.rates:
        verdict = UNDECIDED
        note = (
            f"runs on {tokens:.1%} of the paper's tokens with {rates} rate{'s' * (rates > 1)} an "
            f"arm; {case.tokens:.0%} and {case.rates} rates would decide"
        )
    else:
        lower = [(losses[:, 0] < losses[:, 1]).all() for losses in (held_out, training)]
        part = any(lower) or min(lead.values()) > 0
        verdict, note = HOLDS if all(lower) else HOLDS_IN_PART if part else FAILS, ""
    return Outcome(verdict, f"held out, with against without: {ends}", lead, note)


@rule(
    "The claim is that such words exist. Holds if a word that the paper marks as deciding is "
    "unselectable, proved, in some layer; in part if only other words of the same sentences are; "
    "else fails. Whether they are unselectable more often than other words is not claimed."
)
def b11(case: Case, sentences: Sequence[MarkedSentence], base: float) -> Outcome:
    """B11, sentiment words. base: share of all tokens that are unselectable in some layer."""
    marked = [e for one in sentences for e, b in zip(one.exact, one.bold, strict=True) if b]
    lost, others = sum(marked), sum(sum(one.exact) for one in sentences) - sum(marked)
    chance = 1 - (1 - base) ** len(marked)
    verdict = HOLDS if lost else HOLDS_IN_PART if others else FAILS
    return Outcome(
        verdict,
        f"{lost} of the paper's {len(marked)} marked words; {base:.1%} of all tokens",
        {"marked": lost, "base": base},
        f"chance alone gives one or more with probability {chance:.0%}: nothing says that deciding "
        "words are more exposed than others",
    )


@rule("Holds if the counts, {unit} parameters to the unit, are {reported}; in part if some are.")
def b12(case: Case, counts: Sequence[int]) -> Outcome:
    """B12, numbers of parameters, of the models in the order in which the claim has them."""
    same = [
        round(count / unit) == reported
        for count, unit, reported in zip(counts, case.unit, case.reported, strict=True)
    ]
    return Outcome(
        HOLDS if all(same) else HOLDS_IN_PART if any(same) else FAILS,
        f"{', '.join(f'{count:,}' for count in counts)} parameters",
        {str(reported): count for reported, count in zip(case.reported, counts, strict=True)},
    )
