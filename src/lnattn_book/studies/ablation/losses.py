"""Is it used? What predictions lose when a part of the first layer's scores is taken out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor
from transformers import PreTrainedModel

from lnattn.affinity.subwords import TokenClasses
from lnattn.attention.terms import PairTerms
from lnattn.errors import CorpusError, ResultError
from lnattn.inputs import checked_bigrams, one_of, whole_number
from lnattn.models.attending import patched
from lnattn.progress import progress_bar
from lnattn.storage import Result, provenance
from lnattn_book.studies.ablation.parts import (
    ablated_losses,
    ablation_names,
    deciles_of,
    drawn_documents,
    matched_differences,
    second_pieces,
    second_words_of_names,
)

#: Where the loss is measured. 'after': of the next token, so that the token in question asks as a
#: query; 'on': of the token itself, which the one before it has to foresee.
READINGS = ("after", "on")
CLASSES = {"second pieces": second_pieces, "second words of names": second_words_of_names}
#: Less text than this at the end of a document is no window.
_SHORTEST = 32


@dataclass(frozen=True, eq=False)
class Ablations(Result):
    """Losses of one model without parts of its first layer's scores. Made by `ablations`.

    what: [ablation], a term, 'place' (T^p and T^pp, or d), 'pairs' (T^ee of a query with keys that
    stood right before it in the training text), 'tokens' (all terms with a token) or 'positions'
    (all with a position or a distance); head: [ablation], −1 for all. Changes of the
    loss in nats: everywhere, over all tokens; at, at the tokens of a class and at matched ones.
    Draw 0 is the text itself, the others resample its documents. loss: of the whole model there.
    tokens: of the class, those of them with a match, and all that may match. moved: mean KL in
    nats, ablations of all heads.
    """

    NAME: ClassVar[str] = "ablation"

    what: np.ndarray
    head: Int[np.ndarray, "ablation"]
    everywhere: Float[np.ndarray, "draw ablation"]
    at: Float[np.ndarray, "draw ablation reading class side"]
    loss: Float[np.ndarray, "reading class side"]
    tokens: Int[np.ndarray, "reading class 3"]
    moved: Float[np.ndarray, "removal head"]
    record: Mapping[str, Any]

    @property
    def n_heads(self) -> int:
        """How many query heads there are."""
        return self.moved.shape[1]

    def of(self, what: str, head: int = -1) -> int:
        """The place of an ablation; `ResultError` where it was not made."""
        places = np.flatnonzero((self.what == what) & (self.head == head))
        if not len(places):
            raise ResultError(f"nothing was measured without {what!r} in head {head}.")
        return int(places[0])

    def excess(
        self, what: str, head: int = -1, *, of: str = "second pieces", reading: str = "after"
    ) -> Float[np.ndarray, "draw"]:
        """What is lost at a class of tokens beyond what is lost at matched ones, in nats.

        what, head: as in `of`; of: one of `CLASSES`; reading: one of `READINGS`. Raises
        `ResultError` for a name that is none.
        """
        one_of(of, CLASSES, "of", error=ResultError)
        one_of(reading, READINGS, "reading", error=ResultError)
        at_reading = self.at[:, self.of(what, head), READINGS.index(reading)]
        chosen, matched = at_reading[:, list(CLASSES).index(of)].T
        return chosen - matched

    def by_head(self, what: str, of: str = "second pieces") -> Float[np.ndarray, "draw head"]:
        """`excess` for a part that is taken out of one head after another."""
        return np.stack([self.excess(what, head, of=of) for head in range(self.n_heads)], axis=1)


def interval(draws: Float[np.ndarray, "draw"]) -> tuple[float, float, float]:
    """The value of the text itself, and its 95 % interval over resampled documents.

    draws: [draw], the text itself first. Raises `ResultError` without a resample.
    """
    if len(draws) < 2:
        raise ResultError("an interval needs the text itself and one resample or more.")
    low, high = np.quantile(draws[1:], [0.025, 0.975]).tolist()
    return float(draws[0]), low, high


def ablations(  # noqa: PLR0913 (a study: its settings by name)
    model: PreTrainedModel,
    terms_of: Callable[[Int[Tensor, "n"]], PairTerms],
    documents: Sequence[Sequence[int]],
    classes: TokenClasses,
    bigrams: sparse.csr_array,
    *,
    window: int = 256,
    first: int | None = None,
    draws: int = 500,
    source: Mapping[str, Any] | None = None,
) -> Ablations:
    """Take terms, place, counted pairs, tokens, positions out of layer 1, and measure the loss.

    model: with its language-model head; terms_of: the terms of a text, from the same weights;
    documents: token ids, cut into windows; first: a token before each window; bigrams: counts of
    the training text, of which any counts as a pair. source: what the record shall say. Raises
    `CorpusError` where no document is long enough, the window leaves no room for text, or the
    counts are no square sparse matrix; `ResultError` for no draw.
    """
    checked_bigrams(bigrams)
    if bigrams.shape[0] != len(classes.word):
        raise CorpusError(
            f"the counts are over {bigrams.shape[0]} tokens but the classes over "
            f"{len(classes.word)}; take both from the model's own tokenizer."
        )
    whole_number(draws, "draws", error=ResultError)
    begun = time.perf_counter()
    texts = windows_of(documents, window, first)
    about = {**(source or {}), "window": window, "windows": len(texts), "documents": len(documents)}
    rows = []
    moved = []
    with patched(model):
        for _, ids in progress_bar(texts, "windows without parts"):
            terms = terms_of(ids)
            counted = torch.from_numpy(bigrams[ids.numpy()][:, ids.numpy()].toarray().T > 0)
            losses, shift = ablated_losses(model, terms, ids, counted)
            rows.append(losses.numpy())
            moved.append(shift.numpy())
    all_losses = np.concatenate(rows, axis=1).astype(np.float64)
    mean_moved = np.mean(moved, axis=0)
    listed = ablation_names(terms.names, mean_moved.shape[1])
    unigrams = np.asarray(bigrams.sum(axis=0)).ravel()
    read = _read(all_losses, texts, classes, unigrams, draws)
    return Ablations(
        what=np.array([what for what, _ in listed]),
        head=np.array([head for _, head in listed]),
        everywhere=read["everywhere"],
        at=read["at"],
        loss=read["loss"],
        tokens=read["tokens"],
        moved=mean_moved,
        record=provenance(
            **about,
            predictions=all_losses.shape[1],
            draws=draws,
            # What telling the model its own attention changes in any loss: rounding.
            largest_change_by_nothing=float(np.abs(all_losses[1] - all_losses[0]).max()),
            seconds=round(time.perf_counter() - begun, 1),
        ),
    )


def _read(
    losses: Float[np.ndarray, "row predicted"],
    texts: Sequence[tuple[int, Tensor]],
    classes: TokenClasses,
    unigrams: Int[np.ndarray, "vocab"],
    draws: int,
) -> dict[str, np.ndarray]:
    """The arrays of `Ablations` that are made of losses."""
    base = losses[1]
    changes = losses[2:] - base
    document = np.concatenate([np.full(len(ids) - 1, place) for place, ids in texts])
    taken = drawn_documents(int(document.max()) + 1, draws)
    shape = (len(READINGS), len(CLASSES))
    at = np.full((draws + 1, len(changes), *shape, 2), np.nan)
    loss = np.full((*shape, 2), np.nan)
    tokens = np.zeros((*shape, 3), dtype=np.int64)
    flags = [[in_class(classes, ids.numpy()) for in_class in CLASSES.values()] for _, ids in texts]
    for r, part in enumerate((slice(None, -1), slice(1, None))):  # of queries, of what follows
        token = np.concatenate([ids[part].numpy() for _, ids in texts])
        members = np.concatenate([np.array(of_text)[:, part] for of_text in flags], axis=1)
        others = classes.letters[token] & ~members.any(axis=0)
        for c, chosen in enumerate(members):
            tokens[r, c] = chosen.sum(), 0, others.sum()
            if not chosen.any():
                continue
            frequency = deciles_of(unigrams[token], chosen)
            difficulty = deciles_of(base, chosen)
            cell = 10 * frequency + difficulty
            rows = np.concatenate([changes, base[None]])
            means, matched = matched_differences(rows, chosen, others, cell, document, taken)
            tokens[r, c, 1] = matched
            at[:, :, r, c] = means[:, :-1]
            loss[r, c] = means[0, -1]
    every = np.ones(len(base), dtype=bool)
    means, _ = matched_differences(changes, every, every, np.zeros_like(document), document, taken)
    everywhere = means[..., 0].astype(np.float32)
    return {"everywhere": everywhere, "at": at.astype(np.float32), "loss": loss, "tokens": tokens}


def windows_of(
    documents: Sequence[Sequence[int]], length: int, first: int | None
) -> list[tuple[int, Tensor]]:
    """Windows with the number of their document, the last of each as long as it comes.

    first: a token before each, within `length`. Raises `CorpusError` where no document has 32
    tokens, or the length leaves no room for two.
    """
    before = [] if first is None else [first]
    whole_number(length, "window", least=2 + len(before), error=CorpusError)
    body = length - len(before)
    windows = [
        (number, torch.tensor([*before, *document[begin : begin + body]]))
        for number, document in enumerate(documents)
        for begin in range(0, len(document), body)
        if len(document) - begin >= min(_SHORTEST, body)
    ]
    if not windows:
        raise CorpusError(f"no document has {_SHORTEST} tokens; give longer texts.")
    return windows
