"""A report on a model's first layer: one page to show, and every number beside it as JSON.

What the model is, how exact its folding is, what its heads compare, join and prefer, σ, keys that
no query can select, and pieces of words. The page holds all that it shows and fetches nothing.
"""

from __future__ import annotations

import argparse
import sys

from lnattn.cli import add_json, print_json

EXAMPLES = """examples:
  lnattn report book-gpt2 --out report.html
  lnattn report path/to/my-fine-tune --out mine.html --corpus articles.jsonl
  lnattn report owner/model --out model.html --corpus counts.npz --only heads,positions

Parts: about, fold-error, heads, joining, positions, sigma, keys, subwords. One that the model has
no data for says so in a sentence, and the others go on. Of a sharded model only the shards with its
first layer and its embeddings are fetched.

Counts (of lnattn count) are found by the tokens that they count: a fine-tune of GPT-2 gets those of
GPT-2. The numbers are in the .json beside the page, which is written over if it is a report.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", help="a model's name, a hub id, or a folder")
    add("--out", required=True, metavar="FILE", help="the page to write, FILE.html")
    corpus = "own texts (.jsonl, .txt …) or counts (.npz) in place of those that ship"
    add("--corpus", nargs="+", default=[], metavar="FILE", help=corpus)
    add("--only", metavar="PART,…", help="some parts (default: all)")
    add("--seed", type=int, default=0, metavar="N", help="of all draws (default: 0)")
    add("--force", action="store_true", help="write over files that are no reports")
    add_json(parser, "the numbers as JSON, too")


def run(args: argparse.Namespace) -> int:
    from lnattn.reporting.report import check_place, chosen_parts, report

    only = args.only.split(",") if args.only is not None else None
    chosen_parts(only)
    check_place(args.out, args.corpus, force=args.force)
    made = report(args.model, corpus=args.corpus, only=only, seed=args.seed)
    made.write(args.out, force=args.force)
    lost = int(any(part.is_lost for part in made.parts))
    if args.json:
        print_json(made.to_json())
        return lost
    for part in made.parts:
        if part.is_missing:
            print(f"{part.name}: {' '.join(part.sentences)}", file=sys.stderr)
    shown = [part.name for part in made.parts if not part.is_missing]
    print(f"{args.out}: {', '.join(shown)}; {made.record['seconds']:.0f} s")
    return lost
