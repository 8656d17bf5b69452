"""Long runs of the majority experiment: interruption, freezing, the command, and what is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_majority_statistics import curves_with

from experiments.majority import plans as experiments
from experiments.majority import runs
from experiments.majority.runs import Job, run_job
from lnattn.errors import ResultError
from lnattn.storage import write_result
from lnattn_book.studies.majority.encoder import arm
from lnattn_book.studies.majority.long_runs import Experiment, epochs_to
from lnattn_book.studies.majority.train import MajorityPlan, angles_to_ones, train

TINY = MajorityPlan(
    d_model=3, classes=5, length=15, margin=3, examples=100, batch=40, epochs=7, evaluate_every=3
)
JOB = Job("rms, tiny", "rms", TINY, (0, 1))


def assert_same(first: dict, other: dict) -> None:
    for name in set(first) - {"seconds"}:
        np.testing.assert_array_equal(first[name], other[name], err_msg=name)


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


def test_an_interrupted_job_goes_on_with_the_runs_that_are_missing(
    tmp_path, uninterrupted, monkeypatch
):
    trained = []

    def stops(arm, plan, seed, learner_of):
        if len(trained) == 1:
            raise KeyboardInterrupt
        trained.append(seed)
        return train(arm, plan, seed, learner_of)

    monkeypatch.setattr(runs, "train", stops)
    with pytest.raises(KeyboardInterrupt):
        run_job(JOB, tmp_path)
    trained.append("interrupted")
    assert_same(run_job(JOB, tmp_path), uninterrupted)
    assert_same(run_job(JOB, tmp_path), uninterrupted)  # finished: read, not trained again
    assert trained == [0, "interrupted", 1]
    with pytest.raises(ResultError, match="other settings"):
        run_job(replace(JOB, plan=replace(TINY, epochs=3)), tmp_path)


def test_angles_and_spread():
    d = 5
    vectors = np.stack([np.ones(d), -2 * np.ones(d), np.eye(d)[0] - np.eye(d)[1], np.eye(d)[0]])
    angle = np.degrees(np.arccos(1 / np.sqrt(d)))
    np.testing.assert_allclose(angles_to_ones(vectors), [0, 0, 90, angle], atol=1e-5)
    outcome = train(arm("rms"), replace(TINY, learning_rate=1e-12), seed=1)
    weights = TINY.parameters(arm("rms"), 1)
    y = arm("rms").normalise(weights["embedding.weight"]).numpy().astype(float)
    W_Q, W_K, _ = np.split(weights["layer.self_attn.in_proj_weight"].numpy(), 3)
    queries = y @ W_Q.T @ W_K / np.sqrt(3)
    cosine = np.abs(queries.sum(axis=1)) / np.linalg.norm(queries, axis=1) / np.sqrt(3)
    angle = np.degrees(np.arccos(cosine)).mean()
    np.testing.assert_allclose(outcome["angle"][0], angle, atol=1e-3)
    np.testing.assert_allclose(outcome["spread"][0], (queries @ y.T).std(axis=1).mean(), rtol=1e-4)


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


def test_frozen_results_are_read_back(frozen):
    experiment = Experiment.read(frozen, "main")
    assert experiment.record["finished_runs"] == experiment.record["planned_runs"] == 6
    assert not (frozen / "partial" / "main").exists()
    assert experiment.arms == ("layernorm", "rms")
    curves = experiment.of("rms", d_model=3)
    assert curves.seeds == (0, 1, 2)
    assert curves.loss.shape == (3, 4)
    alone = run_job(Job("alone", "rms", TINY, (2,)), frozen / "elsewhere")
    np.testing.assert_array_equal(curves.loss[2], alone["loss"][0])
    with pytest.raises(ResultError, match=r"^0 .*rms"):
        experiment.of("rms", d_model=4)
    only = Experiment(experiment.curves[:1], experiment.record)
    assert only.arms == ("layernorm",)


def test_epochs_to_a_threshold():
    curves = curves_with([[0.1, 0.5, 0.9, 0.8], [0.1, 0.2, 0.3, 0.4], [0.9, 0.1, 0.1, 0.1]])
    assert epochs_to(curves, accuracy=0.9).tolist() == [10, np.inf, 0]
    assert epochs_to(curves, loss=0.55).tolist() == [5, np.inf, 0]
    with pytest.raises(ResultError, match="one threshold"):
        epochs_to(curves)


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
        assert not set(job.seeds) & {
            seed for planned in (*first, *higher) for seed in planned.seeds
        }
        assert first[0].plan.batch == job.plan.batch
    made_up_sweep(tmp_path, "controls-higher", best=1)
    rates = {job.plan.learning_rate for job in experiments.jobs_of("controls", tmp_path)}
    assert rates == {1e-1}


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
        of_job = {"epoch": np.arange(3), **curves, **vectors}
        arrays.update({f"{job.name}/{key}": value for key, value in of_job.items()})
    write_result(folder, name, arrays, {"jobs": [job.record() for job in jobs]})
    return jobs
