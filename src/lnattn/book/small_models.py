"""Why a small model has no detokenizing heads: the same look at many small first layers.

Chapter 06. What a head does to sub-words (T^ee) is set beside what it does by position alone, for
the checkpoints of a training run, or for models of several shapes. A look is a tidy table, one row
a head; tables of many looks are put one below the other and frozen as they are. Where positions are
rotary, T^ee is that of tokens side by side, and the term of the distance alone stands for T^pp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.distance import distance_terms
from lnattn.attention.folding import FoldedAttention, fold, softmax_over_keys
from lnattn.attention.relative import mean_vectors
from lnattn.attention.terms import PairTerms, six_terms
from lnattn.book.samples import FEWEST_WINDOWS, sample_tokens, sample_windows
from lnattn.errors import CorpusError, ResultError, ShapeError
from lnattn.relative import AnyFirstLayer, RelativeFirstLayer
from lnattn.storage import provenance, read_result, write_result
from lnattn.studies.affinity.at_distance import vectors_at_distance
from lnattn.studies.affinity.query_classes import CLASSES, class_auroc
from lnattn.studies.affinity.subwords import (
    PieceRule,
    continuation_pieces,
    subword_ranks,
    token_classes,
)
from lnattn.studies.affinity.vectors import TokenVectors, token_vectors
from lnattn.studies.position.bias import position_bias
from lnattn.studies.position.curves import NEAR
from lnattn.studies.position.sigma import InverseSigma, inverse_sigma_bands
from lnattn.studies.position.without_tokens import PositionOnly
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer

#: Stands for a piece's best head in the column 'head'.
BEST = -1
#: Texts whose terms are compared.
_TEXTS = 20


def look(
    model: AnyFirstLayer, counts: Counts, documents: Sequence[Sequence[int]], rule: PieceRule
) -> pd.DataFrame:
    """One row a head, and one (`BEST`) for the best head of each piece.

    counts: of a corpus in the model's tokens; documents: token ids of some texts, cut to whole
    contexts. Columns: found, low, high, chance, chance low, chance high (`Subwords.table`, rank
    10); pieces; own continuation and own word (`ClassAuroc.own_part`, means); spread ee and spread
    pp (`near_spread`, over √d_head); previous, itself (`by_position`). NaN where a row has none.
    Raises `CorpusError` where no piece fits the rule or no document fills the context.
    """
    n = context_of(model)
    texts = [list(ids[:n]) for ids in documents if len(ids) >= n][:_TEXTS]
    if not texts:
        raise CorpusError(f"no document fills the context of {n} tokens; give longer texts.")
    if isinstance(model, RelativeFirstLayer):
        vectors, spread, attention = _rotary_parts(model, counts, texts)
    else:
        vectors, spread, attention = _learned_parts(model, counts, texts)
    classes = token_classes(model.tokenizer, vectors.vocab_size)
    pieces = continuation_pieces(counts, classes, rule)
    table = subword_ranks(vectors, pieces).table().rename(index={"best": BEST})
    own = class_auroc(vectors, counts, classes, draws=1)
    columns = {f"own {name}": own.own_part(name)[:, 0] for name in CLASSES}
    scale = float(model.attention.scale)
    columns |= {f"spread {name}": value.numpy() / scale for name, value in spread.items()}
    columns["itself"], columns["previous"] = attention
    heads = pd.DataFrame(columns, index=range(vectors.n_heads))
    return table.join(heads).assign(pieces=len(pieces)).rename_axis("head").reset_index()


def context_of(model: AnyFirstLayer) -> int:
    """The longest text of a model, in tokens; `ShapeError` for a rotary one that does not say."""
    if not isinstance(model, RelativeFirstLayer):
        return model.embeddings.n_positions
    if model.context is None:
        raise ShapeError(f"{model.name} does not say how long a text it was made for.")
    return model.context


def whole_texts(model: AnyFirstLayer) -> list[list[int]]:
    """The sample's documents, or, where too few fill the context, windows of them joined."""
    documents, n = sample_tokens(model), context_of(model)
    if sum(len(ids) >= n for ids in documents) >= FEWEST_WINDOWS:
        return documents
    return sample_windows(model, n)[0].tolist()


