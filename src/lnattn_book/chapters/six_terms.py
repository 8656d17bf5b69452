"""One pair of tokens, taken apart: what each of the six terms adds to its score.

A chapter's sentence has its six terms (`of_sentence`), and one pair of its tokens is followed from
the terms to the softmax (`lifts`). `spread` says which terms move a head at all, and `error` that
nothing is lost: the attention from the six terms against that of the whole model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
from lnattn_book.page import Check, says
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


def rows_added_in_double(model: FirstLayer, reference: PreTrainedModel) -> FirstLayer:
    """A BERT in double precision, its position rows and its token type's row added there.

    `lnattn.load_first_layer` adds the two when it reads a model, in the precision of the file.
    """
    rows = reference.embeddings
    positions = rows.position_embeddings.weight.detach().double()
    first_type = rows.token_type_embeddings.weight.detach()[0].double()
    in_double = model.to(torch.float64)
    embeddings = replace(in_double.embeddings, W_P=positions + first_type)
    return replace(in_double, embeddings=embeddings)


def checks(
    lifts: Mapping[str, float],
    paid: Mapping[str, Float[Tensor, ""]],
    apart: float,
    largest: Sequence[str],
    sizes: Float[np.ndarray, "term head"],
    before: Float[Tensor, "head"],
    differences: Mapping[str, float],
) -> Iterator[Check]:
    """What the page says of its numbers.

    lifts: of *york* and *new* in head 5; paid: attention of that pair, whole and without a term;
    apart: largest difference of a term by hand from the package's. largest: the term that varies
    most, by head, of `sizes` (`spread`); before: attention on the token before. differences: of
    attention from the whole model's, by how it was computed.
    """
    ee = lifts["ee"]
    pp = lifts["pp"]
    whole, without_token, without_place = paid.values()
    exact = differences["double from the first sum on"]
    small = [abs(lifts[name]) for name in ("ep", "pe", "p")]
    of_what = np.isin(largest, ["ee", "e"]).sum()
    yield says("Of six terms, exactly", exact < 1e-13, found=exact)
    yield says("for what it is and for where it stands", ee > 2, pp > 2, found=[ee, pp])
    yield says("the folded bias stands for the query", apart < 1e-3, found=apart)
    yield says("Token → token lifts new by four", 3.8 < ee < 4.4, found=ee)
    yield says("Position → position adds two and a half", 2.2 < pp < 2.7, found=pp)
    yield says("Any → token takes two away", -2.3 < lifts["e"] < -1.8, found=lifts["e"])
    yield says("The other three hardly count", np.array(small) < 0.2, found=small)
    yield says("three quarters of the attention", 0.72 < whole < 0.80, found=whole)
    yield says("4 % of the attention is left", without_token)
    yield says("take away where it stands, 14 %", without_place)
    others = np.delete(sizes[:, 2], TERMS.index("pp"))
    yield says(
        "In head 2 of MiniLM position → position varies most",
        2,
        largest[2] == "pp",
        sizes[TERMS.index("pp"), 2] > others,
    )
    yield says("nearly all of its attention is on", before[2] > 0.9, found=before[2])
    yield says("In most other heads what a token is varies more", of_what > 5.5, found=of_what)
    rounded = differences["double precision"]
    yield says("but stops at 1e-8", rounded)
    yield says("less than 1e-14 is left", exact)


def _seen(terms: SixTerms) -> Tensor:
    """Which keys a query sees, [query key]."""
    n = len(terms.tokens)
    if not terms.folded.causal:
        return torch.ones(n, n, dtype=torch.bool)
    return causal_mask(n, n, terms.folded.window)
