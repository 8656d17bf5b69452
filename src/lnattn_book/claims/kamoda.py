"""The rules of Kamoda et al. 2025: a function a claim, from results to a verdict.

Those of section 5, on positions, are in `kamoda_position`, those of section 6 on the variances in
`kamoda_variance`. Arguments are the results as plain arrays; parameters (`case.…`) are those of the
claim's entry in `book/claims.yml`. What algebra guarantees is left out: it cannot fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from lnattn.affinity.table1 import distinct_pairs
from lnattn.attention.terms import TERMS
from lnattn.contribution.study import bootstrapped_means
from lnattn.stats import spearman
from lnattn_book.claims.verdicts import Case, Record, limits, rule, size
from lnattn_book.claims.words import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    by_interval,
    graded,
    listed_words,
)

#: The terms that the paper finds to matter (K10), and those that it does not.
PURE, MIXED = ("ee", "e", "p", "pp"), ("ep", "pe")

#: Folding is exact, by the largest differences over all inputs tried; and the key bias is idle, by
#: the largest change of a weight when either bias grows by 100.
k1 = limits(
    "K1",
    "float64 float32",
    lambda case, got: got.float64 <= case.float64 and got.float32 <= case.float32,
    "largest error {float64:.0e} in float64, {float32:.0e} in float32",
    effect=lambda got: size(got.float64, null=0),
)
k2 = limits(
    "K2",
    "key query",
    lambda case, got: got.key <= case.change < got.query,
    "adding 100 to the key bias moves no weight by more than {key:.0e}; to the query bias, "
    "{query:.2f}",
    effect=lambda got: size(got.key, null=got.query),
)


@rule
def k3(case: Case, table: pd.DataFrame) -> Record:
    """K3, partners complete a word. table: `lnattn.affinity.table1.look_up`."""
    known = distinct_pairs(table)
    if case.own:
        printed = (table["rank here"] == table["rank"]).fillna(False).astype(bool)
        count, n = int(printed.sum()), len(table)
        words = f"{count} of {n} pairs have the printed rank in their head"
        return Record(graded(printed), words, {"as printed": count}, **size(count / n, n=n))
    if len(known) < case.pairs:
        words = f"{len(known)} pairs can be looked up"
        return Record(UNDECIDED, words, note="needs a larger vocabulary")
    ranked = known["best rank"] <= case.rank
    best, chance = (float(known[name].median()) for name in ("best rank", "chance"))
    some = HOLDS_IN_PART if best <= case.chance * chance else NOT_SEEN
    return Record(
        graded(ranked, none=some, some=some),
        f"median best rank {best:,.0f} (chance {chance:,.0f}); "
        f"{int(ranked.sum())} of {len(known)} pairs up to rank {case.rank}",
        {"share ranked": float(ranked.mean()), "median to chance": best / chance},
        "looked up in all heads; the printed ranks are GPT-2's",
        f"{best:,.0f}",
        **size(best, "median rank", chance, len(known)),
    )


@rule
def k4(case: Case, z: np.ndarray) -> Record:
    """K4, two kinds of heads. z: mean same-token z-score of each head."""
    same, other = z > case.same, z < case.other
    verdict = graded(same | other, some=HOLDS_IN_PART)
    if not (same.any() and other.any()):
        verdict = FAILS if same.any() else NOT_SEEN
    return Record(
        verdict,
        f"mean z-scores from {z.min():.1f} to {z.max():.1f}: {same.sum()} above {case.same}, "
        f"{other.sum()} below {case.other}, {(~same & ~other).sum()} between",
        {"highest": z.max(), "lowest": z.min()},
        short=f"{z.max():.1f}",
        **size(z.max(), "standard deviations", 0, len(z)),
    )


@rule
def k5(case: Case, auroc: np.ndarray, wrong_query: np.ndarray, pair_heads: Sequence[int]) -> Record:
    """K5, AUROC finds the detokenization head.

    auroc, wrong_query: means over query tokens [head]; pair_heads: of `table1.pair_heads`, where
    most pairs of Table 1 rank best.
    """
    skill = auroc - wrong_query
    top, knowing = int(auroc.argmax()), int(skill.argmax())
    found = Record(
        NOT_SEEN,
        f"largest mean AUROC: head {top}, {auroc[top]:.3f} (wrong query {wrong_query[top]:.3f}); "
        f"largest skill: head {knowing}, {skill[knowing]:+.3f}",
        {"auroc": auroc[top], "head": top, "skill": skill[knowing], "skilled": knowing},
        short=f"{skill[knowing]:+.3f}",
        **size(skill[knowing], "AUROC", 0, len(skill)),
    )
    if skill[knowing] <= case.skill:
        return found
    if not pair_heads:
        return replace(found, verdict=UNDECIDED, note="needs Table 1's pairs in the vocabulary")
    some = {head: HOLDS_IN_PART if head == knowing else FAILS for head in pair_heads}
    verdicts = {HOLDS if h == top and skill[top] > case.skill else some[h] for h in pair_heads}
    most = listed_words(map(str, pair_heads))
    note = f"most pairs of Table 1 are best in head {most}"
    if len(pair_heads) > 1:
        note = f"heads {most} tie for most pairs of Table 1"
    return replace(found, verdict=verdicts.pop() if len(verdicts) == 1 else UNDECIDED, note=note)


@rule
def k10(case: Case, sums: np.ndarray, rows: np.ndarray) -> Record:
    """K10, ep and pe matter little.

    sums, rows: [document term] in the order of `TERMS`, the sum of contributions over positions,
    averaged over heads, and the number of positions.
    """
    means = dict(zip(TERMS, sums.sum(axis=0) / rows.sum(axis=0), strict=True))
    words = " > ".join(sorted(means, key=means.__getitem__, reverse=True))
    ratio = min(means[t] for t in PURE) / max(means[t] for t in MIXED)
    found = Record(UNDECIDED, words, means, "needs more than one document", f"{ratio:.2f}")
    found = replace(found, **size(ratio, "times", n=len(sums)))
    if len(sums) < 2:
        return found
    drawn = dict(zip(TERMS, bootstrapped_means(sums, rows, case.draws).T, strict=True))
    beaten: dict[str, list[str]] = {}
    open_: dict[str, list[str]] = {}
    for mixed in MIXED:
        ends = {t: np.quantile(drawn[t] - drawn[mixed], (0.025, 0.975)) for t in PURE}
        beaten[mixed] = [term for term, (_, high) in ends.items() if high < 0]
        open_[mixed] = [term for term, (low, high) in ends.items() if low <= 0 <= high]
    beats = [f"{m} exceeds {listed_words(terms)}" for m, terms in beaten.items() if terms]
    unsure = [f"{m} and {listed_words(terms)}" for m, terms in open_.items() if terms]
    verdict = graded((not terms for terms in beaten.values()), none=FAILS)
    if verdict != FAILS and any(open_[mixed] and not beaten[mixed] for mixed in MIXED):
        verdict = UNDECIDED
    if unsure:
        beats.append(f"no order is certain between {', nor between '.join(unsure)}")
        beats += ["more documents would decide"] * (verdict == UNDECIDED)
    return replace(found, verdict=verdict, note="; ".join(beats))


@rule
def k16(case: Case, z: np.ndarray, skill: np.ndarray) -> Record:
    """K16, same-token heads detokenize less. z: mean same-token z-score; skill: as for K5."""
    few = f"{len(z)} heads are few; those of a wider model would decide"
    if len(z) < 4:
        return Record(UNDECIDED, f"{len(z)} heads", note=few)
    found = spearman(z, skill)
    verdict = by_interval(-found.high, -found.low)
    return Record(
        verdict,
        f"ρ = {found} over {found.n} heads",
        {"spearman": found.rho},
        few if verdict == UNDECIDED else "",
        **size((found.rho, found.low, found.high), "ρ", 0, found.n),
    )
