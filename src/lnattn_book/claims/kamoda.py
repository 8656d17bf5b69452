"""What the claims of Kamoda et al. 2025 are judged by: from results to measures.

Arguments are results as plain arrays. What must hold of the measures is in `book/claims.yml`; what
algebra guarantees is left out, since it cannot fail. A claim without a function takes its results
as they are, by the names that `judged: takes` gives them there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from lnattn.affinity.table1 import distinct_pairs
from lnattn.attention.terms import TERMS
from lnattn.stats import Correlation, resampled_ratios, spearman
from lnattn_book.claims.rules import Case, rule, stated, truths
from lnattn_book.claims.verdicts import Between, listed_words

#: What is missing where only position embeddings and attention weights of a model are known.
TOKENS = "the token embeddings, which σ depends on"
#: The terms that the paper finds to matter (K10), and those that it does not.
PURE, MIXED = ("ee", "e", "p", "pp"), ("ep", "pe")

k1, k2, k6, k13, k14 = map(stated, ("K1", "K2", "K6", "K13", "K14"))
k15, k18, k21, k22, f1 = map(stated, ("K15", "K18", "K21", "K22", "F1"))


@rule
def k3(case: Case, table: pd.DataFrame, iens: Sequence[int] = ()) -> dict[str, Any]:
    """table: `lnattn.affinity.table1.look_up`; iens: ranks of ‘ sap’ and ‘Al’ for ‘iens’, if known.

    Elsewhere than in GPT-2 the printed ranks mean nothing: pairs are looked up in all heads.
    """
    known = distinct_pairs(table)
    best, chance = (known[name].to_numpy(dtype=float) for name in ("best rank", "chance"))
    found: dict[str, Any] = {"pairs": len(known), "median": np.nan, "chance": np.nan}
    less, met = Between(np.nan, np.nan, np.nan), best <= case.rank
    if len(known):
        found |= {"median": Between.median(best), "chance": np.median(chance)}
        picks = np.random.default_rng(0).integers(len(known), size=(2000, len(known)))
        drawn = np.median(best[picks], axis=1) / np.median(chance[picks], axis=1)
        ends = np.quantile(drawn, (0.025, 0.975))
        less = Between(found["median"].value / found["chance"], *ends)
    top = np.full(2, np.nan)
    if case.own:
        met = (table["rank here"] == table["rank"]).fillna(False).to_numpy(dtype=bool)
        less = Between.of(1.0 - met.any())
        top = np.sort(iens) <= [1, 2] if len(iens) else top
    return {**found, "met": met, "less": less, "top": top}


@rule
def k4(case: Case, z: Float[np.ndarray, "head 3"]) -> dict[str, Any]:
    """z: same-token z-score of each head, its mean over tokens with the ends of the interval."""
    found = {"z": Between.rows(z)}
    same, other = truths(f"z > {case.same}", found), truths(f"z < {case.other}", found)
    one_kind, both = np.maximum(same, other), min(same.max(), other.max())
    apart = {"both": both, "parted": min(both, one_kind.min())}
    return {**found, **apart, "between": int((one_kind < 1).sum())}


@rule
def k5(
    case: Case,
    auroc: Float[np.ndarray, "head"],
    skill: Float[np.ndarray, "head 3"],
    pair_heads: Sequence[int],
) -> dict[str, Any]:
    """auroc: means over query tokens; skill: mean, low, high; pair_heads: `table1.pair_heads`.

    Several heads that tie for most pairs are all asked.
    """
    family = Between.rows(skill).family()
    sure = truths(f"skill > {case.skill}", {"skill": family})
    knowing, top = int(family.value.argmax()), int(auroc.argmax())
    found: dict[str, Any] = {"knows": 0.5, "leads": 0.5, "absent": not sure.any()}
    for name, best in (("knows", knowing), ("leads", top)):
        if found["absent"]:
            found[name] = 0.0
        elif pair_heads and sure.max() == 1:
            ends = {min(float(head == best), sure[head]) for head in pair_heads}
            found[name] = ends.pop() if len(ends) == 1 else 0.5
    pairs = f"head {listed_words(map(str, pair_heads))}" if pair_heads else "no head"
    shown = {"head_by_skill": f"{knowing}", "head_by_auroc": f"{top}", "pairs": pairs}
    largest = Between(*(end[knowing] for end in family))
    return {**found, **shown, "skill": largest, "auroc": auroc[top], "heads": len(auroc)}


@rule
def k7(case: Case, table: pd.DataFrame) -> dict[str, Any]:
    """table: `lnattn.position.curves.position_table`, one row a head."""
    columns = {"cycles": "T^pp cycles", "wave": "T^pp wave share", "near": "near T^pp percentile"}
    return {name: table[column].to_numpy(dtype=float) for name, column in columns.items()}


@rule
def k8(case: Case, near_share: np.ndarray, echo: np.ndarray) -> dict[str, Any]:
    """near_share, echo: [head], or [case head] for several assumptions about σ; `wave_recurrence`.

    Where no key is a wavelength away there is no wave to hide, and the echo is 0.
    """
    hidden = Between(*(np.where(one == 0, np.nan, one) for one in Between.of(echo)))
    return {"share": near_share, "echo": hidden}


@rule
def k9(case: Case, table: pd.DataFrame) -> dict[str, Any]:
    """table: `lnattn.position.measured.beside_position` with the skill of single texts."""

    def sure(mean: pd.Series, what: str) -> Between:
        half = 1.96 * table[f"{what}, error"].fillna(np.inf)  # of one text it is not known
        return Between(mean, mean - half, mean + half).family()

    itself, alone = (table[f"itself, {how}"] for how in ("measured", "by position"))
    found = {"skill": sure(table["skill, one text"], "skill"), "itself": sure(itself, "itself")}
    return {**found, "above": sure(itself - alone, "itself")}


@rule
def k10(case: Case, sums: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """sums, rows: [document term] in the order of `TERMS`, the sum of contributions over positions,
    averaged over heads, and the number of positions."""
    means = dict(zip(TERMS, sums.sum(axis=0) / rows.sum(axis=0), strict=True))
    found: dict[str, Any] = {f"T_{term}": mean for term, mean in means.items()}
    pure = [TERMS.index(term) for term in PURE]
    for name in MIXED:
        more = sums[:, pure] - sums[:, [TERMS.index(name)]]
        found[f"above_{name}"] = Between.resampled(more, rows[:, pure], case.draws)
    found["order"] = " > ".join(sorted(means, key=means.__getitem__, reverse=True))
    mixed, drawn = [TERMS.index(term) for term in MIXED], resampled_ratios(sums, rows, case.draws)
    ends = np.quantile(drawn[:, pure].min(axis=1) / drawn[:, mixed].max(axis=1), (0.025, 0.975))
    found["ratio"] = Between(min(means[t] for t in PURE) / max(means[t] for t in MIXED), *ends)
    return found | {"documents": len(sums)}


@rule
def k11(case: Case, correlations: Sequence[Correlation], tokens: int) -> dict[str, Any]:
    """correlations: of T^e with the count, one a head; tokens: how many were counted."""
    return {"rho": _sizes(correlations), "tokens": tokens}


#: K17 takes what K11 does.
k17 = stated("K17", k11.measure)


def _sizes(correlations: Sequence[Correlation]) -> Between:
    """|ρ| of each head, with intervals that hold for all of them together."""
    rows = np.array([(one.rho, one.low, one.high) for one in correlations])
    value, *ends = np.abs(rows).T
    low = np.where(rows[:, 1] * rows[:, 2] <= 0, 0.0, np.minimum(*ends))
    return Between(value, low, np.maximum(*ends)).family()


@rule
def k12(case: Case, correlation: Correlation, ratio: float, tokens: int) -> dict[str, Any]:
    """ratio: mean Var(e) over mean |Cov(e, p)|; tokens: how many were counted."""
    return {"rho": correlation, "ratio": ratio, "tokens": tokens, "n": correlation.n}


@rule
def k16(case: Case, z: np.ndarray, skill: np.ndarray) -> dict[str, Any]:
    """z: mean same-token z-score; skill: as for K5; both [head]."""
    rho = spearman(z, skill) if len(z) > 3 else Between(np.nan, -1.0, 1.0)
    return {"rho": rho, "heads": len(z)}


@rule
def k19(case: Case, norm: Correlation, others: Sequence[Correlation]) -> dict[str, Any]:
    """Correlations with information gain, of the norm and of T^e in each head."""
    return {"elsewhere": _sizes(others), "norm": abs(norm.rho)}


@rule
def k20(case: Case, attention: Float[np.ndarray, "text head query"]) -> dict[str, Any]:
    """attention: on position 0 of queries 1, 2, …; how it fades from the first quarter of them to
    the last, beyond what even attention, 1 over the number of keys, does."""
    even = attention * (np.arange(attention.shape[-1]) + 2)
    quarter = max(attention.shape[-1] // 4, 1)
    ends = even[..., -quarter:].sum(axis=-1), even[..., :quarter].sum(axis=-1)
    return {"left": Between.resampled(*ends).family()}
