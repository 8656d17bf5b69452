"""The one-layer encoder of the majority task, and the ways to normalise what it attends to.

Brody et al. (2023, §4.1, App. E.1): embedding → `nn.TransformerEncoderLayer` (norm first, one head,
no positions, feed-forward of width d, ReLU) → the transposed embedding. The norm before attention
has no gain or bias and attention's input projections no bias: 584 parameters for d = 8 and 20
classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lnattn.attention.layernorm import center
from lnattn.errors import ShapeError
from lnattn.inputs import one_of, real_number, whole_number


@dataclass(frozen=True)
class Variant:
    """One way to normalise the input of attention.

    project: subtract the mean first. norm: 'sqrt' scales to norm √d, 'inverse' to 1/√d, 'sigma'
    divides by σ of Eq. 2, 'none' scales nothing. small: which of attention's inputs are d times
    smaller than `norm` makes them: 'none', 'scores' (queries and keys) or 'values'. others: how
    many vectors beside 1 are projected along besides. direction: a vector of each run's own that is
    projected along, 'random' or 'learnt'. uniform: attention weighs all tokens alike. title: its
    name in tables and figures. Raises `ShapeError` for a word that is no option.
    """

    name: str
    title: str
    project: bool
    norm: str
    small: str = "none"
    others: int = 0
    direction: str = "none"
    uniform: bool = False

    def __post_init__(self) -> None:
        one_of(self.norm, ("sqrt", "inverse", "sigma", "none"), "Variant.norm")
        one_of(self.small, ("none", "scores", "values"), "Variant.small")
        one_of(self.direction, ("none", "random", "learnt"), "Variant.direction")
        whole_number(self.others, "Variant.others", least=0)

    def normalise(
        self, x: Float[Tensor, "*batch d"], direction: Float[Tensor, "*#batch d"] | None = None
    ) -> Float[Tensor, "*batch d"]:
        """Normalise the last axis; no ε, as in the authors' code.

        direction: what is projected along, of any length, in arms that have one of their own.
        """
        root = math.sqrt(x.shape[-1])
        projected = center(x) if self.project else x
        if self.others:
            normals = other_normals(x.shape[-1], self.others).to(x.dtype)
            projected = projected - projected @ normals.mT @ normals
        if direction is not None:
            along = direction / direction.norm(dim=-1, keepdim=True)
            projected = projected - (projected * along).sum(dim=-1, keepdim=True) * along
        if self.norm == "none":
            return projected
        if self.norm == "sigma":
            return projected * (root / center(x).norm(dim=-1, keepdim=True))
        unit = projected / projected.norm(dim=-1, keepdim=True)
        return unit * root if self.norm == "sqrt" else unit / root


@lru_cache
def other_normals(d: int, count: int) -> Float[Tensor, "count d"]:
    """Orthonormal vectors, float64, that are orthogonal to 1: random, and always the same ones.

    Raises `ShapeError` for more vectors than d − 2.
    """
    whole_number(count, "count")
    if count > d - 2:
        raise ShapeError(f"{count} normal vectors beside 1 leave nothing of {d} dimensions.")
    drawn = torch.randn(d, count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.linalg.qr(drawn - drawn.mean(dim=0)).Q.mT.contiguous()


_LISTED = (
    Variant("layernorm", "projection, norm √d (LayerNorm)", project=True, norm="sqrt"),
    Variant("rms", "no projection, norm √d (RMSNorm)", project=False, norm="sqrt"),
    Variant(
        "authors", "no projection, norm 1/√d (the authors' code)", project=False, norm="inverse"
    ),
    Variant("projection-small", "projection, norm 1/√d", project=True, norm="inverse"),
    Variant(
        "literal", "no projection, x/σ(x) (the text, read literally)", project=False, norm="sigma"
    ),
    Variant(
        "small-scores",
        "no projection, norm √d, queries and keys 1/√d",
        project=False,
        norm="sqrt",
        small="scores",
    ),
    Variant(
        "small-values",
        "no projection, norm √d, values 1/√d",
        project=False,
        norm="sqrt",
        small="values",
    ),
    Variant(
        "other-normal",
        "orthogonal to one other vector, norm √d",
        project=False,
        norm="sqrt",
        others=1,
    ),
    Variant(
        "three-normals",
        "orthogonal to 1 and two others, norm √d",
        project=True,
        norm="sqrt",
        others=2,
    ),
    Variant(
        "five-normals",
        "orthogonal to 1 and four others, norm √d",
        project=True,
        norm="sqrt",
        others=4,
    ),
    Variant(
        "random-normal",
        "projection along a random vector",
        project=False,
        norm="sqrt",
        direction="random",
    ),
    Variant(
        "learnt-normal",
        "projection along a learnt vector",
        project=False,
        norm="sqrt",
        direction="learnt",
    ),
    Variant("unnormalised", "no normalisation", project=False, norm="none"),
    Variant(
        "uniform-layernorm", "LayerNorm, attention uniform", project=True, norm="sqrt", uniform=True
    ),
    Variant("uniform-rms", "RMSNorm, attention uniform", project=False, norm="sqrt", uniform=True),
)
#: All arms by name; the first five are the experiment, the next two take its result apart, three
#: project along other vectors than 1 (§5), and the last five are controls (`controls`).
ARMS: Mapping[str, Variant] = {arm.name: arm for arm in _LISTED}
#: The parameter that holds a run's own vector to project along.
DIRECTION = "layer.norm1.direction"
#: The five arms of the experiment.
MAIN_ARMS: tuple[str, ...] = tuple(ARMS)[:5]


def arm(name: str) -> Variant:
    """The arm of this name; an unknown name is one `ShapeError`."""
    return ARMS[one_of(name, ARMS, "the arm")]


class InputNorm(nn.Module):
    """An arm's normalisation as a module, in the place of the encoder layer's first norm."""

    eps = 0.0
    direction: nn.Parameter | None

    def __init__(self, arm: Variant, d_model: int) -> None:
        super().__init__()
        self.arm = arm
        has_direction = arm.direction != "none"
        direction = (
            nn.Parameter(torch.randn(d_model), arm.direction == "learnt") if has_direction else None
        )
        self.register_parameter("direction", direction)

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """The input of attention, normalised as the arm does."""
        return self.arm.normalise(x, self.direction)


class _PlainAttention(nn.Module):
    """Attention with the parameters of torch's, for arms that torch's cannot be.

    Uniform attention, or inputs that are d times smaller for the scores or the values only.
    """

    def __init__(self, attention: nn.MultiheadAttention, arm: Variant) -> None:
        super().__init__()
        self.arm = arm
        self.in_proj_weight = attention.in_proj_weight
        self.out_proj = attention.out_proj

    def forward(
        self, x: Float[Tensor, "batch length d"], *_: Any, **options: Any
    ) -> tuple[Float[Tensor, "batch length d"], None]:
        d = x.shape[-1]
        W_Q, W_K, W_V = self.in_proj_weight.chunk(3)
        for_scores = x / d if self.arm.small == "scores" else x
        for_values = x / d if self.arm.small == "values" else x
        scores = (for_scores @ W_Q.T) @ (for_scores @ W_K.T).mT / math.sqrt(d)
        if self.arm.uniform:
            scores = torch.zeros_like(scores)
        return self.out_proj(scores.softmax(dim=-1) @ (for_values @ W_V.T)), None


class MajorityTransformer(nn.Module):
    """The obvious model: one embedded sequence after the other through an encoder layer.

    What the fast trainer is tested and timed against. It stays in training mode (there is no
    dropout), because torch's fused inference path needs a bias that this model does not have.
    """

    def __init__(self, arm: Variant, d_model: int = 8, classes: int = 20) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, d_model)
        self.layer = _encoder_layer(d_model)
        if arm.small != "none" or arm.uniform:
            plain = _PlainAttention(self.layer.self_attn, arm)
            self.layer.register_module("self_attn", plain)
        self.layer.register_module("norm1", InputNorm(arm, d_model))

    def forward(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length classes"]:
        """Logits of the majority class, at every position."""
        return self.layer(self.embedding(ids)) @ self.embedding.weight.T

    def loss(
        self, ids: Int[Tensor, "batch length"], labels: Int[Tensor, "batch"]
    ) -> Float[Tensor, ""]:
        """Mean cross-entropy in nats over all positions of all sequences."""
        logits = self(ids)
        targets = labels[:, None].expand(ids.shape)
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _encoder_layer(d_model: int) -> nn.TransformerEncoderLayer:
    layer = nn.TransformerEncoderLayer(
        d_model, 1, d_model, dropout=0.0, layer_norm_eps=0.0, batch_first=True, norm_first=True
    )
    layer.self_attn.register_parameter("in_proj_bias", None)
    return layer


def initial_parameters(
    seed: int, d_model: int = 8, classes: int = 20, scale: float = 1.0, *, direction: bool = False
) -> dict[str, Tensor]:
    """The model's parameters at the start, by name, float32; the same for every arm.

    torch's defaults. scale multiplies the input projections W_Q, W_K and W_V: at scale d, norm 1/√d
    starts out with the scores and values that norm √d has at scale 1. The caller's random state is
    left alone. Raises `ShapeError` for sizes below 2, or a scale that is not positive.
    """
    whole_number(d_model, "d_model", least=2)
    whole_number(classes, "classes", least=2)
    real_number(scale, "scale", least=0, open_ends=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        embedding = nn.Embedding(classes, d_model)
        layer = _encoder_layer(d_model)
        drawn_direction = torch.randn(d_model)
    parameters = {"embedding.weight": embedding.weight.detach()}
    for name, value in layer.named_parameters(prefix="layer"):
        if not name.startswith("layer.norm1."):
            parameters[name] = value.detach()
    parameters["layer.self_attn.in_proj_weight"] *= scale
    if direction:
        parameters[DIRECTION] = drawn_direction
    return parameters


def sequences(counts: Int[Tensor, "batch classes"]) -> Int[Tensor, "batch length"]:
    """A sequence for every count vector, its classes in order (the model cannot tell the order)."""
    classes = torch.arange(counts.shape[1])
    return torch.stack([classes.repeat_interleave(row) for row in counts])
