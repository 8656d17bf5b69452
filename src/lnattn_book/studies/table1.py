"""The 34 pairs of Table 1 of Kamoda et al. 2025 (App. C), looked up in any model.

The table was read off GPT-2 small. In another model there is no 'head 7', and its tokenizer may cut
the words elsewhere. So a pair is looked up where both of its parts are single tokens, in *every*
head, and the best rank is shown together with what chance would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int

from lnattn.attention.vectors import TokenVectors, ranks
from lnattn.inputs import require, whole_number


@dataclass(frozen=True)
class Pair:
    """One row of the table: a leading '_' stands for the space before a word."""

    head: int
    query: str
    key: str
    rank: int


def _pairs(head: int, query: str, *keys: tuple[str, int]) -> list[Pair]:
    return [Pair(head, query, key, rank) for key, rank in keys]


#: Table 1, in its order.
TABLE_1: tuple[Pair, ...] = (
    *_pairs(3, "yo", ("Tok", 1), ("_Tok", 2)),
    *_pairs(4, "yo", ("Tok", 6)),
    *_pairs(7, "yo", ("Tok", 1)),
    *_pairs(4, "_Korea", ("_North", 1)),
    *_pairs(7, "_Korea", ("_North", 1), ("North", 2), ("_South", 3), ("South", 4)),
    *_pairs(1, "_Obama", ("_Barack", 3), ("President", 8)),
    *_pairs(4, "_Obama", ("_Barack", 3)),
    *_pairs(5, "_Obama", ("_Barack", 5)),
    *_pairs(7, "_Obama", ("_President", 2), ("_Michelle", 3)),
    *_pairs(7, "_Einstein", ("_Albert", 1), ("Albert", 2)),
    *_pairs(7, "_Jackson", ("_Michael", 1), ("_Peter", 2), ("Michael", 3), ("_Jesse", 4)),
    *_pairs(7, "_Jackson", ("Peter", 5), ("_Janet", 6)),
    *_pairs(7, "_chloride", ("_aluminum", 1), ("_copper", 3), ("_vinyl", 6), ("_sodium", 7)),
    *_pairs(7, "_chloride", ("_platinum", 8)),
    *_pairs(10, "_chloride", ("_potassium", 2), ("_sodium", 3)),
    *_pairs(3, "_century", ("_19", 1), ("_nineteenth", 7)),
    *_pairs(7, "_century", ("_21", 1), ("_twentieth", 6)),
)


#: Columns of `table1_ranks` in order, and those of them that hold whole numbers or nothing.
_COLUMNS = ("head", "query", "key", "rank", "query id", "key id",
            "rank here", "best rank", "best head", "chance")  # fmt: skip
_NUMBERS = tuple(name for name in _COLUMNS if name not in ("query", "key"))


def token_of(tokenizer: Any, text: str) -> int | None:
    """The id of a part of the table if it is a single token of this tokenizer, else None.

    Byte-level BPE keeps the space with the word. WordPiece drops it, marks what continues a word
    with '##' and may lower the case: there, 'yo' (which follows 'Tok') is looked up as '##yo'.
    """
    vocabulary = tokenizer.get_vocab()
    word = text.removeprefix("_")
    if "##s" in vocabulary:
        # Asked by what it does: a tokenizer read from its file alone has no `do_lower_case`.
        lowers = tokenizer.tokenize("A") == tokenizer.tokenize("a")
        lower = word.lower() if lowers else word
        # Only 'yo' continues a word in the table; the capitals begin one.
        continues = not text.startswith("_") and word[0].islower()
        return vocabulary.get("##" + lower if continues else lower)
    ids = tokenizer(word if word == text else " " + word, add_special_tokens=False)["input_ids"]
    return ids[0] if len(ids) == 1 else None


def table1_ranks(
    vectors: TokenVectors, tokenizer: Any, draws: int = 20, seed: int = 0
) -> pd.DataFrame:
    """Table 1 with this model's ranks: one row for each of the 34.

    Columns: head, query, key, rank (as printed); query id, key id; rank here (in the head of the
    same number, which means something for GPT-2 small only); best rank and best head, over all
    heads; chance: the median best rank of the same key for `draws` queries drawn at random, so that
    a key which is popular with every query gets no credit. <NA> where a part is not one token of
    this model.
    """
    require(vectors, TokenVectors, "vectors")
    whole_number(draws, "draws")
    parts = {part for pair in TABLE_1 for part in (pair.query, pair.key)}
    ids = {}
    for part in parts:
        token = token_of(tokenizer, part)
        if token is not None:
            ids[part] = token
    known = [pair for pair in TABLE_1 if pair.query in ids and pair.key in ids]
    rank_by_head: dict[Pair, list[int]] = {}
    if known:
        queries = [ids[pair.query] for pair in known]
        keys = [ids[pair.key] for pair in known]
        rank_by_head = dict(zip(known, ranks(vectors, queries, keys).tolist(), strict=True))
    generator = torch.Generator().manual_seed(seed)
    random_queries = torch.randint(vectors.vocab_size, (draws,), generator=generator)
    chance = {}
    for key in {ids[pair.key] for pair in known}:
        best_of_heads = ranks(vectors, random_queries, [key] * draws).min(dim=1).values
        chance[key] = int(best_of_heads.median())
    rows = []
    for pair in TABLE_1:
        row: dict[str, Any] = {
            "head": pair.head,
            "query": pair.query,
            "key": pair.key,
            "rank": pair.rank,
        }
        if pair in rank_by_head:
            of_heads = rank_by_head[pair]
            best = min(of_heads)
            row |= {
                "query id": ids[pair.query],
                "key id": ids[pair.key],
                "rank here": of_heads[pair.head] if pair.head < len(of_heads) else None,
                "best rank": best,
                "best head": of_heads.index(best),
                "chance": chance[ids[pair.key]],
            }
        rows.append(row)
    table = pd.DataFrame(rows, columns=list(_COLUMNS))
    return table.astype(dict.fromkeys(_NUMBERS, "Int64"))


def ranks_by_chance(
    vectors: TokenVectors, table: pd.DataFrame, draws: int = 50, seed: int = 1
) -> Int[np.ndarray, "draw pair"]:
    """Best ranks of the keys of `distinct_pairs` for random queries, one in the place of each.

    Pairs that share a query share the random one as well.
    """
    known = distinct_pairs(table)
    queries = known["query id"].to_numpy(dtype=np.int64)
    keys = known["key id"].to_numpy(dtype=np.int64)
    generator = np.random.default_rng(seed)
    drawn = np.empty((draws, len(known)), dtype=np.int64)
    for draw in range(draws):
        of_query = {
            query: int(generator.integers(vectors.vocab_size)) for query in np.unique(queries)
        }
        random_queries = [of_query[query] for query in queries]
        drawn[draw] = ranks(vectors, random_queries, keys.tolist()).min(dim=1).values.numpy()
    return drawn


def distinct_pairs(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `table1_ranks` that could be looked up, each pair of token ids once.

    '_North' and 'North' are one token of a tokenizer that drops spaces, and two of another.
    """
    return table.dropna(subset="best rank").drop_duplicates(["query id", "key id"])


def pair_heads(table: pd.DataFrame) -> list[int]:
    """The head in which most distinct pairs rank best, or several that tie; empty without pairs."""
    heads = distinct_pairs(table)["best head"].value_counts()
    return sorted(int(head) for head in heads.index[heads == heads.max()])
