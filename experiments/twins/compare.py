"""One object of both kinds of first layer: what of a score depends on both tokens, at given places.

A query at one place and a key at another are vectors of their tokens, whatever the kind of
positions. Less their means over tokens they give the part of a score that neither token has alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.affinity.auroc import Neighbours
from lnattn.affinity.by_distance import DistanceGrid, distance_grid
from lnattn.attention.folding import fold
from lnattn.attention.layernorm import sigma
from lnattn.attention.vectors import TokenVectors
from lnattn.rotary.fold import fold_relative
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer

#: Parts of a score's variance between the keys of a query: of both tokens, of what the query's
#: token wants of positions, of the key's token, of the position alone.
PARTS = ("ee", "ed", "e", "d")
#: Where the query stands whose skill is measured.
_PLACE = 128


@torch.inference_mode()
def vectors_at(model: AnyFirstLayer, side: str, place: int) -> Float[Tensor, "head vocab d_head"]:
    """The query ("queries") or key ("keys") of every token at a place, before the scale."""
    if isinstance(model, RelativeFirstLayer):
        folded = fold_relative(model.attention)
        vectors = getattr(folded, side)(model.embeddings.rows(slice(None)))
        turned = folded.rotated(vectors, torch.full((vectors.shape[1],), place))
        return folded.per_head(turned) if side == "keys" else turned
    block = fold(model.attention)
    embeddings = model.embeddings
    x = embeddings.tokens() + embeddings.W_P[place]
    x = x / sigma(x, block.eps)[:, None]
    return x @ block.W_K if side == "keys" else x @ block.W_Q + block.b_Q[:, None]


def _about_mean(
    vectors: Float[Tensor, "head vocab d_head"], share: Float[Tensor, "vocab"]
) -> tuple[Float[Tensor, "head d_head"], Float[Tensor, "head vocab d_head"]]:
    """The mean over tokens drawn by their share, and the vectors less it."""
    mean = (share @ vectors.to(share)).to(vectors)
    return mean, vectors - mean[:, None]


def skill(
    model: AnyFirstLayer,
    unigrams: Int[np.ndarray, "vocab"],
    neighbours: Mapping[int, Neighbours],
    queries: Int[np.ndarray, "query"],
    seed: int = 0,
) -> DistanceGrid:
    """AUROC of the part of both tokens, against the pairs that stand so far apart.

    Queries stand at one place, and keys one, two or three before it, as `neighbours` says.
    """
    share = torch.from_numpy(unigrams / unigrams.sum())
    tokens = torch.from_numpy(queries)
    of_queries = _about_mean(vectors_at(model, "queries", _PLACE), share)[1][:, tokens]
    vectors = {
        apart: TokenVectors(
            of_queries, _about_mean(vectors_at(model, "keys", _PLACE - apart), share)[1], tokens
        )
        for apart in neighbours
    }
    return distance_grid(vectors, neighbours, seed)


def by_place(
    model: AnyFirstLayer, unigrams: Int[np.ndarray, "vocab"], context: int
) -> Float[np.ndarray, "part head"]:
    """Shares of `PARTS` in the variance of scores between the keys of the last query of a context.

    Tokens are drawn by their counts, and the key's place evenly; a query's mean score, which no
    softmax sees, takes no part.
    """
    share = torch.from_numpy(unigrams / unigrams.sum())
    q0, apart = _about_mean(vectors_at(model, "queries", context - 1).double(), share)
    wanted = torch.einsum("hvd,v,hve->hde", apart, share, apart)
    k0 = []
    both = []
    of_key = []
    for place in range(context):
        mean, apart = _about_mean(vectors_at(model, "keys", place).double(), share)
        spread = torch.einsum("hvd,v,hve->hde", apart, share, apart)
        k0.append(mean)
        both.append((wanted * spread).sum((1, 2)))
        of_key.append(torch.einsum("hd,hde,he->h", q0, spread, q0))
    means = torch.stack(k0, dim=1)
    alone = torch.einsum("hd,hnd->hn", q0, means)
    from_mean = means - means.mean(dim=1, keepdim=True)
    places = from_mean.mT @ from_mean / context
    variance = torch.stack([
        torch.stack(both).mean(dim=0),
        (wanted * places).sum((1, 2)),
        torch.stack(of_key).mean(dim=0),
        alone.var(dim=1, correction=0),
    ])  # fmt: skip
    return (variance / variance.sum(dim=0)).numpy()


@torch.inference_mode()
def by_position_alone(
    models: Iterable[AnyFirstLayer], unigrams: Int[np.ndarray, "vocab"], context: int
) -> Float[np.ndarray, "model head key"]:
    """Attention of the last query of a context, by mean query and mean keys, tokens by counts.

    Of several models with the same embeddings.
    """
    share = torch.from_numpy(unigrams / unigrams.sum())
    rows = None
    patterns = []
    for model in models:
        if isinstance(model, RelativeFirstLayer):
            folded = fold_relative(model.attention)
            at = torch.arange(context)
            q = share @ vectors_at(model, "queries", 0).double()
            k = share @ vectors_at(model, "keys", 0).double()
            q = folded.rotated(q[:, None].expand(-1, context, -1), at)[:, -1]
            keys = folded.rotated(k[:, None].expand(-1, context, -1), at)
        else:
            block = fold(model.attention)
            x = model.embeddings
            if rows is None:  # the mean row of each place
                places = ((x.tokens() + x.W_P[place]).double() for place in range(context))
                rows = torch.stack([share @ (at / sigma(at, block.eps)[:, None]) for at in places])
            q = rows[-1] @ block.W_Q.double() + block.b_Q.double()
            keys = rows @ block.W_K.double()
        scores = torch.einsum("hd,hnd->hn", q, keys) / float(model.attention.scale)
        patterns.append(scores.softmax(dim=1).numpy())
    return np.array(patterns)
