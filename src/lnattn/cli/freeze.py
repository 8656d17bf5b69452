"""Compute every study of a model and write it to data/results/MODEL, with its provenance.

What is frozen can be read wherever the model's own weights are absent, and `lnattn verify` computes
it again. A partial checkpoint freezes what it supports. Where the package is installed, not used
from a clone, give --out.
"""

from __future__ import annotations

import argparse
import sys

from lnattn.cli import add_json, print_json

EXAMPLES = """examples:
  lnattn freeze gpt2                            from the hub, into data/results/gpt2
  lnattn freeze path/to/weights --as gpt2 --only position composition
  lnattn freeze book-gpt2 --json

These are the studies that weights alone suffice for. A program above the package may add its own
(lnattn.freezing.register_studies); --only takes their names there too, and long ones run only if
they are named.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", help="a model's name, a hub id, or a folder")
    add("--as", dest="name", metavar="NAME", help="the results' name")
    add("--out", metavar="FOLDER", help="another folder than data/results/NAME")
    add("--only", nargs="+", metavar="STUDY", help="some studies (default: all but long ones)")
    apart = "counts of pairs 1, 2 and 3 tokens apart (lnattn count --skip), for a model whose"
    shipped = "positions are rotary or relative (default: count the texts that ship)"
    add("--counts", nargs=3, default=[], metavar="FILE", help=f"{apart} {shipped}")
    add_json(parser, "{study: file or null} as JSON")


def run(args: argparse.Namespace) -> None:
    from lnattn.freezing import freeze, writable_folder

    folder = args.out or writable_folder(args.name or args.model)
    written: dict[str, str | None] = {}
    for frozen in freeze(args.model, folder, args.only, args.counts):
        line = f"{frozen.study}: {frozen.path or f'not supported: {frozen.why}'}"
        print(line, file=sys.stderr if args.json else sys.stdout, flush=True)
        written[frozen.study] = str(frozen.path) if frozen.path else None
    if args.json:
        print_json(written)
