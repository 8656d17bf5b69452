"""The numbers of chapter 8 and of its robustness page, from the frozen majority experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from pandas.io.formats.style import Styler

from lnattn_book.claims.arms import end_lead
from lnattn_book.claims.listed import claim
from lnattn_book.page import Check, says
from lnattn_book.studies.majority import long_runs
from lnattn_book.studies.majority.encoder import ARMS
from lnattn_book.studies.majority.long_runs import Curves, Experiment
from lnattn_book.studies.majority.train import MajorityPlan, angles_to_ones

#: The test accuracy at which the chapter and its robustness page count epochs.
LEVEL = 0.8
#: What the pages call each arm; *short*: its inputs have norm 1/√d, not √d.
NAMES: Mapping[str, str] = {
    "layernorm": "LayerNorm",
    "rms": "RMSNorm",
    "authors": "short RMSNorm",
    "projection-small": "short LayerNorm",
    "literal": "x/σ(x)",
    "small-scores": "RMSNorm, short queries and keys",
    "small-values": "RMSNorm, short values",
    "random-normal": "along a random vector",
    "learnt-normal": "along a learnt vector",
    "unnormalised": "no norm",
    "uniform-layernorm": "LayerNorm, even attention",
    "uniform-rms": "RMSNorm, even attention",
    "other-normal": "along one other vector",
    "three-normals": "along 1 and two others",
    "five-normals": "along 1 and four others",
}
#: Pairs of arms whose speeds are compared: title → (slow, fast).
PUBLISHED, NORM, PROJECTION, SHORT_PROJECTION = (
    "published: short RMSNorm / LayerNorm",
    "norm alone: short RMSNorm / RMSNorm",
    "projection alone: RMSNorm / LayerNorm",
    "projection alone: short RMSNorm / short LayerNorm",
)
PAIRS: Mapping[str, tuple[str, str]] = {
    PUBLISHED: ("authors", "layernorm"),
    NORM: ("authors", "rms"),
    PROJECTION: ("rms", "layernorm"),
    SHORT_PROJECTION: ("authors", "projection-small"),
}


def epochs_to_level(curves: Curves, accuracy: float = LEVEL) -> float:
    """Epochs that the median run of an arm needs to this accuracy; infinite if it never does."""
    return long_runs.median(long_runs.epochs_to(curves, accuracy=accuracy)).value


def ratios(
    experiment: Experiment, pairs: Mapping[str, tuple[str, str]], accuracies: Iterable[float]
) -> pd.DataFrame:
    """How many times more epochs the slow arm of each pair needs, a row an accuracy.

    pairs: title → (slow arm, fast arm). NaN where the median run of the fast arm never arrives.
    """
    table = {}
    for title, (slow, fast) in pairs.items():
        estimates = [long_runs.slowdown(experiment, slow, fast, accuracy=a) for a in accuracies]
        table[title] = [np.nan if estimate is None else estimate.value for estimate in estimates]
    return pd.DataFrame(table, index=pd.Index(accuracies, name="accuracy").round(2))


def endings(experiment: Experiment) -> pd.DataFrame:
    """Test accuracy at the end over the runs of each arm: median, mean, lowest, highest."""
    ends = {name: experiment.of(name).accuracy[:, -1] for name in experiment.arms}
    rows = {
        name: {"median": np.median(x), "mean": x.mean(), "lowest": x.min(), "highest": x.max()}
        for name, x in ends.items()
    }
    return pd.DataFrame(rows).T.astype(float)


def has_projection(arm: str) -> bool:
    """Whether an arm projects, along 1 or along another vector."""
    return ARMS[arm].project or ARMS[arm].direction != "none"


def best_setting(sweep: Experiment, arm: str) -> Curves:
    """The runs of the setting (learning rate, initial scale) with which an arm arrives first."""
    return min((curves for curves in sweep.curves if curves.arm == arm), key=epochs_to_level)


def tuned_ratio(sweep: Experiment, slow: str, fast: str) -> float:
    """How many times more epochs `slow` needs than `fast`, each with the setting that suits it."""
    return epochs_to_level(best_setting(sweep, slow)) / epochs_to_level(best_setting(sweep, fast))


def falls_of_the_angle(
    experiment: Experiment, arm: str, **setting: object
) -> Float[np.ndarray, "run"]:
    """Degrees by which each run's mean angle between queries and 1 falls from start to end.

    setting: values of the plan that the runs must have; without any, all runs of the arm.
    """
    chosen = [
        curves
        for curves in experiment.curves
        if curves.arm == arm and all(getattr(curves.plan, k) == v for k, v in setting.items())
    ]
    return np.concatenate([curves.angle[:, 0] - curves.angle[:, -1] for curves in chosen])


def falls(experiment: Experiment) -> pd.DataFrame:
    """`falls_of_the_angle`, a column an arm, a row a run."""
    return pd.DataFrame({arm: falls_of_the_angle(experiment, arm) for arm in experiment.arms})


def tilts(experiment: Experiment, arm: str) -> Float[np.ndarray, "run"]:
    """The mean angle between each run's trained queries and 1, degrees."""
    return angles_to_ones(experiment.of(arm).queries).mean(axis=1)


