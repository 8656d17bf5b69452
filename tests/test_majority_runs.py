"""Long runs of the majority experiment: interruption, freezing, the command, and what is read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn import cli
from lnattn.errors import ResultError, ShapeError
from lnattn.paths import data_folder
from lnattn.storage import write_result
from lnattn.studies.majority import experiments, results
from lnattn.studies.majority.model import MAIN_ARMS, arm
from lnattn.studies.majority.results import (
    Curves,
    Experiment,
    best_in_sweep,
    epochs_to,
    median,
    ratio_of_medians,
)
from lnattn.studies.majority.runs import Job, angles_to_ones, measures, run_job
from lnattn.studies.majority.training import MajorityPlan, Stack

mpl.use("Agg")
TINY = MajorityPlan(
    d_model=3, classes=5, length=15, margin=3, examples=100, batch=40, epochs=7, evaluate_every=3
)
JOB = Job("rms, tiny", "rms", TINY, (0, 1))


class Stop(Exception):
    """What interrupts a run in these tests."""


def stop_after(epochs: int):
    """A progress callback that raises after so many epochs."""
    done = 0

    def progress(more: int, loss: float) -> None:
        nonlocal done
        done += more
        if done >= epochs:
            raise Stop

    return progress


def assert_same(one: dict, other: dict) -> None:
    for name in set(one) - {"seconds"}:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict[str, np.ndarray]:
    return run_job(JOB, tmp_path_factory.mktemp("whole"))


def test_curves_have_the_planned_points(uninterrupted):
    assert uninterrupted["epoch"].tolist() == [0, 3, 6, 7]
    for name in ("loss", "accuracy", "angle", "spread"):
        assert uninterrupted[name].shape == (2, 4)
        assert uninterrupted[name].dtype == np.float32
        assert np.isfinite(uninterrupted[name]).all()
    assert uninterrupted["keys"].shape == (2, 5, 3)
    # Two seeds are two runs.
    assert (uninterrupted["loss"][0] != uninterrupted["loss"][1]).all()


@pytest.mark.parametrize("stops", [(1,), (3, 5), (2, 4, 6)])
def test_an_interrupted_run_ends_where_it_would_have_ended(tmp_path, uninterrupted, stops):
    for epochs in stops:
        with pytest.raises(Stop):
            run_job(JOB, tmp_path, progress=stop_after(epochs), save_every=0.0)
    assert_same(run_job(JOB, tmp_path), uninterrupted)
    # Finished: read, not trained again.
    assert_same(run_job(JOB, tmp_path, progress=lambda epochs, loss: None), uninterrupted)


def test_a_killed_process_loses_nothing_that_was_saved(tmp_path, uninterrupted):
    """kill -9 in the middle of the run, between two saved states."""
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from lnattn.studies.majority.runs import Job, run_job
from lnattn.studies.majority.training import MajorityPlan
plan = MajorityPlan(**{vars(TINY)!r})
seen = 0
def progress(epochs, loss):
    global seen
    seen += epochs
    if seen == 5:
        os.kill(os.getpid(), signal.SIGKILL)
run_job(Job("rms, tiny", "rms", plan, (0, 1)), {str(tmp_path)!r}, progress=progress, save_every=0.0)
"""
    ended = subprocess.run([sys.executable, "-c", script], check=False, env=dict(os.environ))
    assert ended.returncode == -signal.SIGKILL
    (state,) = [path for path in tmp_path.iterdir() if path.suffix == ".npz"]
    with np.load(state) as kept:
        assert int(kept["done"]) == 4
    assert_same(run_job(JOB, tmp_path), uninterrupted)


def test_threads_change_nothing(tmp_path, uninterrupted):
    assert_same(run_job(JOB, tmp_path, workers=2), uninterrupted)


def test_other_settings_and_damage_are_refused(tmp_path, uninterrupted):
    run_job(replace(JOB, plan=replace(TINY, epochs=1)), tmp_path)
    with pytest.raises(ResultError, match="other settings"):
        run_job(JOB, tmp_path)
    (tmp_path / JOB.file_name).write_bytes(b"PK no more")
    with pytest.raises(ResultError, match=r"cannot be read .*delete it and run again"):
        run_job(JOB, tmp_path)


