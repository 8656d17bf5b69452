"""Attention of the first layer on real text, averaged at fixed query positions (K9).

Kamoda et al. 2025, §5.4, compare what position terms predict with attention measured on documents.
The first layer reads embeddings only, so its attention on a text follows from the folded weights;
only the rows of the asked queries are computed.

The beginning of a text matters, because position 0 may be an attention sink: `windows` either
keeps texts as they are or puts one given token (a document separator) before each; a window is
counted in tokens *with* that token. The authors' code measures without it but selects documents by
their length with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, softmax_over_keys
from lnattn.attention.layernorm import divide_by_sigma
from lnattn.attention.terms import check_indices, look_up
from lnattn.errors import CorpusError, ShapeError
from lnattn.position.bias import PositionBias
from lnattn.position.curves import NEAR, near_keys
from lnattn.weights import Embeddings


@dataclass(frozen=True, eq=False)
class MeasuredAttention:
    """Mean attention over windows of text, for some queries.

    queries: positions i; mean, error: [head query position], the mean over windows and its
    standard error (NaN for a single window); windows: how many; text_skill: the skill of
    attention by position for each text by itself (see `beside_position`), None unless asked for.
    """

    queries: tuple[int, ...]
    mean: Float[np.ndarray, "head query position"]
    error: Float[np.ndarray, "head query position"]
    windows: int
    causal: bool
    text_skill: Float[np.ndarray, "window head query"] | None = None

    def near_share(self, window: int = NEAR) -> Float[np.ndarray, "head query"]:
        """Mean attention on the nearest `window` keys, the query's own among them."""
        return near_share(self.mean, self.queries, self.causal, window)


def near_share(
    attention: Float[np.ndarray, "head query position"],
    queries: Sequence[int],
    causal: bool,
    window: int = NEAR,
) -> Float[np.ndarray, "head query"]:
    """The share of attention that falls on the nearest `window` keys of each query."""
    n = attention.shape[-1]
    rows = [
        attention[:, row, near_keys(i, n, causal, window)[0]].sum(axis=-1)
        for row, i in enumerate(queries)
    ]
    return np.stack(rows, axis=-1)


def beside_position(measured: MeasuredAttention, bias: PositionBias, row: int = -1) -> pd.DataFrame:
    """Measured attention of one query beside attention by position alone, one row a head.

    Columns: 'near' and 'itself', attention on the nearest ten keys and on the query's own position,
    by position and measured; 'total variation', half the sum of absolute differences of the two;
    'even', the same for measured against even attention, which knows nothing; 'skill', 1 − total
    variation over even: 0 for a prediction no better than that, 1 for a perfect one; and 'skill,
    one text', the mean over texts of the same taken of each by itself, if the measurement has it.
    The first is about the average over texts, in which what single words do cancels.
    row: which of the queries, the same for both. Raises `ShapeError` where they differ.
    """
    if measured.queries != bias.queries:
        raise ShapeError("measured attention and position terms are of different queries.")
    i, length = bias.queries[row], measured.mean.shape[-1]
    _, seen = near_keys(i, length, bias.causal)
    alone, real = bias.attention()[:, row, :length], measured.mean[:, row]
    variation = np.abs(real - alone).sum(axis=-1) / 2
    null = np.abs(real - seen / seen.sum()).sum(axis=-1) / 2
    table = {
        "near, by position": near_share(bias.attention(), bias.queries, bias.causal)[:, row],
        "near, measured": measured.near_share()[:, row],
        "itself, by position": alone[:, i],
        "itself, measured": real[:, i],
        "total variation": variation,
        "even": null,
        "skill": 1 - variation / null,
    }
    if measured.text_skill is not None:
        table["skill, one text"] = measured.text_skill[:, :, row].mean(axis=0)
    return pd.DataFrame(table, index=pd.RangeIndex(len(variation), name="head"))


def windows(
    documents: Iterable[Sequence[int]], length: int, first: int | None = None
) -> Int[np.ndarray, "window token"]:
    """Cut tokenised documents into windows of `length` tokens that do not overlap.

    first: a token id put before every window (it counts towards its length), or None to leave
    texts as they are. What is left of a document is dropped. Raises `CorpusError` when no document
    is long enough.
    """
    body = length - (first is not None)
    if body < 1:
        raise CorpusError(f"a window of {length} tokens has no room for text.")
    cut = []
    for document in documents:
        for begin in range(0, len(document) - body + 1, body):
            text = list(document[begin : begin + body])
            cut.append(text if first is None else [first, *text])
    if not cut:
        raise CorpusError(f"no document has {body} tokens; give longer texts or a shorter window.")
    return np.array(cut, dtype=np.int64)


def measured_attention(
    folded: FoldedAttention,
    embeddings: Embeddings,
    token_windows: Int[np.ndarray, "window token"],
    queries: Sequence[int],
    bias: PositionBias | None = None,
) -> MeasuredAttention:
    """Mean attention of the asked queries over windows of text, exact for the first layer.

    bias: position terms of the same queries, whose skill is then taken for each text by itself.
    Raises `TokenError` for a token outside the vocabulary, a window longer than the context, or a
    query outside the window.
    """
    count, length = token_windows.shape
    places = torch.as_tensor(list(queries), dtype=torch.long)
    check_indices(places, length, "query position", "the window")
    total = torch.zeros(folded.n_heads, len(places), length, dtype=torch.float64)
    squares = torch.zeros_like(total)
    skills = []
    if bias is not None:
        alone = torch.from_numpy(bias.attention()[..., :length])
        seen = [near_keys(int(i), length, folded.causal)[1] for i in places]
        even = torch.tensor(np.array([row / row.sum() for row in seen]))
    for ids in torch.from_numpy(token_windows):
        alpha = _rows(folded, *look_up(embeddings, ids), places).double()
        total += alpha
        squares += alpha.square()
        if bias is not None:
            skills.append(1 - (alpha - alone).abs().sum(-1) / (alpha - even).abs().sum(-1))
    mean = total / count
    spread = (squares / count - mean.square()).clamp_min(0)
    error = (spread / (count - 1)).sqrt() if count > 1 else torch.full_like(mean, torch.nan)
    return MeasuredAttention(
        tuple(places.tolist()),
        mean.numpy(),
        error.numpy(),
        count,
        folded.causal,
        torch.stack(skills).numpy() if skills else None,
    )


def _rows(folded: FoldedAttention, tokens: Tensor, positions: Tensor, places: Tensor) -> Tensor:
    """Attention of some queries of one text: [head query key]."""
    inputs = divide_by_sigma(tokens + positions, folded.eps)
    keys = inputs @ folded.W_K
    queries = inputs[places] @ folded.W_Q + folded.b_Q[:, None, :]
    scores = queries @ keys.transpose(-1, -2)
    distance = places[:, None] - torch.arange(len(inputs))
    if folded.causal:
        scores = scores.masked_fill(distance < 0, -torch.inf)
    if folded.window is not None:
        scores = scores.masked_fill(distance >= folded.window, -torch.inf)
    return softmax_over_keys(scores, folded.scale, causal=False)
