"""Look at the first layers of small models: what they do to sub-words, and what by position alone.

Of the run of a training, every kept checkpoint is looked at. With --grid, models of other contexts,
depths, numbers of heads and kinds of positions are first trained on that run's tokens, one by one;
interrupted, the same command goes on where it stopped, and what is there is frozen after every
model. A model that was trained before is not trained again: its folder may be put into the grid's.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from lnattn.commands.table import add_forms

EXAMPLES = """examples:
  lnattn small-models my-run --out data/results/book-gpt2
  lnattn small-models my-run --grid runs --out data/results/book-gpt2 --compiled
  lnattn small-models my-run --grid runs --out data/results/book-gpt2 --made
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="folder of a run of lnattn train-book-model")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where the result is frozen")
    parser.add_argument(
        "--counts", metavar="FILE", help="counts of the run's text (default: RUN/counts.npz)"
    )
    parser.add_argument("--grid", metavar="FOLDER", help="train the grid here, and look at it")
    parser.add_argument(
        "--steps", type=int, default=2048, metavar="N", help="of each model (default: 2048)"
    )
    parser.add_argument("--made", action="store_true", help="train nothing: look at what is there")
    parser.add_argument("--compiled", action="store_true", help="torch.compile the training")
    add_forms(parser, json="what was found as JSON lines", csv="it as CSV, a row a head")


def run(args: argparse.Namespace) -> None:
    from pathlib import Path

    import pandas as pd

    from lnattn.book.results import name_command
    from lnattn.book.samples import sample_file
    from lnattn.book.small_models import freeze_looks, look, whole_texts
    from lnattn.claims.subwords import piece_rule
    from lnattn.errors import ResultError
    from lnattn.storage import sha256_of_file
    from lnattn.studies.affinity.subwords import token_classes
    from lnattn.text.counts import Counts
    from lnattn.training.grid import train_grid
    from lnattn.training.snapshots import snapshots

    file = Path(args.counts or Path(args.folder) / "counts.npz")
    counts = Counts.load(file)
    facts: dict[str, Any] = {
        "counts_sha256": sha256_of_file(file),
        "texts_sha256": sha256_of_file(sample_file()),
        "weights_sha256": {},
    }
    if args.grid:
        name = "small-models"
        found = (
            (f"{cell.name}, step {one.step}", one, vars(cell))
            for cell, one in train_grid(
                args.folder,
                args.grid,
                steps=args.steps,
                only_made=args.made,
                compiled=args.compiled,
            )
        )
    else:
        name = "over-training"
        found = ((f"step {one.step}", one, {}) for one in snapshots(args.folder))
    looks = []
    for words, one, columns in found:
        model = one.model
        rule = piece_rule(token_classes(model.tokenizer, model.embeddings.vocab_size))
        table = look(model, counts, whole_texts(model), rule)
        looks.append(table.assign(step=one.step, tokens=one.tokens, **columns))
        facts["weights_sha256"][words] = model.provenance["weights_sha256"]
        path = name_command(freeze_looks(args.out, name, looks, **facts))
        if args.json:
            print(json.dumps({"of": words, "heads": table.to_dict("records")}), flush=True)
        if args.json or args.csv:
            continue
        best = table.iloc[-1]
        print(
            f"{words}, {one.tokens / 1e6:.1f} million tokens: {best['found']:.1%} of "
            f"{best['pieces']:.0f} pieces (chance {best['chance']:.1%}), at most "
            f"{table['previous'].max():.2f} by position on the previous token",
            flush=True,
        )
    if not looks:
        raise ResultError(f"{args.grid} holds no trained model yet; leave out --made to train.")
    if args.csv:
        pd.concat(looks).to_csv(sys.stdout, index=False)
    elif not args.json:
        print(path)
