"""Training a small language model on local text, resumable, with held-out early stopping."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from experiments.book_model.forward import training_loss
from experiments.book_model.plan import TrainingPlan
from experiments.book_model.state import load_best, resume_run, save_run, save_snapshot
from lnattn.errors import CheckpointError, CorpusError
from lnattn.progress import progress_bar

#: Windows evaluated at a time.
_EVALUATE = 16
#: The first step whose weights are kept for studies of training; then at each of its doublings.
_FIRST_SNAPSHOT = 64
#: Seconds after which the state is saved, if no evaluation did it before.
_SAVE_EVERY = 300.0


def default_device() -> str:
    """A GPU if torch finds one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def windows(tokens: np.ndarray, plan: TrainingPlan) -> Iterator[Tensor]:
    """Endless batches [batch context+1] that visit the whole stream once an epoch.

    Each epoch cuts the stream at a fresh offset and shuffles the windows, so that every token is
    seen at every position. Depends on `plan.seed` and the batch's number alone, so a resumed run
    sees what an uninterrupted one would have seen.
    """
    width = plan.context + 1
    per_epoch = (len(tokens) - width) // plan.context // plan.batch
    if per_epoch < 1:
        raise CorpusError(
            f"the corpus has {len(tokens)} tokens; one batch of {plan.batch} windows of "
            f"{plan.context} needs at least {plan.batch * plan.context + width}."
        )
    epoch = 0
    while True:
        generator = np.random.default_rng([plan.seed, epoch])
        offset = int(generator.integers(plan.context))
        count = (len(tokens) - offset - 1) // plan.context
        starts = offset + plan.context * generator.permutation(count)[: per_epoch * plan.batch]
        for chunk in starts.reshape(per_epoch, plan.batch):
            rows = np.stack([tokens[start : start + width] for start in chunk])
            yield torch.from_numpy(rows.astype(np.int64))
        epoch += 1


@torch.no_grad()
def held_out_loss(
    model: PreTrainedModel, tokens: np.ndarray, context: int, precision: str = "float32"
) -> float:
    """Mean cross-entropy in nats a token over the whole stream, in windows of `context`.

    Windows do not overlap, so the early tokens of each see little context: a pessimistic measure,
    and the same for every model of this context.
    """
    model.eval()
    device = next(model.parameters()).device
    stream = torch.from_numpy(tokens.astype(np.int64))
    count = (len(stream) - 1) // context
    rows = stream[context * torch.arange(count)[:, None] + torch.arange(context + 1)]
    loss_of = training_loss(model, precision)
    batches = [*rows.split(_EVALUATE), stream[None, count * context :]]
    total = sum(
        float(loss_of(batch.to(device))) * batch[:, 1:].numel()
        for batch in batches
        if batch[:, 1:].numel()
    )
    return total / (len(stream) - 1)


def optimiser_of(model: PreTrainedModel, plan: TrainingPlan) -> torch.optim.AdamW:
    """AdamW with decay on matrices only: gains, biases and position rows are not pulled to 0."""
    decayed = [
        p for n, p in model.named_parameters() if p.ndim >= 2 and not n.endswith("wpe.weight")
    ]
    rest = [p for n, p in model.named_parameters() if p.ndim < 2 or n.endswith("wpe.weight")]
    groups = [
        {"params": decayed, "weight_decay": plan.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=plan.learning_rate, betas=(0.9, 0.95), fused=True)


def train(  # noqa: PLR0913 (a run: all but the data by name)
    train_tokens: np.ndarray,
    held_out: np.ndarray,
    plan: TrainingPlan,
    folder: Path | str,
    end_of_text: int,
    *,
    device: str | None = None,
    progress: bool = True,
    prepare: Callable[[PreTrainedModel], None] | None = None,
    until: int | None = None,
) -> tuple[PreTrainedModel, list[dict[str, int | float]]]:
    """Train a model and return the model of the best held-out loss, with the log of evaluations.

    `folder/checkpoint/` keeps the state of the run, after every evaluation and every five minutes;
    calling again with the same plan goes on from there. Stops at `plan.steps`, or when the held-out
    loss has not fallen for `plan.patience` evaluations.
    `plan.steps` alone may differ on a resumed run: the learning rate then follows the new schedule
    from there on, and the log says so. prepare: changes the new model in place before anything
    else, say to replace a module. until: a step before the plan's last at which to stop for now.
    Raises `CheckpointError` when the folder holds a run with another plan.
    """
    state_folder = Path(folder) / "checkpoint"
    device = device or default_device()
    torch.manual_seed(plan.seed)
    model = plan.new_model(end_of_text)
    if prepare is not None:
        prepare(model)
    model.to(device)
    optimiser = optimiser_of(model, plan)
    run = resume_run(state_folder, model, optimiser, plan)
    if run is None:
        run = {"plan": asdict(plan), "step": 0, "best": math.inf, "stale": 0, "log": []}
    loss_of = training_loss(model, plan.precision)
    batches = windows(train_tokens, plan)
    for _ in range(run["step"]):
        next(batches)
    bar = progress_bar(
        total=plan.steps, what="training", initial=run["step"], unit=" steps", disable=not progress
    )
    since = time.perf_counter()
    seen = 0
    recent = []
    saved = since
    last = min(until or plan.steps, plan.steps)
    while run["step"] < last and run["stale"] < plan.patience:
        rows = next(batches).to(device)
        recent.append(take_step(model, optimiser, rows, plan, run["step"], loss_of))
        run["step"] += 1
        seen += plan.batch * plan.context
        bar.update()
        bar.set_postfix(train=f"{np.mean(recent[-50:]):.3f}", best=f"{run['best']:.3f}")
        to_keep = _FIRST_SNAPSHOT <= run["step"] == 1 << (run["step"].bit_length() - 1)
        if to_keep or run["step"] % plan.evaluate_every == 0 or run["step"] == last:
            held_loss = held_out_loss(model, held_out, plan.context, plan.precision)
            speed = seen / (time.perf_counter() - since)
            entry = {"step": run["step"], "train_loss": float(np.mean(recent))}
            tokens = run["step"] * plan.batch * plan.context
            entry |= {"held_out_loss": held_loss, "tokens": tokens, "tokens_per_second": speed}
            run["log"].append(entry)
            improved = held_loss < run["best"]
            run["stale"] = 0 if improved else run["stale"] + 1
            run["best"] = min(run["best"], held_loss)
            if to_keep:
                save_snapshot(state_folder, model, run["step"])
            save_run(state_folder, model, optimiser, run, improved)
            saved = time.perf_counter()
            if progress:
                said = ", ".join(f"{name} {value:,.6g}" for name, value in entry.items())
                bar.write(said, file=sys.stderr)
            since = time.perf_counter()
            seen = 0
            recent = []
        elif time.perf_counter() - saved > _SAVE_EVERY:
            save_run(state_folder, model, optimiser, run, improved=False)
            saved = time.perf_counter()
    bar.close()
    load_best(state_folder, model)
    return model.eval(), run["log"]


def take_step(
    model: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    rows: Tensor,
    plan: TrainingPlan,
    step: int,
    loss_of: Callable[[Tensor], Tensor],
) -> float:
    """One optimiser step; returns the batch's mean loss in nats.

    Raises `CheckpointError` where that is no number, and leaves the weights as they are.
    """
    model.train()
    loss = loss_of(rows)
    if not loss.isfinite():
        raise CheckpointError(
            f"the training loss became {loss.item()} at step {step}; lower the learning rate."
        )
    for group in optimiser.param_groups:
        group["lr"] = plan.rate(step)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.item()
