"""One training step of the majority model (Brody et al. 2023): torch beside count space."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from common import growth, ratio, time_side_by_side

from experiments.majority.stack import Stack
from lnattn.errors import ResultError
from lnattn.majority.model import MajorityTransformer, arm, sequences
from lnattn.majority.task import majority_data
from lnattn.majority.train import MajorityPlan

TORCH = "torch encoder layer"
OURS = "count space"
#: The ratio that the project asks for.
FLOOR = 70.0
#: Seconds that it allows for a step: of a run alone, and of each of ten that go together.
ALONE, TOGETHER = 3e-3, 2e-3
#: Seconds of rest before each timed call; see `common.time_side_by_side`.
PAUSE = 0.1


class Both:
    """One step of Adam on one batch, the obvious way and in count space, from the same start."""

    def __init__(self, plan: MajorityPlan, runs: int = 1) -> None:
        few = 5 * (plan.batch // 4 + 1)  # four fifths of the examples make one batch
        data = majority_data(
            few, length=plan.length, classes=plan.classes, margin=plan.margin, seed=0
        )
        self.stack = Stack(
            arm("layernorm"),
            replace(plan, examples=few),
            tuple(range(runs)),
            data=[data] * runs,
            workers=torch.get_num_threads(),
        )
        self.rows = np.arange(plan.batch)
        counts = torch.from_numpy(data.train[: plan.batch].astype(np.int64))
        self.ids, self.labels = sequences(counts), counts.argmax(dim=1)
        self.pairs = int((counts > 0).sum())
        self.model = MajorityTransformer(arm("layernorm"), plan.d_model, plan.classes)
        self.model.load_state_dict({k: v[0].clone() for k, v in self.stack.parameters.items()})
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=plan.learning_rate)

    def obvious(self) -> float:
        """One step of the torch model."""
        self.optimiser.zero_grad()
        loss = self.model.loss(self.ids, self.labels)
        loss.backward()
        self.optimiser.step()
        return loss.item()

    def count_space(self) -> np.ndarray:
        """One step of every run of the stack."""
        return self.stack.step([self.rows] * len(self.stack.seeds))

    def in_a_row(self, steps: int) -> None:
        """So many steps of every run, one after the other, as in training."""
        for _ in range(steps):
            self.count_space()

    def methods(self) -> dict[str, Callable[[], Any]]:
        return {TORCH: self.obvious, OURS: self.count_space}


def check_agreement(plan: MajorityPlan) -> float:
    """Largest relative difference of the losses over five steps."""
    both = Both(plan)
    worst = 0.0
    for _ in range(5):
        expected = both.obvious()
        worst = max(worst, abs(float(both.count_space()[0]) / expected - 1))
    if worst > 1e-4:
        raise ResultError(f"the two ways differ by a factor of 1 ± {worst:.1e}; not timed.")
    return worst


def operations_per_pair(d: int, classes: int) -> tuple[int, int]:
    """Fused multiply-adds and exponentials of one (sequence, class) pair, forward and backward.

    The dense products only. Attention's mixture: (d + 1)·C there, and as many for its gradient;
    logits: d·C there, 2·d·C back; the two linear layers: 2·d² there and 4·d² back.
    """
    return 2 * (d + 1) * classes + 3 * d * classes + 6 * d * d, classes


def fastest(work: Callable[[], Any], seconds: float) -> float:
    """Seconds of the fastest call of `work` within this time."""
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return float(best)


def hardware_floor(multiply_adds: float, exponentials: float, seconds: float) -> tuple[float, ...]:
    """Seconds of so many multiply-adds and exponentials, alone, at this machine's best.

    The best: a large float32 matrix product, and torch's exponential on numbers that stay in cache,
    each on all of torch's threads: two threads of one core are not twice as fast.
    """
    a, b, x = torch.rand(1024, 1024), torch.rand(1024, 1024), torch.rand(2**17)
    out = torch.empty_like(x)
    return (
        multiply_adds / 1024**3 * fastest(lambda: a @ b, seconds),
        exponentials / len(x) * fastest(lambda: torch.exp(x, out=out), seconds),
    )


def run(quick: bool = False) -> dict[str, Any]:
    """See README.md."""
    plan = MajorityPlan(batch=60, length=20) if quick else MajorityPlan()
    difference = check_agreement(replace(plan, batch=min(plan.batch, 600)))
    runs = steps = 2 if quick else 10
    both, stack = Both(plan), Both(plan, runs)
    row, many = f"{OURS}, {steps} steps of a run", f"{OURS}, a step of {runs} runs"
    methods = {
        TORCH: both.obvious,
        row: lambda: both.in_a_row(steps),
        many: stack.count_space,
    }
    timings = time_side_by_side(methods, repeats=1 if quick else 7, pause=PAUSE)
    torch_rows, alone, together = (timings[name] for name in (TORCH, row, many))

    repeats = 1 if quick else 3
    multiply_adds, exponentials = operations_per_pair(plan.d_model, plan.classes)
    products, exps = hardware_floor(
        both.pairs * multiply_adds, both.pairs * exponentials, 0.05 if quick else 1.0
    )
    per_run = min(min(alone.rounds) / steps, min(together.rounds) / runs)
    batches = [20, 40] if quick else [375, 1500, 6000]
    classes = [5, 10] if quick else [5, 10, 20, 40]
    lengths = [20, 40] if quick else [25, 50, 100, 200]
    widths = [4, 8] if quick else [4, 8, 16, 32]
    small = replace(plan, batch=40 if quick else 1500)

    return {
        "title": "Majority: one training step",
        "what": (
            "One step of Adam on one batch. The slow way embeds every token of every sequence and"
            " calls torch's encoder layer, its autograd and its Adam, as the papers' code does; the"
            " fast way trains on class counts. Both in one process, with the same threads."
        ),
        "workload": {
            "batch": plan.batch,
            "length": plan.length,
            "classes": plan.classes,
            "d": plan.d_model,
            "pairs": both.pairs,
        },
        "rows": [timing.as_row() for timing in timings.values()],
        "ratios": [
            ratio(torch_rows, together, work=runs, floor=None if quick else FLOOR),
            ratio(torch_rows, alone, work=steps),
        ],
        "growth": [
            growth("batch", "sequences a step", batches, _one(plan, "batch"), repeats, PAUSE),
            growth("length", "tokens a sequence", lengths, _one(small, "length"), repeats, PAUSE),
            growth("C", "classes", classes, _one(small, "classes"), repeats, PAUSE),
            growth("d", "width", widths, _one(small, "d_model"), repeats, PAUSE),
        ],
        "notes": [
            f"Over five steps the two losses differed by at most {difference:.0e} (relative).",
            f"The batch has {both.pairs} pairs of a sequence and a class that occurs in it, where"
            f" the slow way computes {plan.batch * plan.length} positions.",
            f"Floor: a pair needs {multiply_adds} multiply-adds in dense products and"
            f" {exponentials} exponentials. At the speed of a large matrix product and of torch's"
            f" exponential on this machine, those of one step take {products * 1e3:.2f} ms and"
            f" {exps * 1e3:.2f} ms; the fastest step of a run took"
            f" {per_run * 1e3:.2f} ms on average, {per_run / (products + exps):.1f} times the sum."
            " The rest is LayerNorm, gathering, the classes' scores and Adam.",
            "Goals by the median: a step of a run alone within"
            f" {_against(alone.median / steps, ALONE)}, of each of {runs} together within"
            f" {_against(together.median / runs, TOGETHER)}.",
        ],
    }


def _against(seconds: float, goal: float) -> str:
    """A goal in words, and whether it was reached."""
    end = "reached" if seconds <= goal else "missed"
    return f"{goal * 1e3:g} ms, {end} ({seconds * 1e3:.2f} ms)"


def _one(plan: MajorityPlan, field: str) -> Callable[[int], dict[str, Callable[[], Any]]]:
    return lambda size: Both(replace(plan, **{field: size})).methods()
