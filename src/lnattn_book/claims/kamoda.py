"""The rules of Kamoda et al. 2025 and of the note before it: a function a claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from lnattn.attention.terms import TERMS
from lnattn.position.curves import straight_after
from lnattn.stats import Correlation, resampled_ratios, spearman
from lnattn_book.claims.conditions import (
    above,
    any_of,
    at_least,
    at_least_n,
    at_most,
    below,
    equal,
    every,
    is_true,
)
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.measures import Detail, Measures
from lnattn_book.claims.nulls import (
    EMBEDDINGS_IN_RANDOM_ORDER,
    HEADS_IN_RANDOM_ORDER,
    NullModel,
)
from lnattn_book.claims.rules import OF_THE_NULL, At, Decision, Effect, Parts, Rule, rule
from lnattn_book.claims.verdicts import listed_words
from lnattn_book.studies.table1 import distinct_pairs

#: What is missing where only position embeddings and attention weights of a model are known.
TOKENS = "the token embeddings, which σ depends on"
#: The terms that the paper finds to matter, and those that it does not (K10).
PURE, MIXED = ("ee", "e", "p", "pp"), ("ep", "pe")

# ---- Identities: what only a mistake can break ---------------------------------------------------

k1 = Rule(
    "K1",
    lambda m, at: at_most(m.float64, at.float64) & at_most(m.float32, at.float32),
    effect=Effect("float64", null=0),
)
k2 = Rule(
    "K2",
    lambda m, at: at_most(m.key, at.change) & above(m.query, at.change),
    effect=Effect("key", null="query"),
)
k18 = Rule(
    "K18",
    lambda m, at: below(m.left, at.left),
    effect=Effect("left", unit="of the spread is left", null=1, n="tokens"),
)
# left, of_named: largest entry of b′^Q without b^Q, of a model with LayerNorm and of one without
# biases that has an RMSNorm, as those have which the paper names.
k22 = Rule(
    "K22",
    lambda m, at: {
        "none in models like those named": at_most(m.of_named, at.left),
        "by the missing biases alone": at_most(m.left, at.left),
    },
    effect=Effect("left", null=0),
)
f1 = Rule(
    "F1",
    lambda m, at: {
        "the same outputs": at_most(m.error, at.error),
        "maps of a head are d × d": equal(m.rows, m.columns),
    },
    effect=Effect("error", null=0),
)

# ---- Tokens with tokens --------------------------------------------------------------------------


def best_ranks(
    at: At,
    table: pd.DataFrame,
    iens: Sequence[int] = (),
    by_chance: Int[np.ndarray, "draw pair"] | None = None,
) -> dict[str, Any]:
    """table: from `table1.table1_ranks`; iens: ranks of ‘ sap’ and ‘Al’ for ‘iens’, if known;
    by_chance: `table1.ranks_by_chance`.

    Elsewhere than in GPT-2 the printed ranks mean nothing: pairs are looked up in all heads.
    """
    known = distinct_pairs(table)
    best = known["best rank"].to_numpy(dtype=float)
    chance = known["chance"].to_numpy(dtype=float)
    printed = (table["rank here"] == table["rank"]).fillna(False).to_numpy(dtype=bool)
    measures: dict[str, Any] = {
        "pairs": len(known),
        "median": np.nan,
        "chance": np.nan,
        "best": Detail(best),
        "printed": Detail(printed),
        "known": Detail(known),
        "by_chance": Detail(by_chance),
        "less": Interval(np.nan, np.nan, np.nan),
        "first_two": np.sort(iens) <= [1, 2] if at.own and len(iens) else np.full(2, np.nan),
    }
    if len(known):
        measures |= {"median": Interval.bootstrap_median(best), "chance": np.median(chance)}
        measures["less"] = share_of_chance(known)
    return measures


def share_of_chance(known: pd.DataFrame) -> Interval:
    """Median best rank over that of random queries, with its interval over query tokens."""
    medians = known[["best rank", "chance"]].median()
    low, high = np.quantile(ratios_by_query(known), (0.025, 0.975))
    return Interval(float(medians["best rank"] / medians["chance"]), low, high)


def ratios_by_query(known: pd.DataFrame, draws: int = 2000) -> Float[np.ndarray, "draw"]:
    """Median best rank over that of random queries, when query tokens are drawn anew.

    Pairs share their queries, so that a query is drawn with all of its pairs.
    """
    ranks = [
        query[["best rank", "chance"]].to_numpy(dtype=float)
        for _, query in known.groupby("query id")
    ]
    picks = np.random.default_rng(0).integers(len(ranks), size=(draws, len(ranks)))
    medians = [
        np.median(np.concatenate([ranks[query] for query in pick]), axis=0) for pick in picks
    ]
    best, chance = np.array(medians).T
    return np.asarray(best / chance)


def random_queries(m: Measures, generator: np.random.Generator) -> dict[str, Any] | None:
    """What a random query in the place of each gives for the keys of the pairs."""
    if m.by_chance is None or not len(m.known):
        return None
    best = m.by_chance[int(generator.integers(len(m.by_chance)))]
    return {
        "best": best,
        "printed": np.zeros_like(m.printed),
        "less": share_of_chance(m.known.assign(**{"best rank": best})),
        "first_two": m.first_two * 0.0,
    }


@rule(
    "K3",
    measure=best_ranks,
    effect=Effect("median", unit="median best rank", null="chance", n="pairs"),
    null=NullModel("random queries for the same keys", random_queries, draws=50),
    not_seen=True,
)
def k3(m: Measures, at: At) -> Decision:
    """The best keys of a token complete it to a word."""
    matches = m.printed if at.own else m.best <= at.rank
    less = Interval.of(1.0 - matches.any()) if at.own else m.less
    return Decision(
        {
            "every pair": is_true(matches),
            "pairs beyond chance": at_most(less, at.chance),
            "‘iens’ finds ‘ sap’ and ‘Al’ first": is_true(m.first_two),
        },
        needs={"a larger vocabulary": at_least(m.pairs, at.pairs)},
        met=matches,
        less=less,
        top=m.first_two,
    )


def means_of_z(at: At, z: Float[np.ndarray, "head 3"]) -> dict[str, Any]:
    """z: same-token z-score of each head, its mean over tokens with the ends of the interval."""
    return {"z": Interval.rows(z)}


@rule(
    "K4",
    measure=means_of_z,
    effect=Effect("z", unit="standard deviations", null=0, pick="largest"),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k4(m: Measures, at: At) -> Decision:
    """Same-token heads and others: two kinds of heads."""
    same = above(m.z, at.same)
    other = below(m.z, at.other)
    both = min(same.values.max(), other.values.max())
    one_kind = (same | other).values
    apart = min(both, one_kind.min())
    return Decision(
        {"a same-token head, and one without": is_true(both), "no head between": is_true(apart)},
        both=both,
        parted=apart,
        between=int((one_kind < 1).sum()),
    )


def skill_of_heads(
    at: At,
    auroc: Float[np.ndarray, "head"],
    skill: Float[np.ndarray, "head 3"],
    pair_heads: Sequence[int],
) -> dict[str, Any]:
    """auroc: means over query tokens; skill: mean, low, high; pair_heads: `table1.pair_heads`.

    Several heads that tie for most pairs are all asked.
    """
    skills = Interval.rows(skill).bonferroni()
    by_skill = int(skills.value.argmax())
    by_auroc = int(auroc.argmax())
    return {
        "skills": Detail(skills),
        "head_by_skill": Detail(by_skill),
        "head_by_auroc": Detail(by_auroc),
        "pair_heads": Detail(list(pair_heads)),
        "pairs": f"head {listed_words(map(str, pair_heads))}" if pair_heads else "no head",
        "skill": Interval(*(end[by_skill] for end in skills)),
        "auroc": auroc[by_auroc],
        "heads": len(auroc),
    }


@rule(
    "K5",
    measure=skill_of_heads,
    effect=Effect("skill", unit="AUROC", null=0, n="heads"),
    null=NullModel("the same heads: a wrong query against wrong queries"),
)
def k5(m: Measures, at: At) -> Decision:
    """AUROC against bigrams is largest for the detokenization head."""
    sure = above(m.skills, at.skill).values

    def is_pairs_head(best: int) -> float:
        """Whether this is the head of most pairs, as far as every head that ties says the same."""
        if not sure.any():
            return 0.0
        if sure.max() < 1:
            return 0.5
        answers = {min(float(head == best), sure[head]) for head in m.pair_heads}
        return answers.pop() if len(answers) == 1 else 0.5

    # Of a null model that was frozen they are numbers as any other.
    leads = is_pairs_head(int(Interval.of(m.head_by_auroc).value))
    knows = is_pairs_head(int(Interval.of(m.head_by_skill).value))
    return Decision(
        {"it has the largest AUROC": is_true(leads), "it has the largest skill": is_true(knows)},
        not_seen=not sure.any(),
        knows=knows,
        leads=leads,
    )


def over_heads(at: At, z: np.ndarray, skill: np.ndarray) -> dict[str, Any]:
    """z: mean same-token z-score; skill: as for K5; both [head]."""
    rho = spearman(z, skill) if len(z) > 3 else Interval(np.nan, -1.0, 1.0)
    return {"rho": rho, "heads": len(z)}


def heads_permuted(
    generator: np.random.Generator, z: np.ndarray, skill: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The skill of a head beside the z-score of another."""
    return z, generator.permutation(skill)


