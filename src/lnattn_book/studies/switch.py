"""Who looks back: attention to the token before from pieces of words and from whole words.

`switch_study` asks texts, of models with learned and with rotary positions; `constants_study` asks
the weights of rotary ones, and their nulls: k₀ turned in every plane of the rotation, the kinds of
queries exchanged, tokens alike in frequency and norm, heads in random order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lnattn.affinity.subwords import (
    KindsInText,
    TokenClasses,
    kinds_in_text,
    mostly_continuing,
    token_classes,
)
from lnattn.attention.folding import fold
from lnattn.attention.terms import PairTerms, six_terms
from lnattn.rotary.fold import FoldedRelative, fold_relative, mean_vectors
from lnattn.rotary.position import permuted_heads
from lnattn.rotary.terms import DistanceTerms, distance_terms
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer, TokenEmbeddings
from lnattn.storage import Result, provenance
from lnattn.text.corpora import read_documents
from lnattn.text.tokenizers import encode_documents
from lnattn_book.studies.constants import NearlyASum, coordinate_energies, nearly_a_sum
from lnattn_book.studies.looking_back import looking_back
from lnattn_book.studies.samples import sample_file, sample_tokens, token_counts, tokenizer_of
from lnattn_book.studies.wanted import back_directions, turned_constants, wants_the_token_before

#: The kinds of queries, in the order of all arrays.
KINDS = KindsInText._fields
#: Tokens of each text, and the first of them that is asked: those before see few keys.
LENGTH, FIRST = 128, 32
#: How often kinds are exchanged, and constants turned on text; how often constants are turned.
NULLS, TURNS = 20, 2000
#: Occurrences below which a token's kind and frequency are not known from the counts.
MIN_COUNT = 5
#: Classes of frequency, and of norm, within which tokens count as alike.
CLASSES = 10
#: Distances over which scores are split into f(q, Δ) + g(q, k).
DISTANCES = range(64)


def texts_of(model: AnyFirstLayer) -> list[list[int]]:
    """The sample's documents as a model reads them, cut to `LENGTH` tokens."""
    if isinstance(model, RelativeFirstLayer):
        return [list(ids[:LENGTH]) for ids in sample_tokens(model)]
    texts = read_documents([sample_file()])
    return [list(ids) for ids in encode_documents(texts, tokenizer_of(model), LENGTH)]


def classes_of(model: AnyFirstLayer) -> TokenClasses:
    """Which tokens of a model are spelled as continuations, and which as beginnings."""
    return token_classes(tokenizer_of(model), model.embeddings.vocab_size)


def asked(classes: TokenClasses, token_ids: list[int]) -> Bool[np.ndarray, "kind n"]:
    """Which tokens of a text are asked as queries of each kind: those behind the first `FIRST`."""
    kinds = np.stack(kinds_in_text(classes, token_ids))
    kinds[:, :FIRST] = False
    return kinds


# ---- Texts ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SwitchStudy(Result):
    """Attention to the token before by kind of query: sums over the queries of each text.

    queries: how many there are; attention, shares and without: as `LookingBack`; exchanged:
    attention where the kinds are dealt anew among the queries of each text.
    """

    NAME: ClassVar[str] = "switch"

    queries: Int[np.ndarray, "kind text"]
    attention: Float[np.ndarray, "kind text head"]
    shares: Float[np.ndarray, "term kind text head"]
    without: Float[np.ndarray, "term kind text head"]
    exchanged: Float[np.ndarray, "null kind text head"]
    record: Mapping[str, Any]

    def mean(self, sums: Float[np.ndarray, "*what kind text head"]) -> Float[np.ndarray, "..."]:
        """Means over all queries of a kind: [*what kind head]."""
        return sums.sum(axis=-2) / self.queries.sum(axis=1)[:, None]

    def of(self, term: str) -> int:
        """The place of a term."""
        return list(self.record["terms"]).index(term)


#: Makes the terms of a text.
Split = Callable[[list[int]], PairTerms]


def split_of(model: AnyFirstLayer, k0: Float[Tensor, "key_head d_head"] | None = None) -> Split:
    """What makes the six terms of texts, or the four, whose constants are means by counts.

    k0: of a rotary model, what all its keys have in place of their own constant: another model.
    """
    if not isinstance(model, RelativeFirstLayer):
        learned = fold(model.attention)
        return partial(six_terms, learned, model.embeddings)
    embeddings = model.embeddings
    relative = fold_relative(model.attention)
    counts = torch.from_numpy(token_counts(model)[0].unigrams)
    constants = mean_vectors(relative, embeddings, counts)

    def split(ids: list[int]) -> DistanceTerms:
        terms = distance_terms(relative, embeddings, ids, constants=constants)
        if k0 is None:
            return terms
        keys = terms.keys + (k0 - constants.k0)[:, None]
        return replace(terms, keys=keys, constants=replace(constants, k0=k0))

    return split


