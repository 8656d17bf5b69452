"""What a model loses where pieces are joined, when a part of its first layer's scores is left out.

As `lnattn_book.studies.ablation` measures it, with two differences: nothing that continues a word
or a name is among the matched tokens, and the second layer is looked at, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from scipy import sparse
from torch import Tensor
from transformers import PreTrainedModel

from lnattn.affinity.subwords import TokenClasses
from lnattn.attention.forward import causal_mask
from lnattn.attention.terms import SixTerms
from lnattn.models.attending import losses, patched
from lnattn.progress import progress_bar
from lnattn_book.studies.ablation.losses import interval, windows_of
from lnattn_book.studies.ablation.parts import (
    PAIRS,
    PLACE,
    POSITIONS,
    deciles_of,
    drawn_documents,
    matched_differences,
    removals,
    second_pieces,
)

#: All terms in which a position takes part.
POSITION = "position"
#: What is left out of all heads; T^ee is left out of each head alone, too.
REMOVED = ("ee", PAIRS, PLACE, POSITION)
#: What is lost without all positions, less what is lost without T^ee.
WHERE_LESS_WHAT = "position less ee"
#: Every token as a query, and as what a query foretells.
_SIDES = (slice(None, -1), slice(1, None))
#: Patterns that go through the model at once.
_BATCH = 8


def continues(classes: TokenClasses, ids: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """Tokens that continue something: letters in a word, a capitalised word after another one."""
    flags = np.zeros(len(ids), dtype=bool)
    flags[1:] = classes.letters[ids[:-1]] & classes.continuation[ids[1:]]
    starts = np.flatnonzero(~flags)
    named = (classes.word & classes.capital)[ids[starts]]
    flags[starts[1:]] |= named[1:] & named[:-1]
    return flags


@torch.inference_mode()
def without(
    model: PreTrainedModel,
    terms: SixTerms,
    ids: Int[Tensor, "n"],
    counted: Bool[Tensor, "query key"],
    each_head: bool = True,
) -> tuple[Float[np.ndarray, "row predicted"], Float[np.ndarray, "row n"]]:
    """Losses of one text, and 1 − cos of the second layer's attention output with row 0's.

    Row 0: the model told its own attention; then `REMOVED`, and, with each_head, T^ee of each head.
    counted: pairs that stood side by side in the training text. The model is `patched`, and may be
    on a GPU; what comes back is not.
    """
    scores = terms.scores()
    parts = removals(terms, counted, causal_mask(len(ids), len(ids)))
    parts[POSITION] = parts[POSITIONS]
    untouched = terms.softmax(scores)
    patterns = [untouched, *(terms.softmax(scores - parts[name]) for name in REMOVED)]
    for head in range(len(untouched) if each_head else 0):
        patterns.append(untouched.clone())
        patterns[-1][head] = patterns[1][head]
    outputs: list[Tensor] = []
    attention = model.base_model.h[1].attn
    hook = attention.register_forward_hook(lambda _module, _inputs, out: outputs.append(out[0]))
    there = ids.to(model.device)
    rows = [
        losses(model, there, torch.stack(patterns[begin : begin + _BATCH]).to(model.device))
        for begin in range(0, len(patterns), _BATCH)
    ]
    hook.remove()
    second = torch.cat(outputs)
    turned = 1 - torch.cosine_similarity(second, second[:1], dim=-1)
    return torch.cat(rows).cpu().numpy(), turned.cpu().numpy()


def lost(  # noqa: PLR0913 (what a measurement reads)
    model: PreTrainedModel,
    terms_of: Callable[[Int[Tensor, "n"]], SixTerms],
    documents: Sequence[Sequence[int]],
    classes: TokenClasses,
    bigrams: sparse.csr_array,
    *,
    window: int = 256,
    first: int | None = None,
    draws: int = 500,
    each_head: bool = True,
) -> pd.DataFrame:
    """What is lost without each part, a row a part and measure.

    Columns: removed (`REMOVED`, or `WHERE_LESS_WHAT`: a difference), head (−1 for all), measure,
    value, low, high (95 %, documents resampled), at and beside (the mean change at the class, and
    at matched tokens), tokens (with a match). The measures: 'after' second pieces, 'on' them,
    'words' that begin right after a split one, 'second layer' (1 − cos of its attention output, at
    second pieces), and 'everywhere' (beside: 0).
    each_head: whether T^ee is left out of each head alone, too. Other arguments as of
    `lnattn_book.studies.ablation.ablations`.
    """
    texts = windows_of(documents, window, first)
    of_texts = []
    with patched(model):
        for _, ids in progress_bar(texts, "windows without parts"):
            counted = torch.from_numpy(bigrams[ids.numpy()][:, ids.numpy()].toarray().T > 0)
            of_texts.append(without(model, terms_of(ids), ids, counted, each_head))
    loss = np.concatenate([values for values, _ in of_texts], axis=1).astype(np.float64)
    turned = np.concatenate([turns[1:, :-1] for _, turns in of_texts], axis=1).astype(np.float64)
    base = loss[0]
    change = loss[1:] - loss[0]
    unigrams = np.asarray(bigrams.sum(axis=0)).ravel()
    document = np.concatenate([np.full(len(ids) - 1, place) for place, ids in texts])
    taken = drawn_documents(int(document.max()) + 1, draws)
    every = [ids.numpy() for _, ids in texts]
    here, behind = _SIDES
    token = np.concatenate([ids[here] for ids in every])
    following = np.concatenate([ids[behind] for ids in every])
    pieces = _of_both(second_pieces, classes, every)
    joins = _of_both(continues, classes, every)
    single = classes.word[token] & ~joins[0] & classes.word[following]
    ends = classes.continuation[token] & joins[0] & classes.word[following]
    alone = [
        classes.letters[tokens] & ~join
        for tokens, join in zip((token, following), joins, strict=True)
    ]
    asked = {
        "after": (change, token, pieces[0], alone[0]),
        "on": (change, following, pieces[1], alone[1]),
        "words": (change, token, ends, single),
        "second layer": (turned, token, pieces[0], alone[0]),
    }
    names = [(name, -1) for name in REMOVED]
    names += [("ee", head) for head in range(len(change) - len(names))]
    rows = []

    what = names.index(("ee", -1))
    where = names.index((POSITION, -1))
    names.append((WHERE_LESS_WHAT, -1))

    def add(measure: str, means: np.ndarray, tokens: int) -> None:
        difference = means[:, [where]] - means[:, [what]]
        means = np.concatenate([means, difference], axis=1)
        for (removed, head), (at, beside) in zip(names, means.transpose(1, 2, 0), strict=True):
            value, low, high = interval(at - beside)
            asked = {"removed": removed, "head": head, "measure": measure, "tokens": tokens}
            measured = {"value": value, "low": low, "high": high, "at": at[0], "beside": beside[0]}
            rows.append({**asked, **measured})

    for measure, (values, token_ids, mine, others) in asked.items():
        cell = 10 * deciles_of(unigrams[token_ids], mine) + deciles_of(base, mine)
        add(measure, *matched_differences(values, mine, others, cell, document, taken))
    all_ = np.ones(len(base), dtype=bool)
    none = np.zeros_like(document)
    means, tokens = matched_differences(change, all_, all_, none, document, taken)
    add("everywhere", means * [1, 0], tokens)
    return pd.DataFrame(rows)


def _of_both(
    of: Callable[[TokenClasses, np.ndarray], np.ndarray],
    classes: TokenClasses,
    texts: list[np.ndarray],
) -> list[Bool[np.ndarray, "predicted"]]:
    """The flags of queries, and of what they foretell."""
    flags = [of(classes, ids) for ids in texts]
    return [np.concatenate([of_text[part] for of_text in flags]) for part in _SIDES]