def turns(
    sweep: Experiment, arms: Iterable[str], scales: Iterable[float], degrees: float | None = None
) -> pd.DataFrame:
    """How many of an arm's runs turn their queries by more than `degrees`: a row an arm and scale.

    degrees: without them, as many as the rule of claim B5 asks for. spread: standard deviation of a
    query's scores before training, the mean over runs.
    """
    degrees = claim("B5").rule["turn"] if degrees is None else degrees
    rows = {}
    for arm, scale in product(arms, scales):
        runs = [run for run in sweep.curves if run.arm == arm and run.plan.initial_scale == scale]
        spread = np.mean([run.spread[:, 0].mean() for run in runs])
        falls = falls_of_the_angle(sweep, arm, initial_scale=scale)
        turn = int((falls > degrees).sum())
        rows[arm, scale] = (has_projection(arm), spread, turn, len(falls))
    index = pd.MultiIndex.from_tuples(rows, names=["arm", "initial scale"])
    columns = ["projects", "spread", "turn", "runs"]
    return pd.DataFrame(list(rows.values()), index=index, columns=columns)


def beside_layernorm(controls: Experiment) -> pd.DataFrame:
    """A row an arm: whether it projects, epochs to `LEVEL`, accuracy at the end (median of runs).

    lead, low, high: how much more of the answers it has right than LayerNorm, paired by seed.
    """
    right = endings(controls)["median"]
    leads = np.array([end_lead(controls, arm, "layernorm") for arm in controls.arms])
    return pd.DataFrame(
        {
            "projects": [has_projection(arm) for arm in controls.arms],
            "epochs": [epochs_to_level(controls.of(arm)) for arm in controls.arms],
            "right": right[list(controls.arms)].to_numpy(),
            "lead": leads[:, 0],
            "low": leads[:, 1],
            "high": leads[:, 2],
        },
        index=controls.arms,
    )


def difference_from_frozen(frozen: Curves, live: Mapping[str, np.ndarray], seed: int = 0) -> float:
    """The largest difference in training loss between a run made now and the frozen one, nats."""
    same_epochs = np.isin(frozen.epoch, live["epoch"])
    loss = frozen.loss[frozen.seeds.index(seed), same_epochs]
    return float(np.abs(live["loss"][0] - loss).max())


def epochs_by(curves: Iterable[Curves], setting: Callable[[MajorityPlan], Any]) -> pd.DataFrame:
    """Median epochs to 80 % test accuracy: a row an arm, a column a setting of its plan."""
    epochs = {(run.arm, setting(run.plan)): epochs_to_level(run) for run in curves}
    return pd.Series(epochs).unstack()


def shown_epochs(epochs: pd.DataFrame) -> Styler:
    """`epochs_by` as the page shows it."""
    table = epochs.rename(NAMES).rename_axis(columns="epochs to 80 %")
    return table.style.format(lambda count: "never" if np.isinf(count) else f"{count:g}")


