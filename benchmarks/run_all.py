"""Run the benchmarks and freeze their results: `python benchmarks/run_all.py [--quick] [NAME …]`.

With `--compare` nothing is frozen: each ratio of today is printed beside the frozen one.

Each `bench_NAME.py` beside this file has `run(quick: bool) -> dict`; what it returns is written to
`data/results/benchmarks/NAME.json` as soon as it is known, with its provenance.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from common import machine, process_peak_mib  # noqa: E402

from lnattn.errors import LnattnError, ResultError  # noqa: E402
from lnattn.storage import provenance, read_json, write_json  # noqa: E402

OUTPUT = HERE.parent / "data" / "results" / "benchmarks"

#: Keys that every benchmark returns; README.md explains them.
REQUIRED = ("title", "what", "workload", "rows", "ratios", "growth", "notes")
_ROW = {"method", "seconds", "fastest", "slowest", "repeats", "peak_mib"}
_RATIO = {"of", "to", "median", "low", "high", "floor"}
_GROWTH = {"against", "label", "sizes", "seconds", "slopes"}


def available() -> dict[str, Path]:
    """The benchmarks of this folder by name."""
    return {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}


def load(path: Path) -> ModuleType:
    """Import a benchmark from its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ResultError(f"{path} cannot be imported as a benchmark.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def check(name: str, result: Mapping[str, Any]) -> None:
    """Raise `ResultError` unless a benchmark returned what the performance page reads."""
    missing = [key for key in REQUIRED if key not in result]
    if missing:
        raise ResultError(f"benchmark {name} returned no {', '.join(missing)}; see README.md.")
    for key, expected in (("rows", _ROW), ("ratios", _RATIO), ("growth", _GROWTH)):
        for entry in result[key]:
            if not expected <= set(entry):
                lacking = ", ".join(sorted(expected - set(entry)))
                raise ResultError(f"benchmark {name}: an entry of {key} lacks {lacking}.")


def run_one(name: str, path: Path, quick: bool, output: Path) -> Path:
    """Run one benchmark, check what it returned, and write it with its provenance."""
    before = machine()
    begin = time.perf_counter()
    result = load(path).run(quick=quick)
    seconds = time.perf_counter() - begin
    check(name, result)
    record = provenance(
        benchmark=name,
        quick=quick,
        **{"hardware": before, "run_seconds": round(seconds, 1)},
        process_peak_mib=round(process_peak_mib(), 1),
    )
    path = output / f"{name}.json"
    named = {"command": "make benchmark", "kind": "benchmark"}
    return write_json(path, {**result, "record": record, **named})


def show(name: str, result: Mapping[str, Any]) -> None:
    """Print a benchmark's rows and ratios, one line each."""
    print(f"\n{name}: {result['title']}")
    for row in result["rows"]:
        peak = "" if row["peak_mib"] is None else f", peak +{row['peak_mib']:.0f} MiB"
        print(
            f"  {row['method']}: {row['seconds']:.4g} s "
            f"({row['fastest']:.4g} to {row['slowest']:.4g}, {row['repeats']} rounds{peak})"
        )
    for entry in result["ratios"]:
        floor = "" if entry["floor"] is None else f", asked for: {entry['floor']:g}×"
        print(
            f"  {entry['of']} / {entry['to']}: {entry['median']:.1f}× "
            f"({entry['low']:.1f} to {entry['high']:.1f}{floor})"
        )
    for entry in result["growth"]:
        for method, slope in entry["slopes"].items():
            print(f"  {method}: seconds ~ {entry['against']}^{slope:.2f}")


def compare(result: Mapping[str, Any], frozen: Mapping[str, Any]) -> list[str]:
    """A line for each ratio of a new result: today's, and the frozen one, with their ranges."""
    then = {(entry["of"], entry["to"]): _in_words(entry) for entry in frozen["ratios"]}
    lines = [f"  frozen on: {_machine_of(frozen)}; today: {_machine_of(result)}"]
    for entry in result["ratios"]:
        before = then.get((entry["of"], entry["to"]), "not frozen")
        lines.append(f"  {entry['of']} / {entry['to']}: {_in_words(entry)}; frozen: {before}")
    return lines


def _in_words(entry: Mapping[str, Any]) -> str:
    return f"{entry['median']:.2f}× ({entry['low']:.2f} to {entry['high']:.2f})"


def _machine_of(result: Mapping[str, Any]) -> str:
    hardware = result["record"]["hardware"]
    return f"{hardware['processor']}, {hardware['cores']} cores"


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--output", type=Path, help=f"folder for the JSON (default: {OUTPUT.name})")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="freeze nothing; show the frozen ratios too",
    )
    options = parser.parse_args(arguments)
    known = available()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(known)}")
    if options.quick and options.output is None and not options.compare:
        parser.error("--quick needs --output: quick results must not replace the frozen ones")
    if options.compare and options.output is not None:
        parser.error("--compare writes nothing, so --output makes no sense with it")
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) if options.compare else options.output or OUTPUT
        for name in options.names or known:
            try:
                result = read_json(run_one(name, known[name], options.quick, output))
                show(name, result)
                if options.compare:
                    print(*compare(result, read_json(OUTPUT / f"{name}.json")), sep="\n")
            except LnattnError as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 1
            except ModuleNotFoundError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
                if name in options.names:
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
