"""Compute every study of a model and write it to data/results/MODEL, with its provenance.

The book then shows these results wherever the model's own weights are absent. A partial checkpoint
freezes what it supports. Where the package is installed, not used from a clone, give --out.
"""

from __future__ import annotations

import argparse
import sys

from lnattn.cli import add_json, print_json

EXAMPLES = """examples:
  lnattn freeze gpt2                            from the hub, into data/results/gpt2
  lnattn freeze path/to/weights --as gpt2 --only position composition
  lnattn freeze book-gpt2 --json

In a clone `python -m lnattn_book freeze` adds the studies that read the book's texts and counts:
  python -m lnattn_book freeze book-gpt2 --only selectability-layers ablation    long: if named
  python -m lnattn_book freeze path/to/llama --counts skip-1.npz skip-2.npz skip-3.npz
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", help="a model's name, a hub id, or a folder")
    add("--as", dest="name", metavar="NAME", help="the results' name")
    add("--out", metavar="FOLDER", help="another folder than data/results/NAME")
    add("--only", nargs="+", metavar="STUDY", help="some studies (default: all but long ones)")
    apart = "counts of pairs 1, 2 and 3 tokens apart (lnattn count --skip), for a model whose"
    shipped = "positions are rotary or relative (default: count the texts that ship with the book)"
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
