"""lnattn: the sum of its terms, from folded weights, in float64."""

from functools import cache

import torch

import lnattn


@cache
def _first(folder):
    return lnattn.load_first_layer(folder).to(torch.float64)


def attention(folder, token_ids):
    first = _first(folder)
    if hasattr(first, "context"):  # positions stand between query and key
        folded = lnattn.fold_relative(first.attention)
        return lnattn.distance_terms(folded, first.embeddings, token_ids).attention()
    return lnattn.six_terms(lnattn.fold(first.attention), first.embeddings, token_ids).attention()
