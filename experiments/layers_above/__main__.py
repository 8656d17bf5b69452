"""Which layers join pieces by their weights, and how far lone tokens are from those in text.

Give the names of complete models; or a name for a set of models that were trained here, alike but
for their seed, and their folders. Null models are asked too, for the claims S13 and S14.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.command import frozen, main, new_parser
from experiments.layers_above.measure import ask, joined, shuffled, some_pieces
from experiments.layers_above.runs import asked, freeze_nulls
from lnattn.affinity.subwords import Pieces
from lnattn.models.checkpoints import load_first_layer
from lnattn.models.reference import load_reference_model
from lnattn.paths import data_folder
from lnattn.storage import provenance
from lnattn_book.claims import ours
from lnattn_book.claims.nulls import write_nulls
from lnattn_book.studies.layers_above import LayersAbove

#: How often the weights of a model are put in random order.
DEALS = 2


def run(args: argparse.Namespace) -> None:
    if args.run:
        _of_runs(args)
    for name in args.model:
        begun = time.perf_counter()
        first = load_first_layer(name)
        model = load_reference_model(name)
        about = {key: value for key, value in first.provenance.items() if key != "tensors"}
        tables = ask(model, first, counted=args.counts)
        seconds = round(time.perf_counter() - begun, 1)
        record = provenance(model=about, **tables.record, seconds=seconds)
        folder = data_folder() / "results" / "layers-above"
        path = replace(tables, record=record).write(folder, name)
        frozen(path, "layers-above", f"layers_above {name}")
        print(tables.table().round(3).to_string(), flush=True)
        _freeze_nulls(name, model, tables, some_pieces(first, args.counts)[0])


def _of_runs(args: argparse.Namespace) -> None:
    """Ask the models of one set, and freeze each under the name of its folder."""
    folder = data_folder() / "results" / "layers-above"
    pairs = []
    for path in map(Path, args.run):
        trained, tables = asked(path, args.tokens)
        command = f"layers_above --set NAME --run RUNS/{path.name}"
        frozen(tables.write(folder, path.name), "layers-above", command)
        print(tables.table().round(3).to_string(), flush=True)
        pairs.append((trained, tables))
    trained_models, all_tables = zip(*pairs, strict=True)
    for path in freeze_nulls(args.set, trained_models, all_tables, DEALS):
        print(path)


def _freeze_nulls(name: str, model: Any, tables: LayersAbove, pieces: Pieces) -> None:
    """The measures of what learnt nothing, by the claims' own rules."""
    dealt: list[Mapping[str, Any]] = []
    for seed in range(DEALS):
        of_null: dict[str, Any] = joined(shuffled(model, seed), pieces)
        dealt.append(ours.s13.measures(replace(tables, **of_null)))
    command = "python -m experiments.layers_above MODELS"
    print(write_nulls("S13", name, dealt, command))
    of_others = ours.share_of_variance(tables.far_other, tables.spread)
    print(write_nulls("S14", name, [of_others], command))


def parser() -> argparse.ArgumentParser:
    parser = new_parser("layers_above", __doc__)
    parser.add_argument("model", nargs="*")
    parser.add_argument("--set", metavar="NAME", default="trained here")
    parser.add_argument("--run", nargs="+", metavar="FOLDER", default=[])
    parser.add_argument("--tokens", type=int, metavar="N", help="trained on (default: all)")
    parser.add_argument("--counts", type=Path, metavar="FILE", help="of the models' tokens")
    return parser


if __name__ == "__main__":
    sys.exit(main(parser(), run))
