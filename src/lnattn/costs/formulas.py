"""What one transformer layer costs, by formula: operations and bytes of every part.

N new tokens (`queries`) attend to M tokens (`keys`; N = 1 when decoding with a cache), D features,
H heads, F features inside the FFN. A multiplication and an addition are two operations. Bytes are
those of an unfused part that reads each operand once and writes its result once.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

#: The parts of a pre-LN layer whose operations are matrix products, in the order of execution.
PRODUCTS = ("W_Q", "W_K", "W_V", "scores", "values", "W_O", "W_in", "W_out")


@dataclass(frozen=True)
class LayerSize:
    """The sizes that a layer's cost depends on; keys ≥ queries, and heads divide d_model."""

    queries: int
    keys: int
    d_model: int
    heads: int
    d_mlp: int
    bytes_per_number: int = 4


def product_costs(size: LayerSize) -> pd.DataFrame:
    """Operations and bytes of the eight matrix products, one row each.

    Columns: formula (text), operations, weight_bytes (parameters read), bytes (all that is read
    and written, the parameters included).
    """
    N, M, D = size.queries, size.keys, size.d_model
    H, F = size.heads, size.d_mlp
    rows = [  # part, formula, operations, weights, activations
        *((name, "2 N D²", 2 * N * D * D, D * D, 2 * N * D) for name in ("W_Q", "W_K", "W_V")),
        ("scores", "2 N M D", 2 * N * M * D, 0, N * D + M * D + H * N * M),
        ("values", "2 N M D", 2 * N * M * D, 0, N * D + M * D + H * N * M),
        ("W_O", "2 N D²", 2 * N * D * D, D * D, 2 * N * D),
        ("W_in", "2 N D F", 2 * N * D * F, D * F, N * D + N * F),
        ("W_out", "2 N D F", 2 * N * D * F, D * F, N * D + N * F),
    ]
    columns = ["part", "formula", "operations", "weight_bytes", "bytes"]
    table = pd.DataFrame(rows, columns=columns).set_index("part")
    table["bytes"] += table["weight_bytes"]
    return table.assign(**{c: table[c] * size.bytes_per_number for c in columns[3:]})


def layer_parameters(d_model: int, d_mlp: int, *, attentions: int = 1, norms: int = 2) -> int:
    """Parameters of one layer: attention blocks, an FFN and LayerNorms, all with biases.

    attentions: 2 for a decoder that also reads an encoder; norms: LayerNorms with gain and bias.
    """
    attention = 4 * (d_model * d_model + d_model)
    return attentions * attention + 2 * d_model * d_mlp + d_mlp + d_model + norms * 2 * d_model


def least_bytes(size: LayerSize) -> int:
    """Bytes that must be moved even if everything between input and output stays in a cache.

    The parameters, the keys and values of the M − N tokens cached before, the layer's input and
    output. Biases and LayerNorms (13 D numbers at most) are left out.
    """
    N, M, D, F = size.queries, size.keys, size.d_model, size.d_mlp
    return size.bytes_per_number * (4 * D * D + 2 * D * F + 2 * (M - N) * D + 2 * N * D)