@rule(
    "K16",
    measure=over_heads,
    effect=Effect("rho", unit="ρ", null=0, n="heads"),
    null=NullModel("the heads permuted", deal=heads_permuted),
)
def k16(m: Measures, at: At) -> Decision:
    """Same-token heads detokenize less."""
    enough = {"a model with more heads": at_least(m.heads, 4)}
    return Decision(below(m.rho, 0), needs=enough)


# ---- Positions -----------------------------------------------------------------------------------


#: Measures of K6's first three parts: the share of rising steps up to each of the paper's queries.
UNTIL = ("rising to i = 50", "rising to i = 500", "rising to i = 1000")


def trend_and_steps(at: At, spearman: np.ndarray, rising: Sequence[np.ndarray]) -> dict[str, Any]:
    """Both by head. rising: of steps up to the paper's i = 50, 500 and 1000, or the same share of a
    context."""
    return {"spearman": spearman, **dict(zip(UNTIL, rising, strict=True))}


@rule(
    "K6",
    measure=trend_and_steps,
    effect=Effect("spearman", unit="ρ (median head)", null=0, exact=True),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k6(m: Measures, at: At) -> Parts:
    """Position self-assertion rises with the key's position: at each step, and in trend."""
    monotone = {
        f"{until}, in the heads named": at.in_named(at.named, at_least(m[until], at.rising))
        for until in UNTIL
    }
    in_trend = above(m.spearman, at.spearman)
    return {
        **monotone,
        "in trend, in the heads named": at.in_named(at.named, in_trend),
        "in trend, in every head": every(in_trend),
    }


def waves_of_table(at: At, table: pd.DataFrame) -> dict[str, Any]:
    """table: `lnattn.position.curves.position_table`, one row a head."""
    columns = {"cycles": "T^pp cycles", "wave": "T^pp wave share", "near": "near T^pp percentile"}
    return {name: table[column].to_numpy(dtype=float) for name, column in columns.items()}


@rule(
    "K7",
    measure=waves_of_table,
    effect=Effect("cycles", unit="cycles (median head)", exact=True),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k7(m: Measures, at: At) -> Parts:
    """The position comparison term undulates and is high near the query."""
    is_wave = at_least(m.cycles, at.cycles) & above(m.wave, at.share)
    near = above(m.near, at.percentile)
    return {
        "a wave, in the heads named": at.in_named(at.named, is_wave),
        "a wave, in every head": every(is_wave),
        "high near the query, in the heads named": at.in_named(at.named, near),
        "high near the query, in every head": every(near),
    }


def near_and_hidden(at: At, near_share: np.ndarray, echo: np.ndarray) -> dict[str, Any]:
    """near_share, echo: [head], or [case head] for several assumptions about σ; `wave_recurrence`.

    Where no key is a wavelength away there is no wave to hide, and the echo is 0.
    """
    hidden = Interval(*(np.where(end == 0, np.nan, end) for end in Interval.of(echo)))
    return {"share": near_share, "echo": hidden}


@rule(
    "K8",
    measure=near_and_hidden,
    effect=Effect("share", unit="of the attention (median head)", exact=True),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k8(m: Measures, at: At) -> Parts:
    """Attention by position is near, and hides the wave."""
    near = above(m.share, at.share)
    hidden = at_most(m.echo, at.echo)
    return {
        "near, in the heads named": at.in_named(at.named, near),
        "near, in every head": every(near),
        "no wave left, in the heads named": at.in_named(at.named, hidden),
        "no wave left, in every head": every(hidden),
    }


def measured_on_text(at: At, table: pd.DataFrame) -> dict[str, Any]:
    """table: from `measured.compare_with_position_only`, errors over the articles of windows."""

    def over_texts(mean: pd.Series, what: str) -> Interval:
        half = 1.96 * table[f"{what}, error"].fillna(np.inf)  # of one article it is not known
        return Interval(mean, mean - half, mean + half).bonferroni()

    itself = table["itself, measured"]
    predicted = table["itself, by position"]
    return {
        "skill": over_texts(table["skill, one text"], "skill"),
        "itself": over_texts(itself, "itself"),
        "above": over_texts(itself - predicted, "itself"),
    }


@rule(
    "K9",
    measure=measured_on_text,
    effect=Effect("skill", unit="explained by position", null=0, pick="largest"),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k9(m: Measures, at: At) -> Parts:
    """On text, head 7 follows position, head 1 attends to itself."""
    follows = above(m.skill, at.skill)
    selfish = above(m.itself, at.itself) & above(m.above, at.above)
    return {
        "attention follows position": at.in_named(at.follower, follows),
        "a head looks at itself": at.in_named(at.selfish, selfish),
    }


@rule(
    "K14",
    effect=Effect(
        "ratio", unit="of the neighbours' spread (median head)", null=OF_THE_NULL, exact=True
    ),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k14(m: Measures, at: At) -> Parts:
    """The very last position was not trained. ratio: [head]."""
    flat = below(m.ratio, at.spread)
    return {"some head": any_of(flat), "every head": every(flat)}


def straight_lines(at: At, curves: Float[np.ndarray, "*case head position"]) -> dict[str, Any]:
    """curves: T^p. R² of a line over all places, and from where variances of positions level."""
    level = round(at.level * curves.shape[-1] / at.context)
    return {"whole": straight_after(curves, 1), "straight": straight_after(curves, max(level, 1))}


@rule(
    "K23",
    measure=straight_lines,
    effect=Effect("straight", unit="R² (median head)", null=OF_THE_NULL, exact=True),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k23(m: Measures, at: At) -> Parts:
    """Position self-assertion is linear, as the bias of ALiBi."""
    on_a_line = at_least(m.straight, at.straight)
    return {
        "over all places, in the heads named": at.in_named(
            at.named, at_least(m.whole, at.straight)
        ),
        "once level, in the heads named": at.in_named(at.named, on_a_line),
        "once level, in every head": every(on_a_line),
    }


def range_of_scores(at: At, scores: Float[np.ndarray, "key"]) -> dict[str, Any]:
    """scores: T^pp of one head and query, not divided by √d', over the keys that it sees."""
    return {
        "above_least": float((scores > at.least).mean()),
        "below_most": float((scores < at.most).mean()),
        "lowest": float(scores.min()),
        "highest": float(scores.max()),
    }


@rule(
    "K24",
    measure=range_of_scores,
    effect=Effect("below_most", unit="of the keys below 0", null=OF_THE_NULL, exact=True),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k24(m: Measures, at: At) -> Parts:
    """Head 1's scores by position lie in (−40, 0)."""
    return {
        "above the least": at_least(m.above_least, at.broad),
        "below the most": at_least(m.below_most, at.broad),
    }


# ---- Six terms -----------------------------------------------------------------------------------


def contributions_of_terms(at: At, sums: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """sums, rows: [document term] in the order of `TERMS`, the sum of contributions over positions,
    averaged over heads, and the number of positions."""
    means = dict(zip(TERMS, sums.sum(axis=0) / rows.sum(axis=0), strict=True))
    pure = [TERMS.index(term) for term in PURE]
    mixed = [TERMS.index(term) for term in MIXED]
    measures: dict[str, Any] = {f"T_{term}": mean for term, mean in means.items()}
    for name in MIXED:
        more = sums[:, pure] - sums[:, [TERMS.index(name)]]
        measures[f"above_{name}"] = Interval.bootstrap_ratio(more, rows[:, pure], at.draws)
    drawn = resampled_ratios(sums, rows, at.draws)
    weakest = drawn[:, pure].min(axis=1)
    low, high = np.quantile(weakest / drawn[:, mixed].max(axis=1), (0.025, 0.975))
    ratio = min(means[term] for term in PURE) / max(means[term] for term in MIXED)
    return measures | {
        "order": " > ".join(sorted(means, key=means.__getitem__, reverse=True)),
        "ratio": Interval(ratio, low, high),
        "documents": len(sums),
    }


def terms_dealt(
    generator: np.random.Generator, sums: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """In each document the six terms change places."""
    order = generator.permuted(np.tile(np.arange(len(TERMS)), (len(sums), 1)), axis=1)
    return np.take_along_axis(sums, order, 1), np.take_along_axis(rows, order, 1)


@rule(
    "K10",
    measure=contributions_of_terms,
    effect=Effect("ratio", unit="times", null=1, n="documents"),
    null=NullModel("in each document the six terms change places", deal=terms_dealt, draws=40),
)
def k10(m: Measures, at: At) -> Decision:
    """Four of the six terms matter; the mixed two contribute little."""
    return Decision(
        {
            "ep contributes least": every(above(m.above_ep, 0)),
            "pe contributes least": every(above(m.above_pe, 0)),
        },
        needs={"more than one document": at_least(m.documents, 2)},
    )


# ---- Frequency and information -------------------------------------------------------------------


def absolute_correlations(correlations: Sequence[Correlation]) -> Interval:
    """|ρ| of each head, with intervals that hold for all of them together."""
    rows = np.array(
        [(correlation.rho, correlation.low, correlation.high) for correlation in correlations]
    )
    value, low, high = np.abs(rows).T
    holds_zero = rows[:, 1] * rows[:, 2] <= 0
    nearest = np.where(holds_zero, 0.0, np.minimum(low, high))
    return Interval(value, nearest, np.maximum(low, high)).bonferroni()


def correlations_with_count(
    at: At, correlations: Sequence[Correlation], tokens: int
) -> dict[str, Any]:
    """correlations: of T^e with the count, one a head; tokens: how many were counted."""
    return {"rho": absolute_correlations(correlations), "tokens": tokens}


@rule(
    "K11",
    measure=correlations_with_count,
    effect=Effect("rho", unit="|ρ| (strongest head)", null=0, pick="largest"),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k11(m: Measures, at: At) -> Decision:
    """Token self-assertion correlates with frequency in several heads."""
    frequent = above(m.rho, at.rho)
    return Decision(
        {"some head": any_of(frequent), "several heads": at_least_n(at.heads, frequent)},
        needs={"the counts of a larger corpus": at_least(m.tokens, at.tokens)},
    )


@rule(
    "K17",
    measure=correlations_with_count,
    effect=Effect("rho", unit="|ρ| (strongest head)", null=0, pick="largest"),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k17(m: Measures, at: At) -> Decision:
    """After LayerNorm a token's count can still be read off."""
    enough = {"the counts of a larger corpus": at_least(m.tokens, at.tokens)}
    return Decision(any_of(above(m.rho, at.rho)), needs=enough)


def rarity_and_covariance(
    at: At, correlation: Correlation, ratio: float, tokens: int
) -> dict[str, Any]:
    """ratio: mean Var(e) over mean |Cov(e, p)|; tokens: how many were counted."""
    return {"rho": correlation, "ratio": ratio, "tokens": tokens, "n": correlation.n}


@rule(
    "K12",
    measure=rarity_and_covariance,
    effect=Effect("rho", unit="ρ", null=0, n="n"),
    null=EMBEDDINGS_IN_RANDOM_ORDER,
)
def k12(m: Measures, at: At) -> Decision:
    """Rare tokens have larger variance; covariances are small."""
    return Decision(
        {
            "rare tokens vary more": below(m.rho, at.rho),
            "covariances are small": above(m.ratio, at.ratio),
        },
        needs={"the counts of a larger corpus": at_least(m.tokens, at.tokens)},
    )


@rule(
    "K13",
    effect=Effect("first", unit="robust z of the first position", null=0, exact=True),
    null=EMBEDDINGS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k13(m: Measures, at: At) -> Parts:
    """Position variances: first high, last low, a step between. `position_outliers`."""
    return {
        "the first is exceptionally high": above(m.first, at.z),
        "the last is exceptionally low": below(m.last, -at.z),
        "level between them": below(m.spread, at.spread),
    }


def gain_elsewhere(at: At, norm: Correlation, others: Sequence[Correlation]) -> dict[str, Any]:
    """Correlations with information gain, of the norm and of T^e in each head."""
    return {"elsewhere": absolute_correlations(others), "norm": abs(norm.rho)}


@rule(
    "K19",
    measure=gain_elsewhere,
    effect=Effect("elsewhere", unit="|ρ| (strongest head)", null="norm", pick="largest"),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k19(m: Measures, at: At) -> Parts:
    """Information gain is encoded elsewhere than in the norm."""
    return any_of(above(m.elsewhere, m.norm))


# ---- The first token -----------------------------------------------------------------------------


@rule(
    "K15",
    effect=Effect("amplification", unit="times (largest head)", null=1, pick="largest"),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k15(m: Measures, at: At) -> Parts:
    """A switch at the first token makes an attention sink.

    score: b_QK p_0ᵀ, [head]; amplification: [head], exact or with its interval over texts.
    """
    switch = below(m.score, 0) & above(m.amplification, at.gain)
    return {"some head": any_of(switch), "every head": every(switch)}


def first_and_last_queries(
    at: At, attention: Float[np.ndarray, "text head query"]
) -> dict[str, Any]:
    """attention: on position 0 of queries 1, 2, …, over even attention, 1 over the number of keys:
    its mean over the first quarter of the queries, and how much of that is left in the last."""
    even = attention * (np.arange(attention.shape[-1]) + 2)
    quarter = max(attention.shape[-1] // 4, 1)
    last = even[..., -quarter:].sum(axis=-1)
    first = even[..., :quarter].sum(axis=-1)
    return {
        "short": Interval.bootstrap_ratio(first, np.full_like(first, quarter)).bonferroni(),
        "left": Interval.bootstrap_ratio(last, first).bonferroni(),
    }


@rule(
    "K20",
    measure=first_and_last_queries,
    effect=Effect("left", unit="is left (least head)", null=1, pick="least"),
    null=HEADS_IN_RANDOM_ORDER,
    not_seen=True,
)
def k20(m: Measures, at: At) -> Parts:
    """The sink at the first token fades as contexts grow."""
    sink = above(m.short, at.sink)
    faded = below(m.left, at.left)
    # Of heads without a sink nothing is asked; one that may have none fails for no certain reason.
    of_sinks = np.where(sink.values == 0, np.nan, np.maximum(faded.values, 1 - sink.values))
    return {
        "some head with a sink": any_of(sink & faded),
        "every head with a sink": every(is_true(of_sinks)),
    }


def first_and_others(at: At, lengths: Sequence[Float[np.ndarray, "head token"]]) -> dict[str, Any]:
    """lengths: of the value vectors of each text, the first token's first."""
    first = np.stack([of_text[:, 0] for of_text in lengths])
    others = np.stack([of_text[:, 1:].mean(axis=1) for of_text in lengths])
    return {"times": Interval.bootstrap_ratio(others, first).bonferroni()}


def another_first(
    generator: np.random.Generator, lengths: Sequence[Float[np.ndarray, "head token"]]
) -> tuple[list[np.ndarray]]:
    """In each text another token in the place of the first."""
    shifts = [int(generator.integers(1, of_text.shape[1])) for of_text in lengths]
    return (
        [np.roll(of_text, shift, axis=1) for of_text, shift in zip(lengths, shifts, strict=True)],
    )


@rule(
    "K21",
    measure=first_and_others,
    effect=Effect("times", unit="times", null=1, pick="largest"),
    null=NullModel("another token in the first one's place", deal=another_first),
    not_seen=True,
)
def k21(m: Measures, at: At) -> Parts:
    """The first token's value vector is 19.4 times shorter."""
    return any_of(above(m.times, at.times))
