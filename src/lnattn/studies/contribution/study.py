"""How much each of the six terms contributes to attention: Kamoda et al. 2025, §6.1 and Fig. 4.

The contribution of a term T at query i of head h is KL(α_ih ‖ α_ih without T), in nats: how far
attention moves when T is removed from the scores. Here it is taken at every query and head of many
documents, in a stream: means, standard errors and quantiles are kept, never the rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.distance import DISTANCE_TERMS
from lnattn.attention.folding import FoldedAttention
from lnattn.attention.relative import Constants, FoldedRelative
from lnattn.attention.terms import TERMS
from lnattn.errors import CorpusError, ResultError, ShapeError
from lnattn.progress import progress_bar
from lnattn.relative import TokenEmbeddings
from lnattn.storage import Result, provenance
from lnattn.studies.contribution.distance_kl import DistanceKL
from lnattn.studies.contribution.kl import SixTermKL
from lnattn.studies.contribution.tally import LEVELS, TEXT, Convention, Tally
from lnattn.weights import Embeddings

_STATE = "contribution.partial"


def kl_of_removal(
    scores: Float[Tensor, "*rows key"], term: Float[Tensor, "*rows key"]
) -> Float[Tensor, "*rows"]:
    """KL(softmax(scores) ‖ softmax(scores − term)) = E_p[term] + log E_p[e^{−term}], in nats.

    Both already divided by the softmax's scale; −∞ in `scores` masks a key. The plain formula, in
    the precision of its input: good to see what is computed, and exact to rounding in float64.
    """
    log_p = scores.log_softmax(dim=-1)
    masked = log_p == -torch.inf
    term = term.masked_fill(masked, 0.0)
    return (log_p.exp() * term).sum(dim=-1) + (log_p - term).logsumexp(dim=-1)


@dataclass(frozen=True, eq=False)
class Contributions(Result):
    """Contributions of all terms over a corpus, in nats (divided by i + 1 in the papers' code).

    mean, standard_error, rows: [term slot position], over documents; rows counts them. A slot is a
    head, and the last slot is the mean of all heads of each document. quantiles: [level term slot
    group], over the documents and positions of a group; overall: [level term slot], over all
    positions where a query has two or more keys. group_edges: [group + 1]. document_sums,
    document_rows: [document term], for each document the sum of the mean over heads at those
    positions, and how many positions they are. record: what was computed from what, with the
    relative resolution of the quantiles.
    """

    NAME: ClassVar[str] = "contribution"

    mean: Float[np.ndarray, "term slot position"]
    standard_error: Float[np.ndarray, "term slot position"]
    rows: np.ndarray
    quantiles: Float[np.ndarray, "level term slot group"]
    overall: Float[np.ndarray, "level term slot"]
    group_edges: np.ndarray
    document_sums: Float[np.ndarray, "document term"]
    document_rows: Float[np.ndarray, "document term"]
    record: Mapping[str, Any]

    @property
    def n_heads(self) -> int:
        return self.mean.shape[1] - 1

    @property
    def documents(self) -> int:
        return int(self.record["documents"])

    def grand_mean(self) -> Float[np.ndarray, "term slot"]:
        """Mean over all documents and all positions where a query has two or more keys."""
        first = 1 if self.record["causal"] else 0
        rows = self.rows[..., first:]
        if not rows.any():
            raise ResultError(
                "no document has a query with two keys, so no term can contribute; give more text."
            )
        total = np.where(rows > 0, self.mean[..., first:] * rows, 0.0).sum(axis=-1)
        counted = rows.sum(axis=-1)
        return np.divide(total, counted, out=np.full(total.shape, np.nan), where=counted > 0)

    def ranking(self) -> list[str]:
        """The terms from the largest to the smallest mean contribution over all heads."""
        means = self.grand_mean()[:, -1]
        terms = self.record["terms"]
        return [terms[index] for index in np.argsort(-np.nan_to_num(means, nan=-np.inf))]

    def table(self) -> pd.DataFrame:
        """One row for each term and head ('all' is the mean of heads): mean and quantiles."""
        means = self.grand_mean()
        heads: list[int | str] = [*range(self.n_heads), "all"]
        return pd.DataFrame(
            [
                {
                    "term": term,
                    "head": head,
                    "mean": means[t, h],
                    **{f"q{level:g}": self.overall[k, t, h] for k, level in enumerate(LEVELS)},
                }
                for t, term in enumerate(self.record["terms"])
                for h, head in enumerate(heads)
            ]
        )


def bootstrapped_means(
    sums: Float[np.ndarray, "document term"],
    rows: Float[np.ndarray, "document term"],
    draws: int,
    seed: int = 0,
) -> Float[np.ndarray, "draw term"]:
    """Means of the terms over documents drawn anew with replacement, the same for all terms.

    Terms of one draw share their documents, so that differences of two columns are paired.
    """
    count = len(sums)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=draws)
    return (drawn @ sums) / (drawn @ rows)


def contributions(
    folded: FoldedAttention | FoldedRelative,
    embeddings: Embeddings | TokenEmbeddings,
    documents: Iterable[Sequence[int]],
    *,
    constants: Constants | None = None,
    context: int | None = None,
    convention: Convention = TEXT,
    source: Mapping[str, Any] | None = None,
    workers: int | None = None,
    device: str | torch.device | None = None,
    checkpoint: Path | str | None = None,
    every: int = 200,
) -> Contributions:
    """Contributions of all terms at every position and head, over a stream of documents.

    The six terms, or the four by distance with the `constants` of `mean_vectors`.
    documents: token ids of each, with whatever beginning-of-text token the model expects, cut to
    the context here. context: at most the model's, which is the default; a model with rotary or
    relative positions must be told one. source: provenance to keep (model, weights, corpus).
    workers: threads; device: where the products are made, a GPU if torch finds one unless told.
    checkpoint: a folder in which to save the statistics after `every`
    documents; a run that finds such a state of the same study there skips the documents it
    covers. Single precision. Raises `CorpusError` for an empty stream, `TokenError` for unknown
    tokens or a partial checkpoint.
    """
    begin = time.perf_counter()
    scale = None if convention.scaled else 1.0
    divergence_of: SixTermKL | DistanceKL
    terms: tuple[str, ...]
    if isinstance(folded, FoldedRelative) and isinstance(embeddings, TokenEmbeddings):
        terms, paper = DISTANCE_TERMS, "the four terms by distance"
        divergence_of = DistanceKL(folded, embeddings, constants, scale, workers, device)
    elif isinstance(folded, FoldedAttention) and isinstance(embeddings, Embeddings):
        terms, paper = TERMS, "the six terms (Kamoda et al. 2025, §6.1)"
        divergence_of = SixTermKL(folded, embeddings, scale, workers, device)
        context = min(context or embeddings.n_positions, embeddings.n_positions)
    else:
        raise ShapeError("attention and embeddings are of different models; take both from one.")
    if context is None or context < 1:
        raise ShapeError("say how long a text may be: this model has no table of positions.")
    about = {**(source or {}), "convention": vars(convention)}
    shape = (len(terms), folded.n_heads)
    tally = Tally(shape, context, convention, folded.causal, repr(about))
    saved = Path(checkpoint) if checkpoint is not None else None
    if saved is not None:
        tally.resume(saved, _STATE)
    done = tally.documents
    for number, ids in enumerate(progress_bar(documents, "contributions", unit=" documents")):
        if number < done:
            continue
        tally.add(divergence_of(torch.as_tensor(ids[:context], dtype=torch.long)))
        if saved is not None and tally.documents % every == 0:
            tally.save(saved, _STATE)
    if tally.documents == 0:
        raise CorpusError("no document was given, so there is nothing to average over.")
    if saved is not None:
        tally.save(saved, _STATE)
    record = provenance(
        **about,
        study=f"contributions of {paper}",
        terms=list(terms),
        levels=list(LEVELS),
        causal=folded.causal,
        documents=tally.documents,
        tokens=tally.tokens,
        resumed_after=done,
        quantile_resolution=tally.histogram.resolution,
        seconds=round(time.perf_counter() - begin, 2),
    )
    of_documents = np.array(tally.by_document)
    return Contributions(
        mean=tally.moments.mean,
        standard_error=tally.moments.standard_error,
        rows=tally.moments.count,
        quantiles=tally.histogram.quantiles(LEVELS),
        overall=tally.overall(),
        group_edges=tally.edges,
        document_sums=of_documents[:, 0],
        document_rows=of_documents[:, 1],
        record=record,
    )
