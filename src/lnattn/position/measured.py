"""Attention of the first layer on real text, averaged at fixed query positions.

Kamoda et al. 2025, §5.4. The first layer reads embeddings only, so its attention on a text follows
from the folded weights; only the rows of the asked queries are computed. Position 0 may be an
attention sink: `windows` keeps texts as they are, or puts one given token before each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, first_block, softmax_over_keys
from lnattn.attention.layernorm import divide_by_sigma
from lnattn.attention.terms import check_indices, input_rows
from lnattn.errors import CorpusError, ShapeError
from lnattn.ids import TokenIds, whole_ids
from lnattn.inputs import require, whole_number
from lnattn.position.bias import PositionBias
from lnattn.position.curves import near_keys
from lnattn.weights import Embeddings


@dataclass(frozen=True, eq=False)
class MeasuredAttention:
    """Mean attention over windows of text, for some queries.

    queries: positions i; mean, error: the mean over windows and its standard error over texts (NaN
    for a single text); windows: how many; text_skill: of each window by itself, as in
    `compare_with_position_only`; texts: which text each window is a part of (None: a text of its
    own).
    """

    queries: tuple[int, ...]
    mean: Float[np.ndarray, "head query position"]
    error: Float[np.ndarray, "head query position"]
    windows: int
    causal: bool
    text_skill: Float[np.ndarray, "window head query"] | None = None
    texts: Int[np.ndarray, "window"] | None = None

    def near_share(self) -> Float[np.ndarray, "head query"]:
        """Mean attention on the nearest ten keys, the query's own among them."""
        return near_share(self.mean, self.queries, self.causal)


def near_share(
    attention: Float[np.ndarray, "head query position"],
    queries: Sequence[int],
    causal: bool,
) -> Float[np.ndarray, "head query"]:
    """The share of attention that falls on the nearest ten keys of each query."""
    shares = []
    for row, i in enumerate(queries):
        near, _ = near_keys(i, attention.shape[-1], causal)
        shares.append(attention[:, row, near].sum(axis=-1))
    return np.stack(shares, axis=-1)


def compare_with_position_only(
    measured: MeasuredAttention, bias: PositionBias, row: int = -1
) -> pd.DataFrame:
    """Measured attention of one query beside attention by position alone, one row a head.

    Columns: 'near' and 'itself', attention on the nearest ten keys and on the query's own position,
    by position and measured; 'total variation', half the sum of absolute differences; 'even', the
    same for measured against even attention; 'skill', 1 − total variation over even; 'skill, one
    text', the mean of the skills of single windows, in which what single words do does not cancel;
    'itself, error' and 'skill, error', over texts (NaN for one), each with all of its windows.
    row: which of the queries, the same for both. Raises `ShapeError` where they differ, or for a
    row that is none of them.
    """
    require(bias, PositionBias, "bias")
    if measured.queries != bias.queries:
        raise ShapeError("measured attention and position terms are of different queries.")
    whole_number(row, "row", -len(bias.queries), len(bias.queries) - 1)
    i = bias.queries[row]
    length = measured.mean.shape[-1]
    _, seen = near_keys(i, length, bias.causal)
    alone = bias.attention()[:, row, :length]
    real = measured.mean[:, row]
    variation = np.abs(real - alone).sum(axis=-1) / 2
    null = np.abs(real - seen / seen.sum()).sum(axis=-1) / 2
    table = {
        "near, by position": near_share(bias.attention(), bias.queries, bias.causal)[:, row],
        "near, measured": measured.near_share()[:, row],
        "itself, by position": alone[:, i],
        "itself, measured": real[:, i],
        "itself, error": measured.error[:, row, i],
        "total variation": variation,
        "even": null,
        "skill": 1 - variation / null,
    }
    if measured.text_skill is not None:
        skills = measured.text_skill[:, :, row]
        texts, sizes = _sizes(measured.texts, len(skills))
        sums = np.stack([skills[texts == text].sum(axis=0) for text in range(len(sizes))])
        mean = skills.mean(axis=0)
        squares = (sums**2).sum(axis=0)
        crossed = sizes @ sums
        table["skill, one text"] = mean
        table["skill, error"] = _error_over_texts(squares, crossed, mean, sizes)
    return pd.DataFrame(table, index=pd.RangeIndex(len(variation), name="head"))


def windows(
    documents: Iterable[TokenIds], length: int, first: int | None = None
) -> Int[np.ndarray, "window token"]:
    """Cut tokenised documents into windows of `length` tokens that do not overlap.

    first: a token id put before every window (it counts towards its length), or None. What is left
    of a document is dropped. Raises `CorpusError` when no document is long enough, or a length
    leaves no room for text, `TokenError` for ids that are none.
    """
    whole_number(length, "length", error=CorpusError)
    before = [] if first is None else whole_ids([first]).tolist()
    body = length - len(before)
    if body < 1:
        raise CorpusError(f"a window of {length} tokens has no room for text.")
    cut = [
        [*before, *document[begin : begin + body]]
        for document in (whole_ids(ids) for ids in documents if len(ids))
        for begin in range(0, len(document) - body + 1, body)
    ]
    if not cut:
        raise CorpusError(f"no document has {body} tokens; give longer texts or a shorter window.")
    return np.array(cut, dtype=np.int64)


