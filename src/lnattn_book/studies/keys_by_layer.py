"""Are keys unselectable inside the heads of deeper layers, and what have those that are in common?

Keys are decided as queries meet them: with their bias, after whatever earlier layers did to their
tokens, and turned as at their own positions. Any query can be had, so that one verdict holds for
queries at all positions that see the whole window. To see who would be lost first, they are decided
again in the first quarter of their principal components.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy.stats import rankdata

from lnattn.errors import CorpusError
from lnattn.progress import progress_bar
from lnattn.selectability.decide import AffineHull
from lnattn.selectability.verify import verified_selectability
from lnattn.stats import resampled_counts
from lnattn.storage import Result, provenance

#: What may tell unselectable keys apart: how often the token occurs in the counts, where it stands,
#: and how far its key lies from the mean of the head's keys in this window.
PROPERTIES = ("frequency", "position", "distance")

#: What is decided: keys as they are, and a quarter of their principal components.
KEPT = (1, 4)

#: The keys of one window in every layer: token ids -> a list of [key_head n d_head].
KeysOf = Callable[[Int[np.ndarray, "n"]], list[np.ndarray]]


@dataclass(frozen=True, eq=False)
class LayerVerdicts(Result):
    """Verdicts on the keys of all heads of all layers. Made by `decide_layers`.

    unselectable: for the keys and for a quarter of their dimensions (`KEPT`); rank: of each head's
    keys; auroc: the probability that an unselectable key has more of a property (of `PROPERTIES`)
    than a selectable one beside it, NaN where all keys are of one kind.
    """

    NAME: ClassVar[str] = "selectability-layers"

    unselectable: Bool[np.ndarray, "components layer head window position"]
    rank: Int[np.ndarray, "layer head window"]
    auroc: Float[np.ndarray, "components property layer head window"]
    record: Mapping[str, Any]

    def by_head(self, components: int = 0) -> Float[np.ndarray, "layer head"]:
        """Share of unselectable keys in each head. components: a place in `KEPT`."""
        return self.unselectable[components].mean(axis=(2, 3))

    def by_position(self, components: int = 0, groups: int = 8) -> Float[np.ndarray, "layer group"]:
        """The same in each layer, over groups of neighbouring positions."""
        parts = np.array_split(self.unselectable[components].mean(axis=(1, 2)), groups, axis=1)
        return np.stack([part.mean(axis=1) for part in parts], axis=1)

    def common(
        self, components: int = 0, draws: int = 1000, seed: int = 0
    ) -> Float[np.ndarray, "property 3"]:
        """Mean AUROC of each property, and its 95 % interval over resampled windows."""
        auroc = self.auroc[components]
        windows = auroc.shape[-1]
        times_taken = np.concatenate(
            [np.ones((1, windows)), resampled_counts(windows, draws, seed)]
        )
        defined = np.isfinite(auroc)
        sums = np.where(defined, auroc, 0.0).sum(axis=(1, 2)) @ times_taken.T  # [property draw]
        number = defined.sum(axis=(1, 2)) @ times_taken.T
        means = np.divide(sums, number, out=np.full(sums.shape, np.nan), where=number > 0)
        if not np.isfinite(means[:, 0]).all():
            return np.full((len(PROPERTIES), 3), np.nan)
        edges = np.nanquantile(means[:, 1:], [0.025, 0.975], axis=1)
        return np.stack([means[:, 0], *edges], axis=1)


def decide_layers(
    keys_of: KeysOf,
    windows: Int[np.ndarray, "window n"],
    unigrams: Int[np.ndarray, "vocab"],
    *,
    source: Mapping[str, Any] | None = None,
) -> LayerVerdicts:
    """Decide all keys of some windows in every head of every layer; certificates are verified.

    keys_of: the keys of one window; unigrams: how often each token occurs; source: what the record
    shall say about model and text. Raises `CorpusError` for no window at all, and `ResultError` if
    a certificate does not hold.
    """
    if not len(windows):
        raise CorpusError("there is no window of text to decide; give longer texts.")
    begun = time.perf_counter()
    decided = [
        [
            [_decide(keys, unigrams[ids]) for keys in heads.astype(np.float64)]
            for heads in keys_of(ids)
        ]
        for ids in progress_bar(windows, "windows")
    ]
    by_name = {
        name: np.array(
            [[[getattr(head, name) for head in layer] for layer in text] for text in decided]
        )
        for name in Decided._fields
    }
    seconds = round(time.perf_counter() - begun, 1)
    facts = {"windows": len(windows), "keys": windows.shape[1], "seconds": seconds}
    return LayerVerdicts(
        # From [window layer head components …] and [window layer head].
        unselectable=np.moveaxis(by_name["unselectable"], (3, 0), (0, 3)),
        rank=np.moveaxis(by_name["rank"], 0, 2),
        auroc=np.moveaxis(by_name["auroc"], (3, 4, 0), (0, 1, 4)),
        record=provenance(**(source or {}), **facts),
    )


class Decided(NamedTuple):
    """What is decided of one head and window; the first and the last have an entry per `KEPT`."""

    unselectable: list[Bool[np.ndarray, "n"]]
    rank: int
    auroc: list[list[float]]


def _decide(keys: Float[np.ndarray, "n d_head"], counts: Int[np.ndarray, "n"]) -> Decided:
    hull = AffineHull.of(keys)
    # Their spread is taken out of the components of a hull; the sizes do not matter to a verdict.
    first_components = hull.points[:, : max(1, keys.shape[1] // KEPT[1])]
    unselectable = [
        ~verified_selectability(points).selectable for points in (keys, first_components)
    ]
    distance = np.linalg.norm(keys - keys.mean(axis=0), axis=1)
    properties = (counts, np.arange(len(keys)), distance)
    auroc = [[rank_auroc(values, flags) for values in properties] for flags in unselectable]
    return Decided(unselectable, hull.rank, auroc)


def rank_auroc(values: Shaped[np.ndarray, "n"], flags: Bool[np.ndarray, "n"]) -> float:
    """The chance that a flagged value is above one that is not, a tie counting half; NaN for none.

    By the sum of ranks (Mann and Whitney 1947).

    >>> rank_auroc(np.array([3, 1, 2]), np.array([True, False, True]))
    1.0
    """
    flagged = int(flags.sum())
    others = int((~flags).sum())
    if not flagged or not others:
        return float("nan")
    ranks = rankdata(values)
    wins = ranks[flags].sum() - flagged * (flagged + 1) / 2
    return float(wins / (flagged * others))
