"""What the book's own claims are judged by, which no paper states; `unselectable` has some more.

Their rules were written before their numbers, but where `book/claims.yml` or the page of an
experiment says what was known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from lnattn.ablation.study import CLASSES, Ablations, interval
from lnattn.affinity.subwords import PieceRule, Subwords, TokenClasses
from lnattn.errors import ResultError
from lnattn.majority.results import Experiment
from lnattn.stats import bootstrap_means
from lnattn_book.claims.brody import end_lead
from lnattn_book.claims.listed import claim
from lnattn_book.claims.rules import Case, Rule, rule, stated
from lnattn_book.claims.verdicts import NOT_COMPUTABLE, Between, Record
from lnattn_book.exposure import exposure, lead
from lnattn_book.joining import Joining
from lnattn_book.language_models import mean_and_interval
from lnattn_book.words import Sentiment

# --- sub-words (chapters 06 and 08): S ------------------------------------------------------------


def piece_rule(classes: TokenClasses) -> PieceRule:
    """Which pieces are asked about in a vocabulary of this kind, as claim S1 says."""
    given = claim("S1").rule
    least, share = given["wordpiece" if classes.wordpiece else "byte_level"]
    return PieceRule(int(least), float(share))


@rule
def s1(case: Case, found: Subwords) -> dict[str, Any] | Record:
    n = len(found.pieces)
    if n < case.pieces:
        return Record(NOT_COMPUTABLE, f"{n} {'piece fits' if n == 1 else 'pieces fit'} the rule")
    best = found.table(case.rank).loc["best"]
    share = Between(*(float(best[name]) for name in ("found", "low", "high")))
    chance = float(best["chance"])
    return {
        "share": share,
        "found": share.value,
        "chance": chance,
        "band": float(best["chance high"]),
        "times": Between(*(one / chance for one in share)),
        "pieces": n,
        "head": f"{int(found.heads_of(case.rank).argmax())}",
    }


@rule
def s7(case: Case, found: Ablations, specific: np.ndarray) -> dict[str, Any] | Record:
    """Is T^ee used where words are put together? specific: AUROC less a wrong query's [head]."""
    return _used(case, found, specific, "second pieces")


@rule
def s8(case: Case, found: Ablations, specific: np.ndarray) -> dict[str, Any] | Record:
    """Is T^ee used where names are put together? As `s7`."""
    return _used(case, found, specific, "second words of names")


def _used(case: Case, found: Ablations, specific: np.ndarray, of: str) -> dict[str, Any] | Record:
    number = int(found.tokens[0, list(CLASSES).index(of), 1])
    if number < case.tokens:
        return Record(NOT_COMPUTABLE, f"{number} {of} with a match")
    head = int(specific.argmax())
    whole, alone = (Between(*interval(found.excess("ee", of=of, head=h))) for h in (-1, head))
    pairs = Between(*interval(found.excess("pairs", of=of)))
    shown = {"whole": whole, "alone": alone, "pairs": pairs, "tokens": number, "head": f"{head}"}
    # An interval that holds 0 is no difference seen, and is not said to be open.
    lost, one = bool(whole.low > 0), bool(alone.low > 0)
    much = lost and one and whole.value >= case.nats
    return {**shown, "lost": lost, "much": much, "absent": whole.high >= 0}


@rule
def s11(case: Case, found: Joining) -> dict[str, Any] | Record:
    """Is a first layer that joins pieces used for it?"""
    seeds, shares = len(found.peaks()), found.shares()
    if seeds < case.seeds:
        most = shares.loc[shares["tokens trained"].idxmax()]
        return Record(
            NOT_COMPUTABLE,
            f"{seeds} of {shares.index.unique('seed').size} models join pieces; after "
            f"{most['tokens trained'] / 1e6:.1f} million tokens {most['found']:.1%} are found, "
            f"by chance up to {most['chance high']:.1%}",
        )
    every, alone = found.of("after", "ee"), found.of("after", "ee", "joining")
    whole = Between(*mean_and_interval(every["value"].to_numpy(), case.level))
    lost = 1.0 if whole.low > 0 else 0.0 if whole.high < case.nats else 0.5
    much = whole.value >= case.nats and bool((alone["low"] > 0).all())
    shown = {"whole": whole, "alone": alone["value"].to_numpy(), "seeds": seeds}
    return {**shown, "lost": lost, "much": float(much) if lost == 1 else lost}


# --- distance (chapter 13): D --------------------------------------------------------------------


@rule
def d1(case: Case, skill: np.ndarray) -> dict[str, Any]:
    """skill: [head 3], mean, low, high."""
    return {"skill": Between.rows(skill).family()}


@rule
def d3(case: Case, share: np.ndarray, null: np.ndarray) -> dict[str, Any]:
    """share, null: [head], of attention by distance alone on the nearest keys."""
    even = case.near / case.context
    return {"times_even": share / even, "null": null / even, "usual": np.median(null) / even}


@rule
def d5(case: Case, rotary: np.ndarray, learned: np.ndarray) -> dict[str, Any]:
    """rotary, learned: skill of the best head of two models alike but for positions, [seed]."""
    return {"more": Between(*mean_and_interval(rotary - learned)), "pairs": len(rotary)}


# --- normalisation, and what nobody reads (chapters 10, 11 and 14): N ----------------------------


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
    by_chance = np.array([one.low > 0 and one.p >= case.p for one in of])
    shares = [(one.difference, one.low, one.high) for one in of]
    return _both(found, shares, _learnt(case, found, UNSCALED) & ~by_chance)


@rule
def n6(case: Case, found: Sentiment) -> dict[str, Any]:
    """How much more often the classifier with LayerNorms is right than without scaling, or them."""
    leads = [lead(found, "full", arm) for arm in UNSCALED]
    return _both(found, leads, _learnt(case, found, UNSCALED) & _learnt(case, found, ("full",)))


def _both(found: Sentiment, shares: Any, sure: np.ndarray) -> dict[str, Any]:
    """Both arms in points; what is not sure, of an arm that learnt nothing, decides nothing."""
    points = 100 * np.array(shares)
    counted = np.where(sure[:, None], points, [0, -np.inf, np.inf])
    first, second = (Between(*one) for one in points)
    more = {"more": Between.rows(counted).family(), "seeds": found.right.shape[1]}
    return more | {"first": first, "second": second}


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
    return Between(*bootstrap_means(np.asarray(values)[None], draws=10_000)[0].tolist())


def geometric(values: np.ndarray) -> Between:
    """Geometric mean over seeds and its 95 % bootstrap interval; values: [seed], above 0."""
    return Between(*np.exp(bootstrapped(np.log(values))))
