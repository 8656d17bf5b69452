"""What the chapter *For every text* states: guarantees by model, and measured attention inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.guarantees import EveryText, Guarantee
from lnattn.paths import data_folder
from lnattn.rotary.fold import MeanVectors, fold_relative, mean_vectors
from lnattn.rotary.terms import distance_terms
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn_book.chapters.unselectable import lost_in_all_layers
from lnattn_book.page.checks import Check, says
from lnattn_book.page.names import model_name
from lnattn_book.studies.guaranteed import (
    LENGTH,
    VOCABULARIES,
    Guaranteed,
    apart,
    joining,
    near,
    never,
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
                "pieces": joins.share,
                "whole words": joins.nulls["whole words"],
                "wrong predecessors": joins.nulls["wrong predecessors"],
                "random heads": joins.nulls["heads in random order"],
                "pairs apart": switch.share,
                "near heads": near(study, vocabulary).share,
            }
    index = pd.MultiIndex.from_tuples(rows, names=["model", "the others are"])
    return pd.DataFrame(list(rows.values()), index=index)


def never_table(studies: Mapping[str, Guaranteed]) -> pd.DataFrame:
    """What G4 says, a row a model: shares of the tokens, beside random heads' largest."""
    rows = {}
    for name, study in studies.items():
        columns = {}
        for what, words in enumerate(("never half", "never first")):
            outcome = never(study, what)
            if outcome is not None:
                columns[words] = outcome.share
                columns[f"{words}, random heads"] = outcome.nulls["most"]
        if columns:
            rows[model_name(name)] = columns
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


def medians(study: Guaranteed, head: int, vocabulary: int = 0) -> dict[str, float]:
    """Medians over the tokens of a kind, to their main predecessor."""
    found = {}
    for kind, words in enumerate(("pieces", "words")):
        found[f"{words}, least"] = float(np.median(study.least[vocabulary, kind, head]))
        found[f"{words}, greatest"] = float(np.median(study.greatest[vocabulary, kind, head]))
    return found


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
    shares = [
        float(torch.sigmoid(score - (end[0] - by_place)[others].logsumexp(0)))
        for end in texts.ends([query])
    ]
    return min(shares), max(shares)


def checks(
    promised: Mapping[str, Guarantee],
    without: Mapping[str, tuple[float, float]],
    measured: Measured,
    studies: Mapping[str, Guaranteed],
) -> Iterator[Check]:
    """What the page says of its numbers.

    promised, without: of the two queries, whole and without T^ed; measured: on text.
    """
    piece = promised["f"]
    word = promised[" near"]
    llama = studies["book-llama"]
    minilm = studies["minilm"]
    joins = joining(llama)
    switch = apart(llama)
    middle = medians(llama, 3)
    written = joining(minilm, 1)
    yield says("gives it 45 % or more in every text of 64 tokens", piece.least, LENGTH)
    yield says("gives at most 13 %", word.greatest)
    yield says("gets at least 45 % in every text of 64 tokens", piece.least, LENGTH)
    yield says("it makes the head pay 45.7 %", piece.least)
    yield says("The most that any text makes near pay is 12.9 %", word.greatest)
    yield says("in every text f looks back more than near does in any", piece.least > word.greatest)
    yield says("Without it f is promised 2 %", without["f"][0])
    yield says("near may pay up to 35 %", without[" near"][1])
    yield says("Every window lies inside", measured.inside)
    ends = measured.least.mean(), measured.greatest.mean()
    yield says("on average from 12 to 44 %", *ends)
    yield says(
        "12 % of the pieces give their main predecessor half or more", joins.share, joins.head == 3
    )
    words = joins.nulls["whole words"]
    yield says("of whole words one in a thousand", 0.0005 < words < 0.0015, found=words)
    yield says("with wrong predecessors it is 12 % as well", joins.nulls["wrong predecessors"])
    yield says("looks back at whatever stands there", joins.says.startswith("looks back"))
    yield says(
        "is promised 33 %, the median word 4 %", middle["pieces, least"], middle["words, least"]
    )
    random = switch.nulls["heads in random order"]
    yield says("12 % are, and in heads of random weights 8 %", switch.share, random)
    not_apart = switch.says == "no more than its nulls"
    yield says("it does not say that they are apart", not_apart)
    yield says("Of all tokens none of its heads promises anything", joining(minilm).share == 0)
    yield says(
        "gives it half in every text from 72 % of the pieces", written.share, written.head == 2
    )
    smol = studies["smollm2-135m-q4"]
    whisper = studies["whisper-tiny.en"]
    nothing = [joining(smol, vocabulary).share for vocabulary in (0, 1)]
    yield says("In SmolLM2 no head promises anything with either", max(nothing) == 0)
    pairs = apart(whisper)
    trifles = medians(whisper, pairs.head or 0)
    yield says("83 % of pairs are apart", pairs.share)
    yield says(
        "the median piece is promised less than 1 %, and so is the median word at most",
        trifles["pieces, least"],
        trifles["words, greatest"] < 0.01,
    )
    yield from checks_of_never(studies)
    of_real_widths = lost_in_all_layers(
        data_folder() / "results", ("minilm", "book-gpt2", "book-llama")
    )
    lost = list(of_real_widths.values())
    yield says(
        "in three models with heads of real widths, none of our texts' keys that no query selects",
        len(lost) == 3,
        np.array(lost) == 0,
        found=lost,
    )
    yield says(
        "promises pieces 33 % in the median, and words 4 %",
        middle["pieces, least"],
        middle["words, least"],
    )
    yield says("12 % are apart, hardly more than with random weights", switch.share, not_apart)
    heads = [near(study, v).share for study in studies.values() for v in (0, 1)]
    yield says("No head of the five models looks near in every text", max(heads) == 0)


def checks_of_never(studies: Mapping[str, Guaranteed]) -> Iterator[Check]:
    """What is said of the keys that no query looks at; of all models that were asked."""
    asked = {name: [never(study, what) for what in (0, 1)] for name, study in studies.items()}
    halves = {name: half for name, (half, _) in asked.items() if half is not None}
    firsts = {name: first for name, (_, first) in asked.items() if first is not None}
    shares = np.array([first.share for first in firsts.values()])
    yield says("In each of these models most tokens are never first", shares > 0.5)
    more = [name for name, first in firsts.items() if first.says == "more than by chance"]
    yield says("In three it is more of them than in the random heads", len(more) == 3)
    lowest, *others = np.sort(studies["whisper-tiny.en"].never[1])
    yield says(
        "in Whisper's decoder fewer, since one of its six heads puts nearly every token first "
        "somewhere",
        firsts["whisper-tiny.en"].says == "fewer than by chance",
        lowest < 0.1,
        np.array(others) > 0.99,
        len(others) + 1 == 6,
    )
    llama = halves["book-llama"]
    minilm = halves["minilm"]
    fewer = llama.share < llama.nulls["least"] / 5
    yield says(
        "12 % of book-llama's tokens never do, far fewer than in random heads", llama.share, fewer
    )
    none = minilm.nulls["most"] == 0
    yield says("of MiniLM's 4 % never do, and in random heads none", minilm.share, none)
