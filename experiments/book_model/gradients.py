"""Gradients of a training step, whole or with each core at its own share of the windows.

An operation on a model of width 8 takes less time than waking a second thread for it, and torch's
threads, once woken, keep their core from ours for a while. So there each core takes some windows
from the first operation to the last, and what they found is summed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.book_model.plan import TrainingPlan
from experiments.threads import in_parts, one_torch_thread, part_count
from lnattn.errors import CheckpointError

#: The width up to which shares of the windows are faster than torch's threads.
_NARROW = 8


def share_count(plan: TrainingPlan, device: torch.device) -> int:
    """Into how many shares the windows of a step go: one a core for narrow models, else one.

    With dropout one, too: random numbers of several threads would come in no fixed order.
    """
    apart = plan.d_model <= _NARROW and plan.precision == "float32" and not plan.dropout
    return part_count(plan.batch) if apart and device.type == "cpu" else 1


def set_gradients(
    parameters: list[torch.nn.Parameter],
    loss_of: Callable[[Int[Tensor, "batch context_plus_1"]], Float[Tensor, ""]],
    rows: Int[Tensor, "batch context_plus_1"],
    shares: int,
    step: int,
) -> float:
    """Set every parameter's gradient of the mean loss on windows, and return that loss in nats.

    shares: see `share_count`. step: for what is said of a loss that is no number, which raises
    `CheckpointError` and leaves the gradients as they are.
    """
    found: list[tuple[float, tuple[Tensor, ...]]] = [(0.0, ())] * shares

    def one_share(part: int, windows: slice) -> None:
        torch.set_num_threads(1)  # a new thread of ours would begin with all of torch's
        found[part] = _gradients(parameters, loss_of, rows[windows], len(rows))

    if shares > 1:
        with one_torch_thread():
            in_parts(one_share, len(rows), shares)
    else:
        found[0] = _gradients(parameters, loss_of, rows, len(rows))
    loss = sum(share for share, _ in found)
    if not torch.isfinite(torch.tensor(loss)):
        raise CheckpointError(
            f"the training loss became {loss} at step {step}; lower the learning rate."
        )
    for parameter, *parts in zip(parameters, *(grads for _, grads in found), strict=True):
        # Contiguous, as its parameter is: the fused optimiser reads both as one row of numbers.
        parameter.grad = parts[0].contiguous() if shares == 1 else torch.stack(parts).sum(0)
    return loss


def _gradients(
    parameters: list[torch.nn.Parameter],
    loss_of: Callable[[Tensor], Tensor],
    rows: Tensor,
    of: int,
) -> tuple[float, tuple[Tensor, ...]]:
    loss = loss_of(rows)
    weighted = loss * (len(rows) / of) if len(rows) < of else loss
    return weighted.item(), torch.autograd.grad(weighted, parameters)
