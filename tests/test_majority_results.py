"""The frozen majority results: whole, documented, small, and what the chapter says of them."""

from __future__ import annotations

import numpy as np
import pytest
from naming import naming

from experiments.majority.plans import jobs_of
from lnattn.errors import ResultError
from lnattn_book.claims.frozen import frozen_records
from lnattn_book.page.places import repository
from lnattn_book.studies.majority import long_runs
from lnattn_book.studies.majority.encoder import arm
from lnattn_book.studies.majority.long_runs import Experiment
from lnattn_book.studies.majority.train import angles_to_ones

FOLDER = repository() / "data" / "results" / "majority"
FROZEN = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", FROZEN)
def test_results_are_whole_and_documented(name):
    found = Experiment.read(FOLDER, name)
    record = found.record
    planned = [job.record() for job in jobs_of(name, FOLDER)]
    assert all(job in planned for job in record["jobs"])
    assert record["planned_runs"] == sum(len(job.seeds) for job in jobs_of(name, FOLDER))
    assert record["finished_jobs"] == len(record["jobs"]) == len(record["seconds"])
    assert record["finished_runs"] == sum(len(job["seeds"]) for job in record["jobs"])
    assert {"python", "lnattn", "torch", "numpy", "numba"} <= set(record["versions"])
    assert record["date"] >= "2026-01-01"
    for curves in found.curves:
        points, runs = len(curves.epoch), len(curves.seeds)
        assert (curves.epoch[0], curves.epoch[-1]) == (0, curves.plan.epochs)
        for measure in (curves.loss, curves.accuracy, curves.angle, curves.spread):
            assert measure.shape == (runs, points)
            assert measure.dtype == np.float32
            assert np.isfinite(measure).all()
        assert curves.keys.shape == (runs, curves.plan.classes, curves.plan.d_model)
        # The keys are those of their arm, and the last angle is that of the queries kept.
        along = np.abs(curves.keys.sum(axis=-1))
        if arm(curves.arm).norm != "none":
            assert (along.max() < 1e-4) == arm(curves.arm).project
        np.testing.assert_allclose(
            angles_to_ones(curves.queries).mean(axis=1), curves.angle[:, -1], atol=0.01
        )


def test_the_frozen_claims_follow_from_the_frozen_results():
    """What the chapter registered, computed again."""
    _, found = frozen_records(FOLDER.parent / "claims")
    entries = {(entry.claim, entry.model): entry.values for entry in found}
    main = Experiment.read(FOLDER, "main")
    for model, name in (("the authors' norm", "authors"), ("equal norms √d", "rms")):
        ratio = long_runs.slowdown(main, name, "layernorm", accuracy=0.85)
        assert ratio is not None
        assert entries["B4", f"majority, {model}"]["85%"] == pytest.approx(ratio.value)
        angle = main.of(name).angle
        fall = (angle[:, 0] - angle[:, -1]).mean()
        assert entries["B5", f"majority, {model}"]["without"] == pytest.approx(fall)


def test_jobs_of_one_arm_and_plan_are_joined_in_the_order_they_were_run():
    """Two jobs of one arm, seeds 5 and 2, and one of another arm between them; by hand."""
    plan = {"epochs": 2}
    jobs = [
        {"name": "a", "arm": "rms", "plan": plan, "seeds": [5]},
        {"name": "b", "arm": "layernorm", "plan": plan, "seeds": [0]},
        {"name": "c", "arm": "rms", "plan": plan, "seeds": [2]},
    ]
    arrays = {}
    for number, job in enumerate(jobs):
        name = job["name"]
        arrays[f"{name}/epoch"] = np.array([0, 2])
        for measure in ("loss", "accuracy", "angle", "spread"):
            arrays[f"{name}/{measure}"] = np.full((1, 2), number, dtype=np.float32)
        for vectors in ("queries", "keys"):
            arrays[f"{name}/{vectors}"] = np.full((1, 3, 2), number, dtype=np.float32)
    found = Experiment.restored(arrays, {"jobs": jobs})
    assert found.arms == ("rms", "layernorm")
    rms = found.of("rms", epochs=2)
    assert rms.seeds == (5, 2)
    for measure in (rms.loss, rms.accuracy, rms.angle, rms.spread):
        assert measure.tolist() == [[0, 0], [2, 2]]
    assert rms.queries[:, 0, 0].tolist() == rms.keys[:, 0, 0].tolist() == [0, 2]
    assert rms.epoch.tolist() == [0, 2]
    with pytest.raises(ResultError, match=naming("rms", 0)):
        found.of("rms", epochs=3)
    with pytest.raises(ValueError, match="job 'c'"):
        Experiment.restored({k: v for k, v in arrays.items() if k[0] != "c"}, {"jobs": jobs})
