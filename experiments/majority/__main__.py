"""The majority experiment of Brody et al. (2023) and its controls, resumable, frozen run by run."""

from __future__ import annotations

import argparse
import sys

from experiments.command import frozen, main, new_parser, place
from experiments.majority.plans import EXPERIMENTS, run_experiments


def run(args: argparse.Namespace) -> None:
    for path in run_experiments(args.only, args.out):
        frozen(path, "majority", f"majority --only {path.stem} --out {place(args.out)}")


if __name__ == "__main__":
    parser = new_parser("majority", __doc__)
    parser.add_argument("--only", nargs="+", default=list(EXPERIMENTS), metavar="PART")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    sys.exit(main(parser, run))
