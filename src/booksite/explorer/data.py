"""What the token explorer shows of a model: each token's partners, AUROC, bigrams, and sentences.

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
from lnattn.attention.terms import SixTerms, six_terms
from lnattn.errors import ResultError
from lnattn.studies.affinity.study import Detokenization
from lnattn.studies.affinity.topk import best_partners
from lnattn.studies.affinity.vectors import token_vectors
from lnattn.text.counts import Counts
from lnattn.text.tokenizers import encode_documents
from lnattn.weights import Embeddings, FirstLayer

#: Partners shown on each side of a token in each head.
RANKS = 5
#: Longest sentence, in tokens, special ones included: its maps must fit on a phone.
LONGEST = 20


@dataclass(frozen=True, eq=False)
class Partners:
    """The strongest partners of some tokens, on both sides. All arrays: [side head token rank].

    Side 0: the token is the query and `ids` are keys; side 1: it is the key and they are queries.
    scores: T^ee, float64; bigrams: how often (key, query) stand next to each other in the corpus,
    the key first.
    """

    ids: Int[np.ndarray, "2 head token rank"]
    scores: Float[np.ndarray, "2 head token rank"]
    bigrams: Int[np.ndarray, "2 head token rank"]


@dataclass(frozen=True, eq=False)
class Explored:
    """All that the explorer shows of one model.

    tokens: int64 [token], the ids that have a view of their own, ascending; texts: of every id of
    the vocabulary; sentences: token ids of each sentence, in the order of `sentence_texts`.
    """

    folded: FoldedAttention
    embeddings: Embeddings
    counts: Counts
    study: Detokenization
    texts: Sequence[str]
    tokens: Int[np.ndarray, "token"]
    partners: Partners
    sentence_texts: Sequence[str]
    sentences: Sequence[Sequence[int]]

    def terms(self, sentence: int) -> SixTerms:
        """The six terms of one of the sentences."""
        return six_terms(self.folded, self.embeddings, list(self.sentences[sentence]))


def explore(
    model: FirstLayer,
    counts: Counts,
    study: Detokenization,
    sentences: Sequence[str],
    *,
    limit: int = 8192,
    texts: Sequence[str] | None = None,
) -> Explored:
    """Compute what the explorer shows of a model's first layer.

    counts: of a corpus in the model's tokens; study: its affinity study, for the AUROC; limit: how
    many tokens get a view of their own; texts: of all tokens, by default what the tokenizer says.
    Time: two products of the shown tokens with the vocabulary in each head.

    Raises `TokenError` for a model without tokenizer or token embeddings, `ResultError` for a
    sentence that is too long.
    """
    # In double precision, so that the order of additions does not decide which digit is shown.
    model = model.to(torch.float64)
    texts = token_texts(model.tokenizer, model.embeddings.vocab_size) if texts is None else texts
    encoded = encode_sentences(model, sentences)
    tokens = shown_tokens(counts, limit, sorted({token for ids in encoded for token in ids}))
    folded = fold(model.attention)
    return Explored(
        folded=folded,
        embeddings=model.embeddings,
        counts=counts,
        study=study,
        texts=texts,
        tokens=tokens,
        partners=find_partners(folded, model.embeddings, counts, tokens),
        sentence_texts=sentences,
        sentences=encoded,
    )


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


def shown_tokens(counts: Counts, limit: int, always: Sequence[int] = ()) -> Int[np.ndarray, "n"]:
    """Which tokens get a view of their own, ascending: all, or `always` and the most frequent.

    Among equally frequent tokens the smaller id comes first. Raises `ResultError` for a limit
    below the number of tokens that must always be there.
    """
    wanted = np.unique(np.asarray(always, dtype=np.int64))
    if limit < max(1, len(wanted)):
        raise ResultError(f"a limit of {limit} tokens leaves no room for the {len(wanted)} needed.")
    by_count = np.argsort(-counts.unigrams, kind="stable")
    rest = by_count[~np.isin(by_count, wanted)][: limit - len(wanted)]
    return np.sort(np.concatenate([wanted, rest]))


def find_partners(
    folded: FoldedAttention,
    embeddings: Embeddings,
    counts: Counts,
    tokens: Int[np.ndarray, "n"],
    ranks: int = RANKS,
) -> Partners:
    """The strongest keys and queries of the given tokens among the whole vocabulary."""
    vectors = token_vectors(folded, embeddings)
    ranks = min(ranks, vectors.vocab_size)
    found = [best_partners(side, ranks, query_ids=tokens) for side in (vectors, vectors.swapped())]
    ids = np.stack([side.ids for side in found])
    own = np.broadcast_to(tokens[:, None], ids.shape[1:])
    bigrams = [bigram_counts(counts, ids[0], own), bigram_counts(counts, own, ids[1])]
    return Partners(ids, np.stack([side.scores for side in found]), np.stack(bigrams))


def bigram_counts(counts: Counts, first: np.ndarray, then: np.ndarray) -> np.ndarray:
    """count(first, then) for two arrays of token ids of one shape, elementwise: int64."""
    vocab = counts.vocab_size
    previous = np.repeat(np.arange(vocab), np.diff(counts.bigrams.indptr))
    pairs = previous * vocab + counts.bigrams.indices  # ascending: rows and columns are sorted
    wanted = first.astype(np.int64) * vocab + then
    place = np.searchsorted(pairs, wanted)
    found = np.zeros(wanted.shape, dtype=np.int64)
    inside = place < len(pairs)
    inside[inside] = pairs[place[inside]] == wanted[inside]
    found[inside] = counts.bigrams.data[place[inside]]
    return found


def neighbours(tokens: np.ndarray, counts: np.ndarray, most: int = RANKS) -> list[tuple[int, int]]:
    """The `most` frequent of a token's neighbours as (token, count); ties by the smaller id."""
    order = np.argsort(-counts, kind="stable")[:most]
    return [(int(tokens[place]), int(counts[place])) for place in order]
