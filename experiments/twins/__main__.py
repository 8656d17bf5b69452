"""Twins that differ in their positions alone: skill, shares of variance, attention by position.

Give the folders of finished runs of experiments.book_model, both kinds of each seed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from experiments.book_model.snapshots import Snapshot, snapshots
from experiments.command import frozen, main, new_parser, place
from experiments.twins.compare import PARTS, by_place, by_position_alone, skill
from lnattn.affinity.auroc import Neighbours
from lnattn.affinity.by_distance import sample_queries
from lnattn.attention.nulls import permuted_weights
from lnattn.errors import CheckpointError
from lnattn.position.curves import NEAR
from lnattn.rotary.position import NULLS
from lnattn.storage import provenance, read_json, write_result
from lnattn.text.counts import Counts
from lnattn_book.studies.distance_terms import QUERIES


def answers(snapshot: Snapshot, counts: dict[int, Counts]) -> dict[str, np.ndarray]:
    """What the rules of README.md ask of one model; near: of it and of its shuffled heads."""
    model = snapshot.model
    context = snapshot.plan.context
    unigrams = counts[1].unigrams
    pairs = {apart: Neighbours.before(counted.bigrams) for apart, counted in counts.items()}
    grid = skill(model, unigrams, pairs, sample_queries(unigrams, QUERIES))
    dealt = (permuted_weights(model, deal, heads_only=True) for deal in range(NULLS))
    alone = by_position_alone([model, *dealt], unigrams, context)
    return {
        "skill": grid.query_specific_auroc,
        "share": by_place(model, unigrams, context),
        "near": alone[..., -NEAR:].sum(axis=-1),
        "before": alone[0, :, -2],
    }


def run(args: argparse.Namespace) -> None:
    arrays = {}
    facts = {}
    counts: dict[int, Counts] = {}
    for folder in map(Path, args.run):
        *_, last = snapshots(folder)
        if not (folder / "training.json").is_file():
            raise CheckpointError(f"{folder} is not finished; give the same command to go on.")
        if not counts:  # all runs are of one text
            tokens = np.load(folder / "checkpoint" / "train_tokens.npy", allow_pickle=False)
            vocab = last.plan.vocab_size
            counts = {n: Counts.from_documents([tokens], vocab, skip=n) for n in (1, 2, 3)}
        name = f"{last.plan.attention}-{last.plan.seed}"
        record = read_json(folder / "training.json")
        measures = answers(last, counts) | {"held out": np.array(record["held_out_loss"])}
        arrays |= {f"{name} {what}": value for what, value in measures.items()}
        facts[name] = {what: record[what] for what in ("plan", "held_out_loss", "weights_sha256")}
        print(f"{name}: held out {record['held_out_loss']:.4f}", flush=True)
    path = write_result(args.out, "twins", arrays, provenance(runs=facts, parts=PARTS))
    frozen(path, "arrays", f"twins RUNS --out {place(args.out)}")


def parser() -> argparse.ArgumentParser:
    whole = new_parser("twins", __doc__)
    whole.add_argument("run", nargs="+")
    whole.add_argument("--out", required=True, metavar="FOLDER")
    return whole


if __name__ == "__main__":
    sys.exit(main(parser(), run))
