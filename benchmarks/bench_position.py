"""σ bands: the mean and 95% band of T^p over all tokens, against seaborn's percentile interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from common import growth, peak_memory, random_first_layer, ratio, time_side_by_side
from matplotlib.figure import Figure

from lnattn import FirstLayer, fold
from lnattn.attention.layernorm import sigma
from lnattn.position.bias import position_bias
from lnattn.position.sigma import covariance_blocks, inverse_sigma_bands

matplotlib.use("Agg")


def run(quick: bool = False) -> dict[str, Any]:
    """Time both, and the matrix product alone that our method cannot do without."""
    sizes = {"vocab": 600, "d_model": 48, "heads": 4, "positions": 64} if quick else {}
    model = random_first_layer(**sizes)
    heads = model.attention.n_heads
    positions = model.embeddings.n_positions
    # seaborn's time is proportional to the positions, so a part of them is enough to time.
    part = positions // 32
    few = max(1, positions // 128)
    values = pairs_of_one_head(model, part)
    compare(model, values)

    ours_name = f"ours, all {heads} heads"
    pairs_name = f"values of one head, pair by pair, {few} of {positions} positions"
    papers_name = f"seaborn, one head, {part} of {positions} positions"
    product_name = "matrix product alone"
    methods = {
        ours_name: lambda: ours(model),
        product_name: lambda: product(model),
        papers_name: lambda: seaborn_curve(values),
        pairs_name: lambda: pairs_of_one_head(model, few),
    }
    timings = time_side_by_side(methods, repeats=1 if quick else 5)
    timings = {
        name: replace(timing, peak_mib=peak_memory(methods[name]))
        for name, timing in timings.items()
    }
    fast = timings[ours_name]
    slow = timings[papers_name]
    one_head = ratio(slow, fast, floor=50, work=positions / part)
    every = ratio(slow, fast, floor=600, work=heads * positions / part)
    one_head["of"] = "seaborn, one head"
    every["of"] = f"seaborn, {heads} heads"
    values_too = ratio(timings[pairs_name], fast, work=positions / few)
    values_too["of"] = "values of one head, pair by pair"
    over_floor = ratio(timings[product_name], fast, floor=None if quick else 1 / 1.5)
    V = model.embeddings.vocab_size
    d = model.embeddings.d_model
    grown = (200, 400) if quick else (6_000, 12_500, 25_000, 50_257)
    longer = (16, 32) if quick else (128, 256, 512, 1024)
    return {
        "title": "Bands over all tokens",
        "what": (
            "Mean and 95% percentile band of T^p over the whole vocabulary at every position. The "
            "papers' method gives the value of every token at every position to seaborn's "
            "lineplot, one head at a time; ours summarises 1/σ once for all heads. seaborn is "
            "given its values ready-made, while ours starts from the weights; what the values "
            "cost, adding the vectors of each pair, is a row of its own."
        ),
        "workload": {"V": V, "d": d, "heads": heads, "P": positions},
        "rows": [timing.as_row() for timing in timings.values()],
        "ratios": [one_head, every, values_too, over_floor],
        "growth": [
            growth("V", "tokens in the vocabulary", grown, lambda v: sized(sizes, vocab=v)),
            growth("P", "positions", longer, lambda p: sized(sizes, positions=p)),
        ],
        "notes": [
            f"seaborn was timed on {part} of the {positions} positions and one head, the values on "
            f"{few}; their ratios count the work they would have to do for all of them."
        ],
    }


def ours(model: FirstLayer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lower and upper T^p of all heads: [head position] each."""
    folded = fold(model.attention)
    bands = inverse_sigma_bands(model.embeddings, folded.eps)
    band = position_bias(folded, model.embeddings.W_P, [0], bands).term_p()
    assert band.lower is not None
    assert band.upper is not None
    return band.mean, band.lower, band.upper


def product(model: FirstLayer) -> None:
    """The matrix product of positions and tokens, its result thrown away."""
    for _ in covariance_blocks(model.embeddings):
        pass


def pairs_of_one_head(model: FirstLayer, positions: int) -> np.ndarray:
    """T^p of head 0 for every token at the first positions: [position vocab], one by one."""
    folded = fold(model.attention)
    W_E = model.embeddings.W_E
    W_P = model.embeddings.W_P[:positions]
    assert W_E is not None
    numerators = folded.b_QK[0] @ W_P.T
    rows = [number / sigma(W_E + p, folded.eps) for number, p in zip(numerators, W_P, strict=True)]
    return torch.stack(rows).numpy()


def seaborn_curve(values: np.ndarray) -> matplotlib.axes.Axes:
    """The papers' way to a curve: a long table, seaborn's mean and percentile interval."""
    positions, vocab = values.shape
    table = pd.DataFrame(
        {"position": np.repeat(np.arange(positions), vocab), "value": values.ravel()}
    )
    axes = Figure().subplots()
    return sns.lineplot(table, x="position", y="value", errorbar=("pi", 95), ax=axes)


def compare(model: FirstLayer, values: np.ndarray) -> None:
    """Both methods must draw the same curve and band."""
    mean, lower, upper = ours(model)
    axes = seaborn_curve(values)
    part = len(values)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), mean[0, :part], rtol=1e-4, atol=1e-5)
    # The polygon runs along one edge and back along the other; its extremes at j are the band.
    vertices = axes.collections[0].get_paths()[0].vertices
    for j in range(part):
        edge = vertices[np.isclose(vertices[:, 0], j), 1]
        np.testing.assert_allclose(
            [edge.min(), edge.max()], [lower[0, j], upper[0, j]], rtol=1e-4, atol=1e-5
        )


def sized(base: Mapping[str, int], **size: int) -> dict[str, Callable[[], Any]]:
    """Our method and the papers' at another size; seaborn on a thirty-second of the positions."""
    model = random_first_layer(**{**base, **size})
    values = pairs_of_one_head(model, max(2, model.embeddings.n_positions // 32))
    return {
        f"ours, all {model.attention.n_heads} heads": lambda: ours(model),
        "seaborn, one head, a 32nd of the positions": lambda: seaborn_curve(values),
    }
