"""What a head does by position alone: T^p, T^pp, their sum, and the attention they make.

Kamoda et al. 2025, §5.1–5.3. Both terms are a number that depends on positions only, divided by
σ(e_v + p_j): the number is kept exactly, the divisor as its mean and band over all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, first_block, softmax_over_keys
from lnattn.attention.terms import check_indices
from lnattn.errors import ShapeError
from lnattn.inputs import matrix, require, whole_number
from lnattn.position.sigma import InverseSigma


class Band(NamedTuple):
    """A curve for each head, [head … position]: mean over tokens and, where σ is known, a band."""

    mean: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None


@dataclass(frozen=True, eq=False)
class PositionBias:
    """Position terms of every head, for some queries. Made by `position_bias`.

    queries: positions i; self_assertion: b_QK p_jᵀ, [head position]; comparison: p_i W_QK p_jᵀ,
    [head query position]; both before division by σ and by √d_head. inverse_sigma: 1/σ over all
    tokens, or None where it is unknown; scale: √d_head; causal: whether a query sees no later keys.
    """

    queries: tuple[int, ...]
    self_assertion: Float[np.ndarray, "head position"]
    comparison: Float[np.ndarray, "head query position"]
    inverse_sigma: InverseSigma | None
    scale: float
    causal: bool

    @property
    def n_heads(self) -> int:
        """How many query heads there are."""
        return self.self_assertion.shape[0]

    @property
    def n_positions(self) -> int:
        """How many positions the context has."""
        return self.self_assertion.shape[1]

    def term_p(self) -> Band:
        """T^p_j = b_QK p_jᵀ / σ_j: [head position]."""
        return self._divided(self.self_assertion)

    def term_pp(self) -> Band:
        """T^pp_ij = p_i W_QK p_jᵀ / (σ_i σ_j): [head query position].

        The band is over the token of the key; the mean of 1/σ_i stands for the query's.
        """
        return self._divided(self._divided_by_query())

    def total(self) -> Band:
        """T^p + T^pp: [head query position], the band over the token of the key."""
        return self._divided(self.self_assertion[:, None, :] + self._divided_by_query())

    def attention(self) -> Float[np.ndarray, "head query position"]:
        """softmax_j of the mean of (T^p + T^pp) over √d_head; zero for keys that i cannot see."""
        total = torch.from_numpy(self.total().mean)
        rows = []
        for row, i in enumerate(self.queries):
            keys = i + 1 if self.causal else self.n_positions
            seen = total[:, row : row + 1, :keys]
            alpha = softmax_over_keys(seen, self.scale, causal=False)
            unseen = self.n_positions - alpha.shape[-1]
            rows.append(torch.nn.functional.pad(alpha, (0, unseen)))
        return torch.cat(rows, dim=1).numpy()

    def _divided_by_query(self) -> np.ndarray:
        if self.inverse_sigma is None:
            return self.comparison
        return self.comparison * self.inverse_sigma.mean[list(self.queries), None]

    def _divided(self, values: np.ndarray) -> Band:
        """`values` / σ_j: mean and band, lower below upper whatever the sign of the value."""
        sigma = self.inverse_sigma
        if sigma is None:
            return Band(mean=values, lower=None, upper=None)
        if sigma.lower is None or sigma.upper is None:
            return Band(mean=values * sigma.mean, lower=None, upper=None)
        by_lower = values * sigma.lower
        by_upper = values * sigma.upper
        return Band(
            mean=values * sigma.mean,
            lower=np.minimum(by_lower, by_upper),
            upper=np.maximum(by_lower, by_upper),
        )


def position_bias(
    folded: FoldedAttention,
    W_P: Float[Tensor, "position d_model"],
    queries: Sequence[int],
    inverse_sigma: InverseSigma | None = None,
) -> PositionBias:
    """Position terms of all heads for the given queries, from weights alone, in float64.

    folded: the first layer's block, from `fold`; W_P: [position d_model]; queries: positions i;
    inverse_sigma: from `inverse_sigma_bands`; without it the terms are not divided by σ. Kamoda et
    al. 2025, §5.1–5.3. Raises `TokenError` for a query that is no position of the context;
    `ShapeError` for W_P or σ of another model, or a layer with local attention.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-gpt2")
    >>> bias = position_bias(lnattn.fold(model.attention), model.embeddings.W_P, [10, 100])
    >>> tuple(bias.attention().shape)  # head, query, position
    (8, 2, 256)
    """
    first_block(folded)
    W_P = matrix(W_P, "W_P", "position d_model", (None, folded.d_model))
    places = check_indices(queries, len(W_P), "position", "the context")
    if inverse_sigma is not None:
        covered = len(require(inverse_sigma, InverseSigma, "inverse_sigma").mean)
        if covered != len(W_P):
            raise ShapeError(
                f"1/σ covers {covered} positions but W_P has {len(W_P)}; take both from one model."
            )
    if folded.window is not None:
        raise ShapeError(
            "position studies need a layer whose queries see all earlier keys; this one sees only "
            f"the last {folded.window}."
        )
    positions = W_P.double()
    W_K = folded.W_K.double()
    asserted = (W_K @ folded.b_Q.double()[:, :, None]).squeeze(-1) @ positions.T
    compared = positions[places] @ folded.W_Q.double()
    if len(places) < folded.d_head:  # few queries: no key is projected
        compared = compared @ W_K.mT @ positions.T
    else:
        compared = compared @ (positions @ W_K).mT
    return PositionBias(
        queries=tuple(places.tolist()),
        self_assertion=asserted.numpy(),
        comparison=compared.numpy(),
        inverse_sigma=inverse_sigma,
        scale=folded.scale,
        causal=folded.causal,
    )


def share_of_context(n_positions: int, of: int = 1024) -> tuple[int, ...]:
    """The paper's query positions 50, 500 and 1000 of 1,024, at the same share of a context.

    Raises `ShapeError` for a context of no position.
    """
    whole_number(n_positions, "n_positions")
    return tuple(min(n_positions - 1, round(i * n_positions / of)) for i in (50, 500, 1000))
