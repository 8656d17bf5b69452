"""What a rotary first layer does by distance alone, beside what chance would do.

It takes a model's weights and how often its tokens occur, and no pairs of tokens, so that it is had
in seconds: chapter 13 shows it of every model that is at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lnattn.attention.distance import DISTANCE_TERMS
from lnattn.attention.folding import fold
from lnattn.claims.survey import dealt_anew
from lnattn.relative import RelativeFirstLayer
from lnattn.studies.position.distance import DistanceBias, distance_bias

#: The distances that curves go over, and the longest text.
CONTEXT = 256
#: How often heads are dealt anew for the nulls of D4, D6 and D7.
DEALS = 20


@dataclass(frozen=True, eq=False)
class ByDistance:
    """The last of the four terms, and how the variance of scores divides. Made by `by_distance`.

    curve, null_curve: [head distance], the term d divided by the scale, in the model and with all
    its weights dealt anew; share: [term head], of the variance of scores; spread: [head], their
    standard deviation, divided by the scale; null_share: [deal head], of d, with the heads dealt
    anew and the embeddings as they are.
    """

    curve: Float[np.ndarray, "head distance"]
    null_curve: Float[np.ndarray, "head distance"]
    share: Float[np.ndarray, "term head"]
    spread: Float[np.ndarray, "head"]
    null_share: Float[np.ndarray, "deal head"]

    @property
    def n_heads(self) -> int:
        return len(self.curve)

    @property
    def alone(self) -> Float[np.ndarray, "head"]:
        """The share of distance alone."""
        return self.share[DISTANCE_TERMS.index("d")]

    def table(self) -> pd.DataFrame:
        """One row a head: the shares of the four terms, and the standard deviation of scores."""
        rows = dict(zip(DISTANCE_TERMS, self.share, strict=True))
        return pd.DataFrame({**rows, "standard deviation": self.spread}).rename_axis("head")

    def near_share(self, near: int, null: bool = False) -> Float[np.ndarray, "head"]:
        """Attention by the last term alone on the nearest keys, over all distances."""
        curve = self.null_curve if null else self.curve
        return torch.from_numpy(curve).softmax(dim=-1)[:, :near].sum(dim=-1).numpy()


def by_distance(
    model: RelativeFirstLayer, unigrams: Int[np.ndarray, "vocab"], *, seed: int = 0
) -> ByDistance:
    """The curves and shares of a model, with its nulls; unigrams: how often each token occurs."""
    found, null = _bias(model, unigrams), _bias(dealt_anew(model, seed), unigrams)
    dealt = [_bias(one, unigrams) for one in heads_dealt_anew(model, seed)]
    return ByDistance(
        curve=found.curve / found.scale,
        null_curve=null.curve / null.scale,
        share=found.share,
        spread=np.sqrt(found.variance.sum(axis=0)) / found.scale,
        null_share=np.stack([one.share[DISTANCE_TERMS.index("d")] for one in dealt]),
    )


def heads_dealt_anew(model: RelativeFirstLayer, seed: int = 0) -> Iterator[RelativeFirstLayer]:
    """The model with the entries of its queries' and keys' weights in random order, `DEALS` times.

    The embeddings stay, with whatever they know of a token's frequency: what is left of a head's
    result when this is done was there before the head.
    """
    return (dealt_anew(model, seed + deal, heads_only=True) for deal in range(DEALS))


def _bias(model: RelativeFirstLayer, unigrams: Int[np.ndarray, "vocab"]) -> DistanceBias:
    return distance_bias(fold(model.attention), model.embeddings, unigrams, range(CONTEXT))
