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
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    Case,
    Record,
    heads_where,
    rule,
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


@rule(
    "Pieces that continue a word, seen at least {wordpiece[0]} times ('##' pieces) or "
    "{byte_level[0]} times (byte-level), whose most frequent predecessor makes up at least "
    "{wordpiece[1]:.0%} or {byte_level[1]:.0%} of what stands before them. Chance: the pieces "
    "change places. Holds if the share with that predecessor within rank {rank} of the best head "
    "is {times} times mean chance or more and its 95 % interval lies above the band of chance; in "
    "part if the share does; else not seen. Not computable with fewer than {pieces} pieces."
)
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
    )


@rule(
    "For each head, AUROC among the keys of the right class minus that of a wrong query of the "
    "same class. Holds if the 95 % interval of continuation queries lies above that of word "
    "queries in more than half of the heads; in part if in {heads} or more; else fails."
)
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
    )


@rule(
    "Keys are ranked by how frequent they are, with no model. Holds if the mean AUROC of that lies "
    "above the 95 % interval of every head, for continuation and for word queries; in part if for "
    "one of the two; else fails."
)
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
        HOLDS if beaten.all() else HOLDS_IN_PART if beaten.any() else FAILS,
        "; ".join(words),
        {f"{name} frequency": frequency[i] for i, name in enumerate(CLASSES)},
    )


@rule(
    "Excess: the share of S1 minus mean chance, at log-spaced checkpoints. Holds if (1) a "
    "checkpoint before the last has the largest excess, above the band of chance, (2) the last "
    "excess is less than {left:.0%} of it, and (3) by position alone some head puts {previous} or "
    "more of its attention on the previous token at the end, and less than {before:.0%} of that at "
    "the checkpoint of (1). In part: (1) and one of the others; fails: (1) alone; not seen if no "
    "checkpoint is above chance, or the last has the largest excess. Undecided for a run of fewer "
    "than {tokens:,.0f} tokens."
)
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
    if tokens[-1] < case.tokens:
        return Record(UNDECIDED, words, values, "a longer run would decide")
    if not above[early] or early == len(best) - 1:
        return Record(NOT_SEEN, words, values)
    displaced = bool(excess[-1] < case.left * excess[early])
    by_position = end >= case.previous and then < case.before * end
    return Record((FAILS, HOLDS_IN_PART, HOLDS)[displaced + by_position], words, values)


@rule(
    "Two parts. (1) Real GPT-2, from positions and weights, whatever σ is assumed: by position no "
    "head puts more attention on the previous token than on the query's own, and none more than "
    "{previous}. (2) Over the models of the grid, with learned or rotary positions, each after "
    "{tokens:,.0f} tokens of training, Spearman's ρ of the largest attention on the previous token "
    "by position (rotary: by distance) with the excess of S4 is below {rho} with p < {p}. Holds if "
    "both, in part if one, fails if neither; undecided with fewer than {cells} models in the grid."
)
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
    )


@rule(
    "For every pair of models of the grid that differ in having 8 or 16 heads only, each after "
    "{tokens:,.0f} tokens of training: the one with 16 has the larger excess (S4), and a head with "
    "{previous} or more on the previous token by position alone. Holds if all pairs show it, in "
    "part if half or more do, else fails; undecided with fewer than {pairs} pairs."
)
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
    return Record(
        HOLDS if share == 1 else HOLDS_IN_PART if share >= 0.5 else FAILS,
        f"{sum(shown)} of {len(shown)} pairs",
        {"share": share},
    )


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
