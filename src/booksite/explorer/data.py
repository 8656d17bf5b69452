"""What the token explorer shows of a model: each token's partners, AUROC, bigrams; sentences.

Everything is computed by the studies of the book; this module only asks them for many tokens at
once. How the results are written for a browser is the matter of `booksite.explorer.scripts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from booksite.explorer.texts import token_texts
from lnattn.attention.folding import FoldedAttention, fold
from lnattn.attention.forward import causal_mask
from lnattn.attention.terms import TERMS, SixTerms, six_terms
from lnattn.errors import ResultError
from lnattn.studies.affinity.study import Detokenization
from lnattn.studies.affinity.topk import Partners, partners
from lnattn.studies.affinity.vectors import TokenVectors, ranks, token_vectors
from lnattn.studies.contribution.study import kl_of_removal
from lnattn.text.counts import Counts
from lnattn.text.tokenizers import encode_documents
from lnattn.weights import FirstLayer

#: Partners listed for a token in each head: keys that it likes as a query, queries that like it.
RANKS = (3, 3)
#: So many tokens, the most frequent, have both lists; the others have none.
FREQUENT = 5000
#: A pair of tokens that stand next to each other less often is no habit of the text.
LEAST_COUNT = 5
#: Of a long text, only pairs are listed that it holds at least once in so many tokens.
A_PAIR_IN = 250_000
#: Longest sentence, in tokens, special ones included: its maps must fit on a phone.
LONGEST = 64
#: The page opens on a sub-word piece whose main predecessor makes up at least this share of the
#: tokens before it, seen at least so many times.
OPENING_SHARE, OPENING_COUNT = 0.25, 20


@dataclass(frozen=True, eq=False)
class Explored:
    """All that the explorer shows of one model's tokens.

    keys, queries: partners of the `FREQUENT` tokens on both sides; None for a model whose
    embeddings the browser has: it finds them itself.
    main: int64 [vocab], the token that comes most often before each, −1 where none does so at least
    `LEAST_COUNT` times; main_rank: int64 [vocab head], its rank among all keys, 1 for the best, 0
    where there is none.
    start: the token that the page opens on.
    """

    model: FirstLayer
    folded: FoldedAttention
    counts: Counts
    study: Detokenization
    texts: Sequence[str]
    keys: Partners | None
    queries: Partners | None
    main: Int[np.ndarray, "vocab"]
    main_rank: Int[np.ndarray, "vocab head"]
    start: int


def explore(
    model: FirstLayer,
    counts: Counts,
    study: Detokenization,
    *,
    listed: bool = True,
    always: Sequence[str] = (),
    frequent: int = FREQUENT,
    texts: Sequence[str] | None = None,
) -> Explored:
    """Compute what the explorer shows of the tokens of a model.

    counts: of a corpus in the model's tokens; study: its affinity study, for the AUROC; listed:
    whether partners are listed here, and not found by the browser; always: texts of tokens that
    have both lists however rare they are; texts: of all tokens, by default what the tokenizer says.
    Time: two products of the vocabulary with itself in each head, at most.

    Raises `TokenError` for a model without tokenizer or token embeddings.
    """
    texts = token_texts(model.tokenizer, model.embeddings.vocab_size) if texts is None else texts
    folded = fold(model.attention)
    vectors = token_vectors(folded, model.embeddings)  # more digits than are shown: no need of 64
    main = main_predecessors(counts)
    main_rank = np.zeros((vectors.vocab_size, vectors.n_heads), dtype=np.int64)
    asked = np.flatnonzero(main >= 0)
    if len(asked):
        main_rank[asked] = ranks(vectors, asked.tolist(), main[asked].tolist()).numpy()
    start = opening_token(counts, texts, main, main_rank)
    lists: tuple[Partners | None, Partners | None] = (None, None)
    if listed:
        tokens = np.union1d(frequent_tokens(counts, frequent, texts, always), [start])
        lists = (
            partners_of(vectors, tokens, RANKS[0]),
            partners_of(vectors.swapped(), tokens, RANKS[1]),
        )
    return Explored(model, folded, counts, study, texts, *lists, main, main_rank, start)


def partners_of(vectors: TokenVectors, tokens: Int[np.ndarray, "n"], most: int) -> Partners:
    """The `most` strongest keys of the given query tokens among the whole vocabulary."""
    return partners(vectors, tokens, min(most, vectors.vocab_size))


def frequent_tokens(
    counts: Counts, most: int, texts: Sequence[str], always: Sequence[str] = ()
) -> Int[np.ndarray, "n"]:
    """The `most` most frequent tokens and those with one of the texts `always`, ascending.

    Among equally frequent tokens the smaller id comes first.
    """
    named = [token for token, text in enumerate(texts) if text in set(always)]
    by_count = np.argsort(-counts.unigrams, kind="stable")[:most]
    return np.union1d(by_count, np.array(named, dtype=np.int64))


def listed_from(counts: Counts) -> int:
    """How often tokens must stand next to each other to be listed, by the length of the text."""
    return max(LEAST_COUNT, counts.tokens // A_PAIR_IN)


def main_predecessors(counts: Counts) -> Int[np.ndarray, "vocab"]:
    """The token that stands most often before each; −1 where none does `LEAST_COUNT` times.

    Among equally frequent ones the smaller id.
    """
    columns = counts.bigrams.tocsc()
    main = np.full(counts.vocab_size, -1, dtype=np.int64)
    for token, (first, last) in enumerate(zip(columns.indptr, columns.indptr[1:], strict=False)):
        seen = columns.data[first:last]
        if len(seen) and seen.max() >= LEAST_COUNT:
            main[token] = columns.indices[first:last][seen == seen.max()].min()
    return main


def opening_token(
    counts: Counts, texts: Sequence[str], main: np.ndarray, main_rank: np.ndarray
) -> int:
    """The token shown first: a strong piece of a word, by a rule and not by hand.

    Of the pieces that continue a word (all tokens, where the vocabulary marks none) with one
    predecessor that makes up `OPENING_SHARE` and was seen `OPENING_COUNT` times: the one whose
    predecessor ranks best in its best head; among equals the pair that was seen most often. Where
    no token qualifies, the most frequent one.
    """
    pairs = enumerate(main.tolist())
    seen = np.array([counts.count(key, query) if key >= 0 else 0 for query, key in pairs])
    strong = (seen >= OPENING_COUNT) & (seen >= OPENING_SHARE * counts.unigrams)
    pieces = np.array([text.startswith("##") for text in texts])
    able = np.flatnonzero(strong & pieces if (strong & pieces).any() else strong)
    if not len(able):
        return int(np.argmax(counts.unigrams))
    order = np.lexsort((able, -seen[able], main_rank[able].min(axis=1)))
    return int(able[order[0]])


# ---- Sentences -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Opening:
    """The sentence that is shown first, and the view of it: head and query.

    ids, tokens: its tokens and their texts; terms: in double precision.
    """

    text: str
    ids: Sequence[int]
    tokens: Sequence[str]
    terms: SixTerms
    head: int
    query: int


def strongest_view(model: FirstLayer, sentences: Sequence[str]) -> Opening:
    """The sentence, head and query in which taking out one term moves attention most.

    The model's own first token is no query, since it sees only itself. Raises `ResultError` for a
    sentence longer than `LONGEST`.
    """
    model = model.to(torch.float64)
    folded, best, found = fold(model.attention), -1.0, None
    texts = token_texts(model.tokenizer, model.embeddings.vocab_size)
    for text, ids in zip(sentences, encode_sentences(model, sentences), strict=True):
        terms = six_terms(folded, model.embeddings, ids)
        moved = torch.stack([removal(terms, name) for name in TERMS]).amax(dim=0)
        if float(moved.max()) > best:
            best = float(moved.max())
            head, query = divmod(int(moved.argmax()), len(ids))
            found = Opening(text, ids, [texts[i] for i in ids], terms, head, query)
    if found is None:
        raise ResultError("the explorer has no sentence to open with; give it one.")
    return found


def removal(terms: SixTerms, name: str) -> Float[torch.Tensor, "head query"]:
    """KL of taking out one term, in nats, for every query of every head."""
    scores = terms.scores() / terms.folded.scale
    if terms.folded.causal:
        hidden = ~causal_mask(*scores.shape[-2:])
        scores = scores.masked_fill(hidden, -torch.inf)
    return kl_of_removal(scores, terms[name] / terms.folded.scale)


def encode_sentences(model: FirstLayer, sentences: Sequence[str]) -> list[list[int]]:
    """Token ids of the sentences, framed by the special tokens that the model expects."""
    # A window of attention that is shorter than a sentence would hide keys that the page shows.
    most = min(LONGEST, model.embeddings.n_positions, model.attention.window or LONGEST)
    encoded = list(encode_documents(sentences, model.tokenizer, most + 1))
    for sentence, ids in zip(sentences, encoded, strict=True):
        if len(ids) > most:
            raise ResultError(
                f"the explorer's sentence {sentence!r} has more than {most} tokens in "
                f"{model.name}; shorten it."
            )
    return encoded