def runs_above(
    experiment: Experiment, upper: str, lower: str, rates: Iterable[float]
) -> list[bool]:
    """For each pair of runs (one seed, one rate, scale 1): whether `upper` ends above `lower`."""
    above: list[bool] = []
    for rate in rates:
        plan = {"learning_rate": rate, "initial_scale": 1.0}
        high = experiment.of(upper, **plan)
        low = experiment.of(lower, **plan)
        above += (high.accuracy[:, -1] > low.accuracy[:, -1]).tolist()
    return above


def compared_settings(
    settings: Mapping[str, Experiment], slow: str, fast: str, accuracies: Sequence[float]
) -> pd.DataFrame:
    """A row a setting: how many times slower at each accuracy, and where both arms end (mean)."""
    rows = {}
    for title, experiment in settings.items():
        ratio = ratios(experiment, {title: (slow, fast)}, accuracies)[title]
        slower = {
            f"slower at {accuracy:.0%}": ratio.iloc[i] for i, accuracy in enumerate(accuracies)
        }
        ends = endings(experiment)["mean"]
        rows[title] = slower | {f"{arm} ends": ends[arm] for arm in (fast, slow)}
    return pd.DataFrame(rows).T.rename_axis("setting")


def width_ratios(curves: Iterable[Curves], slow: str, fast: str) -> dict[int, long_runs.Estimate]:
    """Width → how many times more epochs to 80 % `slow` needs, where both medians arrive."""
    epochs = {
        (run.arm, run.plan.d_model): long_runs.epochs_to(run, accuracy=LEVEL) for run in curves
    }
    widths = sorted(width for arm, width in epochs if arm == slow)
    arrived = [
        width
        for width in widths
        if all(np.isfinite(long_runs.median(epochs[arm, width]).value) for arm in (slow, fast))
    ]
    return {
        width: long_runs.ratio_of_medians(epochs[slow, width], epochs[fast, width])
        for width in arrived
    }


# ---- What the chapter says -----------------------------------------------------------------------


def checks(
    main: Experiment,
    sweep: Experiment,
    controls: Experiment,
    three_d: Experiment,
    rounding: float,
    apart: float,
) -> Iterator[Check]:
    """What the page of chapter 8 says of the frozen runs.

    rounding: nats between the two ways to compute a loss; apart: between runs made by the page and
    the frozen ones.
    """
    yield says("Nothing is approximated", rounding < 1e-12, found=rounding)
    yield says("trains the beginning of three", apart < 1e-3, found=apart)
    yield from _checks_of_speed(main)
    yield from _checks_of_endings(main, controls)
    yield from _checks_of_turns(main, sweep)
    yield from _checks_in_space(three_d)


def _checks_of_speed(main: Experiment) -> Iterator[Check]:
    curve = ratios(main, PAIRS, np.arange(0.60, 0.901, 0.01).round(2))
    published = curve[PUBLISHED]
    ends = [published.min(), published.max()]
    is_two_to_five = [ends[0] > 1.9, 4 < ends[1] < 5]
    projection = curve[PROJECTION]
    near_one = projection.between(0.88, 1.1)
    extremes = [projection.min(), projection.max()]
    yield says("moves the time to learn by about a tenth at most", near_one, found=extremes)
    yield says("five models, ten seeds each", [len(arm.seeds) == 10 for arm in main.curves])
    yield says(
        "At 85 % right the published pair differs by the paper's factor of three",
        0.85,
        2.8 < published[0.85] < 3.6,
    )
    yield says("all one can say is two to five times", is_two_to_five, found=ends)
    as_much = curve[NORM] / published
    extremes_of_norm = [as_much.min(), as_much.max()]
    yield says(
        "without any projection, does as much",
        as_much.between(0.85, 1.25),
        found=extremes_of_norm,
    )
    yield says("within about a tenth of one", near_one, found=extremes)
    slower = [
        long_runs.slowdown(main, *PAIRS[SHORT_PROJECTION], accuracy=level) for level in (0.75, 0.8)
    ]
    yield says(
        "with the projection is even the slower at 75 to 80 %",
        0.75,
        0.8,
        [estimate is not None and estimate.high < 1 for estimate in slower],
    )
    yield says("The published factor is two to five", is_two_to_five, found=ends)
    yield says("changes the time by about a tenth at most", near_one, found=extremes)


