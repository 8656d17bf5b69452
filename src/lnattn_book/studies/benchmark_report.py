"""The frozen results of benchmarks/, read for the performance page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lnattn.errors import ResultError
from lnattn.paths import data_folder
from lnattn.storage import read_json

_KEYS = ("title", "what", "workload", "rows", "ratios", "growth", "notes", "record")
#: How the names of methods begin that no other can be faster than.
_BOUND = "matrix product"


@dataclass(frozen=True)
class Benchmark:
    """One frozen benchmark; the fields are those that benchmarks/README.md describes."""

    name: str
    title: str
    what: str
    workload: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    ratios: Sequence[Mapping[str, Any]]
    growth: Sequence[Mapping[str, Any]]
    notes: Sequence[str]
    record: Mapping[str, Any]

    @property
    def machine(self) -> str:
        """Processor, threads and date in one line."""
        hardware = self.record["hardware"]
        return (
            f"{hardware['processor']}, {hardware['threads']} threads, "
            f"{hardware['memory_gib']:g} GiB, {self.record['date']}"
        )


def frozen(folder: Path | str | None = None) -> list[Benchmark]:
    """All frozen benchmarks by name; `ResultError` for a damaged file, or one of a quick run."""
    place = Path(folder) if folder else data_folder() / "results" / "benchmarks"
    return [read(path) for path in sorted(place.glob("*.json"))]


def read(path: Path) -> Benchmark:
    """One frozen benchmark."""
    content = read_json(path)
    missing = [key for key in _KEYS if key not in content]
    if missing:
        raise ResultError(f"{path} has no {missing[0]!r}; run benchmarks/run_all.py again.")
    if content["record"].get("quick", True):
        raise ResultError(f"{path} is of a quick run, which measures nothing; run it in full.")
    return Benchmark(path.stem, **{key: content[key] for key in _KEYS})


def to_other_ways(benchmarks: Sequence[Benchmark]) -> list[tuple[Benchmark, Mapping[str, Any]]]:
    """The ratios to other algorithms; bare arithmetic, which nothing can beat, is left out."""
    ends = [
        (benchmark, ratio, (ratio["of"], ratio["to"]))
        for benchmark in benchmarks
        for ratio in benchmark.ratios
    ]
    return [
        (benchmark, ratio)
        for benchmark, ratio, both in ends
        if not any(n.startswith(_BOUND) for n in both)
    ]


def summary(benchmarks: Sequence[Benchmark]) -> str:
    """One row a comparison, as Markdown: ours, the other way for the same work, and their ratio."""
    lines = [
        "| Workload | Ours | The other way | Times faster | Range | Goal |",
        "|:--|--:|--:|--:|--:|--:|",
    ]
    for benchmark, ratio in to_other_ways(benchmarks):
        ours = ratio["to"]
        times = ratio["median"]
        goal = ratio["floor"]
        aim = "–" if goal is None else _times_as(goal) + (", missed" if times < goal else "")
        time = next((row["seconds"] for row in benchmark.rows if row["method"] == ours), None)
        both = "– | –" if time is None else f"{seconds(time)} | {seconds(time * times)}"
        name = f"**{benchmark.title.split(':')[0]}**: {ours}; *{ratio['of']}*"
        spread = f"{_times_as(ratio['low'])} – {_times_as(ratio['high'])}"
        lines.append(f"| {name} | {both} | **{_times_as(times)}** | {spread} | {aim} |")
    return "\n".join(lines)


def _times_as(ratio: float | int) -> str:
    """A ratio with two or three digits that count: '0.42×', '1.4×', '46×', '1,270×'."""
    digits = 2 if ratio < 1 else 1 if ratio < 10 else 0
    return f"{float(f'{ratio:.3g}'):,.{digits}f}×"


def seconds(value: float) -> str:
    """A time with the unit that suits it, three significant digits."""
    for unit, size in (("h", 3600.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"
