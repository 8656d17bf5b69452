"""Looking at the first layer of a small model: what it does to sub-words, and what by position.

Each model gives a row a head and one for the best head of each piece; the tables of many models
are frozen as one result, which `lnattn_book.studies.small_models` reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from experiments.book_model.plan import TrainingPlan
from experiments.book_model.snapshots import Snapshot
from lnattn.affinity.by_distance import vectors_at_distance
from lnattn.affinity.subwords import (
    PieceRule,
    continuation_pieces,
    subword_ranks,
    token_classes,
)
from lnattn.attention.folding import FoldedAttention, fold, softmax_over_keys
from lnattn.attention.terms import PairTerms, six_terms
from lnattn.attention.vectors import TokenVectors, token_vectors
from lnattn.errors import CorpusError, ShapeError
from lnattn.position.bias import position_bias
from lnattn.position.curves import NEAR
from lnattn.position.sigma import InverseSigma, inverse_sigma_bands
from lnattn.rotary.fold import fold_relative, mean_vectors
from lnattn.rotary.terms import distance_terms
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer
from lnattn.storage import provenance, write_result
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer
from lnattn_book.claims.ours import piece_rule
from lnattn_book.studies.query_classes import CLASSES, class_auroc
from lnattn_book.studies.samples import FEWEST_WINDOWS, sample_tokens, sample_windows
from lnattn_book.studies.small_models import BEST

#: Texts whose terms are compared.
_TEXTS = 20


def look(
    model: AnyFirstLayer, counts: Counts, documents: Sequence[Sequence[int]], rule: PieceRule
) -> pd.DataFrame:
    """One row a head, and one (`BEST`) for the best head of each piece.

    counts: of a corpus in the model's tokens; documents: token ids of some texts, cut to whole
    contexts. Columns: found, low, high, chance, chance low, chance high (`Subwords.table`, rank
    10); pieces; own continuation and own word (means of `ClassAuroc.query_specific_auroc`);
    spread ee and spread pp (`near_spread`, over √d_head); previous, itself (`by_position`). NaN
    where a row has none.
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
    areas = class_auroc(vectors, counts, classes, draws=1)
    columns = {f"own {name}": areas.query_specific_auroc(name)[:, 0] for name in CLASSES}
    scale = float(model.attention.scale)
    columns |= {f"spread {name}": value.numpy() / scale for name, value in spread.items()}
    columns["itself"], columns["previous"] = attention
    heads = pd.DataFrame(columns, index=range(vectors.n_heads))
    return table.join(heads).assign(pieces=len(pieces)).rename_axis("head").reset_index()


def look_of(snapshot: Snapshot, counts: Counts) -> pd.DataFrame:
    """The look at a snapshot, on the sample that ships with the book and the pieces of claim S1."""
    model = snapshot.model
    rule = piece_rule(token_classes(model.tokenizer, model.embeddings.vocab_size))
    return look(model, counts, whole_texts(model), rule)


def shape_of(plan: TrainingPlan) -> dict[str, int | str]:
    """The columns that tell models of a grid apart: context, layers, heads, positions."""
    learned = plan.architecture == "gpt2" and plan.attention == "causal"
    shape = {"context": plan.context, "layers": plan.layers, "heads": plan.heads}
    return {**shape, "positions": "learned" if learned else "rotary"}


def context_of(model: AnyFirstLayer) -> int:
    """The longest text of a model, in tokens; `ShapeError` for a rotary one that does not say."""
    if not isinstance(model, RelativeFirstLayer):
        return model.embeddings.n_positions
    if model.context is None:
        raise ShapeError(f"{model.name} does not say how long a text it was made for.")
    return model.context


def whole_texts(model: AnyFirstLayer) -> list[list[int]]:
    """The sample's documents, or, where too few fill the context, windows of them joined."""
    documents = sample_tokens(model)
    n = context_of(model)
    if sum(len(ids) >= n for ids in documents) >= FEWEST_WINDOWS:
        return documents
    return sample_windows(model, n)[0].tolist()


#: Token vectors, the spread of two terms by head, and attention by position [distance head].
_Parts = tuple[TokenVectors, dict[str, Float[Tensor, "head"]], Float[np.ndarray, "distance head"]]


def _learned_parts(model: FirstLayer, counts: Counts, texts: Sequence[list[int]]) -> _Parts:
    folded = fold(model.attention)
    embeddings = model.embeddings
    spread = _spread_of(("ee", "pp"), (six_terms(folded, embeddings, ids) for ids in texts))
    sigma = inverse_sigma_bands(embeddings, folded.eps)
    attention = by_position(folded, embeddings.W_P, sigma)
    return token_vectors(folded, embeddings), spread, attention


def _rotary_parts(model: RelativeFirstLayer, counts: Counts, texts: Sequence[list[int]]) -> _Parts:
    """T^ee of tokens side by side; distance alone, the same in every text, stands for T^pp."""
    folded = fold_relative(model.attention)
    embeddings = model.embeddings
    means = mean_vectors(folded, embeddings, torch.from_numpy(counts.unigrams))
    of_texts = (distance_terms(folded, embeddings, ids, constants=means) for ids in texts)
    spread = _spread_of(("ee", "d"), of_texts)
    alone = distance_terms(folded, embeddings, texts[0], constants=means).d
    attention = softmax_over_keys(alone, folded.scale, folded.causal).numpy()
    vectors = vectors_at_distance(folded, embeddings, 1, means)
    return vectors, {"ee": spread["ee"], "pp": spread["d"]}, looking_back(attention)


def by_position(
    folded: FoldedAttention, W_P: Float[Tensor, "position d_model"], sigma: InverseSigma
) -> Float[np.ndarray, "2 head"]:
    """Attention by position alone, softmax of T^p + T^pp, as `looking_back` takes it."""
    bias = position_bias(folded, W_P, range(len(W_P)), sigma)
    return looking_back(bias.attention())


def looking_back(attention: Float[np.ndarray, "head query key"]) -> Float[np.ndarray, "2 head"]:
    """Mean attention on the query itself and on the key before, in the later half of a text."""
    queries = np.arange(max(1, attention.shape[1] // 2), attention.shape[1])
    return np.stack([attention[:, queries, queries - o].mean(axis=1) for o in (0, 1)])


def _spread_of(names: Sequence[str], terms: Iterable[PairTerms]) -> dict[str, Tensor]:
    """Means over texts of what `near_spread` says of terms."""
    spreads = [{name: near_spread(parts[name]) for name in names} for parts in terms]
    return {name: torch.stack([spread[name] for spread in spreads]).mean(dim=0) for name in names}


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


def save_snapshots(
    folder: Path | str, name: str, looks: Iterable[pd.DataFrame], **facts: Any
) -> Path:
    """Write tables of looks, one below the other, as folder/name.npz and .json."""
    table = pd.concat(list(looks), ignore_index=True)
    texts = table.select_dtypes(exclude="number").columns  # stored as text, not as Python objects
    arrays = {column: table[column].to_numpy() for column in table}
    arrays |= {column: arrays[column].astype(str) for column in texts}
    record = provenance(what="small first layers: sub-words beside positions", **facts)
    return write_result(folder, name, arrays, record)
