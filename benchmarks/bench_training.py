"""A step of training the embedded model: torch and transformers as they come, beside our step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import ratio, time_side_by_side
from transformers import GPT2LMHeadModel

from experiments.book_model.forward import fastest_precision, training_loss
from experiments.book_model.loop import optimiser_of, take_step
from experiments.book_model.plan import TrainingPlan
from lnattn.errors import ResultError

PLAIN = "plain step in float32"
COMPILED = "plain step in float32, compiled"

#: book-gpt2's own plan, as far as a step depends on it.
BOOK = TrainingPlan(batch=32, dropout=0.0, learning_rate=3e-3, warmup=300, schedule="trapezoid")
QUICK = TrainingPlan(batch=2, dropout=0.0, context=16, d_model=32, heads=2, vocab_size=300)


def plain_loss(model: Callable[..., Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    """All logits at once, then torch's cross-entropy: what a tutorial would write."""

    def loss(rows: torch.Tensor) -> torch.Tensor:
        logits = model(rows[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())

    return loss


def model_of(plan: TrainingPlan, attention: str | None = None) -> GPT2LMHeadModel:
    torch.manual_seed(plan.seed)
    model = plan.new_model(0)
    if attention is not None:
        model.set_attn_implementation(attention)
    return model.train()


def stepper(
    plan: TrainingPlan, loss_of: Callable[[Any], Any], model: Any, shares: int = 1
) -> Callable[[], float]:
    """A call makes one step on the next batch of random tokens. shares: see `share_count`."""
    optimiser = optimiser_of(model, plan)
    rng, shape = np.random.default_rng(1), (plan.batch, plan.context + 1)
    done = iter(range(1_000_000))

    def step() -> float:
        rows = torch.from_numpy(rng.integers(plan.vocab_size, size=shape))
        return take_step(model, optimiser, rows, plan, next(done), loss_of, shares)

    return step


def run(quick: bool = False) -> dict[str, Any]:
    """See README.md."""
    plan = QUICK if quick else BOOK
    precision = fastest_precision("cpu")
    ours = f"our step in {precision}"
    methods = {}
    for name in (PLAIN,) if quick else (PLAIN, COMPILED):
        plain = model_of(plan, "sdpa")
        forward = torch.compile(plain) if name == COMPILED else plain
        methods[name] = stepper(plan, plain_loss(forward), plain)
    model = model_of(plan)
    methods[ours] = stepper(plan, training_loss(model, precision, not quick), model)
    losses = [step() for step in methods.values()]
    if max(losses) - min(losses) > 0.01 * losses[0]:
        raise ResultError(f"the two steps begin with losses {losses}; not timed.")
    timings = time_side_by_side(methods, repeats=1 if quick else 7)
    tokens = plan.batch * plan.context
    speeds = [f"{name} {tokens / timing.median:,.0f}" for name, timing in timings.items()]
    return {
        "title": "Training the embedded model",
        "what": (
            "One step of the optimiser, forward, backward and update, on random tokens. The plain "
            "step is GPT-2 from transformers with torch's fused attention, all logits at once and "
            "torch's cross-entropy in float32, as it is and compiled; ours multiplies in the "
            "faster precision of this processor, makes logits in chunks, and compiles the blocks."
        ),
        "workload": {
            "layers": plan.layers,
            "d": plan.d_model,
            "V": plan.vocab_size,
            "tokens a step": tokens,
        },
        "rows": [timing.as_row() for timing in timings.values()],
        "ratios": [
            ratio(timing, timings[ours], floor=None if quick else 4.0)
            for name, timing in timings.items()
            if name != ours
        ],
        "growth": [],
        "notes": [
            f"Tokens a second: {'; '.join(speeds)}.",
            "The losses of the first steps, before any update, are "
            + ", ".join(f"{loss:.4f}" for loss in losses)
            + " nats.",
        ],
    }
