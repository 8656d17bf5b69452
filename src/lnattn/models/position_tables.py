"""Rotations and biases by distance, from transformers' own code: no table is typed here.

A rotary module keeps state where a model stretches its angles for long texts (`dynamic`,
`longrope`), so each call makes a fresh one: what comes out depends on the positions asked for, as
in a single pass over a text that ends with the last of them.

What is returned is a `partial` of a function of this module, so that a layer can be pickled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from lnattn.errors import CheckpointError, TokenError
from lnattn.rotary.weights import DistanceBias, Rotation


def modeling_of(model: torch.nn.Module | type[torch.nn.Module]) -> ModuleType:
    """The module of transformers that a model's class is written in."""
    return import_module((model if isinstance(model, type) else type(model)).__module__)


def function_of(model: torch.nn.Module, name: str) -> Callable[..., Any]:
    """A function of transformers' code of a model; `CheckpointError` where a version has none."""
    function = getattr(modeling_of(model), name, None)
    if not callable(function):
        raise CheckpointError(
            f"this version of transformers computes the positions of a {type(model).__name__} in "
            f"another way (it has no {name}); install the version in constraints.txt."
        )
    return function


@dataclass(frozen=True)
class RotaryTables:
    """cos and sin from a rotary module's class, made anew for each call.

    layer_type: for models whose local and global layers turn differently (Gemma 3). changed: what a
    module in memory has in place of what the configuration gives, by the attribute's name.
    """

    kind: type[torch.nn.Module]
    config: Any
    layer_type: str | None = None
    changed: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cos and sin, both [n rotated], at positions [n]."""
        options = {} if self.layer_type is None else {"layer_type": self.layer_type}
        module = self.kind(self.config)
        for name, value in self.changed.items():
            setattr(module, name, value)
        like = torch.empty(0, dtype=dtype)
        cos, sin = module(like, positions.cpu()[None], **options)
        speeds = getattr(module, "inv_freq", None)
        if speeds is not None and len(speeds) == cos.shape[-1]:  # gpt_oss writes no angle twice
            cos = cos.repeat(1, 1, 2)
            sin = sin.repeat(1, 1, 2)
        return cos[0].to(dtype), sin[0].to(dtype)


def rotary(
    kind: type[torch.nn.Module],
    config: Any,
    layer_type: str | None = None,
    own: torch.nn.Module | None = None,
) -> Rotation:
    """The rotation of a rotary module's class for one configuration; as `RotaryTables`.

    own: the module of a model in memory, whose frequencies go before those of its configuration.
    """
    changed = {} if own is None else _changed(own, kind(config))
    return Rotation(RotaryTables(kind, config, layer_type, changed))


#: Rotations whose frequencies follow the longest text so far: what a module holds is its last one.
_FOLLOWING = ("dynamic", "longrope")


def _changed(own: torch.nn.Module, made: torch.nn.Module) -> dict[str, Any]:
    """What a rotary module in memory has otherwise than one that its configuration makes.

    Raises `CheckpointError` where that cannot be taken over.
    """
    kinds = own.rope_type.values() if isinstance(own.rope_type, dict) else [own.rope_type]
    follows = any(kind in _FOLLOWING for kind in kinds)
    changed: dict[str, Any] = {}
    for name, there in own.named_buffers():
        if follows and "original" not in name:
            continue
        made_there = getattr(made, name, None)
        here = there.detach().cpu()
        if not isinstance(made_there, Tensor) or made_there.shape != here.shape or follows:
            # Of a module in half precision, what its configuration gives is rounded, too.
            if made_there is None or not torch.equal(here, made_there.to(here.dtype)):
                raise CheckpointError(
                    f"rotary_emb.{name} of this model in memory is not what its configuration "
                    "gives, and cannot be read; set the frequencies in the configuration."
                )
        elif not torch.equal(here.float(), made_there.float()):
            changed[name] = here.float()
    names = [name for name in vars(made) if name.endswith("attention_scaling")]
    if not follows:
        changed |= {
            name: getattr(own, name)
            for name in names
            if getattr(own, name, None) != getattr(made, name)
        }
    return changed


@dataclass(frozen=True, eq=False)
class SinusoidalTables:
    """GPT-J's cos and sin up to the last position asked for.

    Not of the whole context: a configuration may claim one of any length.
    """

    make: Callable[[int, int], Tensor]
    context: int
    rotated: int

    def __call__(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cos and sin, both [n rotated], at positions [n]."""
        last = int(positions.max())
        if last >= self.context:
            raise TokenError(f"position {last} is outside the context of {self.context}.")
        rows = self.make(last + 1, self.rotated)[positions.cpu()]
        sin, cos = rows.repeat_interleave(2, dim=-1).to(dtype).chunk(2, dim=-1)
        return cos, sin


