"""Why a small model has no detokenizing heads: the same look at many small first layers.

Chapter 06. What a head does to sub-words (T^ee) is set beside what it does by position alone, for
the checkpoints of a training run, or for models of several shapes. A look is a tidy table, one row
a head; tables of many looks are put one below the other and frozen as they are. Where positions are
rotary, T^ee is that of tokens side by side, and the term of the distance alone stands for T^pp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.folding import FoldedAttention
from lnattn.errors import ResultError
from lnattn.position.bias import position_bias
from lnattn.position.sigma import InverseSigma
from lnattn.position.without_tokens import PositionOnly
from lnattn.storage import read_result

#: Stands for a piece's best head in the column 'head'.
BEST = -1


def by_position(
    folded: FoldedAttention,
    W_P: Float[Tensor, "position d_model"],
    sigma: InverseSigma,
    far: int = 2,
) -> Float[np.ndarray, "distance head"]:
    """Attention by position alone, softmax of T^p + T^pp, on i, i−1, … i−far+1.

    Mean over the queries of the later half of the context.
    """
    queries = later_half(len(W_P))
    attention = position_bias(folded, W_P, queries.tolist(), sigma).attention()
    return looking_back(attention, queries, far)


def looking_back(
    attention: Float[np.ndarray, "head query key"], queries: np.ndarray, far: int
) -> Float[np.ndarray, "distance head"]:
    """Mean attention of these queries on themselves, on the key before, and so on."""
    rows = np.arange(len(queries))
    return np.stack([attention[:, rows, queries - o].mean(axis=1) for o in range(far)])


def later_half(context: int) -> np.ndarray:
    """The queries that attention by position is averaged over."""
    return np.arange(max(1, context // 2), context)


def gpt2_reference(folder: Path | str) -> tuple[np.ndarray, np.ndarray]:
    """GPT-2's attention by position alone on i−1 and on i: both [case head], from frozen weights.

    folder: that of its frozen position study (chapter 07), whose three queries are averaged. The
    cases are that study's assumptions about Var(e): σ needs the tokens, which are not at hand.
    """
    found = PositionOnly.read(folder)
    queries = list(found.bias.queries)
    rows = np.arange(len(queries))
    cases = []
    for token_variance in found.assumed:
        sigma = InverseSigma((found.variance + token_variance) ** -0.5, None, None)
        attention = replace(found.bias, inverse_sigma=sigma).attention()
        cases.append([attention[:, rows, np.array(queries) - o].mean(axis=1) for o in (1, 0)])
    previous, itself = np.swapaxes(cases, 0, 1)
    return previous, itself


def side_by_side(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a model of the grid and length of training, of tables of looks at the grid.

    Shares of pieces found and by chance; the largest attention on the previous token by position;
    the mean spread of T^ee and T^pp over the near keys.
    """
    shape = ["context", "layers", "heads", "positions", "tokens"]
    best = cells[cells["head"] == BEST].set_index(shape)
    heads = cells[cells["head"] != BEST].groupby(shape, sort=False)
    table = best[["found", "chance"]].assign(previous=heads["previous"].max())
    table[["spread ee", "spread pp"]] = heads[["spread ee", "spread pp"]].mean()
    table = table.reset_index()
    millions = (table.pop("tokens") / 1e6).round(1)
    table.insert(len(shape) - 1, "million tokens", millions)
    return table


def read_looks(
    folder: Path | str, name: str, column: str = "spread pp"
) -> tuple[pd.DataFrame, Mapping[str, Any]]:
    """What `save_snapshots` wrote; `ResultError` where it is missing, damaged or something else.

    column: one that its tables must have.
    """
    arrays, record = read_result(folder, name)
    if column not in arrays or len({len(values) for values in arrays.values()}) != 1:
        raise ResultError(
            f"{folder}/{name}.npz holds no such table of small models; compute it again."
        )
    return pd.DataFrame(arrays), record
