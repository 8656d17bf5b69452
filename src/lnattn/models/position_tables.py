"""Rotations and biases by distance, from transformers' own code: no table is typed here.

A rotary module keeps state where a model stretches its angles for long texts (`dynamic`,
`longrope`), so each call makes a fresh one: what comes out depends on the positions asked for, as
in a single pass over a text that ends with the last of them.

What is returned is a `partial` of a function of this module, so that a layer can be pickled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
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


def rotary(kind: type[torch.nn.Module], config: Any, layer_type: str | None = None) -> Rotation:
    """The rotation of a rotary module's class for one configuration.

    layer_type: for models whose local and global layers turn differently (Gemma 3).
    """
    options = {} if layer_type is None else {"layer_type": layer_type}
    return Rotation(partial(_tables_of_module, kind, config, options))


def _tables_of_module(
    kind: type[torch.nn.Module],
    config: Any,
    options: dict[str, str],
    positions: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    module = kind(config)
    like = torch.empty(0, dtype=dtype)
    cos, sin = module(like, positions.cpu()[None], **options)
    return cos[0].to(dtype), sin[0].to(dtype)


def gptj(model: torch.nn.Module, config: Any, d_head: int) -> Rotation:
    """GPT-J's rotation: sines and cosines side by side, one of each for a pair of neighbours.

    Tables are made up to the last position asked for: a configuration may claim a context of any
    length. Raises `CheckpointError` where more coordinates are rotated than a head has.
    """
    make = function_of(model, "create_sinusoidal_positions")
    context = config.max_position_embeddings
    rotated = config.rotary_dim or config.hidden_size
    if rotated > d_head:
        raise CheckpointError(
            f"rotary_dim in config.json is {rotated}, but a head has {d_head} coordinates; take "
            "the one of these weights."
        )
    return Rotation(partial(_tables_of_pairs, make, context, rotated), interleaved=True)


def _tables_of_pairs(
    make: Callable[[int, int], Tensor],
    context: int,
    rotated: int,
    positions: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    last = int(positions.max())
    if last >= context:
        raise TokenError(f"position {last} is outside the context of {context}.")
    rows = make(last + 1, rotated)[positions.cpu()]
    sin, cos = rows.repeat_interleave(2, dim=-1).to(dtype).chunk(2, dim=-1)
    return cos, sin


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
    return partial(_sloping, slopes.double(), scale)


def _sloping(slopes: Tensor, scale: float, distance: Tensor) -> Tensor:
    return -scale * slopes.view(-1, *[1] * distance.ndim) * distance


def t5_buckets(attention: Any, weight: Tensor) -> DistanceBias:
    """T5's learned bias for the bucket of a distance.

    attention: T5's module, which knows its buckets; weight: [bucket head].
    """
    bucket_of = partial(
        t5_bucket,
        buckets=attention.relative_attention_num_buckets,
        farthest=attention.relative_attention_max_distance,
        both_ways=not attention.is_decoder,
    )
    return partial(_of_bucket, bucket_of, weight)


def _of_bucket(bucket_of: Callable[[Tensor], Tensor], weight: Tensor, distance: Tensor) -> Tensor:
    return weight[bucket_of(distance.cpu())].movedim(-1, 0)


def t5_bucket(distance: Tensor, buckets: int, farthest: int, both_ways: bool) -> Tensor:
    """The bucket of a distance i − j of query i and key j (Raffel et al. 2020, §2.1), any shape.

    Half of the buckets are for one distance each, the others for ranges that grow by a factor up
    to `farthest`, the last one for all beyond. both_ways: keys after the query have buckets of
    their own, the second half; without, they are in bucket 0.

    >>> t5_bucket(torch.tensor([0, 1, 7, 8, 200, -1]), 32, 128, True).tolist()
    [0, 1, 7, 8, 15, 17]
    """
    if both_ways:
        buckets //= 2
        side = buckets * (distance < 0)
        far = distance.abs()
    else:
        side = torch.zeros_like(distance)
        far = distance.clamp(min=0)
    alone = buckets // 2
    # In single precision, as where the bias was learnt: a range's end may fall either way.
    share = torch.log(far.float() / alone) / math.log(farthest / alone)
    grown = alone + (share * (buckets - alone)).to(torch.long)
    return side + torch.where(far < alone, far, grown.clamp(max=buckets - 1))