def _checks_of_endings(main: Experiment, controls: Experiment) -> Iterator[Check]:
    ends = endings(main)["median"]
    is_short = ends.index.isin(["authors", "projection-small"])
    long = ends[~is_short]
    short = ends[is_short]
    yield says("end with 95 % right", long.mean(), long.between(0.945, 0.955))
    yield says("learn later and end with 91 %", short.mean(), short.between(0.905, 0.915))
    rows = beside_layernorm(controls)
    lead = rows["lead"]
    yield says("at each model's best rate it costs 1.6 points", 100 * lead["rms"])
    yield says("All learn within two epochs", rows["epochs"] <= 2, found=rows["epochs"].max())
    projected = rows[rows["projects"]]["right"]
    free = rows[~rows["projects"]]["right"]
    yield says(
        "around 95 % right, without one around 96.5 %",
        projected.mean(),
        round(200 * free.mean()) / 200,  # to half a point
        projected.between(0.945, 0.955),
        free.between(0.96, 0.97),
    )
    yield says("It costs 1.6 points", 100 * lead["rms"])
    others = lead[["random-normal", "learnt-normal"]]
    yield says("within 0.2 points of those with it", 0.1, 100 * others.abs() < 0.2)
    even = rows.loc["uniform-layernorm"]
    rms = end_lead(controls, "uniform-rms", "rms")
    yield says(
        "changes nothing that ten seeds can measure",
        even["low"] < 0 < even["high"],
        rms[1] < 0 < rms[2],
    )
    none = end_lead(controls, "unnormalised", "rms")
    yield says("about as high as with RMSNorm", none[1] < 0 < none[2], found=100 * none[0])
    yield says("projecting costs 1.6 points of accuracy", 100 * lead["rms"])


def _checks_of_turns(main: Experiment, sweep: Experiment) -> Iterator[Check]:
    by_run = falls(main)
    median = by_run.median()
    layernorm = by_run["layernorm"]
    yield says("by some 50 degrees", round(median["layernorm"], -1))
    yield says("in nine of ten runs", (layernorm > 40).sum() == 9, len(layernorm) == 10)
    yield says("in the other models the median does not fall", median.drop("layernorm") < 0)
    arms = ("layernorm", "projection-small", "rms", "authors")
    rows = turns(sweep, arms, scales=(1.0, 8.0))
    begins_uneven = rows["spread"].between(0.1, 1)  # neither even nor nearly one-hot
    projects = rows["projects"].astype(bool)
    count = rows[["turn", "runs"]].groupby([begins_uneven, projects]).sum()
    yield says("where scores spread by about 0.4", rows["spread"][begins_uneven].mean())
    yield says(
        "all twelve projected runs turn, at either norm, and none of the twelve others",
        count.loc[True].to_numpy() == [[0, 12], [12, 12]],
        found=count.loc[True, "turn"],
    )
    few = count.loc[False]
    yield says("or nearly one-hot, three of 24 do", few["turn"].sum() == 3, few["runs"].sum())
    yield says(
        "whose queries turn in no run, learns as fast and as much",
        by_run["rms"] < claim("B5").rule["turn"],
        endings(main)["median"]["layernorm"] - endings(main)["median"]["rms"] < 0.003,
    )


def _checks_in_space(three_d: Experiment) -> Iterator[Check]:
    degrees = tilts(three_d, "layernorm")
    near = claim("B6").rule["near"]
    yield says(
        "LayerNorm's queries end within 30 degrees",
        np.sort(degrees)[-2],
        (degrees < near).sum() == 4,
        len(degrees) == 5,
    )
    right = endings(three_d)["mean"]
    yield says("the runs end at 70 % right, with RMSNorm at 91 %", right["layernorm"], right["rms"])


