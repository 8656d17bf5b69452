"""Training the majority model in count space, many runs at once.

All runs of a stack share their arm and plan and differ in their seed. What is the same for the
whole batch, the classes' scores and values, goes through autograd for all runs in one go; what
depends on the counts goes through `majority_kernel`, one run a thread. Loss, gradients and
trajectories are those of `majority_model.MajorityTransformer` on the same sequences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from lnattn.errors import ResultError, ShapeError
from lnattn.studies.majority_data import UNIFORM, MajorityData, majority_data
from lnattn.studies.majority_kernel import Gradients, Weights, loss_and_gradients, padded
from lnattn.studies.majority_model import Arm, initial_parameters

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


class Layout(NamedTuple):
    """Names, shapes and places of the parameters in one flat vector."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    ends: tuple[int, ...]

    def views(self, flat: Float[Tensor, "run parameters"]) -> dict[str, Tensor]:
        """Each parameter of all runs, [run, *shape], as a view into `flat`."""
        starts = (0, *self.ends[:-1])
        return {
            name: flat[:, start:end].unflatten(1, shape)
            for name, shape, start, end in zip(
                self.names, self.shapes, starts, self.ends, strict=True
            )
        }


def layout_of(parameters: dict[str, Tensor]) -> Layout:
    """The layout in which these parameters, without a run axis, are laid end to end."""
    ends = np.cumsum([value.numel() for value in parameters.values()])
    shapes = tuple(value.shape for value in parameters.values())
    return Layout(tuple(parameters), shapes, tuple(int(end) for end in ends))


class Attention(NamedTuple):
    """What attention computes before it meets a sequence; first axis: the run.

    normalised: the classes' inputs y; queries: y Q Kᵀ/√d, what a key is multiplied with (Eq. 6);
    scores: S, [query class, key class]; values: v, already multiplied with attention's output
    matrix.
    """

    normalised: Float[Tensor, "run classes d"]
    queries: Float[Tensor, "run classes d"]
    scores: Float[Tensor, "run classes classes"]
    values: Float[Tensor, "run classes d"]


def attention_of(parameters: dict[str, Tensor], arm: Arm) -> Attention:
    """Queries, keys and values of every class. parameters: with a run axis (`Layout.views`)."""
    y = arm.normalise(parameters["embedding.weight"])
    W_Q, W_K, W_V = parameters["layer.self_attn.in_proj_weight"].chunk(3, dim=1)
    of_scores, of_values = arm.score_inputs(y), arm.value_inputs(y)
    queries = of_scores @ W_Q.mT @ W_K / math.sqrt(y.shape[-1])
    values = of_values @ W_V.mT @ parameters["layer.self_attn.out_proj.weight"].mT
    return Attention(y, queries, queries @ of_scores.mT, values)


