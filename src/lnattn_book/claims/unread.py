"""The rules of the book's own claims on what nobody reads (chapter 14) and rotary frequencies.

They were written, with their parameters in `book/claims.yml`, before the arms that N10 and N11
judge were trained; the experiment's README says for which real models numbers were known.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lnattn.errors import ResultError
from lnattn.stats import bootstrap_means
from lnattn_book.claims.verdicts import Case, Record, rule, size
from lnattn_book.claims.words import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED, graded

#: What chance has of the energy of Adam's first step along a direction that its gradient lacks.
FIRST_STEP = 1 - 2 / np.pi


@rule
def n7(case: Case, found: pd.DataFrame) -> Record:
    """N7, do models that centre avoid 1? found: columns `along`, `low`; a row a matrix."""
    below = _below(found)
    share, words = below.mean(), f"{int(below.sum())} of {len(found)} matrices below chance"
    verdict = HOLDS if share == 1 else HOLDS_IN_PART if share > 0.5 else FAILS
    return _record(found, verdict, words)


@rule
def n8(case: Case, found: pd.DataFrame) -> Record:
    """N8, are models with RMSNorm at chance? found: columns `along`, `low`; a row a matrix."""
    below = _below(found)
    size = abs(np.log(found["along"]).mean()) <= np.log(case.factor)
    met = int(size) + int(below.mean() <= case.share)
    words = f"{int(below.sum())} of {len(found)} matrices below chance"
    verdict = (FAILS, HOLDS_IN_PART, HOLDS)[met]
    return _record(found, verdict, words)


@rule
def n9(case: Case, along: np.ndarray, top: np.ndarray) -> Record:
    """N9, do two layers of GPT-2 write more? along, top: [layer], top the quantile asked for."""
    layers = [int(layer) for layer in case.layers]
    above = [bool(along[layer] > top[layer]) for layer in layers]
    shown = " and ".join(f"{along[layer]:.2f} (chance up to {top[layer]:.2f})" for layer in layers)
    values = {f"layer {layer}": along[layer] for layer in layers}
    least = min(layers, key=lambda layer: along[layer])
    return Record(graded(above), shown, values, **size(along[least], "A", 1, len(layers)))


@rule
def n10(case: Case, along_n: Mapping[str, np.ndarray], along_1: Mapping[str, np.ndarray]) -> Record:
    """N10, unseen or given up? By optimiser: A [seed], a geometric mean over matrices."""
    held, shown = [], []
    for optimiser, values in along_n.items():
        removed, one = geometric(values), geometric(along_1[optimiser])
        held.append(removed[2] < case.avoided and one[1] > 1 / case.factor and one[2] < case.factor)
        shown.append(f"{optimiser} {_interval(removed)} along n, {_interval(one)} along 1")
    seeds, note = min(map(len, along_n.values())), ""
    verdict, first = graded(held), next(iter(along_n.values()))
    if seeds < case.runs:
        verdict, note = UNDECIDED, f"{case.runs} seeds would decide"
    effect = size(geometric(first), "A along n", 1, seeds)
    return Record(verdict, f"{'; '.join(shown)} ({seeds} seeds)", note=note, **effect)


@rule
def n11(case: Case, first: np.ndarray) -> Record:
    """N11, is Adam's first step what the signs of its gradient make it? first: [seed]."""
    mean, low, high = bootstrapped(first)
    between = low > 0 and high < 1
    near = abs(mean - FIRST_STEP) <= case.within
    verdict = HOLDS if near and between else HOLDS_IN_PART if between else FAILS
    note = ""
    if len(first) < case.runs:
        verdict, note = UNDECIDED, f"{case.runs} seeds would decide"
    words = f"{_interval((mean, low, high))}, predicted {FIRST_STEP:.3f} ({len(first)} seeds)"
    effect = size((mean, low, high), "of chance", 1, len(first))
    return Record(verdict, words, {"first step": mean}, note, **effect)


@rule
def n12(case: Case, with_sigma: np.ndarray, without: np.ndarray) -> Record:
    """N12, does detokenization need the scaling? Both: AUROC [head]."""
    away = np.maximum(abs(with_sigma - 0.5), abs(without - 0.5)) >= case.skill
    if not away.any():
        return Record(NOT_SEEN, "no head predicts the token before")
    change = without - with_sigma
    small, top = abs(change) <= case.change, int(abs(with_sigma - 0.5).argmax())
    verdict = HOLDS if small[away].all() else HOLDS_IN_PART if small[top] else FAILS
    largest = float(change[away][abs(change[away]).argmax()])
    words = (
        f"{int((small & away).sum())} of {int(away.sum())} heads within {case.change:g}, at most "
        f"{largest:+.3f}; in head {top} {with_sigma[top]:.3f} and {without[top]:.3f}"
    )
    effect = size(largest, "AUROC", 0, int(away.sum()))
    return Record(verdict, words, {"largest change": largest}, **effect)


@rule
def d8(case: Case, share: np.ndarray, peak: np.ndarray, null: np.ndarray) -> Record:
    """D8, do phases meet at 1? share: [head]; peak: distance of the highest [head]; null: draws."""
    looking = peak == 1
    if not looking.any():
        return Record(NOT_SEEN, "no head's curve is highest at distance 1")
    p = (1 + (null >= share).sum(axis=0)) / (1 + len(null))  # null: [draw head]
    head = int(np.where(looking, p, np.inf).argmin())
    verdict = HOLDS if p[head] <= case.level / len(share) else FAILS
    words = (
        f"{int(looking.sum())} of {len(share)} heads are highest at 1; head {head} reaches "
        f"{share[head]:.0%} of its amplitudes there (chance {null[:, head].mean():.0%}, "
        f"p = {p[head]:.2g})"
    )
    effect = size(share[head], "of the amplitudes", null[:, head].mean(), len(share))
    return Record(verdict, words, {"share": share[head], "p": p[head]}, **effect)


def bootstrapped(values: np.ndarray) -> tuple[float, float, float]:
    """Mean over seeds and its 95 % bootstrap interval; values: [seed]."""
    mean, low, high = bootstrap_means(np.asarray(values, dtype=float)[None], draws=10_000)[0]
    return float(mean), float(low), float(high)


def geometric(values: np.ndarray) -> tuple[float, float, float]:
    """Geometric mean over seeds and its 95 % bootstrap interval; values: [seed], above 0."""
    mean, low, high = np.exp(bootstrapped(np.log(values)))
    return float(mean), float(low), float(high)


def _below(found: pd.DataFrame) -> np.ndarray:
    if found.empty:
        raise ResultError("no matrix that only writes was given.")
    return (found["along"] < found["low"]).to_numpy()


def _record(found: pd.DataFrame, verdict: str, words: str) -> Record:
    along = found["along"]
    mean = float(np.exp(np.log(along).mean()))
    return Record(
        verdict,
        f"{words}; A from {along.min():.2f} to {along.max():.2f}, geometric mean {mean:.2f}",
        {"least": along.min(), "most": along.max(), "geometric mean": mean},
        short=words,
        **size(mean, "A (geometric mean)", 1, len(found)),
    )


def _interval(found: tuple[float, float, float]) -> str:
    return "{:.3f} ({:.3f} to {:.3f})".format(*found)
