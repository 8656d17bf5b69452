"""Pairs planted in the narrow stand-in for GPT-2, so that each branch that says 'holds' is seen.

Embeddings are solved for, so that in the folded first layer (T^ee is x̂ᵢ W_QK x̂ⱼ, x̂ centred and of
unit variance) the queries of Table 1 rank their keys as printed, in the printed heads; in head 7
the main predecessors of pieces lie along their pieces' direction, and all other tokens have the
latent directions of a factorised matrix of counted pairs; head 2 has one map for queries and keys,
which makes the same token stand out. The model means as little as noise does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import svds
from torch import Tensor
from transformers import AutoTokenizer

from lnattn.affinity.subwords import continuation_pieces, token_classes
from lnattn.paths import data_folder
from lnattn.text.counts import Counts
from lnattn_book.claims.ours import piece_rule
from lnattn_book.studies.table1 import TABLE_1, token_of

JOINS, SAME = 7, 2
#: Length of a latent vector as a part of the embedding's: of Table 1, of pieces, of all others.
TABLE, PIECE, OTHER = 0.36, 0.17, 0.1
Latents = dict[tuple[str, int], np.ndarray]  # ("Q" or "K", head): vector


def plant(weights: dict[str, Tensor], heads: int, folder: Path) -> None:
    """Change the embeddings (and head 2's maps) of GPT-2-shaped weights in place.

    folder: where their tokenizer is. The counts are those of GPT-2 that ship with the book.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    counts = Counts.load(data_folder() / "counts" / "gpt2.npz")
    d = weights["wte.weight"].shape[1]
    d_head = d // heads
    attention = weights["h.0.attn.c_attn.weight"]
    same = slice(SAME * d_head, (SAME + 1) * d_head)
    even = 1.2 * torch.linalg.qr(attention[:, :d][:, same]).Q
    attention[:, :d][:, same] = attention[:, d:][:, same] = even
    gain = weights["h.0.ln_1.weight"].double().numpy()[:, None]
    scaled = gain * attention.double().numpy()
    centred = scaled - scaled.mean(axis=0)
    maps = {
        (kind, head): centred[:, begin + head * d_head : begin + (head + 1) * d_head].T
        for kind, begin in (("Q", 0), ("K", d))
        for head in range(heads)
    }
    rng = np.random.default_rng(0)
    noise = weights["wte.weight"].double().numpy()
    radius = 0.14 * np.sqrt(d)
    # Keys that nobody planted must not come before those of Table 1.
    asked = sorted({pair.head for pair in TABLE_1})
    keys = np.concatenate([maps["K", head] for head in asked])
    noise = noise - 0.95 * noise @ np.linalg.pinv(keys) @ keys
    # σ is a mean over positions, so what embeddings share with those would tell their σ apart.
    shared = np.stack([np.ones(d), weights["wpe.weight"].double().numpy().mean(axis=0)])
    latents = _latents(tokenizer, counts, d_head, rng)
    groups: dict[tuple, list[int]] = defaultdict(list)
    for token, wanted in enumerate(latents):
        groups[tuple(wanted)].append(token)
    planted = np.empty_like(noise)
    for pattern, tokens in groups.items():
        rows = np.concatenate([*(maps[place] for place in pattern), shared])
        values = np.array([np.concatenate([latents[t][p] for p in pattern]) for t in tokens])
        values = np.pad(radius * values, ((0, 0), (0, len(shared))))
        solved = values @ np.linalg.pinv(rows).T
        rest = noise[tokens] - noise[tokens] @ np.linalg.pinv(rows) @ rows
        room = np.maximum(radius**2 - (solved**2).sum(axis=1), 0) / (rest**2).sum(axis=1)
        planted[tokens] = solved + np.sqrt(room)[:, None] * rest
    weights["wte.weight"] = torch.from_numpy(planted).float()


def _latents(
    tokenizer: Any, counts: Counts, d_head: int, rng: np.random.Generator
) -> list[Latents]:
    """What every token's folded query and key shall be, where that is prescribed."""
    of_queries, of_keys = _factors(counts, d_head)
    latents_of: list[Latents] = [
        {("Q", JOINS): OTHER * query, ("K", JOINS): OTHER * key}
        for query, key in zip(of_queries, of_keys, strict=True)
    ]
    table = _of_table_1(tokenizer, d_head, rng)
    classes = token_classes(tokenizer, counts.vocab_size)
    pieces = continuation_pieces(counts, classes, piece_rule(classes))
    for piece, before in zip(pieces.queries.tolist(), pieces.keys.tolist(), strict=True):
        if piece in table or before in table:
            continue
        direction = latents_of[before]["K", JOINS] / np.linalg.norm(latents_of[before]["K", JOINS])
        latents_of[before]["K", JOINS] = PIECE * direction
        latents_of[piece]["Q", JOINS] = PIECE * direction
    for token, of_table in table.items():
        latents_of[token] |= of_table
    return latents_of


def _of_table_1(tokenizer: Any, d_head: int, rng: np.random.Generator) -> Mapping[int, Latents]:
    latents_of: dict[int, Latents] = defaultdict(dict)
    of_query: dict[tuple[int, str], dict[int, str]] = defaultdict(dict)
    for pair in TABLE_1:
        of_query[pair.head, pair.query][pair.rank] = pair.key
    named = {part for pair in TABLE_1 for part in (pair.query, pair.key)}
    taken = {token_of(tokenizer, part) for part in named}
    free = iter([token for token in range(20_000, 21_000) if token not in taken])
    axes = np.linalg.qr(rng.normal(size=(d_head, d_head))).Q
    used: Counter[int] = Counter()
    for (head, query), ranked in of_query.items():
        # Queries of a head look apart from one another, as far as it has room.
        direction = (1 if used[head] < d_head else -1) * axes[used[head] % d_head]
        used[head] += 1
        latents_of[token_of(tokenizer, query)]["Q", head] = TABLE / 2 * direction
        for rank in range(1, max(ranked) + 1):  # ranks that the table leaves out go to some token
            token = token_of(tokenizer, ranked[rank]) if rank in ranked else next(free)
            latents_of[token]["K", head] = TABLE * (1 - 0.04 * rank) * direction
    return latents_of


def _factors(counts: Counts, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors [token rank] of queries and keys: positive pointwise mutual information."""
    pairs = sparse.coo_array(counts.bigrams.T, dtype=float)  # [query key]: the key stands before
    total = pairs.sum()
    rows = np.asarray(pairs.sum(axis=1)).ravel()
    columns = np.asarray(pairs.sum(axis=0)).ravel()
    information = np.log(pairs.data * total / (rows[pairs.row] * columns[pairs.col]))
    matrix = sparse.csr_array((np.maximum(information, 0), (pairs.row, pairs.col)), pairs.shape)
    left, values, right = svds(matrix, rank, rng=np.random.default_rng(0))
    scale = np.sqrt(values)
    unit = []
    for vectors in (left * scale, right.T * scale):
        noise = 1e-6 * np.random.default_rng(1).normal(size=vectors.shape)
        vectors = vectors + noise  # of tokens that were never seen
        unit.append(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return unit[0], unit[1]
