"""Keys of trained models, in every head of every layer, beside the law of Gaussian ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

import lnattn
from experiments.unselectable_lm.small_models import keys_of_layers as keys_of_arm
from experiments.unselectable_lm.small_models import load_arm
from lnattn.models import attending
from lnattn.models.reference import load_reference_model
from lnattn.selectability.decide import AffineHull, selectability
from lnattn.selectability.first_layers import position_keys
from lnattn.selectability.gaussian import effective_dimension, expected_share
from lnattn.selectability.verify import verified_selectability
from lnattn.stats import resampled_counts
from lnattn_book.studies.samples import sample_windows

#: Shares of Gaussian keys between which a ratio is asked.
FEW, MOST = 0.01, 0.995
#: One set of keys of each head: [head n d].
Heads = Float[np.ndarray, "head n d"]


def of_arm(folder: Path, windows: Sequence[Sequence[int]]) -> Iterator[Heads]:
    """Of a small language model: all heads of all layers, a window at a time."""
    model = load_arm(folder)[0].double()
    for window in windows:
        of_layers = keys_of_arm(model, window)["heads"]
        yield of_layers.reshape(-1, *of_layers.shape[2:])


def of_model(name: str, n: int, windows: int) -> Iterator[Heads]:
    """The same of a whole model, on windows of the book's sample."""
    first = lnattn.load_first_layer(name)
    tokenizer = first.tokenizer
    whole = load_reference_model(name)
    begin = tokenizer.cls_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    with attending.patched(whole):
        for ids in sample_windows(first, n, begin)[0][:windows]:
            layers = attending.keys_of_layers(whole, torch.from_numpy(ids))
            yield np.concatenate([keys.double().numpy() for keys in layers])


def of_positions(folder: str) -> Iterator[Heads]:
    """Of GPT-2's position embeddings, a head at a time: heads stand for windows there."""
    yield from position_keys(lnattn.load_first_layer(folder))["heads"][:, None]


def shares(
    windows: Callable[[], Iterator[Heads]], counts: Sequence[int], dims: Sequence[int]
) -> dict[str, np.ndarray]:
    """Share of unselectable keys among the first n, in their first components: [dim n window].

    All components are the keys themselves, up to an affine map. Certificates are verified in the
    first window.
    """
    of_windows = []
    for number, heads in enumerate(windows()):
        decide: Callable = selectability if number else verified_selectability
        hulls = [[AffineHull.of(keys[:n]).points for keys in heads] for n in counts]
        of_windows.append(
            [
                [
                    np.mean([decide(points[:, :dim]).unselectable for points in of_n])
                    for of_n in hulls
                ]
                for dim in dims
            ]
        )
    return {"share": np.moveaxis(np.array(of_windows), 0, 2)}


def judged(
    share: Float[np.ndarray, "dim n window"], n: int, dims: Sequence[int], draws: int = 1000
) -> dict[str, np.ndarray]:
    """Effective dimension over dimension, of the last n: `ratio` [dim 3], mean and 95 % interval.

    gaussian: [dim], the law's share; asked: [dim], whether it leaves keys of both kinds.
    """
    of_window = share[:, -1]
    weights = resampled_counts(of_window.shape[1], draws, 0) / of_window.shape[1]
    means = np.concatenate([of_window.mean(axis=1, keepdims=True), of_window @ weights.T], axis=1)
    ratio = effective_dimension(means, n) / np.array(dims)[:, None]
    ends = np.quantile(ratio[:, 1:], (0.025, 0.975), axis=1)
    gaussian = np.array([expected_share(n, d) for d in dims])
    ratio = np.stack([ratio[:, 0], *ends], axis=1)
    asked = (gaussian > FEW) & (gaussian < MOST) & np.isfinite(ratio).all(axis=1)
    return {"ratio": ratio, "gaussian": gaussian, "asked": asked}
