"""The whole Hugging Face model behind a name, for comparison: eager attention, no remote code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers import AutoModel, PreTrainedModel
from transformers.utils import logging as transformers_logging

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
        where, options = pin.repo, {"revision": pin.revision}
    else:
        checkpoint = open_checkpoint(name_or_path)
        if not (checkpoint.folder / "model.safetensors").is_file():
            raise CheckpointError(
                f"{checkpoint.name} is not a complete model in one model.safetensors file, so it "
                "cannot be run for comparison; give the folder of a complete model."
            )
        where, options = str(checkpoint.folder), {"local_files_only": True}
    with _without_progress_bars():
        model = AutoModel.from_pretrained(
            where, attn_implementation="eager", use_safetensors=True, **options
        )
    return model.eval()


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Loading takes a moment; its bars would only litter a page."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()
