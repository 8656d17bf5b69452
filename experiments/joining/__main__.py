"""Is a first layer that joins pieces used for it? Asks every snapshot of some training runs.

Give the folders of runs, finished or not; the answers are frozen in --out. What a snapshot has
answered is kept in --work, so that the same command asks only what is new.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.book_model.look import freeze_looks, look_of
from experiments.book_model.snapshots import Snapshot, snapshots
from experiments.command import frozen, main, new_parser
from experiments.joining.measure import lost
from experiments.once import once
from lnattn.attention.folding import fold
from lnattn.attention.terms import six_terms
from lnattn.paths import data_folder
from lnattn.storage import sha256_of_file
from lnattn.text.counts import Counts
from lnattn_book.samples import sample_file, sample_tokens
from lnattn_book.whole_models import spelling_of


def asked(kept: Snapshot, counts: Counts, what: str) -> pd.DataFrame:
    """A snapshot's look at its heads ('looks'), or what it loses without parts ('lost')."""
    model = kept.model
    if what == "looks":
        return look_of(kept, counts)
    return lost(
        kept.whole(),
        partial(six_terms, fold(model.attention), model.embeddings),
        sample_tokens(model),
        spelling_of(model),
        counts.bigrams,
        window=min(256, model.embeddings.n_positions),
        first=model.tokenizer.bos_token_id,
    )


def run(args: argparse.Namespace) -> None:
    counts = Counts.load(Path(args.counts))
    texts = {"counts": sha256_of_file(Path(args.counts)), "texts": sha256_of_file(sample_file())}
    tables: dict[str, list[pd.DataFrame]] = {"looks": [], "lost": []}
    seconds, weights, plans = 0.0, {}, {}
    for folder in args.run:
        for kept in snapshots(folder):
            name = f"seed-{kept.plan.seed}-step-{kept.step}"
            weights[name] = kept.model.provenance["weights_sha256"]
            plans[f"seed-{kept.plan.seed}"] = vars(kept.plan)
            for what, found in tables.items():

                def answered(kept: Snapshot = kept, what: str = what) -> dict[str, Any]:
                    table = asked(kept, counts, what)
                    text = table.select_dtypes(exclude="number").columns
                    return {n: table[n].to_numpy(str if n in text else None) for n in table}

                settings = {"weights": weights[name], **texts}
                arrays, record = once(args.work, f"{what}-{name}", settings, answered)
                about = {"seed": kept.plan.seed, "step": kept.step, "tokens trained": kept.tokens}
                found.append(pd.DataFrame(arrays).assign(**about))
                seconds += record["seconds"]
            print(f"{name} has answered", flush=True)
    facts = {"weights_sha256": weights, "plans": plans, "seconds": seconds, **texts}
    for what, found in tables.items():
        frozen(freeze_looks(args.out, what, found, **facts))


def parser() -> argparse.ArgumentParser:
    whole = new_parser("joining", __doc__)
    whole.add_argument("run", nargs="+")
    whole.add_argument("--out", required=True, metavar="FOLDER")
    whole.add_argument("--work", required=True, metavar="FOLDER")
    counts = data_folder() / "book-gpt2" / "counts.npz"
    whole.add_argument("--counts", default=counts, metavar="FILE", help="of the runs' text")
    return whole


if __name__ == "__main__":
    sys.exit(main(parser(), run))
