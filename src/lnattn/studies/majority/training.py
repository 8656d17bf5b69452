"""Training the majority model in count space, many runs at once.

All runs of a stack share their arm and plan and differ in their seed. What is the same for the
whole batch, the classes' scores and values, goes through autograd for all runs in one go
(`head`); what depends on the counts goes through `kernel`, in threads. Loss,
gradients and trajectories are those of `majority_model.MajorityTransformer` on the same sequences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.errors import ResultError, ShapeError
from lnattn.numerics.threads import one_torch_thread
from lnattn.studies.majority.head import (
    Attention,
    attention_of,
    head_of,
    layout_of,
    weights_of,
)
from lnattn.studies.majority.kernel import (
    Gradients,
    Weights,
    add_up,
    packed,
    pieces_of,
    sums_of,
    work_on,
)
from lnattn.studies.majority.model import Arm, initial_parameters
from lnattn.studies.majority.task import UNIFORM, MajorityData, majority_data

#: Scores of one query may spread this far in single precision before e^S leaves its range.
_WIDEST = 150.0


@dataclass(frozen=True)
class MajorityPlan:
    """Everything that decides the outcome of a run, besides its arm and seed.

    Sizes in examples; learning rate: linear decay from `learning_rate` to 0 at `decay_epochs`
    (default: at `epochs`; the authors' code decays over ten times as many epochs as it runs).
    initial_scale multiplies the initial W_Q, W_K and W_V. evaluate_every: epochs between two
    measurements of the test accuracy. The defaults are the paper's.
    """

    d_model: int = 8
    classes: int = 20
    length: int = 50
    margin: int = 6
    examples: int = 100_000
    batch: int = 6000
    epochs: int = 1000
    decay_epochs: int | None = None
    learning_rate: float = 1e-3
    initial_scale: float = 1.0
    evaluate_every: int = 5
    scheme: str = UNIFORM

    def __post_init__(self) -> None:
        for name in ("batch", "epochs", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ShapeError(f"{name} = {getattr(self, name)} must be at least 1.")
        for name in ("learning_rate", "initial_scale"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise ShapeError(f"{name} = {getattr(self, name)} must be a positive number.")
        if self.decay_epochs is not None and self.decay_epochs < self.epochs:
            raise ShapeError(
                f"decay_epochs = {self.decay_epochs} must be at least epochs = {self.epochs}."
            )

    def data(self, seed: int) -> MajorityData:
        """The data of the run with this seed."""
        return majority_data(
            self.examples,
            length=self.length,
            classes=self.classes,
            margin=self.margin,
            scheme=self.scheme,
            seed=seed,
        )

    def steps_per_epoch(self) -> int:
        """Batches in an epoch; the last one may be smaller."""
        return -(-(self.examples - round(0.2 * self.examples)) // self.batch)

    def rate(self, step: int) -> float:
        """Learning rate at a step (counted from 0)."""
        return self.learning_rate * (
            1 - step / (self.steps_per_epoch() * (self.decay_epochs or self.epochs))
        )


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
        self.layout, self._head_names = layout_of(starts[0]), head_of(arm)
        rows = [torch.cat([value.flatten() for value in start.values()]) for start in starts]
        self.flat = torch.stack(rows).to(dtype).requires_grad_()
        self._gradient = self.flat.grad = torch.zeros_like(self.flat)
        self._parameters = self.layout.views(self.flat.detach())
        self._gradients = self.layout.views(self._gradient)
        self.optimiser = torch.optim.Adam([self.flat], lr=plan.learning_rate, fused=True)
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

    def step(self, batches: Sequence[Int[np.ndarray, "batch"]]) -> Float[np.ndarray, "run"]:
        """One step of Adam for every run; returns the batches' losses in nats a position."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.plan.rate(self.step_number)
        losses = self.backward(batches)
        if not np.isfinite(losses).all():
            lost = [seed for seed, x in zip(self.seeds, losses, strict=True) if not np.isfinite(x)]
            raise ResultError(
                f"the loss of arm {self.arm.name!r}, seed {lost[0]}, is not a number at step "
                f"{self.step_number}; lower the learning rate ({self.plan.learning_rate:g})."
            )
        self.optimiser.step()
        self.step_number += 1
        return losses

    def backward(self, batches: Sequence[Int[np.ndarray, "batch"]]) -> Float[np.ndarray, "run"]:
        """Losses of these batches, with the gradients left in `flat.grad`."""
        # The threads that torch would start for a large stack would spin beside ours.
        with one_torch_thread():
            return self._backward(batches)

    def _backward(self, batches: Sequence[Int[np.ndarray, "batch"]]) -> Float[np.ndarray, "run"]:
        leaves, attention, weights = self._forward()
        losses, _, gradients = self._run(self._train, batches, weights, train=True)
        got = {name: torch.from_numpy(array) for name, array in gradients._asdict().items()}
        d, ends = self.plan.d_model, (attention.scores, attention.values)
        of_head = torch.autograd.grad(ends, leaves, (got["scores"], got["values"]))
        into = self._gradients
        self._gradient.zero_()
        for name, gradient in zip(self._head_names, of_head, strict=True):
            into[name] += gradient
        into["embedding.weight"] += got["start"] + got["embedding"][..., :d]
        into["layer.self_attn.out_proj.bias"] += got["start"].sum(dim=1)
        into["layer.linear1.weight"] += got["W1"][..., :d]
        into["layer.linear1.bias"] += got["b1"]
        into["layer.linear2.weight"] += got["W2"][..., :d]
        into["layer.linear2.bias"] += got["b2"]
        into["layer.norm2.weight"] += got["gain"]
        into["layer.norm2.bias"] += got["shift"]
        return losses

    def test(self) -> tuple[Float[np.ndarray, "run"], Float[np.ndarray, "run"]]:
        """Loss and accuracy over all positions of the test sequences, by run."""
        with one_torch_thread():
            _, _, weights = self._forward()
        everything = [np.arange(len(of.test)) for of in self.data]
        return self._run(self._test, everything, weights, train=False)[:2]

    def _forward(self) -> tuple[list[Tensor], Attention, Weights]:
        """Copies of the parameters of `head_of`, attention with its graph down to these copies, and
        all that the kernel reads.
        """
        parameters = self.parameters
        leaves, attention = self._head(parameters)
        if np.ptp(attention.scores.detach().numpy(), axis=-1).max() > _WIDEST:
            # e^S would leave the range of single precision: this step is computed in double.
            parameters = self.layout.views(self.flat.detach().double())
            leaves, attention = self._head(parameters)
        return leaves, attention, weights_of(parameters, attention)

    def _head(self, parameters: dict[str, Tensor]) -> tuple[list[Tensor], Attention]:
        leaves = {name: parameters[name].detach().requires_grad_() for name in self._head_names}
        return list(leaves.values()), attention_of({**parameters, **leaves}, self.arm)

    def _run(
        self,
        examples: Sequence[np.ndarray],
        batches: Sequence[np.ndarray],
        weights: Weights,
        *,
        train: bool,
    ) -> tuple[np.ndarray, np.ndarray, Gradients]:
        """Losses and shares of right positions by run, and gradients, first axis the run.

        Runs side by side where that keeps all threads busy to the end, and otherwise one after
        the other, each in equal parts.
        """
        runs = range(len(self.seeds))
        parts = 1 if len(runs) % self.workers == 0 else self.workers
        gradients = Gradients(*(np.zeros_like(getattr(weights, n)) for n in Gradients._fields))

        def one(run: int) -> tuple[float, float]:
            own = Weights(*(array[run] for array in weights))
            pieces = pieces_of(examples[run], batches[run], self.plan.classes)
            number, positions = len(pieces.owner), len(batches[run]) * self.plan.length
            sums, found = sums_of(own, number if train else 0), np.empty((number, 2))
            scale = weights.scores.dtype.type(1 / positions)

            def work(part: int) -> None:
                start, stop = (number * k // parts for k in (part, part + 1))
                work_on(pieces, start, stop, own, sums, found, scale, train)

            self._map(work, range(parts))
            into = Gradients(*(array[run] for array in gradients))
            total, right = add_up(pieces.owner, sums, found, into, train)
            return total / positions, right / positions

        each = self._map(one, runs) if parts == 1 else [one(run) for run in runs]
        losses, accuracies = np.array(each).T
        return losses, accuracies, gradients

    def _map(self, function: Callable[[int], Any], items: range) -> list[Any]:
        """The function's results, from as many threads as there is work for.

        The calling thread works, too: one that waits leaves its core to be found by the others.
        """
        found, left = {}, iter(items)

        def work() -> None:
            for item in left:
                found[item] = function(item)

        helpers = [self._pool.submit(work) for _ in range(min(self.workers, len(items)) - 1)]
        work()
        for helper in helpers:
            helper.result()
        return [found[item] for item in items]
