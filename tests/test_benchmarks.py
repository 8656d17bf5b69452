"""The benchmarks' convention, helpers and page; no assertion about how long anything takes."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lnattn_book.benchmark_report import frozen, summary

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


@pytest.fixture
def runner(common: ModuleType) -> ModuleType:
    return load("run_all")


EXAMPLE = """
from common import growth, ratio, time_side_by_side
def run(quick=False):
    timed = time_side_by_side({"slow": lambda: sum(range(2000)), "fast": lambda: 1}, 3)
    return {
        "title": "Adding", "what": "Adds numbers.", "workload": {"n": 2000},
        "rows": [t.as_row() for t in timed.values()],
        "ratios": [ratio(timed["slow"], timed["fast"], floor=1e9)],
        "growth": [growth("n", "numbers", [10, 100], lambda n: {"slow": lambda: sum(range(n))})],
        "notes": ["A note."],
    }
"""


def test_ratio_is_the_median_of_paired_rounds(common: ModuleType) -> None:
    slow = common.Timing("slow", (10.0, 40.0, 12.0))
    fast = common.Timing("fast", (1.0, 2.0, 3.0))
    found = common.ratio(slow, fast, floor=5.0, work=2.0)
    assert (found["low"], found["median"], found["high"]) == (8.0, 20.0, 40.0)
    unpaired = common.ratio(slow, common.Timing("fast", (1.0, 2.0)))
    assert unpaired["median"] == pytest.approx(12 / 1.5)
    assert (unpaired["low"], unpaired["high"]) == (5.0, 40.0)


def test_a_benchmark_is_run_checked_and_frozen(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    (tmp_path / "bench_adding.py").write_text(EXAMPLE)
    (tmp_path / "bench_poor.py").write_text("def run(quick=False):\n    return {'title': 'x'}\n")
    monkeypatch.setattr(runner, "HERE", tmp_path)
    out = tmp_path / "out"
    assert runner.main(["adding", "--output", str(out)]) == 0
    assert "seconds ~ n^" in capsys.readouterr().out
    [one] = frozen(out)
    assert one.record["hardware"]["cores"] >= 1
    assert one.title in summary([one])
    assert runner.main(["poor", "--output", str(out)]) == 1
    assert "returned no what" in capsys.readouterr().err
    monkeypatch.setattr(runner, "OUTPUT", out)
    before = (out / "adding.json").read_bytes()
    capsys.readouterr()
    assert runner.main(["adding", "--compare"]) == 0
    shown = capsys.readouterr().out
    ratio = json.loads(before)["ratios"][0]["median"]
    assert f"frozen: {ratio:.2f}× (" in shown
    assert "frozen on: " in shown
    assert (out / "adding.json").read_bytes() == before


def test_the_papers_algorithm_agrees_before_it_is_timed(common: ModuleType) -> None:
    """Also a second oracle of the kernel, in the released code's convention."""
    bench = load("bench_contribution")
    model = common.random_first_layer(60, 24, 2, 40, seed=3)
    ids = bench.random_documents(60, 40)[0]
    assert bench.check_agreement(model, ids) < 1e-6
    assert len(bench.PapersAlgorithm(model)(ids)) == 2 * 40 * 6
