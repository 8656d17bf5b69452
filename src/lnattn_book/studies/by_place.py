"""GPT-2's first layer by place alone: its position weights, and a published σ for its tokens.

GPT-2's token embeddings do not come with this book, and attention by position needs them in one
place only, the divisor σ(e_v + p_j). Baroni et al. 2025, who fine-tune GPT-2's LayerNorms away,
publish what σ is on text before the first block. From it follows the variance of an ordinary token,
and with that variance, one for all tokens, T^p, T^pp and the softmax of their sum can be computed.
Left out: every term with a token in it (T^ee, T^ep, T^pe, T^e), differences between tokens, and
covariances of tokens and places. What is asked of it stands in experiments/place_alone/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from lnattn.attention.folding import fold
from lnattn.errors import ResultError
from lnattn.position.bias import PositionBias
from lnattn.position.sigma import InverseSigma, assumed_inverse_sigma, variances
from lnattn.position.without_tokens import PositionOnly
from lnattn.storage import Result, provenance
from lnattn.weights import FirstLayer
from lnattn_book.studies.first_token import FirstTokenSwitch, switch_by_place


@dataclass(frozen=True)
class PublishedSigma:
    """σ of the residual stream on text: at position 0, and elsewhere."""

    first: float
    elsewhere: float


#: Before the first block of GPT-2 small: `gpt2_std_dicts.json` of submarat/removing-layer-norm.
GPT2_SIGMA = PublishedSigma(first=0.36574310, elsewhere=0.16550206)
#: What a verdict by place alone says nothing of, in the words of its note.
LEFT_OUT = (
    "left out: the four terms with words in them, differences between tokens, and covariances of "
    "tokens and places"
)


def token_variance(
    sigma: float, position_variance: Float[np.ndarray, "position"], eps: float
) -> float:
    """Var(e) of an ordinary token, if σ is that of inputs at ordinary positions.

    σ² = Var(e) + Var(p) + ε with the median Var(p_j), and no covariance. Raises `ResultError` where
    positions alone vary more than σ allows.
    """
    variance_of_tokens = sigma**2 - float(np.median(position_variance)) - eps
    if variance_of_tokens <= 0:
        raise ResultError(
            f"σ = {sigma:g} leaves no variance for tokens: positions alone have "
            f"{np.median(position_variance):.3g}; give the σ of inputs, not of tokens."
        )
    return variance_of_tokens


@dataclass(frozen=True, eq=False)
class ByPlace(Result):
    """The 'if first token' switch by place alone, for all queries. Made by `by_place`.

    token_variance: Var(e), the same for all tokens; eps: of the LayerNorm; own, ordinary: attention
    on key 0 of queries 1, 2, … but the last, which was never trained: with its own σ_0, and with
    the median σ in its place; score: b_QK p_0ᵀ, undivided; sigma: σ_j.
    """

    NAME: ClassVar[str] = "by-place"

    token_variance: Float[np.ndarray, ""]
    eps: Float[np.ndarray, ""]
    own: Float[np.ndarray, "head query"]
    ordinary: Float[np.ndarray, "head query"]
    score: Float[np.ndarray, "head"]
    sigma: Float[np.ndarray, "position"]
    record: Mapping[str, Any]

    def switch(self) -> FirstTokenSwitch:
        """The same as the study of text gives, with one 'text'."""
        ratio = float(self.sigma[0] / np.median(self.sigma[1:]))
        return FirstTokenSwitch(self.own[None], self.ordinary[None], self.score, ratio)

    def bias(self, position: PositionOnly, times: int | float = 1) -> PositionBias:
        """The frozen position terms of the same weights, with this σ as their divisor.

        times: what the variance of tokens is multiplied by, to see how far a result hangs on it.
        """
        variance = self.sigma**2 + (times - 1) * float(self.token_variance)
        return replace(position.bias, inverse_sigma=InverseSigma(variance**-0.5, None, None))


def by_place(layer: FirstLayer, published: PublishedSigma = GPT2_SIGMA) -> ByPlace:
    """Ask a first layer for its switch by place alone, with a published σ for its tokens."""
    W_P = layer.embeddings.W_P.double()
    folded = fold(layer.attention)
    variance_of_tokens = token_variance(published.elsewhere, variances(W_P).numpy(), folded.eps)
    inverse = assumed_inverse_sigma(W_P, variance_of_tokens, folded.eps)
    switch = switch_by_place(folded, W_P, inverse)
    return ByPlace(
        token_variance=np.array(variance_of_tokens),
        eps=np.array(folded.eps),
        own=switch.true[0, :, :-1],
        ordinary=switch.median[0, :, :-1],
        score=switch.score,
        sigma=1 / inverse.mean,
        record=provenance(
            study="by_place",
            model=layer.name,
            published_sigma=[published.first, published.elsewhere],
            source=layer.provenance.get("source"),
            weights_sha256=layer.provenance.get("weights_sha256"),
        ),
    )
