"""What the book's own claims on what nobody reads (chapter 14) are judged by.

They were written, with their parameters in `book/claims.yml`, before the arms that N10 and N11
judge were trained; the experiment's README says for which real models numbers were known.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from lnattn.errors import ResultError
from lnattn.stats import bootstrap_means
from lnattn_book.claims.rules import Case, rule, stated
from lnattn_book.claims.verdicts import Between

#: What chance has of the energy of Adam's first step along a direction that its gradient lacks.
FIRST_STEP = 1 - 2 / np.pi


@rule
def n7(case: Case, found: pd.DataFrame) -> dict[str, Any]:
    """found: columns `along`, `low`; a row a matrix that only writes. `times`: A over chance or
    chance over A, whichever is larger."""
    if found.empty:
        raise ResultError("no matrix that only writes was given.")
    below = (found["along"] < found["low"]).to_numpy()
    mean = float(np.exp(np.log(found["along"]).mean()))
    measured = {"along": found["along"].to_numpy(), "mean": mean, "matrices": len(found)}
    return {"below": below, "share": below.mean(), "times": max(mean, 1 / mean), **measured}


#: N8 asks of models with RMSNorm what N7 asks of those that centre.
n8 = stated("N8", n7.measure)


@rule
def n10(
    case: Case, along_n: Mapping[str, np.ndarray], along_1: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """By optimiser: A along n and along 1 [seed], a geometric mean over matrices."""
    found: dict[str, Any] = {"seeds": min(map(len, along_n.values()))}
    for name, values in along_n.items():
        removed, one = geometric(values), geometric(along_1[name])
        near = one.low > 1 / case.factor and one.high < case.factor
        found[name] = bool(removed.high < case.avoided and near)
        found |= {f"{name}_n": removed, f"{name}_1": one}
    return found | {"first": geometric(next(iter(along_n.values())))}


@rule
def n11(case: Case, first: np.ndarray) -> dict[str, Any]:
    """first: A of Adam's first step, [seed]."""
    step = bootstrapped(first)
    found = {"between": bool(step.low > 0 and step.high < 1), "step": step}
    return {**found, "off": abs(step.value - FIRST_STEP), "seeds": len(first)}


def bootstrapped(values: np.ndarray) -> Between:
    """Mean over seeds and its 95 % bootstrap interval; values: [seed]."""
    return _bootstrapped(tuple(map(float, values)))


@lru_cache(maxsize=64)  # a rule is asked again with other thresholds
def _bootstrapped(values: tuple[float, ...]) -> Between:
    return Between(*bootstrap_means(np.array(values)[None], draws=10_000)[0].tolist())


def geometric(values: np.ndarray) -> Between:
    """Geometric mean over seeds and its 95 % bootstrap interval; values: [seed], above 0."""
    return Between(*np.exp(bootstrapped(np.log(values))))
