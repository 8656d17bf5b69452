"""Unselectable keys inside heads: a law, and what they cost.

Goes on where it stopped: each part is one file in the folder of parts, written when it is whole.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from experiments.command import frozen, main, new_parser, place, tokenizer
from experiments.once import once
from experiments.selectability_law import cost, gaussian, keys
from experiments.unselectable_lm.evaluation import text_windows
from experiments.unselectable_lm.small_models import load_arm
from lnattn import load_first_layer
from lnattn.models.reference import load_reference_model
from lnattn.paths import data_folder
from lnattn.storage import provenance, sha256_of_file, write_result
from lnattn_book.studies.samples import sample_windows

NAME = "law"
COUNTS = (32, 64, 128, 256, 512, 1024)
WIDTHS = (2, 4, 8, 16, 32)
DRAWS = 100
#: Widths of heads, or numbers of their components, in which keys are decided.
DIMS = (2, 4, 8, 16)
#: Numbers of keys and windows of the small language models; 768 is what every window has.
ARM_COUNTS, ARM_WINDOWS, COST_WINDOWS = (32, 64, 128, 256, 512, 768), 12, 24
#: How many seeds of the small models are read, by the width of their heads.
SEEDS = {2: 3, 4: 1, 8: 1, 16: 1}
#: Whole models: how many keys their windows have, and how many windows are decided.
MODELS = {"minilm": (510, 4), "book-gpt2": (256, 12), "book-llama": (256, 12)}
#: Arms of the small models, and all sets of keys.
ARMS = ("full", "no-scaling")
SETS = (*ARMS, *MODELS, "gpt2")
#: Whose losses are measured, by the number of components in which keys are decided: small models by
#: their width, of four heads, and the book's.
HEARD = {"8": 2, "16": 4, "32": 8, "book-gpt2": 8}


class Parts:
    """What is done already, and the seconds that it took."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.seconds = 0.0

    def __call__(self, name: str, make: Any, **settings: Any) -> dict[str, np.ndarray]:
        """The arrays of a part, made now if they are not there."""
        arrays, record = once(self.folder, name, settings, make)
        self.seconds += record["seconds"]
        print(f"{name}: {record['seconds']} s", flush=True)
        return arrays


@dataclass(frozen=True, eq=False)
class KeySet:
    """Shares of unselectable keys among the first of a set of keys, by how many take part."""

    counts: tuple[int, ...]
    share: Float[np.ndarray, "dim n window"]


def models_of(arm: str, dim: int) -> list[str]:
    """The small models of an arm whose heads have this width, a name a seed."""
    return [f"d{4 * dim}-{arm}-s{seed}" for seed in range(SEEDS[dim])]


def weights_of(models: Path, gpt2: Path) -> dict[str, str]:
    """The SHA-256 of the weights of all small models and of GPT-2's attention, by name."""
    names = [name for arm in ARMS for dim in DIMS for name in models_of(arm, dim)]
    files = {name: models / name / "model.safetensors" for name in names}
    files["gpt2"] = gpt2 / "attention.safetensors"
    return {name: sha256_of_file(path) for name, path in files.items()}


def gaussian_keys(part: Parts) -> dict[str, np.ndarray]:
    """What is drawn of Gaussian keys, and `spheres`: the ratios of keys on spheres."""
    drawn = part(
        "gaussian",
        partial(gaussian.drawn, COUNTS, WIDTHS, DRAWS),
        counts=COUNTS,
        widths=WIDTHS,
        draws=DRAWS,
    )
    n = ARM_COUNTS[-1]
    widths = [4 * dim for dim in DIMS]
    make = partial(gaussian.on_spheres, n, widths, 4, DRAWS)
    share = part("spheres", make, n=n, draws=DRAWS)["share"]
    return {**drawn, "spheres": keys.judged(share[:, None], n, DIMS)["ratio"]}


def keys_of_arm(
    part: Parts, arm: str, models: Path, texts: Sequence[Sequence[int]], weights: dict[str, str]
) -> KeySet:
    """Those of an arm of the small models, each width of heads by its own, mean over seeds."""
    share_by_dim = []
    for dim in DIMS:
        of_seeds = []
        for name in models_of(arm, dim):
            windows = partial(keys.of_arm, models / name, texts[:ARM_WINDOWS])
            make = partial(keys.shares, windows, ARM_COUNTS, (dim,))
            of_seeds.append(part(f"keys-{name}", make, weights=weights[name])["share"][0])
        share_by_dim.append(np.mean(of_seeds, axis=0))
    return KeySet(ARM_COUNTS, np.stack(share_by_dim))


def keys_of_model(part: Parts, name: str) -> KeySet:
    """Those of a whole model, on windows of the book's sample."""
    n, windows = MODELS[name]
    counts = (*(count for count in COUNTS if count < n), n)
    make = partial(keys.shares, partial(keys.of_model, name, n, windows), counts, DIMS)
    return KeySet(counts, part(f"keys-{name}", make, counts=counts, windows=windows)["share"])


