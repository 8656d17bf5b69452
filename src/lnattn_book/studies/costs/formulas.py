"""What one transformer layer costs, by formula: operations and bytes of every part.

N new tokens (`queries`) attend to M tokens (`keys`; N = 1 when decoding with a cache), D features,
H heads, F features inside the FFN. A multiplication and an addition are two operations. Bytes are
those of an unfused part that reads each operand once and writes its result once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import pandas as pd

from lnattn.errors import ShapeError
from lnattn.inputs import whole_number

#: The parts of a pre-LN layer whose operations are matrix products, in the order of execution.
PRODUCTS = ("W_Q", "W_K", "W_V", "scores", "values", "W_O", "W_in", "W_out")


@dataclass(frozen=True)
class LayerSize:
    """The sizes that a layer's cost depends on.

    queries: new tokens; keys: tokens they attend to, their own among them. Raises `ShapeError`
    unless all are whole numbers ≥ 1, keys ≥ queries, and heads divide d_model.
    """

    queries: int
    keys: int
    d_model: int
    heads: int
    d_mlp: int
    bytes_per_number: int = 4

    def __post_init__(self) -> None:
        for field in fields(self):
            whole_number(getattr(self, field.name), f"LayerSize.{field.name}")
        if self.keys < self.queries or self.d_model % self.heads:
            raise ShapeError(
                f"a layer needs keys ≥ queries and heads that divide d_model, not {self.keys} keys "
                f"for {self.queries} queries and {self.heads} heads in {self.d_model}."
            )


def product_costs(size: LayerSize) -> pd.DataFrame:
    """Operations and bytes of the eight matrix products, one row each.

    Columns: formula (text), operations, weight_bytes (parameters read), bytes (all that is read
    and written, the parameters included).
    """
    N = size.queries
    M = size.keys
    D = size.d_model
    H = size.heads
    F = size.d_mlp
    projection = ("2 N D²", 2 * N * D * D, D * D, 2 * N * D)
    with_scores = ("2 N M D", 2 * N * M * D, 0, N * D + M * D + H * N * M)
    in_the_ffn = ("2 N D F", 2 * N * D * F, D * F, N * D + N * F)
    costs = {
        "W_Q": projection,
        "W_K": projection,
        "W_V": projection,
        "scores": with_scores,
        "values": with_scores,
        "W_O": projection,
        "W_in": in_the_ffn,
        "W_out": in_the_ffn,
    }
    rows = []
    for part in PRODUCTS:
        formula, operations, weights, activations = costs[part]
        rows.append(
            {
                "part": part,
                "formula": formula,
                "operations": operations,
                "weight_bytes": weights * size.bytes_per_number,
                "bytes": (weights + activations) * size.bytes_per_number,
            }
        )
    return pd.DataFrame(rows).set_index("part")


def layer_parameters(d_model: int, d_mlp: int, *, attentions: int = 1, norms: int = 2) -> int:
    """Parameters of one layer: attention blocks, an FFN and LayerNorms, all with biases.

    attentions: 2 for a decoder that also reads an encoder; norms: LayerNorms with gain and bias.
    Raises `ShapeError` for a width below 1.
    """
    whole_number(d_model, "d_model")
    whole_number(d_mlp, "d_mlp")
    attention = 4 * (d_model * d_model + d_model)
    ffn = 2 * d_model * d_mlp + d_mlp + d_model
    return attentions * attention + ffn + norms * 2 * d_model


def least_bytes(size: LayerSize) -> int:
    """Bytes that must be moved even if everything between input and output stays in a cache.

    The parameters, the keys and values of the M − N tokens cached before, the layer's input and
    output. Biases and LayerNorms (13 D numbers at most) are left out.
    """
    D = size.d_model
    parameters = 4 * D * D + 2 * D * size.d_mlp
    cached = 2 * (size.keys - size.queries) * D
    in_and_out = 2 * size.queries * D
    return size.bytes_per_number * (parameters + cached + in_and_out)
