"""KL divergence of removing each of the four terms by distance, with the six terms' own kernel.

That kernel takes queries and keys in two parts, and what keys assert alone. Here the parts are the
token's and the constant's, both turned as at their position, and nothing is alone: its terms ee,
ep, pe and pp are `ee`, `ed`, `e` and `d`, and its last two are zero.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.distance import DISTANCE_TERMS, distance_terms
from lnattn.attention.relative import Constants, FoldedRelative, mean_vectors
from lnattn.errors import ShapeError, TokenError
from lnattn.numerics.products import product_device
from lnattn.numerics.threads import one_thread_a_call
from lnattn.relative import TokenEmbeddings
from lnattn.studies.contribution.kl import divergences_of_heads


class DistanceKL:
    """The counterpart of `SixTermKL`: divergences of documents, one call each.

    constants: q₀ and k₀ (`mean_vectors` unless given). scale: what the scores are divided by
    before the softmax (default: the model's own). workers: threads, one head each at a time.
    device: as for `product_device`.
    Raises `ShapeError` for a scale that is not positive, or scores with a soft cap, which is no
    sum of terms.
    """

    def __init__(
        self,
        folded: FoldedRelative,
        embeddings: TokenEmbeddings,
        constants: Constants | None = None,
        scale: float | None = None,
        workers: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        if scale is not None and not scale > 0:
            raise ShapeError(f"the softmax's scale must be a positive number, not {scale}.")
        if folded.soft_cap is not None:
            raise ShapeError(
                "this model bends its scores by a soft cap before the softmax, so the divergence "
                "of removing a term has no closed form; use DistanceTerms.attention(without=…)."
            )
        self._folded, self._embeddings = folded, embeddings
        self._constants = mean_vectors(folded, embeddings) if constants is None else constants
        self._scale = folded.scale if scale is None else scale
        self._workers = min(workers or torch.get_num_threads(), folded.n_heads)
        self._pool = ThreadPoolExecutor(self._workers)
        self._device = product_device(device)

    def __call__(self, token_ids: Int[Tensor, "n"] | list[int]) -> Float[np.ndarray, "term head n"]:
        """KL(α ‖ α without T) in nats for T in the order of `DISTANCE_TERMS`, float32.

        Raises `TokenError` for an empty document, an unknown token, or a document longer than the
        window of the layer.
        """
        folded, n = self._folded, len(token_ids)
        if folded.window is not None and n > folded.window:
            raise TokenError(
                f"a document of {n} tokens is longer than this layer's window of {folded.window}; "
                "give shorter ones."
            )
        with one_thread_a_call():
            terms = distance_terms(folded, self._embeddings, token_ids, constants=self._constants)
            query = torch.stack([terms.query_parts["e"], terms.query_parts[""]], dim=2)
            key = torch.stack([terms.key_parts["e"], terms.key_parts["d"]], dim=2)
            # [head n part 2·d_head]: queries, divided by the scale, beside keys.
            inputs = torch.cat([query / self._scale, key], dim=3).float()
            bias = None
            if folded.bias is not None:
                distance = terms.positions[:, None] - terms.positions[None, :]
                bias = (folded.bias(distance) / self._scale).float()
            nothing = torch.zeros(folded.n_heads, 2, n)
            divergence = divergences_of_heads(
                inputs.__getitem__, nothing, folded.causal, self._pool, self._device, bias
            )
        return divergence.transpose(1, 0, 2)[: len(DISTANCE_TERMS)]
