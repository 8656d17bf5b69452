"""The token explorer's data as small scripts, which a page may load even from a disk.

A page that was opened from a file may not fetch other files, but it may load scripts. So every
part is a script that hands one JSON value to the page: `index.js`, all that the first view must
know; `shard-N.js`, some tokens in full; `sentence-N.js`, the six terms of one sentence. Large
tables are little-endian numbers in base64. The same model, counts and sentences give the same
bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from booksite.explorer.data import Explored, neighbours
from booksite.explorer.texts import script
from lnattn.errors import ResultError

#: Tokens of one shard: quick to load on a phone, and still few files.
PER_SHARD = 32
#: Which token the page shows before anyone has asked for one.
FIRST_WORD = "york"
#: Terms of a query with a key, and of a key alone.
PAIR_TERMS, KEY_TERMS = ("ee", "ep", "pe", "pp"), ("e", "p")
_LARGEST = 32767


def scripts(explored: Explored, name: str, about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """All scripts of one model as (file name, text), `index.js` first.

    name: what the page calls this model; every value carries it. about: facts for the reader.
    """
    places = decimals(explored.partners.scores)
    yield "index.js", script(f"{name}/index", _index(explored, places, about))
    for number, first in enumerate(range(0, len(explored.tokens), PER_SHARD)):
        rows = range(first, min(first + PER_SHARD, len(explored.tokens)))
        yield f"shard-{number}.js", script(f"{name}/shard-{number}", _shard(explored, rows, places))
    for number in range(len(explored.sentences)):
        value = _sentence(explored, number)
        yield f"sentence-{number}.js", script(f"{name}/sentence-{number}", value)


def _index(explored: Explored, places: int, about: Mapping[str, Any]) -> dict[str, Any]:
    vocab, tokens = len(explored.texts), explored.tokens
    study, folded = explored.study, explored.folded
    return {
        "about": dict(about),
        "vocab": vocab,
        "heads": folded.n_heads,
        "ranks": explored.partners.ids.shape[-1],
        "perShard": PER_SHARD,
        "decimals": places,
        "largest": round(float(np.abs(explored.partners.scores).max()), places),
        "wide": _is_wide(explored),
        "causal": folded.causal,
        "scale": folded.scale,
        "auroc": [
            [_short(mean), _short(low), _short(high)]
            for mean, (low, high) in zip(study.mean_auroc(), study.interval, strict=True)
        ],
        "aurocTokens": int((~np.isnan(study.auroc[0])).sum()),
        "sentences": list(explored.sentence_texts),
        "start": _start(explored),
        "ids": None if len(tokens) == vocab else tokens.tolist(),
        "tokens": [explored.texts[token] for token in tokens],
    }


def _start(explored: Explored) -> int:
    """The row shown first: a word of chapter 06 if it is there, else the most frequent token."""
    words = [explored.texts[token].strip().lower() == FIRST_WORD for token in explored.tokens]
    frequency = explored.counts.unigrams[explored.tokens]
    return int(np.lexsort((-explored.tokens, frequency, words))[-1])


def _shard(explored: Explored, rows: range, places: int) -> dict[str, Any]:
    """Some tokens in full. ids and scores: [token side head rank]; the others are lists by token.

    bigrams: place in ids, count, place, count, … of the partners that are true neighbours; auroc:
    of each head, empty where undefined; before, after: id, count, id, count, …
    """
    counts, partners = explored.counts, explored.partners
    ids, scores, bigrams = (
        np.moveaxis(part[:, :, rows.start : rows.stop], 2, 0)
        for part in (partners.ids, partners.scores, partners.bigrams)
    )
    tokens = [int(token) for token in explored.tokens[rows.start : rows.stop]]
    auroc = explored.study.auroc[:, tokens].T
    sides = {"before": counts.predecessors, "after": counts.successors}
    lists = {name: [neighbours(*of(token)) for token in tokens] for name, of in sides.items()}
    named = {int(token) for token in ids.ravel()}
    named |= {token for side in lists.values() for pairs in side for token, _ in pairs}
    others = sorted(named - set(explored.tokens.tolist()))
    return {
        "count": [int(counts.unigrams[token]) for token in tokens],
        "kinds": [len(counts.predecessors(token)[0]) for token in tokens],
        **{name: [_flat(pairs) for pairs in side] for name, side in lists.items()},
        "auroc": [[] if np.isnan(row).any() else [_short(x) for x in row] for row in auroc],
        "bigrams": [
            _flat((int(place), int(row[place])) for place in np.flatnonzero(row))
            for row in bigrams.reshape(len(bigrams), -1)
        ],
        "ids": packed(ids, "<u4" if _is_wide(explored) else "<u2"),
        "scores": packed(np.rint(scores * 10**places), "<i2"),
        "names": {token: explored.texts[token] for token in others},
    }


def _sentence(explored: Explored, number: int) -> dict[str, Any]:
    """The tokens of a sentence and its terms: [term head pair] float32, then [term head key].

    Pairs go query by query; of a causal model only those with key ≤ query are there.
    """
    terms = explored.terms(number)
    n, causal = len(explored.sentences[number]), explored.folded.causal
    query, key = np.tril_indices(n) if causal else np.indices((n, n)).reshape(2, -1)
    of_pairs = [terms[name].numpy()[:, query, key] for name in PAIR_TERMS]
    of_keys = [terms[name].numpy()[:, 0] for name in KEY_TERMS]
    return {
        "rows": np.searchsorted(explored.tokens, explored.sentences[number]).tolist(),
        "pairs": packed(np.stack(of_pairs), "<f4"),
        "keys": packed(np.stack(of_keys), "<f4"),
    }


def decimals(scores: np.ndarray) -> int:
    """Decimals (at most 2) with which all scores fit into 16 bits; `ResultError` if none do."""
    largest = float(np.abs(scores).max(initial=0))
    for places in (2, 1, 0):
        if largest * 10**places <= _LARGEST:
            return places
    raise ResultError(f"T^ee of {largest:.3g} is larger than the explorer can show.")


def packed(values: np.ndarray, dtype: str) -> str:
    """The array's values in order, as numbers of `dtype`, in base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")


def _is_wide(explored: Explored) -> bool:
    return len(explored.texts) > 1 << 16


def _flat(pairs: Iterable[tuple[int, int]]) -> list[int]:
    return [int(number) for pair in pairs for number in pair]


def _short(value: float | np.floating) -> float:
    return round(float(value), 3)  # the decimals that the page shows
