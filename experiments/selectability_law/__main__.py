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
from lnattn import load_first_layer
from lnattn.models.reference import load_reference_model
from lnattn.paths import data_folder
from lnattn.storage import provenance, sha256_of_file, write_result
from lnattn_book.samples import sample_windows

NAME = "law"
COUNTS = (32, 64, 128, 256, 512, 1024)
WIDTHS = (2, 4, 8, 16, 32)
DRAWS = 100
#: Widths of heads, or numbers of their components, in which keys are decided.
DIMS = (2, 4, 8, 16)
#: Numbers of keys and windows of the small language models; 768 is what every window has.
ARM_COUNTS, ARM_WINDOWS, COST_WINDOWS = (32, 64, 128, 256, 512, 768), 12, 24
#: Small models by the width of their heads; of the narrowest there are three seeds.
ARMS = {d: tuple(f"d{4 * d}-{{}}-s{s}" for s in range(3 if d == 2 else 1)) for d in DIMS}
#: Whole models: how many keys their windows have, and how many windows are decided.
MODELS = {"minilm": (510, 4), "book-gpt2": (256, 12), "book-llama": (256, 12)}
SETS = ("full", "no-scaling", *MODELS, "gpt2")
#: Whose losses are asked, by the number of components in which keys are decided.
HEARD = {"8": 2, "16": 4, "32": 8, "book-gpt2": 8}


class Parts:
    """What is done already, and the seconds that it took."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.seconds = 0.0

    def __call__(self, name: str, make: Any, **settings: Any) -> dict[str, np.ndarray]:
        found, record = once(self.folder, name, settings, make)
        self.seconds += record["seconds"]
        print(f"{name}: {record['seconds']} s", flush=True)
        return found


def run(args: argparse.Namespace) -> None:
    """All parts that are not there yet, then the frozen result."""
    part = Parts(args.parts)
    models = data_folder() / "selectability-models"
    texts = text_windows(args.squad, tokenizer(), COST_WINDOWS)
    settings = {"counts": COUNTS, "widths": WIDTHS, "draws": DRAWS}
    arrays = part("gaussian", partial(gaussian.drawn, COUNTS, WIDTHS, DRAWS), **settings)
    n = ARM_COUNTS[-1]
    widths = [4 * d for d in DIMS]
    spheres = partial(gaussian.on_spheres, n, widths, 4, DRAWS)
    spheres = part("spheres", spheres, n=n, draws=DRAWS)["share"]
    arrays["spheres"] = keys.judged(spheres[:, None], n, DIMS)["ratio"]
    weights: dict[str, str] = {}

    def of_arms(arm: str, d: int) -> np.ndarray:
        """Shares of one arm and width, [n window], over its seeds."""
        found = []
        for name in (one.format(arm) for one in ARMS[d]):
            weights[name] = sha256_of_file(models / name / "model.safetensors")
            made = partial(keys.of_arm, models / name, texts[:ARM_WINDOWS])
            make = partial(keys.shares, made, ARM_COUNTS, (d,))
            found.append(part(f"keys-{name}", make, weights=weights[name])["share"][0])
        return np.mean(found, axis=0)

    shares = {arm: np.stack([of_arms(arm, d) for d in DIMS]) for arm in ("full", "no-scaling")}
    counts = dict.fromkeys(shares, ARM_COUNTS)
    for name, (n, windows) in MODELS.items():
        counts[name] = (*(c for c in COUNTS if c < n), n)
        make = partial(keys.shares, partial(keys.of_model, name, n, windows), counts[name], DIMS)
        settings = {"counts": counts[name], "windows": windows}
        shares[name] = part(f"keys-{name}", make, **settings)["share"]
    counts["gpt2"] = COUNTS
    weights["gpt2"] = sha256_of_file(Path(args.gpt2) / "attention.safetensors")
    make = partial(keys.shares, partial(keys.of_positions, args.gpt2), COUNTS, DIMS)
    shares["gpt2"] = part("keys-gpt2", make, weights=weights["gpt2"])["share"]
    judged = [keys.judged(shares[name], counts[name][-1], DIMS) for name in SETS]
    for key in judged[0]:
        arrays[key] = np.stack([one[key] for one in judged])
    shape = (len(SETS), len(DIMS), len(COUNTS))
    arrays["share"] = np.full(shape, np.nan)
    arrays["n"] = np.zeros(shape[::2], np.int64)
    for place, name in enumerate(SETS):
        arrays["n"][place, : len(counts[name])] = counts[name]
        arrays["share"][place, :, : len(counts[name])] = shares[name].mean(axis=2)

    heard: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in HEARD}
    for name in (one.format("full") for d in DIMS[:3] for one in ARMS[d]):
        model = load_arm(models / name)[0]
        d = model.config.n_embd // model.config.n_head
        make = partial(cost.costs, model, iter(texts), d)
        heard[str(4 * d)].append(part(f"cost-{name}", make, weights=weights[name]))
    first = load_first_layer("book-gpt2")
    whole = load_reference_model("book-gpt2", head=True)
    cut = sample_windows(first, 256, first.tokenizer.bos_token_id)[0][: 2 * COST_WINDOWS]
    make = partial(cost.costs, whole, iter(cut.tolist()), HEARD["book-gpt2"])
    heard["book-gpt2"] = [part("cost-book-gpt2", make, windows=len(cut))]
    costs = [np.mean([o["cost"] for o in one], axis=0) for one in heard.values()]
    for name, margin in (("saving", 0), ("saving_less", 1)):
        arrays[name] = np.array([cost.savings(one[:, margin]) for one in costs])
    for key in ("received", "lowered"):
        means = [np.mean([o[key].mean(axis=0) for o in one], axis=0) for one in heard.values()]
        arrays[key] = np.array(means)
    record = provenance(
        what="unselectable keys inside heads beside Gaussian ones, and what they cost",
        counts=COUNTS, widths=WIDTHS, dims=DIMS, sets=SETS, models=MODELS, heard=list(HEARD),
        margins=cost.MARGINS, draws=cost.DRAWS, weights_sha256=weights,
        squad_sha256=sha256_of_file(args.squad), seconds=round(part.seconds, 1),
    )  # fmt: skip
    frozen(write_result(args.out, NAME, arrays, record))


if __name__ == "__main__":
    parser = new_parser("selectability_law", __doc__)
    parser.add_argument("--squad", required=True, help="SQuAD's contexts, as for unselectable_lm")
    parser.add_argument("--gpt2", required=True, help="folder of GPT-2's attention weights")
    parser.add_argument("--parts", required=True, metavar="FOLDER", help="what is done already")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    sys.exit(main(parser, run))
