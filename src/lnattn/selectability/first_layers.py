"""Are keys of real first layers unselectable? In the width of the model, and in that of a head.

Theorem 1 is about keys in R^d, after LayerNorm. A head sees k = x W_K + b_K in R^{d_head}, a linear
image, and a linear image of a sphere's points has an inside again. So each text is decided three
times: before LayerNorm, after it, and in every head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from lnattn.attention.layernorm import layer_norm
from lnattn.errors import CorpusError, TokenError
from lnattn.rotary.fold import fold_relative
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer
from lnattn.selectability.decide import AffineHull
from lnattn.selectability.verify import verified_selectability
from lnattn.storage import Result, provenance, sha256_of_file
from lnattn.text.corpora import read_documents
from lnattn.weights import FirstLayer, LayerNorm

#: Numbers of principal components to keep, as far as a head has so many.
DIMENSIONS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)

#: The names of the frozen results in a model's folder.
TEXT, POSITIONS = "selectability-text", "selectability-positions"


def first_layer_keys(
    model: AnyFirstLayer, token_ids: Sequence[int]
) -> dict[str, Float[np.ndarray, "..."]]:
    """Keys of one text in the first layer, in float64.

    before: [n d_model], token plus position; after: [n d_model], normalised with gain and bias;
    heads: [head n d_head]. With rotary positions `before` is the token alone, and `heads` are the
    keys of each key head, turned as at their positions. Raises `TokenError` for a text longer than
    the context.
    """
    if isinstance(model, RelativeFirstLayer):
        return _turned_keys(model, token_ids)
    tokens = model.embeddings.tokens()
    context = model.embeddings.n_positions
    if not 0 < len(token_ids) <= context:
        raise TokenError(
            f"a text of {len(token_ids)} tokens does not fit into {context} positions; give 1 to "
            f"{context} tokens."
        )
    return _keys(model, tokens[list(token_ids)] + model.embeddings.W_P[: len(token_ids)])


def position_keys(model: FirstLayer) -> dict[str, Float[np.ndarray, "..."]]:
    """The same for the position embeddings alone: keys of a token whose embedding is zero."""
    return _keys(model, model.embeddings.W_P)


def _keys(model: FirstLayer, x: torch.Tensor) -> dict[str, np.ndarray]:
    layer = model.attention.to(torch.float64)
    after = layer_norm(x.double(), layer.ln)
    heads = after @ layer.W_K + layer.b_K[:, None, :]
    return {"before": x.double().numpy(), "after": after.numpy(), "heads": heads.numpy()}


def _turned_keys(model: RelativeFirstLayer, token_ids: Sequence[int]) -> dict[str, np.ndarray]:
    ids = model.embeddings.checked(list(token_ids))
    # Of the table, which may be as large as the model, the text's own rows alone are widened.
    embeddings = replace(model.embeddings, W_E=model.embeddings.W_E[ids]).to(torch.float64)
    attention = model.attention.to(torch.float64)
    folded = fold_relative(attention)
    ln = attention.ln
    before = embeddings.rows(slice(None))
    after = before / folded.norm_scale(before)[:, None]
    if isinstance(ln, LayerNorm):
        after = layer_norm(before, ln)
    elif ln is not None:
        after = after * ln.gamma
    heads = folded.rotated(folded.keys(before), torch.arange(len(ids)))
    return {"before": before.numpy(), "after": after.numpy(), "heads": heads.numpy()}


@dataclass(frozen=True, eq=False)
class HeadShares(Result):
    """Shares of unselectable keys of a model's first layer, for some numbers of keys.

    lengths: [n], keys in a window; before, after: [n window]; heads: [n head window]; rank:
    [n head window], of each head's keys. dims: [dim]; fewer: [head dim], the shares when only the
    first so many principal components of a head's keys are left, in the longest first window;
    normal: [dim], the same for as many standard normal keys.
    """

    lengths: Int[np.ndarray, "n"]
    before: Float[np.ndarray, "n window"]
    after: Float[np.ndarray, "n window"]
    heads: Float[np.ndarray, "n head window"]
    rank: Int[np.ndarray, "n head window"]
    dims: Int[np.ndarray, "dim"]
    fewer: Float[np.ndarray, "head dim"]
    normal: Float[np.ndarray, "dim"]
    record: dict[str, Any]

    @property
    def by_head(self) -> Float[np.ndarray, "n head"]:
        """Mean share of unselectable keys in each head."""
        return self.heads.mean(axis=2)


def study_text(
    model: AnyFirstLayer,
    documents: Sequence[Sequence[int]],
    lengths: Sequence[int],
    windows: int,
) -> HeadShares:
    """Decide the keys of windows of text, with every certificate verified.

    The same windows, cut shorter, serve all lengths: the first `windows` documents with at least
    the largest of `lengths` tokens. Raises `CorpusError` where there are too few, and `ResultError`
    if a certificate does not hold.
    """
    longest = max(lengths)
    texts = [list(ids[:longest]) for ids in documents if len(ids) >= longest][:windows]
    if len(texts) < windows:
        raise CorpusError(f"{len(texts)} documents have {longest} tokens; {windows} are needed.")
    # A key does not depend on later tokens, so shorter windows are beginnings of the longest.
    return _study([first_layer_keys(model, text) for text in texts], lengths)


def _study(windows: Sequence[dict[str, np.ndarray]], lengths: Sequence[int]) -> HeadShares:
    """Decide the keys of every window (as `first_layer_keys` gives them), cut to every length."""
    n_heads, _, d_head = windows[0]["heads"].shape
    before = np.zeros((len(lengths), len(windows)))
    after = np.zeros((len(lengths), len(windows)))
    heads = np.zeros((len(lengths), n_heads, len(windows)))
    rank = np.zeros((len(lengths), n_heads, len(windows)), np.int64)
    for column, window in enumerate(windows):
        for row, n in enumerate(lengths):
            before[row, column] = verified_selectability(window["before"][:n]).unselectable
            after[row, column] = verified_selectability(window["after"][:n]).unselectable
            for head, keys in enumerate(window["heads"]):
                verdict = verified_selectability(keys[:n])
                heads[row, head, column] = verdict.unselectable
                rank[row, head, column] = verdict.rank
    dims = np.array([dim for dim in DIMENSIONS if dim <= d_head])
    longest = windows[0]["heads"][:, : max(lengths)]
    normal_keys = np.random.default_rng(0).normal(size=longest.shape[1:])
    return HeadShares(
        lengths=np.array(lengths),
        before=before,
        after=after,
        heads=heads,
        rank=rank,
        dims=dims,
        fewer=np.array([in_fewer_dimensions(keys, dims) for keys in longest]),
        normal=in_fewer_dimensions(normal_keys, dims),
        record={},
    )


def in_fewer_dimensions(
    keys: Float[np.ndarray, "n d"], dims: Sequence[int] | Int[np.ndarray, "dim"]
) -> Float[np.ndarray, "dim"]:
    """Share of unselectable keys when only their first so many principal components are left."""
    points = AffineHull.of(keys).points  # the components, by falling size
    return np.array([verified_selectability(points[:, :dim]).unselectable for dim in dims])


def positions_of(model: FirstLayer) -> HeadShares:
    """Decide the first n position keys for doubling n: all that a partial checkpoint allows."""
    shares = _study([position_keys(model)], _doubling(model.embeddings.n_positions))
    return replace(shares, record=_record(model))


def text_of(model: FirstLayer, texts: Path | str, windows: int = 8) -> HeadShares:
    """`study_text` at doubling numbers of keys, with its record.

    texts: a file of documents, of which the first that are long enough serve as windows.
    """
    model.embeddings.tokens()
    documents = model.tokenizer(
        list(read_documents([texts])), add_special_tokens=False, verbose=False
    )["input_ids"]
    by_length = sorted(map(len, documents))
    shortest_used = by_length[-windows] if len(documents) >= windows else 0
    longest_window = min(model.embeddings.n_positions, shortest_used)
    shares = study_text(model, documents, _doubling(longest_window), windows)
    record = _record(
        model,
        texts=Path(texts).name,
        texts_sha256=sha256_of_file(texts),
        windows=windows,
    )
    return replace(shares, record=record)


def _record(model: FirstLayer, **facts: Any) -> dict[str, Any]:
    return provenance(
        model=model.name,
        weights_sha256=model.provenance.get("weights_sha256"),
        d_model=model.attention.d_model,
        d_head=model.attention.d_head,
        **facts,
    )


def _doubling(most: int) -> list[int]:
    """32, 64, 128, … up to `most`."""
    return [32 << k for k in range(max(1, most // 32).bit_length())]
