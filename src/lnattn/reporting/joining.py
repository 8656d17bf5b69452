"""Heads that join: which ones know what stands before a token, beside what needs no query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from lnattn.affinity.auroc import Neighbours, frequency_vectors, head_auroc, wrong_queries
from lnattn.affinity.topk import partners
from lnattn.affinity.vectors import TokenVectors, token_vectors
from lnattn.errors import CorpusError
from lnattn.reporting.drawing import intervals, joined
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.heads import listed
from lnattn.reporting.part import Figure, Part, Table
from lnattn.rotary.affinity import sample_queries, vectors_at_distance
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn.stats import bootstrap_means

#: Query tokens that are asked about, and wrong queries for each.
QUERIES, DRAWS = 1000, 5
#: Of all heads together, so often one is said to join by chance at most.
LEVEL = 0.05
#: Pairs shown of a head, and heads shown.
PAIRS, SHOWN = 6, 4
#: A pair is shown that stands side by side so often at least.
SEEN = 20


@dataclass(frozen=True, eq=False)
class Joining:
    """AUROCs of heads against counted pairs, less those with wrong queries.

    queries: the tokens asked about; auroc, wrong: [head], means; skill: [head 3], mean, low and
    high of the difference, at the level that all heads share; frequency: the AUROC of a list of
    frequent tokens, which knows no query.
    """

    queries: Int[np.ndarray, "query"]
    auroc: Float[np.ndarray, "head"]
    wrong: Float[np.ndarray, "head"]
    skill: Float[np.ndarray, "head 3"]
    frequency: float

    @property
    def heads(self) -> list[int]:
        """The heads whose interval lies above 0, the most skilled first."""
        order = np.argsort(-self.skill[:, 0])
        return [int(head) for head in order if self.skill[head, 1] > 0]

    def table(self) -> pd.DataFrame:
        """One row a head."""
        columns = {
            "AUROC": self.auroc,
            "wrong query": self.wrong,
            "skill": self.skill[:, 0],
            "low": self.skill[:, 1],
            "high": self.skill[:, 2],
        }
        return pd.DataFrame(columns).rename_axis("head")


def vectors_of(evidence: Evidence, queries: Int[np.ndarray, "query"] | None = None) -> TokenVectors:
    """The factors of T^ee, of neighbours where it depends on the distance.

    queries: those alone, where there is no need of others.
    """
    model = evidence.model
    if isinstance(model, RelativeFirstLayer):
        asked = None if queries is None else queries.tolist()
        return vectors_at_distance(
            evidence.folded_relative, model.embeddings, 1, evidence.means, asked
        )
    return token_vectors(evidence.folded, model.embeddings)


def joining_of(evidence: Evidence, vectors: TokenVectors, before: Neighbours) -> Joining:
    """Ask all heads about a sample of query tokens.

    Raises `CorpusError` where fewer than two tokens can be asked about.
    """
    counts, _ = evidence.counted()
    queries = asked(evidence)
    if len(queries) < 2:
        raise CorpusError("fewer than two tokens stand behind another one often; count more text.")
    auroc = head_auroc(vectors, before, queries).values[:, queries]
    wrong = wrong_queries(vectors, before, queries, draws=DRAWS, seed=evidence.seed)
    level = 1 - LEVEL / vectors.n_heads
    frequency = head_auroc(frequency_vectors(counts.unigrams), before, queries)
    return Joining(
        queries=queries,
        auroc=auroc.mean(axis=1),
        wrong=wrong.mean(axis=1),
        skill=bootstrap_means(auroc - wrong, level=level, seed=evidence.seed),
        frequency=float(frequency.mean()[0]),
    )


def asked(evidence: Evidence) -> Int[np.ndarray, "query"]:
    """The query tokens: a sample of those that occur often and have neighbours before them."""
    counts, _ = evidence.counted()
    queries = sample_queries(counts.unigrams, QUERIES, evidence.seed)
    neighbours = np.diff(counts.by_next.indptr)[queries]
    return queries[(neighbours > 0) & (neighbours < counts.vocab_size)]


def joining(evidence: Evidence) -> Part:
    """Heads by their skill, and the pairs that the most skilled ones put together."""
    counts, words = evidence.counted()
    before = Neighbours.before(counts.bigrams)
    vectors = vectors_of(evidence, asked(evidence))
    found = joining_of(evidence, vectors, before)
    pairs = best_pairs(evidence, vectors, found)
    rows = [
        (f"head {head}", float(mean), float(low), float(high))
        for head, (mean, low, high) in enumerate(found.skill)
    ]
    skill = Figure(
        intervals(rows, "Skill of every head with its interval", reference=0.0, spec="+.3f"),
        "Skill: AUROC of T^ee against the pairs that stand side by side in text, less that of the "
        "same tokens asked with wrong queries, which keeps what is popular with every query. Bars: "
        f"intervals over {len(found.queries):,} query tokens, at a level at which {LEVEL:.0%} of "
        "models that know no pair would have a head above 0. At a distance of 1 where positions "
        f"are rotary or relative. Pairs counted in {words}.",
    )
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
    table = Table("AUROC and skill by head", found.table(), dict.fromkeys(found.table(), ".3f"))
    return Part(
        name="joining",
        title="Heads that join tokens",
        sentences=_sentences(found),
        figures=figures,
        tables=[table],
        numbers={
            "auroc": found.auroc,
            "wrong_query": found.wrong,
            "skill": found.skill,
            "frequency": found.frequency,
            "queries": len(found.queries),
            "counts": words,
            "tokens_counted": counts.tokens,
            "pairs": pairs,
        },
    )


def best_pairs(evidence: Evidence, vectors: TokenVectors, found: Joining) -> pd.DataFrame:
    """Counted pairs among the first-ranked keys of the joining heads, the closest first.

    Columns: head, key and query (ids), texts of both, the key's share of what stands before the
    query, and how often the two stand side by side.
    """
    counts, _ = evidence.counted()
    names = evidence.token_names
    best = partners(vectors, found.queries, 1)
    before = np.asarray(counts.by_next[:, found.queries].sum(axis=0)).ravel()
    rows = []
    for head in found.heads[:SHOWN]:
        keys = best.ids[head, :, 0]
        times = np.asarray(counts.bigrams[keys, found.queries]).ravel()
        share = times / np.maximum(before, 1)
        order = [place for place in np.argsort(-share, kind="stable") if times[place] >= SEEN]
        rows += [
            {
                "head": head,
                "key": int(keys[place]),
                "query": int(found.queries[place]),
                "key_text": names[keys[place]],
                "query_text": names[found.queries[place]],
                "share": float(share[place]),
                "count": int(times[place]),
            }
            for place in order[:PAIRS]
        ]
    columns = ["head", "key", "query", "key_text", "query_text", "share", "count"]
    return pd.DataFrame(rows, columns=columns)


def _sentences(found: Joining) -> list[str]:
    if not found.heads:
        return [
            "No head knows more of what stands before a token than it does with a wrong query, as "
            "far as this sample can tell."
        ]
    best = found.heads[0]
    mean, low, high = found.skill[best]
    knows = "knows" if len(found.heads) == 1 else "know"
    told = (
        f"{listed(sorted(found.heads)).capitalize()} of {len(found.auroc)} {knows} more of what "
        f"stands before a token than with a wrong query; most so head {best}, by {mean:.3f} "
        f"[{low:.3f}, {high:.3f}] of AUROC."
    )
    beats = int((found.auroc > found.frequency).sum())
    return [
        told,
        "A plain list of frequent tokens, the same for every query, has an AUROC of "
        f"{found.frequency:.2f}; {'no head' if not beats else f'{beats} of the heads'} "
        f"{'has' if beats < 2 else 'have'} more.",
    ]
