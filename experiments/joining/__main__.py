"""Is a first layer that joins pieces used for it? Asks every snapshot of some training runs.

Give the folders of runs, finished or not; the answers are frozen in --out. All snapshots show what
their heads join; what is lost is asked of those that the rules of README.md need. What a snapshot
has answered is kept in --work, so that the same command asks only what is new.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.book_model.loop import default_device
from experiments.book_model.plan import TrainingPlan
from experiments.book_model.snapshot_tables import look_of, save_snapshots
from experiments.book_model.snapshots import Snapshot, snapshots
from experiments.command import frozen, main, new_parser, place
from experiments.joining.measure import lost
from experiments.once import once
from lnattn import load_first_layer
from lnattn.attention.folding import fold
from lnattn.attention.terms import six_terms
from lnattn.paths import data_folder
from lnattn.storage import read_json, sha256_of_file
from lnattn.text.counts import Counts
from lnattn_book.studies.joining_runs import JoiningRuns
from lnattn_book.studies.samples import sample_file, sample_tokens
from lnattn_book.studies.whole_models import token_classes_of


def embedded(name: str) -> Snapshot:
    """An embedded model as the last snapshot of the run that made it."""
    folder = data_folder() / name
    plan = TrainingPlan(**read_json(folder / "training.json")["plan"])
    tokens = plan.steps * plan.batch * plan.context
    weights = folder / "model.safetensors"
    return Snapshot(plan.steps, tokens, load_first_layer(name), plan, weights)


def asked(snapshot: Snapshot, counts: Counts, what: str, each_head: bool) -> dict[str, np.ndarray]:
    """A snapshot's look at its heads ("looks"), or what it loses without parts ("lost")."""
    model = snapshot.model
    if what == "looks":
        table = look_of(snapshot, counts)
    else:
        table = lost(
            snapshot.whole().to(default_device()),
            partial(six_terms, fold(model.attention), model.embeddings),
            sample_tokens(model),
            token_classes_of(model),
            counts.bigrams,
            window=min(256, model.embeddings.n_positions),
            first=model.tokenizer.bos_token_id,
            each_head=each_head,
        )
    text = table.select_dtypes(exclude="number").columns
    return {name: table[name].to_numpy(str if name in text else None) for name in table}


def of_the_rules(of_runs: Iterable[Snapshot], looks: pd.DataFrame) -> Iterator[Snapshot]:
    """Those that rules 1 to 5 ask: of each seed that joins its peak, before it, and its last."""
    peaks = JoiningRuns(looks, looks, {}).peaks()
    steps = {(seed, row[at]) for seed, row in peaks.iterrows() for at in ("before", "step", "last")}
    return (snapshot for snapshot in of_runs if (snapshot.plan.seed, snapshot.step) in steps)


def run(args: argparse.Namespace) -> None:
    counts = Counts.load(Path(args.counts))
    texts = {"counts": sha256_of_file(Path(args.counts)), "texts": sha256_of_file(sample_file())}
    of_runs = [snapshot for folder in args.run for snapshot in snapshots(folder)]
    if args.end:
        of_runs.append(embedded(args.end))
    seconds = []

    def table(what: str, wanted: Iterable[Snapshot]) -> pd.DataFrame:
        frames = []
        for snapshot in wanted:
            about = {
                "seed": snapshot.plan.seed,
                "step": snapshot.step,
                "tokens trained": snapshot.tokens,
            }
            settings = {"weights": snapshot.model.provenance["weights_sha256"], **texts}
            name = f"{what}-seed-{snapshot.plan.seed}-step-{snapshot.step}"
            arrays, record = once(
                args.work, name, settings, partial(asked, snapshot, counts, what, not args.every)
            )
            frames.append(pd.DataFrame(arrays).assign(**about))
            seconds.append(record["seconds"])
            print(name, flush=True)
        return pd.concat(frames) if frames else pd.DataFrame({"measure": []})

    looks = table("looks", of_runs)
    tables = {"looks": looks}
    tables["lost"] = table("lost", of_runs if args.every else of_the_rules(of_runs, looks))
    facts = {
        "weights_sha256": {
            snapshot.model.name: snapshot.model.provenance["weights_sha256"] for snapshot in of_runs
        },
        "plans": {f"seed-{snapshot.plan.seed}": vars(snapshot.plan) for snapshot in of_runs},
        "seconds": round(sum(seconds), 1),
    }
    for what, frame in tables.items():
        path = save_snapshots(args.out, what, [frame], **facts, **texts)
        every = " --every" if args.every else ""
        frozen(path, "joining", f"joining RUNS{every} --work WORK --out {place(args.out)}")


def parser() -> argparse.ArgumentParser:
    whole = new_parser("joining", __doc__)
    whole.add_argument("run", nargs="*")
    whole.add_argument("--out", required=True, metavar="FOLDER")
    whole.add_argument("--work", required=True, metavar="FOLDER")
    whole.add_argument("--every", action="store_true", help="ask every snapshot what it loses")
    whole.add_argument("--end", metavar="MODEL", help="an embedded model, as the last snapshot")
    counts = data_folder() / "book-gpt2" / "counts.npz"
    whole.add_argument("--counts", default=counts, metavar="FILE", help="of the runs' text")
    return whole


if __name__ == "__main__":
    sys.exit(main(parser(), run))