@dataclass(frozen=True, eq=False)
class _RowsOf:
    """The first rows of a table that a model in memory has."""

    table: Tensor

    def __call__(self, rows: int, _width: int) -> Tensor:
        return self.table[:rows]


def gptj(model: torch.nn.Module, config: Any, d_head: int, table: Tensor | None = None) -> Rotation:
    """GPT-J's rotation: sines and cosines side by side, one of each for a pair of neighbours.

    table: the one of a model in memory. Raises `CheckpointError` where more coordinates are rotated
    than a head has.
    """
    make = function_of(model, "create_sinusoidal_positions")
    context = config.max_position_embeddings
    rotated = config.rotary_dim or config.hidden_size
    if rotated > d_head:
        raise CheckpointError(
            f"rotary_dim in config.json is {rotated}, but a head has {d_head} coordinates; take "
            "the one of these weights."
        )
    if table is not None:
        make = _RowsOf(table.detach().cpu().float())
        context = len(table)
    return Rotation(SinusoidalTables(make, context, rotated), interleaved=True)


@dataclass(frozen=True, eq=False)
class Alibi:
    """−slope · Δ for every head, times `scale`. slopes: [head]."""

    slopes: Tensor
    scale: float

    def __call__(self, distance: Tensor) -> Tensor:
        """The bias `[head *shape]` at distances i − j of any shape."""
        slopes = self.slopes.view(-1, *[1] * distance.ndim).double()
        return -self.scale * slopes * distance


def alibi(model: torch.nn.Module, heads: int, scale: float, kind: str) -> DistanceBias:
    """−slope · Δ, in units of the scores before their division by `scale`.

    kind: 'bloom' or 'mpt', whose code makes the slopes. The models add slope · j to a score, which
    differs from it by a constant for each query.
    """
    if kind == "bloom":  # what a key at position 1 is given
        mask = torch.ones(1, 2, dtype=torch.long)
        slopes = function_of(model, "build_alibi_tensor")(mask, heads, torch.float64)[:, 0, 1]
    else:  # what the key one before the last loses
        slopes = -function_of(model, "build_mpt_alibi_tensor")(heads, 2)[:, 0, 0]
    return Alibi(slopes, scale)


@dataclass(frozen=True, eq=False)
class BucketBias:
    """T5's learned bias for the bucket of a distance; as `t5_bucket`. weight: [bucket head]."""

    weight: Tensor
    buckets: int
    farthest: int

    def __call__(self, distance: Tensor) -> Tensor:
        """The bias `[head *shape]` at distances i − j of any shape."""
        buckets = t5_bucket(distance.cpu(), self.buckets, self.farthest)
        return self.weight[buckets].movedim(-1, 0)


def t5_buckets(attention: Any, weight: Tensor) -> DistanceBias:
    """The bias of the attention module of T5's encoder, which knows its buckets.

    weight: [bucket head].

    Raises `CheckpointError` where its settings leave no range of distances for the later buckets.
    """
    buckets = attention.relative_attention_num_buckets
    farthest = attention.relative_attention_max_distance
    if not 1 <= _for_one_distance(buckets) < farthest:
        raise CheckpointError(
            "relative_attention_num_buckets and relative_attention_max_distance in config.json "
            f"are {buckets} and {farthest}, which leaves no range of distances for the later "
            "buckets; take the ones of these weights."
        )
    return BucketBias(weight=weight, buckets=buckets, farthest=farthest)


def _for_one_distance(buckets: int) -> int:
    """How many buckets of either side are for one distance each."""
    return buckets // 4


def t5_bucket(distance: Tensor, buckets: int, farthest: int) -> Tensor:
    """The bucket of a distance i − j of query i and key j (Raffel et al. 2020, §2.1), any shape.

    As in T5's encoder, where keys after the query have buckets of their own, the second half. Half
    of the buckets of each side are for one distance each, the others for ranges that grow by a
    factor up to `farthest`, the last one for all beyond.

    >>> t5_bucket(torch.tensor([0, 1, 7, 8, 200, -1]), 32, 128).tolist()
    [0, 1, 7, 8, 15, 17]
    """
    of_a_side = buckets // 2
    far = distance.abs()
    alone = _for_one_distance(buckets)
    # In single precision, as where the bias was learnt: a range's end may fall either way.
    share = torch.log(far.float() / alone) / math.log(farthest / alone)
    grown = alone + (share * (of_a_side - alone)).to(torch.long)
    bucket = torch.where(far < alone, far, grown.clamp(max=of_a_side - 1))
    return bucket + of_a_side * (distance < 0)
