"""What the book's own claims on what is used (chapter 08) are judged by.

They were written, with their parameters, before any of their models was run without a part of its
scores; what was changed since is in `book/claims.yml`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn.ablation.study import CLASSES, Ablations, interval
from lnattn_book.claims.rules import Case, rule
from lnattn_book.claims.verdicts import NOT_COMPUTABLE, Between, Record
from lnattn_book.joining import Joining
from lnattn_book.language_models import mean_and_interval


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
    whole = Between(*mean_and_interval(every["value"].to_numpy()))
    lost = 1.0 if whole.low > 0 else 0.0 if whole.high < case.nats else 0.5
    much = whole.value >= case.nats and bool((alone["low"] > 0).all())
    shown = {"whole": whole, "alone": alone["value"].to_numpy(), "seeds": seeds}
    return {**shown, "lost": lost, "much": float(much) if lost == 1 else lost}
