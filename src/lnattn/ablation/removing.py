"""Parts of the first layer's scores, taken out of all heads or of one, and the losses without."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from lnattn.attention.forward import causal_mask
from lnattn.attention.terms import PairTerms
from lnattn.models.attending import losses

#: What is taken out beside single terms: T^p and T^pp together (by distance: d), and T^ee of pairs.
PLACE, PAIRS = "place", "pairs"
#: What is taken out of single heads, too.
PER_HEAD = ("ee", PLACE, PAIRS)
#: Texts that go through the model at once.
_BATCH = 8


def removals(
    terms: PairTerms, counted: Bool[Tensor, "query key"], seen: Bool[Tensor, "query key"]
) -> dict[str, Float[Tensor, "head query key"]]:
    """What is taken out of the scores, by name: every term, place, pairs.

    counted: which pairs count; seen: which keys a query may see. T^ee of a pair becomes the mean
    over the query's other keys, which is neutral: a softmax knows no zero.
    """
    found = {name: terms[name] for name in terms.names}
    found[PLACE] = terms["p"] + terms["pp"] if "pp" in terms.names else terms["d"]
    others = seen & ~counted
    number = others.sum(dim=-1, keepdim=True)
    mean = (terms["ee"] * others).sum(dim=-1, keepdim=True) / number.clamp_min(1)
    found[PAIRS] = torch.where(seen & counted & (number > 0), terms["ee"] - mean, 0.0)
    return found


def ablation_names(terms: Sequence[str], heads: int) -> list[tuple[str, int]]:
    """What is taken out of which head, −1 for all: the order of `without_parts`."""
    whole = [(what, -1) for what in (*terms, PLACE, PAIRS)]
    return whole + [(what, head) for what in PER_HEAD for head in range(heads)]


@torch.inference_mode()
def without_parts(
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
            patterns.append(pattern.clone())
            patterns[-1][head] = without[what][head]
    rows = [losses(model, ids)]
    for begin in range(0, len(patterns), _BATCH):
        rows.append(losses(model, ids, torch.stack(patterns[begin : begin + _BATCH])))
    moved = torch.stack([_divergence(pattern, one) for one in without.values()])
    return torch.cat(rows), moved


def _divergence(
    before: Float[Tensor, "head n n"], after: Float[Tensor, "head n n"]
) -> Float[Tensor, "head"]:
    """Mean of KL(before ‖ after) over the queries that have a choice, in nats."""
    moved = torch.where(before > 0, before * (before / after).log(), 0.0)
    return moved.sum(dim=-1)[:, 1:].mean(dim=-1)
