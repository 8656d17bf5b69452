"""The composition study of a model by name, as chapter 04 and `lnattn freeze` make it."""

from __future__ import annotations

from pathlib import Path

from lnattn.composition import CompositionStudy, study_composition
from lnattn.models.checkpoints import load_attention_layers, load_first_layer
from lnattn.models.choice import PREFERRED, Choice
from lnattn.models.hub import PINNED
from lnattn.paths import data_folder
from lnattn.storage import sha256_of_file
from lnattn.weights import FirstLayer, require_absolute


def study_checkpoint(name_or_path: str | Path | Choice) -> CompositionStudy:
    """The study of a model by name; a folder with attention weights only is enough.

    The record names the files that were read and, for a local folder, their checksums.
    Raises `CheckpointError` as the loaders do.
    """
    first: FirstLayer = require_absolute(load_first_layer(name_or_path))
    kept = ("name", "source", "revision", "model_type", "files", "metadata", "normalisation")
    source = {key: first.provenance[key] for key in kept if key in first.provenance}
    folder = Path(name_or_path) if isinstance(name_or_path, str | Path) else None
    sums = {
        name: sha256_of_file(folder / name)
        for name in source.get("files", [])
        if folder is not None and (folder / name).is_file()
    }
    source["file_sha256"] = sums or "not a local folder"
    return study_composition(load_attention_layers(name_or_path), first.embeddings.W_P, source)


def study_of_gpt2(live: CompositionStudy) -> tuple[CompositionStudy, str]:
    """GPT-2 small's study, and where its scores are from: the live one if it is that, or frozen."""
    ours = live.record.get("source") == f"hub model {PINNED[PREFERRED].repo}"
    if ours and live.raw.of("K").shape[:2] == (12, 12):
        return live, "here, from the weights of this page's model"
    frozen = CompositionStudy.read(data_folder() / "results" / PREFERRED)
    return frozen, "earlier, from its attention weights, and frozen with the checksum of the file"
