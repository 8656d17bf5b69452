"""What the claims of Brody et al. 2023 on LayerNorm and majority are judged by.

Those on keys are in `unselectable`. Arguments are results: small numbers, or the frozen runs of a
study as it reads them. That projected keys lie in the plane is algebra, so B6 does not judge it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lnattn.majority.model import ARMS
from lnattn.majority.results import Estimate, Experiment, lag
from lnattn.majority.train import angles_to_ones
from lnattn_book.claims.rules import Case, rule, stated
from lnattn_book.claims.verdicts import Between
from lnattn_book.language_models import mean_and_interval

#: The arm with the projection; claims about the projection set another beside it.
PROJECTED = "layernorm"

b2, b3 = map(stated, ("B2", "B3"))


@rule
def b1(case: Case, constructions: float, ranks: Mapping[int, int], apart: float) -> dict[str, Any]:
    """constructions: difference of C and B diag(1, …, 1, 0) B⁻¹; ranks: of C by width; apart:
    largest difference from the reference LayerNorm."""
    full = all(rank == width - 1 for width, rank in ranks.items())
    return {"constructions": constructions, "apart": apart, "full": full, "widths": len(ranks)}


@rule
def b4(case: Case, runs: Experiment, without: str) -> dict[str, Any]:
    """without: the arm that has no projection."""
    levels = {f"{level:.0%}": {"accuracy": level} for level in case.accuracies}
    levels |= {f"loss {level:g}": {"loss": level} for level in case.losses}
    all_ = {name: lag(runs, without, PROJECTED, **level) for name, level in levels.items()}
    found = {name: one for name, one in all_.items() if one is not None}
    seeds = len(set(runs.of(without).seeds) & set(runs.of(PROJECTED).seeds))
    whole = {"ratio": Between.rows(list(found.values())), "seeds": seeds, "levels": len(found)}
    return whole | {name: one.value for name, one in found.items()}


@rule
def b5(case: Case, runs: Experiment, without: str) -> dict[str, Any]:
    """How far the mean angle falls. without: the arm that has no projection."""
    arms = map(runs.of, (PROJECTED, without))
    return _of_arms(*(curves.angle[:, 0] - curves.angle[:, -1] for curves in arms))


@rule
def b6(case: Case, runs: Experiment, without: str) -> dict[str, Any]:
    """How far trained queries are from 1. without: the arm that has no projection."""
    arms = map(runs.of, (PROJECTED, without))
    return _of_arms(*(angles_to_ones(curves.queries).mean(axis=1) for curves in arms))


def _of_arms(projected: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    """Mean over runs, with its interval, in the arm with projection and in the other."""
    found = {"with": projected, "without": other}
    runs = min(map(len, found.values()))
    return {name: Between(*mean_and_interval(one)) for name, one in found.items()} | {"runs": runs}


@rule
def b13(case: Case, runs: Experiment, other: str, several: Sequence[str]) -> dict[str, Any]:
    """other, several: names of the arms with another normal vector, and with several."""
    leads = [end_lead(runs, arm, PROJECTED) for arm in (other, *several)]
    points = Between.rows(100 * np.array(leads))
    arms = ", ".join(ARMS[arm].title.split(",")[0] for arm in (other, *several))
    first = Between.rows(100 * np.array(leads[:1]))
    found = {"lead": points, "other": Between(*(one[0] for one in first)), "arms": arms}
    return found | {"seeds": len(runs.of(other).seeds)}


@rule
def b15(case: Case, ratios: Mapping[int, Estimate | float], seeds: int) -> dict[str, Any]:
    """ratios: epochs without the projection over those with it, by width, at equal norm."""
    narrow, *wide = (Between.of(ratios[width]) for width in sorted(ratios))
    return {"narrow": narrow, "wide": Between.rows(wide), "widths": len(ratios), "seeds": seeds}


def end_lead(runs: Experiment, one: str, other: str) -> tuple[float, float, float]:
    """How much more an arm gets right at the end than another: mean over seeds, and interval."""
    of, than = runs.of(one), runs.of(other)
    common = [seed for seed in of.seeds if seed in than.seeds]
    ends = (arm.accuracy[[arm.seeds.index(seed) for seed in common], -1] for arm in (of, than))
    return mean_and_interval(np.subtract(*ends, dtype=np.float64))
