"""The exact law of Gaussian keys (`lnattn.selectability.gaussian`) beside keys that are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lnattn.selectability.decide import selectability
from lnattn.selectability.gaussian import expected_share
from lnattn_book.studies.random_keys import random_grid, standardised


def drawn(counts: Sequence[int], widths: Sequence[int], draws: int) -> dict[str, np.ndarray]:
    """The same by the package's walk: expected [n d], unselectable [n d draw]."""
    expected = [[expected_share(n, d) for d in widths] for n in counts]
    return {
        "expected": np.array(expected),
        "unselectable": random_grid(counts, widths, draws).unselectable,
    }


def on_spheres(n: int, widths: Sequence[int], parts: int, draws: int) -> dict[str, np.ndarray]:
    """Shares of n LayerNormed random keys in a `parts`-th of their dimensions: [width draw]."""
    rng = np.random.default_rng(0)

    def share(d: int) -> float:
        return selectability(standardised(rng.normal(size=(n, d)))[:, : d // parts]).unselectable

    return {"share": np.array([[share(d) for _ in range(draws)] for d in widths])}
