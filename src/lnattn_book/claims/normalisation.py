"""What the book's own claims on normalisation (chapters 10 and 11) are judged by.

They take up what Brody et al. 2023 leave open.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn.majority.results import Experiment
from lnattn_book.claims.rules import Case, Rule, rule, stated
from lnattn_book.claims.verdicts import Between
from lnattn_book.exposure import exposure, lead
from lnattn_book.language_models import mean_and_interval
from lnattn_book.words import Sentiment


def _better(claim_id: str, *pairs: tuple[str, str]) -> Rule:
    """The rule that arms end better than others. pairs: of arms, the one that should be worse first

    N1: does the projection help at equal norm? N3: does majority need attention that chooses?
    N4: does the scaling matter?
    """

    def measure(case: Case, runs: Experiment) -> dict[str, Any]:
        leads = {f"{better} less {worse}": end_lead(runs, better, worse) for worse, better in pairs}
        points = Between.rows(100 * np.array(list(leads.values()))).family()
        seeds = min(len(runs.of(arm).seeds) for pair in pairs for arm in pair)
        found = {"lead": points, "seeds": seeds, "of": ", ".join(leads)}
        return found | {name: mean for name, (mean, *_) in leads.items()}

    return stated(claim_id, measure)


n1 = _better("N1", ("rms", "layernorm"))
n3 = _better("N3", ("uniform-layernorm", "layernorm"), ("uniform-rms", "rms"))
n4 = _better("N4", ("unnormalised", "layernorm"), ("unnormalised", "rms"))


def end_lead(runs: Experiment, one: str, other: str) -> tuple[float, float, float]:
    """How much more an arm gets right at the end than another: mean over seeds, and interval."""
    of, than = runs.of(one), runs.of(other)
    common = [seed for seed in of.seeds if seed in than.seeds]
    ends = (arm.accuracy[[arm.seeds.index(seed) for seed in common], -1] for arm in (of, than))
    return mean_and_interval(np.subtract(*ends, dtype=np.float64))


#: The classifiers whose keys can be unselectable.
UNSCALED = ("no-scaling", "none")


def _learnt(case: Case, found: Sentiment, arms: tuple[str, ...]) -> np.ndarray:
    """Whether each arm is trained: in every seed right so much more often than one label."""
    right = np.array([found.right[found.of(arm)].mean(axis=1).min() for arm in arms])
    return right >= found.majority + case.trained


@rule
def n5(case: Case, found: Sentiment) -> dict[str, Any]:
    """Per arm: are deciding words more exposed? p is of words dealt anew within bins."""
    asked = {"least": case.least, "decides": case.decides, "neutral": case.neutral}
    of = [exposure(found, arm, **asked) for arm in UNSCALED]
    points = [100 * np.array([one.difference, one.low, one.high]) for one in of]
    open_ = np.array([[0, -np.inf, np.inf]] * 2)
    # What an arm that learnt nothing, or chance too often, gives decides nothing.
    sure = [a and not (one.low > 0 and one.p >= case.p)
            for a, one in zip(_learnt(case, found, UNSCALED), of, strict=True)]  # fmt: skip
    counted = Between.rows(np.where(np.array(sure)[:, None], points, open_)).family()
    first = Between(*points[0])
    return {"more": counted, "first": first, "second": Between(*points[1]),
            "seeds": found.right.shape[1]}  # fmt: skip


@rule
def n6(case: Case, found: Sentiment) -> dict[str, Any]:
    """How much more often the classifier with LayerNorms is right than without scaling, or them."""
    points = 100 * np.array([lead(found, "full", arm) for arm in UNSCALED])
    sure = _learnt(case, found, UNSCALED) & _learnt(case, found, ("full",))
    counted = np.where(sure[:, None], points, [[0, -np.inf, np.inf]] * 2)
    first, second = (Between(*one) for one in points)
    return {"more": Between.rows(counted).family(), "first": first, "second": second,
            "seeds": found.right.shape[1]}  # fmt: skip
