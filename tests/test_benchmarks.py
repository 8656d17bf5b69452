"""The benchmarks' convention, helpers and page; no assertion about how long anything takes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lnattn_book.studies.benchmark_report import frozen, summary, to_other_ways

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def load(name: str) -> ModuleType:
    """Import a file of benchmarks/, which is no package."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def common() -> ModuleType:
    return load("common")


def test_ratio_is_the_median_of_paired_rounds(common: ModuleType) -> None:
    slow = common.Timing("slow", (10.0, 40.0, 12.0))
    fast = common.Timing("fast", (1.0, 2.0, 3.0))
    found = common.ratio(slow, fast, floor=5.0, work=2.0)
    assert (found["low"], found["median"], found["high"]) == (8.0, 20.0, 40.0)
    unpaired = common.ratio(slow, common.Timing("fast", (1.0, 2.0)))
    assert unpaired["median"] == pytest.approx(12 / 1.5)
    assert (unpaired["low"], unpaired["high"]) == (5.0, 40.0)


def test_methods_take_turns_and_calls_in_a_row_count_as_one(
    common: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that a call of the long method moves by 8 s, one of the short method by 1."""
    now = [0.0]
    called = []

    def spend(name: str, seconds: float) -> None:
        called.append(name)
        now[0] += seconds

    monkeypatch.setattr(common.time, "perf_counter", lambda: now[0])
    methods = {"long": lambda: spend("long", 8), "short": lambda: spend("short", 1)}
    timings = common.time_side_by_side(methods, repeats=2, in_a_row={"short": 3})
    assert called == 3 * ["long", "short", "short", "short"]  # the first round only warms up
    assert timings["long"].rounds == (8, 8)
    assert timings["short"].rounds == (1, 1)


def test_frozen_benchmarks_are_read_and_bare_arithmetic_is_no_other_algorithm() -> None:
    found = frozen()
    ratios = [ratio for _, ratio in to_other_ways(found)]
    left_out = [r for one in found for r in one.ratios if r not in ratios]
    assert len(left_out) > 0
    assert all("matrix product" in r["of"] + r["to"] for r in left_out)
    rows = summary(found).splitlines()[2:]
    assert len(rows) == len(ratios)
    missed = [r for r in ratios if r["floor"] is not None and r["median"] < r["floor"]]
    assert sum(row.count(", missed") for row in rows) == len(missed)


def test_the_papers_algorithm_agrees_before_it_is_timed(common: ModuleType) -> None:
    """Also a second oracle of the kernel, in the released code's convention."""
    bench = load("bench_contribution")
    model = common.random_first_layer(60, 24, 2, 40, seed=3)
    ids = bench.random_documents(60, 40)[0]
    assert bench.check_agreement(model, ids) < 1e-6
    assert len(bench.PapersAlgorithm(model)(ids)) == 2 * 40 * 6
