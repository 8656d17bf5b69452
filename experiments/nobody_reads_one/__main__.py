"""Train the arms, and freeze what they and real models show.

    python -m experiments.nobody_reads_one train OUT [--text FILE] [--seeds 5]
    python -m experiments.nobody_reads_one freeze OUT [--to data/results/nobody-reads-one]
    python -m experiments.nobody_reads_one real [LABEL=]NAME … --to data/results/MODEL
    python -m experiments.nobody_reads_one sigma NAME --to data/results/MODEL
    python -m experiments.nobody_reads_one frequencies NAME --to data/results/MODEL

`train` may be stopped at any time and started again: a run is one file, written when it is whole.
NAME: a folder, a shipped model, `minilm`, or a model of the hub such as EleutherAI/pythia-160m;
LABEL: what results call it.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from experiments.command import frozen, place
from experiments.nobody_reads_one import train as one_arm
from experiments.nobody_reads_one.hub_models import folder_of, written
from experiments.nobody_reads_one.sigma_and_frequencies import constant_sigma, frequencies
from experiments.nobody_reads_one.train import NORMS, OPTIMISERS, STEPS, Arm, characters
from experiments.once import once
from lnattn.paths import data_folder
from lnattn.storage import provenance, read_result, sha256_of_file, write_result

NAME = "nobody-reads-one"


def arms(seeds: int) -> list[Arm]:
    """All arms, seed by seed, so that a run that is stopped has whole seeds."""
    return [Arm(n, o, seed) for seed, n, o in product(range(seeds), NORMS, OPTIMISERS)]


def train_all(out: Path, text: Path, seeds: int, first: int, steps: int = STEPS) -> None:
    """Train what OUT does not have yet; a run says on which text, and how long."""
    torch.set_num_threads(1)
    data = characters(text)
    text_sha256 = sha256_of_file(text)
    for arm in arms(seeds):
        settings = {"text_sha256": text_sha256, "steps": steps}
        arrays, record = once(out, arm.name, settings, partial(one_arm.train, arm, data, steps))
        print(f"{arm.name}: loss {arrays['loss'][-50:].mean():.3f}, {record['seconds']} s")
    settings = {"text_sha256": text_sha256, "first": first}
    once(out, "first-steps", settings, lambda: {"along": one_arm.first_steps(data, first)})


def freeze(out: Path, to: Path, seeds: int) -> Path:
    """One result of all runs: each array [norm optimiser seed …]."""
    runs = [read_result(out, arm.name) for arm in arms(seeds)]
    shape = (seeds, len(NORMS), len(OPTIMISERS))
    arrays = {
        key: np.moveaxis(
            np.stack([of_run[key] for of_run, _ in runs]).reshape(*shape, *value.shape), 0, 2
        )
        for key, value in runs[0][0].items()
        if key not in ("marks", "loss")
    }
    losses = np.array([of_run["loss"][-50:].mean() for of_run, _ in runs]).reshape(shape)
    arrays |= {"loss": np.moveaxis(losses, 0, 2), "marks": runs[0][0]["marks"]}
    arrays["first"] = read_result(out, "first-steps")[0]["along"]
    record = provenance(
        what="energy along 1 and n of what writes to the stream; arrays [norm optimiser seed …]",
        norms=list(NORMS), optimisers=list(OPTIMISERS), **runs[0][1]["settings"],
        writers=["tokens", "positions", "attention 0", "FFN 0", "attention 1", "FFN 1"],
        seconds=round(sum(about["seconds"] for _, about in runs), 1),
    )  # fmt: skip
    return write_result(to, NAME, arrays, record)


def freeze_real(names: list[str], to: Path) -> Path:
    """Freeze what some checkpoints write along 1, in one table, as `to`/writing."""
    tables = []
    read = {}
    for label, equals, name in (given.partition("=") for given in names):
        table, read[label] = written(label, folder_of(name if equals else label))
        tables.append(table)
    whole = pd.concat(tables)
    arrays = {key: np.array(column.tolist()) for key, column in whole.items()}
    what = "energy along 1 of what writes to the stream, beside directions of random signs"
    return write_result(to, "writing", arrays, provenance(what=what, files=read))


def main() -> None:
    parser = argparse.ArgumentParser(prog="experiments.nobody_reads_one", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("train", "freeze"):
        subparser = verbs.add_parser(verb)
        subparser.add_argument("out", type=Path)
        subparser.add_argument("--seeds", type=int, default=5)
    text = data_folder() / "text" / "sample.jsonl"
    to = data_folder() / "results" / NAME
    verbs.choices["train"].add_argument("--text", type=Path, default=text)
    verbs.choices["train"].add_argument("--first", type=int, default=100)
    verbs.choices["freeze"].add_argument("--to", type=Path, default=to)
    real = verbs.add_parser("real")
    real.add_argument("names", nargs="+", metavar="[LABEL=]NAME")
    real.add_argument("--to", type=Path, required=True)
    for verb in ("sigma", "frequencies"):
        subparser = verbs.add_parser(verb)
        subparser.add_argument("name")
        subparser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    if given.verb == "train":
        train_all(given.out, given.text, given.seeds, given.first)
    elif given.verb in ("sigma", "frequencies"):
        study = {"sigma": constant_sigma, "frequencies": frequencies}[given.verb]
        arrays, facts = study(given.name)
        path = write_result(given.to, given.verb, arrays, provenance(model=given.name, **facts))
        named(path, f"{given.verb} MODEL")
    elif given.verb == "real":
        named(freeze_real(given.names, given.to), "real MODEL")
    else:
        named(freeze(given.out, given.to, given.seeds), "freeze RUNS")


def named(path: Path, task: str) -> None:
    """Name a record's kind and command, which ends with where it was frozen."""
    frozen(path, "arrays", f"nobody_reads_one {task} --to {place(path.parent)}")


if __name__ == "__main__":
    main()
