"""Training the majority model in count space, many runs at once.

All runs of a stack share their arm and plan and differ in their seed. What is the same for the
whole batch, the classes' scores and values, is computed for all runs in one go (`head`); what
depends on the counts goes through `kernel`, in threads. Loss, gradients and trajectories are those
of `model.MajorityTransformer` on the same sequences.

No step calls torch: its own threads go on spinning after an operation, and ours would share one
core meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.majority.head import (
    EMBEDDING,
    Attention,
    Head,
    attention_of,
    layout_of,
    weights_of,
)
from experiments.majority.kernel import (
    Gradients,
    Weights,
    columns_of,
    packed,
    pieces,
    sums_of,
    totals,
    work_on,
)
from lnattn.errors import ResultError, ShapeError
from lnattn.majority.model import Arm, initial_parameters
from lnattn.majority.task import MajorityData
from lnattn.majority.train import MajorityPlan

#: Scores of one query may spread this far in single precision before e^S leaves its range.
_WIDEST = 150.0
#: Adam's decay rates of the two moments, and what it adds to the root: torch's defaults.
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


class Stack:
    """Several runs of one arm and plan, with one optimiser step at a time for all of them.

    seeds: one run each; data: by run (default: the plan's, by seed); workers: threads. Raises
    `ResultError` when a run's loss is no longer a number.
    """

    def __init__(
        self,
        arm: Arm,
        plan: MajorityPlan,
        seeds: Sequence[int],
        *,
        data: Sequence[MajorityData] | None = None,
        dtype: torch.dtype = torch.float32,
        workers: int = 1,
    ) -> None:
        if not seeds or len(set(seeds)) != len(seeds):
            raise ShapeError(f"seeds must be one or more different numbers, not {list(seeds)}.")
        self.arm, self.plan, self.seeds = arm, plan, tuple(seeds)
        self.data = list(data) if data is not None else [plan.data(seed) for seed in seeds]
        self._train = [packed(of.train) for of in self.data]
        self._test = [packed(of.test) for of in self.data]
        starts = [
            initial_parameters(
                seed,
                plan.d_model,
                plan.classes,
                plan.initial_scale,
                direction=arm.direction != "none",
            )
            for seed in seeds
        ]
        self.layout = layout_of(starts[0])
        rows = [torch.cat([value.flatten() for value in start.values()]) for start in starts]
        self.flat = torch.stack(rows).to(dtype).requires_grad_()
        self.flat.grad = torch.zeros_like(self.flat)
        self._parameters = self.layout.views(self.flat.detach())
        # The same numbers as arrays.
        self._flat, self._gradient = self.flat.detach().numpy(), self.flat.grad.numpy()
        self._gradients = self.layout.views(self._gradient)
        #: Adam's two moments of the gradient, and the number of steps done.
        self.moments = np.zeros_like(self._flat), np.zeros_like(self._flat)
        self.step_number = 0
        self.workers = workers
        self._pool = ThreadPoolExecutor(workers)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The current parameters by name, [run, *shape], without gradients."""
        return self._parameters

    def attention(self) -> Attention:
        """Queries, keys and values of the current parameters."""
        return attention_of(self.parameters, self.arm)

    def batches(self, epoch: int) -> list[list[Int[np.ndarray, "batch"]]]:
        """The epoch's batches, for every step one a run; they depend on seed and epoch alone."""
        orders = [
            np.random.default_rng([seed, 1, epoch]).permutation(len(of.train))
            for seed, of in zip(self.seeds, self.data, strict=True)
        ]
        starts = range(0, len(orders[0]), self.plan.batch)
        return [[order[s : s + self.plan.batch] for order in orders] for s in starts]

    def step(self, batches: Sequence[Int[np.ndarray, "_"]]) -> Float[np.ndarray, "run"]:
        """One step of Adam for every run; returns the batches' losses in nats a position."""
        losses = self.backward(batches)
        if not np.isfinite(losses).all():
            lost = [seed for seed, x in zip(self.seeds, losses, strict=True) if not np.isfinite(x)]
            raise ResultError(
                f"the loss of arm {self.arm.name!r}, seed {lost[0]}, is not a number at step "
                f"{self.step_number}; lower the learning rate ({self.plan.learning_rate:g})."
            )
        self._update(self.plan.rate(self.step_number))
        return losses

    def _update(self, rate: float) -> None:
        """Adam (Kingma & Ba 2015, algorithm 1), for all runs at once."""
        self.step_number += 1
        first, second = self.moments
        first += (1 - _BETA_1) * (self._gradient - first)
        second += (1 - _BETA_2) * (self._gradient * self._gradient - second)
        root = np.sqrt(second / (1 - _BETA_2**self.step_number)) + _EPSILON
        self._flat -= rate / (1 - _BETA_1**self.step_number) * first / root

    def backward(self, batches: Sequence[Int[np.ndarray, "_"]]) -> Float[np.ndarray, "run"]:
        """Losses of these batches, with the gradients left in `flat.grad`."""
        head, weights = self._forward()
        losses, _, sums = self._run(self._train, batches, weights, train=True)
        got = totals(sums, self.plan.classes)
        d, into = self.plan.d_model, self._gradients
        for name, gradient in {
            **head.gradients(got.scores, got.values),
            "layer.self_attn.out_proj.bias": got.start.sum(axis=1),
            "layer.linear1.weight": got.W1[..., :d],
            "layer.linear1.bias": got.b1,
            "layer.linear2.weight": got.W2[..., :d],
            "layer.linear2.bias": got.b2,
            "layer.norm2.weight": got.gain,
            "layer.norm2.bias": got.shift,
        }.items():
            into[name][:] = gradient
        into[EMBEDDING] += got.start + got.embedding[..., :d]
        return losses

    def test(self) -> tuple[Float[np.ndarray, "run"], Float[np.ndarray, "run"]]:
        """Loss and accuracy over all positions of the test sequences, by run."""
        _, weights = self._forward()
        everything = [np.arange(len(of.test)) for of in self.data]
        return self._run(self._test, everything, weights, train=False)[:2]

    def _forward(self) -> tuple[Head, Weights]:
        """The classes' scores and values, and all that the kernel reads."""
        parameters = self.layout.views(self._flat)
        head = Head(parameters, self.arm)
        if np.ptp(head.scores, axis=-1).max() > _WIDEST:
            # e^S would leave the range of single precision: this step is computed in double.
            parameters = self.layout.views(self._flat.astype(np.float64))
            head = Head(parameters, self.arm)
        return head, weights_of(parameters, head)

    def _run(
        self,
        examples: Sequence[np.ndarray],
        batches: Sequence[np.ndarray],
        weights: Weights,
        *,
        train: bool,
    ) -> tuple[np.ndarray, np.ndarray, Gradients]:
        """Losses and shares of right positions by run, and the sums of every piece.

        All threads take pieces of all runs, so that none waits before there are no more.
        """
        runs, longest = range(len(self.seeds)), max(len(batch) for batch in batches)
        sizes, number = np.array([len(b) for b in batches]), pieces(longest, self.plan.classes)
        positions = sizes * self.plan.length
        words = np.empty((len(runs), examples[0].shape[1], longest), np.int32)
        sums, found = sums_of(weights, number if train else 0), np.empty((len(runs), number, 2))
        scales, counter = (1 / positions).astype(weights.scores.dtype), np.zeros(1, np.int64)
        self._map(lambda run: columns_of(examples[run], batches[run], words[run]), runs)
        self._map(
            lambda _: work_on(words, sizes, weights, sums, found, scales, train, counter),
            range(self.workers),
        )
        losses, accuracies = found.sum(axis=1).T / positions
        return losses, accuracies, sums

    def _map(self, function: Callable[[int], object], items: range) -> None:
        """Call the function with every item, from as many threads as there is work for.

        The calling thread works, too: one that waits leaves its core to be found by the others.
        """
        left = iter(items)

        def work() -> None:
            for item in left:
                function(item)

        helpers = [self._pool.submit(work) for _ in range(min(self.workers, len(items)) - 1)]
        work()
        for helper in helpers:
            helper.result()
