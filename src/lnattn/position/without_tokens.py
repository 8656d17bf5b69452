"""What a checkpoint without token embeddings still tells about position.

Position embeddings, first LayerNorm and attention weights fix b_QK p_jᵀ, p_i W_QK p_jᵀ and Var(p_j)
exactly; σ(e_v + p_j) needs the tokens. It is left out, and conclusions are repeated for assumed
variances of the tokens: one that holds for all of them does not hang on what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float

from lnattn.attention.folding import fold
from lnattn.inputs import require
from lnattn.position.bias import PositionBias, position_bias, share_of_context
from lnattn.position.curves import (
    LastRows,
    last_rows,
    nearness,
    second_half_medians,
    terms_table,
    trend,
    wave_recurrence,
)
from lnattn.position.measured import near_share
from lnattn.position.sigma import assumed_inverse_sigma, variances
from lnattn.storage import Result, provenance
from lnattn.weights import FirstLayer

#: Assumed Var(e), as multiples of the median Var(p_j).
ASSUMED = (0.0, 0.25, 1.0, 4.0, 16.0)
_FROM_WEIGHTS = ("source", "revision", "weights_sha256", "tensors", "metadata")


@dataclass(frozen=True, eq=False)
class PositionOnly(Result):
    """Position terms without σ, and what would follow under assumed variances of the tokens.

    bias: the terms, undivided, at `share_of_context` queries; variance: Var(p_j), [position]; last:
    the last rows of p_i W_QK p_jᵀ; peak, percentile: [head position], of the undivided T^pp (see
    `Nearness`); assumed: variances of tokens, [case]; spearman: of T^p with position, [case head];
    near: attention on the nearest ten keys, and echo: `wave_recurrence`, [case head query].
    """

    NAME: ClassVar[str] = "position"

    bias: PositionBias
    variance: Float[np.ndarray, "position"]
    last: LastRows
    peak: np.ndarray
    percentile: np.ndarray
    assumed: Float[np.ndarray, "case"]
    spearman: Float[np.ndarray, "case head"]
    near: Float[np.ndarray, "case head query"]
    echo: Float[np.ndarray, "case head query"]
    record: Mapping[str, Any]

    def table(self) -> pd.DataFrame:
        """One row a head: trend of T^p, with its range over the assumptions, and T^pp's shape."""
        distance, percentile = second_half_medians(self.peak, self.percentile)
        table = terms_table(
            self.bias.self_assertion,
            self.bias.comparison[:, -1],
            distance=distance,
            percentile=percentile,
        )
        table.insert(1, "lowest, any assumed σ", self.spearman.min(axis=0))
        table.insert(2, "highest, any assumed σ", self.spearman.max(axis=0))
        return table

    def term_p(self) -> Float[np.ndarray, "case head position"]:
        """T^p under each assumed variance of the tokens; ε, a thousandth of any, is left out."""
        variance = self.variance + self.assumed[:, None]  # [case position]
        return self.bias.self_assertion / np.sqrt(variance)[:, None]

    def arrays(self) -> dict[str, np.ndarray]:
        """Curves in single precision."""
        return {
            "self_assertion": self.bias.self_assertion.astype(np.float32),
            "comparison": self.bias.comparison.astype(np.float32),
            "last_rows": self.last.curves.astype(np.float32),
            "percentile": self.percentile.astype(np.float32),
            "variance": self.variance,
            "assumed": self.assumed,
            "spearman": self.spearman,
            "near": self.near,
            "echo": self.echo,
            "queries": np.array(self.bias.queries),
            "last_queries": np.array(self.last.queries),
            "peak": self.peak.astype(np.int32),
        }

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> PositionOnly:
        """The result from its arrays and its record."""
        bias = PositionBias(
            queries=tuple(arrays["queries"].tolist()),
            self_assertion=arrays["self_assertion"].astype(np.float64),
            comparison=arrays["comparison"].astype(np.float64),
            inverse_sigma=None,
            scale=float(record["scale"]),
            causal=bool(record["causal"]),
        )
        last = LastRows(
            queries=tuple(arrays["last_queries"].tolist()),
            curves=arrays["last_rows"].astype(np.float64),
        )
        return cls(
            bias=bias,
            variance=arrays["variance"],
            last=last,
            peak=arrays["peak"],
            percentile=arrays["percentile"],
            assumed=arrays["assumed"],
            spearman=arrays["spearman"],
            near=arrays["near"],
            echo=arrays["echo"],
            record=record,
        )


def position_only(layer: FirstLayer) -> PositionOnly:
    """Everything about position that needs no token embedding, for the first layer of a model.

    Raises `ShapeError` for anything but a `FirstLayer` with absolute positions.
    """
    require(layer, FirstLayer, "layer")
    W_P = layer.embeddings.W_P
    folded = fold(layer.attention)
    bias = position_bias(folded, W_P, share_of_context(len(W_P)))
    around = nearness(folded, W_P)
    variance = variances(W_P.double()).numpy()
    assumed = np.array(ASSUMED) * float(np.median(variance))
    spearman = []
    near = []
    echoes = []
    for token_variance in assumed:
        sigma = assumed_inverse_sigma(W_P, float(token_variance), folded.eps)
        divided = replace(bias, inverse_sigma=sigma)
        spearman.append([trend(curve).spearman for curve in divided.term_p().mean])
        near.append(near_share(divided.attention(), bias.queries, bias.causal))
        echoes.append(wave_recurrence(divided))
    return PositionOnly(
        bias=bias,
        variance=variance,
        last=last_rows(folded, W_P),
        peak=around.peak,
        percentile=around.percentile,
        assumed=assumed,
        spearman=np.array(spearman),
        near=np.array(near),
        echo=np.array(echoes),
        record=provenance(
            study="position_only",
            scale=bias.scale,
            causal=bias.causal,
            model=layer.name,
            layer=layer.layer,
            function=f"{position_only.__module__}.{position_only.__qualname__}",
            **{key: layer.provenance.get(key) for key in _FROM_WEIGHTS},
        ),
    )
