"""The benchmarks' convention, helpers and page; no assertion about how long anything takes."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
import warnings
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import pytest
import torch

from lnattn.book.benchmark_report import (
    Benchmark,
    Kind,
    Report,
    Summary,
    frozen,
    overview,
    seconds,
)
from lnattn.book.figures import performance
from lnattn.book.style import use_style
from lnattn.errors import ResultError
from lnattn.storage import write_json

mpl.use("Agg")
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


def test_methods_take_turns(common: ModuleType) -> None:
    order: list[str] = []
    methods = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    timings = common.time_side_by_side(methods, repeats=3, warm_up=1)
    assert order == ["a", "b"] * 4
    assert {name: len(timing.rounds) for name, timing in timings.items()} == {"a": 3, "b": 3}


def test_ratio_is_the_median_of_paired_rounds(common: ModuleType) -> None:
    slow = common.Timing("slow", (10.0, 40.0, 12.0))
    fast = common.Timing("fast", (1.0, 2.0, 3.0))
    found = common.ratio(slow, fast, floor=5.0, work=2.0)
    assert (found["low"], found["median"], found["high"]) == (8.0, 20.0, 40.0)
    unpaired = common.ratio(slow, common.Timing("fast", (1.0, 2.0)))
    assert unpaired["median"] == pytest.approx(12 / 1.5)
    assert (unpaired["low"], unpaired["high"]) == (5.0, 40.0)


def test_slope_is_the_exponent(common: ModuleType) -> None:
    sizes = [3, 10, 50]
    assert common.fitted_slope(sizes, [0.2 * x**1.7 for x in sizes]) == pytest.approx(1.7)
    with pytest.raises(ValueError, match="two or more"):
        common.fitted_slope([1], [1.0])


def test_growth_leaves_out_what_was_not_run(common: ModuleType) -> None:
    def make(size: int) -> dict:
        methods = {"both": lambda: None}
        return methods if size > 1 else {**methods, "small only": lambda: None}

    found = common.growth("n", "size", [1, 2, 4], make, repeats=1)
    assert found["seconds"]["small only"][1:] == [None, None]
    assert set(found["slopes"]) == {"both"}


def test_peak_memory_sees_new_pages(common: ModuleType) -> None:
    # Only Linux has that mark, and a container may not let a process write to it. Pages and not an
    # array: an allocator may serve an array from memory that the process has already.
    if common.peak_memory(lambda: None) is None:
        pytest.skip("the kernel's high-water mark of memory cannot be reset here")
    assert 60 < common.peak_memory(lambda: common.touch(64)) < 100


def test_peak_memory_is_what_the_mark_rises_above_the_level_before(
    common: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = tmp_path / "status"
    status.write_text("VmHWM:\t5000 kB\nVmRSS:\t1000 kB\n")
    monkeypatch.setattr(common, "_mark_moves", lambda: True)
    monkeypatch.setattr(common, "Path", lambda name: tmp_path / Path(name).name)
    assert common.peak_memory(lambda: status.write_text("VmHWM:\t66536 kB\n")) == 64
    assert (tmp_path / "clear_refs").read_text() == "5"


def test_peak_memory_says_nothing_where_the_mark_stands_still(
    common: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    common._mark_moves.cache_clear()
    monkeypatch.setattr(common, "_status_kib", lambda status, key: 1000)
    assert common.peak_memory(lambda: None) is None
    common._mark_moves.cache_clear()


def test_random_weights_have_the_asked_shape(common: ModuleType) -> None:
    model = common.random_first_layer(50, 24, 3, 16, seed=2)
    assert model.embeddings.W_E.shape == (50, 24)
    assert model.attention.W_Q.shape == (3, 24, 8)
    again = common.random_first_layer(50, 24, 3, 16, seed=2)
    assert torch.equal(model.embeddings.W_P, again.embeddings.W_P)


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
    text = repr(Report([one]))
    assert "**not reached**" in text
    assert "A note." in text
    assert "e+" not in repr(Report(frozen()))
    assert "-0 MiB" not in repr(Report(frozen()))
    mpl.pyplot.close(performance.scaling([one]))
    assert one.title in repr(Summary([one]))
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


def test_quick_results_never_replace_the_frozen_ones(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    with pytest.raises(SystemExit):
        runner.main(["--quick"])
    assert "must not replace" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        runner.main(["nothing"])
    (tmp_path / "bench_adding.py").write_text(EXAMPLE)
    monkeypatch.setattr(runner, "HERE", tmp_path)
    assert runner.main(["adding", "--quick", "--output", str(tmp_path)]) == 0
    with pytest.raises(ResultError, match="quick run"):
        frozen(tmp_path)


def test_the_frozen_results_fit_into_their_figure() -> None:
    """Names so long that they leave an axis no room would be a warning in the page."""
    use_style()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = performance.scaling(frozen())
        figure.canvas.draw()
    assert min(ax.get_window_extent().width for ax in figure.axes) > figure.bbox.width / 4
    for ax in figure.axes:  # the exponents: all are there, none upon another
        boxes = [text.get_window_extent() for text in ax.texts]
        assert len(boxes) >= 2
        assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))
    mpl.pyplot.close(figure)


def test_damaged_results_are_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"title": "x"})
    with pytest.raises(ResultError, match="has no 'what'"):
        frozen(tmp_path)
    assert "No benchmark" in repr(Report([]))
    with pytest.raises(ResultError, match="run_all"):
        performance.scaling([])


def test_a_row_says_what_was_compared_and_every_comparison_has_one() -> None:
    rows = [{"method": "slow, a part", "seconds": 1.0}, {"method": "fast", "seconds": 0.01}]
    rows += [{"method": "matrix products only", "seconds": 0.004}]
    ratios = [
        {"of": "slow, a part", "to": "fast", "median": 1234.4, "low": 1.26, "high": 2000.0,
         "floor": 2000.0},
        {"of": "matrix products only", "to": "fast", "median": 0.4, "low": 0.25, "high": 0.5,
         "floor": 0.3},
        {"of": "fast", "to": "matrix products only", "median": 2.5, "low": 2.0, "high": 4.0,
         "floor": None},
    ]  # fmt: skip
    hardware = {"processor": "P", "threads": 2, "memory_gib": 8.0}
    record = {"hardware": hardware, "date": "today"}
    one = Benchmark("x", "Title: more", "", {}, rows, ratios, [], [], record)
    said = {"least": "1,230×", "most": "1,230×", "asked": 2, "reached": 1}
    assert overview([one]) == {**said, "machine": "P, 2 threads, 8 GiB, today"}
    assert [one.kind(row["method"]) for row in rows] == [Kind.THEIRS, Kind.OURS, Kind.BOUND]
    assert one.kind("the arithmetic alone") is Kind.BOUND
    *_, line = repr(Summary([one])).splitlines()
    assert line == (
        "| **Title**: fast; *slow, a part* | 10 ms | 12.3 s | **1,230×** | 1.3× – 2,000× "
        "| 2,000×, missed |"
    )
    ends = [line.split(" | ", 1)[1] for line in repr(Summary([one], bounds=True)).splitlines()[2:]]
    assert ends == [
        "10 ms | 4 ms | **2.5×** | 2.0× – 4.0× | 3.3× |",
        "10 ms | 4 ms | **2.5×** | 2.0× – 4.0× | – |",
    ]
    count = [
        len(repr(Summary(frozen(), bounds=bounds)).splitlines()) - 2 for bounds in (False, True)
    ]
    assert sum(count) == sum(len(one.ratios) for one in frozen())
    assert min(count) > 1


@pytest.mark.parametrize(
    ("value", "text"),
    [(75.4, "75.4 s"), (16200.0, "4.5 h"), (0.0712, "71.2 ms"), (3e-6, "3 µs"), (5e-8, "50 ns")],
)
def test_seconds_get_their_unit(value: float, text: str) -> None:
    assert seconds(value) == text


def test_the_papers_algorithm_agrees_before_it_is_timed(common: ModuleType) -> None:
    """Also a second oracle of the kernel, in the released code's convention."""
    bench = load("bench_contribution")
    model = common.random_first_layer(60, 24, 2, 40, seed=3)
    ids = bench.random_documents(60, 40)[0]
    assert bench.check_agreement(model, ids) < 1e-6
    assert len(bench.PapersAlgorithm(model)(ids)) == 2 * 40 * 6
