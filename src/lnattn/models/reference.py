"""The whole Hugging Face model behind a name, for comparison: eager attention, no remote code."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoModel, PreTrainedModel

from lnattn.errors import CheckpointError
from lnattn.models import hub
from lnattn.models.checkpoints import open_checkpoint


def load_reference_model(name_or_path: str | Path) -> PreTrainedModel:
    """Load the complete model that `load_first_layer(name_or_path)` reads its first layer from.

    In evaluation mode, with the *eager* attention, which computes the softmax as it is written and
    can report attention weights. A hub name is loaded at its pinned revision. Raises
    `CheckpointError` for a partial checkpoint, which is not a model that can run.
    """
    pin = hub.pin_of(str(name_or_path))
    if pin is not None and not Path(name_or_path).is_dir():
        model = AutoModel.from_pretrained(
            pin.repo, revision=pin.revision, attn_implementation="eager", use_safetensors=True
        )
        return model.eval()
    checkpoint = open_checkpoint(name_or_path)
    if not (checkpoint.folder / "model.safetensors").is_file():
        raise CheckpointError(
            f"{checkpoint.name} is not a complete model in one model.safetensors file, so it "
            "cannot be run for comparison; give the folder of a complete model."
        )
    model = AutoModel.from_pretrained(
        checkpoint.folder, attn_implementation="eager", use_safetensors=True, local_files_only=True
    )
    return model.eval()
