"""The numbers of chapter 10: what matrices write along a direction that no reader sees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch.nn.functional import layer_norm, rms_norm

from lnattn.storage import read_result

__all__ = [
    "along_the_removed",
    "by_model",
    "end_of_training",
    "geometric_mean",
    "moved_by",
    "one_number_for_sigma",
    "spill_of_steps",
    "unread_inputs",
    "written",
]


def written(results: Path, model: str) -> pd.DataFrame:
    """A model's frozen table, a row a matrix: kind, layer, only_writes, along, low, high, norm."""
    return pd.DataFrame(read_result(results / model, "writing")[0])


def geometric_mean(values: Float[np.ndarray, "..."], axis: int | None = None) -> Any:
    """The geometric mean over an axis, or over all values."""
    return np.exp(np.log(np.asarray(values, dtype=np.float64)).mean(axis=axis))


@torch.no_grad()
def moved_by(
    added: Float[torch.Tensor, "d m"], norm: torch.nn.LayerNorm, reader: Any
) -> dict[str, float]:
    """By how much at most what `reader` reads moves, when `added` is added to its matrix.

    What that makes of the norm's bias is taken off the reader's. Of 64 random inputs; behind a norm
    that centres, and behind one that only divides, both with gain and bias of `norm`.
    """
    moved = {}
    for name, normed in _normed(len(norm.weight)).items():
        stream = normed * norm.weight + norm.bias
        before = stream @ reader.weight + reader.bias
        after = stream @ (reader.weight + added) + (reader.bias - norm.bias @ added)
        moved[name] = float((after - before).abs().max())
    return moved


def unread_inputs(norm: torch.nn.LayerNorm) -> int:
    """In how many directions what a reader behind a norm that centres gets does not vary."""
    width = len(norm.weight)
    inputs = _normed(width, rows=2 * width)["LayerNorm"] * norm.weight.detach()
    return width - int(torch.linalg.matrix_rank(inputs))


def _normed(width: int, rows: int = 64) -> dict[str, Float[torch.Tensor, "row d"]]:
    """Random inputs, normed without gain and bias, by the name of the norm."""
    draw = torch.Generator().manual_seed(0)
    stream = torch.randn(rows, width, generator=draw, dtype=torch.float64)
    return {"LayerNorm": layer_norm(stream, (width,)), "RMSNorm": rms_norm(stream, (width,))}


def by_model(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row a model: the mean energy along 1 of what only writes, and how much is below chance.

    tables: model → table as from `written`. Columns: matrices, mean (geometric), share below.
    """
    rows = {}
    for model, table in tables.items():
        only = table[table["only_writes"]]
        below = only["along"] < only["low"]
        rows[model] = {
            "matrices": len(only),
            "mean": float(geometric_mean(only["along"].to_numpy())),
            "share below": below.mean(),
        }
    return pd.DataFrame(rows).T


def end_of_training(arms: Mapping[str, np.ndarray]) -> Float[np.ndarray, "norm optimiser seed u"]:
    """The energy along 1 (u = 0) and along n (u = 1) at the last step, over the matrices of a run.

    arms: `weight` [norm optimiser seed mark matrix u]; the mean is geometric.
    """
    return geometric_mean(arms["weight"][:, :, :, -1], axis=3)


def along_the_removed(
    end: Float[np.ndarray, "norm optimiser seed u"], norms: list[str], optimisers: list[str]
) -> pd.DataFrame:
    """A row a norm and direction, a column an optimiser: mean energy over seeds at the end."""
    rows = {
        f"{norm}, along {direction}": end[norms.index(norm), :, :, u].mean(axis=-1)
        for norm, direction, u in (
            ("LayerNorm", "1", 0),
            ("removes n", "n", 1),
            ("removes n", "1", 0),
            ("RMSNorm", "1", 0),
        )
    }
    return pd.DataFrame(rows, index=optimisers).T


def spill_of_steps(arms: Mapping[str, np.ndarray], optimisers: list[str]) -> pd.DataFrame:
    """What the steps of LayerNorm's runs have along 1, a column an optimiser.

    a late step: energy along 1 of the last one, median over seeds and matrices; all steps: energy
    of their sum, mean; kept: the component along 1 over the one that was drawn, mean.
    """
    return pd.DataFrame(
        {
            "a late step": np.median(arms["step"][0, :, :, -1, :, 0], axis=(1, 2)),
            "all steps": np.nanmean(arms["moved"][0, :, :, -1, :, 0], axis=(1, 2)),
            "kept": arms["kept"][0, :, :, -1, :, 0].mean(axis=(1, 2)),
        },
        index=optimisers,
    ).T


def one_number_for_sigma(results: Path, models: list[str]) -> pd.DataFrame:
    """What replacing σ(x) by its mean changes, a row a model.

    first over others: σ of the first input over that of the rest; of the first input: its share of
    the divergence; AUROC moves by: the largest change of T^ee's AUROC of the token before.
    """
    rows = {}
    for model in models:
        arrays, record = read_result(results / model, "sigma")
        rows[model] = {
            "first over others": record["first"] / record["sigma"],
            "of the first input": 1 - arrays["kl_but_first"].mean() / arrays["kl"].mean(),
            "AUROC moves by": np.abs(np.diff(arrays["auroc"], axis=0)).max(),
        }
    return pd.DataFrame(rows).T
