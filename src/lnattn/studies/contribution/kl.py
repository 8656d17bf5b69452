"""KL divergence of removing each of the six terms, for every query of a document, in one pass.

The scores of a block of queries are two matrix products; `kl_kernel` takes each row of them
to its six divergences while it is in the first-level cache. No [query key] matrix of a whole
document is ever held, and every head runs on a thread of its own. Where torch finds a GPU, or is
told of one, it does all heads at once instead (`kl_on_device`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention
from lnattn.attention.layernorm import sigma
from lnattn.attention.terms import TERMS, look_up
from lnattn.errors import ShapeError
from lnattn.numerics.products import multiply, product_device
from lnattn.numerics.threads import one_thread_a_call
from lnattn.studies.contribution.kl_kernel import divergences
from lnattn.studies.contribution.kl_on_device import divergences_on
from lnattn.weights import Embeddings

#: Queries whose scores a thread holds at one time, 4 · 128 · n numbers. Every product packs all
#: keys anew, so few large ones are faster, until their scores no longer stay near the core.
_BLOCK = 128


class SixTermKL:
    """Computes the divergences of documents, one call each, for one model and one scale.

    Made once: each head's query and key weights side by side, the projections of all positions
    (the same in every document up to σ), and the threads, which keep their memory between calls.
    scale: what the scores are divided by before the softmax (default: the model's own). workers:
    threads, one head each at a time (default: torch's number). device: as for `product_device`.
    Weights are taken to single precision. Raises `TokenError` for a checkpoint without token
    embeddings, and `ShapeError` for a scale that is not positive or a layer with a local window.
    """

    def __init__(
        self,
        folded: FoldedAttention,
        embeddings: Embeddings,
        scale: float | None = None,
        workers: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        if scale is not None and not scale > 0:
            raise ShapeError(f"the softmax's scale must be a positive number, not {scale}.")
        if folded.window is not None:
            raise ShapeError(
                "the six divergences need a layer whose queries see all earlier keys; this one "
                f"sees only the last {folded.window}."
            )
        look_up(embeddings, [0])  # one clear error now for a checkpoint without token embeddings
        self._embeddings = embeddings.to(torch.float32)
        self._heads, self._d_head = folded.n_heads, folded.d_head
        self._eps, self._causal = folded.eps, folded.causal
        shrink = 1.0 / (folded.scale if scale is None else scale)
        # [head d_model 2·d_head]: queries, already divided by the scale, beside keys.
        self._projection = torch.cat([folded.W_Q * shrink, folded.W_K], dim=2).float()
        self._projected_positions = self._embeddings.W_P @ self._projection
        # [d_model head]: what a key asserts alone, whatever the query.
        self._alone = (folded.b_QK.T * shrink).float()
        self._alone_of_positions = self._embeddings.W_P @ self._alone
        self._workers = min(workers or torch.get_num_threads(), self._heads)
        self._pool = ThreadPoolExecutor(self._workers)
        self._device = product_device(device)

    def __call__(self, token_ids: Int[Tensor, "n"] | list[int]) -> Float[np.ndarray, "term head n"]:
        """KL(α ‖ α without T) in nats for T in the order of `TERMS`; positions are 0 … n − 1.

        Float32. The first query of a causal model sees one key, so its six numbers are 0. Raises
        `TokenError` for an empty document, one longer than the context, or an unknown token.
        """
        with one_thread_a_call():
            tokens, positions = look_up(self._embeddings, token_ids)
            n = len(tokens)
            over_sigma = 1 / sigma(tokens + positions, self._eps)[:, None]
            alone = torch.stack([tokens @ self._alone, self._alone_of_positions[:n]])
            by_head = (alone * over_sigma).permute(2, 0, 1).contiguous()
            # A text repeats its words: each distinct token is projected once.
            ids, inverse = torch.unique(torch.as_tensor(token_ids), return_inverse=True)
            distinct = self._embeddings.tokens()[ids]

            def inputs_of(head: int) -> Float[Tensor, "n part column"]:
                inputs = torch.empty(n, 2, 2 * self._d_head)
                projected = (distinct @ self._projection[head])[inverse]
                torch.mul(projected, over_sigma, out=inputs[:, 0])
                projected = self._projected_positions[head, :n]
                torch.mul(projected, over_sigma, out=inputs[:, 1])
                return inputs

            return divergences_of_heads(
                inputs_of, by_head, self._causal, self._pool, self._device
            ).transpose(1, 0, 2)


def divergences_of_heads(
    inputs_of: Callable[[int], Float[Tensor, "n part column"]],
    alone: Float[Tensor, "head part n"],
    causal: bool,
    pool: ThreadPoolExecutor,
    device: torch.device,
    bias: Float[Tensor, "head n n"] | None = None,
) -> Float[np.ndarray, "head term n"]:
    """The divergences of all heads: by `divergences_of_head`, a head a thread, or on a GPU.

    inputs_of: of a head; the other arguments as for `divergences_of_head`.
    """
    heads, _, n = alone.shape
    if device.type != "cpu":
        inputs = torch.stack(list(pool.map(inputs_of, range(heads))))
        return divergences_on(device, inputs, alone, causal, bias).numpy()
    divergence = np.empty((heads, len(TERMS), n), dtype=np.float32)

    def one_head(head: int) -> None:
        added = None if bias is None else bias[head]
        asserted = alone[head].numpy()
        divergences_of_head(inputs_of(head), asserted, causal, divergence[head], added)

    list(pool.map(one_head, range(heads)))
    return divergence


def divergences_of_head(
    inputs: Float[Tensor, "n part column"],
    alone: Float[np.ndarray, "part n"],
    causal: bool,
    divergence: Float[np.ndarray, "term n"],
    bias: Float[Tensor, "n n"] | None = None,
) -> None:
    """Fill the divergences of one head from the two parts of its inputs.

    inputs: for each part the query, divided by the softmax's scale, beside the key; alone: what
    each part of a key asserts whatever the query; bias: [query key], added to the product of the
    second parts. divergence: [term n], in the order of `kl_kernel`.
    """
    n, width = len(inputs), inputs.shape[2] // 2
    # Rows 2 i and 2 i + 1: the first and the second part of query i.
    queries = inputs[..., :width].flatten(0, 1)
    keys = inputs[..., width:]
    # Reused by every block: fresh memory would be zeroed by the system again and again.
    scratch = torch.empty(2 * 2 * _BLOCK * n)
    for first in range(0, n, _BLOCK):
        last = min(first + _BLOCK, n)
        seen = last if causal else n
        query = queries[2 * first : 2 * last]
        scores = scratch[: 2 * len(query) * seen].view(2, len(query), seen)
        for part in range(2):
            multiply(query, keys[:seen, part].T, out=scores[part])
        if bias is not None:
            scores[1, 1::2] += bias[first:last, :seen]
        divergences(scores.numpy(), alone, first, causal, divergence)
