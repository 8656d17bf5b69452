"""Small GPT-2s and Llamas, trained from nothing: the embedded models and the grid of shapes.

train   byte-level BPE and a model on texts (.jsonl, .parquet or .txt), early stopping on held-out
        text, resumable
embed   take a finished run into data/ as book-gpt2 or book-llama
keep    copy the end of a run that a page tells to data/trainings, so that it can be asked again
look    the heads of every checkpoint of a run, or of several runs, side by side
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.book_model.book_model import train_book_model
from experiments.book_model.embed import embed
from experiments.book_model.forward import fastest_precision
from experiments.book_model.keep import keep_end
from experiments.book_model.loop import default_device
from experiments.book_model.plan import TrainingPlan
from experiments.book_model.snapshot_tables import look_of, save_snapshots, shape_of
from experiments.book_model.snapshots import snapshots
from experiments.command import add_plan, frozen, given_plan, main, new_parser, place
from lnattn.storage import sha256_of_file
from lnattn.text.counts import Counts
from lnattn_book.studies.samples import sample_file


def train(args: argparse.Namespace) -> None:
    given = given_plan(args, TrainingPlan)
    device = args.device or default_device()
    given.setdefault("precision", fastest_precision(device))
    plan = TrainingPlan(**given)
    facts = {"licence": args.licence, "device": device}
    record = train_book_model(args.text, args.held_out, args.out, plan, **facts)
    baselines = record["baselines"]
    print(
        f"{args.out}: {record['tokens']['train']:,} tokens, held-out loss "
        f"{record['held_out_loss']:.3f} nats a token (unigram {baselines['unigram']:.3f}, "
        f"Kneser–Ney bigram {baselines['bigram_kneser_ney']:.3f})"
    )


def look_at(args: argparse.Namespace) -> None:
    file = Path(args.counts or Path(args.run[0]) / "counts.npz")
    counts = Counts.load(file)
    weights = {}
    looks = []
    kind = "over-training" if len(args.run) == 1 else "small-models"
    runs = "RUN" if len(args.run) == 1 else "RUN RUNS"
    facts = {"counts_sha256": sha256_of_file(file), "texts_sha256": sha256_of_file(sample_file())}
    for folder in args.run:
        for snapshot in snapshots(folder):
            table = look_of(snapshot, counts).assign(step=snapshot.step, tokens=snapshot.tokens)
            looks.append(
                table if kind == "over-training" else table.assign(**shape_of(snapshot.plan))
            )
            weights[snapshot.model.name] = snapshot.model.provenance["weights_sha256"]
            print(f"{snapshot.model.name}: {table.iloc[-1]['found']:.1%} of the pieces", flush=True)
            path = save_snapshots(args.out, kind, looks, weights_sha256=weights, **facts)
            frozen(path, "looks", f"book_model look {runs} --out {place(args.out)}")


def parser() -> argparse.ArgumentParser:
    """The command line, one subcommand a task."""
    whole = new_parser("book_model", __doc__)
    tasks = whole.add_subparsers(required=True, metavar="TASK")
    subparser = tasks.add_parser("train")
    subparser.add_argument("text", nargs="+")
    subparser.add_argument("--held-out", nargs="+", required=True, metavar="TEXT")
    subparser.add_argument("--out", required=True, metavar="FOLDER")
    subparser.add_argument(
        "--licence", metavar="TEXT", help="source and licence, for the model's card"
    )
    subparser.add_argument("--device", help="cpu, cuda, … (default: a GPU if there is one)")
    add_plan(subparser, TrainingPlan)
    subparser.set_defaults(run_task=train)
    subparser = tasks.add_parser("embed")
    subparser.add_argument("run")
    subparser.set_defaults(run_task=lambda args: print(embed(args.run)))
    subparser = tasks.add_parser("keep")
    subparser.add_argument("run")
    subparser.add_argument("--out", required=True, metavar="FOLDER")
    subparser.set_defaults(run_task=lambda args: print(keep_end(args.run, args.out)))
    subparser = tasks.add_parser("look")
    subparser.add_argument("run", nargs="+")
    subparser.add_argument("--out", required=True, metavar="FOLDER")
    subparser.add_argument(
        "--counts", metavar="FILE", help="of their text (default: RUN/counts.npz)"
    )
    subparser.set_defaults(run_task=look_at)
    return whole


if __name__ == "__main__":
    sys.exit(main(parser(), lambda args: args.run_task(args)))
