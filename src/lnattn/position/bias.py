"""What a head does by position alone: T^p, T^pp, their sum, and the attention they make.

Kamoda et al. 2025, §5.1–5.3. Both terms are a number that depends on positions only, divided by
σ(e_v + p_j): the number is kept exactly, the divisor as its mean and band over all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, softmax_over_keys
from lnattn.attention.terms import check_indices
from lnattn.errors import ShapeError
from lnattn.position.sigma import InverseSigma


@dataclass(frozen=True)
class Band:
    """A curve for each head: its mean over all tokens and, where σ is known, its band.

    mean, lower, upper: [head … position]; lower and upper are None where no band is known.
    """

    mean: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None


@dataclass(frozen=True, eq=False)
class PositionBias:
    """Position terms of every head, for some queries. Made by `position_bias`.

    queries: the positions i of the queries. self_assertion: b_QK p_jᵀ, [head position];
    comparison: p_i W_QK p_jᵀ, [head query position]; both before division by σ and by √d_head.
    inverse_sigma: 1/σ over all tokens, or None where the token embeddings are unknown.
    scale: √d_head; causal: whether a query sees later keys.
    """

    queries: tuple[int, ...]
    self_assertion: Float[np.ndarray, "head position"]
    comparison: Float[np.ndarray, "head query position"]
    inverse_sigma: InverseSigma | None
    scale: float
    causal: bool

    @property
    def n_heads(self) -> int:
        return self.self_assertion.shape[0]

    @property
    def n_positions(self) -> int:
        return self.self_assertion.shape[1]

    @property
    def has_sigma(self) -> bool:
        return self.inverse_sigma is not None

    def without_sigma(self) -> PositionBias:
        """The same terms with σ left out, as if every input had σ = 1."""
        return self.with_sigma(None)

    def with_sigma(self, inverse_sigma: InverseSigma | None) -> PositionBias:
        """The same terms with another 1/σ."""
        return replace(self, inverse_sigma=inverse_sigma)

    def term_p(self) -> Band:
        """T^p_j = b_QK p_jᵀ / σ_j: [head position]."""
        return self._divided(self.self_assertion)

    def term_pp(self) -> Band:
        """T^pp_ij = p_i W_QK p_jᵀ / (σ_i σ_j): [head query position].

        The band is over the token of the key. The query's token is a different one, and its 1/σ_i
        is one factor for the whole curve: its mean stands for it, so that the middle is the mean
        over both tokens, drawn independently.
        """
        return self._divided(self._comparison_divided_by_query())

    def total(self) -> Band:
        """T^p + T^pp: [head query position], the band over the token of the key."""
        return self._divided(self.self_assertion[:, None, :] + self._comparison_divided_by_query())

    def attention(self) -> Float[np.ndarray, "head query position"]:
        """softmax_j of the mean of (T^p + T^pp) over √d_head; zero for keys that i cannot see."""
        total = torch.from_numpy(self.total().mean)
        rows = []
        for row, i in enumerate(self.queries):
            seen = total[:, row : row + 1, : i + 1 if self.causal else None]
            alpha = softmax_over_keys(seen, self.scale, causal=False)
            unseen = self.n_positions - alpha.shape[-1]
            rows.append(torch.nn.functional.pad(alpha, (0, unseen)))
        return torch.cat(rows, dim=1).numpy()

    def _comparison_divided_by_query(self) -> np.ndarray:
        if self.inverse_sigma is None:
            return self.comparison
        return self.comparison * self.inverse_sigma.mean[list(self.queries), None]

    def _divided(self, values: np.ndarray) -> Band:
        """`values` / σ_j: mean and band, lower below upper whatever the sign of the value."""
        sigma = self.inverse_sigma
        if sigma is None:
            return Band(values, None, None)
        mean = values * sigma.mean
        if sigma.lower is None or sigma.upper is None:
            return Band(mean, None, None)
        ends = values * sigma.lower, values * sigma.upper
        return Band(mean, np.minimum(*ends), np.maximum(*ends))


def position_bias(
    folded: FoldedAttention,
    W_P: Float[Tensor, "position d_model"],
    queries: Sequence[int],
    inverse_sigma: InverseSigma | None = None,
) -> PositionBias:
    """Position terms of all heads for the given queries, from weights alone.

    inverse_sigma: from `inverse_sigma_bands`; without it the terms are not divided by σ, which is
    all that a checkpoint without token embeddings allows. Computed in float64.
    Raises `TokenError` for a query outside the context; `ShapeError` for σ of another model, or a
    layer with local attention (later layers of GPT-Neo, which read no embeddings anyway).

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-gpt2")
    >>> bias = position_bias(lnattn.fold(model.attention), model.embeddings.W_P, [10, 100])
    >>> tuple(bias.attention().shape)  # head, query, position
    (8, 2, 256)
    """
    places = torch.as_tensor(list(queries), dtype=torch.long)
    if len(places) == 0:
        raise ShapeError("give at least one query position.")
    if folded.window is not None:
        raise ShapeError(
            "position studies need a layer whose queries see all earlier keys; this one sees only "
            f"the last {folded.window}."
        )
    check_indices(places, len(W_P), "position", "the context")
    if inverse_sigma is not None and len(inverse_sigma.mean) != len(W_P):
        raise ShapeError(
            f"1/σ covers {len(inverse_sigma.mean)} positions but the model has {len(W_P)}."
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
        tuple(places.tolist()),
        asserted.numpy(),
        compared.numpy(),
        inverse_sigma,
        folded.scale,
        folded.causal,
    )


def share_of_context(n_positions: int, of: int = 1024) -> tuple[int, ...]:
    """The paper's query positions 50, 500 and 1000 of 1,024, at the same share of a context."""
    return tuple(min(n_positions - 1, round(i * n_positions / of)) for i in (50, 500, 1000))
