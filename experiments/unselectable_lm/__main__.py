"""Language models without parts of LayerNorm, and which of their keys no query can select.

train        one arm on texts, resumably
long         all arms: three rates each, then three seeds of 200 million tokens, resumably
freeze-long  losses and unselectable keys of those of its runs that are finished
evaluate     decide all keys of trained arms on a text
table-1      Table 1 on random windows, exactly and by the papers' search
words        mark the words of a treebank's sentences that no query of a trained arm can select
untrained    what claims B8 and B9 measure of the same models before any training
lengths      how long the documents of a text are in GPT-2's tokens (vocab.json and merges.txt)
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.book_model.plan import TrainingPlan
from experiments.command import add_plan, frozen, given_plan, main, new_parser, place, tokenizer
from experiments.unselectable_lm.evaluation import (
    freeze_evaluation,
    freeze_lengths,
    freeze_table_1,
)
from experiments.unselectable_lm.long_runs import freeze_long, train_long
from experiments.unselectable_lm.small_models import train_arm
from experiments.unselectable_lm.untrained import freeze_untrained
from experiments.unselectable_lm.words import freeze_words
from lnattn_book.studies.language_models import ARMS, LONG, PAPER_SHAPE


def train(args: argparse.Namespace) -> None:
    plan = TrainingPlan(**{**PAPER_SHAPE, **given_plan(args, TrainingPlan)})
    record = train_arm(args.text, args.held_out, args.out, args.arm, plan, tokenizer())
    print(f"{args.out}: held-out loss {record['log'][-1]['held_out_loss']:.3f} nats a token")


def long(args: argparse.Namespace) -> None:
    texts = args.text, args.held_out
    for record in train_long(*texts, args.out, tokenizer(), args.steps):
        loss = record["log"][-1]["held_out_loss"]
        plan = record["plan"]
        print(f"{record['arm']}, seed {plan['seed']}: held-out loss {loss:.3f} nats a token")


def named(path: Path, args: argparse.Namespace, kind: str, task: str) -> None:
    """Name a record's kind and command, which ends with where it was frozen."""
    frozen(path, kind, f"unselectable_lm {task} --out {place(args.out)}")


def freeze_runs(args: argparse.Namespace) -> None:
    path = freeze_long(args.runs, args.text, tokenizer(), args.out, args.windows)
    named(path, args, "long-runs", f"freeze-long RUNS --text SQUAD --windows {args.windows}")


def evaluate(args: argparse.Namespace) -> None:
    sizes = args.windows, args.searched
    freeze_evaluation(args.runs, args.text, tokenizer(), args.out, *sizes, progress=True)
    for path in sorted(Path(args.out).glob("lm-*.json")):
        run = path.stem.removeprefix("lm-")
        named(path, args, "language-model", f"evaluate RUNS/{run} --text SQUAD")


def table_1(args: argparse.Namespace) -> None:
    path = freeze_table_1(args.runs, args.text, tokenizer(), args.out, args.windows)
    named(path, args, "table-1", f"table-1 RUNS --text SQUAD --windows {args.windows}")


def words(args: argparse.Namespace) -> None:
    path = freeze_words(args.run, args.text, tokenizer(), args.out)
    named(path, args, "words", "words RUN --text SST2")


def untrained(args: argparse.Namespace) -> None:
    for path in freeze_untrained(args.text, tokenizer(), windows=args.windows):
        print(path)


def lengths(args: argparse.Namespace) -> None:
    path = freeze_lengths(args.text, args.files, args.out)
    named(path, args, "arrays", "lengths GPT2_FILES --text SQUAD")


def parser() -> argparse.ArgumentParser:
    """The command line, one subcommand a task."""
    whole = new_parser("unselectable_lm", __doc__)
    tasks = whole.add_subparsers(required=True, metavar="TASK")

    def task(name: str, run: object, /, **positional: str) -> argparse.ArgumentParser:
        subparser = tasks.add_parser(name)
        for argument, count in positional.items():
            subparser.add_argument(argument, nargs=count or None)
        subparser.add_argument("--out", required=True, metavar="FOLDER")
        subparser.set_defaults(run_task=run)
        return subparser

    for name, run in (("train", train), ("long", long)):
        subparser = task(name, run, text="+")
        subparser.add_argument("--held-out", nargs="+", required=True, metavar="TEXT")
        if name == "train":
            subparser.add_argument("--arm", choices=list(ARMS), default="no-scaling")
            add_plan(subparser, TrainingPlan)
        else:
            subparser.add_argument("--steps", type=int, default=LONG)
    for name, run, count, windows in (
        ("freeze-long", freeze_runs, "", 8),
        ("evaluate", evaluate, "+", 24),
        ("table-1", table_1, "+", 100),
    ):
        subparser = task(name, run, runs=count)
        subparser.add_argument("--text", required=True, metavar="FILE")
        subparser.add_argument("--windows", type=int, default=windows)
        subparser.add_argument(
            "--searched", type=int, default=2, help="evaluate: by the papers' search"
        )
    for name, run, argument in (("words", words, "run"), ("lengths", lengths, "files")):
        task(name, run, **{argument: ""}).add_argument("--text", required=True, metavar="FILE")
    subparser = tasks.add_parser("untrained")
    subparser.add_argument("--text", required=True, metavar="FILE")
    subparser.add_argument("--windows", type=int, default=12)
    subparser.set_defaults(run_task=untrained)
    return whole


if __name__ == "__main__":
    sys.exit(main(parser(), lambda args: args.run_task(args)))
