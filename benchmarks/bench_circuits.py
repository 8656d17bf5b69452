"""Composition scores of a whole model: from the factors against dense matrices."""

from __future__ import annotations

from typing import Any

import torch
from common import GPT2_SMALL, growth, random_first_layer, ratio, time_side_by_side
from torch import Tensor

from lnattn import AttentionLayer
from lnattn.attention.circuits import KINDS, model_composition, ov_circuit, read_circuit

#: The ratio that the project asks for.
FLOOR = 50


def dense_scores(writer: AttentionLayer, reader: AttentionLayer) -> Tensor:
    """The definition with d_model × d_model matrices, one head pair after another.

    [kind writer_head reader_head]. The dense circuits are built once for each layer, and every
    head's norm is computed once; what is left is one dense product for each pair and kind.
    """
    write = ov_circuit(writer).dense()
    write_norm = torch.linalg.matrix_norm(write)
    out = torch.empty(len(KINDS), len(write), reader.n_heads, dtype=write.dtype)
    for k, kind in enumerate(KINDS):
        read = read_circuit(reader, kind).dense()
        read_norm = torch.linalg.matrix_norm(read)
        for a in range(len(write)):
            for b in range(len(read)):
                out[k, a, b] = torch.linalg.matrix_norm(write[a] @ read[b]) / (
                    write_norm[a] * read_norm[b]
                )
    return out


def run(quick: bool = False) -> dict[str, Any]:
    """Time both on random weights of GPT-2 small's shape, after a check that they agree."""
    layers = 3 if quick else 12
    d_model = 48 if quick else GPT2_SMALL["d_model"]
    heads = 4 if quick else GPT2_SMALL["heads"]
    blocks = [
        random_first_layer(8, d_model, heads, 8, seed=layer).attention for layer in range(layers)
    ]
    ours = model_composition(blocks)
    exact = dense_scores(blocks[0], blocks[1])
    difference = float((ours.scores[:, 0, :, 1] - exact).abs().max())
    if difference > 1e-5:
        raise RuntimeError(f"the two methods differ by {difference:.1e}; nothing was timed.")
    pairs = layers * (layers - 1) // 2
    dense = f"dense, 1 of {pairs} layer pairs"
    factored = f"factored, all {pairs} layer pairs"
    timings = time_side_by_side(
        {
            dense: lambda: dense_scores(blocks[0], blocks[1]),
            factored: lambda: model_composition(blocks),
        },
        repeats=1 if quick else 5,
    )

    def of_width(width: int) -> dict[str, Any]:
        two = [random_first_layer(8, width, width // 64, 8, seed=s).attention for s in range(2)]
        return {
            "dense": lambda: dense_scores(*two),
            "factored": lambda: model_composition(two),
        }

    return {
        "title": "Composition of all head pairs",
        "what": (
            "Q-, K- and V-composition scores between all heads of all layers. The dense method "
            "multiplies d × d matrices, one pair of heads after another, with every norm and every "
            f"dense circuit computed once; it is timed on one of the {pairs} layer pairs, and the "
            f"ratio is for all of them ({pairs} times its time)."
        ),
        "workload": {
            "layers": layers,
            "heads": heads,
            "d_model": d_model,
            "d_head": d_model // heads,
            "layer_pairs": pairs,
            "scores": 3 * pairs * heads * heads,
            "largest_difference": difference,
        },
        "rows": [timing.as_row() for timing in timings.values()],
        "ratios": [ratio(timings[dense], timings[factored], floor=FLOOR, work=float(pairs))],
        "growth": []
        if quick
        else [
            growth("d", "width of the model, heads of 64", [128, 256, 512, 1024], of_width, 3),
        ],
        "notes": [
            "The factored method's time includes the spectra that its null distribution needs.",
        ],
    }


if __name__ == "__main__":
    import json

    print(json.dumps(run(), indent=2))
