"""Classifiers of a treebank's sentences, and the words that no query of theirs can select."""

from __future__ import annotations

import argparse
import sys

from experiments.command import frozen, main, new_parser, place
from experiments.sentiment.run import freeze_sentiment


def run(args: argparse.Namespace) -> None:
    path = freeze_sentiment(args.train, args.dev, args.out)
    frozen(path, "sentiment", f"sentiment SST2_TRAIN SST2 --out {place(args.out)}")


if __name__ == "__main__":
    parser = new_parser("sentiment", __doc__)
    parser.add_argument("train", help="TSV with columns sentence and label")
    parser.add_argument("dev", help="the same, of the validation sentences")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    sys.exit(main(parser, run))
