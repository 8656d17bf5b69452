"""Compute again what experiments have frozen, as far as this machine can, and compare.

  python -m experiments.verify                        sigma, writing, majority, early-and-late
  python -m experiments.verify sigma early-and-late

sigma, writing: of the models that are at hand. majority: its shortest part, from its seeds.
early-and-late: the end of the training, which is the embedded model; its other snapshots, and those
of the sixteen trainings after it, were not kept. The exit code is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.command import main, new_parser
from experiments.joining.__main__ import asked, embedded
from experiments.majority.plans import run_experiments
from experiments.nobody_reads_one.__main__ import freeze_real
from experiments.nobody_reads_one.sigma_and_frequencies import constant_sigma
from lnattn.errors import LnattnError, ResultError
from lnattn.freezing import Study, compare_arrays
from lnattn.paths import data_folder
from lnattn.storage import read_json, read_result
from lnattn.text.counts import Counts

Arrays = Mapping[str, np.ndarray]
#: The embedded model that is the end of the training asked early and late.
END = "book-gpt2"


class Compared(NamedTuple):
    """What was compared: its name, how it differs, and why it could not be compared ('')."""

    name: str
    differences: Sequence[str]
    left_out: str = ""


def compared(name: str, frozen: Arrays, make: Callable[[], Arrays], tolerance: float) -> Compared:
    """Frozen arrays beside those made now, as far as both have them."""
    try:
        now = make()
    except (LnattnError, OSError) as error:
        return Compared(name, [], " ".join(str(error).split()))
    study = Study(name, write=lambda *_: Path(), tolerance=tolerance)
    shared = sorted(frozen.keys() & now.keys())
    differences = [
        words for key in shared for words in compare_arrays(key, frozen[key], now[key], study)
    ]
    return Compared(name, differences if shared else ["the two have no array in common"])


def results_of(name: str) -> Iterator[str]:
    """The folders of frozen results that hold a file of this name."""
    for path in sorted((data_folder() / "results").glob(f"*/{name}.json")):
        yield path.parent.name


def sigma() -> Iterator[Compared]:
    """What one σ for all tokens changes."""
    for model in results_of("sigma"):
        frozen = read_result(data_folder() / "results" / model, "sigma")[0]
        yield compared(f"{model}/sigma", frozen, lambda name=model: constant_sigma(name)[0], 1e-4)


def writing() -> Iterator[Compared]:
    """What models write along 1, of those whose weights are at hand."""
    for model in results_of("writing"):
        frozen, record = read_result(data_folder() / "results" / model, "writing")

        def make(labels: Sequence[str] = tuple(record["files"])) -> Arrays:
            with tempfile.TemporaryDirectory() as place:
                freeze_real(list(labels), Path(place))
                return read_result(place, "writing")[0]

        yield compared(f"{model}/writing", frozen, make, 1e-4)


def majority() -> Iterator[Compared]:
    """The shortest of the experiments, from its seeds."""
    folder = data_folder() / "results" / "majority"
    seconds = {path.stem: sum(read_json(path)["seconds"]) for path in folder.glob("*.json")}
    shortest = min(seconds, key=lambda name: seconds[name])

    def make() -> Arrays:
        with tempfile.TemporaryDirectory() as place:
            list(run_experiments([shortest], place))
            return read_result(place, shortest)[0]

    yield compared(f"majority/{shortest}", read_result(folder, shortest)[0], make, 1e-3)
    others = sorted(seconds.keys() - {shortest})
    hours = sum(seconds[name] for name in others) / 3600
    why = f"{hours:.1f} hours; `python -m experiments.majority --only PART` computes one"
    yield Compared(f"majority/{', '.join(others)}", [], why)


def early_and_late() -> Iterator[Compared]:
    """The end of the training on two cores, which is the embedded model."""
    folder = data_folder() / "results" / "early-and-late"
    end = embedded(END)
    counts = Counts.load(data_folder() / END / "counts.npz")
    for what in ("looks", "lost"):
        frozen = read_result(folder, what)[0]
        last = frozen["step"] == end.step
        rows = {name: values[last] for name, values in frozen.items()}

        def make(what: str = what) -> Arrays:
            return asked(end, counts, what, each_head=False)

        yield compared(f"early-and-late/{what}, the end", rows, make, 1e-3)
    why = "the weights of all other snapshots were not kept (experiments/README.md)"
    yield Compared("early-and-late, -2-layers, -4-layers", [], why)


WHAT = {
    "sigma": sigma,
    "writing": writing,
    "majority": majority,
    "early-and-late": early_and_late,
}


def run(args: argparse.Namespace) -> None:
    if unknown := [name for name in args.what if name not in WHAT]:
        raise ResultError(f"{unknown[0]!r} is none of {', '.join(WHAT)}; name one of them.")
    wrong = []
    for name in args.what or WHAT:
        for result in WHAT[name]():
            words = f"not compared: {result.left_out}" if result.left_out else "agrees"
            if result.differences:
                words = "differs"
                wrong.append(result.name)
            print("\n  ".join([f"{result.name}: {words}", *result.differences]), flush=True)
    if wrong:
        raise ResultError(f"{', '.join(wrong)}: other than what is frozen.")


def parser() -> argparse.ArgumentParser:
    whole = new_parser("verify", __doc__)
    whole.add_argument("what", nargs="*", metavar="WHAT", help=f"of {', '.join(WHAT)}")
    return whole


if __name__ == "__main__":
    sys.exit(main(parser(), run))
