"""Views beside one token and one sentence: a head's pairs, position curves, examples.

Each is one more script of a model (`booksite.explorer.scripts` says what a script is): `pairs.js`,
the strongest pairs of every head; `curves.js` and `curve-N.js`, T^p and T^pp over positions;
`sentence-N.js`, the examples in a model whose whole layer no browser gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from booksite.explorer.data import Explored, strongest_view
from booksite.explorer.digits import WEIGHT_DIGITS, packed_rows
from booksite.explorer.scripts import sentence_script
from booksite.explorer.texts import script
from lnattn.attention.folding import FoldedAttention
from lnattn.studies.affinity.vectors import token_vectors
from lnattn.studies.position.bias import position_bias
from lnattn.studies.position.sigma import inverse_sigma_bands
from lnattn.weights import Embeddings, FirstLayer

#: Pairs listed for a head; those of the text have been seen at least so many times.
PAIRS, SEEN = 10, 20
#: Queries of the position curves, as shares of a context of 1,024: chapter 07's and three between.
QUERIES = (50, 100, 250, 500, 750, 1000)


def view_scripts(
    model: FirstLayer, explored: Explored, name: str, examples: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """All of a model's as (file name, text).

    name: what the page calls the model; examples: sentences that the browser cannot compute itself.
    """
    yield "pairs.js", script(f"{name}/pairs", _pairs(model, explored))
    yield from curve_scripts(explored.folded, model.embeddings, name)
    for number, text in enumerate(examples):
        file = f"sentence-{number}"
        yield f"{file}.js", sentence_script(strongest_view(model, [text]), f"{name}/{file}")


# ---- Pairs ---------------------------------------------------------------------------------------


def _pairs(model: FirstLayer, explored: Explored) -> dict[str, Any]:
    """all, seen: [head rank] of (query, key, T^ee, how often the key stands before the query).

    all: of all pairs of two different tokens, as the affinity study found them; seen: of those that
    stand next to each other in the text at least `SEEN` times.
    """
    study, counts = explored.study, explored.counts
    strongest = zip(study.pair_queries, study.pair_keys, study.pair_scores, strict=True)
    bigrams = counts.bigrams.tocoo()
    often = (bigrams.data >= SEEN) & (bigrams.row != bigrams.col)
    keys, queries = bigrams.row[often].astype(np.int64), bigrams.col[often].astype(np.int64)
    vectors = token_vectors(explored.folded, model.embeddings)
    found: dict[str, list] = {"all": [], "seen": []}
    for head, (best_queries, best_keys, best_scores) in enumerate(strongest):
        found["all"].append(_rows(best_queries, best_keys, best_scores, explored))
        asked = vectors.queries_of(head).double().numpy()[queries]
        scores = np.einsum("pk,pk->p", asked, vectors.keys_of(head).double().numpy()[keys])
        order = np.lexsort((keys, queries, -scores))[:PAIRS]
        found["seen"].append(_rows(queries[order], keys[order], scores[order], explored))
    rows = [row for lists in found.values() for of_head in lists for row in of_head]
    shown = sorted({token for query, key, *_ in rows for token in (query, key)})
    names = {token: explored.texts[token] for token in shown}
    return {"least": SEEN, **found, "names": names}


def _rows(
    queries: np.ndarray, keys: np.ndarray, scores: np.ndarray, explored: Explored
) -> list[tuple[int, int, float, int]]:
    trios = zip(queries.tolist(), keys.tolist(), scores.tolist(), strict=True)
    return [
        (query, key, round(score, 2), explored.counts.count(key, query))
        for query, key, score in list(trios)[:PAIRS]
    ]


# ---- Positions -----------------------------------------------------------------------------------


def curve_scripts(
    folded: FoldedAttention, embeddings: Embeddings, name: str
) -> Iterator[tuple[str, str]]:
    """T^p, and T^pp of a few queries, at the mean of 1/σ over all tokens (chapter 07's curves)."""
    n = embeddings.n_positions
    queries = tuple(dict.fromkeys(min(n - 1, round(i * n / 1024)) for i in QUERIES))
    bias = position_bias(
        folded, embeddings.W_P, queries, inverse_sigma_bands(embeddings, folded.eps)
    )
    about = {
        "queries": list(queries),
        "causal": bias.causal,
        "scale": bias.scale,
        "p": packed_rows(bias.term_p().mean, WEIGHT_DIGITS),
    }
    yield "curves.js", script(f"{name}/curves", about)
    compared = bias.term_pp().mean
    for row, query in enumerate(queries):
        value = packed_rows(compared[:, row], WEIGHT_DIGITS)
        yield f"curve-{query}.js", script(f"{name}/curve-{query}", value)