#: Token vectors, the spread of two terms by head, and attention by position [distance head].
_Parts = tuple[TokenVectors, dict[str, Float[Tensor, "head"]], Float[np.ndarray, "distance head"]]


def _learned_parts(model: FirstLayer, counts: Counts, texts: Sequence[list[int]]) -> _Parts:
    folded, embeddings = fold(model.attention), model.embeddings
    spread = _spread_of(("ee", "pp"), (six_terms(folded, embeddings, ids) for ids in texts))
    sigma = inverse_sigma_bands(embeddings, folded.eps)
    attention = by_position(folded, embeddings.W_P, sigma)
    return token_vectors(folded, embeddings), spread, attention


def _rotary_parts(model: RelativeFirstLayer, counts: Counts, texts: Sequence[list[int]]) -> _Parts:
    """T^ee of tokens side by side; distance alone, the same in every text, stands for T^pp."""
    folded, embeddings = fold(model.attention), model.embeddings
    means = mean_vectors(folded, embeddings, torch.from_numpy(counts.unigrams))
    of_texts = (distance_terms(folded, embeddings, ids, constants=means) for ids in texts)
    spread = _spread_of(("ee", "d"), of_texts)
    alone = distance_terms(folded, embeddings, texts[0], constants=means).d
    queries = later_half(len(texts[0]))
    attention = softmax_over_keys(alone, folded.scale, folded.causal)[:, queries].numpy()
    vectors = vectors_at_distance(folded, embeddings, 1, means)
    return vectors, {"ee": spread["ee"], "pp": spread["d"]}, _looking_back(attention, queries, 2)


def _spread_of(names: Sequence[str], terms: Iterable[PairTerms]) -> dict[str, Tensor]:
    """Means over texts of what `near_spread` says of terms."""
    found = [{name: near_spread(one[name]) for name in names} for one in terms]
    return {name: torch.stack([one[name] for one in found]).mean(dim=0) for name in names}


