"""One pair of tokens, taken apart: what each of the six terms adds to its score.

A chapter's sentence has its six terms (`of_sentence`), and one pair of its tokens is followed from
the terms to the softmax (`lifts`). `spread` says which terms move a head at all, and `error` that
nothing is lost: the attention from the six terms against that of the whole model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from lnattn.attention.folding import fold
from lnattn.attention.forward import causal_mask
from lnattn.attention.terms import TERMS, SixTerms, six_terms
from lnattn.errors import TokenError
from lnattn.weights import FirstLayer
from lnattn_book.studies.samples import sentence_ids


class Sentence(NamedTuple):
    """A sentence in a model: its six terms, its token ids, and its tokens as words."""

    terms: SixTerms
    ids: Int[Tensor, "token"]
    words: list[str]


def of_sentence(model: FirstLayer, text: str) -> Sentence:
    """The six terms of a sentence, as the model's own tokenizer frames it, cut to its context.

    Words are tokens as text, with _ for a space. Raises `TokenError` for a model without a
    tokenizer or without token embeddings, and for a sentence without tokens.
    """
    ids = sentence_ids(model, text)
    words = [model.tokenizer.decode([token]).replace(" ", "_") for token in ids.tolist()]
    return Sentence(six_terms(fold(model.attention), model.embeddings, ids), ids, words)


def find_pair(words: list[str], query: str, key: str) -> tuple[int, int]:
    """Where two words stand among the tokens of a sentence, whatever their case.

    Where one of them is no token of the sentence, the last two tokens are taken and a line says so.
    """
    plain = [word.strip("_").lower() for word in words]
    if query.lower() in plain and key.lower() in plain:
        return plain.index(query.lower()), plain.index(key.lower())
    i = len(words) - 1
    j = max(len(words) - 2, 0)
    print(f"{query!r} and {key!r} are not both tokens here; taken: {words[i]!r} and {words[j]!r}")
    return i, j


def lifts(terms: SixTerms, head: int, query: int, key: int) -> dict[str, float]:
    """What each term adds to a key's score above the mean of the keys that the query sees.

    In the softmax's argument, that is, over √d_head. A constant per query does not reach the
    softmax, so a term counts by its difference from the row's mean.
    """
    seen = _seen(terms)[query]
    rows = {name: terms[name][head, query] / terms.folded.scale for name in TERMS}
    return {name: float(row[key] - row[seen].mean()) for name, row in rows.items()}


def spread(terms: SixTerms) -> Float[np.ndarray, "term head"]:
    """How much each term varies over the keys of a query, in the softmax's argument.

    The standard deviation over the keys that the query sees, averaged over queries. The first
    query of a causal model sees one key, where nothing can vary: it is left out.
    """
    queries = slice(1, None) if terms.folded.causal else slice(None)
    values = torch.stack([terms[name] for name in TERMS]) / terms.folded.scale
    rows = np.where(_seen(terms), values.double().numpy(), np.nan)[:, :, queries]
    if not rows.shape[2]:
        raise TokenError("the sentence has one token, and nothing varies over one key; give more.")
    return np.nanstd(rows, axis=-1).mean(axis=-1)


@torch.no_grad()
def error(
    model: FirstLayer, reference: PreTrainedModel, ids: Int[Tensor, "token"], dtype: torch.dtype
) -> float:
    """Largest difference between attention from six terms and the whole model's own.

    reference: the model that Hugging Face runs, with eager attention; it is changed to `dtype`.
    """
    reported = reference.to(dtype)(ids[None], output_attentions=True).attentions[0][0]
    terms = six_terms(fold(model.attention.to(dtype)), model.embeddings.to(dtype), ids)
    return float((terms.attention() - reported).abs().max())


def _seen(terms: SixTerms) -> Tensor:
    """Which keys a query sees, [query key]."""
    n = len(terms.tokens)
    if not terms.folded.causal:
        return torch.ones(n, n, dtype=torch.bool)
    return causal_mask(n, n, terms.folded.window)
