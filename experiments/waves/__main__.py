"""Freeze how often the waves of T^pp turn where positions are random and as smooth.

Give models with learned positions, by name or folder; GPT-2's attention and positions will do.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.command import main, new_parser
from lnattn.models.checkpoints import load_first_layer
from lnattn.weights import require_absolute
from lnattn_book.claims.nulls import write_nulls
from lnattn_book.studies.waves import turns, with_smooth_positions

COMMAND = "python -m experiments.waves MODELS"
#: How many random positions are drawn.
DRAWS = 100


def run(args: argparse.Namespace) -> None:
    for name in args.model:
        first = require_absolute(load_first_layer(name))
        called = "gpt2 (frozen)" if first.is_partial else first.name
        print(called, *turns(first).round(2), flush=True)
        drawn: list[Mapping[str, Any]] = [
            {"turns": turns(with_smooth_positions(first, seed))} for seed in range(DRAWS)
        ]
        print(write_nulls("waves", called, drawn, COMMAND, args.out))


def parser() -> argparse.ArgumentParser:
    parser = new_parser("waves", __doc__)
    parser.add_argument("model", nargs="+")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="other than data/results")
    return parser


if __name__ == "__main__":
    sys.exit(main(parser(), run))
