"""How much each of the six terms contributes to attention: Kamoda et al. 2025, §6.1 and Fig. 4.

The contribution of a term T at query i of head h is KL(α_ih ‖ α_ih without T), in nats: how far
attention moves when T is removed from the scores, at every query and head of many documents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention
from lnattn.attention.terms import TERMS
from lnattn.contribution.additive import SixTermShares
from lnattn.contribution.kl import SixTermKL
from lnattn.errors import CorpusError, ResultError, ShapeError
from lnattn.ids import whole_ids
from lnattn.inputs import real_number, require
from lnattn.progress import progress_bar
from lnattn.storage import Result, provenance
from lnattn.weights import Embeddings

#: Quantiles that belong to a result.
LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)


@dataclass(frozen=True)
class Convention:
    """How a contribution is counted.

    scaled: divide the scores by √d_head before the softmax, as the model does. per_key: divide the
    divergence by the number of keys. floor: leave out rows at or below this value. ends: count the
    last position of the context. additive: a term's share in the divergence of attention from even
    attention (`lnattn.contribution.additive`), and not how far attention moves without the term.
    Raises `ShapeError` for a floor that is no number.
    """

    name: str
    scaled: bool
    per_key: bool
    floor: float | None
    ends: bool
    additive: bool = False

    def __post_init__(self) -> None:
        if self.floor is not None:
            real_number(self.floor, "Convention.floor")


#: What the paper's text defines.
TEXT = Convention("text", scaled=True, per_key=False, floor=None, ends=True)
#: What the code that the authors released computes: a softmax without 1/√d_head; torch's
#: `kl_div(reduction="mean")`, which divides by the number of keys; rows ≤ 1e-10 and the last
#: position left out of the figure.
PAPERS_CODE = Convention("papers' code", scaled=False, per_key=True, floor=1e-10, ends=False)
#: Shares that add up, in place of the divergence of leaving each term out.
ADDITIVE = Convention("additive", scaled=True, per_key=False, floor=None, ends=True, additive=True)


def kl_of_removal(
    scores: Float[Tensor, "*rows key"], term: Float[Tensor, "*rows key"]
) -> Float[Tensor, "*rows"]:
    """KL(softmax(scores) ‖ softmax(scores − term)) = E_p[term] + log E_p[e^{−term}], in nats.

    Both already divided by the softmax's scale; −∞ in `scores` masks a key. In the inputs'
    precision. Kamoda et al. 2025, Eq. 18–21. Raises `ShapeError` where the two differ in shape: a
    row of one would be taken for all.
    """
    if scores.shape != term.shape:
        raise ShapeError(
            f"scores and term must have one shape, not {list(scores.shape)} and {list(term.shape)}."
        )
    log_p = scores.log_softmax(dim=-1)
    masked = log_p == -torch.inf
    term = term.masked_fill(masked, 0.0)
    return (log_p.exp() * term).sum(dim=-1) + (log_p - term).logsumexp(dim=-1)


@dataclass(frozen=True, eq=False)
class Contributions(Result):
    """Contributions of all terms over a corpus, in nats (divided by i + 1 in the papers' code).

    By `ADDITIVE`, they are shares, which may be negative and add up to the mean divergence of
    attention from even attention.

    mean, standard_error, rows: [term slot position], over documents; rows counts them. A slot is a
    head, the last one the mean of all heads of each document. overall: [level term slot], quantiles
    over all positions where a query has two or more keys. document_sums, document_rows: [document
    term], each document's sum of the mean over heads at those positions, and their number.
    """

    NAME: ClassVar[str] = "contribution"

    mean: Float[np.ndarray, "term slot position"]
    standard_error: Float[np.ndarray, "term slot position"]
    rows: np.ndarray
    overall: Float[np.ndarray, "level term slot"]
    document_sums: Float[np.ndarray, "document term"]
    document_rows: Float[np.ndarray, "document term"]
    record: Mapping[str, Any]

    @property
    def n_heads(self) -> int:
        """How many query heads there are."""
        return self.mean.shape[1] - 1

    @property
    def documents(self) -> int:
        """How many documents were averaged over."""
        return int(self.record["documents"])

    def grand_mean(self) -> Float[np.ndarray, "term slot"]:
        """Mean over all documents and all positions where a query has two or more keys.

        In nats. Raises `ResultError` where there is no such query.
        """
        first = 1 if self.record["causal"] else 0
        rows = self.rows[..., first:]
        if not rows.any():
            raise ResultError("no document has a query with two keys: no term can contribute.")
        total = np.where(rows > 0, self.mean[..., first:] * rows, 0.0).sum(axis=-1)
        counted = rows.sum(axis=-1)
        return np.divide(total, counted, out=np.full(total.shape, np.nan), where=counted > 0)

    def ranking(self) -> list[str]:
        """The terms from the largest to the smallest mean contribution over all heads."""
        means = self.grand_mean()[:, -1]
        terms = self.record["terms"]
        return [terms[index] for index in np.argsort(-means)]  # NaN comes last

    def table(self) -> pd.DataFrame:
        """One row for each term and head ('all' is the mean of heads): mean and quantiles."""
        means = self.grand_mean()
        heads: list[int | str] = [*range(self.n_heads), "all"]
        rows = [
            (term, head, means[t, h], *self.overall[:, t, h])
            for t, term in enumerate(self.record["terms"])
            for h, head in enumerate(heads)
        ]
        levels = (f"q{level:g}" for level in LEVELS)
        return pd.DataFrame(rows, columns=["term", "head", "mean", *levels])


def contributions(
    folded: FoldedAttention,
    embeddings: Embeddings,
    documents: Iterable[Sequence[int]],
    *,
    convention: Convention = TEXT,
    source: Mapping[str, Any] | None = None,
) -> Contributions:
    """Contributions of the six terms at every position and head, over documents.

    documents: token ids of each, with whatever beginning-of-text token the model expects, cut to
    the context here. convention: what is counted, `TEXT`, `PAPERS_CODE` or `ADDITIVE`. source:
    provenance to keep. Single precision. Kamoda et al. 2025, §6.1. Raises `CorpusError` where there
    is no document, or one document where a list of them is meant; `TokenError` for unknown tokens
    or a partial checkpoint; `ShapeError` for weights of another kind, or a local window.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-gpt2")
    >>> folded = lnattn.fold(model.attention)
    >>> result = contributions(folded, model.embeddings, [[464, 3290, 318], [464, 3290]])
    >>> result.documents, tuple(result.grand_mean().shape)  # term, head and mean of heads
    (2, (6, 9))
    """
    require(convention, Convention, "convention")
    begin = time.perf_counter()
    if not isinstance(documents, Iterable):
        raise CorpusError(
            f"documents must be a list of lists of token ids, not {type(documents).__name__}."
        )
    divergence_of = _measure(folded, embeddings, convention)
    context = embeddings.n_positions
    counted = []
    for ids in progress_bar(documents, "contributions", unit=" documents"):
        if not hasattr(ids, "__getitem__") or np.ndim(ids) == 0:
            raise CorpusError(
                f"documents must be a list of lists of token ids, not of {type(ids).__name__}; "
                "for a single document give [ids]."
            )
        divergence = divergence_of(torch.from_numpy(whole_ids(ids[:context])))
        counted.append(_by_convention(divergence, convention, folded.causal, context))
    if not counted:
        raise CorpusError("no document was given, so there is nothing to average over.")
    first = int(folded.causal)  # before it, a query has one key, and no choice
    with_choice = [document[..., first:] for document in counted]
    overall = np.concatenate(with_choice, axis=-1)
    quantiles = np.full((len(LEVELS), *overall.shape[:2]), np.nan)
    if overall.size:
        quantiles = np.nanquantile(overall, LEVELS, axis=-1)
    mean, standard_error, rows = _moments(counted, context)
    mean_of_heads = [document[:, -1] for document in with_choice]
    record = provenance(
        **(source or {}),
        convention=vars(convention),
        study="contributions of the six terms (Kamoda et al. 2025, §6.1)",
        terms=list(TERMS),
        levels=list(LEVELS),
        causal=folded.causal,
        documents=len(counted),
        tokens=sum(document.shape[-1] for document in counted),
        seconds=round(time.perf_counter() - begin, 2),
    )
    return Contributions(
        mean=mean,
        standard_error=standard_error,
        rows=rows,
        overall=quantiles,
        document_sums=np.array(
            [np.nansum(document, axis=-1, dtype=float) for document in mean_of_heads]
        ),
        document_rows=np.array(
            [np.isfinite(document).sum(axis=-1) for document in mean_of_heads], float
        ),
        record=record,
    )


def _measure(
    folded: FoldedAttention, embeddings: Embeddings, convention: Convention
) -> Callable[[Int[Tensor, "n"]], Float[np.ndarray, "term head n"]]:
    """What gives the contributions of a document, by its token ids."""
    measure = SixTermShares if convention.additive else SixTermKL
    return measure(folded, embeddings, None if convention.scaled else 1.0)


def _by_convention(
    divergence: Float[np.ndarray, "term head n"], how: Convention, causal: bool, context: int
) -> Float[np.ndarray, "term slot n"]:
    """Divergences of one document and their mean over heads, NaN where one does not count."""
    n = divergence.shape[-1]
    if how.per_key:
        divergence = divergence / (np.arange(1, n + 1) if causal else n)
    values = np.concatenate([divergence, divergence.mean(axis=1, keepdims=True)], axis=1)
    if how.floor is not None:
        values[values <= how.floor] = np.nan
    if not how.ends:
        values[..., context - 1 :] = np.nan
    return values.astype(np.float32)


def _moments(
    documents: Sequence[Float[np.ndarray, "term slot _"]], context: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and standard error over documents, and how many they are: [term slot position]."""
    rows = np.zeros((*documents[0].shape[:2], context), dtype=np.int64)
    total = np.zeros(rows.shape)
    squares = np.zeros(rows.shape)
    for document in documents:
        n = document.shape[-1]
        rows[..., :n] += np.isfinite(document)
        values = np.nan_to_num(document.astype(np.float64))
        total[..., :n] += values
        squares[..., :n] += values**2
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / rows
        variance = np.maximum(squares - total * mean, 0) / (rows - 1)
        error = np.where(rows > 1, np.sqrt(variance / rows), np.nan)
    return mean, error, rows
