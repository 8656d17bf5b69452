"""Why a small model has no detokenizing heads: the same look at many small first layers.

A look is a tidy table, one row a head, of what the head does to sub-words (T^ee) beside what it
does by position alone; `experiments/book_model` makes it for the checkpoints of a training run, or
for models of several shapes. Tables of many looks are put one below the other and frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lnattn.errors import ResultError
from lnattn.storage import read_result

#: Stands for a piece's best head in the column 'head'.
BEST = -1


def along_training(looks: pd.DataFrame) -> pd.DataFrame:
    """One row a step of a run's looks: tokens, found, chance, chance high, above chance, previous.

    found: share of pieces found in the best head; above chance: that less `chance`; previous: the
    largest attention of a head on the token before, by position alone.
    """
    best = looks[looks["head"] == BEST].set_index("step").sort_index()
    heads = looks[looks["head"] != BEST].groupby("step")
    columns = best[["tokens", "found", "chance", "chance high"]]
    above = best["found"] - best["chance"]
    return columns.assign(**{"above chance": above}, previous=heads["previous"].max())


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
