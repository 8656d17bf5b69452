"""The numbers of chapter 8 and its robustness page, on runs of which they are known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lnattn.paths import data_folder
from lnattn_book.chapters import majority as chapter
from lnattn_book.studies.majority.long_runs import Curves, Experiment
from lnattn_book.studies.majority.train import MajorityPlan

EPOCHS = np.array([0, 10, 20, 30])


def curves(arm, accuracy, angle=None, **plan):
    """Two runs of an arm whose accuracies are given, epoch by epoch."""
    accuracy = np.array(accuracy, dtype=np.float32)
    angle = np.zeros_like(accuracy) if angle is None else np.array(angle, dtype=np.float32)
    empty = np.zeros((len(accuracy), 20, 8), dtype=np.float32)
    return Curves(
        arm=arm,
        plan=MajorityPlan(**plan),
        seeds=tuple(range(len(accuracy))),
        epoch=EPOCHS,
        loss=1 - accuracy,
        accuracy=accuracy,
        angle=angle,
        spread=np.zeros_like(accuracy),
        queries=empty,
        keys=empty,
    )


FAST = curves("layernorm", [[0.1, 0.8, 0.9, 0.9], [0.1, 0.8, 0.9, 0.9]])
SLOW = curves("authors", [[0.1, 0.2, 0.8, 0.8], [0.1, 0.2, 0.5, 0.9]])
BOTH = Experiment((FAST, SLOW), {})


def test_epochs_to_the_level_are_those_of_the_median_run():
    assert chapter.epochs_to_level(FAST) == 10
    assert chapter.epochs_to_level(SLOW) == 25  # 20 and 30
    assert chapter.epochs_to_level(SLOW, accuracy=0.85) == np.inf


def test_ratios_are_nan_where_the_fast_arm_never_arrives():
    table = chapter.ratios(BOTH, {"pair": ("authors", "layernorm")}, [0.8, 0.95])
    assert table.loc[0.8, "pair"] == 2.5
    assert np.isnan(table.loc[0.95, "pair"])


def test_endings():
    ends = chapter.endings(BOTH)
    assert ends.loc["authors"].tolist() == pytest.approx([0.85, 0.85, 0.8, 0.9])


@pytest.mark.parametrize(
    ("arm", "projects"),
    [("layernorm", True), ("learnt-normal", True), ("rms", False), ("unnormalised", False)],
)
def test_an_arm_projects_along_any_vector(arm, projects):
    assert chapter.has_projection(arm) is projects


def test_each_arm_is_compared_at_the_setting_that_suits_it():
    better = curves("authors", [[0.1, 0.8, 0.9, 0.9]] * 2, learning_rate=0.01)
    sweep = Experiment((FAST, SLOW, better), {})
    assert chapter.best_setting(sweep, "authors") is better
    assert chapter.tuned_ratio(sweep, "authors", "layernorm") == 1


def test_the_angle_falls_from_start_to_end_in_each_run():
    turning = curves("rms", [[0.1] * 4] * 2, angle=[[60, 70, 20, 10], [50, 50, 50, 55]])
    sweep = Experiment((turning,), {})
    assert chapter.falls_of_the_angle(sweep, "rms").tolist() == [50, -5]
    turns = chapter.turns(sweep, ["rms"], scales=[1.0], degrees=45.0)
    of_rms = turns.loc[("rms", 1.0)]
    assert of_rms[["turn", "runs"]].tolist() == [1, 2]
    assert not of_rms["projects"]
    assert of_rms["spread"] == turning.spread[:, 0].mean()


def test_without_degrees_a_turn_is_what_the_rule_of_b5_asks_for():
    turning = curves("rms", [[0.1] * 4] * 2, angle=[[60, 60, 60, 49], [60, 60, 60, 51]])
    turns = chapter.turns(Experiment((turning,), {}), ["rms"], scales=[1.0])
    assert turns.loc[("rms", 1.0), "turn"] == 1  # by 11 degrees, not by 9


def test_arms_beside_layernorm():
    rows = chapter.beside_layernorm(BOTH)
    assert rows["lead"].to_dict() == pytest.approx({"layernorm": 0, "authors": -0.05})
    assert rows["epochs"].to_dict() == {"layernorm": 10, "authors": 25}
    assert rows["projects"].to_dict() == {"layernorm": True, "authors": False}


def test_falls_are_a_column_an_arm_and_tilts_a_number_a_run():
    turning = curves("rms", [[0.1] * 4] * 2, angle=[[60, 70, 20, 10], [50, 50, 50, 55]])
    assert chapter.falls(Experiment((turning,), {}))["rms"].tolist() == [50, -5]
    along_1 = np.ones((2, 20, 8), dtype=np.float32)
    along_1[1, :, 0] = -7  # orthogonal to 1
    runs = Experiment((replace(turning, queries=along_1),), {})
    assert chapter.tilts(runs, "rms") == pytest.approx([0, 90], abs=1e-5)


def test_the_pages_sentences_hold_of_the_frozen_runs_and_fail_of_others():
    folder = data_folder() / "results" / "majority"
    names = ("main", "sweep", "controls", "three-d")
    main, *others = (Experiment.read(folder, name) for name in names)
    asked = list(chapter.checks(main, *others, 1e-16, 1e-6))
    assert [check.words for check in asked if not check.holds] == []
    swapped = {"rms": "authors", "authors": "rms"}
    curves_of_others = [
        replace(curve, arm=swapped.get(curve.arm, curve.arm)) for curve in main.curves
    ]
    wrong = Experiment(tuple(curves_of_others), main.record)
    failing = [check.words for check in chapter.checks(wrong, *others, 1, 1) if not check.holds]
    assert "without any projection, does as much" in failing
    assert "within about a tenth of one" in failing
    assert "Nothing is approximated" in failing


def test_a_run_made_now_is_compared_at_the_epochs_that_both_have():
    live = {"epoch": np.array([0, 20]), "loss": np.array([[0.9, 0.4]])}
    assert chapter.difference_from_frozen(FAST, live) == pytest.approx(0.3)  # 0.4 beside 1 - 0.9


def test_epochs_by_a_setting_of_the_plan():
    wide = curves("authors", [[0.1, 0.9, 0.9, 0.9]] * 2, d_model=16)
    table = chapter.epochs_by([SLOW, wide], lambda plan: plan.d_model)
    assert table.loc["authors"].to_dict() == {8: 25, 16: 10}


def test_runs_are_paired_by_seed_and_rate():
    lower = curves("rms", [[0.1, 0.2, 0.3, 0.95], [0.1, 0.2, 0.3, 0.4]])
    runs = Experiment((FAST, lower), {})
    assert chapter.runs_above(runs, "layernorm", "rms", rates=[FAST.plan.learning_rate]) == [
        False,
        True,
    ]


def test_settings_are_compared_row_by_row():
    table = chapter.compared_settings({"here": BOTH}, "authors", "layernorm", [0.8])
    assert table.loc["here"].to_dict() == pytest.approx(
        {"slower at 80%": 2.5, "layernorm ends": 0.9, "authors ends": 0.85}
    )


def test_widths_at_which_an_arm_never_arrives_have_no_ratio():
    wide = curves("layernorm", [[0.1] * 4] * 2, d_model=16)
    slow = curves("authors", [[0.1, 0.9, 0.9, 0.9]] * 2, d_model=16)
    ratios = chapter.width_ratios([FAST, SLOW, wide, slow], "authors", "layernorm")
    assert {width: ratio.value for width, ratio in ratios.items()} == {8: 2.5}


def test_the_robustness_pages_sentences_hold_of_the_frozen_runs_and_fail_of_others():
    folder = data_folder() / "results" / "majority"
    names = ("authors", "parts", "sweep", "width", "normals")
    authors, parts, sweep, width, normals = (Experiment.read(folder, name) for name in names)
    base = {"learning_rate": 1e-3, "initial_scale": 1.0}
    at_base = [sweep.of(arm, **base) for arm in sweep.arms]
    together = [*parts.curves, *at_base]
    late = pd.Series({run.arm: chapter.epochs_to_level(run) for run in together})
    last = pd.Series({run.arm: run.accuracy[:, -1].mean() for run in together})
    pair = Experiment(tuple(sweep.of(arm, **base) for arm in ("layernorm", "authors")), {})
    settings = {"ours": pair, "theirs": authors}
    both = chapter.compared_settings(settings, "authors", "layernorm", (0.6, 0.7, 0.75))
    arrived = chapter.width_ratios([*at_base, *width.curves], "rms", "layernorm")
    asked = chapter.robustness_checks(late, last, sweep, both, arrived, 2, normals)
    assert [check.words for check in asked if not check.holds] == []
    asked = chapter.robustness_checks(late, last * 0, sweep, both[::-1], arrived, 5, normals)
    assert [check.words for check in asked if not check.holds] == [
        "but these runs end lower",
        "Their setting is a little harder",
        "two seeds a setting",
    ]
    assert chapter.margin_of_the_angle((-1.9, 29.8)).holds
    assert not chapter.margin_of_the_angle((-1.9, 31.0)).holds
