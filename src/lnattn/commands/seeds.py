"""Judge the claims of an embedded model on shorter trainings of its plan with other seeds.

Each claim that the first layer's weights and counts of the text decide is asked of the model and of
every run by its one rule. The pages then say beside a verdict in how many runs it is the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from lnattn.commands.table import add_forms, print_csv

EXAMPLES = """examples:
  lnattn train-book-model text.jsonl --held-out valid.jsonl --out seed-1 --steps 1280 --seed 1
  lnattn seeds book-gpt2 seed-0 seed-1 seed-2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="an embedded model, such as book-gpt2")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="finished runs of its plan")
    parser.add_argument("--out", metavar="FOLDER", help="another folder than data/results/MODEL")
    add_forms(parser, json="the verdicts as JSON", csv="them as CSV, a row a claim and training")


def run(args: argparse.Namespace) -> None:
    from lnattn.book.freezing import results_folder
    from lnattn.book.results import name_command
    from lnattn.book.seeds import freeze_seeds
    from lnattn.claims.seeds import read_seeds

    folder = args.out or results_folder(args.model)
    path = name_command(freeze_seeds(args.model, args.runs, folder))
    found = read_seeds(folder)

    def rows() -> Iterator[dict[str, Any]]:
        for one in (found.itself, *found.runs):
            about = {"seed": one.seed, "steps": one.steps, "held_out_loss": one.held_out_loss}
            for claim, given in one.verdicts.items():
                said = {"verdict": given.verdict, "words": given.words}
                yield {"claim": claim, "model": given.model, **about, **said}

    if args.csv:
        columns = ("claim", "model", "seed", "steps", "held_out_loss", "verdict", "words")
        print_csv(columns, rows())
    elif args.json:
        print(json.dumps(list(rows()), indent=2, ensure_ascii=False))
    else:
        for given in found.itself.verdicts.values():
            print(f"{given.claim} {given.verdict}: {found.in_words(given)}")
        print(path)
