"""Which layers join pieces by their weights, and how far lone tokens are from those in text.

`experiments/layers_above` makes the frozen tables, and says what was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Num

from lnattn.errors import ResultError
from lnattn.paths import data_folder
from lnattn.storage import read_result, write_result

#: How queries were taken: without their mean over the vocabulary, or as they are.
QUERIES = ("without their mean", "as they are")


@dataclass(frozen=True, eq=False)
class LayersAbove:
    """What was asked of one model, by the kind of queries (`QUERIES`) and the layer.

    found: whether a piece's predecessor is within rank 10 in some head; chance: shares of permuted
    pieces; heads: of the pieces found, how many in each head; far: squared distance of the vector
    in text from the lone token's, summed; far_other: from the lone vector of another token of the
    text; spread: squared distance from the mean vector.
    """

    found: Bool[np.ndarray, "kind layer piece"]
    chance: Float[np.ndarray, "kind layer draw"]
    heads: Num[np.ndarray, "kind layer head"]
    far: Float[np.ndarray, "window layer"]
    far_other: Float[np.ndarray, "window layer"]
    spread: Float[np.ndarray, "window layer"]
    record: Mapping[str, Any]

    @property
    def n_layers(self) -> int:
        """How many layers were asked."""
        return self.found.shape[1]

    def table(self) -> pd.DataFrame:
        """A row a layer: shares found and by chance, of both kinds, and the text's variance."""
        alone = 1 - self.far.sum(axis=0) / self.spread.sum(axis=0)
        other = 1 - self.far_other.sum(axis=0) / self.spread.sum(axis=0)
        columns: dict[str, Any] = {}
        for kind, name in enumerate(QUERIES):
            columns[f"found, {name}"] = self.found[kind].mean(axis=-1)
            columns[f"chance, {name}"] = self.chance[kind].mean(axis=-1)
        columns |= {"alone": alone, "another token's": other}
        return pd.DataFrame(columns, index=pd.RangeIndex(self.n_layers, name="layer"))

    def write(self, folder: Path | str, name: str) -> Path:
        """Freeze as folder/name.npz and .json."""
        arrays = {key: value for key, value in vars(self).items() if key != "record"}
        return write_result(folder, name, arrays, dict(self.record))

    @classmethod
    def read(cls, folder: Path | str, name: str) -> LayersAbove:
        """What `write` froze; `ResultError` where it is missing or damaged."""
        arrays, record = read_result(folder, name)
        try:
            return cls(**arrays, record=record)
        except TypeError as error:
            raise ResultError(f"{folder}/{name}.npz holds other tables; make it again.") from error


def frozen(name: str) -> LayersAbove:
    """The frozen tables of a model."""
    return LayersAbove.read(data_folder() / "results" / "layers-above", name)
