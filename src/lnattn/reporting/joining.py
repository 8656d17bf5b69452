"""Heads that join: which ones know what stands before a token, beside what needs no query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from lnattn.affinity.auroc import Neighbours, frequency_vectors, head_auroc, wrong_queries
from lnattn.affinity.by_distance import sample_queries, vectors_at_distance
from lnattn.affinity.topk import partners
from lnattn.attention.vectors import TokenVectors, token_vectors
from lnattn.errors import CorpusError
from lnattn.reporting.drawing import intervals, joined
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.heads import listed
from lnattn.reporting.part import Figure, Part, Table
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn.stats import bootstrap_means

#: Query tokens that are asked about, and wrong queries for each.
QUERIES, DRAWS = 1000, 5
#: Of all heads together, so often one is said to join by chance at most.
LEVEL = 0.05
#: Pairs shown of a head, and heads shown.
PAIRS, SHOWN = 6, 4
#: The column of the skill of heads whose weights are in random order.
RANDOM_SKILL = "skill, random order"
#: A pair is shown that stands side by side so often at least.
SEEN = 20


@dataclass(frozen=True, eq=False)
class Skill:
    """What heads know of pairs beyond what is popular with every query. Made by `skill_of`.

    auroc: mean over the queries; wrong: the same with wrong queries; interval: mean, low and high
    of the difference, at the level that all heads share.
    """

    auroc: Float[np.ndarray, "head"]
    wrong: Float[np.ndarray, "head"]
    interval: Float[np.ndarray, "head 3"]

    @property
    def heads(self) -> list[int]:
        """The heads whose interval lies above 0, the most skilled first."""
        mean, low, _ = self.interval.T
        return [int(head) for head in np.argsort(-mean) if low[head] > 0]


@dataclass(frozen=True, eq=False)
class Joining:
    """Heads against counted pairs, beside two nulls. Made by `joining_of`.

    queries: the tokens asked about; of_model: the skill of its heads; of_random_heads: that of the
    same heads with their weights in random order, which keep the embeddings and have learnt no
    pair; frequency: the AUROC of a list of frequent tokens, which knows no query.
    """

    queries: Int[np.ndarray, "query"]
    of_model: Skill
    of_random_heads: Skill
    frequency: float

    def table(self) -> pd.DataFrame:
        """One row a head."""
        columns = {
            "AUROC": self.of_model.auroc,
            "wrong query": self.of_model.wrong,
            "skill": self.of_model.interval[:, 0],
            "low": self.of_model.interval[:, 1],
            "high": self.of_model.interval[:, 2],
            "AUROC, random order": self.of_random_heads.auroc,
            RANDOM_SKILL: self.of_random_heads.interval[:, 0],
        }
        return pd.DataFrame(columns).rename_axis("head")


def vectors_of(evidence: Evidence, queries: Int[np.ndarray, "query"] | None = None) -> TokenVectors:
    """The factors of T^ee, of neighbours where it depends on the distance.

    queries: those alone, where there is no need of others.
    """
    model = evidence.model
    query_ids = None if queries is None else queries.tolist()
    if isinstance(model, RelativeFirstLayer):
        return vectors_at_distance(
            evidence.folded_relative, model.embeddings, 1, evidence.means, query_ids
        )
    return token_vectors(evidence.folded, model.embeddings, query_ids=query_ids)


def joining_of(evidence: Evidence, vectors: TokenVectors, before: Neighbours) -> Joining:
    """Ask all heads, and random ones in their place, about a sample of query tokens.

    Raises `CorpusError` where fewer than two tokens can be asked about.
    """
    counts, _ = evidence.counted()
    queries = sampled_queries(evidence)
    random_heads = evidence.with_random_heads()
    frequency = head_auroc(frequency_vectors(counts.unigrams), before, queries)
    return Joining(
        queries=queries,
        of_model=skill_of(vectors, before, queries, evidence.seed),
        of_random_heads=skill_of(vectors_of(random_heads, queries), before, queries, evidence.seed),
        frequency=float(frequency.mean()[0]),
    )


def skill_of(
    vectors: TokenVectors, before: Neighbours, queries: Int[np.ndarray, "query"], seed: int
) -> Skill:
    """AUROC of every head for the queries, and by how much it beats that of wrong ones."""
    auroc = head_auroc(vectors, before, queries).values[:, queries]
    wrong = wrong_queries(vectors, before, queries, draws=DRAWS, seed=seed)
    level = 1 - LEVEL / vectors.n_heads
    return Skill(
        auroc=auroc.mean(axis=1),
        wrong=wrong.mean(axis=1),
        interval=bootstrap_means(auroc - wrong, level=level, seed=seed),
    )


def sampled_queries(evidence: Evidence) -> Int[np.ndarray, "query"]:
    """The query tokens: a sample of those that occur often and have neighbours before them.

    Raises `CorpusError` for fewer than two.
    """
    counts, _ = evidence.counted()
    sample = sample_queries(counts.unigrams, QUERIES, evidence.seed)
    neighbours = np.diff(counts.by_next.indptr)[sample]
    queries = sample[(neighbours > 0) & (neighbours < counts.vocab_size)]
    if len(queries) < 2:
        raise CorpusError("fewer than two tokens stand behind another one often; count more text.")
    return queries


def joining(evidence: Evidence) -> Part:
    """Heads by their skill, and the pairs that the most skilled ones put together."""
    counts, words = evidence.counted()
    before = Neighbours.before(counts.bigrams)
    vectors = vectors_of(evidence, sampled_queries(evidence))
    measured = joining_of(evidence, vectors, before)
    pairs = best_pairs(evidence, vectors, measured)
    table = measured.table()
    rows = [
        (f"head {head}", float(mean), float(low), float(high))
        for head, (mean, low, high) in enumerate(measured.of_model.interval)
    ]
    drawing = intervals(
        rows,
        "Skill of every head with its interval, beside that of heads in random order",
        reference=0.0,
        marks=[(RANDOM_SKILL, "var(--lr-vermilion)")],
        values={RANDOM_SKILL: table[RANDOM_SKILL].to_numpy()},
        spec="+.3f",
    )
    caption = (
        "Skill: AUROC of T^ee against the pairs that stand side by side in text, less that of the "
        "same tokens asked with wrong queries, which keeps what is popular with every query. Bars: "
        f"intervals over {len(measured.queries):,} query tokens, at a level at which {LEVEL:.0%} "
        "of models that know no pair would have a head above 0. Circles: the same heads with their "
        "weights in random order, under the model's own embeddings. At a distance of 1 where "
        f"positions are rotary or relative. Pairs counted in {words}."
    )
    skill = Figure(drawing, caption)
    figures = [skill]
    if len(pairs):
        names = evidence.token_names
        boxes = [
            (
                names[row.key],
                names[row.query],
                f"head {row.head}, {row.share:.0%} of what stands before it",
            )
            for row in pairs.itertuples()
        ]
        caption = (
            "The key that a joining head ranks first for a query, where the two stand side by side "
            f"in the text {SEEN} times or more: those that make up most of what stands before the "
            "query. ␣ is a space."
        )
        figures.append(Figure(joined(boxes), caption))
    return Part(
        name="joining",
        title="Heads that join tokens",
        sentences=_sentences(measured),
        figures=figures,
        tables=[Table("AUROC and skill by head", table, dict.fromkeys(table, ".3f"))],
        numbers={
            "auroc": measured.of_model.auroc,
            "wrong_query": measured.of_model.wrong,
            "skill": measured.of_model.interval,
            "random_heads": {
                "auroc": measured.of_random_heads.auroc,
                "wrong_query": measured.of_random_heads.wrong,
                "skill": measured.of_random_heads.interval,
            },
            "frequency": measured.frequency,
            "queries": len(measured.queries),
            "counts": words,
            "tokens_counted": counts.tokens,
            "pairs": pairs,
        },
    )


def best_pairs(evidence: Evidence, vectors: TokenVectors, measured: Joining) -> pd.DataFrame:
    """Counted pairs among the first-ranked keys of the joining heads, the closest first.

    Columns: head, key and query (ids), texts of both, the key's share of what stands before the
    query, and how often the two stand side by side.
    """
    counts, _ = evidence.counted()
    names = evidence.token_names
    best = partners(vectors, measured.queries, 1)
    before = np.asarray(counts.by_next[:, measured.queries].sum(axis=0)).ravel()
    rows = []
    for head in measured.of_model.heads[:SHOWN]:
        keys = best.ids[head, :, 0]
        times = np.asarray(counts.bigrams[keys, measured.queries]).ravel()
        share = times / np.maximum(before, 1)
        order = [place for place in np.argsort(-share, kind="stable") if times[place] >= SEEN]
        rows += [
            {
                "head": head,
                "key": int(keys[place]),
                "query": int(measured.queries[place]),
                "key_text": names[keys[place]],
                "query_text": names[measured.queries[place]],
                "share": float(share[place]),
                "count": int(times[place]),
            }
            for place in order[:PAIRS]
        ]
    columns = ["head", "key", "query", "key_text", "query_text", "share", "count"]
    return pd.DataFrame(rows, columns=columns)


def _sentences(measured: Joining) -> list[str]:
    heads = measured.of_model.heads
    if not heads:
        return [
            "No head knows more of what stands before a token than it does with a wrong query, as "
            "far as this sample can tell."
        ]
    mean, low, high = measured.of_model.interval[heads[0]]
    knows = "knows" if len(heads) == 1 else "know"
    skilled = (
        f"{listed(sorted(heads)).capitalize()} of {len(measured.of_model.auroc)} {knows} more of "
        f"what stands before a token than with a wrong query; most so head {heads[0]}, by "
        f"{mean:.3f} [{low:.3f}, {high:.3f}] of AUROC."
    )
    lucky = len(measured.of_random_heads.heads)
    of_random = (
        "With the heads' weights in random order, under the same embeddings, "
        f"{f'{lucky} of them' if lucky else 'no head'} {'does' if lucky < 2 else 'do'}."
    )
    beats = int((measured.of_model.auroc > measured.frequency).sum())
    return [
        skilled,
        of_random,
        "A plain list of frequent tokens, the same for every query, has an AUROC of "
        f"{measured.frequency:.2f}; {'no head' if not beats else f'{beats} of the heads'} "
        f"{'has' if beats < 2 else 'have'} more.",
    ]