def test_angles_and_spread():
    d = 5
    vectors = np.stack([np.ones(d), -2 * np.ones(d), np.eye(d)[0] - np.eye(d)[1], np.eye(d)[0]])
    angle = np.degrees(np.arccos(1 / np.sqrt(d)))
    np.testing.assert_allclose(angles_to_ones(vectors), [0, 0, 90, angle], atol=1e-5)
    stack = Stack(arm("rms"), TINY, (0, 1))
    found, spread = measures(stack)
    y = arm("rms").normalise(stack.parameters["embedding.weight"][1]).numpy().astype(float)
    W_Q, W_K, _ = np.split(stack.parameters["layer.self_attn.in_proj_weight"][1].numpy(), 3)
    queries = y @ W_Q.T @ W_K / np.sqrt(3)
    cosine = np.abs(queries.sum(axis=1)) / np.linalg.norm(queries, axis=1) / np.sqrt(3)
    assert found[1] == pytest.approx(np.degrees(np.arccos(cosine)).mean(), abs=1e-3)
    assert spread[1] == pytest.approx((queries @ y.T).std(axis=1).mean(), rel=1e-4)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    jobs = [
        Job(f"{name} {seeds}", name, TINY, seeds)
        for seeds in ((0, 1), (2,))
        for name in ("layernorm", "rms")
    ]
    experiments.run_experiments(["main"], folder, progress=False, jobs={"main": jobs})
    return folder


def test_an_epochs_loss_is_a_mean_over_examples(tmp_path):
    """Not over batches, of which the last is smaller."""
    plan = replace(TINY, batch=len(TINY.data(0).train) - 1, epochs=1, evaluate_every=1)
    found = run_job(Job("uneven", "layernorm", plan, (0,)), tmp_path)
    stack = Stack(arm("layernorm"), plan, (0,))
    batches = stack.batches(0)
    assert [len(own) for (own,) in batches] == [plan.batch, 1]
    total = sum(stack.step(each)[0] * len(each[0]) for each in batches)
    assert found["loss"][0, -1] == pytest.approx(total / (plan.batch + 1), rel=1e-6)


def test_frozen_results_are_read_back(frozen):
    found = Experiment.read(frozen, "main")
    assert found.record["finished_runs"] == found.record["planned_runs"] == 6
    assert not (frozen / "partial" / "main").exists()
    assert found.arms == ("layernorm", "rms")
    curves = found.of("rms", d_model=3)
    assert curves.seeds == (0, 1, 2)
    assert curves.loss.shape == (3, 4)
    alone = run_job(Job("alone", "rms", TINY, (2,)), frozen / "elsewhere")
    np.testing.assert_array_equal(curves.loss[2], alone["loss"][0])
    with pytest.raises(ResultError, match="0 of the frozen curves are of rms, d_model = 4"):
        found.of("rms", d_model=4)
    only = Experiment(found.curves[:1], found.record)
    assert only.arms == ("layernorm",)
    table = results.threshold_table(
        found, {"layernorm": "LN", "rms": "RMS"}, accuracies=(0.01, 1.1), losses=(100.0,)
    )
    never = "not reached, 0 of 3 runs"
    assert table.loc["LN"].tolist() == ["0 (0 to 0)", never, "0 (0 to 0)"]


def test_an_interrupted_experiment_freezes_what_is_finished(tmp_path, monkeypatch):
    jobs = [Job(name, name, TINY, (0,)) for name in ("layernorm", "rms")]
    first = run_job

    def broken(job, *args, **options):
        if job.name == "rms":
            raise KeyboardInterrupt
        return first(job, *args, **options)

    monkeypatch.setattr(experiments, "run_job", broken)
    with pytest.raises(KeyboardInterrupt):
        experiments.run_experiments(["width"], tmp_path, progress=False, jobs={"width": jobs})
    part = Experiment.read(tmp_path, "width")
    assert part.arms == ("layernorm",)
    assert (part.record["finished_jobs"], part.record["planned_jobs"]) == (1, 2)
    monkeypatch.undo()
    for _ in range(2):  # the second time, all is there
        experiments.run_experiments(["width"], tmp_path, progress=False, jobs={"width": jobs})
        assert Experiment.read(tmp_path, "width").arms == ("layernorm", "rms")


