"""What the chapter *For every text* states: guarantees by model, and measured attention inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.guarantees import EveryText
from lnattn.rotary.fold import MeanVectors, fold_relative, mean_vectors
from lnattn.rotary.terms import distance_terms
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn_book.page.names import model_name
from lnattn_book.studies.guaranteed import (
    LENGTH,
    VOCABULARIES,
    Guaranteed,
    Outcome,
    apart,
    joining,
    near,
)
from lnattn_book.studies.samples import sample_windows, token_counts

#: Of the windows of the shipped texts one in so many is asked.
WINDOWS = 6


class Measured(NamedTuple):
    """Attention to the token before, of the last token of windows of text: [window] each."""

    attention: Float[np.ndarray, "window"]
    least: Float[np.ndarray, "window"]
    greatest: Float[np.ndarray, "window"]

    @property
    def inside(self) -> bool:
        """Whether every window's attention lies between the ends, but for rounding."""
        low = self.least - 1e-6 <= self.attention
        return bool((low & (self.attention <= self.greatest + 1e-6)).all())


def on_text(model: RelativeFirstLayer, head: int) -> Measured:
    """The last token of each window of 64 tokens of the shipped texts, and what it is promised."""
    windows = torch.from_numpy(sample_windows(model, LENGTH)[0][::WINDOWS])
    folded = fold_relative(model.attention)
    attention = [
        float(distance_terms(folded, model.embeddings, ids).attention()[head, -1, -2])
        for ids in windows
    ]
    texts = EveryText(model, head=head, length=LENGTH)
    least, greatest = texts.attention_to_each(windows[:, -1], LENGTH - 2, windows[:, -2])
    return Measured(np.array(attention), least.numpy(), greatest.numpy())


def table(studies: Mapping[str, Guaranteed]) -> pd.DataFrame:
    """What the rules G1 to G3 say of each model: a row a model and a vocabulary of the others."""
    rows = {}
    for name, study in studies.items():
        for vocabulary, words in enumerate(VOCABULARIES):
            joins = joining(study, vocabulary)
            switch = apart(study, vocabulary)
            rows[model_name(name), f"{words} tokens"] = {
                "head": joins.head,
                "pieces": joins.found,
                "whole words": joins.nulls["whole words"],
                "wrong predecessors": joins.nulls["wrong predecessors"],
                "random heads": joins.nulls["heads in random order"],
                "pairs apart": switch.found,
                "near heads": near(study, vocabulary).found,
            }
    index = pd.MultiIndex.from_tuples(rows, names=["model", "the others are"])
    return pd.DataFrame(list(rows.values()), index=index)


def medians(study: Guaranteed, head: int, vocabulary: int = 0) -> dict[str, float]:
    """Medians over the tokens of a kind, to their main predecessor."""
    found = {}
    for kind, words in enumerate(("pieces", "words")):
        found[f"{words}, least"] = float(np.median(study.least[vocabulary, kind, head]))
        found[f"{words}, greatest"] = float(np.median(study.greatest[vocabulary, kind, head]))
    return found


def outcomes(studies: Mapping[str, Guaranteed], vocabulary: int = 0) -> dict[str, list[Outcome]]:
    """What G1, G2 and G3 say of each model."""
    return {
        name: [rule(study, vocabulary) for rule in (joining, apart, near)]
        for name, study in studies.items()
    }


# ---- T^ed ----------------------------------------------------------------------------------------


def constants(model: RelativeFirstLayer) -> MeanVectors:
    """q₀ and k₀, means weighted by the counts of the model's tokens."""
    counts = torch.from_numpy(token_counts(model)[0].unigrams)
    return mean_vectors(fold_relative(model.attention), model.embeddings, counts)


def wish(
    model: RelativeFirstLayer, means: MeanVectors, query: int, head: int
) -> Float[Tensor, "distance"]:
    """T^ed of a query token at every distance of a text, over the scale: one number a place."""
    folded = fold_relative(model.attention)
    queries = folded.queries(model.embeddings.rows(torch.tensor([query])))
    turned = folded.at_distances(queries - means.q0[:, None], torch.arange(LENGTH))
    k0 = folded.at_origin(means.k0[:, None])[head, 0]
    return (turned[head, 0] @ k0).double() / folded.scale


def ends_without(
    model: RelativeFirstLayer, query: int, key: int, head: int, term: Float[Tensor, "distance"]
) -> tuple[float, float]:
    """Least and greatest attention to the token before without a term that all keys share."""
    texts = EveryText(model, head=head, length=LENGTH)
    by_place = term.flip(0)
    before = LENGTH - 2
    score = texts.scores([query], before, [key])[0, 0] - by_place[before]
    others = torch.arange(LENGTH) != before
    high, low = (
        torch.sigmoid(score - (end[0] - by_place)[others].logsumexp(0))
        for end in texts.ends([query])
    )
    return float(low), float(high)


def checks(
    promised: Mapping[str, Guarantee],
    without: Mapping[str, tuple[float, float]],
    measured: Measured,
    studies: Mapping[str, Guaranteed],
) -> Iterator[Check]:
    """What the page says of its numbers.

    promised, without: of the two queries, whole and without T^ed; measured: on text.
    """
    piece, word = promised["f"], promised[" near"]
    yield says("gives it 46 % or more in every text of 64 tokens", piece.least, 64)
    yield says("never more than 13 %", 0.125 < word.greatest < 0.135, found=word.greatest)
    yield says("the head pays .457", piece.least)
    yield says(
        "No text makes near pay more than .129",
        0.1285 < word.greatest < 0.1295,
        found=word.greatest,
    )
    yield says("in every text f looks back more than near does in any", piece.least > word.greatest)
    yield says("Measured attention must lie between the ends", measured.inside)
