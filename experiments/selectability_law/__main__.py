"""Unselectable keys inside heads: a law, and what they cost.

Goes on where it stopped: each part is one file in the folder of parts, written when it is whole.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.command import frozen, main, new_parser, tokenizer
from experiments.once import once
from experiments.selectability_law import cost, gaussian, keys
from experiments.unselectable_lm.evaluation import text_windows
from experiments.unselectable_lm.small_models import load_arm
from lnattn.models.reference import load_reference_model
from lnattn.paths import data_folder
from lnattn.storage import provenance, sha256_of_file, write_result
from lnattn_book.samples import sample_windows

NAME = "law"
COUNTS, WIDTHS, DRAWS = (32, 64, 128, 256, 512, 1024), (2, 4, 8, 16, 32), 100
#: Numbers of keys and windows of the small language models; 768 is what every window has.
ARM_COUNTS, ARM_WINDOWS, COST_WINDOWS = (32, 64, 128, 256, 512, 768), 12, 24
ARMS = {
    **{("full", 8): ("d8-full-s0", "d8-full-s1", "d8-full-s2")},
    **{("no-scaling", 8): ("d8-no-scaling-s0", "d8-no-scaling-s1", "d8-no-scaling-s2")},
    **{(arm, d): (f"d{d}-{arm}-s0",) for arm in ("full", "no-scaling") for d in (16, 32, 64)},
}
#: Whole models: how many keys their windows have, and how many windows are decided.
MODELS = {"minilm": (510, 4), "book-gpt2": (256, 12), "book-llama": (256, 12)}
DIMS = (2, 4, 8, 16)
HEARD = ("d8-full-s0", "d8-full-s1", "d8-full-s2", "d16-full-s0", "d32-full-s0")


def run(args: argparse.Namespace) -> None:
    """All parts that are not there yet, then the frozen result."""
    parts, models = Path(args.parts), data_folder() / "selectability-models"
    texts = text_windows(args.squad, tokenizer(), COST_WINDOWS)
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {"squad_sha256": sha256_of_file(args.squad)}
    seconds = []

    def part(name: str, make: Any, **settings: Any) -> dict[str, np.ndarray]:
        found, record = once(parts, name, settings, make)
        seconds.append(record["seconds"])
        print(f"{name}: {record['seconds']} s", flush=True)
        arrays.update({f"{name}.{key}": value for key, value in found.items()})
        return found

    part(
        "gaussian",
        partial(gaussian.drawn, COUNTS, WIDTHS, DRAWS),
        counts=COUNTS,
        widths=WIDTHS,
        draws=DRAWS,
    )
    part(
        "spheres",
        partial(gaussian.on_spheres, ARM_COUNTS[-1], (8, 16, 32, 64), 4, DRAWS),
        n=ARM_COUNTS[-1],
        draws=DRAWS,
    )
    weights = {}
    for (arm, d), folders in ARMS.items():
        share = []
        for folder in folders:
            weights[folder] = sha256_of_file(models / folder / "model.safetensors")
            made = partial(keys.of_arm, models / folder, texts[:ARM_WINDOWS])
            found = part(
                f"keys-{folder}",
                lambda made=made, d=d: keys.shares(made(), ARM_COUNTS, (d // 4,)),
                weights=weights[folder],
            )
            share.append(found["share"])
        for key, value in keys.judged(np.mean(share, axis=0), ARM_COUNTS[-1], (d // 4,)).items():
            arrays[f"{arm}-{d}.{key}"] = value
    for name, (n, windows) in MODELS.items():
        counts = [*(c for c in COUNTS if c < n), n]
        found = part(
            f"keys-{name}",
            lambda name=name, n=n, windows=windows, counts=counts: keys.shares(
                keys.of_model(name, n, windows), counts, DIMS
            ),
            counts=counts,
            windows=windows,
        )
        for key, value in keys.judged(found["share"], n, DIMS).items():
            arrays[f"{name}.{key}"] = value
    found = part(
        "keys-gpt2",
        lambda: keys.shares(keys.of_positions(args.gpt2), COUNTS, DIMS),
        weights=sha256_of_file(Path(args.gpt2) / "attention.safetensors"),
    )
    for key, value in keys.judged(found["share"], COUNTS[-1], DIMS).items():
        arrays[f"gpt2.{key}"] = value
    heard = {}
    for folder in HEARD:
        model = load_arm(models / folder)[0]
        made = partial(cost.costs, model, iter(texts), model.config.n_embd // model.config.n_head)
        heard.setdefault(folder.split("-")[0], []).append(
            part(f"cost-{folder}", made, weights=weights[folder])["cost"]
        )
    import lnattn

    first = lnattn.load_first_layer("book-gpt2")
    cut = sample_windows(first, 256, first.tokenizer.bos_token_id)[0][: 2 * COST_WINDOWS]
    whole = load_reference_model("book-gpt2", head=True)
    made = partial(cost.costs, whole, iter(cut.tolist()), 8)
    heard["book-gpt2"] = [part("cost-book-gpt2", made, windows=len(cut))["cost"]]
    for name, several in heard.items():
        arrays[f"{name}.saving"] = cost.savings(np.mean(several, axis=0)[:, 0])
    record = provenance(
        what="unselectable keys inside heads beside Gaussian ones, and what they cost",
        counts=COUNTS, widths=WIDTHS, dims=DIMS, arm_counts=ARM_COUNTS, models=MODELS,
        margins=cost.MARGINS, draws=DRAWS, weights_sha256=weights, **facts,
        seconds=round(sum(seconds), 1),
    )  # fmt: skip
    frozen(write_result(args.out, NAME, arrays, record))


if __name__ == "__main__":
    parser = new_parser("selectability_law", __doc__)
    parser.add_argument("--squad", required=True, help="SQuAD's contexts, as for unselectable_lm")
    parser.add_argument("--gpt2", required=True, help="folder of GPT-2's attention weights")
    parser.add_argument("--parts", required=True, metavar="FOLDER", help="what is done already")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    sys.exit(main(parser, run))