def near_spread(
    scores: Float[Tensor, "head query key"], window: int = NEAR
) -> Float[Tensor, "head"]:
    """How much scores differ among the `window` keys right before a query.

    Their standard deviation, averaged over the queries of the later half. The query itself is left
    out: the question is which *earlier* token a head would choose.
    """
    n = scores.shape[-1]
    first = max(n // 2, window)
    if not first < n:
        raise CorpusError(f"{n} tokens are too few to look {window} back.")
    near = [scores.diagonal(-o, dim1=1, dim2=2)[:, first - o :] for o in range(1, window + 1)]
    return torch.stack(near).std(dim=0, correction=0).mean(dim=-1)


def by_position(
    folded: FoldedAttention,
    W_P: Float[Tensor, "position d_model"],
    sigma: InverseSigma,
    far: int = 2,
) -> Float[np.ndarray, "distance head"]:
    """Attention by position alone, softmax of T^p + T^pp, on i, i−1, … i−far+1.

    Mean over the queries of the later half of the context.
    """
    queries = later_half(len(W_P))
    attention = position_bias(folded, W_P, queries.tolist(), sigma).attention()
    return _looking_back(attention, queries, far)


def _looking_back(
    attention: Float[np.ndarray, "head query key"], queries: np.ndarray, far: int
) -> Float[np.ndarray, "distance head"]:
    """Mean attention of these queries on themselves, on the key before, and so on."""
    rows = np.arange(len(queries))
    return np.stack([attention[:, rows, queries - o].mean(axis=1) for o in range(far)])


def later_half(context: int) -> np.ndarray:
    """The queries that attention by position is averaged over."""
    return np.arange(max(1, context // 2), context)


def of_gpt2(folder: Path | str) -> tuple[np.ndarray, np.ndarray]:
    """GPT-2's attention by position alone on i−1 and on i: both [case head], from frozen weights.

    folder: that of its frozen position study (chapter 07), whose three queries are averaged. The
    cases are that study's assumptions about Var(e): σ needs the tokens, which are not at hand.
    """
    found = PositionOnly.read(folder)
    queries = list(found.bias.queries)
    rows = np.arange(len(queries))
    cases = []
    for token_variance in found.assumed:
        sigma = InverseSigma((found.variance + token_variance) ** -0.5, None, None)
        attention = found.bias.with_sigma(sigma).attention()
        cases.append([attention[:, rows, np.array(queries) - o].mean(axis=1) for o in (1, 0)])
    previous, itself = np.swapaxes(cases, 0, 1)
    return previous, itself


def freeze_looks(
    folder: Path | str, name: str, looks: Iterable[pd.DataFrame], **facts: Any
) -> Path:
    """Write tables of looks, one below the other, as folder/name.npz and .json."""
    table = pd.concat(list(looks), ignore_index=True)
    texts = table.select_dtypes(exclude="number").columns  # stored as text, not as Python objects
    arrays = {column: table[column].to_numpy() for column in table}
    arrays |= {column: arrays[column].astype(str) for column in texts}
    record = provenance(what="small first layers: sub-words beside positions", **facts)
    return write_result(folder, name, arrays, record)


def side_by_side(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a model of the grid and length of training, of tables of looks at the grid.

    Shares of pieces found and by chance; the largest attention on the previous token by position;
    the mean spread of T^ee and T^pp over the near keys.
    """
    shape = ["context", "layers", "heads", "positions", "tokens"]
    best = cells[cells["head"] == BEST].set_index(shape)
    heads = cells[cells["head"] != BEST].groupby(shape, sort=False)
    table = best[["found", "chance"]].assign(previous=heads["previous"].max())
    table[["spread ee", "spread pp"]] = heads[["spread ee", "spread pp"]].mean()
    table = table.reset_index()
    millions = (table.pop("tokens") / 1e6).round(1)
    table.insert(len(shape) - 1, "million tokens", millions)
    return table


def what_depth_shows(shapes: pd.DataFrame, context: int = 256) -> tuple[str, str]:
    """Of `side_by_side`, each model's last look in two phrases.

    Which model finds the most pieces over chance; and, of pairs of models with this context and
    learned positions, in how many the one with less attention on the previous token by position
    has the larger excess.
    """
    ends = shapes.groupby(["context", "layers", "heads", "positions"], sort=False).tail(1)
    if ends.empty:
        return ("no model of the grid has been looked at",) * 2
    excess = ends["found"] - ends["chance"]
    most = ends.loc[excess.idxmax()]
    kin = ends[(ends["context"] == context) & (ends["positions"] == "learned")]
    pairs = list(combinations(zip(kin["previous"], excess[kin.index], strict=True), 2))
    larger = sum((one[0] - other[0]) * (one[1] - other[1]) < 0 for one, other in pairs)
    return (
        f"the model with {most['layers']} layers, {most['heads']} heads and a context of "
        f"{most['context']} finds the most pieces, {most['found']:.1%} (chance "
        f"{most['chance']:.1%}), and its sharpest head puts {most['previous']:.2f} on the previous "
        "token by position alone",
        f"the one with the blunter positions has the larger excess over chance in {larger} of "
        f"{len(pairs)} pairs",
    )


def read_looks(folder: Path | str, name: str) -> tuple[pd.DataFrame, Mapping[str, Any]]:
    """What `freeze_looks` wrote; `ResultError` where it is missing, damaged or something else."""
    arrays, record = read_result(folder, name)
    if "spread pp" not in arrays or len({len(values) for values in arrays.values()}) != 1:
        raise ResultError(f"{folder}/{name}.npz holds no looks at small models; compute it again.")
    return pd.DataFrame(arrays), record
