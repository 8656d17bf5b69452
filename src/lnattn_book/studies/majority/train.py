"""Training the majority model in count space.

The model has no positions, so all positions of one class have the same output, and attention is a
function of the sequence's counts n (Brody et al. 2023, §4.1)::

    o_c = Σ_k n_k e^{S_ck} v_k / Σ_k n_k e^{S_ck}.

Scores S [class class] and values v [class d] belong to all sequences alike. Losses, gradients and
trajectories are those of `encoder.MajorityTransformer`. The long runs of `experiments/majority`
take the same steps by a compiled kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from lnattn.errors import ResultError, ShapeError
from lnattn.inputs import real_number, whole_number
from lnattn_book.studies.majority.encoder import DIRECTION, Variant, initial_parameters
from lnattn_book.studies.majority.task import UNIFORM, MajorityData, check_task, majority_data


@dataclass(frozen=True)
class MajorityPlan:
    """Everything that decides a run, besides its arm and seed; by default the paper's.

    Sizes in examples; learning rate: linear decay from `learning_rate` to 0 at `decay_epochs`
    (default: at `epochs`). initial_scale multiplies the initial W_Q, W_K and W_V. evaluate_every:
    epochs between two measurements of the test accuracy. Raises `ShapeError` for numbers out of
    range, such as a decay that ends before the run does: its learning rate would turn negative.
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
            whole_number(getattr(self, name), f"MajorityPlan.{name}")
        whole_number(self.d_model, "MajorityPlan.d_model", least=2)
        for name in ("learning_rate", "initial_scale"):
            real_number(getattr(self, name), f"MajorityPlan.{name}", least=0, open_ends=True)
        check_task(self.examples, self.length, self.classes, self.margin, self.scheme)
        if self.decay_epochs is not None:
            whole_number(self.decay_epochs, "MajorityPlan.decay_epochs")
            if self.decay_epochs < self.epochs:
                raise ShapeError(
                    f"MajorityPlan.decay_epochs is {self.decay_epochs} and epochs is "
                    f"{self.epochs}: the learning rate would turn negative; give decay_epochs ≥ "
                    "epochs."
                )

    def data(self, seed: int) -> MajorityData:
        """The data of the run with this seed."""
        sizes = {"length": self.length, "classes": self.classes, "margin": self.margin}
        return majority_data(self.examples, **sizes, scheme=self.scheme, seed=seed)

    def steps_per_epoch(self) -> int:
        """Batches in an epoch; the last one may be smaller."""
        return -(-(self.examples - round(0.2 * self.examples)) // self.batch)

    def rate(self, step: int) -> float:
        """Learning rate at a step (counted from 0)."""
        decay = self.steps_per_epoch() * (self.decay_epochs or self.epochs)
        return self.learning_rate * (1 - step / decay)

    def parameters(self, arm: Variant, seed: int) -> dict[str, Tensor]:
        """The parameters at the start of the run with this seed, by name."""
        return initial_parameters(
            seed,
            self.d_model,
            self.classes,
            self.initial_scale,
            direction=arm.direction != "none",
        )


class Attention(NamedTuple):
    """What attention computes before it meets a sequence.

    normalised: the classes' inputs y; queries: y W_Q W_Kᵀ/√d, what a key is multiplied with
    (Eq. 6); scores: S, [query class, key class]; values: v, times attention's output matrix.
    """

    normalised: Float[Tensor, "classes d"]
    queries: Float[Tensor, "classes d"]
    scores: Float[Tensor, "classes classes"]
    values: Float[Tensor, "classes d"]


def attention_of(parameters: Mapping[str, Tensor], arm: Variant) -> Attention:
    """Queries, scores and values of every class; parameters as in `initial_parameters`."""
    y = arm.normalise(parameters["embedding.weight"], parameters.get(DIRECTION))
    d = y.shape[-1]
    W_Q, W_K, W_V = parameters["layer.self_attn.in_proj_weight"].chunk(3)
    for_scores = y / d if arm.small == "scores" else y
    for_values = y / d if arm.small == "values" else y
    queries = for_scores @ W_Q.T @ W_K / math.sqrt(d)
    scores = queries @ for_scores.T
    W_O = parameters["layer.self_attn.out_proj.weight"]
    return Attention(
        normalised=y,
        queries=queries,
        scores=torch.zeros_like(scores) if arm.uniform else scores,
        values=for_values @ W_V.T @ W_O.T,
    )


def evaluate(
    parameters: Mapping[str, Tensor], arm: Variant, counts: Int[Tensor, "batch classes"]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Mean cross-entropy (nats) and share of right answers over all positions of all sequences.

    counts: how often each class occurs in each sequence; the label is the most frequent class.
    """
    E = parameters["embedding.weight"]
    classes, d = E.shape
    attention = attention_of(parameters, arm)
    largest = attention.scores.amax(dim=1, keepdim=True)
    weights = (attention.scores - largest).exp()  # [query key]
    ones = torch.ones(classes, 1, dtype=E.dtype)
    mixing = torch.einsum("qk,kd->kqd", weights, torch.cat([attention.values, ones], dim=1))
    n = counts.to(E.dtype)
    mixed = (n @ mixing.flatten(1)).unflatten(1, (classes, d + 1))  # [batch query d+1]
    sequence, query = counts.nonzero(as_tuple=True)  # a class that occurs is a query
    mixed = mixed[sequence, query]
    x = E[query] + mixed[:, :d] / mixed[:, d:] + parameters["layer.self_attn.out_proj.bias"]
    gain = parameters["layer.norm2.weight"]
    bias = parameters["layer.norm2.bias"]
    z = functional.layer_norm(x, (d,), gain, bias, eps=0.0)
    hidden = functional.linear(
        z, parameters["layer.linear1.weight"], parameters["layer.linear1.bias"]
    ).relu()
    x = x + functional.linear(
        hidden, parameters["layer.linear2.weight"], parameters["layer.linear2.bias"]
    )
    logits = x @ E.T
    labels = counts.argmax(dim=1)[sequence]
    times = n[sequence, query]
    loss = (functional.cross_entropy(logits, labels, reduction="none") * times).sum()
    right = ((logits.argmax(dim=1) == labels) * times).sum()
    return loss / n.sum(), right / n.sum()


class Learner:
    """A run's parameters, and Adam, which changes them by one batch after another.

    parameters: as in `initial_parameters`; those that are learnt ask for gradients.
    """

    def __init__(self, arm: Variant, plan: MajorityPlan, seed: int = 0) -> None:
        self.arm = arm
        self.parameters = plan.parameters(arm, seed)
        fixed = set() if arm.direction == "learnt" else {DIRECTION}
        learnt = [value for name, value in self.parameters.items() if name not in fixed]
        for value in learnt:
            value.requires_grad_()
        self._optimiser = torch.optim.Adam(learnt)

    def step(self, counts: UInt8[np.ndarray, "batch classes"], rate: float) -> float:
        """Take one step with this learning rate; the batch's mean loss before it, in nats."""
        loss = self.loss(counts)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        return loss

    def loss(self, counts: UInt8[np.ndarray, "batch classes"]) -> float:
        """The mean loss of a batch, in nats; its gradients become those of the parameters."""
        self._optimiser.zero_grad()
        loss, _ = evaluate(self.parameters, self.arm, torch.from_numpy(counts.astype(np.int64)))
        loss.backward()
        return loss.item()

    def accuracy(self, counts: UInt8[np.ndarray, "batch classes"]) -> float:
        """The share of right answers."""
        with torch.no_grad():
            right = evaluate(self.parameters, self.arm, torch.from_numpy(counts.astype(np.int64)))[
                1
            ]
        return right.item()


def train(
    arm: Variant, plan: MajorityPlan, seed: int = 0, learner_of: type[Learner] = Learner
) -> dict[str, np.ndarray]:
    """Train one run; the same arm, plan and seed give the same run.

    learner_of: what takes the steps.

    Returns `epoch` [point]; `loss` (training, mean over the epoch before; at epoch 0 of the first
    batch), `accuracy` (share of test positions), `angle` (between query and the line through 1,
    mean over classes, degrees) and `spread` (of a query's scores), all [1, point]; `queries` and
    `keys` [1, class, d] at the end. Raises `ResultError` when the loss is no longer a number.
    """
    data = plan.data(seed)
    learner = learner_of(arm, plan, seed)
    points = []

    def attention_at_present() -> Attention:
        with torch.no_grad():
            return attention_of(learner.parameters, arm)

    def measure(epoch: int, loss: float) -> None:
        attention = attention_at_present()
        spread = attention.scores.std(dim=-1, unbiased=False).mean().item()
        angle = angles_to_ones(attention.queries.numpy()).mean()
        points.append((epoch, loss, learner.accuracy(data.test), angle, spread))

    def one_epoch(epoch: int) -> float:
        """Mean loss of an epoch's batches, each of which changes the parameters."""
        losses: list[float] = []
        sizes: list[int] = []
        for batch in batches(len(data.train), plan.batch, seed, epoch):
            step = epoch * plan.steps_per_epoch() + len(losses)
            loss = learner.step(data.train[batch], plan.rate(step))
            if not math.isfinite(loss):
                raise ResultError(
                    f"the loss of arm {arm.name!r}, seed {seed}, is not a number at step {step}; "
                    f"lower the learning rate ({plan.learning_rate:g})."
                )
            losses.append(loss)
            sizes.append(len(batch))
        return float(np.average(losses, weights=sizes))

    first = data.train[batches(len(data.train), plan.batch, seed, 0)[0]]
    measure(0, learner.loss(first))
    for epoch in range(plan.epochs):
        loss = one_epoch(epoch)
        if (epoch + 1) % plan.evaluate_every == 0 or epoch + 1 == plan.epochs:
            measure(epoch + 1, loss)
    columns = np.array(points).T
    curves = dict(zip(("loss", "accuracy", "angle", "spread"), columns[1:, None], strict=True))
    end = attention_at_present()
    return {
        "epoch": columns[0].astype(np.int32),
        **curves,
        "queries": end.queries.numpy()[None],
        "keys": end.normalised.numpy()[None],
    }


def batches(examples: int, size: int, seed: int, epoch: int) -> list[Int[np.ndarray, "batch"]]:
    """The epoch's batches, rows of the training examples; they depend on seed and epoch alone."""
    order = np.random.default_rng([seed, 1, epoch]).permutation(examples)
    return [order[start : start + size] for start in range(0, examples, size)]


def angles_to_ones(vectors: np.ndarray) -> np.ndarray:
    """Angle in degrees, 0 … 90, between vectors (last axis) and the line through 1."""
    vectors = np.asarray(vectors, dtype=np.float64)
    along = vectors.sum(axis=-1) / np.sqrt(vectors.shape[-1])
    squared = (vectors**2).sum(axis=-1)
    # atan2 keeps its digits where the arc cosine loses half of them, near 0.
    return np.degrees(np.arctan2(np.sqrt(np.maximum(squared - along**2, 0)), np.abs(along)))
