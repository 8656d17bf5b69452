"""What the claims about first layers are asked with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Int

from lnattn.affinity import auroc, table1
from lnattn.affinity.study import Detokenization
from lnattn.affinity.vectors import TokenVectors, token_vectors
from lnattn.attention.folding import FoldedAttention, fold
from lnattn.errors import ResultError
from lnattn.position import variance
from lnattn.position.bias import PositionBias, position_bias, share_of_context
from lnattn.position.sigma import InverseSigma, inverse_sigma_bands
from lnattn.position.without_tokens import PositionOnly, position_only
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer

#: Query tokens whose AUROC is taken where no whole study is given: nulls, which need no more.
_AUROC_QUERIES = 400


@dataclass(frozen=True)
class Evidence:
    """A model and what its claims are asked with; what several rules need is computed once.

    cut: windows of text of a given length, in tokens, without special tokens; framed: documents as
    the model expects to read them, cut to its context; counts: of a large corpus in the model's
    tokens; study: its affinity study (where None, AUROCs are of a sample of query tokens). name:
    what verdicts call the model. A partial checkpoint needs none of these.
    """

    model: FirstLayer
    cut: Callable[[int], Int[np.ndarray, "window token"]] | None = None
    framed: Sequence[Sequence[int]] = ()
    counts: Counts | None = None
    study: Detokenization | None = None
    seed: int = 0
    name: str = field(default="")

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.model.name)
        if not self.model.is_partial and None in (self.counts, self.cut):
            raise ResultError(f"the survey of {self.name} needs windows of text and token counts.")

    def windows(self, length: int) -> Int[np.ndarray, "window token"]:
        """Windows of text of this many tokens."""
        assert self.cut is not None
        return self.cut(length)

    @property
    def counted(self) -> Counts:
        """The counts, which all but a partial checkpoint have."""
        assert self.counts is not None
        return self.counts

    @cached_property
    def folded(self) -> FoldedAttention:
        return fold(self.model.attention)

    @cached_property
    def vectors(self) -> TokenVectors:
        return token_vectors(self.folded, self.model.embeddings)

    @cached_property
    def inverse_sigma(self) -> InverseSigma:
        return inverse_sigma_bands(self.model.embeddings, self.folded.eps)

    @cached_property
    def queries(self) -> tuple[int, ...]:
        return share_of_context(self.model.embeddings.n_positions)

    @cached_property
    def bias(self) -> PositionBias:
        return position_bias(
            self.folded, self.model.embeddings.W_P, self.queries, self.inverse_sigma
        )

    @cached_property
    def without_tokens(self) -> PositionOnly:
        return position_only(self.model)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Table 1's pairs in this model."""
        return table1.look_up(self.vectors, self.model.tokenizer)

    @cached_property
    def inputs(self) -> variance.VarianceOfInputs:
        return variance.variance_of_inputs(self.model.embeddings, self.folded.eps)

    @cached_property
    def frequency(self) -> variance.FrequencyStudy:
        return variance.frequency_study(
            self.folded, self.model.embeddings, self.inputs, self.counted.unigrams
        )

    def auroc(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean AUROC of each head, and with the wrong query."""
        if self.study is not None:
            return self.study.mean_auroc(), self.study.wrong_query()
        before = auroc.Neighbours.before(self.counted.bigrams)
        having = np.flatnonzero(before.n_distinct)
        some = np.random.default_rng(self.seed).choice(
            having, min(_AUROC_QUERIES, len(having)), replace=False
        )
        wrong = self.vectors.shuffled(self.seed, keys=False)
        mine, others = (auroc.head_auroc(v, before, some).mean() for v in (self.vectors, wrong))
        return mine, others
