"""Models with rotary positions, and twins that differ in their positions alone (chapter 12)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from lnattn.errors import CheckpointError
from lnattn.models.checkpoints import load_first_layer
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn.storage import read_result
from lnattn_book.page.names import rotary_models


def available_rotary_models() -> list[RelativeFirstLayer]:
    """The first layers of `rotary_models` that can be read; the explorer says what others lack."""
    models = []
    for name in rotary_models():
        with suppress(CheckpointError):
            if isinstance(model := load_first_layer(name), RelativeFirstLayer):
                models.append(model)
    return models


@dataclass(frozen=True, eq=False)
class Twins:
    """What `experiments/twins` froze of each pair, by the name of its model: KIND-SEED.

    KIND is "rotary" or, for learned positions, "causal".
    """

    arrays: Mapping[str, np.ndarray]
    record: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path | str) -> Twins:
        return cls(*read_result(folder, "twins"))

    def of(self, kind: str, what: str) -> Float[np.ndarray, "seed ..."]:
        """One array of the models of a kind whose twin is there, too."""
        seeds = sorted(name[7:] for name in self.record["runs"] if name[:7] == "rotary-")
        return np.array([self.arrays[f"{kind}-{seed} {what}"] for seed in seeds])

    def skill(self, kind: str) -> Float[np.ndarray, "seed"]:
        """What the best head knows of its query one token apart: AUROC less a wrong query's."""
        return self.of(kind, "skill")[:, 0, 0].max(axis=1)