def measured_attention(
    folded: FoldedAttention,
    embeddings: Embeddings,
    token_windows: Int[np.ndarray, "window token"],
    queries: Sequence[int],
    bias: PositionBias | None = None,
    texts: Int[np.ndarray, "named"] | None = None,
) -> MeasuredAttention:
    """Mean attention of the asked queries over windows of text, exact for the first layer.

    token_windows: [window token]; queries: positions in a window; bias: position terms of the same
    queries, for the skill of each window by itself; texts: which text each window is a part of
    (None: a text of its own): windows of one text are not independent, so that errors are taken
    over texts. Kamoda et al. 2025, §5.4. Raises `TokenError` for an unknown token, a window longer
    than the context, or a query outside it; `ShapeError` for weights of another kind, no window,
    texts of other windows, or position terms of other queries.
    """
    first_block(folded)
    require(embeddings, Embeddings, "embeddings")
    count, length = token_windows.shape
    whole_number(count, "the number of windows")
    places = check_indices(queries, length, "query position", "the window")
    if bias is not None and bias.queries != tuple(places.tolist()):
        raise ShapeError("the position terms are of other queries than those asked for.")
    if texts is not None and len(texts) != count:
        raise ShapeError(f"texts names {len(texts)} windows, and there are {count}; name each.")
    of_window, sizes = _sizes(texts, count)
    total, squares, crossed = torch.zeros(3, folded.n_heads, len(places), length).double()
    skills = None
    if bias is not None:
        alone = torch.from_numpy(bias.attention()[..., :length])
        seen = np.array([near_keys(int(i), length, folded.causal)[1] for i in places])
        even = torch.tensor(seen / seen.sum(axis=1, keepdims=True))
        skills = torch.empty(count, folded.n_heads, len(places), dtype=torch.float64)
    for text, size in enumerate(sizes.tolist()):
        of_text = torch.zeros_like(total)
        for window in np.flatnonzero(of_window == text):
            ids = torch.from_numpy(token_windows[window])
            alpha = _rows(folded, *input_rows(embeddings, ids), places).double()
            of_text += alpha
            if skills is not None:
                apart = (alpha - alone).abs().sum(-1)
                skills[window] = 1 - apart / (alpha - even).abs().sum(-1)
        total += of_text
        squares += of_text.square()
        crossed += size * of_text
    mean = (total / count).numpy()
    return MeasuredAttention(
        queries=tuple(places.tolist()),
        mean=mean,
        error=_error_over_texts(squares.numpy(), crossed.numpy(), mean, sizes),
        windows=count,
        causal=folded.causal,
        text_skill=None if skills is None else skills.numpy(),
        texts=texts,
    )


def _sizes(
    texts: Int[np.ndarray, "window"] | None, windows: int
) -> tuple[Int[np.ndarray, "window"], Int[np.ndarray, "text"]]:
    """The text of each window, numbered from 0, and how many windows each text has."""
    named = np.arange(windows) if texts is None else np.asarray(texts)
    _, of_window, sizes = np.unique(named, return_inverse=True, return_counts=True)
    return of_window, sizes


def _error_over_texts(
    squares: Float[np.ndarray, "*values"],
    crossed: Float[np.ndarray, "*values"],
    mean: Float[np.ndarray, "*values"],
    sizes: Int[np.ndarray, "text"],
) -> Float[np.ndarray, "*values"]:
    """Standard error of a mean over windows, of which those of one text hang together.

    squares: sum over texts of the squares of their sums; crossed: of their sums times their number
    of windows; sizes: these numbers. It is NaN for one text, and for texts of one window each the
    usual one.
    """
    texts = len(sizes)
    if texts == 1:
        return np.full_like(mean, np.nan)
    spread = squares - 2 * mean * crossed + mean**2 * (sizes**2).sum()
    return np.asarray(np.sqrt(spread.clip(0) * texts / (texts - 1)) / sizes.sum())


def _rows(folded: FoldedAttention, tokens: Tensor, positions: Tensor, places: Tensor) -> Tensor:
    """Attention of some queries of one text: [head query key]."""
    inputs = divide_by_sigma(tokens + positions, folded.eps)
    queries = inputs[places] @ folded.W_Q + folded.b_Q[:, None, :]
    scores = queries @ (inputs @ folded.W_K).transpose(-1, -2)
    distance = places[:, None] - torch.arange(len(inputs))
    if folded.causal:
        scores = scores.masked_fill(distance < 0, -torch.inf)
    if folded.window is not None:
        scores = scores.masked_fill(distance >= folded.window, -torch.inf)
    return softmax_over_keys(scores, folded.scale, causal=False)
