"""The benchmarks beside their floors, on ratios that are planted."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from lnattn_book.chapters import performance as chapter
from lnattn_book.figures.scale import growth_curves
from lnattn_book.studies.benchmark_report import Benchmark

mpl.use("Agg")


def benchmark(name: str, *speeds: float, over_floor: float = 0.0) -> Benchmark:
    """One benchmark whose ratios have these medians."""
    ratios: list[dict[str, Any]] = [{"median": speed} for speed in speeds]
    workload = {"pass_over_floor": {"median": over_floor}}
    return Benchmark(name, "", "", workload, [], ratios, [], [], {})


FROZEN = [
    benchmark("affinity", 9.0, 0.5),
    benchmark("contribution", 9.0, 0.25),
    benchmark("counting", over_floor=1.32),
    benchmark("position", 9.0, 9.0, 9.0, 0.8),
]


def test_times_over_floors_are_one_over_the_speed_beside_them():
    table = chapter.times_over_floors(FROZEN)
    assert table["Now"].tolist() == pytest.approx([2, 4, 1.25, 1.32])
    assert table["Before"].tolist() == [2.1, 1.3, 1.2, 1.1]
    assert table["Now / before"].tolist() == pytest.approx([2 / 2.1, 4 / 1.3, 1.25 / 1.2, 1.2])
    assert table["Times as long as"].tolist() == ["products"] * 3 + ["tokenizer"]


def test_speeds_are_medians_of_other_ways_and_bounds_are_none():
    def ratio(of: str, median: float, floor: float | None) -> dict[str, Any]:
        return {"of": of, "to": "ours", "median": median, "floor": floor}

    first = benchmark("one")
    first.ratios.extend([ratio("papers", 3.0, 2.0), ratio("matrix products alone", 0.5, 1.0)])
    second = benchmark("other")
    # A goal is reached by what equals it.
    second.ratios.extend([ratio("loop", 90.0, 100.0), ratio("sort", 40.0, 40.0)])
    second.ratios.append(ratio("scan", 50.0, None))
    assert chapter.speeds([first, second]) == (3.0, 90.0, 2 / 3)


def test_a_benchmark_is_found_by_its_name():
    assert chapter.named(FROZEN, "counting") is FROZEN[2]
    with pytest.raises(KeyError, match="none"):
        chapter.named(FROZEN, "none")


def scale_of(**entry: Any) -> Benchmark:
    return Benchmark("scale", "", "", {}, [], [], [entry], [], {})


GROWN = scale_of(
    against="V",
    label="tokens",
    sizes=[10, 100, 1000],
    seconds={"sorting": [1.0, 10.0, None], "looking": [0.5, 0.5, 0.5]},
    slopes={"sorting": 1.0, "looking": 0.0},
    expected={"sorting": 1.1, "looking": 0.0},
    peak_mib={"sorting": [512.0, 1024.0, None], "looking": [512.0, 512.0, 2048.0]},
)


def test_exponents_stand_beside_the_largest_point_that_was_measured():
    table = chapter.exponents(GROWN)
    assert table.loc[("sorting", "V")].tolist() == ["10 to 100", 1.0, 1.1, 10.0, 1.0]
    assert table.loc[("looking", "V")].tolist() == ["10 to 1,000", 0.0, 0.0, 0.5, 2.0]


def test_exponents_beyond_what_is_expected_are_told_with_the_points_left_out():
    told = chapter.growth_told(GROWN)
    assert "in no curve. Left out" in told
    assert told.endswith("memory: sorting, V = 1,000.")
    steep = {**GROWN.growth[0], "expected": {"sorting": 0.75, "looking": -0.15}}
    assert "power in sorting over V (1.00 for 0.75). " in chapter.growth_told(scale_of(**steep))
    whole = {**steep, "seconds": {"looking": [0.5, 0.5, 0.5]}, "slopes": {"looking": 0.0}}
    assert chapter.growth_told(scale_of(**whole)).endswith("memory: no points.")


def test_a_busy_machine_says_so():
    record = {"hardware": {"cores": 2, "load_at_start": [1.64, 9, 9]}}
    busy = Benchmark("scale", "", "", {}, [], [], [], [], record)
    assert chapter.load_of(busy).startswith("1.6 processes were running or waiting for one of 2")


def test_what_became_slower_is_told_by_groups():
    told = chapter.slower_told(chapter.times_over_floors(FROZEN))
    assert told == (
        "Longer than before, by more than a tenth: contributions of a document (3.1 times), "
        "pairs of a text, to a file (1.2 times); as long: bands over all tokens (1.0 times), "
        "AUROC of all heads (1.0 times)."
    )
    faster = [benchmark("affinity", 9.0, 1.0), *FROZEN[1:]]
    assert chapter.slower_told(chapter.times_over_floors(faster)).endswith(
        "; shorter: AUROC of all heads (0.5 times)."
    )


def test_times_of_transformer_lens_are_named_by_what_is_called():
    lens = benchmark("lens", 12.0, 3.0)
    for ratio, call in zip(lens.ratios, ("its scores", "hooks and weights"), strict=True):
        ratio["of"] = f"TransformerLens 4.3.0, {call}"
    assert chapter.times_of_lens(lens) == {"its scores": 12.0, "hooks and weights": 3.0}


def test_points_that_took_too_much_are_named():
    assert chapter.left_out(GROWN) == ["sorting, V = 1,000"]


def test_curves_have_seconds_above_gibibytes_and_a_gap_where_a_point_is_left_out():
    figure = growth_curves(GROWN.growth)
    seconds, memory = figure.axes[0], figure.axes[1]
    sorting, looking = seconds.get_lines()
    np.testing.assert_array_equal(sorting.get_ydata(), [1, 10, np.nan])
    np.testing.assert_array_equal(looking.get_xdata(), [10, 100, 1000])
    np.testing.assert_array_equal(memory.get_lines()[1].get_ydata(), [0.5, 0.5, 2])
    assert (seconds.get_xscale(), seconds.get_yscale()) == ("log", "log")
    plt.close(figure)