def test_planned_experiments():
    folder = data_folder() / "results" / "majority"
    main = experiments.jobs_of("main", folder)
    assert sum(len(job.seeds) for job in main) == 50
    assert {job.plan for job in main} == {MajorityPlan()}
    runs = {(job.arm, seed) for job in main for seed in job.seeds}
    assert runs == {(name, seed) for name in MAIN_ARMS for seed in range(10)}
    for name in set(experiments.EXPERIMENTS) - {"controls", "controls-higher"}:
        jobs = experiments.jobs_of(name, folder)
        assert len({job.name for job in jobs}) == len(jobs)
        assert len({job.file_name for job in jobs}) == len(jobs)
    with pytest.raises(ShapeError, match="'depth' is not one of: main"):
        experiments.jobs_of("depth", folder)


def test_controls_are_planned_from_their_sweeps(tmp_path):
    """Each arm's rate and scale are those that did best on the way; seeds are not shared."""
    with pytest.raises(ResultError, match="controls-sweep"):
        experiments.jobs_of("controls", tmp_path)
    first = made_up_sweep(tmp_path, "controls-sweep", best=1)
    assert len(first) == 7 * 3 * 3
    higher = made_up_sweep(tmp_path, "controls-higher", best=None)
    assert {(job.arm, job.plan.initial_scale) for job in higher} == {
        (job.arm, 1.0) for job in first
    }
    planned = experiments.jobs_of("controls", tmp_path)
    assert [job.arm for job in planned] == list(dict.fromkeys(job.arm for job in first))
    for job in planned:
        assert (job.plan.learning_rate, job.plan.initial_scale) == (3e-3, 1.0)
        assert job.seeds == tuple(range(10))
        assert not set(job.seeds) & {seed for one in (*first, *higher) for seed in one.seeds}
        assert first[0].plan.batch == job.plan.batch
    made_up_sweep(tmp_path, "controls-higher", best=1)
    rates = {job.plan.learning_rate for job in experiments.jobs_of("controls", tmp_path)}
    assert rates == {1e-1}
    with pytest.raises(ResultError, match="the sweep has no arm 'authors'"):
        best_in_sweep(Experiment.read(tmp_path, "controls-sweep"), "authors")


def made_up_sweep(folder: Path, name: str, best: int | None) -> list[Job]:
    """A frozen sweep in which, of each arm's jobs, the one of this number is best on the way.

    At the end later ones are: that is not what is asked.
    """
    jobs = experiments.jobs_of(name, folder)
    of_arm = len(jobs) // 7
    arrays = {}
    for number, job in enumerate(jobs):
        middle = 0.1 if number % of_arm != best else 0.8 if name == "controls-sweep" else 0.85
        accuracy = np.array([[0.9, middle, 0.3 + number / 1000]] * 2)
        curves = dict.fromkeys(("loss", "accuracy", "angle", "spread"), accuracy)
        vectors = dict.fromkeys(("queries", "keys"), np.zeros((2, 3, 2)))
        own = {"epoch": np.arange(3), **curves, **vectors}
        arrays.update({f"{job.name}/{key}": value for key, value in own.items()})
    write_result(folder, name, arrays, {"jobs": [job.record() for job in jobs]})
    return jobs


def curves_with(accuracy: list[list[float]]) -> Curves:
    values = np.array(accuracy, dtype=np.float32)
    points = np.zeros_like(values)
    runs, size = values.shape
    return Curves(
        arm="rms",
        plan=TINY,
        seeds=tuple(range(runs)),
        epoch=np.arange(size) * 5,
        loss=1 - values,
        accuracy=values,
        angle=points,
        spread=points,
        queries=np.zeros((runs, 2, 3)),
        keys=np.zeros((runs, 2, 3)),
    )


def test_epochs_to_a_threshold():
    curves = curves_with([[0.1, 0.5, 0.9, 0.8], [0.1, 0.2, 0.3, 0.4], [0.9, 0.1, 0.1, 0.1]])
    assert epochs_to(curves, accuracy=0.9).tolist() == [10, np.inf, 0]
    assert epochs_to(curves, loss=0.55).tolist() == [5, np.inf, 0]
    with pytest.raises(ResultError, match="one threshold"):
        epochs_to(curves)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.one_of(st.floats(1, 100), st.just(np.inf)), min_size=1, max_size=10),
    st.integers(0, 3),
)
def test_intervals_hold_the_median(values, seed):
    found = median(np.array(values), seed=seed)
    ordered = sorted(values)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    assert found.value == pytest.approx(middle)
    assert min(values) <= found.low <= found.value <= found.high <= max(values)


