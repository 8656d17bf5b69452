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
#: How the names of those methods begin that no other can be faster than.
_BOUNDS = ("matrix product",)


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


def to_a_bound(ratio: Mapping[str, Any]) -> bool:
    """Whether a ratio compares with bare arithmetic, which no method can be faster than."""
    return ratio["of"].startswith(_BOUNDS) or ratio["to"].startswith(_BOUNDS)


def summary(benchmarks: Sequence[Benchmark], bounds: bool = False) -> str:
    """One row a comparison, as Markdown: ours, the other way for the same work, and their ratio.

    bounds: the comparisons with bare arithmetic, instead of those with other algorithms.
    """
    alone = ("Alone", "Times as long", "Range", "At most")
    other = ("The other way", "Times faster", "Range", "Goal")
    lines = [f"| {' | '.join(('Workload', 'Ours', *(alone if bounds else other)))} |"]
    lines.append("|:--|--:|--:|--:|--:|--:|")
    for one in benchmarks:
        lines += [_line(one, ratio) for ratio in one.ratios if to_a_bound(ratio) == bounds]
    return "\n".join(lines)


def _line(one: Benchmark, ratio: Mapping[str, Any]) -> str:
    ours, other = ratio["to"], ratio["of"]
    times, low, high, goal = (ratio[key] for key in ("median", "low", "high", "floor"))
    if bound := to_a_bound(ratio):  # as a multiple of the bound, whichever way it was measured
        if ours.startswith(_BOUNDS):
            ours, other = other, ours
        else:
            times, low, high, goal = 1 / times, 1 / high, 1 / low, 1 / goal if goal else None
    reached = goal is None or (times <= goal if bound else times >= goal)
    aim = "–" if goal is None else _times_as(goal) + ("" if reached else ", missed")
    time = next((row["seconds"] for row in one.rows if row["method"] == ours), None)
    both = [time, time / times if bound else time * times] if time else [None, None]
    shown = " | ".join("–" if value is None else seconds(value) for value in both)
    name = f"**{one.title.split(':')[0]}**: {ours}; *{other}*"
    spread = f"{_times_as(low)} – {_times_as(high)}"
    return f"| {name} | {shown} | **{_times_as(times)}** | {spread} | {aim} |"


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
