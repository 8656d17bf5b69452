"""What it costs a model not to hear keys that none of its queries can select."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AttentionInterface, PreTrainedModel

from lnattn.selectability.decide import AffineHull, selectability
from lnattn.stats import resampled_counts

#: What is subtracted from scores; the first is judged. And draws of keys for each.
MARGINS, DRAWS = (5.0, 1.0), (3, 1)
#: How keys of the two classes are paired, and the classes.
PAIRINGS, CLASSES = ("at random", "by attention"), ("unselectable", "selectable")
_NAME = "lnattn-lowered"


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, _: Any, **settings: Any
) -> tuple[Tensor, None]:
    """Causal attention with scores of keys of the first half lowered for queries of the second."""
    n = key.shape[-2]
    lowered = settings["lowered"][module.layer_idx]
    half = lowered.shape[-1]
    scores = query @ key.transpose(-1, -2) * settings["scaling"]
    scores[..., half:, :half] -= lowered[:, None, :]
    scores += torch.full((n, n), -torch.inf).triu(1)
    pattern = scores.softmax(dim=-1)
    settings["noted"].append((key[0], pattern[0, :, half:, :half].mean(dim=1)))
    return (pattern @ value).transpose(1, 2).contiguous(), None


AttentionInterface.register(_NAME, _attention)


@torch.inference_mode()
def loss_of_second_half(
    model: PreTrainedModel, ids: Int[Tensor, "n"], lowered: Float[Tensor, "layer head half"]
) -> tuple[float, Float[np.ndarray, "layer head n d"], Float[np.ndarray, "layer head half"]]:
    """Mean loss in nats of what the second half predicts; all keys, and attention they receive."""
    noted: list[tuple[Tensor, Tensor]] = []
    model.set_attn_implementation(_NAME)
    logits = model(ids[None], use_cache=False, lowered=lowered, noted=noted).logits[0]
    half = lowered.shape[-1]
    loss = cross_entropy(logits[half:-1], ids[half + 1 :]).item()
    keys, received = zip(*noted, strict=True)
    by_layer = (torch.stack(keys).double().numpy(), torch.stack(received).double().numpy())
    return loss, *by_layer


def classes(
    keys: Float[np.ndarray, "n d"], half: int, dim: int
) -> tuple[Bool[np.ndarray, "half"], Bool[np.ndarray, "half"]]:
    """Unselectable among the first half, and selectable among all, in the first components."""
    hull = AffineHull.of(keys[:half])
    points = ((keys - keys[:half].mean(axis=0)) @ hull.back)[:, :dim]
    return ~selectability(points[:half]).selectable, selectability(points).selectable[:half]


def pairs(
    unselectable: Bool[np.ndarray, "half"],
    selectable: Bool[np.ndarray, "half"],
    received: Float[np.ndarray, "half"],
    rng: np.random.Generator,
) -> Int[np.ndarray, "pairing class k"]:
    """As many keys of either class, half as many as the smaller has, paired in both ways."""
    pools = [np.flatnonzero(flags) for flags in (unselectable, selectable)]
    k = max(1, min(map(len, pools)) // 2) if all(map(len, pools)) else 0
    chosen = [rng.permutation(pool)[:k] for pool in pools]
    small = int(len(pools[1]) < len(pools[0]))
    partners = []
    free = list(pools[1 - small])
    for key in chosen[small]:
        near = int(np.abs(received[free] - received[key]).argmin())
        partners.append(free.pop(near))
    by_attention = [chosen[small], np.array(partners, dtype=np.int64)]
    return np.array([chosen, by_attention[:: -1 if small else 1]], dtype=np.int64)


def costs(
    model: PreTrainedModel, windows: Iterator[Sequence[int]], dim: int
) -> dict[str, np.ndarray]:
    """Losses with keys lowered, less the loss without, in nats a token.

    cost: [window margin pairing class], means over draws; lowered: [window], keys a head;
    received: [window pairing class], mean attention that the lowered keys had, by the first margin.
    """
    rng = np.random.default_rng(0)
    every = []
    layers = model.config.n_layer
    heads = model.config.n_head
    for window in windows:
        ids = torch.as_tensor(list(window))
        half = len(window) // 2
        clean, keys, received = loss_of_second_half(model, ids, torch.zeros(layers, heads, half))
        known = {
            (i, h): classes(keys[i, h], half, dim) for i in range(layers) for h in range(heads)
        }
        cost = np.zeros((len(MARGINS), len(PAIRINGS), len(CLASSES)))
        heard = np.zeros((len(PAIRINGS), len(CLASSES)))
        number = 0
        for margin, draws in enumerate(DRAWS):
            for _ in range(draws):
                drawn = {at: pairs(*two, received[at], rng) for at, two in known.items()}
                for place in np.ndindex(cost.shape[1:]):
                    lowered = torch.zeros(layers, heads, half)
                    for at, of_head in drawn.items():
                        lowered[at][of_head[place]] = MARGINS[margin]
                    cost[margin][place] += loss_of_second_half(model, ids, lowered)[0] / draws
                    hit = lowered.numpy() > 0
                    if margin == 0:
                        heard[place] += received[hit].mean() / draws
                        number = int(hit.sum())
        every.append((cost - clean, number / (layers * heads), heard, clean))
    names = ("cost", "lowered", "received", "clean")
    return {
        name: np.array(values) for name, values in zip(names, zip(*every, strict=True), strict=True)
    }


def savings(
    cost: Float[np.ndarray, "window pairing class"], draws: int = 1000
) -> Float[np.ndarray, "pairing 2 3"]:
    """1 − cost of unselectable over cost of selectable keys, and the latter, each with interval."""
    windows = len(cost)
    weights = np.concatenate([np.ones((1, windows)), resampled_counts(windows, draws, 0)]) / windows
    means = np.einsum("dw,wpc->pcd", weights, cost)
    both = np.stack([1 - means[:, 0] / means[:, 1], means[:, 1]], axis=1)
    ends = np.quantile(both[..., 1:], (0.025, 0.975), axis=-1)
    return np.stack([both[..., 0], *ends], axis=-1)