def test_ratio_is_paired_and_covers_its_value():
    rng = np.random.default_rng(0)
    fast = rng.uniform(50, 150, 10)
    slow = 3 * fast
    exact = ratio_of_medians(slow, fast)
    assert [exact.value, exact.low, exact.high] == pytest.approx([3, 3, 3])
    loose = ratio_of_medians(rng.permutation(slow), fast)
    assert loose.low < 3 < loose.high
    with pytest.raises(ResultError, match="cannot be paired"):
        ratio_of_medians(slow[:3], fast)
    with pytest.raises(ResultError, match="no ratio"):
        ratio_of_medians(slow, np.full(10, np.inf))
    assert ratio_of_medians(np.full(10, np.inf), fast).value == np.inf


def test_slowdown_pairs_the_seeds_that_both_arms_have():
    """Seeds in another order and one of the slow arm's own; a seed alone would change the ratio."""
    fast = replace(curves_with([[0, 1, 1, 1], [0, 0, 1, 1]]), arm="layernorm", seeds=(4, 7))
    slow = replace(curves_with([[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1]]), seeds=(7, 5, 4))
    both = Experiment((fast, slow), {})
    found = results.slowdown(both, "rms", "layernorm", accuracy=0.9)
    # Seed 4 takes 5 and 10 epochs, seed 7 takes 10 and 15: medians 7.5 and 12.5.
    assert found.value == pytest.approx(12.5 / 7.5)
    # Resampled in pairs, a ratio is that of one seed or of both; mixed, 15/5 would be the largest.
    assert (found.low, found.high) == pytest.approx((1.5, 2.0))
    assert results.slowdown(both, "rms", "layernorm", accuracy=1.1) is None


def test_the_angle_falls_where_its_end_is_lower():
    angle = np.array([[60, 70, 20], [50, 10, 45], [30, 20, 40]], dtype=np.float32)
    found = results.fall_of_the_angle(replace(curves_with([[0] * 3] * 3), angle=angle))
    assert (found.value, found.low, found.high) == (5, -10, 40)


def test_figures_are_drawn(frozen):
    from lnattn.book.figures import majority as figures

    found = Experiment.read(frozen, "main")
    live = {"rms": {"epoch": np.array([0, 1]), "loss": np.ones((2, 2))}}
    drawn = figures.learning_curves(found, ("loss", "angle"))
    assert [len(ax.lines) for ax in drawn.axes] == [2, 2]
    assert len(figures.learning_curves(found, ("loss",), live=live).axes[0].lines) == 3
    assert len(figures.keys_and_queries(found, (("layernorm", 0), ("rms", 1))).axes) == 2
    panels = {"here": [found.of("rms")], "there": [found.of("layernorm")]}
    assert len(figures.arrival(panels, accuracy=0.9).axes) == 2
    two = figures.arrival(panels, accuracy=[0.9, 2.0], columns=1, epochs=(2, 150))
    # Nobody has twice the right answers: crosses only.
    drawn = [line.get_marker() for line in two.axes[1].lines if len(line.get_xdata())]
    assert drawn == ["x"]
    pairs = {"never": ("rms", "layernorm"), "same": ("layernorm", "layernorm")}
    ratios = figures.ratio_curves(found, pairs, [0.1, 2.0], [0.5, -1.0])
    for ax in ratios.axes:
        assert len(ax.lines) == 3
        # Nobody has twice the right answers, or a negative loss: there is no ratio to draw.
        assert all(np.isnan(line.get_ydata()[-1]) for line in ax.lines[:2])
    assert set(figures.LOOKS) == set(figures.SHORT)


def test_command_runs_and_explains(capsys, tmp_path):
    sizes = ["--examples", "200", "--batch", "50", "--epochs", "2", "--d-model", "3"]
    assert cli.main(["majority", *sizes, "--seeds", "1", "--arms", "rms", "--quiet"]) == 0
    assert "rms" in capsys.readouterr().out
    assert cli.main(["majority", *sizes, "--seeds", "1", "--quiet", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["arm"] for row in rows] == ["layernorm", "rms", "authors"]
    for arguments, message in (
        (["--paper"], "needs --out"),
        (["--paper", "--out", str(tmp_path), "--epochs", "3"], "--epochs does not go with --paper"),
        (["--out", str(tmp_path)], "go with --paper"),
        (["--arms", "none"], "'none' is not one of"),
        (
            ["--paper", "--out", str(tmp_path), "--only", "depth", "--quiet"],
            "'depth' is not one of",
        ),
    ):
        assert cli.main(["majority", *arguments]) == 1
        assert message in capsys.readouterr().err
