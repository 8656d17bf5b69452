"""Small language models with parts of LayerNorm taken out, and the keys that their heads see.

Brody et al. 2023, §4.2 and App. D–E: a GPT-2 of width 8 whose first LayerNorm of each block (the
one that feeds attention) is replaced. As in their code, that LayerNorm has no gain and no bias in
any arm, and the biases of query, key and value stay 0; the LayerNorms before the feed-forward
networks and the unembedding are ordinary ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors.torch import load_file, save
from torch import Tensor, nn
from transformers import GPT2LMHeadModel

from experiments.book_model.loop import train
from experiments.book_model.plan import TrainingPlan
from experiments.tokens import encode_stream
from lnattn.errors import CheckpointError
from lnattn.storage import provenance, read_json, sha256_of_file, write_atomically, write_json
from lnattn.text.corpora import describe_corpus, read_documents
from lnattn.text.tokenizers import load_tokenizer
from lnattn_book.studies.language_models import ARMS


class ProjectionOnly(nn.Module):
    """x − μ(x)1: LayerNorm without the division by σ."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(dim=-1, keepdim=True)


class ScalingOnly(nn.Module):
    """x √d / |x|: LayerNorm without the projection; RMSNorm without its gain."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps)


def remove_from_layer_norm(model: GPT2LMHeadModel, arm: str) -> None:
    """Turn a new GPT-2 into an arm, in place; the random numbers drawn are the same for all."""
    if arm not in ARMS:
        raise CheckpointError(f"there is no arm {arm!r}; there are {', '.join(ARMS)}.")
    projects, scales = ARMS[arm]
    for block in model.transformer.h:
        if projects and scales:
            block.ln_1.weight.requires_grad_(False)
            block.ln_1.bias.requires_grad_(False)
        else:
            block.ln_1 = ProjectionOnly() if projects else ScalingOnly(block.ln_1.eps)
        block.attn.c_attn.bias.requires_grad_(False)
        # The same function as transformers', which takes eight operations for it, in one.
        block.mlp.act = nn.GELU(approximate="tanh")


def train_arm(  # noqa: PLR0913 (a run: all but the data by name)
    sources: Sequence[str | Path],
    held_out: Sequence[str | Path],
    folder: Path | str,
    arm: str,
    plan: TrainingPlan,
    tokenizer: Path | str,
    held_out_tokens: int = 65_536,
    tokens: Sequence[np.ndarray] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Train one arm and write `model.safetensors` and `training.json` to its folder, resumably.

    tokenizer: the folder of an existing byte-level BPE with `plan.vocab_size` tokens; tokens: both
    texts, encoded with it already. The held-out
    loss is that of the first `held_out_tokens` tokens. Returns the record. A run that was
    interrupted goes on when called again; a finished one is returned as it is.
    """
    folder = Path(folder)
    if (folder / "training.json").is_file():
        record = read_json(folder / "training.json")
        if (record["arm"], TrainingPlan(**record["plan"])) == (arm, plan):
            return record
        raise CheckpointError(f"{folder} holds another run; train into another folder.")
    bpe = load_tokenizer(tokenizer)
    if len(bpe) != plan.vocab_size:
        raise CheckpointError(
            f"{tokenizer} has {len(bpe)} tokens and the plan asks for {plan.vocab_size}."
        )
    begun = time.perf_counter()
    ours, theirs = tokens or (
        encode_stream(read_documents(text), bpe) for text in (sources, held_out)
    )
    model, log = train(
        ours,
        theirs[:held_out_tokens],
        plan,
        folder,
        bpe.eos_token_id,
        progress=progress,
        prepare=partial(remove_from_layer_norm, arm=arm),
    )
    weights = {k: v.cpu() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    payload = save({k: v.contiguous() for k, v in weights.items()}, metadata={"format": "pt"})
    write_atomically(folder / "model.safetensors", lambda file: file.write(payload))
    record = provenance(
        arm=arm,
        plan=asdict(plan),
        tokens_seen=plan.batch * plan.context * log[-1]["step"],
        held_out_tokens=held_out_tokens,
        corpus={"train": describe_corpus(sources), "held_out": describe_corpus(held_out)},
        tokenizer_sha256=sha256_of_file(Path(tokenizer) / "tokenizer.json"),
        loss_unit="nats per token",
        seconds_of_last_session=round(time.perf_counter() - begun, 1),
        log=log,
        weights_sha256=sha256_of_file(folder / "model.safetensors"),
    )
    write_json(folder / "training.json", record)
    return record


def load_arm(
    folder: Path | str, tokenizer: Path | str | None = None
) -> tuple[GPT2LMHeadModel, dict[str, Any]]:
    """A trained arm with its record.

    tokenizer: the folder of the one that cuts its texts. Raises `CheckpointError` for weights of
    another run, and for another tokenizer than it was trained with.
    """
    folder = Path(folder)
    record = read_json(folder / "training.json")
    path = folder / "model.safetensors"
    if not path.is_file() or sha256_of_file(path) != record["weights_sha256"]:
        raise CheckpointError(f"{path} is missing or not the file that training.json describes.")
    used = record["tokenizer_sha256"]
    if tokenizer and sha256_of_file(Path(tokenizer) / "tokenizer.json") != used:
        raise CheckpointError(
            f"{folder} was trained with another tokenizer than {tokenizer}: with the one whose "
            f"tokenizer.json has the checksum {used[:12]}…"
        )
    return _arm_with(path, record), record


def snapshots_of(
    folder: Path | str, record: Mapping[str, Any]
) -> Iterator[tuple[int, GPT2LMHeadModel]]:
    """A finished run's arm as it was at the steps whose weights were kept, and as it came out.

    record: that of `load_arm`. The kept ones are in half precision. Raises `CheckpointError` where
    there are none.
    """
    folder = Path(folder)
    snapshots = sorted((folder / "checkpoint").glob("step-*.safetensors"))
    if not snapshots:
        raise CheckpointError(f"{folder} holds no checkpoint/step-*.safetensors; train it anew.")
    for path in snapshots:
        yield int(path.stem.removeprefix("step-")), _arm_with(path, record)
    yield record["log"][-1]["step"], _arm_with(folder / "model.safetensors", record)


def _arm_with(path: Path, record: Mapping[str, Any]) -> GPT2LMHeadModel:
    model = TrainingPlan(**record["plan"]).new_model(end_of_text=0)
    remove_from_layer_norm(model, record["arm"])
    state = load_file(path)
    state["lm_head.weight"] = state["transformer.wte.weight"]
    model.load_state_dict(state)
    return model.eval()


@torch.inference_mode()
def keys_of_layers(
    model: GPT2LMHeadModel, token_ids: Sequence[int]
) -> dict[str, Float[np.ndarray, "layer ..."]]:
    """What attention reads in each layer, for one window of text.

    before: [layer n d], the residual stream; keys: [layer n d], the same after what is left of the
    LayerNorm, the paper's "keys"; heads: [layer head n d_head], multiplied by each head's W_K.
    """
    before: list[Tensor] = []
    after: list[Tensor] = []
    hooks = []
    for block in model.transformer.h:
        hooks.append(block.ln_1.register_forward_hook(partial(_keep, before, after)))
    try:
        model.transformer(torch.as_tensor(list(token_ids))[None])
    finally:
        for hook in hooks:
            hook.remove()
    heads = []
    for block, x in zip(model.transformer.h, after, strict=True):
        d = x.shape[-1]
        k = x @ block.attn.c_attn.weight[:, d : 2 * d] + block.attn.c_attn.bias[d : 2 * d]
        heads.append(k.view(len(x), model.config.n_head, -1).transpose(0, 1))
    stacked = {"before": before, "keys": after, "heads": heads}
    return {name: torch.stack(values).numpy() for name, values in stacked.items()}


def _keep(before: list, after: list, module: nn.Module, inputs: tuple, output: Tensor) -> None:
    before.append(inputs[0][0].detach())
    after.append(output[0].detach())


def packed(documents: Sequence[Sequence[int]], low: int, high: int) -> list[list[int]]:
    """Whole documents joined into windows of `low` to `high` tokens, in order.

    A document that does not fit opens the next window; windows that stay below `low` are dropped.
    """
    windows: list[list[int]] = []
    current: list[int] = []
    for document in documents:
        if len(document) > high:
            continue
        if len(current) + len(document) > high:
            windows.append(current)
            current = []
        current = [*current, *document]
    windows.append(current)
    return [window for window in windows if low <= len(window) <= high]
