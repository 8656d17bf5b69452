"""Which keys can no query select: of your own file, of random draws, or of a language model.

keys      verdicts on the rows of a .npy file, every certificate verified
train     train one arm of the language-model experiment, resumably
long      train all arms for claim B10: 3 rates each, then 3 seeds of 200 M tokens, resumably
          (2 thousand million tokens in all: six hours at 90,000 a second, as two cores make)
freeze-long  losses and unselectable keys of those of its runs that are finished
evaluate  decide all keys of trained arms on a text, and freeze the result
table-1   the papers' Table 1 on random windows, exactly and by their search
words     mark the words of a treebank's sentences that no query of a trained arm can select
sentiment classifiers of a treebank's sentences, and the words that no query of theirs can select
lengths   how long the documents of a text are in GPT-2's tokens (its vocab.json and merges.txt)
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TypeVar

from lnattn.commands.table import add_forms, print_csv

T = TypeVar("T")

EXAMPLES = """examples:
  lnattn selectable keys my-keys.npy --json
  lnattn selectable keys my-keys.npy --csv > verdicts.csv
  lnattn selectable train text.jsonl --held-out valid.jsonl --arm no-scaling --out runs/d8-ns
  lnattn selectable long wiki.parquet books.parquet --held-out valid.jsonl --out runs/long
  lnattn selectable freeze-long runs/long --text contexts.jsonl --windows 8 --out DIR
  lnattn selectable long wiki.parquet … --held-out valid.jsonl --known DIR --out runs/the-rest
  lnattn selectable evaluate runs/d8-* --text contexts.jsonl --out data/results/selectability
  lnattn selectable table-1 runs/d8-no-scaling-s? --text contexts.jsonl --windows 100 --out DIR
  lnattn selectable sentiment sst2_train.tsv sst2_dev.tsv --out data/results/selectability
