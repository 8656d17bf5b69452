"""What the book's own claims on sub-words (chapter 06) are judged by. No paper states these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lnattn.affinity.subwords import PieceRule, Subwords, TokenClasses
from lnattn_book.claims.listed import claim
from lnattn_book.claims.rules import Case, rule
from lnattn_book.claims.verdicts import NOT_COMPUTABLE, Between, Record

#: Stands for a piece's best head in the column 'head' of a table of looks.
_BEST = -1


def piece_rule(classes: TokenClasses) -> PieceRule:
    """Which pieces are asked about in a vocabulary of this kind, as claim S1 says."""
    given = claim("S1").rule
    least, share = given["wordpiece" if classes.wordpiece else "byte_level"]
    return PieceRule(int(least), float(share))


def fewest_pieces() -> int:
    """With fewer pieces than these claim S1 cannot be computed."""
    return int(claim("S1").rule["pieces"])


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
def s4(case: Case, looks: pd.DataFrame) -> dict[str, Any]:
    """looks: one table of looks, by step. 'then' is the look with the largest excess."""
    best = looks[looks["head"] == _BEST].sort_values("step")
    heads = looks[looks["head"] != _BEST]
    previous = heads.pivot_table(index="step", columns="head", values="previous").sort_index()
    excess = (best["found"] - best["chance"]).to_numpy()
    above = (best["found"] > best["chance high"]).to_numpy()
    early = int(np.where(above, excess, -np.inf).argmax())
    top = int(previous.iloc[-1].argmax())
    then, end = float(previous.iloc[early, top]), float(previous.iloc[-1, top])
    first = bool(above[early] and early < len(best) - 1)
    return {
        "early": first,
        "peak": excess[early],
        "left": excess[-1] / excess[early] if first else np.inf,
        "end": end,
        "grown": then / end if first else np.inf,
        "tokens": float(best["tokens"].iloc[-1]),
        "absent": not first,
    }
