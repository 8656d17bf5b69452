"""LayerNorm as a projection and a scaling: how exactly, what it forgets, which keys can win."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lnattn import plain
from lnattn.attention.layernorm import center, standardise
from lnattn.weights import FirstLayer
from lnattn_book.page import Check, says
from lnattn_book.studies.samples import sample_windows

#: Windows of the sample whose tokens stand for real inputs.
_WINDOWS = 300


def points_in_space() -> Float[Tensor, "point 3"]:
    """Forty random points, as the chapter's first figure shows them."""
    generator = torch.Generator().manual_seed(0)
    return 0.9 * torch.randn(40, 3, generator=generator, dtype=torch.float64)


def half_plane(side: int) -> Float[Tensor, "point 3"]:
    """Points of the plane of v = (1, −1, 0)/√2 and **1**, on one side of **1** (side: 1 or −1)."""
    v = torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64) / math.sqrt(2)
    ones = torch.ones(3, dtype=torch.float64) / math.sqrt(3)
    along_v = side * torch.linspace(0.15, 1.6, 6, dtype=torch.float64)
    along_ones = torch.linspace(-1.7, 1.7, 8, dtype=torch.float64)
    return (along_v[:, None] * v + along_ones[:, None, None] * ones).reshape(-1, 3)


class Forms(NamedTuple):
    """How far the forms of LayerNorm lie apart, over all widths.

    constructions: largest difference of C = I − 1ᵀ1/d and B diag(1, …, 1, 0) B⁻¹; ranks: width →
    rank of C; apart: largest difference of √d · xC/‖xC‖ from torch's own LayerNorm.
    """

    constructions: float
    ranks: dict[int, int]
    apart: float


def compare_forms(widths: Sequence[int], draws: int = 10_000, seed: int = 0) -> Forms:
    """LayerNorm written three ways, on Gaussian inputs far from zero, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    constructions = 0.0
    apart = 0.0
    ranks = {}
    for width in widths:
        C = torch.from_numpy(plain.centring(width))
        P = torch.from_numpy(plain.projection(width))
        constructions = max(constructions, float((C - P).abs().max()))
        ranks[width] = int(torch.linalg.matrix_rank(C, tol=1e-9))
        x = 5 + torch.randn(draws, width, generator=generator, dtype=torch.float64)
        by_formula = math.sqrt(width) * (x @ C) / (x @ C).norm(dim=-1, keepdim=True)
        reference = torch.nn.functional.layer_norm(x, (width,), eps=0.0)
        apart = max(apart, float((by_formula - reference).abs().max()))
    return Forms(constructions, ranks, apart)


class Images(NamedTuple):
    """What LayerNorm makes of points of a plane that contains 1.

    points: how many were drawn; distinct: how many images, to five decimals; error: largest
    difference from sign(α) √d v.
    """

    points: int
    distinct: int
    error: float


def images_of_a_plane(width: int, draws: int = 10_000, seed: int = 0) -> Images:
    """Standardise points αv + β1 with Gaussian α and β, for one unit vector v orthogonal to 1."""
    generator = torch.Generator().manual_seed(seed)
    v = center(torch.randn(width, generator=generator, dtype=torch.float64))
    v = v / v.norm()
    alpha, beta = torch.randn(2, draws, 1, generator=generator, dtype=torch.float64)
    images = standardise(alpha * v + beta)
    error = float((images - alpha.sign() * math.sqrt(width) * v).abs().max())
    return Images(draws, len(torch.unique(images.round(decimals=5), dim=0)), error)


def inputs(model: FirstLayer, length: int = 64) -> Float[Tensor, "token d_model"]:
    """Token and position rows, added, for windows of the sample of text; in double precision.

    Each window begins with [CLS] where the model has one. length: tokens of a window, at most the
    model's context.
    """
    length = min(length, model.embeddings.n_positions)
    ids = torch.as_tensor(sample_windows(model, length, _begin(model))[0])[:_WINDOWS]
    tokens = model.embeddings.tokens()[ids]
    positions = model.embeddings.W_P[:length]
    return (tokens + positions).double().flatten(0, 1)


def _begin(model: FirstLayer) -> int | None:
    """The token that every input of the model begins with, such as [CLS]; None without one."""
    return getattr(model.tokenizer, "cls_token_id", None)


class Removed(NamedTuple):
    """What the two halves of LayerNorm take away from each input.

    cosine: |cos| of the input with 1, which the projection deletes; length: of the centred input,
    which the scaling makes √d. Both [token].
    """

    cosine: Float[np.ndarray, "token"]
    length: Float[np.ndarray, "token"]


def removed(x: Float[Tensor, "token d_model"]) -> Removed:
    """How much of each input lies along 1, and how long it is without that part."""
    along = x.sum(dim=-1) / (x.norm(dim=-1) * math.sqrt(x.shape[1]))
    return Removed(along.abs().numpy(), center(x).norm(dim=-1).numpy())


def wins(
    keys: Float[Tensor, "key d"], queries: int = 200_000, seed: int = 0
) -> Int[np.ndarray, "key"]:
    """How many of so many Gaussian queries give each key the highest score."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(queries, keys.shape[1], generator=generator, dtype=keys.dtype)
    winners = (drawn @ keys.T).argmax(dim=-1)
    return torch.bincount(winners, minlength=len(keys)).numpy()


def checks(
    plane: Images,
    share: float,
    times: float,
    d_model: int,
    picks: Int[np.ndarray, "key"],
    inside: Bool[np.ndarray, "key"],
    picks_of_k: int,
) -> Iterator[Check]:
    """What the page says of its numbers.

    share: of the squared length of MiniLM's inputs, in `d_model` dimensions, that lies along 1;
    times: how often the longest is as long as the shortest. picks: how many queries pick each of
    the nine keys in the plane, of which some are inside the hull; picks_of_k: the same of key k,
    once all keys are of one length.
    """
    beside_random = share * d_model
    yield says(
        "In the encoder MiniLM the projection removes next to nothing", share < 1e-3, found=share
    )
    yield says("lengths that differ 3.6-fold", times)
    yield says("The whole plane becomes two points", plane.distinct == 2, found=plane.distinct)
    yield says("about one part in two thousand", 1500 < 1 / share < 2500, found=1 / share)
    yield says("a fifth of what projecting along", 0.15 < beside_random < 0.25, found=beside_random)
    yield says("The longest input is 3.6 times as long as the shortest", times)
    yield says(
        "No query of two hundred thousand picks one of the keys inside the hull",
        picks.sum() == 200_000,
        picks[inside] == 0,
        found=picks[inside],
    )
    yield says("the scaling key k has queries of its own", picks_of_k > 0, found=picks_of_k)
    yield says("Of MiniLM's inputs the projection takes next to nothing", share < 1e-3, found=share)
