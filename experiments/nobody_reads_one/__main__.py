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
import time
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from experiments.nobody_reads_one import train as one_arm
from experiments.nobody_reads_one.beside import constant_sigma, frequencies
from experiments.nobody_reads_one.real import folder_of, written
from experiments.nobody_reads_one.train import NORMS, OPTIMISERS, STEPS, Arm, characters
from lnattn.errors import ResultError
from lnattn.paths import data_folder
from lnattn.storage import provenance, read_json, read_result, sha256_of_file, write_result

NAME = "nobody-reads-one"


def arms(seeds: int) -> list[Arm]:
    """All arms, seed by seed, so that a run that is stopped has whole seeds."""
    return [Arm(n, o, seed) for seed, n, o in product(range(seeds), NORMS, OPTIMISERS)]


def train_all(out: Path, text: Path, seeds: int, first: int, steps: int = STEPS) -> None:
    """Train what OUT does not have yet; a run says on which text, and how long."""
    torch.set_num_threads(1)
    data, about = characters(text), {"text_sha256": sha256_of_file(text), "steps": steps}
    for arm in arms(seeds):
        if done(out, arm.name, about):
            continue
        began = time.perf_counter()
        arrays = one_arm.train(arm, data, steps)
        seconds = round(time.perf_counter() - began, 1)
        write_result(out, arm.name, arrays, provenance(**about, seconds=seconds))
        print(f"{arm.name}: loss {arrays['loss'][-50:].mean():.3f}, {seconds} s", flush=True)
    if not done(out, "first-steps", about | {"first": first}):
        found = {"along": one_arm.first_steps(data, first)}
        write_result(out, "first-steps", found, provenance(**about, first=first))


def done(out: Path, name: str, about: dict[str, object]) -> bool:
    """Whether OUT has this run; one on another text or of another length is a `ResultError`."""
    if not (out / f"{name}.json").exists():
        return False
    record = read_json(out / f"{name}.json")
    if any(record.get(key) != value for key, value in about.items()):
        raise ResultError(f"{out / name}.json is of another text or length; name another folder.")
    return True


def freeze(out: Path, to: Path, seeds: int) -> Path:
    """One result of all runs: each array [norm optimiser seed …]."""
    runs = [read_result(out, arm.name) for arm in arms(seeds)]
    shape = (seeds, len(NORMS), len(OPTIMISERS))
    arrays = {
        key: np.moveaxis(
            np.stack([found[key] for found, _ in runs]).reshape(*shape, *value.shape), 0, 2
        )
        for key, value in runs[0][0].items()
        if key not in ("marks", "loss")
    }
    losses = np.array([found["loss"][-50:].mean() for found, _ in runs]).reshape(shape)
    arrays |= {"loss": np.moveaxis(losses, 0, 2), "marks": runs[0][0]["marks"]}
    arrays["first"] = read_result(out, "first-steps")[0]["along"]
    record = provenance(
        what="energy along 1 and n of what writes to the stream; arrays [norm optimiser seed …]",
        norms=list(NORMS), optimisers=list(OPTIMISERS), steps=runs[0][1]["steps"],
        writers=["tokens", "positions", "attention 0", "FFN 0", "attention 1", "FFN 1"],
        text_sha256=runs[0][1]["text_sha256"],
        seconds=round(sum(one["seconds"] for _, one in runs), 1),
    )  # fmt: skip
    return write_result(to, NAME, arrays, record)


def freeze_real(names: list[str], to: Path) -> Path:
    """Freeze what some checkpoints write along 1, in one table, as `to`/writing."""
    tables, read = [], {}
    for label, equals, name in (given.partition("=") for given in names):
        table, read[label] = written(label, folder_of(name if equals else label))
        tables.append(table)
    found = pd.concat(tables)
    arrays = {key: np.array(column.tolist()) for key, column in found.items()}
    what = "energy along 1 of what writes to the stream, beside directions of random signs"
    return write_result(to, "writing", arrays, provenance(what=what, files=read))


def main() -> None:
    parser = argparse.ArgumentParser(prog="experiments.nobody_reads_one", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("train", "freeze"):
        one = verbs.add_parser(verb)
        one.add_argument("out", type=Path)
        one.add_argument("--seeds", type=int, default=5)
    verbs.choices["train"].add_argument(
        "--text", type=Path, default=data_folder() / "text" / "sample.jsonl"
    )
    verbs.choices["train"].add_argument("--first", type=int, default=100)
    verbs.choices["freeze"].add_argument(
        "--to", type=Path, default=data_folder() / "results" / NAME
    )
    real = verbs.add_parser("real")
    real.add_argument("names", nargs="+", metavar="[LABEL=]NAME")
    real.add_argument("--to", type=Path, required=True)
    for verb in ("sigma", "frequencies"):
        one = verbs.add_parser(verb)
        one.add_argument("name")
        one.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    if given.verb == "train":
        train_all(given.out, given.text, given.seeds, given.first)
    elif given.verb in ("sigma", "frequencies"):
        study = {"sigma": constant_sigma, "frequencies": frequencies}[given.verb]
        arrays, facts = study(given.name)
        print(write_result(given.to, given.verb, arrays, provenance(model=given.name, **facts)))
    elif given.verb == "real":
        print(freeze_real(given.names, given.to))
    else:
        print(freeze(given.out, given.to, given.seeds))


if __name__ == "__main__":
    main()
