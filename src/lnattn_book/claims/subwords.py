"""The rules of the book's own claims on sub-words (chapter 06): from results to verdicts.

No paper states these. `book/claims.yml`, which has their parameters, says what was known when they
were written.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import spearmanr

from lnattn.affinity.query_classes import CLASSES, KEYS, MEASURES, ClassAuroc
from lnattn.affinity.subwords import PieceRule, Subwords, TokenClasses
from lnattn_book.claims.listed import claim
from lnattn_book.claims.verdicts import Case, Record, rule, size
from lnattn_book.claims.words import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    graded,
    heads_where,
)

#: Stands for a piece's best head in the column 'head' of a table of looks.
_BEST = -1


def piece_rule(classes: TokenClasses) -> PieceRule:
    """Which pieces are asked about in a vocabulary of this kind, as claim S1 says."""
    given = claim("S1").rule or {}
    least, share = given["wordpiece" if classes.wordpiece else "byte_level"]
    return PieceRule(int(least), float(share))


def fewest_pieces() -> int:
    """With fewer pieces than these claim S1 cannot be computed."""
    return int((claim("S1").rule or {})["pieces"])


@rule
def s1(case: Case, found: Subwords) -> Record:
    """S1, pieces find their predecessors."""
    n = len(found.pieces)
    if n < case.pieces:
        return Record(NOT_COMPUTABLE, f"{n} {'piece fits' if n == 1 else 'pieces fit'} the rule")
    best = found.table(case.rank).loc["best"]
    share, chance = float(best["found"]), float(best["chance"])
    sure = best["low"] > best["chance high"] and share >= case.times * chance
    verdict = HOLDS if sure else HOLDS_IN_PART if share > best["chance high"] else NOT_SEEN
    heads = found.heads_of(case.rank)
    return Record(
        verdict,
        f"{share:.1%} of {n} pieces up to rank {case.rank} (chance {chance:.1%}), most of them in "
        f"head {int(heads.argmax())}",
        {"share": share, "chance": chance, "pieces": n},
        short=f"{share:.0%} (chance {chance:.0%})",
        **size((share, best["low"], best["high"]), "of the pieces", chance, n),
    )


@rule
def s2(case: Case, found: ClassAuroc) -> Record:
    """S2, heads know more about continuation pieces than about words."""
    piece, word = (found.query_specific_auroc(name) for name in CLASSES)
    above, below = piece[:, 1] > word[:, 2], piece[:, 2] < word[:, 1]
    count, heads = int(above.sum()), len(above)
    verdict = HOLDS if 2 * count > heads else HOLDS_IN_PART if count >= case.heads else FAILS
    top = int(piece[:, 0].argmax())
    words = f"above in {count} of {heads} heads"
    if count:
        words += f" (head {heads_where(above)})"
    return Record(
        verdict,
        f"{words}, below in {int(below.sum())}; most in head {top}: {piece[top, 0]:+.3f} for "
        f"continuation, {word[top, 0]:+.3f} for words",
        {"above": count, "below": int(below.sum()), "most": piece[top, 0]},
        **size(piece[top], "AUROC (best head)", word[top, 0], heads),
    )


@rule
def s3(case: Case, found: ClassAuroc) -> Record:
    """S3, frequency alone beats every head."""
    highest = found.heads[:, KEYS.index("all keys"), MEASURES.index("auroc"), :, 2]
    frequency = found.frequency[:, KEYS.index("all keys"), 0]
    beaten = highest.max(axis=1) < frequency
    words = [
        f"{name} queries: {frequency[i]:.3f}, best head up to {highest[i].max():.3f}"
        for i, name in enumerate(CLASSES)
    ]
    return Record(
        graded(beaten),
        "; ".join(words),
        {f"{name} frequency": frequency[i] for i, name in enumerate(CLASSES)},
        **size(frequency.min(), "AUROC", highest[frequency.argmin()].max()),
    )


@rule
def s4(case: Case, looks: pd.DataFrame) -> Record:
    """S4, pairs come early and a positional head displaces them. looks: one table, by step."""
    best = looks[looks["head"] == _BEST].sort_values("step")
    heads = looks[looks["head"] != _BEST]
    previous = heads.pivot_table(index="step", columns="head", values="previous").sort_index()
    tokens, excess = best["tokens"].to_numpy(), (best["found"] - best["chance"]).to_numpy()
    above = (best["found"] > best["chance high"]).to_numpy()
    early = int(np.where(above, excess, -np.inf).argmax())
    top = int(previous.iloc[-1].argmax())
    then, end = float(previous.iloc[early, top]), float(previous.iloc[-1, top])
    words = (
        f"largest excess {excess[early]:+.1%} after {tokens[early] / 1e6:,.1f} million tokens, "
        f"{excess[-1]:+.1%} after {tokens[-1] / 1e6:,.1f}; head {top} by position on the previous "
        f"token: {then:.2f}, then {end:.2f}"
    )
    values = {"peak": excess[early], "end": excess[-1], "previous": end, "previous at peak": then}
    left = excess[-1] / excess[early] if above[early] else np.nan
    effect = size(left, "of the largest excess is left", 1)
    if tokens[-1] < case.tokens:
        return Record(UNDECIDED, words, values, "a longer run would decide", **effect)
    if not above[early] or early == len(best) - 1:
        return Record(NOT_SEEN, words, values, **effect)
    displaced = bool(excess[-1] < case.left * excess[early])
    by_position = end >= case.previous and then < case.before * end
    verdict = (FAILS, HOLDS_IN_PART, HOLDS)[displaced + by_position]
    return Record(verdict, words, values, **effect)


@rule
def s5(
    case: Case,
    previous: Float[np.ndarray, "case head"],
    itself: Float[np.ndarray, "case head"],
    cells: pd.DataFrame,
) -> Record:
    """S5, where positions cannot be sharp, content must choose.

    previous, itself: GPT-2's attention by position on i−1 and on i, for several assumptions about
    σ, which needs the tokens; cells: tables of looks of the grid, with columns context, layers,
    heads, positions.
    """
    blunt = bool((previous <= itself).all() and (previous <= case.previous).all())
    words = f"GPT-2: at most {previous.max():.2f} on the previous token by position"
    sharper = np.any(previous > itself, axis=0)
    if sharper.any():
        words += f", more than on itself in head {heads_where(sharper)}"
    pairs = _of_cells(cells, case.tokens)
    if len(pairs) < case.cells:
        return Record(
            UNDECIDED,
            words,
            {"largest": previous.max()},
            f"{len(pairs)} models of the grid are there; {case.cells} would decide",
        )
    found = spearmanr(pairs["previous"], pairs["excess"])
    falls = bool(found.statistic < case.rho and found.pvalue < case.p)
    return Record(
        (FAILS, HOLDS_IN_PART, HOLDS)[blunt + falls],
        f"{words}; over {len(pairs)} models ρ = {found.statistic:.2f} (p = {found.pvalue:.3f})",
        {"largest": previous.max(), "rho": float(found.statistic)},
        **size(found.statistic, "ρ", 0, len(pairs)),
    )


@rule
def s6(case: Case, cells: pd.DataFrame) -> Record:
    """S6, more heads keep both. cells: tables of looks of the grid, as for `s5`."""
    pairs = _of_cells(cells, case.tokens)
    shown = []
    for _, same in pairs.groupby(["context", "layers", "positions"]):
        few, many = same[same["heads"] == 8], same[same["heads"] == 16]
        if len(few) == len(many) == 1:
            keeps = many["previous"].item() >= case.previous
            shown.append(keeps and many["excess"].item() > few["excess"].item())
    if len(shown) < case.pairs:
        return Record(
            UNDECIDED,
            f"{len(shown)} of the {case.pairs} pairs that it takes",
            note="train more models of the grid",
        )
    share = float(np.mean(shown))
    verdict = HOLDS if share == 1 else HOLDS_IN_PART if share >= 0.5 else FAILS
    effect = size(share, "of the pairs", n=len(shown))
    return Record(verdict, f"{sum(shown)} of {len(shown)} pairs", {"share": share}, **effect)


def _of_cells(cells: pd.DataFrame, tokens: float) -> pd.DataFrame:
    """One row a model of the grid: its shape, excess, and largest attention on i−1 by position.

    Of each the look after so many tokens of training; a model that has not come so far has none.
    """
    shape = ["context", "layers", "heads", "positions"]
    cells = cells[cells["tokens"] == tokens]
    best = cells[cells["head"] == _BEST].set_index(shape)
    largest = cells[cells["head"] != _BEST].groupby(shape)["previous"].max()
    excess = best["found"] - best["chance"]
    return pd.DataFrame({"excess": excess, "previous": largest}).reset_index()
