"""The frozen results of benchmarks/, read for the performance page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from lnattn.errors import ResultError
from lnattn.paths import data_folder
from lnattn.storage import read_json

_KEYS = ("title", "what", "workload", "rows", "ratios", "growth", "notes", "record")


class Kind(Enum):
    """Whose a method is."""

    OURS = "this package"
    THEIRS = "the other way"
    BOUND = "bare arithmetic"


#: How the names of those methods begin that no other can be faster than.
_BOUNDS = ("matrix product", "the arithmetic alone")


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

    def kind(self, method: str) -> Kind:
        """Whose a method is: a ratio leads from a slow way to ours, or compares with a bound."""
        if method.startswith(_BOUNDS):
            return Kind.BOUND
        start = method.split(",")[0]
        slow, fast = ({entry[side].split(",")[0] for entry in self.ratios} for side in ("of", "to"))
        return Kind.THEIRS if start in slow - fast else Kind.OURS

    def seconds_of(self, method: str) -> float | None:
        """The median of a method that was timed under this very name, or None."""
        return next((row["seconds"] for row in self.rows if row["method"] == method), None)


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


def overview(benchmarks: Sequence[Benchmark]) -> dict[str, Any]:
    """Of all benchmarks: the least and the largest ratio to another algorithm, goals, machines."""
    ratios = [(one, entry) for one in benchmarks for entry in one.ratios]
    others = [
        entry["median"]
        for one, entry in ratios
        if Kind.BOUND not in (one.kind(entry["of"]), one.kind(entry["to"]))
    ]
    goals = [entry["median"] >= entry["floor"] for _, entry in ratios if entry["floor"] is not None]
    return {
        "least": _times_as(min(others)),
        "most": _times_as(max(others)),
        "goals": len(goals),
        "reached": sum(goals),
        "machine": "; ".join(sorted({one.machine for one in benchmarks})),
    }


class Summary:
    """One row a comparison, as Markdown: ours, the other way for the same work, and their ratio.

    bounds: the comparisons with bare arithmetic, which no method can be faster than, instead
    of those with other algorithms.
    """

    def __init__(self, benchmarks: Sequence[Benchmark], bounds: bool = False) -> None:
        self.rows = [
            (one, entry)
            for one in benchmarks
            for entry in one.ratios
            if (Kind.BOUND in (one.kind(entry["of"]), one.kind(entry["to"]))) == bounds
        ]
        self.bounds = bounds

    def __repr__(self) -> str:
        return self._repr_markdown_()

    def _repr_markdown_(self) -> str:
        head = ("Workload", "Ours", "Alone", "Times as long", "Range", "At most")
        if not self.bounds:
            head = ("Workload", "Ours", "The other way", "Times faster", "Range", "Goal")
        lines = [f"| {' | '.join(head)} |", "|:--|--:|--:|--:|--:|--:|"]
        return "\n".join([*lines, *(self._line(one, entry) for one, entry in self.rows)])

    def _line(self, one: Benchmark, entry: Mapping[str, Any]) -> str:
        ours, other = entry["to"], entry["of"]
        ratio, low, high, goal = (entry[key] for key in ("median", "low", "high", "floor"))
        if self.bounds:  # how many times as long as the bound, whichever way it was measured
            if one.kind(ours) is Kind.BOUND:
                ours, other = other, ours
            else:
                ratio, low, high = 1 / ratio, 1 / high, 1 / low
                goal = 1 / goal if goal else None
        reached = goal is None or (ratio <= goal if self.bounds else ratio >= goal)
        aim = "–" if goal is None else _times_as(goal) + ("" if reached else ", missed")
        time = one.seconds_of(ours)
        theirs = time and (time / ratio if self.bounds else time * ratio)
        times = [seconds(value) if value else "–" for value in (time, theirs)]
        name = f"**{one.title.split(':')[0]}**: {ours}; *{other}*"
        spread = f"{_times_as(low)} – {_times_as(high)}"
        return f"| {name} | {' | '.join(times)} | **{_times_as(ratio)}** | {spread} | {aim} |"


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
