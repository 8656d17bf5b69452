"""The divergences of `kl`, for all heads of a document at once, by torch alone: the GPU's path.

On a processor `kl_kernel` is several times faster. A GPU wants few large steps instead of one row
after the other, and has double precision to spare for what is no matrix product, so that no case
needs a formula of its own but very large divergences:

    u = t − E_p[t],   KL(p ‖ q) = log E_p[e^{−u}] = log1p(E_p[e^{−u} − 1 + u]).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.terms import TERMS

#: Bytes of scores that a block may have; some copies of it are alive at a time.
BLOCK_BYTES = 128 * 2**20
#: Where −u exceeds this, e^{−u} is taken with its largest value divided out.
_LARGE = 300.0


def divergences_on(
    device: torch.device,
    inputs: Float[Tensor, "head n part column"],
    alone: Float[Tensor, "head part n"],
    causal: bool,
    bias: Float[Tensor, "head n n"] | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Float[Tensor, "head term n"]:
    """KL(α ‖ α without T) in nats, float32, on the CPU; arguments as for `divergences_of_head`.

    The products are float32, made on `device`, as is everything after them, in float64. Memory
    there: the inputs and about eight blocks of `block_bytes`.
    """
    heads, n, _, width = inputs.shape
    inputs, alone = inputs.to(device), alone.to(device)
    queries, keys = inputs[..., : width // 2], inputs[..., width // 2 :]
    found = torch.empty(heads, len(TERMS), n)
    rows = max(1, block_bytes // (4 * 8 * heads * n))
    for first in range(0, n, rows):
        last = min(first + rows, n)
        seen = last if causal else n
        scores = torch.einsum("hqpc,hkrc->prhqk", queries[:, first:last], keys[:, :seen])
        ee, ep, pe, pp = scores[0, 0], scores[0, 1], scores[1, 0], scores[1, 1]
        if bias is not None:
            pp = pp + bias[:, first:last, :seen].to(device)
        e, p = alone[:, 0, None, :seen].expand_as(ee), alone[:, 1, None, :seen].expand_as(ee)
        total = (ee + ep + pe + pp + e + p).double()
        if causal:
            later = torch.ones(last - first, seen, dtype=torch.bool, device=device)
            total = total.masked_fill(later.triu(first + 1), -torch.inf)
        log_p = total.log_softmax(dim=-1)
        for row, term in enumerate((ee, ep, pe, pp, e, p)):
            found[:, row, first:last] = _divergence(term.double(), log_p).cpu()
    return found


def _divergence(
    term: Float[Tensor, "head query key"], log_p: Float[Tensor, "head query key"]
) -> Float[Tensor, "head query"]:
    """KL of removing a term from attention of these logarithms, −∞ where a key is not seen."""
    weight, seen = log_p.exp(), log_p > -torch.inf
    u = (term - (weight * term).sum(dim=-1, keepdim=True)).where(seen, 0.0)
    # Beyond _LARGE the value is not used, and must be finite all the same.
    change = (weight * (torch.expm1(-u.clamp(min=-_LARGE)) + u)).sum(dim=-1)
    large = (log_p - u).logsumexp(dim=-1)
    return torch.where(-u.amin(dim=-1) > _LARGE, large, change.log1p()).clamp(min=0.0)