"""

TASKS = [
    "keys",
    "train",
    "long",
    "freeze-long",
    "evaluate",
    "table-1",
    "words",
    "sentiment",
    "lengths",
]
#: Options of `train` that replace the paper's shape (`unselectable_lm.PAPER_SHAPE`).
PLAN = {
    "d_model": (int, "width (default: the paper's 8)"),
    "heads": (int, "attention heads (default: 4)"),
    "steps": (int, "optimiser steps"),
    "batch": (int, "windows of 1,024 tokens a step"),
    "learning_rate": (float, "highest learning rate"),
    "seed": (int, "random seed (default: 0)"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("input", nargs="*", help="a .npy file, texts, runs, or a treebank")
    parser.add_argument("--out", metavar="FOLDER", help="where to write what is frozen")
    parser.add_argument("--loose", action="store_true", help="keys: copies count as one key")
    parser.add_argument("--exact", action="store_true", help="keys: verify in rational numbers")
    add_forms(parser, json="the result as JSON", csv="keys: as CSV, a row a key")
    parser.add_argument("--held-out", nargs="+", metavar="TEXT", help="train, long: held-out text")
    parser.add_argument(
        "--known", metavar="FOLDER", help="long: leave out the runs that are frozen there"
    )
    parser.add_argument(
        "--arm", default="no-scaling", help="train: full, no-scaling, no-projection"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    for name, (kind, meaning) in PLAN.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=kind, metavar="N", help=f"train: {meaning}")
    parser.add_argument(
        "--text", metavar="FILE", help="the text to read (not of keys, train, sentiment)"
    )
    parser.add_argument("--windows", type=int, default=24, help="windows of the text (default: 24)")
    parser.add_argument(
        "--searched", type=int, default=2, help="evaluate: on how many to search as the papers do"
    )


def run(args: argparse.Namespace) -> None:
    from lnattn.errors import ResultError

    if args.csv and args.task != "keys":
        raise ResultError(f"{args.task} prints no table; --csv goes with keys.")
    tasks = (_keys, _train, _long, _freeze_long, _evaluate, _table_1, _words, _sentiment, _lengths)
    dict(zip(TASKS, tasks, strict=True))[args.task](args)


def _keys(args: argparse.Namespace) -> None:
    import numpy as np

    from lnattn.errors import ResultError
    from lnattn.studies.selectability.decide import METHODS, selectability
    from lnattn.studies.selectability.verify import verify

    path = _one(args.input, "a .npy file with an array [n d]")
    try:
        keys = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise ResultError(f"{path} is no .npy file of numbers ({error}).") from error
    found = selectability(keys, strict=not args.loose)
    checked = verify(keys, found, exact=args.exact)
    if not checked.ok:
        raise ResultError(f"a certificate does not hold: {checked.failures[0]}")
    record = {
        "keys": len(found.selectable),
        "rank": found.rank,
        "unselectable": np.flatnonzero(~found.selectable).tolist(),
        "share": found.unselectable,
        "methods": {name: int((found.method == i).sum()) for i, name in enumerate(METHODS)},
        "smallest_margin": min(checked.smallest_margin, np.finfo(float).max),
        "largest_residual": checked.largest_residual,
    }
    if args.csv:
        rows = (
            {
                "key": i,
                "selectable": int(found.selectable[i]),
                "method": METHODS[found.method[i]],
                "margin": found.margin[i],
                "residual": found.residual[i],
            }
            for i in range(len(found.selectable))
        )
        print_csv(("key", "selectable", "method", "margin", "residual"), rows)
    elif args.json:
        print(json.dumps(record))
    else:
        print(
            f"{found!r}; all {len(found.selectable)} certificates hold "
            f"(smallest margin {checked.smallest_margin:.2g}, "
            f"largest residual {checked.largest_residual:.2g})"
        )


def _train(args: argparse.Namespace) -> None:
    from lnattn.studies.selectability.small_models import PAPER_SHAPE, train_arm
    from lnattn.training.plan import TrainingPlan

    given = {name: getattr(args, name) for name in PLAN if getattr(args, name) is not None}
    record = train_arm(
        _needed(args.input, "one or more texts"),
        _needed(args.held_out, "--held-out"),
        _needed(args.out, "--out"),
        args.arm,
        TrainingPlan(**{**PAPER_SHAPE, **given}),
        _tokenizer(),
        progress=not args.quiet,
    )
    if args.json:
        print(json.dumps(record, indent=2))
    else:
        last = record["log"][-1]
        print(
            f"{args.out}: {record['arm']}, {record['tokens_seen']:,} tokens, held-out loss "
            f"{last['held_out_loss']:.3f} nats a token"
        )


def _long(args: argparse.Namespace) -> None:
    from lnattn.studies.selectability.long_runs import LONG, LongRuns, train_long

    records = train_long(
        _needed(args.input, "one or more texts"),
        _needed(args.held_out, "--held-out"),
        _needed(args.out, "--out"),
        _tokenizer(),
        args.steps or LONG,
        LongRuns.read(args.known) if args.known else None,
        progress=not args.quiet,
    )
    for record in records:
        loss, plan = record["log"][-1]["held_out_loss"], record["plan"]
        print(
            f"{record['arm']}, seed {plan['seed']}, rate {plan['learning_rate']:g}: "
            f"{record['tokens_seen']:,} tokens, held-out loss {loss:.3f} nats a token"
        )


def _freeze_long(args: argparse.Namespace) -> None:
    from lnattn.studies.selectability.long_runs import freeze_long

    folder, text = _one(args.input, "the folder of the runs"), _needed(args.text, "--text")
    out = _needed(args.out, "--out")
    _written(freeze_long(folder, text, _tokenizer(), out, args.windows, not args.quiet), args)


def _evaluate(args: argparse.Namespace) -> None:
    from lnattn.book.results import name_command
    from lnattn.studies.selectability.evaluation import freeze_evaluation

    out = freeze_evaluation(
        _needed(args.input, "the folder of a trained arm"),
        _needed(args.text, "--text"),
        _tokenizer(),
        _needed(args.out, "--out"),
        args.windows,
        args.searched,
        progress=not args.json,
    )
    written = [name_command(path) for path in sorted(Path(out).glob("lm-*.json"))]
    if args.json:
        print(json.dumps({"written": [path.name for path in written]}))


def _table_1(args: argparse.Namespace) -> None:
    from lnattn.studies.selectability.evaluation import freeze_table_1

    path = freeze_table_1(
        _needed(args.input, "the folders of trained arms"),
        _needed(args.text, "--text"),
        _tokenizer(),
        _needed(args.out, "--out"),
        args.windows,
    )
    _written(path, args)


def _words(args: argparse.Namespace) -> None:
    from lnattn.studies.selectability.words import freeze_words

    run, text = _one(args.input, "the folder of a trained arm"), _needed(args.text, "--text")
    _written(freeze_words(run, text, _tokenizer(), _needed(args.out, "--out")), args)


def _sentiment(args: argparse.Namespace) -> None:
    from lnattn.errors import ResultError
    from lnattn.studies.selectability.sentiment import freeze_sentiment

    if len(args.input) != 2:
        raise ResultError(
            f"sentiment needs two files, to train on and to ask, and {len(args.input)} were given."
        )
    train, dev = args.input
    out = _needed(args.out, "--out")
    _written(freeze_sentiment(train, dev, out, progress=not args.quiet), args)


def _lengths(args: argparse.Namespace) -> None:
    from lnattn.studies.selectability.evaluation import freeze_lengths

    files, text = _one(args.input, "a folder with GPT-2's files"), _needed(args.text, "--text")
    _written(freeze_lengths(text, files, _needed(args.out, "--out")), args)


def _tokenizer() -> Path:
    """Of the arms that ship with the book, and of new ones that are to be compared with them."""
    from lnattn.paths import data_folder

    return data_folder() / "selectability-models" / "tokenizer"


def _written(path: Path, args: argparse.Namespace) -> None:
    from lnattn.book.results import name_command

    print(json.dumps({"written": str(name_command(path))}) if args.json else name_command(path))


def _needed(value: T | None, what: str) -> T:
    from lnattn.errors import ResultError

    if not value:
        raise ResultError(f"this task needs {what}; see `lnattn selectable --help`.")
    return value


def _one(values: list[str], what: str) -> str:
    from lnattn.errors import ResultError

    if len(values) != 1:
        raise ResultError(f"this task needs {what}, and {len(values)} were given.")
    return values[0]
