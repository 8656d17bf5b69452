"""For every text: the least and the greatest attention that a first-layer head pays a key.

At the first layer a score depends on the query's token, the key's token and their places alone, and
the tokens at the other places are free. With the query's token v at place i and the key's token u
at place j, and with s_k(w) the score of token w at place k, over the scale::

    least α = 1 / (1 + Σ_{k ≠ j} exp(max_w s_k(w) − s_j(u))),

where k runs over the places that the query sees, and its own place holds v. Every summand depends
on one place, and every place is chosen for itself: no text gives less, and the text of the tokens
that score best gives just that. The greatest attention has min for max.

Positions may stand between query and key, or be added to the input: there token and place share a
divisor, and the key of token w at place k is the sum of two projections, each made once, over σ_wk.
A learned sink is one summand more, the same in every text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol, no_type_check

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lnattn.attention.folding import fold
from lnattn.attention.terms import sigma_of_pairs
from lnattn.compiled import compiled, in_threads, thread_count
from lnattn.errors import ShapeError, TokenError
from lnattn.ids import TokenIds, whole_ids
from lnattn.inputs import require, whole_number
from lnattn.rotary.fold import FoldedRelative, fold_relative
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer, apply_rotary
from lnattn.stats import blocks
from lnattn.weights import FirstLayer

#: Scores that are held at once: 8 MiB in float32, which a core's cache nearly holds.
_SCORES = 1 << 21
#: Tokens that are compared side by side: what is held of all places stays in a core's cache.
_TILE = 512
#: Nats by which a score may miss the highest and still be one: what single precision leaves open.
TIE = 1e-5
#: Token ids, as a list or a tensor.
Ids = TokenIds


class Guarantee(NamedTuple):
    """The least and the greatest attention over all texts, and a text that gets each.

    least, greatest: from 0 to 1; least_text, greatest_text: token ids, one a place.
    """

    least: float
    greatest: float
    least_text: list[int]
    greatest_text: list[int]


def guarantee(  # noqa: PLR0913 (one question, by name)
    model: AnyFirstLayer,
    *,
    head: int,
    query: int,
    key: int,
    length: int,
    distance: int = 1,
    place: int | None = None,
    vocabulary: Ids | None = None,
    fixed: Mapping[int, int] | None = None,
) -> Guarantee:
    """The least and the greatest attention to a key over all texts of a length, with their texts.

    model: a first layer; query, key: their tokens; distance: how far the key stands before the
    query (behind it, if negative: for encoders; 0: the query itself); place: where the query
    stands, the last place unless given. vocabulary: the tokens that the other places may hold, all
    unless given; fixed: tokens that stand at given places in every text, such as [CLS] at 0.
    `EveryText` asks many queries and keys at once.

    Exact for every family that `load_first_layer` reads. Raises `TokenError` for tokens outside the
    vocabulary, places that the text does not have or the query does not see, and a vocabulary of
    nothing; `ShapeError` for another kind of model, a layer above the first, a head that it does
    not have, or a length below 2.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-llama")
    >>> found = guarantee(model, head=3, query=290, key=464, length=3)
    >>> found.least_text[1:], found.least <= found.greatest
    ([464, 290], True)
    """
    texts = EveryText(
        model, head=head, length=length, place=place, vocabulary=vocabulary, fixed=fixed
    )
    whole_number(distance, "distance", least=-length, most=length, error=TokenError)
    at = texts.place - distance
    least, greatest = texts.attention_to_each([query], at, [key])
    least_text, greatest_text = texts.witnesses(query, at, key)
    return Guarantee(float(least[0]), float(greatest[0]), least_text, greatest_text)


class Ends(NamedTuple):
    """The lowest and the highest score that a text can have at each place, over the scale; float64.

    low, high: [query place]. At its own place both are the query's score of itself, and −∞ at
    places that it does not see.
    """

    low: Float[Tensor, "query place"]
    high: Float[Tensor, "query place"]


class Never(NamedTuple):
    """Which tokens of a vocabulary are never looked at, in any text: [token] each.

    half: no query gives it more than half of its attention; first: no query scores it highest, nor
    within `TIE` of that.
    """

    half: Bool[Tensor, "token"]
    first: Bool[Tensor, "token"]


class EveryText:
    """All texts of one length, and what one head pays in them from one place.

    Arguments and errors as of `guarantee`. `ends` costs a product of the queries with all tokens
    for each place, and what follows from it next to nothing.

    >>> import lnattn
    >>> texts = EveryText(lnattn.load_first_layer("book-llama"), head=3, length=64)
    >>> least, greatest = texts.attention([290, 318], at=62)  # to any token before
    >>> tuple(least.shape), bool((least <= greatest).all())  # query, key
    ((2, 8192), True)
    """

    def __init__(
        self,
        model: AnyFirstLayer,
        *,
        head: int,
        length: int,
        place: int | None = None,
        vocabulary: Ids | None = None,
        fixed: Mapping[int, int] | None = None,
    ) -> None:
        require(model, (FirstLayer, RelativeFirstLayer), "model")
        if model.layer:
            raise ShapeError(
                f"model is block {model.layer} of its model, whose inputs are no free choice of "
                "tokens; load the first with lnattn.load_first_layer(name)."
            )
        whole_number(length, "length", least=2)
        whole_number(head, "head", least=0, most=model.attention.n_heads - 1)
        last = length - 1
        self.length = length
        self.place = last if place is None else whole_number(place, "place", 0, last, TokenError)
        #: The logit of a learned sink, which takes its share of every text's attention.
        self.sink = -torch.inf
        self._head: _Head
        if isinstance(model, RelativeFirstLayer):
            if model.attention.sinks is not None:
                self.sink = float(model.attention.sinks[head])
            self._head = _Relative(model, head, length, self.place)
        else:
            self._head = _Learned(model, head, length, self.place)
        self.vocab_size = model.embeddings.vocab_size
        self.seen = _seen(model.attention.causal, model.attention.window, length, self.place)
        self.vocabulary = self._checked_vocabulary(vocabulary)
        self.fixed = self._checked_places(fixed or {})
        taken = {self.place, *self.fixed}
        self.free = [k for k in range(length) if self.seen[k] and k not in taken]

    def ends(self, queries: Ids) -> Ends:
        """The lowest and the highest score at each place, for each query token."""
        ids = self._ids(queries, "query")
        low = torch.full((len(ids), self.length), -torch.inf, dtype=torch.float64)
        high = low.clone()
        given = {self.place: ids}
        given |= {k: torch.full_like(ids, token) for k, token in self.fixed.items()}
        for k, tokens in given.items():
            if self.seen[k]:
                low[:, k] = high[:, k] = self._scores_of_each(ids, k, tokens)
        if self.free:
            lowest, highest = self._head.extremes(ids, self.free, self.vocabulary)
            low[:, self.free] = lowest.double()
            high[:, self.free] = highest.double()
        return Ends(low, high)

    def attention(
        self, queries: Ids, at: int, keys: Ids | None = None, ends: Ends | None = None
    ) -> tuple[Float[Tensor, "query key"], Float[Tensor, "query key"]]:
        """The least and the greatest attention of each query token to each key token at a place.

        at: not the query's own place; keys: all tokens unless given; ends: of these queries, where
        they are known already.
        """
        self._check_key(at, None)
        ids = self._ids(queries, "query")
        tokens = torch.arange(self.vocab_size) if keys is None else self._ids(keys, "key")
        return self._attention(self.scores(ids, at, tokens), ends or self.ends(ids), at)

    def attention_to_each(
        self, queries: Ids, at: int, keys: Ids, ends: Ends | None = None
    ) -> tuple[Float[Tensor, "query"], Float[Tensor, "query"]]:
        """The least and the greatest attention of each query token to a key token of its own.

        keys: as many as queries, and the same ones where `at` is the query's own place; else it
        raises `TokenError`.
        """
        ids = self._ids(queries, "query")
        tokens = self._ids(keys, "key")
        if len(ids) != len(tokens):
            raise TokenError(f"give each of {len(ids)} queries its key, not {len(tokens)} keys.")
        if at == self.place and not torch.equal(ids, tokens):
            raise TokenError("the query's own place holds the query; give that token as its key.")
        if at != self.place:
            self._check_key(at, tokens)
        scores = self._scores_of_each(ids, at, tokens)[:, None]
        least, greatest = self._attention(scores, ends or self.ends(ids), at)
        return least[:, 0], greatest[:, 0]

    def scores(self, queries: Ids, at: int, keys: Ids) -> Float[Tensor, "query key"]:
        """The score of each query token with each key token at a place, over the scale."""
        q, k = self._head.sides(torch.as_tensor(queries), at, torch.as_tensor(keys))
        return self._head.scaled(q @ k.mT, at)

    def never(self) -> Never:
        """Tokens that no query gives much attention at any place but its own, in any text.

        All tokens of the vocabulary ask. Costs twice what `ends` of all of them costs.

        >>> import lnattn
        >>> model = lnattn.load_first_layer("book-llama")
        >>> few = EveryText(model, head=3, length=3, vocabulary=range(300, 340)).never()
        >>> tuple(few.half.shape), bool(few.first.all())
        ((40,), False)
        """
        every = torch.arange(self.vocab_size)
        low, high = self.ends(every)
        nearest_first = sorted(self.free, key=lambda place: abs(self.place - place))
        bounds = low.new_empty(2, self.vocab_size, len(nearest_first))
        sink = low.new_full((self.vocab_size, 1), self.sink)
        for index, at in enumerate(nearest_first):
            others = torch.arange(self.length) != at
            bounds[0, :, index] = torch.cat([low[:, others], sink], dim=1).logsumexp(dim=1)
            bounds[1, :, index] = high[:, at] - TIE
        bounds[0].masked_fill_(high[:, nearest_first] <= bounds[0], torch.inf)
        reached = self._head.reached(every, nearest_first, self.vocabulary, bounds)
        return Never(*~reached)

    def witnesses(self, query: int, at: int, key: int) -> tuple[list[int], list[int]]:
        """A text that gets the least attention to a key at a place, and one that gets the greatest.

        Places that the query does not see hold the query's token.
        """
        texts = torch.full((2, self.length), query)
        for k in self.free:
            scores = self.scores([query], k, self.vocabulary)[0]
            texts[0, k] = self.vocabulary[scores.argmax()]
            texts[1, k] = self.vocabulary[scores.argmin()]
        for k, token in {**self.fixed, self.place: query, at: key}.items():
            texts[:, k] = token
        least, greatest = texts.tolist()
        return least, greatest

    def _scores_of_each(self, ids: Tensor, at: int, tokens: Tensor) -> Float[Tensor, "query"]:
        q, k = self._head.sides(ids, at, tokens)
        return self._head.scaled((q * k).sum(dim=1), at).double()

    def _attention(self, scores: Tensor, ends: Ends, at: int) -> tuple[Tensor, Tensor]:
        others = torch.arange(self.length) != at
        sink = torch.full((len(scores), 1), self.sink, dtype=torch.float64)

        def against(end: Tensor) -> Tensor:
            """What stands against the key in a text that has these scores."""
            return torch.cat([end[:, others], sink], dim=1).logsumexp(dim=1, keepdim=True)

        return torch.sigmoid(scores - against(ends.high)), torch.sigmoid(scores - against(ends.low))

    # ---- What may be asked -----------------------------------------------------------------------
    def _ids(self, ids: Ids, what: str) -> Int[Tensor, "n"]:
        return torch.from_numpy(whole_ids(ids, self.vocab_size, f"{what} token"))

    def _checked_vocabulary(self, vocabulary: Ids | None) -> Int[Tensor, "n"]:
        if vocabulary is None:
            return torch.arange(self.vocab_size)
        if not len(vocabulary):
            raise TokenError(
                "vocabulary holds no token, so the other places have none to choose from; give one "
                "or more, or leave it out."
            )
        return torch.unique(self._ids(vocabulary, "vocabulary's"))

    def _checked_places(self, fixed: Mapping[int, int]) -> dict[int, int]:
        for k, token in fixed.items():
            whole_number(k, "a place of fixed", 0, self.length - 1, TokenError)
            self._ids([token], "fixed")
            if k == self.place:
                raise TokenError(f"place {k} is the query's; fix the tokens of other places.")
        return dict(fixed)

    def _check_key(self, at: int, tokens: Tensor | None) -> None:
        """`TokenError` unless a key may stand at a place: any token, or the tokens given."""
        whole_number(at, "the key's place", 0, self.length - 1, TokenError)
        if at == self.place:
            raise TokenError(f"place {at} holds the query; give another place for the key.")
        if not self.seen[at]:
            raise TokenError(
                f"the query at place {self.place} does not see place {at}; give one that it sees."
            )
        fixed = self.fixed.get(at)
        if fixed is not None and (tokens is None or bool((tokens != fixed).any())):
            raise TokenError(f"place {at} is fixed to token {fixed}; give that token as the key.")


def _seen(causal: bool, window: int | None, length: int, place: int) -> Bool[Tensor, "place"]:
    """Which places a query sees."""
    distance = place - torch.arange(length)
    if not causal:
        return torch.ones(length, dtype=torch.bool)
    return (distance >= 0) & (distance < (window or length))


class _Head(Protocol):
    """One head, asked from one place of a text."""

    def sides(self, ids: Tensor, at: int, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of queries and of keys at a place, whose products are scores: [n d_head] each."""

    def scaled(self, products: Tensor, at: int | list[int]) -> Tensor:
        """The scores that the softmax reads, from products; [..., place] of several places."""

    def extremes(self, ids: Tensor, free: list[int], tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The lowest and highest scores over the tokens at each of some places: [query place]."""

    def reached(self, ids: Tensor, free: list[int], tokens: Tensor, bounds: Tensor) -> Tensor:
        """Tokens that a query scores above a bound at one of some places, each of two bounds.

        bounds: [bound query place], infinite where no token can; returns [bound token].
        """


class _Relative:
    """A head whose positions stand between query and key, or that has none."""

    def __init__(self, model: RelativeFirstLayer, head: int, length: int, place: int) -> None:
        folded = fold_relative(model.attention)
        embeddings = model.embeddings
        self.embeddings = embeddings
        self.place = place
        # Of a whole text, since some models turn by other angles in long ones.
        self.tables = None
        if folded.rotation is not None:
            self.tables = folded.rotation.tables(torch.arange(length), folded.W_Q.dtype)
        self.bias = None
        if folded.bias is not None:
            self.bias = folded.bias(place - torch.arange(length))[head].to(folded.W_Q.dtype)
        key_head = head * len(folded.W_K) // folded.n_heads
        if not any(norm is not None and norm.joint for norm in (folded.norm_Q, folded.norm_K)):
            folded = _alone(folded, head, key_head)
            head = 0
            key_head = 0
        self.folded = folded
        self.head = head
        keys = folded.W_K.new_empty(embeddings.vocab_size, folded.d_head)
        for block in folded.blocks(embeddings.vocab_size):
            keys[block] = folded.keys(embeddings.rows(block))[key_head]
        self.keys = self._turned(keys, 0)

    def _queries(self, ids: Tensor) -> Float[Tensor, "n d_head"]:
        return self.folded.queries(self.embeddings.rows(ids))[self.head]

    def _turned(self, x: Tensor, distance: int) -> Tensor:
        """Rows turned as at a distance from place 0, or backwards."""
        if self.tables is None or self.folded.rotation is None:
            return x
        all_cos, all_sin = self.tables
        cos = all_cos[abs(distance)]
        sin = all_sin[abs(distance)]
        sin = sin if distance >= 0 else -sin
        one_place = apply_rotary(x[:, None], cos[None], sin[None], self.folded.rotation.interleaved)
        return one_place[:, 0]

    def sides(self, ids: Tensor, at: int, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return self._turned(self._queries(ids), self.place - at), self.keys[tokens]

    def scaled(self, products: Tensor, at: int | list[int]) -> Tensor:
        return self.folded.capped(products if self.bias is None else products + self.bias[at])

    def extremes(self, ids: Tensor, free: list[int], tokens: Tensor) -> tuple[Tensor, Tensor]:
        keys = self.keys[tokens]
        low = keys.new_empty(len(ids), len(free))
        high = torch.empty_like(low)
        for block in blocks(len(ids), len(tokens), _SCORES):
            queries = self._queries(ids[block])
            products = keys.new_empty(len(queries), len(tokens))
            for place, at in enumerate(free):
                torch.mm(self._turned(queries, self.place - at), keys.mT, out=products)
                low[block, place] = products.amin(dim=1)
                high[block, place] = products.amax(dim=1)
        return self.scaled(low, free), self.scaled(high, free)

    def reached(self, ids: Tensor, free: list[int], tokens: Tensor, bounds: Tensor) -> Tensor:
        keys = self.keys[tokens]
        exceeds = keys.new_full((len(bounds), len(tokens)), -torch.inf)
        for block in blocks(len(ids), len(tokens), _SCORES):
            queries = self._queries(ids[block])
            products = keys.new_empty(len(queries), len(tokens))
            for place, at in enumerate(free):
                torch.mm(self._turned(queries, self.place - at), keys.mT, out=products)
                scores = self.scaled(products, at)
                for bound, most in zip(bounds[:, block, place].to(keys), exceeds, strict=True):
                    if bound.isfinite().any():
                        torch.maximum(most, (scores - bound[:, None]).amax(dim=0), out=most)
        return exceeds > 0


def _alone(folded: FoldedRelative, head: int, key_head: int) -> FoldedRelative:
    """A block of one head, so that none is projected in vain."""
    head_of = {"Q": slice(head, head + 1), "K": slice(key_head, key_head + 1)}
    parts: dict[str, Any] = {"sinks": None}
    for side, alone in head_of.items():
        parts |= {f"{name}_{side}": getattr(folded, f"{name}_{side}")[alone] for name in "Wb"}
        norm = getattr(folded, f"norm_{side}")
        if norm is not None:
            norm = replace(norm, gamma=norm.gamma[alone], beta=norm.beta[alone])
        parts[f"norm_{side}"] = norm
    return replace(folded, **parts)


class _Learned:
    """A head of a model that adds position embeddings to its input.

    (e_w + p_k) W_K/σ_wk: `token_keys` and `place_keys` are the two products, divided when asked.
    """

    def __init__(self, model: FirstLayer, head: int, length: int, place: int) -> None:
        self.embeddings = model.embeddings
        self.folded = fold(model.attention)
        self.place = place
        if length > self.embeddings.n_positions:
            raise TokenError(
                f"length is {length}, but the model has {self.embeddings.n_positions} places; give "
                "at most that."
            )
        W_Q = self.folded.W_Q[head]
        W_K = self.folded.W_K[head]
        tokens = self.embeddings.tokens()
        places = self.embeddings.W_P[:length]
        every = torch.arange(self.embeddings.vocab_size)
        divisor = self._sigma(every, [place])
        self.queries = (tokens @ W_Q + places[place] @ W_Q) / divisor + self.folded.b_Q[head]
        self.token_keys = tokens @ W_K
        self.place_keys = places @ W_K

    def _sigma(self, tokens: Tensor, places: list[int]) -> Float[Tensor, "token place"]:
        return sigma_of_pairs(self.embeddings, tokens, places, self.folded.eps)

    def sides(self, ids: Tensor, at: int, tokens: Tensor) -> tuple[Tensor, Tensor]:
        keys = (self.token_keys[tokens] + self.place_keys[at]) / self._sigma(tokens, [at])
        return self.queries[ids], keys

    def scaled(self, products: Tensor, at: int | list[int]) -> Tensor:
        return products / self.folded.scale

    def extremes(self, ids: Tensor, free: list[int], tokens: Tensor) -> tuple[Tensor, Tensor]:
        keys = self.token_keys[tokens]
        inverse = (1 / self._sigma(tokens, free)).T.contiguous().numpy()
        low = keys.new_empty(len(ids), len(free))
        high = torch.empty_like(low)
        for block, from_tokens, from_places in self._products(ids, keys, free):
            arrays = (from_tokens, from_places, inverse, low[block].numpy(), high[block].numpy())
            threads = thread_count(len(from_tokens))
            in_threads(partial(_extremes, *arrays, threads), threads)
        return self.scaled(low, free), self.scaled(high, free)

    def reached(self, ids: Tensor, free: list[int], tokens: Tensor, bounds: Tensor) -> Tensor:
        keys = self.token_keys[tokens]
        inverse = (1 / self._sigma(tokens, free)).T.contiguous().numpy()
        products = (bounds * self.folded.scale).to(keys)
        threads = thread_count(len(ids))
        reached = np.zeros((threads, len(bounds), len(tokens)), dtype=np.bool_)
        for block, from_tokens, from_places in self._products(ids, keys, free):
            arrays = (from_tokens, from_places, inverse, products[:, block].numpy(), reached)
            in_threads(partial(_reached, *arrays, threads), threads)
        return torch.from_numpy(reached.any(axis=0))

    def _products(
        self, ids: Tensor, keys: Tensor, free: list[int]
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Blocks of queries by keys and by places; the next block is written over the last."""
        products = keys.new_empty(min(len(ids), max(1, _SCORES // len(keys))), len(keys))
        for block in blocks(len(ids), len(keys), _SCORES):
            queries = self.queries[ids[block]]
            from_tokens = products[: len(queries)]
            torch.mm(queries, keys.mT, out=from_tokens)
            yield block, from_tokens.numpy(), (queries @ self.place_keys[free].mT).numpy()


@compiled(fastmath={"nnan", "nsz"})
@no_type_check
def _extremes(from_tokens, from_places, inverse, low, high, step, first):
    """Extremes of (a_w + b_k) r_kw over the tokens w, for every `step`-th query from `first`.

    `lowest` and `highest` hold those of every `_TILE`-th token, which compares them side by side.
    """
    n_tokens = from_tokens.shape[1]
    n_places = len(inverse)
    lowest = np.empty((n_places, _TILE), from_tokens.dtype)
    highest = np.empty((n_places, _TILE), from_tokens.dtype)
    for query in range(first, len(from_tokens), step):
        lowest[:] = np.inf
        highest[:] = -np.inf
        for begin in range(0, n_tokens, _TILE):
            end = min(begin + _TILE, n_tokens)
            of_tokens = from_tokens[query, begin:end]
            for place in range(n_places):
                of_place = from_places[query, place]
                divided = inverse[place, begin:end]
                low_lanes = lowest[place]
                high_lanes = highest[place]
                for lane in range(end - begin):
                    score = (of_tokens[lane] + of_place) * divided[lane]
                    low_lanes[lane] = min(low_lanes[lane], score)
                    high_lanes[lane] = max(high_lanes[lane], score)
        for place in range(n_places):
            low[query, place] = lowest[place].min()
            high[query, place] = highest[place].max()


@compiled(fastmath={"nsz"})
@no_type_check
def _reached(from_tokens, from_places, inverse, bounds, reached, step, first):
    """Mark the tokens w whose (a_w + b_k) r_kw exceeds a bound, for the queries of `_extremes`."""
    n_tokens = from_tokens.shape[1]
    for begin in range(0, n_tokens, _TILE):
        end = min(begin + _TILE, n_tokens)
        for query in range(first, len(from_tokens), step):
            of_tokens = from_tokens[query, begin:end]
            for which in range(len(bounds)):
                marks = reached[first, which, begin:end]
                for place in range(len(inverse)):
                    bound = bounds[which, query, place]
                    if bound < np.inf:
                        of_place = from_places[query, place]
                        divided = inverse[place, begin:end]
                        for token in range(end - begin):
                            score = (of_tokens[token] + of_place) * divided[token]
                            marks[token] |= score > bound
