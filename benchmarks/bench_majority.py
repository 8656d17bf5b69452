"""One training step of the majority model (Brody et al. 2023): the authors' layer beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from common import growth, ratio, time_side_by_side

from experiments.majority.gradients import FastLearner
from lnattn.errors import ResultError
from lnattn_book.studies.majority.encoder import ARMS, MajorityTransformer, arm, sequences
from lnattn_book.studies.majority.train import MajorityPlan

TORCH = "torch encoder layer"
OURS = "count space"
#: The ratio that the project asks for.
FLOOR = 60.0
#: Seconds of rest before each timed call; see `common.time_side_by_side`.
PAUSE = 0.1
#: Steps of ours in a row, as in a training; together they take less than one of the layer's.
IN_A_ROW = {OURS: 50}
#: The first steps after a rest wait for threads that sleep: so few show what that costs.
FEW_IN_A_ROW = {OURS: 10}


class Both:
    """One step of Adam on one batch, the obvious way and in count space, from the same start."""

    def __init__(self, plan: MajorityPlan, name: str = "layernorm") -> None:
        few = 5 * (plan.batch // 4 + 1)  # four fifths of the examples make one batch
        self.arm = arm(name)
        data = replace(plan, examples=few).data(0)
        self.counts = data.train[: plan.batch]
        counts = torch.from_numpy(self.counts.astype(np.int64))
        self.ids = sequences(counts)
        self.labels = counts.argmax(dim=1)
        self.pairs = int((self.counts > 0).sum())
        self.model = MajorityTransformer(self.arm, plan.d_model, plan.classes)
        self.model.load_state_dict(plan.parameters(self.arm, 0))
        self.optimiser = torch.optim.Adam(
            self.model.parameters(), lr=plan.learning_rate, fused=True
        )
        self.learner = FastLearner(self.arm, plan)
        self.rate = plan.learning_rate

    def obvious(self) -> float:
        """One step of the torch model."""
        self.optimiser.zero_grad()
        loss = self.model.loss(self.ids, self.labels)
        loss.backward()
        self.optimiser.step()
        return loss.item()

    def count_space(self) -> float:
        """One step of `experiments.majority`."""
        return self.learner.step(self.counts, self.rate)

    def methods(self) -> dict[str, Callable[[], Any]]:
        return {TORCH: self.obvious, OURS: self.count_space}


def check_agreement(plan: MajorityPlan) -> float:
    """Largest relative difference of the losses over five steps."""
    both = Both(plan)
    worst = 0.0
    for _ in range(5):
        expected = both.obvious()
        worst = max(worst, abs(both.count_space() / expected - 1))
    if worst > 1e-4:
        raise ResultError(f"the two ways differ by a factor of 1 ± {worst:.1e}; not timed.")
    return worst


def run(quick: bool = False) -> dict[str, Any]:
    """See README.md."""
    plan = MajorityPlan(batch=60, length=20, examples=1000) if quick else MajorityPlan()
    difference = check_agreement(replace(plan, batch=min(plan.batch, 600)))
    both = Both(plan)
    repeats = 1 if quick else 3
    timings = time_side_by_side(
        both.methods(), repeats=1 if quick else 7, pause=PAUSE, in_a_row=IN_A_ROW
    )
    floor = None if quick else FLOOR
    by_arm = {name: of_arm(plan, name, repeats, floor, IN_A_ROW) for name in ARMS}
    few = [of_arm(plan, name, repeats, floor, FEW_IN_A_ROW)["median"] for name in ARMS]
    hardest = min(by_arm, key=lambda name: by_arm[name]["median"])
    least = {**by_arm[hardest], "of": f"{TORCH}, the arm with the least ratio"}
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
            " fast way trains on class counts, fifty steps in a row, as in a training. Both in one"
            " process, with the same threads."
        ),
        "workload": {
            "batch": plan.batch,
            "length": plan.length,
            "classes": plan.classes,
            "d": plan.d_model,
            "pairs": both.pairs,
        },
        "rows": [timing.as_row() for timing in timings.values()],
        "ratios": [ratio(timings[TORCH], timings[OURS], floor=floor), least],
        "growth": [
            growth(
                "batch", "sequences a step", batches, _one(plan, "batch"), repeats, PAUSE, IN_A_ROW
            ),
            growth(
                "length",
                "tokens a sequence",
                lengths,
                _one(small, "length"),
                repeats,
                PAUSE,
                IN_A_ROW,
            ),
            growth("C", "classes", classes, _one(small, "classes"), repeats, PAUSE, IN_A_ROW),
            growth("d", "width", widths, _one(small, "d_model"), repeats, PAUSE, IN_A_ROW),
        ],
        "notes": [
            f"Over five steps the two losses differed by at most {difference:.0e} (relative).",
            f"The arm with the least ratio is {hardest}; of all {len(by_arm)} arms: "
            + ", ".join(f"{name} {speed['median']:.0f}" for name, speed in by_arm.items())
            + ".",
            f"With {FEW_IN_A_ROW[OURS]} steps in a row after a rest, the {len(few)} arms have "
            f"{min(few):.0f} to {max(few):.0f}.",
            f"The batch has {both.pairs} pairs of a sequence and a class that occurs in it, where"
            f" the slow way computes {plan.batch * plan.length} positions.",
        ],
    }


def of_arm(
    plan: MajorityPlan,
    name: str,
    repeats: int,
    floor: float | None,
    in_a_row: Mapping[str, int],
) -> dict[str, Any]:
    """The ratio of one arm, with so many steps in a row."""
    timings = time_side_by_side(
        Both(plan, name).methods(), repeats=repeats, pause=PAUSE, in_a_row=in_a_row
    )
    return ratio(timings[TORCH], timings[OURS], floor=floor)


def _one(plan: MajorityPlan, field: str) -> Callable[[int], dict[str, Callable[[], Any]]]:
    return lambda size: Both(replace(plan, **{field: size})).methods()
