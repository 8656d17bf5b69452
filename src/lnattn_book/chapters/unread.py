"""The numbers of chapter 10: what matrices write along a direction that no reader sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from lnattn.storage import read_result
from lnattn_book.page import Check, says


def written(results: Path, model: str) -> pd.DataFrame:
    """A model's frozen table, a row a matrix: kind, layer, only_writes, along, low, high, norm."""
    return pd.DataFrame(read_result(results / model, "writing")[0])


def geometric_mean(values: Float[np.ndarray, "..."], axis: int | None = None) -> Any:
    """The geometric mean over an axis, or over all values."""
    return np.exp(np.log(np.asarray(values, dtype=np.float64)).mean(axis=axis))


def gradients_along_1(
    centred: Mapping[tuple[str, int], float], uncentred: Mapping[tuple[str, int], float]
) -> pd.DataFrame:
    """What the gradient of each matrix has along 1, with every reader centring and with one not.

    centred, uncentred: (kind, layer) → share; embeddings have layer −1.
    """
    columns = {"every reader centres": centred, "the last does not": uncentred}
    table = pd.DataFrame(columns)
    named = [kind if layer < 0 else f"{kind}, layer {layer}" for kind, layer in table.index]
    return table.set_axis(named)


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


# ---- What the chapter says -----------------------------------------------------------------------


def checks(
    tables: Mapping[str, pd.DataFrame],
    centred: Mapping[tuple[str, int], float],
    uncentred: Mapping[tuple[str, int], float],
    end: Float[np.ndarray, "norm optimiser seed u"],
    at_end: pd.DataFrame,
    first: Float[np.ndarray, "start"],
    steps: pd.DataFrame,
) -> Iterator[Check]:
    """What the page of chapter 10 says of its numbers.

    tables: model → what its matrices write; centred, uncentred: what `gradients_along_1` shows;
    end: as `end_of_training` gives it, of LayerNorm, RMSNorm and the norm that removes n.
    """
    yield from _checks_of_gradients(centred, uncentred)
    yield from _checks_of_models(tables)
    yield from _checks_of_arms(end, at_end)
    drawn = 1 - 2 / np.pi
    sgd = steps["SGD"]
    yield says(
        "what was drawn before training", abs(sgd["kept"] - 1) < 1e-5, sgd["all steps"] < 1e-9
    )
    yield says("Weight decay shrinks it", steps["AdamW"]["kept"] < steps["Adam"]["kept"])
    yield says("That was predicted, and it came out", abs(first.mean() - drawn) < 0.02)
    adam = steps[["Adam", "AdamW"]]
    yield says("than a single late one", adam.loc["all steps"] > adam.loc["a late step"])


def _checks_of_gradients(
    centred: Mapping[tuple[str, int], float], uncentred: Mapping[tuple[str, int], float]
) -> Iterator[Check]:
    tokens = ("tokens", -1)
    unseen = np.array([share for matrix, share in centred.items() if matrix != tokens])
    yield says(
        "Zero, to rounding, in every matrix but one",
        unseen < 1e-12,
        centred[tokens] > 1e-4,
        found=unseen.max(),
    )
    seen = np.array(list(uncentred.values()))
    yield says("no gradient corrects what pure writers put", unseen < 1e-12)
    yield says("then all are seen", seen > 1e-4, found=seen.min())


def _checks_of_models(tables: Mapping[str, pd.DataFrame]) -> Iterator[Check]:
    models = by_model(tables)
    mean = models["mean"]
    share_below = models["share below"]
    yield says(
        "MiniLM writes there 19 % of chance, our small GPT-2 6 %",
        mean["MiniLM"],
        mean["book-gpt2"],
    )
    of_rms = mean[["book-llama", "SmolLM2"]]
    yield says("Two models with RMSNorm match chance", abs(of_rms - 1) < 0.05, found=of_rms)
    yield says("every one lies below chance", share_below[["book-gpt2", "MiniLM"]] == 1)
    yield says("within a few per cent of chance", abs(of_rms - 1) < 0.05, found=of_rms)
    attention = tables["GPT-2"].query("kind == 'attention'").set_index("layer")
    is_below = attention["along"] < attention["low"]
    yield says(
        "Ten of its twelve attention layers avoid", is_below.sum() == 10, len(is_below) == 12
    )
    above = attention[attention["along"] > attention["top"]]
    yield says(
        "ten of GPT-2's twelve attention layers less and two more",
        is_below.sum() == 10,
        len(above) == 2,
        len(is_below) == 12,
    )
    positions = tables["GPT-2"].query("kind == 'positions'")
    yield says(
        "its positions are within chance",
        positions["along"].between(positions["low"], positions["high"]),
        found=positions["along"],
    )
    yield says(
        "layers 1 and 2 write more along it than chance, 2.65 and 1.80 times as much",
        above.index,
        above["along"],
    )
    narrow = share_below["widths 8 to 64"]
    yield says("in most matrices, not in all", 0.5 < narrow < 1, found=narrow)
    yield says("MiniLM writes little there", mean["MiniLM"] < 0.25, found=mean["MiniLM"])
    yield says("ten of GPT-2's twelve attention layers", is_below.sum() == 10)


def _checks_of_arms(
    end: Float[np.ndarray, "norm optimiser seed u"], at_end: pd.DataFrame
) -> Iterator[Check]:
    layernorm, _, removes_n = end
    along_1 = at_end.loc["LayerNorm, along 1"]
    along_n = at_end.loc["removes n, along n"]
    yield says(
        "is the one that is avoided, in every seed",
        removes_n[..., 1].max() < removes_n[..., 0].min(),
        layernorm[..., 0].max() < layernorm[..., 1].min(),
    )
    with_sgd = np.array([along_1["SGD"], along_n["SGD"]])
    yield says("down to a tenth of chance with SGD", abs(with_sgd - 0.1) < 0.03, found=with_sgd)
    with_adam = np.array([row[name] for row in (along_1, along_n) for name in ("Adam", "AdamW")])
    fits = (with_adam > 0.22) & (with_adam < 0.36)
    yield says("to a quarter or a third with Adam", fits, found=with_adam)
    ordinary = at_end.loc["removes n, along 1"]
    in_rms = at_end.loc["RMSNorm, along 1"]
    yield says(
        "keeps .73 to .86 of chance, about as under RMSNorm, whose readers see every direction: "
        ".76 to .86",
        ordinary.min(),
        ordinary.max(),
        in_rms.min(),
        in_rms.max(),
    )
