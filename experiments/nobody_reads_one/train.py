"""Training one arm, and the energy of its writing matrices along 1 and along n on the way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.nobody_reads_one.model import CONTEXT, WIDTH, Model, rows
from experiments.nobody_reads_one.writing import along
from lnattn.errors import CorpusError

NORMS = ("LayerNorm", "RMSNorm", "removes n")
OPTIMISERS = {
    "SGD": (torch.optim.SGD, {"lr": 0.3, "momentum": 0.9}),
    "Adam": (torch.optim.AdamW, {"lr": 3e-3, "weight_decay": 0.0}),
    "AdamW": (torch.optim.AdamW, {"lr": 3e-3, "weight_decay": 0.5}),
}
#: What an identity foretells, and no arm trains.
SGD_DECAY = (torch.optim.SGD, {"lr": 0.3, "momentum": 0.9, "weight_decay": 5e-4})
STEPS = 500
BATCH = 8
MARKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500)
MEASURED = ("weight", "moved", "kept", "step", "predicted")


@dataclass(frozen=True)
class Arm:
    """One run: which direction the norms remove, what optimises, and the seed of its draws."""

    norm: str
    optimiser: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.norm}-{self.optimiser}-s{self.seed}".replace(", ", "-").replace(" ", "-")


def directions(seed: int) -> Tensor:
    """1/√d and n, a Gaussian vector made orthogonal to it, of length 1: [2, d]."""
    n = torch.randn(WIDTH, generator=torch.Generator().manual_seed(1000 + seed))
    n = n - n.mean()
    return torch.stack((torch.full((WIDTH,), WIDTH**-0.5), n / n.norm()))


def characters(path: Path | str, size: int = 128) -> Tensor:
    """The text of a JSON-lines file as ids of its most frequent characters; 0 for the others."""
    with Path(path).open(encoding="utf-8") as file:
        text = "\n".join(json.loads(line)["text"] for line in file)
    if len(text) <= CONTEXT + 1:
        raise CorpusError(f"{path} has {len(text)} characters; a window needs {CONTEXT + 1}.")
    codes = np.array([ord(letter) for letter in text])
    known, counts = np.unique(codes, return_counts=True)
    commonest = known[np.argsort(-counts, kind="stable")][: size - 1]
    ids = dict(zip(commonest.tolist(), range(1, size), strict=False))
    return torch.tensor([ids.get(code, 0) for code in codes.tolist()])


def start(arm: Arm, vocabulary: int = 128) -> Model:
    """The model of an arm as drawn; arms of one seed differ in nothing else."""
    ones, n = directions(arm.seed)
    torch.manual_seed(arm.seed)
    return Model(vocabulary, {"LayerNorm": ones, "RMSNorm": None, "removes n": n}[arm.norm])


def loss_of(model: Model, data: Tensor, generator: torch.Generator) -> Tensor:
    """Mean loss of the next character over a batch of random windows."""
    first = torch.randint(len(data) - CONTEXT - 1, (BATCH, 1), generator=generator)
    window = data[first + torch.arange(CONTEXT + 1)]
    return F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())


def train(arm: Arm, data: Tensor, steps: int = STEPS) -> dict[str, np.ndarray]:
    """Arrays of one run: loss [step]; at each mark and for each writer the energy along 1 and n.

    weight, moved: A(W_t, u) and A(W_t − W_0, u) [mark writer 2]; kept: ‖W_t u‖ over ‖W_0 u‖; with
    Adam also step, predicted: A of the single step, and what its second moments foretell.
    """
    torch.use_deterministic_algorithms(True)
    model = start(arm)
    u = directions(arm.seed)
    kind, settings = {**OPTIMISERS, "SGD, decay": SGD_DECAY}[arm.optimiser]
    optimiser = kind(model.parameters(), **settings, fused=True)
    generator = torch.Generator().manual_seed(arm.seed)
    drawn = {name: W.detach().clone() for name, W in model.writers().items()}
    losses = []
    by_measure = {key: [] for key in MEASURED}
    marks = [mark for mark in MARKS if mark <= steps]
    for step in range(steps + 1):
        if step in marks:
            for key, values in measured(model, drawn, u, optimiser).items():
                by_measure[key].append(values)
        if step < steps:
            loss = loss_of(model, data, generator)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    return {"loss": np.array(losses), "marks": np.array(marks)} | {
        key: np.array(values) for key, values in by_measure.items()
    }


@torch.no_grad()
def measured(
    model: Model, drawn: dict[str, Tensor], u: Tensor, optimiser: torch.optim.Optimizer
) -> dict[str, list[list[float]]]:
    """The numbers of `train` at one mark, each [writer 2]; NaN for what there is not."""
    table: dict[str, list[list[float]]] = {key: [] for key in MEASURED}
    for name, W in model.writers().items():
        now = rows(name, W)
        then = rows(name, drawn[name])
        moved = now - then
        table["weight"].append(along(now, u).tolist())
        table["moved"].append(along(moved, u).tolist() if moved.any() else [np.nan] * 2)
        table["kept"].append(((now @ u.T).norm(dim=0) / (then @ u.T).norm(dim=0)).tolist())
        state = optimiser.state.get(W, {})
        step, foretold = adams_step(state, optimiser, name, u) if "exp_avg_sq" in state else (0, 0)
        table["step"].append(along(step, u).tolist() if torch.is_tensor(step) else [np.nan] * 2)
        table["predicted"].append(foretold.tolist() if torch.is_tensor(step) else [np.nan] * 2)
    return table


def adams_step(
    state: dict[str, Tensor], optimiser: torch.optim.Optimizer, name: str, u: Tensor
) -> tuple[Tensor, Tensor]:
    """Adam's last step by coordinate, [.., d], and A along u as its second moments foretell it.

    The latter, with r = 1/√v̂ and r̄ = Σ u² r, is the mean over rows of Σ_j u_j² (1 − r̄ √v̂_j)².
    """
    (beta_1, beta_2) = optimiser.defaults["betas"]
    eps = optimiser.defaults["eps"]
    count = state["step"].item()
    mean = rows(name, state["exp_avg"]) / (1 - beta_1**count)
    root = (rows(name, state["exp_avg_sq"]) / (1 - beta_2**count)).sqrt()
    used = (root > 0).all(dim=1)  # rows of characters that never stood in a batch have none
    scale = root[used].double()
    average = (1 / scale) @ u.double().square().T  # [row 2]
    away = (1 - average[:, None] * scale[..., None]).square()  # [row d 2]
    return mean / (root + eps), (away * u.double().square().T).sum(1).mean(0)


def first_steps(data: Tensor, seeds: int) -> np.ndarray:
    """A of Adam's first step along 1, with LayerNorm: [seed writer]."""
    energies = []
    for seed in range(seeds):
        model = start(Arm("LayerNorm", "Adam", seed))
        loss_of(model, data, torch.Generator().manual_seed(seed)).backward()
        ones = directions(seed)[0]
        signs = {name: rows(name, W.grad).sign() for name, W in model.writers().items()}
        energies.append([along(sign, ones).item() for sign in signs.values()])
    return np.array(energies)
