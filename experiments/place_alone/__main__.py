"""Freeze GPT-2's 'if first token' switch by place alone, with a published σ for its tokens.

Give the folder of a GPT-2 checkpoint, with or without token embeddings; positions, the first
LayerNorm and the first attention are read.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.command import frozen, main, new_parser, place
from lnattn.models.checkpoints import load_first_layer
from lnattn.weights import require_absolute
from lnattn_book.studies.by_place import ByPlace, by_place


def run(args: argparse.Namespace) -> None:
    first = require_absolute(load_first_layer(args.checkpoint))
    path = by_place(first).write(args.out)
    frozen(path, ByPlace.NAME, f"place_alone FOLDER --out {place(args.out)}")


def parser() -> argparse.ArgumentParser:
    parser = new_parser("place_alone", __doc__)
    parser.add_argument("checkpoint", help="a folder, or the name of a model on the hub")
    parser.add_argument("--out", type=Path, required=True, help="folder of the frozen result")
    return parser


if __name__ == "__main__":
    sys.exit(main(parser(), run))
