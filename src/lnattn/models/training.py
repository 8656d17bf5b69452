"""Training `book-gpt2`: a small GPT-2 on local text, resumable, with held-out early stopping."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import GPT2Config, GPT2LMHeadModel

from lnattn.errors import CheckpointError, CorpusError
from lnattn.models.training_state import load_best, resume_run, save_run

#: Windows evaluated at a time.
_EVALUATE = 16


@dataclass(frozen=True)
class TrainingPlan:
    """Everything that decides the outcome of a training run, besides the corpus.

    Sizes in tokens; `batch` counts windows of `context` tokens; learning rate: linear warm-up
    over `warmup` steps, then a cosine down to a tenth of `learning_rate` at `steps`.
    """

    layers: int = 2
    d_model: int = 256
    heads: int = 8
    context: int = 256
    vocab_size: int = 8192
    steps: int = 3600
    batch: int = 16
    learning_rate: float = 2e-3
    warmup: int = 200
    weight_decay: float = 0.1
    dropout: float = 0.2
    evaluate_every: int = 300
    patience: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = ("layers", "d_model", "heads", "context", "steps", "batch", "evaluate_every")
        for name in (*sizes, "patience"):
            if getattr(self, name) < 1:
                raise CheckpointError(f"{name} = {getattr(self, name)} must be at least 1.")
        if self.d_model % self.heads:
            raise CheckpointError(
                f"d_model = {self.d_model} does not divide into {self.heads} heads of equal width."
            )

    def config(self, end_of_text: int) -> GPT2Config:
        """The Hugging Face configuration of the model to train."""
        return GPT2Config(
            vocab_size=self.vocab_size,
            n_positions=self.context,
            n_embd=self.d_model,
            n_layer=self.layers,
            n_head=self.heads,
            resid_pdrop=self.dropout,
            embd_pdrop=self.dropout,
            attn_pdrop=self.dropout,
            bos_token_id=end_of_text,
            eos_token_id=end_of_text,
        )

    def rate(self, step: int) -> float:
        """Learning rate at a step (counted from 0)."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))


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


@torch.inference_mode()
def held_out_loss(model: GPT2LMHeadModel, tokens: np.ndarray, context: int) -> float:
    """Mean cross-entropy in nats a token over the whole stream, in windows of `context`.

    Windows do not overlap, so the early tokens of each see little context: a pessimistic measure,
    and the same for every model of this context.
    """
    model.eval()
    device = next(model.parameters()).device
    stream = torch.from_numpy(tokens.astype(np.int64))
    whole = (len(stream) - 1) // context
    inputs = stream[: whole * context].view(-1, context)
    targets = stream[1 : whole * context + 1].view(-1, context)
    batches = list(zip(inputs.split(_EVALUATE), targets.split(_EVALUATE), strict=True))
    rest = stream[whole * context :]
    if len(rest) > 1:
        batches.append((rest[None, :-1], rest[None, 1:]))
    total = 0.0
    for rows, following in batches:
        logits = model(rows.to(device)).logits.flatten(0, 1).float()
        target = following.flatten().to(device)
        total += float(torch.nn.functional.cross_entropy(logits, target, reduction="sum"))
    return total / (len(stream) - 1)


