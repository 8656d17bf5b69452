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


class Report:
    """Benchmarks as Markdown: what was timed, a table of times and a table of ratios for each."""

    def __init__(self, benchmarks: Sequence[Benchmark]) -> None:
        self.benchmarks = list(benchmarks)

    def __repr__(self) -> str:
        return self._repr_markdown_()

    def _repr_markdown_(self) -> str:
        if not self.benchmarks:
            return "No benchmark has been frozen yet: run `make benchmark`."
        return "\n\n".join(_section(benchmark) for benchmark in self.benchmarks)


def _section(benchmark: Benchmark) -> str:
    sizes = ", ".join(
        f"{name} = {value:,}" if isinstance(value, int) else f"{name} = {value}"
        for name, value in benchmark.workload.items()
        if not isinstance(value, Mapping)
    )
    load = benchmark.record["hardware"]["load_at_start"][0]
    parts = [
        f"**{benchmark.title}.** {benchmark.what}",
        f"Sizes: {sizes}. Machine: {benchmark.machine}; load before the run {load:g}.",
        _times(benchmark.rows),
    ]
    if benchmark.ratios:
        parts.append(_ratios(benchmark.ratios))
    parts += [f"*{note}*" for note in benchmark.notes]
    return "\n\n".join(parts)


def _times(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| Method | Median | Fastest – slowest | Rounds | Memory above the start |",
        "|:--|--:|--:|--:|--:|",
    ]
    for row in rows:
        peak = "not measured" if row["peak_mib"] is None else f"{row['peak_mib']:,.0f} MiB"
        lines.append(
            f"| {row['method']} | {seconds(row['seconds'])} "
            f"| {seconds(row['fastest'])} – {seconds(row['slowest'])} "
            f"| {row['repeats']} | {peak} |"
        )
    return "\n".join(lines)


def _ratios(ratios: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| Ratio | Median | Range | Asked for |", "|:--|--:|--:|:--|"]
    for entry in ratios:
        if entry["floor"] is None:
            asked = "no number"
        else:
            reached = "reached" if entry["median"] >= entry["floor"] else "**not reached**"
            asked = f"{entry['floor']:g}×, {reached}"
        lines.append(
            f"| {entry['of']} / {entry['to']} | {entry['median']:.3g}× "
            f"| {entry['low']:.3g}× – {entry['high']:.3g}× | {asked} |"
        )
    return "\n".join(lines)


def seconds(value: float) -> str:
    """A time with the unit that suits it, three significant digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"
