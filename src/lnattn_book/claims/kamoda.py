"""The rules of Kamoda et al. 2025: a function a claim, from results to a verdict.

Those of section 5, on positions, are in `kamoda_position`, those of section 6 on the
variances in `kamoda_variance`.

Arguments are the results as plain arrays, so that a rule can be tried on made-up ones. Parameters
(`case.…`) are those of the claim's entry in `book/claims.yml`. Parts of a claim that algebra
guarantees are left out: they cannot fail, so they say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from lnattn.affinity.table1 import distinct_pairs
from lnattn.attention.terms import TERMS
from lnattn.contribution.study import bootstrapped_means
from lnattn.stats import spearman
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    Case,
    Record,
    listed_words,
    rule,
)

#: The terms that the paper finds to matter (K10), and those that it does not.
PURE, MIXED = ("ee", "e", "p", "pp"), ("ep", "pe")


@rule(
    "Holds if no attention weight and no output differs from the original's by more than "
    "{float64:.0e} in float64 and {float32:.0e} in float32."
)
def k1(case: Case, float64: float, float32: float) -> Record:
    """K1, folding is exact. float64, float32: largest differences over all inputs tried."""
    exact = float64 <= case.float64 and float32 <= case.float32
    return Record(
        HOLDS if exact else FAILS,
        f"largest error {float64:.0e} in float64, {float32:.0e} in float32",
        {"exact": exact},
    )


@rule(
    "Holds if adding 100 to the key bias moves no attention weight by more than {change:.0e} in "
    "float64, while the same done to the query bias moves one by more."
)
def k2(case: Case, key: float, query: float) -> Record:
    """K2, the key bias is idle. key, query: largest change of a weight, bias by bias."""
    idle = key <= case.change < query
    words = f"adding 100 to the key bias moves no weight by more than {key:.0e}"
    return Record(HOLDS if idle else FAILS, f"{words}; to the query bias, {query:.2f}")


@rule(
    "On GPT-2: holds if every pair of Table 1 has its printed rank in its printed head, in part if "
    "some have. On other models, of the table's pairs that are single tokens there, each once: "
    "holds if all have rank {rank} or better in some head; in part if the median of their best "
    "ranks is at most {chance:.0%} of that of random queries for the same keys; else not seen. "
    "Undecided with fewer than {pairs} pairs.",
    measure="median best rank of Table 1's pairs",
)
def k3(case: Case, table: pd.DataFrame) -> Record:
    """K3, partners complete a word. table: `lnattn.affinity.table1.look_up`."""
    known = distinct_pairs(table)
    if case.own:
        printed = (table["rank here"] == table["rank"]).fillna(False).astype(bool)
        verdict = HOLDS if printed.all() else HOLDS_IN_PART if printed.any() else FAILS
        words = f"{int(printed.sum())} of {len(table)} pairs have the printed rank in their head"
        return Record(verdict, words, {"as printed": int(printed.sum())})
    if len(known) < case.pairs:
        return Record(
            UNDECIDED, f"{len(known)} pairs can be looked up", note="needs a larger vocabulary"
        )
    ranked = known["best rank"] <= case.rank
    best, chance = (float(known[name].median()) for name in ("best rank", "chance"))
    verdict = HOLDS if ranked.all() else HOLDS_IN_PART if best <= case.chance * chance else NOT_SEEN
    return Record(
        verdict,
        f"median best rank {best:,.0f} (chance {chance:,.0f}); "
        f"{int(ranked.sum())} of {len(known)} pairs up to rank {case.rank}",
        {"share ranked": float(ranked.mean()), "median to chance": best / chance},
        "looked up in all heads; the printed ranks are GPT-2's",
        f"{best:,.0f}",
    )


@rule(
    "By the mean z-score of a token within its own row of T^ee: holds if every head lies above "
    "{same} or below {other}, with heads on both sides; in part if there are both kinds and heads "
    "between; fails if all heads lie above {same}; else no same-token head is seen.",
    measure="largest same-token z of a head",
)
def k4(case: Case, z: Float[np.ndarray, "head"]) -> Record:
    """K4, two kinds of heads. z: mean same-token z-score of each head."""
    same, other = z > case.same, z < case.other
    if not same.any():
        verdict = NOT_SEEN
    elif not other.any():
        verdict = FAILS
    else:
        verdict = HOLDS if (same | other).all() else HOLDS_IN_PART
    return Record(
        verdict,
        f"mean z-scores from {z.min():.1f} to {z.max():.1f}: {same.sum()} above {case.same}, "
        f"{other.sum()} below {case.other}, {(~same & ~other).sum()} between",
        {"highest": z.max(), "lowest": z.min()},
        short=f"{z.max():.1f}",
    )


@rule(
    "The skill of a head is its mean AUROC minus that of the same head asked with the wrong query. "
    "Holds if the head in which most of Table 1's pairs rank best has the largest mean AUROC and a "
    "skill above {skill}; in part if it has only the largest skill, above {skill}; fails if "
    "another head has both; not seen if no head's skill exceeds {skill}. Undecided where several "
    "heads have most pairs and the verdict hangs on which is taken.",
    measure="largest skill of a head",
)
def k5(
    case: Case,
    auroc: Float[np.ndarray, "head"],
    wrong_query: Float[np.ndarray, "head"],
    pair_heads: Sequence[int],
) -> Record:
    """K5, AUROC finds the detokenization head.

    auroc, wrong_query: means over query tokens; pair_heads: of `table1.pair_heads`, where most
    pairs of Table 1 rank best.
    """
    skill = auroc - wrong_query
    top, knowing = int(auroc.argmax()), int(skill.argmax())
    words = (
        f"largest mean AUROC: head {top}, {auroc[top]:.3f} (wrong query {wrong_query[top]:.3f}); "
        f"largest skill: head {knowing}, {skill[knowing]:+.3f}"
    )
    values = {"auroc": auroc[top], "head": top, "skill": skill[knowing], "skilled": knowing}
    short = f"{skill[knowing]:+.3f}"
    if skill[knowing] <= case.skill:
        return Record(NOT_SEEN, words, values, short=short)
    if not pair_heads:
        return Record(UNDECIDED, words, values, "needs Table 1's pairs in the vocabulary", short)
    verdicts = {
        HOLDS
        if head == top and skill[top] > case.skill
        else (HOLDS_IN_PART if head == knowing else FAILS)
        for head in pair_heads
    }
    verdict = verdicts.pop() if len(verdicts) == 1 else UNDECIDED
    most = listed_words([str(head) for head in pair_heads])
    note = f"most pairs of Table 1 are best in head {most}"
    if len(pair_heads) > 1:
        note = f"heads {most} tie for most pairs of Table 1"
    return Record(verdict, words, values, note, short)


@rule(
    "Mean contributions are compared with 95 % intervals, documents drawn anew in pairs {draws} "
    "times. Holds if each of ee, e, p and pp exceeds ep and pe; in part if only one of ep and pe "
    "lies below all four; fails if each of the two exceeds one of the four; undecided while an "
    "interval that matters holds 0.",
    measure="weakest of ee, e, p, pp over strongest of ep, pe",
)
def k10(
    case: Case,
    sums: Float[np.ndarray, "document term"],
    rows: Float[np.ndarray, "document term"],
) -> Record:
    """K10, ep and pe matter little.

    sums, rows: for each document and term (in the order of `TERMS`) the sum of contributions over
    positions, averaged over heads, and the number of positions.
    """
    means = dict(zip(TERMS, sums.sum(axis=0) / rows.sum(axis=0), strict=True))
    order = sorted(means, key=means.__getitem__, reverse=True)
    words, values = " > ".join(order), {term: float(mean) for term, mean in means.items()}
    weakest, strongest = min(means[t] for t in PURE), max(means[t] for t in MIXED)
    short = f"{weakest / strongest:.2f}"
    if len(sums) < 2:
        return Record(UNDECIDED, words, values, "needs more than one document", short)
    drawn = dict(zip(TERMS, bootstrapped_means(sums, rows, case.draws).T, strict=True))
    beaten: dict[str, list[str]] = {}
    open_: dict[str, list[str]] = {}
    for mixed in MIXED:
        ends = {t: np.quantile(drawn[t] - drawn[mixed], (0.025, 0.975)) for t in PURE}
        beaten[mixed] = [term for term, (_, high) in ends.items() if high < 0]
        open_[mixed] = [term for term, (low, high) in ends.items() if low <= 0 <= high]
    verdict = _by_mixed_terms(beaten, open_)
    found = [f"{m} exceeds {listed_words(terms)}" for m, terms in beaten.items() if terms]
    unsure = [f"{m} and {listed_words(terms)}" for m, terms in open_.items() if terms]
    if unsure:
        found.append(f"no order is certain between {', nor between '.join(unsure)}")
        if verdict == UNDECIDED:
            found.append("more documents would decide")
    return Record(verdict, words, values, "; ".join(found), short)


def _by_mixed_terms(beaten: dict[str, list[str]], open_: dict[str, list[str]]) -> str:
    """The verdict from which terms each mixed one certainly exceeds, or perhaps."""
    lost = [bool(terms) for terms in beaten.values()]
    unsure = [bool(open_[mixed]) and not beaten[mixed] for mixed in beaten]
    if all(lost):
        return FAILS
    if any(unsure):
        return UNDECIDED
    return HOLDS_IN_PART if any(lost) else HOLDS


@rule(
    "By Spearman's ρ over heads of the mean same-token z-score with the head's skill (see K5): "
    "holds if its 95 % interval lies below 0; fails if it lies above 0; else undecided."
)
def k16(case: Case, z: Float[np.ndarray, "head"], skill: Float[np.ndarray, "head"]) -> Record:
    """K16, same-token heads detokenize less. z: mean same-token z-score; skill: as for K5."""
    few = f"{len(z)} heads are few; those of a wider model would decide"
    if len(z) < 4:
        return Record(UNDECIDED, f"{len(z)} heads", note=few)
    found = spearman(z, skill)
    verdict = HOLDS if found.high < 0 else FAILS if found.low > 0 else UNDECIDED
    return Record(
        verdict,
        f"ρ = {found} over {found.n} heads",
        {"spearman": found.rho},
        few if verdict == UNDECIDED else "",
    )
