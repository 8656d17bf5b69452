"""Train the one-layer majority model of Brody et al. (2023) with and without projection.

With --paper: the whole experiment, five arms and ten seeds, and what its outcome depends on. It
may be interrupted at any time (also by kill -9) and goes on where it stopped when the same
command is given again; every finished part is frozen at once. Without --paper: a few short runs,
and a table of what they reached.
"""

from __future__ import annotations

import argparse
import json

from lnattn.commands import positive
from lnattn.commands.table import add_forms, print_csv

EXAMPLES = """examples:
  lnattn majority                          a minute of short runs
  lnattn majority --csv > arms.csv
  lnattn majority --arms layernorm rms authors --epochs 60 --seeds 3 --workers 2
  lnattn majority --paper --out results    the whole experiment, about an hour on one core
  lnattn majority --paper --only main --out results --workers 2

An arm is a way to normalise attention's input; lnattn.studies.majority.model describes all.
"""

#: Fields of `MajorityPlan` that can be set for short runs: type, default, meaning.
PLAN = {
    "d_model": (int, 8, "width of the model"),
    "classes": (int, 20, "classes of tokens"),
    "length": (int, 50, "tokens in a sequence"),
    "margin": (int, 6, "least lead of the majority class"),
    "examples": (int, 10_000, "sequences, a fifth of them held out"),
    "batch": (int, 600, "sequences a step"),
    "epochs": (int, 60, "passes over the data"),
    "learning_rate": (float, 3e-3, "Adam's learning rate at the start; it decays to 0"),
    "initial_scale": (float, 1.0, "factor on the initial W_Q, W_K and W_V"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--paper", action="store_true", help="the whole experiment")
    parser.add_argument("--out", metavar="FOLDER", help="where --paper freezes its results")
    parser.add_argument(
        "--only", nargs="+", metavar="PART", help="with --paper: only these parts, in this order"
    )
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help="threads")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    add_forms(parser, json="what was found as JSON", csv="it as CSV, a row an arm or a part")
    short = parser.add_argument_group("short runs (without --paper)")
    short.add_argument("--arms", nargs="+", metavar="ARM", help="default: the first three")
    short.add_argument("--seeds", type=positive, metavar="N", help="runs an arm (default: 3)")
    for name, (kind, default, meaning) in PLAN.items():
        option = f"--{name.replace('_', '-')}"
        short.add_argument(option, type=kind, metavar="N", help=f"{meaning} (default: {default})")


def run(args: argparse.Namespace) -> None:
    from lnattn.errors import ShapeError

    short_only = [name for name in ("arms", "seeds", *PLAN) if getattr(args, name) is not None]
    if args.paper:
        if not args.out:
            raise ShapeError("--paper needs --out FOLDER, where it keeps what it has found.")
        if short_only:
            raise ShapeError(f"--{short_only[0].replace('_', '-')} does not go with --paper.")
        _paper(args)
        return
    if args.out or args.only:
        raise ShapeError("--out and --only go with --paper; short runs only print.")
    _short(args)


def _paper(args: argparse.Namespace) -> None:
    from lnattn.book.results import name_command
    from lnattn.storage import read_json
    from lnattn.studies.majority.experiments import EXPERIMENTS, run_experiments

    names = args.only or list(EXPERIMENTS)
    paths = run_experiments(names, args.out, workers=args.workers, progress=not args.quiet)
    records = [read_json(name_command(path)) for path in paths]
    if args.json:
        print(json.dumps(records, indent=2, ensure_ascii=False))
        return
    if args.csv:
        parts = ({**record, "file": path} for path, record in zip(paths, records, strict=True))
        print_csv(("file", "finished_runs", "what"), parts)
        return
    for path, record in zip(paths, records, strict=True):
        print(f"{path}: {record['finished_runs']} runs, {record['what']}")


def _short(args: argparse.Namespace) -> None:
    import tempfile

    from lnattn.progress import progress_bar
    from lnattn.studies.majority.model import MAIN_ARMS, arm
    from lnattn.studies.majority.runs import Job, run_job
    from lnattn.studies.majority.training import MajorityPlan

    given = {name: getattr(args, name) for name in PLAN}
    given = {
        name: default if given[name] is None else given[name]
        for name, (_, default, _) in PLAN.items()
    }
    plan = MajorityPlan(**given)
    names = [arm(name).name for name in args.arms or MAIN_ARMS[:3]]
    seeds = tuple(range(args.seeds or 3))
    rows = []
    bar = progress_bar(
        total=len(names) * plan.epochs, what="majority", unit=" epochs", disable=args.quiet
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            job = Job(name, name, plan, seeds)
            found = run_job(
                job, folder, workers=args.workers, progress=lambda epochs, loss: bar.update(epochs)
            )
            last = {key: found[key][:, -1].mean() for key in ("loss", "accuracy", "angle")}
            rows.append({"arm": name, **{key: float(value) for key, value in last.items()}})
    bar.close()
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    if args.csv:
        print_csv(("arm", "loss", "accuracy", "angle"), rows)
        return
    print(f"mean of {len(seeds)} runs after {plan.epochs} epochs:")
    for row in rows:
        print(
            f"  {row['arm']:18s} training loss {row['loss']:.4f} nats, test accuracy "
            f"{row['accuracy']:.1%}, queries {row['angle']:.1f}° from 1"
        )
