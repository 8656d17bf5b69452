"""What the widgets in chapters draw: numbers of frozen results, as fine as a screen shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from lnattn.attention.layernorm import center, standardise
from lnattn.paths import data_folder
from lnattn.position.without_tokens import PositionOnly
from lnattn.reporting.words import TERM_COLOURS, TERM_NAMES
from lnattn_book.chapters.layernorm import half_plane, points_in_space
from lnattn_book.chapters.pairs_first import Snapshots
from lnattn_book.studies.by_place import ByPlace
from lnattn_book.studies.small_models import BEST, read_looks

#: A curve is written in these units.
UNIT = 0.001
#: What trainings lose without, in the colours of chapter 11.
COLOURS = {"pairs": TERM_COLOURS["ee"], "positions": TERM_COLOURS["pp"]}


def by_place() -> dict[str, Any]:
    """GPT-2's T^p and T^pp over √d′ at every place, in all heads, for chapter 5's queries."""
    folder = data_folder() / "results" / "gpt2"
    bias = ByPlace.read(folder).bias(PositionOnly.read(folder))
    terms = {name: {"name": TERM_NAMES[name], "colour": TERM_COLOURS[name]} for name in ("p", "pp")}
    return {
        "terms": terms,
        "queries": list(bias.queries),
        "slope": steps(bias.term_p().mean / bias.scale),
        "wave": steps(bias.term_pp().mean / bias.scale),
    }


def first_place() -> dict[str, Any]:
    """GPT-2's attention on position 0 by place alone, with either σ in its place."""
    return log_odds(ByPlace.read(data_folder() / "results" / "gpt2"))


def log_odds(place: ByPlace) -> dict[str, Any]:
    """Attention on position 0 as log-odds, for σ_0 itself and for an ordinary σ in its place.

    The log-odds of one key are its score less what the others weigh together; only the score hangs
    on σ_0, and it does as 1/σ_0. So two of them give those of any σ_0.
    """
    with_own = np.log(place.own) - np.log1p(-place.own)
    with_ordinary = np.log(place.ordinary) - np.log1p(-place.ordinary)
    sigma = {"own": float(place.sigma[0]), "ordinary": float(np.median(place.sigma[1:]))}
    return {"sigma": sigma, "own": steps(with_own), "ordinary": steps(with_ordinary)}


def training() -> dict[str, Any]:
    """Chapter 11's trainings at each snapshot: nats lost, pieces found, and where heads look."""
    folder = data_folder() / "results" / "early-and-late-2-layers"
    runs = Snapshots.read(folder).table
    looks = read_looks(folder, "looks")[0]
    of_heads = looks[looks["head"] != BEST]
    by_head = of_heads.pivot(index=["seed", "step"], columns="head", values="previous")
    previous = by_head.loc[runs.index]
    trainings = []
    for seed, run in runs.groupby("seed"):
        curves = {name: rounded(run[name]) for name in (*COLOURS, "found", "chance")}
        trainings.append(
            {**curves, "previous": [rounded(row) for row in previous.loc[seed].values]}
        )
    tokens = runs["tokens"].drop_duplicates().astype(int).tolist()
    return {"tokens": tokens, "colours": COLOURS, "trainings": trainings}


def norm() -> dict[str, Any]:
    """Chapter 1's points of space and of a plane: before LayerNorm, projected, and scaled."""
    sides = [stages(half_plane(side)) for side in (1, -1)]
    return {"points": [stages(points_in_space())], "plane": sides}


def stages(x: Float[torch.Tensor, "point 3"]) -> list[list[list[float]]]:
    """Points as they are, centred, and brought to length √3."""
    return [[rounded(point) for point in cloud.numpy()] for cloud in (x, center(x), standardise(x))]


def steps(curves: Float[np.ndarray, "... place"]) -> list[Any]:
    """Curves in whole units, each number less the one before: small numbers, which deflate well."""
    return np.diff(np.rint(curves / UNIT).astype(int), axis=-1, prepend=0).tolist()


def rounded(values: Any) -> list[float]:
    """Numbers with four digits behind the point."""
    return np.round(np.asarray(values, dtype=float), 4).tolist()


#: By the name of its script.
DATA: dict[str, Callable[[], dict[str, Any]]] = {
    "of-place": by_place,
    "of-first-place": first_place,
    "of-training": training,
    "of-norm": norm,
}
