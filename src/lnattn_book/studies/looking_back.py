"""Attention to the token before, and the share of it that each term makes: shares that add up.

A head's attention to the token before follows from a sum of terms by a softmax, so no term has a
number of its own unless one says in which company. Here each has its Shapley value: what it adds to
the attention on average over all orders in which the terms can be put in (Shapley 1953). The values
of all terms add up to the attention less that of no term at all, which is even over the keys seen
(a learned sink takes its part of it).
They are linear: the mean over some queries less that over others is a sum over terms as well.

Which term *can* turn a head on for some queries and off for others? One that depends on the query's
token and on the distance at once. Of the four terms of rotary positions `ed` does, by a constant
and thus wherever the query stands; of the six of learned positions none does: `ep` knows where a
key stands, not how far away, and `ee` which tokens there are.
"""

from __future__ import annotations

from math import factorial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.terms import PairTerms
from lnattn.errors import TokenError
from lnattn.inputs import require


class LookingBack(NamedTuple):
    """Attention to the token before, of the queries 1 … n − 1; float64.

    attention: [head query], as the head pays it; even: [head query], of no term; shares:
    [term head query], Shapley values in the order of `terms.names`: attention = even + their sum;
    without: [term head query], the attention where one term is left out.
    """

    attention: Float[Tensor, "head query"]
    even: Float[Tensor, "head query"]
    shares: Float[Tensor, "term head query"]
    without: Float[Tensor, "term head query"]


def looking_back(terms: PairTerms) -> LookingBack:
    """How much attention each query pays to the token before, and which terms make it.

    terms: of one sequence, from `six_terms` or `distance_terms`. Costs a softmax for each of the 16
    or 64 sets of terms. Raises `ShapeError` for anything else than terms, `TokenError` for a single
    token, which has none before it.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-llama")
    >>> folded = lnattn.fold_relative(model.attention)
    >>> terms = lnattn.distance_terms(folded, model.embeddings, [464, 3290, 318])
    >>> back = looking_back(terms)
    >>> tuple(back.shares.shape)  # term, head, query
    (4, 8, 2)
    >>> bool((back.even + back.shares.sum(0) - back.attention).abs().max() < 1e-12)
    True
    """
    require(terms, PairTerms, "terms")
    parts = torch.stack([terms[name].double() for name in terms.names])  # [term head query key]
    n_terms, _, n, _ = parts.shape
    if n < 2:
        raise TokenError("a text of one token has none before it; give two tokens or more.")
    paid = torch.stack([_paid(terms, parts, chosen) for chosen in range(2**n_terms)])
    shares = torch.einsum("ts,shq->thq", _shapley_weights(n_terms), paid)
    whole = 2**n_terms - 1
    left_out = [whole - (1 << term) for term in range(n_terms)]
    return LookingBack(attention=paid[whole], even=paid[0], shares=shares, without=paid[left_out])


def _paid(terms: PairTerms, parts: Tensor, chosen: int) -> Float[Tensor, "head query"]:
    """Attention to the token before where only the terms of a set take part: bit t is term t."""
    members = [term for term in range(len(parts)) if chosen >> term & 1]
    attention = terms.softmax(parts[members].sum(dim=0))
    return attention.diagonal(offset=-1, dim1=-2, dim2=-1)


def _shapley_weights(n_terms: int) -> Float[Tensor, "term set"]:
    """By what the value of every set of terms counts for the share of each term."""
    weights = torch.empty(n_terms, 2**n_terms, dtype=torch.float64)
    for chosen in range(2**n_terms):
        size = chosen.bit_count()
        for term in range(n_terms):
            has_term = chosen >> term & 1
            others = size - has_term
            orders = factorial(others) * factorial(n_terms - others - 1) / factorial(n_terms)
            weights[term, chosen] = orders if has_term else -orders
    return weights
