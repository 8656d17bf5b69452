"""The token explorer's data as small scripts, which a page may load even from a disk.

A page that was opened from a file may not fetch other files, but it may load scripts. So every
part is a script that hands one JSON value to the page: `index.js`, all that the first view must
know; `tokens.js`, the texts of the vocabulary; `shard-N.js`, some tokens in full; `opening.js`,
the first sentence; and those of `booksite.explorer.views`. Large tables are numbers in base64
digits (`booksite.explorer.digits`). The same model, counts and sentences give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from booksite.explorer.data import LEAST_COUNT, Explored, Opening, Partners, listed_from
from booksite.explorer.digits import WEIGHT_DIGITS, digits, numbers, packed_rows
from booksite.explorer.first_layer import PER_SHARD
from booksite.explorer.texts import script

#: Terms of a query with a key, and of a key alone.
PAIR_TERMS, KEY_TERMS = ("ee", "ep", "pe", "pp"), ("e", "p")
#: Neighbours of a token that are written, of those seen twice; and all predecessors that are seen
#: as often as `listed_from` says.
NEIGHBOURS = 5
#: Digits of a token's id, of a count, of a score (a share of the largest) and of an AUROC (‰).
ID_DIGITS, COUNT_DIGITS, SCORE_DIGITS, AUROC_DIGITS = 3, 3, 2, 2


def scripts(explored: Explored, name: str, about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """All scripts of a model's tokens as (file name, text), `index.js` first.

    name: what the page calls this model; every value carries it. about: facts for the reader.
    """
    shards = dict(_shards(explored))
    start = shards[f"shard-{explored.start // PER_SHARD}"]
    yield "index.js", script(f"{name}/index", _index(explored, about, start))
    yield "tokens.js", script(f"{name}/tokens", list(explored.texts))
    for shard, value in shards.items():
        yield f"{shard}.js", script(f"{name}/{shard}", value)


def _index(explored: Explored, about: Mapping[str, Any], start: Mapping[str, Any]) -> dict:
    study, largest = explored.study, _largest(explored)
    shown = {explored.start, *_ids_shown(start, explored.start)}
    return {
        "about": dict(about),
        "vocab": len(explored.texts),
        "heads": explored.folded.n_heads,
        "perShard": PER_SHARD,
        "frequent": 0 if explored.keys is None else len(explored.keys.tokens),
        "leastCount": LEAST_COUNT,
        "listedFrom": listed_from(explored.counts),
        "largest": largest,
        "auroc": [
            [round(float(x), 3) for x in (mean, low, high)]
            for mean, (low, high) in zip(study.mean_auroc(), study.interval, strict=True)
        ],
        "aurocTokens": int((~np.isnan(study.auroc[0])).sum()),
        "start": explored.start,
        "names": {int(token): explored.texts[token] for token in sorted(shown)},
    }


def _largest(explored: Explored) -> float:
    """What the largest score, in size, is written as: scores are shares of it."""
    lists = [explored.keys, explored.queries]
    sizes = [np.abs(one.scores).max(initial=0) for one in lists if one is not None]
    return float(f"{max(sizes, default=0.0):.4g}") * 1.001


def _ids_shown(shard: Mapping[str, Any], token: int) -> set[int]:
    """The ids of the tokens that the view of one token of a shard names."""
    place, found = token % PER_SHARD, set()
    for name in ("before", "after"):
        # Of its predecessors the view names only the first few.
        step = ID_DIGITS + COUNT_DIGITS
        found |= _ids(shard[name][place][: NEIGHBOURS * step], step)
    scored = ID_DIGITS + SCORE_DIGITS
    for name in ("keys", "queries"):
        found |= _ids(shard[name][place] if name in shard else "", scored)
    return found


def _ids(text: str, step: int) -> set[int]:
    return {pair // 64 ** (step - ID_DIGITS) for pair in numbers(text, step)}


def _shards(explored: Explored) -> Iterator[tuple[str, dict[str, Any]]]:
    """Some tokens in full, by place in the shard.

    count, kinds: how often it occurs, after how many different tokens; before, after: (id, count)
    of its neighbours, the most frequent first; auroc: of every head; rank: of the most frequent
    predecessor, in every head; keys, queries: (id, score) by head. A text is empty where a token
    has none of these.
    """
    counts, vocab, rank = explored.counts, len(explored.texts), explored.main_rank
    least = listed_from(counts)
    auroc = np.rint(1000 * np.nan_to_num(explored.study.auroc.T, nan=-1)).astype(np.int64)
    largest = _largest(explored)
    lists = {name: getattr(explored, name) for name in ("keys", "queries")}
    written = {name: _by_token(one, largest) for name, one in lists.items() if one is not None}
    for number, first in enumerate(range(0, vocab, PER_SHARD)):
        tokens = range(first, min(first + PER_SHARD, vocab))
        full = {token for token in tokens if not written or token in written["keys"]}
        known = {token for token in full if auroc[token].min() >= 0}
        # The browser finds the ranks itself where it finds the lists.
        usual = {token for token in tokens if explored.main[token] >= 0 and written}
        yield (
            f"shard-{number}",
            {
                "count": [int(counts.unigrams[token]) for token in tokens],
                "kinds": [len(counts.predecessors(token)[0]) for token in tokens],
                "before": [_neighbours(*counts.predecessors(token), least) for token in tokens],
                "after": [_neighbours(*counts.successors(t)) if t in full else "" for t in tokens],
                "auroc": [digits(auroc[t], AUROC_DIGITS) if t in known else "" for t in tokens],
                "rank": [digits(rank[t], ID_DIGITS) if t in usual else "" for t in tokens],
                **{name: [of.get(token, "") for token in tokens] for name, of in written.items()},
            },
        )


def _by_token(partners: Partners, largest: float) -> dict[int, str]:
    """The lists of each token: for every head, best first, id and score."""
    middle = 64**SCORE_DIGITS // 2
    scores = np.rint(partners.scores / largest * (middle - 1)).astype(np.int64) + middle
    both = partners.ids.astype(np.int64) * 64**SCORE_DIGITS + scores
    step = ID_DIGITS + SCORE_DIGITS
    both = np.moveaxis(both, 1, 0)
    text, each = digits(both, step), both[0].size * step if len(both) else 0
    return {int(token): text[i * each : (i + 1) * each] for i, token in enumerate(partners.tokens)}


def _neighbours(tokens: np.ndarray, counts: np.ndarray, least: int | None = None) -> str:
    """Neighbours seen twice, with their counts, the most frequent first; ties by the smaller id."""
    order = np.argsort(-counts, kind="stable")
    most = NEIGHBOURS if least is None else max(NEIGHBOURS, int((counts >= least).sum()))
    order = order[: min(most, int((counts >= 2).sum()))]
    # A count that does not fit is so large that its last digits say nothing.
    shown = np.minimum(counts[order], 64**COUNT_DIGITS - 1)
    pairs = tokens[order].astype(np.int64) * 64**COUNT_DIGITS + shown
    return digits(pairs, ID_DIGITS + COUNT_DIGITS)


def sentence_script(opening: Opening, name: str) -> str:
    """A sentence with its terms, so that it can be shown without the model's layer.

    name: of the script, model included. pairs: [term·head pair], query by query, of a causal model
    only those with key ≤ query; keys: [term·head key].
    """
    terms, n = opening.terms, len(opening.ids)
    query, key = np.tril_indices(n) if terms.folded.causal else np.indices((n, n)).reshape(2, -1)
    pairs = np.concatenate([terms[term].numpy()[:, query, key] for term in PAIR_TERMS])
    keys = np.concatenate([terms[term].numpy()[:, 0] for term in KEY_TERMS])
    value = {
        "text": opening.text,
        "ids": list(opening.ids),
        "tokens": list(opening.tokens),
        "heads": terms.folded.n_heads,
        "causal": terms.folded.causal,
        "scale": terms.folded.scale,
        "sigma": [float(f"{x:.7g}") for x in terms.sigma.tolist()],
        "pairs": packed_rows(pairs, WEIGHT_DIGITS),
        "keys": packed_rows(keys, WEIGHT_DIGITS),
        "head": opening.head,
        "query": opening.query,
    }
    return script(name, value)