def keys_of_gpt2(part: Parts, folder: str, sha256: str) -> KeySet:
    """Those of GPT-2's positions alone."""
    make = partial(keys.shares, partial(keys.of_positions, folder), COUNTS, DIMS)
    return KeySet(COUNTS, part("keys-gpt2", make, weights=sha256)["share"])


def beside_the_law(sets: Sequence[KeySet]) -> dict[str, np.ndarray]:
    """What `keys.judged` says of each set, and its shares: [set …], padded where it has few."""
    verdicts = [keys.judged(key_set.share, key_set.counts[-1], DIMS) for key_set in sets]
    arrays = {key: np.stack([verdict[key] for verdict in verdicts]) for key in verdicts[0]}
    arrays["share"] = np.full((len(sets), len(DIMS), len(COUNTS)), np.nan)
    arrays["n"] = np.zeros((len(sets), len(COUNTS)), np.int64)
    for row, key_set in enumerate(sets):
        columns = len(key_set.counts)
        arrays["n"][row, :columns] = key_set.counts
        arrays["share"][row, :, :columns] = key_set.share.mean(axis=2)
    return arrays


def costs_of_arms(
    part: Parts, models: Path, texts: Sequence[Sequence[int]], weights: dict[str, str]
) -> dict[str, list[dict[str, np.ndarray]]]:
    """By width of the small models, what `cost.costs` says of each seed."""
    costs: dict[str, list[dict[str, np.ndarray]]] = {}
    for width in (name for name in HEARD if name != "book-gpt2"):
        dim = HEARD[width]
        costs[width] = []
        for name in models_of("full", dim):
            make = partial(cost.costs, load_arm(models / name)[0], iter(texts), dim)
            costs[width].append(part(f"cost-{name}", make, weights=weights[name]))
    return costs


def costs_of_book_model(part: Parts) -> dict[str, np.ndarray]:
    """What `cost.costs` says of the book's model."""
    first = load_first_layer("book-gpt2")
    whole = load_reference_model("book-gpt2", head=True)
    windows = sample_windows(first, 256, first.tokenizer.bos_token_id)[0][: 2 * COST_WINDOWS]
    make = partial(cost.costs, whole, iter(windows.tolist()), HEARD["book-gpt2"])
    return part("cost-book-gpt2", make, windows=len(windows))


def savings_of(costs: Sequence[list[dict[str, np.ndarray]]]) -> dict[str, np.ndarray]:
    """Savings by either margin, and how much was lowered: [model …], means over seeds."""
    arrays = {}
    mean_costs = [np.mean([of_seed["cost"] for of_seed in seeds], axis=0) for seeds in costs]
    for name, margin in (("saving", 0), ("saving_less", 1)):
        arrays[name] = np.array([cost.savings(mean[:, margin]) for mean in mean_costs])
    for key in ("received", "lowered"):
        means = [
            np.mean([of_seed[key].mean(axis=0) for of_seed in seeds], axis=0) for seeds in costs
        ]
        arrays[key] = np.array(means)
    return arrays


def run(args: argparse.Namespace) -> None:
    """All parts that are not there yet, then the frozen result."""
    part = Parts(args.parts)
    models = data_folder() / "selectability-models"
    texts = text_windows(args.squad, tokenizer(), COST_WINDOWS)
    weights = weights_of(models, Path(args.gpt2))
    arrays = gaussian_keys(part)
    arrays |= beside_the_law(
        [
            *(keys_of_arm(part, arm, models, texts, weights) for arm in ARMS),
            *(keys_of_model(part, name) for name in MODELS),
            keys_of_gpt2(part, args.gpt2, weights["gpt2"]),
        ]
    )
    costs = costs_of_arms(part, models, texts, weights)
    costs["book-gpt2"] = [costs_of_book_model(part)]
    arrays |= savings_of([costs[name] for name in HEARD])
    record = provenance(
        what="unselectable keys inside heads beside Gaussian ones, and what they cost",
        counts=COUNTS,
        widths=WIDTHS,
        dims=DIMS,
        sets=SETS,
        models=MODELS,
        heard=list(HEARD),
        margins=cost.MARGINS,
        draws=cost.DRAWS,
        weights_sha256=weights,
        squad_sha256=sha256_of_file(args.squad),
        seconds=round(part.seconds, 1),
    )
    files = "--squad SQUAD --gpt2 GPT2 --parts PARTS"
    path = write_result(args.out, NAME, arrays, record)
    frozen(path, "arrays", f"selectability_law {files} --out {place(args.out)}")


if __name__ == "__main__":
    parser = new_parser("selectability_law", __doc__)
    parser.add_argument("--squad", required=True, help="SQuAD's contexts, as for unselectable_lm")
    parser.add_argument("--gpt2", required=True, help="folder of GPT-2's attention weights")
    parser.add_argument("--parts", required=True, metavar="FOLDER", help="what is done already")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    sys.exit(main(parser, run))
