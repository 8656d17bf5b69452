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
    mixing_matrices,
    weights_of,
)
from lnattn.studies.majority.kernel import (
    Gradients,
    Tiles,
    Weights,
    add_up,
    sums_of,
    tiles_of,
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
        self._labels = [(of.train_labels, of.test_labels) for of in self.data]
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
        self.optimiser = torch.optim.Adam([self.flat], lr=plan.learning_rate)
        self.step_number = 0
        self.workers = workers
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None

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
        leaves, mix, weights = self._forward()
        examples = [
            (of.train, known) for of, (known, _) in zip(self.data, self._labels, strict=True)
        ]
        losses, _, gradients = self._run(examples, batches, weights, train=True)
        got = {name: torch.from_numpy(array) for name, array in gradients._asdict().items()}
        classes, d = self.plan.classes, self.plan.d_model
        of_head = torch.autograd.grad(mix, leaves, got["mix"][..., :classes])
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
        examples = [
            (of.test, known) for of, (_, known) in zip(self.data, self._labels, strict=True)
        ]
        everything = [np.arange(len(of.test)) for of in self.data]
        return self._run(examples, everything, weights, train=False)[:2]

    def _forward(self) -> tuple[list[Tensor], Tensor, Weights]:
        """Copies of the parameters of `head_of`, the mixing matrices with their graph down to these
        copies, and all that the kernel reads.
        """
        parameters = self.parameters
        leaves, attention = self._head(parameters)
        scores = attention.scores.detach()
        if float((scores.amax(-1) - scores.amin(-1)).max()) > _WIDEST:
            # e^S would leave the range of single precision: this step is computed in double.
            parameters = self.layout.views(self.flat.detach().double())
            leaves, attention = self._head(parameters)
        mix = mixing_matrices(attention)
        return leaves, mix, weights_of(parameters, mix)

    def _head(self, parameters: dict[str, Tensor]) -> tuple[list[Tensor], Attention]:
        leaves = {name: parameters[name].detach().requires_grad_() for name in self._head_names}
        return list(leaves.values()), attention_of({**parameters, **leaves}, self.arm)

    def _run(
        self,
        examples: Sequence[tuple[np.ndarray, np.ndarray]],
        batches: Sequence[np.ndarray],
        weights: Weights,
        *,
        train: bool,
    ) -> tuple[np.ndarray, np.ndarray, Gradients]:
        """Losses and shares of right positions by run, and gradients, first axis the run."""
        runs = range(len(self.seeds))
        # As many equal pieces of work as keep all threads busy to the end.
        parts = self.workers // math.gcd(self.workers, len(runs))
        kind = weights.mix.dtype
        positions = [len(batch) * self.plan.length for batch in batches]
        own = [Weights(*(array[run] for array in weights)) for run in runs]
        gradients = Gradients(*(np.zeros_like(getattr(weights, n)) for n in Gradients._fields))

        def cut(run: int) -> tuple[Tiles, Gradients, np.ndarray]:
            tiles = tiles_of(examples[run][0], batches[run], weights.mix[:0, 0, 0])
            number = len(tiles.owner)
            return tiles, sums_of(own[run], number if train else 0), np.empty((number, 2))

        def work(job: tuple[int, int]) -> None:
            run, part = job
            tiles, sums, found = ready[run]
            start, stop = (len(found) * k // parts for k in (part, part + 1))
            labels, scale = examples[run][1], kind.type(1 / positions[run])
            work_on(tiles, start, stop, batches[run], labels, own[run], sums, found, scale, train)

        def add(run: int) -> tuple[float, float]:
            tiles, sums, found = ready[run]
            into = Gradients(*(array[run] for array in gradients))
            total, right = add_up(tiles.owner, sums, found, into, train)
            return total / positions[run], right / positions[run]

        ready = self._map(cut, runs)
        self._map(work, [(run, part) for run in runs for part in range(parts)])
        losses, accuracies = zip(*map(add, runs), strict=True)
        return np.array(losses), np.array(accuracies), gradients

    def _map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """The function's results, from as many threads as there is work for."""
        if self._pool is None or len(items) == 1:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))
