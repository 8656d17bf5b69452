"""How much of what a matrix writes to the stream lies along a direction, beside chance.

A(W, u) = d ‖W u‖² / ‖W‖²_F for a unit vector u; 1 on average over directions. Where every reader
of the stream centres first, the loss depends on W only through W C, C = I − 11ᵀ/d, so its gradient
is zero along 1: what W has there is unseen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import CheckpointError, ShapeError

#: What writes to the stream, by the end of its name in a checkpoint; `out in` if W is used as W xᵀ.
_WRITERS = (
    (r"h\.(\d+)\.attn\.c_proj\.weight", "attention", "in out"),  # GPT-2
    (r"h\.(\d+)\.mlp\.c_proj\.weight", "FFN", "in out"),  # of GPT-Neo `out in`, as its width says
    (r"h\.(\d+)\.attn\.attention\.out_proj\.weight", "attention", "out in"),
    (r"layers?\.(\d+)\.attention\.output\.dense\.weight", "attention", "out in"),  # BERT
    (r"layer\.(\d+)\.output\.dense\.weight", "FFN", "out in"),
    (r"layers\.(\d+)\.self_attn\.(?:o_proj|out_proj)\.weight", "attention", "out in"),  # Llama, OPT
    (r"layers\.(\d+)\.(?:mlp\.down_proj|fc2)\.weight", "FFN", "out in"),
    (r"layers\.(\d+)\.attention\.dense\.weight", "attention", "out in"),  # GPT-NeoX
    (r"layers\.(\d+)\.mlp\.dense_4h_to_h\.weight", "FFN", "out in"),
    (r"(?:wpe|position_embeddings|embed_positions)\.weight", "positions", "in out"),
    (r"(?:wte|word_embeddings|embed_tokens|embed_in)\.weight", "tokens", "in out"),
)


def along(
    W: Float[Tensor, "*rows d_model"], u: Float[Tensor, "*directions width"]
) -> Float[Tensor, "*directions"]:
    """A(W, u) = d ‖W u‖² / (‖W‖²_F ‖u‖²) for each direction u: 1 by chance, d at most.

    W: rows that are added to the stream, [.., d_model]; u: [d_model] or [directions, d_model], of
    any length but 0. Raises `ShapeError` where widths differ, or W or a direction is zero.
    """
    d = W.shape[-1]
    if u.shape[-1] != d:
        raise ShapeError(f"the direction has {u.shape[-1]} coordinates, the matrix writes {d}.")
    rows = W.reshape(-1, d)
    energy = rows.square().sum()
    length = u.square().sum(-1)
    if not (energy > 0 and bool((length > 0).all())):
        raise ShapeError("a matrix or a direction that is zero has no energy along anything.")
    return d * (u @ rows.T).square().sum(-1) / (energy * length)


def chance(
    W: Float[Tensor, "*rows d_model"],
    levels: tuple[float, ...] = (0.025, 0.975),
    draws: int = 1000,
    seed: int = 0,
) -> list[float]:
    """Quantiles of A(W, s) over directions s of random signs, of which 1 is one.

    Unlike directions drawn on the sphere, all of these contain as much of each coordinate.
    """
    rows = W.reshape(-1, W.shape[-1]).double()
    if len(rows) > rows.shape[1]:  # the same products, from d rows
        values, vectors = torch.linalg.eigh(rows.T @ rows)
        rows = values.clamp(min=0).sqrt()[:, None] * vectors.T
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(2, (draws, rows.shape[1]), generator=generator).double() * 2 - 1
    return torch.quantile(along(rows, signs), torch.tensor(levels).double()).tolist()


def writing_matrices(state: Mapping[str, Tensor]) -> dict[tuple[str, int], Tensor]:
    """What writes to the stream in a checkpoint, [.., d_model], by kind and layer (−1: none).

    state: tensors by their names in a checkpoint of GPT-2, -Neo, -NeoX, BERT, OPT, Llama or OLMo.
    Kinds: attention, FFN, positions, tokens; token embeddings that are also the unembedding are
    read there as well, which is for the caller to know. Raises `CheckpointError` if there is none.
    """
    writers: dict[tuple[str, int], Tensor] = {}
    for name, tensor in state.items():
        for pattern, kind, axes in _WRITERS:
            match = re.search(rf"(?:^|\.){pattern}$", name)
            if match:
                layer = int(match.group(1)) if match.groups() else -1
                writers[kind, layer] = tensor.T if axes == "out in" else tensor
                break
    if not writers:
        raise CheckpointError("no tensor of the checkpoint writes to a stream by a known name.")
    width = min(W.shape[-1] for W in writers.values())
    writers = {key: W if W.shape[-1] == width else W.T for key, W in writers.items()}
    order = ("tokens", "positions", "attention", "FFN")
    return dict(sorted(writers.items(), key=lambda item: (item[0][1], order.index(item[0][0]))))
