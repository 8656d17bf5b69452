"""The state of a training run on disk, saved after every evaluation, so that it can go on.

`last.safetensors` is the whole state, `best.safetensors` the best weights so far, `progress.json`
the plan and the log for people.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor
from transformers import PreTrainedModel

from experiments.book_model.plan import TrainingPlan
from lnattn.errors import CheckpointError
from lnattn.storage import write_atomically, write_json

#: The unembedding, which is not stored where it is the token embedding itself.
_UNEMBEDDING = "lm_head.weight"


def _tied(model: PreTrainedModel) -> set[str]:
    """Names of weights that are others as well."""
    return {_UNEMBEDDING} if model.config.tie_word_embeddings else set()


def stored_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """The state without a tied unembedding, on the CPU."""
    tied = _tied(model)
    return {k: v.cpu().contiguous() for k, v in model.state_dict().items() if k not in tied}


def load_weights(model: PreTrainedModel, state: Mapping[str, Tensor]) -> None:
    """Give a model stored weights; `CheckpointError` where they are not all of its own."""
    missing, unknown = model.load_state_dict(state, strict=False)
    if wrong := [*(set(missing) - _tied(model)), *unknown]:
        raise CheckpointError(
            f"the weights kept do not fit the model ({', '.join(wrong)}); delete them."
        )


def save_run(
    folder: Path,
    model: PreTrainedModel,
    optimiser: torch.optim.AdamW,
    run: Mapping[str, Any],
    improved: bool,
) -> None:
    """Write the run's state in one file, so that weights, moments and step cannot disagree.

    run: its plan, step, best loss and log; improved: whether these are the best weights so far.
    """
    weights = stored_weights(model)
    if improved:
        write_atomically(folder / "best.safetensors", lambda f: f.write(save(weights)))
    moments = {
        f"optimiser.{index}.{key}": value.contiguous()
        for index, state in optimiser.state_dict()["state"].items()
        for key, value in state.items()
    }
    record = {"run": json.dumps({**run, "torch_rng": torch.get_rng_state().tolist()})}
    payload = save({**weights, **moments}, metadata=record)
    write_atomically(folder / "last.safetensors", lambda f: f.write(payload))
    write_json(
        folder / "progress.json",
        {key: run[key] for key in ("plan", "plan_changes", "step", "log") if key in run},
    )


def save_snapshot(folder: Path, model: PreTrainedModel, step: int) -> None:
    """Keep the weights at a step in half precision, for studies of training."""
    weights = {name: value.half() for name, value in stored_weights(model).items()}
    payload = save(weights, metadata={"format": "pt"})
    path = folder / f"step-{step:06d}.safetensors"
    write_atomically(path, lambda f: f.write(payload))


def load_best(folder: Path, model: PreTrainedModel) -> None:
    """Give a model the weights of the best evaluation of the run in `folder`."""
    load_weights(model, load_file(folder / "best.safetensors"))


def resume_run(
    folder: Path,
    model: PreTrainedModel,
    optimiser: torch.optim.AdamW,
    plan: TrainingPlan,
) -> dict[str, Any] | None:
    """Load the last state into model and optimiser; None when the folder holds no run.

    plan: that of the run to come. Only its `steps` may differ from what is there, which is noted
    in the run; raises `CheckpointError` where anything else does.
    """
    path = folder / "last.safetensors"
    if not path.is_file():
        return None
    with safe_open(path, framework="pt") as file:
        run = json.loads(file.metadata()["run"])
    wanted = asdict(plan)
    # A field that a run of an older version did not know had the value that is its default today.
    before = {**asdict(TrainingPlan()), **run["plan"]}
    changed = [name for name, value in wanted.items() if before[name] != value]
    if set(changed) - {"steps"}:
        raise CheckpointError(
            f"{folder} holds a run with another plan ({', '.join(changed)} differ); "
            "train into another folder, or delete this one."
        )
    if changed:
        # A longer or shorter run is the same run with its schedule stretched from here on. The
        # change is kept, since it is part of what made the weights.
        history = {"step": run["step"], "steps_before": run["plan"]["steps"], "steps": plan.steps}
        run["plan_changes"] = [*run.get("plan_changes", []), history]
    run["plan"] = wanted
    tensors = load_file(path)
    moments: dict[int, dict[str, Tensor]] = {}
    for key in [k for k in tensors if k.startswith("optimiser.")]:
        _, index, name = key.split(".", 2)
        moments.setdefault(int(index), {})[name] = tensors.pop(key)
    load_weights(model, tensors)
    optimiser.load_state_dict(
        {"state": moments, "param_groups": optimiser.state_dict()["param_groups"]}
    )
    torch.set_rng_state(torch.tensor(run.pop("torch_rng"), dtype=torch.uint8))
    return run