# ---- What the robustness page says ---------------------------------------------------------------


def robustness_checks(
    late: pd.Series,
    last: pd.Series,
    sweep: Experiment,
    settings: pd.DataFrame,
    arrived: Mapping[int, long_runs.Estimate],
    seeds: int,
    normals: Experiment,
) -> Iterator[Check]:
    """What the page on robustness says of its runs.

    late, last: by arm, epochs to `LEVEL` and accuracy at the end; settings: as `compared_settings`
    has them, ours first; arrived: as `width_ratios` has them, RMSNorm over LayerNorm.
    """
    small_values = late["small-values"] / late["authors"]
    yield says(
        "it is the short values that slow learning down", small_values > 0.7, found=small_values
    )
    small_scores = late["small-scores"] / late["rms"]
    yield says("are no handicap on the way", small_scores < 1.15, found=small_scores)
    lower = last["rms"] - last["small-scores"]
    yield says("but these runs end lower", lower > 0.01, found=lower)
    yield from _checks_of_rates(sweep)
    ours = settings.iloc[0]
    theirs = settings.iloc[1]
    ends = settings.columns[settings.columns.str.endswith("ends")]
    levels = settings.columns[settings.columns.str.startswith("slower")]
    harder = ours[ends] - theirs[ends]
    yield says("Their setting is a little harder", harder.between(0, 0.05), found=harder)
    factor = theirs[levels] / ours[levels]
    yield says("by much the same factors", factor.between(0.7, 1.4), found=factor)
    at_8 = arrived[8]
    at_16 = arrived[16]
    at_32 = arrived[32]
    yield says("two seeds a setting", seeds == 2)
    yield says(
        "At width 8 RMSNorm takes 1.27 times as long as LayerNorm [1.07, 1.47]",
        8,
        (at_8.value, at_8.low, at_8.high),
    )
    yield says("At widths 16 and 32 it takes no longer", 16, 32, at_16.value <= 1, at_32.value <= 1)
    others = [name for name in normals.arms if name != "layernorm"]
    one_other = others[0]
    several = others[1:]
    other = 100 * np.array(end_lead(normals, one_other, "layernorm"))
    yield says(
        "ends 0.3 points above … over five seeds [−1.5, 2.2]",
        other,
        len(normals.of("layernorm").seeds) == 5,
    )
    behind = [-100 * end_lead(normals, name, "layernorm")[0] for name in several]
    yield says("Three end 6 points below it, and five 30", behind, len(behind) == 2)


def margin_of_the_angle(interval: tuple[float, float]) -> Check:
    """What the page on robustness says of the interval by which B6 is judged, degrees."""
    end = interval[1]
    near = claim("B6").rule["near"]
    return says("must end below 30 degrees, and ends at 29.8", end, end, near == 30)


def _checks_of_rates(sweep: Experiment) -> Iterator[Check]:
    tuned = tuned_ratio(sweep, "authors", "layernorm")
    yield says("takes one and a half times as long", 1.3 < tuned < 1.7, found=tuned)
    at_scale_1 = epochs_by(
        [run for run in sweep.curves if run.plan.initial_scale == 1],
        lambda plan: plan.learning_rate,
    )
    usual = at_scale_1[1e-3]["authors"] / at_scale_1[1e-3]["layernorm"]
    yield says("twice as long at the paper's rate", usual > 2, found=usual)
    yield says(
        "At scale 1 a larger rate shortens the way of all",
        1,
        at_scale_1[1e-3] > at_scale_1[3e-3],
        at_scale_1[3e-3] > at_scale_1[1e-2],
    )
    at_largest = at_scale_1[1e-2]
    yield says("RMSNorm draw level", at_largest["layernorm"] == at_largest["rms"])
    above = runs_above(sweep, "rms", "layernorm", rates=(1e-3, 3e-3, 1e-2))
    yield says("RMSNorm ends above LayerNorm in every pair of runs", above)
