"""Sub-words: does a head know, from the weights alone, which token a piece of a word continues?

Kamoda et al. 2025, §4. The queries are pieces that continue a word, and the key to look for is the
token that mostly stands before them; both are chosen by a rule, from a vocabulary's spelling and a
corpus's counts. Every number stands beside that of pieces permuted among themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import binomtest

from lnattn.affinity.scores import for_each_score_block
from lnattn.attention.vectors import TokenVectors
from lnattn.errors import CorpusError, ShapeError, TokenError
from lnattn.inputs import one_of, real_number, require, whole_number
from lnattn.text.counts import Counts

#: The ranks up to which a predecessor counts as found.
TOPS = (1, 10)
#: What stands for a space at the beginning of a token, in byte-level BPE and in SentencePiece.
_SPACES = ("Ġ", "▁")


@dataclass(frozen=True, eq=False)
class TokenClasses:
    """Which tokens continue a word and which begin one. Both: bool [vocab], never both true.

    Only tokens of letters are in a class; digits, punctuation and special tokens are in neither.
    capital: [vocab], which of them begin with a capital. wordpiece: whether continuation is spelled
    '##' (else: no space before the letters), where it has no capital. Raises `ShapeError` for flags
    of different vocabularies.
    """

    continuation: Bool[np.ndarray, "vocab"]
    word: Bool[np.ndarray, "vocab"]
    capital: Bool[np.ndarray, "vocab"]
    wordpiece: bool = False

    def __post_init__(self) -> None:
        sizes = [len(self.continuation), len(self.word), len(self.capital)]
        if len(set(sizes)) != 1:
            raise ShapeError(f"the flags of one vocabulary must have one length, not {sizes}.")

    @property
    def letters(self) -> Bool[np.ndarray, "vocab"]:
        """Tokens of letters, whether they begin a word or continue one."""
        return self.continuation | self.word


def token_classes(tokenizer: Any, vocab_size: int) -> TokenClasses:
    """The classes of a Hugging Face tokenizer's tokens; ids that it does not know are in none.

    A byte-level token without a space may also begin a text: the counts tell
    (`continuation_pieces`). Raises `TokenError` where there is no tokenizer.
    """
    if not hasattr(tokenizer, "get_vocab"):
        raise TokenError(
            f"tokenizer must be a Hugging Face tokenizer, not {type(tokenizer).__name__}; take the "
            "`tokenizer` of lnattn.load_first_layer(name)."
        )
    whole_number(vocab_size, "vocab_size")
    vocabulary = tokenizer.get_vocab()
    special = set(tokenizer.all_special_ids)
    wordpiece = "##s" in vocabulary
    continuation = np.zeros(vocab_size, dtype=bool)
    word = np.zeros(vocab_size, dtype=bool)
    capital = np.zeros(vocab_size, dtype=bool)
    for piece, token in vocabulary.items():
        if token in special or token >= vocab_size:
            continue
        if wordpiece:
            text = piece.removeprefix("##")
            continues = piece.startswith("##")
        else:
            text = tokenizer.convert_tokens_to_string([piece]).strip()
            continues = not piece.startswith(_SPACES)
        if text.isalpha():
            continuation[token] = continues
            word[token] = not continues
            capital[token] = text[0].isupper() and not (wordpiece and continues)
    return TokenClasses(continuation=continuation, word=word, capital=capital, wordpiece=wordpiece)


@dataclass(frozen=True)
class PieceRule:
    """Which continuation pieces are asked about.

    min_count: how often a piece must follow another token; min_share: its main predecessor's share.
    Raises `ShapeError` for a count below 1, or a share that is not above 0 and at most 1.
    """

    min_count: int
    min_share: float

    def __post_init__(self) -> None:
        whole_number(self.min_count, "PieceRule.min_count")
        real_number(self.min_share, "PieceRule.min_share", 0, 1)
        if self.min_share == 0:
            raise ShapeError("PieceRule.min_share must be above 0: every piece has that share.")


#: Which pieces are asked about, by how a vocabulary spells what continues a word.
PIECE_RULES: dict[str, PieceRule] = {
    "wordpiece": PieceRule(min_count=20, min_share=0.25),
    "byte-level": PieceRule(min_count=100, min_share=0.30),
}


@dataclass(frozen=True, eq=False)
class Pieces:
    """Continuation pieces with their main predecessors, in the order of the vocabulary.

    queries, keys: token ids; share: the part of the pairs before a query that is its key's; count:
    how often the query follows any token.
    """

    queries: Int[np.ndarray, "piece"]
    keys: Int[np.ndarray, "piece"]
    share: Float[np.ndarray, "piece"]
    count: Int[np.ndarray, "piece"]

    def __len__(self) -> int:
        return len(self.queries)

    def at(self, places: Int[np.ndarray, "some"]) -> Pieces:
        """Some of them."""
        return Pieces(
            *(getattr(self, name)[places] for name in ("queries", "keys", "share", "count"))
        )


def continuation_pieces(counts: Counts, classes: TokenClasses, rule: PieceRule) -> Pieces:
    """The pieces that fit a rule; there may be none.

    The main predecessor is the most frequent one, of equal ones the one with the smaller id, and
    must be of letters itself. Raises `CorpusError` where counts and classes are of different
    vocabularies.
    """
    check_vocabularies(counts.vocab_size, len(classes.word))
    before = counts.by_next
    total = np.asarray(before.sum(axis=0)).ravel()
    main = np.asarray(before.argmax(axis=0)).ravel()
    share = before.max(axis=0).toarray().ravel() / np.maximum(total, 1)
    fits = classes.continuation & classes.letters[main]
    queries = np.flatnonzero(fits & (total >= rule.min_count) & (share >= rule.min_share))
    return Pieces(queries=queries, keys=main[queries], share=share[queries], count=total[queries])


def check_vocabularies(counted: int, spelled: int) -> None:
    """Raise `CorpusError` unless counts and spelling are of vocabularies of one size."""
    if counted != spelled:
        raise CorpusError(
            f"the counts are over {counted} tokens but the tokenizer's classes over {spelled}; "
            "count the corpus with the model's own tokenizer."
        )


@dataclass(frozen=True, eq=False)
class Subwords:
    """Where the main predecessors of pieces stand among all keys. Made by `subword_ranks`.

    ranks: int32 [head piece], 1 for the best key of the vocabulary, ties sharing the better rank.
    chance: [top draw place], the share of pieces found within `TOPS` when the pieces are permuted;
    the last place is the best head's, those before it the heads'. NaN for fewer than two pieces.
    """

    pieces: Pieces
    ranks: Int[np.ndarray, "head piece"]
    chance: Float[np.ndarray, "top draw place"]

    @property
    def best_rank(self) -> Int[np.ndarray, "piece"]:
        """The rank in the head where it is best."""
        return self.ranks.min(axis=0)

    @property
    def best_head(self) -> Int[np.ndarray, "piece"]:
        """The head where the rank is best, of equal ones the first."""
        return self.ranks.argmin(axis=0)

    def table(self, top: int = 10, level: float = 0.95) -> pd.DataFrame:
        """One row a head, and 'best' for the best head of each piece; every column is a share.

        found, low, high: pieces whose predecessor is within rank `top`, with Wilson's interval;
        chance, chance low, chance high: the same of permuted pieces. Raises `CorpusError` without
        pieces, `ShapeError` for a top that is none of `TOPS`, or a level outside 0 … 1.
        """
        one_of(top, TOPS, "top")
        real_number(level, "level", 0, 1, open_ends=True)
        n = len(self.pieces)
        if not n:
            raise CorpusError("no piece fits the rule; count more text or ask for less.")
        tails = [(1 - level) / 2, (1 + level) / 2]
        shares_by_chance = self.chance[TOPS.index(top)].T  # [place draw]
        rows = []
        for ranks, by_chance in zip([*self.ranks, self.best_rank], shares_by_chance, strict=True):
            hits = int((ranks <= top).sum())
            interval = binomtest(hits, n).proportion_ci(level, method="wilson")
            chance_low, chance_high = np.quantile(by_chance, tails)
            rows.append(
                {
                    "found": hits / n,
                    "low": interval.low,
                    "high": interval.high,
                    "chance": by_chance.mean(),
                    "chance low": chance_low,
                    "chance high": chance_high,
                }
            )
        return pd.DataFrame(rows, index=pd.Index([*range(len(self.ranks)), "best"], name="head"))

    def excess(self, top: int = 10) -> float:
        """Share found in the best head beyond mean chance."""
        best = self.table(top).loc["best"]
        return float(best["found"] - best["chance"])

    def heads_of(self, top: int = 10) -> Int[np.ndarray, "head"]:
        """How many of the pieces found within `top` have their best rank in each head."""
        return np.bincount(self.best_head[self.best_rank <= top], minlength=len(self.ranks))

    def examples(self, n: int = 12) -> Int[np.ndarray, "example"]:
        """Places of the n best examples, by rank and then by share, one for each predecessor."""
        order = np.lexsort((-self.pieces.share, self.best_rank))
        _, first = np.unique(self.pieces.keys[order], return_index=True)
        return order[np.sort(first)[:n]]


def subword_ranks(
    vectors: TokenVectors, pieces: Pieces, *, draws: int = 1000, seed: int = 0
) -> Subwords:
    """Rank of every piece's main predecessor among all keys, in every head, beside chance.

    draws: how often the pieces are permuted, each time along one random cycle, so that none keeps
    its own; keys stay what they are. A head's highest scores of a piece are sorted once, and the
    keys of *all* pieces looked up in them. Raises `ShapeError` for no draw.
    """
    require(vectors, TokenVectors, "vectors")
    whole_number(draws, "draws")
    n = len(pieces)
    heads = vectors.n_heads
    ranks = np.empty((heads, n), dtype=np.int32)
    chance = np.full((len(TOPS), draws, heads + 1), np.nan)
    rng = np.random.default_rng(seed)
    cycles = [cycle(n, rng) for _ in range(draws)] if n > 1 else []
    best = np.full((n, n), np.iinfo(np.int32).max, dtype=np.int32)
    for head in range(heads if n else 0):
        ranks[head], table = _all_ranks(vectors, head, pieces)
        np.minimum(best, table, out=best)
        if cycles:
            chance[:, :, head] = _shares(table, np.stack(cycles))
    if cycles:
        chance[:, :, -1] = _shares(best, np.stack(cycles))
    return Subwords(pieces=pieces, ranks=ranks, chance=chance)


def _all_ranks(
    vectors: TokenVectors, head: int, pieces: Pieces
) -> tuple[Int[np.ndarray, "query"], Int[np.ndarray, "query key"]]:
    """Ranks of the pieces' keys for their own queries, and for all; there, those beyond `TOPS` tie.

    What tie have one rank more than the last of `TOPS`.
    """
    keys, place = np.unique(pieces.keys, return_inverse=True)
    rank_of_piece = np.empty(len(pieces), dtype=np.int32)
    ranks = np.empty((len(pieces), len(keys)), dtype=np.int32)
    queries = vectors.queries_of(head, torch.from_numpy(pieces.queries))
    most = min(max(TOPS), vectors.vocab_size)

    def visit(begin: int, scores: np.ndarray) -> None:
        rows = np.arange(len(scores))
        scores_of_keys = scores[:, keys]
        score_to_beat = scores_of_keys[rows, place[begin + rows], None]
        rank_of_piece[begin + rows] = 1 + (scores > score_to_beat).sum(axis=1)
        scores.partition(-most, axis=1)
        highest = np.sort(scores[:, -most:], axis=1)
        for row in rows:
            not_above = np.searchsorted(highest[row], scores_of_keys[row], side="right")
            ranks[begin + row] = 1 + most - not_above

    for_each_score_block(visit, queries, vectors.keys_of(head))
    return rank_of_piece, ranks[:, place]


def cycle(n: int, rng: np.random.Generator) -> Int[np.ndarray, "n"]:
    """A random permutation without fixed points: every place is sent on to the next of a round."""
    order = rng.permutation(n)
    sent = np.empty(n, dtype=np.int64)
    sent[order] = np.roll(order, -1)
    return sent


def _shares(
    table: Int[np.ndarray, "query key"], cycles: Int[np.ndarray, "draw query"]
) -> Float[np.ndarray, "top draw"]:
    """Share of keys within each of `TOPS`, asked by the queries that the cycles send to them."""
    drawn = np.take_along_axis(table, cycles.T, axis=1)  # [query draw]
    return np.stack([(drawn <= top).mean(axis=0) for top in TOPS])
