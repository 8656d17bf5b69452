"""What is taken out of the first layer's scores, at which tokens it should matter, and how much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from transformers import PreTrainedModel

from lnattn.affinity.subwords import TokenClasses
from lnattn.attention.forward import causal_mask
from lnattn.attention.terms import PairTerms
from lnattn.errors import ShapeError
from lnattn.inputs import whole_number
from lnattn.models.attending import losses
from lnattn.stats import resampled_counts

#: What is taken out beside single terms: T^p and T^pp together (by distance: d), …
PLACE = "place"
#: … T^ee of pairs that stand in the training text, …
PAIRS = "pairs"
#: … every term that knows a token, and every term that knows a position (or a distance alone, with
#: or without the query's token; the turning of T^ee and T^e stays).
TOKENS, POSITIONS = "tokens", "positions"
#: What is taken out of single heads, too.
PER_HEAD = ("ee", PLACE, PAIRS)
#: Texts that go through the model at once.
_BATCH = 8


def second_pieces(classes: TokenClasses, ids: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """A token that continues a word, right after the token that begins it."""
    is_second = np.zeros(len(ids), dtype=bool)
    is_second[1:] = classes.word[ids[:-1]] & classes.continuation[ids[1:]]
    return is_second


def second_words_of_names(
    classes: TokenClasses, ids: Int[np.ndarray, "n"]
) -> Bool[np.ndarray, "n"]:
    """The second of two capitalised words, each one token, after letters without a capital.

    That leaves out beginnings of sentences; what follows must not continue the second word.
    """
    capitalised = classes.word & classes.capital
    in_small_letters = classes.letters & ~classes.capital
    is_second = np.zeros(len(ids), dtype=bool)
    before = ids[:-3]
    first = ids[1:-2]
    second = ids[2:-1]
    is_second[2:-1] = in_small_letters[before] & capitalised[first] & capitalised[second]
    is_second[:-1] &= ~classes.continuation[ids[1:]]
    return is_second


def drawn_documents(documents: int, draws: int, seed: int = 0) -> Int[np.ndarray, "draw document"]:
    """How often each document is taken: all once in row 0, then resampled with replacement."""
    drawn = resampled_counts(documents, draws, seed)
    return np.concatenate([np.ones((1, documents), dtype=np.int64), drawn])


def deciles_of(
    values: Shaped[np.ndarray, "n"], chosen: Bool[np.ndarray, "n"], groups: int = 10
) -> Int[np.ndarray, "n"]:
    """The group 0 … groups − 1 of every value, between quantiles of the chosen ones.

    Raises `ShapeError` where nothing is chosen, or for fewer than one group.
    """
    whole_number(groups, "groups")
    if not chosen.any():
        raise ShapeError("quantiles of the chosen values need one or more of them; none is chosen.")
    edges = np.quantile(values[chosen], np.arange(1, groups) / groups)
    return np.searchsorted(edges, values, side="right")


def matched_differences(
    change: Float[np.ndarray, "row n"],
    chosen: Bool[np.ndarray, "n"],
    others: Bool[np.ndarray, "n"],
    cell: Int[np.ndarray, "n"],
    document: Int[np.ndarray, "n"],
    taken: Int[np.ndarray, "draw document"],
) -> tuple[Float[np.ndarray, "draw row 2"], int]:
    """Mean change at the chosen tokens, and at others weighted to fall into cells as those do.

    cell: what tokens are matched by; document: where they stand; taken: of `drawn_documents`, the
    same for all rows. A chosen token in whose cell there is no other is left out; the number is of
    those that remain in row 0.
    """
    cells = int(cell.max(initial=0)) + 1
    documents = taken.shape[1]
    place = document * cells + cell

    def per_draw(where: Bool[np.ndarray, "n"], weights: np.ndarray | None = None) -> np.ndarray:
        weights = None if weights is None else weights[where]
        sums = np.bincount(place[where], weights, minlength=documents * cells)
        return taken @ sums.reshape(documents, cells)  # [draw cell]

    n_chosen = per_draw(chosen)
    n_others = per_draw(others)
    n_matched = np.where(n_others > 0, n_chosen, 0.0)
    # The others of a cell count as often as the chosen tokens in it.
    weight = np.divide(n_matched, n_others, out=np.zeros_like(n_matched), where=n_others > 0)
    total = np.maximum(n_matched.sum(axis=1), 1.0)
    means = np.empty((len(taken), len(change), 2))
    for row, values in enumerate(change):
        sum_of_chosen = np.where(n_others > 0, per_draw(chosen, values), 0.0)
        means[:, row, 0] = sum_of_chosen.sum(axis=1) / total
        means[:, row, 1] = (weight * per_draw(others, values)).sum(axis=1) / total
    return means, int(n_matched[0].sum())


def removals(
    terms: PairTerms, counted: Bool[Tensor, "query key"], seen: Bool[Tensor, "query key"]
) -> dict[str, Float[Tensor, "head query key"]]:
    """What is taken out of the scores, by name: every term, place, pairs, tokens, positions.

    counted: which pairs count; seen: which keys a query may see. T^ee of a pair becomes the mean
    over the query's other keys, which is neutral: a softmax knows no zero.
    """
    parts = {name: terms[name] for name in terms.names}
    parts[PLACE] = terms["p"] + terms["pp"] if "pp" in terms.names else terms["d"]
    others = seen & ~counted
    number = others.sum(dim=-1, keepdim=True)
    mean = (terms["ee"] * others).sum(dim=-1, keepdim=True) / number.clamp_min(1)
    parts[PAIRS] = torch.where(seen & counted & (number > 0), terms["ee"] - mean, 0.0)
    for whole, letters in ((TOKENS, "e"), (POSITIONS, "pd")):
        knowing = [terms[name] for name in terms.names if set(name) & set(letters)]
        parts[whole] = torch.stack(knowing).sum(dim=0)
    return parts


def ablation_names(terms: Sequence[str], heads: int) -> list[tuple[str, int]]:
    """What is taken out of which head, −1 for all: the order of `ablated_losses`."""
    whole = [(what, -1) for what in (*terms, PLACE, PAIRS, TOKENS, POSITIONS)]
    return whole + [(what, head) for what in PER_HEAD for head in range(heads)]


@torch.inference_mode()
def ablated_losses(
    model: PreTrainedModel,
    terms: PairTerms,
    ids: Int[Tensor, "n"],
    counted: Bool[Tensor, "query key"],
) -> tuple[Float[Tensor, "row predicted"], Float[Tensor, "removal head"]]:
    """Losses of one text, and how far attention moved.

    Row 0: the model as it is; row 1: told its own attention, no term left out; then an ablation a
    row. Moved: mean over queries of KL(α ‖ α without) in nats, for the ablations of all heads.
    """
    scores = terms.scores()
    pattern = terms.softmax(scores)
    taken_out = removals(terms, counted, causal_mask(len(ids), len(ids)))
    without = {what: terms.softmax(scores - part) for what, part in taken_out.items()}
    patterns = [pattern, *without.values()]
    for what in PER_HEAD:
        for head in range(len(pattern)):
            without_in_one_head = pattern.clone()
            without_in_one_head[head] = without[what][head]
            patterns.append(without_in_one_head)
    rows = [losses(model, ids)]
    for begin in range(0, len(patterns), _BATCH):
        rows.append(losses(model, ids, torch.stack(patterns[begin : begin + _BATCH])))
    moved = []
    for changed in without.values():
        kl = torch.where(pattern > 0, pattern * (pattern / changed).log(), 0.0).sum(dim=-1)
        moved.append(kl[:, 1:].mean(dim=-1))  # the first query has no choice
    return torch.cat(rows), torch.stack(moved)