def _optimiser(model: GPT2LMHeadModel, plan: TrainingPlan) -> torch.optim.AdamW:
    """AdamW with decay on matrices only: gains, biases and position rows are not pulled to 0."""
    decayed = [
        p for n, p in model.named_parameters() if p.ndim >= 2 and not n.endswith("wpe.weight")
    ]
    rest = [p for n, p in model.named_parameters() if p.ndim < 2 or n.endswith("wpe.weight")]
    groups = [
        {"params": decayed, "weight_decay": plan.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=plan.learning_rate, betas=(0.9, 0.95))


def train(
    train_tokens: np.ndarray,
    held_out: np.ndarray,
    plan: TrainingPlan,
    folder: Path | str,
    end_of_text: int,
    *,
    device: str | None = None,
    progress: bool = True,
    compiled: bool = False,
    prepare: Callable[[GPT2LMHeadModel], None] | None = None,
    loss: Callable[[torch.nn.Module, Tensor], Tensor] | None = None,
) -> tuple[GPT2LMHeadModel, list[dict[str, int | float]]]:
    """Train a GPT-2 and return the model of the best held-out loss, with the log of evaluations.

    `folder/checkpoint/` keeps the state of the run after every evaluation; calling again with the
    same plan goes on from there. Stops at `plan.steps`, or when the held-out loss has not fallen
    for `plan.patience` evaluations. Uses a GPU if there is one. `compiled` runs the step through
    torch.compile (about a third faster on a CPU, after a minute; needs a C++ compiler).
    `plan.steps` alone may differ on a resumed run: the learning rate then follows the new schedule
    from there on, and the log says so.
    prepare: changes the new model in place before anything else, say to replace a module; loss: of
    a model on rows [batch context+1], by default the mean cross-entropy of all logits.
    Raises `CheckpointError` when the folder holds a run with another plan.
    """
    state_folder = Path(folder) / "checkpoint"
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(plan.seed)
    model = GPT2LMHeadModel(plan.config(end_of_text))
    if prepare is not None:
        prepare(model)
    model.to(device)
    optimiser = _optimiser(model, plan)
    run = resume_run(state_folder, model, optimiser, asdict(plan))
    if run is None:
        run = {"plan": asdict(plan), "step": 0, "best": math.inf, "stale": 0, "log": []}
    forward = torch.compile(model) if compiled else model
    batches = windows(train_tokens, plan)
    for _ in range(run["step"]):
        next(batches)
    bar = tqdm(total=plan.steps, initial=run["step"], unit="step", disable=not progress)
    since, seen, recent = time.perf_counter(), 0, []
    while run["step"] < plan.steps and run["stale"] < plan.patience:
        rows = next(batches).to(device)
        recent.append(_step(forward, optimiser, rows, plan, run["step"], loss or cross_entropy))
        run["step"] += 1
        seen += plan.batch * plan.context
        bar.update()
        bar.set_postfix(train=f"{np.mean(recent[-50:]):.3f}", best=f"{run['best']:.3f}")
        if run["step"] % plan.evaluate_every == 0 or run["step"] == plan.steps:
            held_loss = held_out_loss(model, held_out, plan.context)
            run["log"].append(
                {
                    "step": run["step"],
                    "train_loss": float(np.mean(recent)),
                    "held_out_loss": held_loss,
                    "tokens_per_second": seen / (time.perf_counter() - since),
                }
            )
            improved = held_loss < run["best"]
            run["stale"] = 0 if improved else run["stale"] + 1
            run["best"] = min(run["best"], held_loss)
            save_run(state_folder, model, optimiser, run, improved)
            since, seen, recent = time.perf_counter(), 0, []
    bar.close()
    load_best(state_folder, model)
    return model.eval(), run["log"]


def cross_entropy(model: torch.nn.Module, rows: Tensor) -> Tensor:
    """Mean next-token loss in nats of a model on rows [batch context+1]."""
    logits = model(rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def _step(
    model: torch.nn.Module,
    optimiser: torch.optim.AdamW,
    rows: Tensor,
    plan: TrainingPlan,
    step: int,
    loss_of: Callable[[torch.nn.Module, Tensor], Tensor],
) -> float:
    """One optimiser step; returns the batch's mean loss in nats."""
    for group in optimiser.param_groups:
        group["lr"] = plan.rate(step)
    model.train()
    loss = loss_of(model, rows)
    if not torch.isfinite(loss):
        raise CheckpointError(
            f"the training loss became {loss.item()} at step {step}; lower the learning rate."
        )
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.item()
