"""Do the heads of trained twins look back when the query asks?

Give the folders of runs of experiments.book_model, both kinds of each seed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.book_model.snapshots import snapshot_after
from experiments.command import frozen, main, new_parser, place
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn_book.claims.over_seeds import halved, halved_weights
from lnattn_book.studies.switch import constants_study, switch_study


def run(args: argparse.Namespace) -> None:
    for folder in map(Path, args.run):
        last = snapshot_after(folder, args.tokens)
        name = f"{last.plan.attention}-{last.plan.seed}"
        source = {
            "weights_sha256": last.model.provenance["weights_sha256"],
            "tokens_trained": last.tokens,
            "summed": "over the texts of even number, and of odd number",
        }
        command = f"switch RUNS/{name} --out {place(args.out)}"
        looks = halved(switch_study(last.model, source))
        frozen(looks.write(Path(args.out) / name), looks.NAME, command)
        if isinstance(last.model, RelativeFirstLayer):
            weights = halved_weights(constants_study(last.model, source))
            frozen(weights.write(Path(args.out) / name), weights.NAME, command)


def parser() -> argparse.ArgumentParser:
    whole = new_parser("switch", __doc__)
    whole.add_argument("run", nargs="+")
    whole.add_argument("--out", required=True, metavar="FOLDER")
    whole.add_argument("--tokens", type=int, metavar="N", help="trained on (default: all)")
    return whole


if __name__ == "__main__":
    sys.exit(main(parser(), run))
