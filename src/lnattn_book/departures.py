"""How much it changes that the papers' code differs from their text, one departure at a time.

The page 'Where papers and code differ' states the departures and shows these effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.affinity.vectors import TokenVectors, mean_sigma, token_vectors
from lnattn.attention.folding import fold
from lnattn.attention.layernorm import standardise
from lnattn.attention.terms import sigma_of_pairs
from lnattn.contribution.study import PAPERS_CODE, TEXT, Convention
from lnattn.position.measured import measured_attention, windows
from lnattn.selectability.decide import selectability
from lnattn.selectability.papers_search import bounded_search
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
#: By which keys are multiplied; whether a query can select a key does not depend on it.
SCALES = (1e-8, 1e-4, 1.0, 1e4)


def half_precision_sigma(embeddings: Embeddings, eps: float) -> Float[Tensor, "vocab"]:
    """The mean of σ over positions, rounded to half precision before and after the mean."""
    places = torch.arange(embeddings.n_positions)
    tokens = torch.arange(embeddings.vocab_size)
    means = [
        sigma_of_pairs(embeddings, ids, places, eps).half().float().mean(dim=1)
        for ids in tokens.split(max(1, 1_000_000 // len(places)))
    ]
    return torch.cat(means).half().float()


@dataclass(frozen=True)
class HalfSigma:
    """What half precision changes: the largest relative change of σ, and AUROCs either way.

    full, half: [head], means over the same query tokens.
    """

    change: float
    full: Float[np.ndarray, "head"]
    half: Float[np.ndarray, "head"]


def effect_of_half_sigma(model: FirstLayer, counts: Counts, queries: int = 200) -> HalfSigma:
    """σ and mean AUROC with σ in full and in half precision, for some query tokens with bigrams."""
    folded, eps = fold(model.attention), model.attention.ln.eps
    before = Neighbours.before(counts.bigrams)
    known = np.flatnonzero(before.n_distinct)
    chosen = np.random.default_rng(0).choice(known, min(queries, len(known)), replace=False)
    full, half = mean_sigma(model.embeddings, eps), half_precision_sigma(model.embeddings, eps)
    areas = [
        _mean_auroc(token_vectors(folded, model.embeddings, s), before, chosen)
        for s in (full, half)
    ]
    return HalfSigma(float((half / full - 1).abs().max()), *areas)


def _mean_auroc(
    vectors: TokenVectors, before: Neighbours, chosen: np.ndarray
) -> Float[np.ndarray, "head"]:
    return np.nanmean(head_auroc(vectors, before, chosen).values[:, chosen], axis=1)


def attention_with_and_without(
    model: FirstLayer, documents: Iterable[Sequence[int]], first: int, length: int
) -> dict[str, Float[np.ndarray, "head position"]]:
    """Mean attention of the last query of windows, with the token `first` in front and without."""
    folded, documents = fold(model.attention), list(documents)
    return {
        name: measured_attention(
            folded, model.embeddings, windows(documents, length, token), [length - 1]
        ).mean[:, 0]
        for name, token in (("with", first), ("without", None))
    }


def exact_and_searched(
    keys: Float[np.ndarray, "n d"], scales: Sequence[float] = SCALES
) -> pd.DataFrame:
    """Share of unselectable keys, exact and by the authors' search, for scales and precisions.

    One row for normal keys and one for the same after LayerNorm, in double and single precision.
    The authors' solver is Gurobi; here the same linear program goes to HiGHS.
    """
    normed = standardise(torch.from_numpy(keys)).numpy()
    rows = {}
    for name, points in (("as drawn", keys), ("after LayerNorm", normed)):
        for dtype in (np.float64, np.float32):
            columns = {"exact": selectability(points).unselectable}
            for scale in scales:
                columns[f"× {scale:g}"] = bounded_search(
                    (points * scale).astype(dtype)
                ).unselectable
            rows[f"{name}, {np.dtype(dtype).name}"] = columns
    return pd.DataFrame(rows).T


def ranks_after_layer_norm(keys: Float[np.ndarray, "n d"], eps: float = 1e-5) -> tuple[int, int]:
    """Rank of the keys after LayerNorm: as it is, and as seen when they were computed in float32.

    The first is at most d − 1, so a check for full rank must fail. Single precision leaves rounding
    errors along the missing direction, which double precision then takes for a dimension.
    """
    exact = standardise(torch.from_numpy(keys), eps).numpy()
    rounded = standardise(torch.from_numpy(keys).float(), eps).double().numpy()
    return int(np.linalg.matrix_rank(exact)), int(np.linalg.matrix_rank(rounded))