def switch_study(model: AnyFirstLayer, source: Mapping[str, Any] | None = None) -> SwitchStudy:
    """Ask the shipped texts of a model; source: facts for the record."""
    classes = classes_of(model)
    split = split_of(model)
    generator = np.random.default_rng(0)
    rows = []
    names: tuple[str, ...] = ()
    for token_ids in texts_of(model):
        kinds = asked(classes, token_ids)
        terms = split(token_ids)
        names = terms.names
        back = looking_back(terms)
        dealt = [_dealt(kinds, generator) for _ in range(NULLS)]
        rows.append(
            (
                kinds.sum(axis=1),
                _sums(back.attention, kinds),
                _sums(back.shares, kinds),
                _sums(back.without, kinds),
                np.stack([_sums(back.attention, exchanged) for exchanged in dealt]),
            )
        )
    queries, attention, shares, without, exchanged = zip(*rows, strict=True)
    return SwitchStudy(
        queries=np.stack(queries, axis=-1),
        attention=np.stack(attention, axis=-2),
        shares=np.stack(shares, axis=-2),
        without=np.stack(without, axis=-2),
        exchanged=np.stack(exchanged, axis=-2),
        record=provenance(
            what="attention to the token before, by kind of query and by term",
            model=model.name,
            terms=list(names),
            kinds=list(KINDS),
            texts=len(rows),
            length=LENGTH,
            first=FIRST,
            nulls=NULLS,
            **(source or {}),
        ),
    )


def _sums(
    values: Float[Tensor, "*what query"], kinds: Bool[np.ndarray, "kind n"]
) -> Float[np.ndarray, "..."]:
    """Sums over the queries of each kind, the text's first left out: [*what kind head]."""
    chosen = torch.from_numpy(kinds[:, 1:]).to(values.dtype)
    return torch.einsum("...hq,kq->...kh", values, chosen).numpy()


def _dealt(
    kinds: Bool[np.ndarray, "kind n"], generator: np.random.Generator
) -> Bool[np.ndarray, "kind n"]:
    """The same kinds, dealt anew among the tokens that have one."""
    places = np.flatnonzero(kinds.any(axis=0))
    exchanged = kinds.copy()
    exchanged[:, places] = kinds[:, generator.permutation(places)]
    return exchanged


# ---- Weights of rotary models --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ConstantsStudy(Result):
    """What the constants of a rotary model do, by its weights, beside nulls.

    nats: T^ed of pieces less that of words, at distance 1 less its mean farther back, over the
    scale, mean over tokens; matched: the same of tokens alike in frequency and norm; turned_nats:
    with k₀ turned; turned_attention, turned_ed: attention to the token before, and the share of
    T^ed in it, with k₀ turned, sums over queries; queries: how many. sum_variance, null_variance:
    the fields of `NearlyASum`, of the model and with its heads in random order; massive,
    null_massive: times the mean, the constant's share of the largest coordinate and of the rest, of
    query heads and then of key heads.
    """

    NAME: ClassVar[str] = "constants"

    nats: Float[np.ndarray, "head"]
    matched: Float[np.ndarray, "head"]
    turned_nats: Float[np.ndarray, "turn head"]
    queries: Int[np.ndarray, "kind text"]
    turned_attention: Float[np.ndarray, "draw kind text head"]
    turned_ed: Float[np.ndarray, "draw kind text head"]
    sum_variance: Float[np.ndarray, "part head"]
    null_variance: Float[np.ndarray, "null part head"]
    massive: Float[np.ndarray, "share side"]
    null_massive: Float[np.ndarray, "null share side"]
    record: Mapping[str, Any]

    @property
    def chance(self) -> Float[np.ndarray, "head"]:
        """The share of turned constants that set the kinds as far apart, in either direction."""
        return chance_of(self.nats, self.turned_nats)

    @property
    def n_heads(self) -> int:
        """How many query heads there are."""
        return len(self.nats)


def chance_of(
    nats: Float[np.ndarray, "head"], turned: Float[np.ndarray, "turn head"]
) -> Float[np.ndarray, "head"]:
    """How many of all, the head's own among them, are as far from 0 as the head's own: a share."""
    reach = (np.abs(turned) >= np.abs(nats)).sum(axis=0)
    return (1 + reach) / (1 + len(turned))


def correlation_of(variance: Float[np.ndarray, "part head"]) -> Float[np.ndarray, "head"]:
    """Of scores with f(q, Δ) + g(q, k), from the fields of `NearlyASum`."""
    return NearlyASum(*variance).correlation