def mixing_matrices(attention: Attention) -> Float[Tensor, "run classes column key"]:
    """M_c of `majority_kernel`: rows e^{S_ck} v_k for each of d coordinates, and e^{S_ck}.

    A row of scores may be shifted by any constant; by the middle of its range, e^S stays within
    the numbers of its dtype for as long as the scores allow.
    """
    scores = attention.scores
    middle = (scores.amax(-1, keepdim=True) + scores.amin(-1, keepdim=True)).detach() / 2
    e = (scores - middle).exp()
    return torch.cat([e[:, :, None, :] * attention.values.mT[:, None], e[:, :, None, :]], dim=2)


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
            initial_parameters(seed, plan.d_model, plan.classes, plan.initial_scale)
            for seed in seeds
        ]
        self.layout = layout_of(starts[0])
        rows = [torch.cat([value.flatten() for value in start.values()]) for start in starts]
        self.flat = torch.stack(rows).to(dtype).requires_grad_()
        self.optimiser = torch.optim.Adam([self.flat], lr=plan.learning_rate)
        self.step_number = 0
        self.workers = workers

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The current parameters by name, [run, *shape], without gradients."""
        return self.layout.views(self.flat.detach())

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
        mix, weights = self._forward(self.flat)
        gradients = _zeros(weights)
        examples = [
            (of.train, known) for of, (known, _) in zip(self.data, self._labels, strict=True)
        ]
        losses, _ = self._run(examples, batches, weights, gradients, train=True)
        got = Gradients(*(torch.from_numpy(array) for array in gradients))
        classes, d = self.plan.classes, self.plan.d_model
        self.flat.grad = None
        mix.backward(got.mix[..., :classes])
        into = self.layout.views(self.flat.grad)
        into["embedding.weight"] += got.start + got.embedding[..., :d]
        into["layer.self_attn.out_proj.bias"] += got.start.sum(dim=1)
        into["layer.linear1.weight"] += got.W1[..., :d]
        into["layer.linear1.bias"] += got.b1
        into["layer.linear2.weight"] += got.W2[..., :d]
        into["layer.linear2.bias"] += got.b2
        into["layer.norm2.weight"] += got.gain
        into["layer.norm2.bias"] += got.shift
        return losses

    def test(self) -> tuple[Float[np.ndarray, "run"], Float[np.ndarray, "run"]]:
        """Loss and accuracy over all positions of the test sequences, by run."""
        _, weights = self._forward(self.flat.detach())
        examples = [
            (of.test, known) for of, (_, known) in zip(self.data, self._labels, strict=True)
        ]
        everything = [np.arange(len(of.test)) for of in self.data]
        return self._run(examples, everything, weights, _zeros(weights), train=False)

    def _forward(self, flat: Float[Tensor, "run parameters"]) -> tuple[Tensor, Weights]:
        """The mixing matrices, with their graph, and all that the kernel reads, padded."""
        views = self.layout.views(flat)
        attention = attention_of(views, self.arm)
        scores = attention.scores.detach()
        spread = float((scores.amax(-1) - scores.amin(-1)).max())
        if spread > _WIDEST and flat.dtype != torch.float64:
            # e^S would leave the range of single precision: this step is computed in double.
            return self._forward(flat.double())
        mix = mixing_matrices(attention)
        e, W1 = views["embedding.weight"], views["layer.linear1.weight"]
        W2 = views["layer.linear2.weight"]
        weights = Weights(
            mix=_padded(mix),
            start=e + views["layer.self_attn.out_proj.bias"][:, None],
            embedding=_padded(e),
            embedding_T=_padded(e.mT),
            W1=_padded(W1),
            b1=views["layer.linear1.bias"],
            W1_T=_padded(W1.mT),
            W2=_padded(W2),
            b2=views["layer.linear2.bias"],
            W2_T=_padded(W2.mT),
            gain=views["layer.norm2.weight"],
            shift=views["layer.norm2.bias"],
        )
        return mix, Weights(*(value.detach().contiguous().numpy() for value in weights))

    def _run(
        self,
        examples: Sequence[tuple[np.ndarray, np.ndarray]],
        batches: Sequence[np.ndarray],
        weights: Weights,
        gradients: Gradients,
        *,
        train: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        length = self.plan.length

        def one(run: int) -> tuple[float, float]:
            counts, labels = examples[run]
            positions = len(batches[run]) * length
            total, right = loss_and_gradients(
                counts,
                labels,
                batches[run],
                Weights(*(array[run] for array in weights)),
                Gradients(*(array[run] for array in gradients)),
                weights.mix.dtype.type(1 / positions),
                train,
            )
            return total / positions, right / positions

        runs = range(len(self.seeds))
        if self.workers == 1 or len(runs) == 1:
            found = [one(run) for run in runs]
        else:
            with ThreadPoolExecutor(min(self.workers, len(runs))) as pool:
                found = list(pool.map(one, runs))
        losses, accuracies = zip(*found, strict=True)
        return np.array(losses), np.array(accuracies)


def _zeros(weights: Weights) -> Gradients:
    return Gradients(*(np.zeros_like(getattr(weights, name)) for name in Gradients._fields))


def _padded(value: Tensor) -> Tensor:
    width = value.shape[-1]
    return pad(value, (0, padded(width) - width))
