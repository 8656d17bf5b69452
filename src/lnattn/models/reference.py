"""The whole Hugging Face model behind a name, for comparison: eager attention, no remote code."""

from __future__ import annotations

from pathlib import Path

from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    PreTrainedModel,
    WhisperConfig,
    WhisperForCausalLM,
)
from transformers.utils.logging import disable_progress_bar

from lnattn.errors import CheckpointError
from lnattn.models.checkpoints import WHISPER, Checkpoint, open_checkpoint


def load_reference_model(name_or_path: str | Path, head: bool = False) -> PreTrainedModel:
    """Load the complete model that `load_first_layer(name_or_path)` reads its first layer from.

    In evaluation mode, with the *eager* attention, which can report attention weights. head: with
    its language-model head; Whisper's decoder has it anyway, and no encoder. Raises
    `CheckpointError` for a partial checkpoint, which cannot run.
    """
    checkpoint = open_checkpoint(name_or_path, whole=True)
    if checkpoint.name == WHISPER:
        return _whisper_decoder(checkpoint)
    names = ("model.safetensors", "model.safetensors.index.json")
    if not any((checkpoint.folder / name).is_file() for name in names):
        raise CheckpointError(
            f"{checkpoint.name} is not a complete model with its model.safetensors, so it cannot "
            "be run for comparison; give the folder of a complete model."
        )
    disable_progress_bar()  # loading takes a moment; its bars would only litter a page
    # The decoder of a Whisper is a model of its own only where it has its head.
    with_head = head or checkpoint.family.config["model_type"] == "whisper"
    model = (AutoModelForCausalLM if with_head else AutoModel).from_pretrained(
        str(checkpoint.folder),
        attn_implementation="eager",
        use_safetensors=True,
        local_files_only=True,
    )
    return model.eval()


def _whisper_decoder(checkpoint: Checkpoint) -> PreTrainedModel:
    """Whisper's decoder as a module: its package holds no file that transformers could load."""
    family = checkpoint.family
    model = WhisperForCausalLM(WhisperConfig(**family.config))
    weights = {name: family.weights.read(name).float() for name in family.weights.names()}
    weights["proj_out.weight"] = weights["model.decoder.embed_tokens.weight"]  # they are tied
    model.load_state_dict(weights)
    model.set_attn_implementation("eager")
    return model.eval()