def constants_study(
    model: RelativeFirstLayer, source: Mapping[str, Any] | None = None
) -> ConstantsStudy:
    """Ask the weights of a rotary model; source: facts for the record."""
    counts, counted = token_counts(model)
    classes = classes_of(model)
    folded = fold_relative(model.attention)
    embeddings = model.embeddings
    constants = mean_vectors(folded, embeddings, torch.from_numpy(counts.unigrams))
    often = counts.unigrams >= MIN_COUNT
    pieces = np.flatnonzero(mostly_continuing(counts, classes) & often)
    words = np.flatnonzero(classes.word & often)
    wanted = {
        kind: wants_the_token_before(folded, embeddings, tokens.tolist(), constants).numpy()
        for kind, tokens in zip(KINDS, (pieces, words), strict=True)
    }
    alike = {
        kind: np.stack([np.log(counts.unigrams[tokens]), _norms(embeddings, tokens)])
        for kind, tokens in zip(KINDS, (pieces, words), strict=True)
    }
    apart = _mean_query(folded, embeddings, pieces) - _mean_query(folded, embeddings, words)
    turns = [turned_constants(folded, constants, seed) for seed in range(TURNS)]
    turned_nats = [
        torch.einsum("hd,hd->h", apart, back_directions(folded, turn)) / folded.scale
        for turn in turns
    ]
    texts = texts_of(model)
    kinds = [asked(classes, ids) for ids in texts]
    on_text = [_turned_on_text(split_of(model, turn.k0), texts, kinds) for turn in turns[:NULLS]]
    massive = _massive(model, counts.unigrams)
    variance = nearly_a_sum(folded, embeddings, counts.unigrams, DISTANCES)
    null_variance = []
    null_massive = []
    for null in permuted_heads(model):
        null_massive.append(_massive(null, counts.unigrams))
        null_folded = fold_relative(null.attention)
        null_variance.append(
            np.stack(nearly_a_sum(null_folded, embeddings, counts.unigrams, DISTANCES))
        )
    return ConstantsStudy(
        nats=wanted["piece"].mean(axis=1, dtype=float) - wanted["word"].mean(axis=1, dtype=float),
        matched=matched_difference(wanted, alike),
        turned_nats=torch.stack(turned_nats).double().numpy(),
        queries=np.stack([kind.sum(axis=1) for kind in kinds], axis=-1),
        turned_attention=np.stack([attention for attention, _ in on_text]),
        turned_ed=np.stack([ed for _, ed in on_text]),
        sum_variance=np.stack(variance),
        null_variance=np.stack(null_variance),
        massive=massive,
        null_massive=np.stack(null_massive),
        record=provenance(
            what="what the constants of a rotary first layer do, by weights, beside nulls",
            model=model.name,
            counts=counted,
            pieces=len(pieces),
            words=len(words),
            min_count=MIN_COUNT,
            distances=len(DISTANCES),
            **(source or {}),
        ),
    )


def matched_difference(
    wanted: Mapping[str, Float[np.ndarray, "head token"]],
    alike: Mapping[str, Float[np.ndarray, "what token"]],
) -> Float[np.ndarray, "head"]:
    """Mean of pieces less that of words within cells of tokens alike in all of `alike`.

    A cell is a tenth of all tokens by each; it counts as often as it holds pieces, if it holds
    words, too. NaN where no cell holds both.
    """
    both = np.concatenate([alike[kind] for kind in KINDS], axis=1)
    edges = np.quantile(both, np.arange(1, CLASSES) / CLASSES, axis=1).T
    cell = {}
    for kind in KINDS:
        tenths = [np.searchsorted(*pair) for pair in zip(edges, alike[kind], strict=True)]
        cell[kind] = np.ravel_multi_index(tuple(tenths), (CLASSES,) * len(tenths))
    size = CLASSES ** len(edges)
    number = {kind: np.bincount(cell[kind], minlength=size) for kind in KINDS}
    weights = np.where(number["word"] > 0, number["piece"], 0)
    if not weights.any():
        return np.full(len(wanted["piece"]), np.nan)
    differences = []
    for head in range(len(wanted["piece"])):
        mean = {
            kind: np.bincount(cell[kind], wanted[kind][head], size) / np.maximum(number[kind], 1)
            for kind in KINDS
        }
        differences.append(np.average(mean["piece"] - mean["word"], weights=weights))
    return np.array(differences)


def _norms(
    embeddings: TokenEmbeddings, tokens: Int[np.ndarray, "token"]
) -> Float[np.ndarray, "token"]:
    return embeddings.rows(torch.from_numpy(tokens)).norm(dim=1).double().numpy()


def _mean_query(
    folded: FoldedRelative, embeddings: TokenEmbeddings, tokens: Int[np.ndarray, "token"]
) -> Float[Tensor, "head d_head"]:
    return folded.queries(embeddings.rows(torch.from_numpy(tokens))).mean(dim=1)


def _turned_on_text(
    split: Split, texts: list[list[int]], kinds: list[np.ndarray]
) -> tuple[Float[np.ndarray, "kind text head"], Float[np.ndarray, "kind text head"]]:
    """Attention to the token before and the share of T^ed in it: sums over queries."""
    attention = []
    ed = []
    for token_ids, of_text in zip(texts, kinds, strict=True):
        terms = split(token_ids)
        back = looking_back(terms)
        attention.append(_sums(back.attention, of_text))
        ed.append(_sums(back.shares[terms.names.index("ed")], of_text))
    return np.stack(attention, axis=-2), np.stack(ed, axis=-2)


def _massive(
    model: RelativeFirstLayer, unigrams: Int[np.ndarray, "vocab"]
) -> Float[np.ndarray, "share side"]:
    sides = coordinate_energies(fold_relative(model.attention), model.embeddings, unigrams)
    return np.concatenate(
        [[side.times_the_mean, side.of_the_largest, side.of_the_rest] for side in sides], axis=1
    )
