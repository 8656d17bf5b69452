"""Where the papers' code departs from their text, and how much two of the departures change.

The page 'Where papers and code differ' states the departures and shows these effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.affinity.vectors import mean_sigma, token_vectors
from lnattn.attention.folding import fold
from lnattn.attention.terms import sigma_of_pairs
from lnattn.contribution.study import PAPERS_CODE, TEXT, Convention
from lnattn.text.counts import Counts
from lnattn.weights import Embeddings, FirstLayer

#: Ways to count a contribution (K10): the text's, each departure of the code alone, all together.
CONVENTIONS: Mapping[str, Convention] = {
    "text": TEXT,
    "unscaled": replace(TEXT, name="unscaled", scaled=False),
    "divided by i + 1": replace(TEXT, name="divided by i + 1", per_key=True),
    "floor": replace(TEXT, name="floor", floor=1e-10),
    "last position dropped": replace(TEXT, name="last position dropped", ends=False),
    "released code": PAPERS_CODE,
}


def half_precision_sigma(embeddings: Embeddings, eps: float) -> Float[Tensor, "vocab"]:
    """The mean of σ over positions, rounded to half precision before and after the mean."""
    places = torch.arange(embeddings.n_positions)
    tokens = torch.arange(embeddings.vocab_size)
    means = [
        sigma_of_pairs(embeddings, ids, places, eps).half().float().mean(dim=1)
        for ids in tokens.split(max(1, 1_000_000 // len(places)))
    ]
    return torch.cat(means).half().float()


def effect_of_half_sigma(
    model: FirstLayer, counts: Counts, queries: int = 200
) -> tuple[float, Float[np.ndarray, "head"], Float[np.ndarray, "head"]]:
    """The largest relative change of σ in half precision, and mean AUROCs with full and half σ.

    AUROCs are means over the same query tokens with bigrams.
    """
    folded, eps = fold(model.attention), model.attention.ln.eps
    before = Neighbours.before(counts.bigrams)
    known = np.flatnonzero(before.n_distinct)
    chosen = np.random.default_rng(0).choice(known, min(queries, len(known)), replace=False)
    sigmas = mean_sigma(model.embeddings, eps), half_precision_sigma(model.embeddings, eps)
    areas = []
    for sigma in sigmas:
        vectors = token_vectors(folded, model.embeddings, sigma)
        found = head_auroc(vectors, before, chosen).values[:, chosen]
        areas.append(np.nanmean(found, axis=1))
    return float((sigmas[1] / sigmas[0] - 1).abs().max()), areas[0], areas[1]
