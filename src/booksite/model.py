"""Which model a build is about: chosen, fetched and opened before any chapter runs."""

from __future__ import annotations

import os

from huggingface_hub import constants

from booksite.terminal import say
from lnattn.errors import CheckpointError
from lnattn.models import hub
from lnattn.models.checkpoints import BOOK_MODELS, open_checkpoint
from lnattn.models.choice import FALLBACK, Choice, default_model, rotary_models
from lnattn.models.relative_families import RelativeFamily

#: Numbers in the table of embeddings up to which two chapters' memory is no matter (GPT-2: 39e6).
SMALL = 12_000_000


def resolve_model() -> Choice:
    """The model of the chapters, fetched if it must be, and opened: they read local files only.

    With a model that is not embedded come the rotary models of chapter 12; who asks for an embedded
    one asks for no download. Raises `CheckpointError` where a model that the user named cannot be
    had, or has no six terms; where nobody named one, the embedded model takes its place.
    """
    choice = default_model()
    try:
        require_six_terms(choice)
    except CheckpointError as error:
        if os.environ.get("LNATTN_MODEL", "").strip():
            raise
        choice = Choice(FALLBACK, f"the embedded model: {error}")
    if choice.name not in BOOK_MODELS or "LNATTN_ROTARY" in os.environ:
        for name in rotary_models():
            _fetch_rotary(name)
    return choice


def require_six_terms(choice: Choice) -> None:
    """`CheckpointError` unless the model can be opened and its scores have the six terms."""
    if isinstance(open_checkpoint(choice.name).family, RelativeFamily):
        raise CheckpointError(
            f"the chapters split scores into six terms, and {choice.name} has rotary or relative "
            "positions, whose scores have four; take another MODEL, such as book-gpt2, and name "
            "yours in LNATTN_ROTARY: chapter 12 and the explorer show it then."
        )


def _fetch_rotary(name: str) -> None:
    """Bring a rotary model for chapter 12, if the hub has it; the chapter does without others."""
    pin = hub.pin_of(name)
    if pin is None or not hub.missing_files(pin) or constants.HF_HUB_OFFLINE:
        return
    if not hub.reachable(pin):
        return
    try:
        hub.download(pin)
    except CheckpointError as error:
        say(f"chapter 12 does without {name}: {error}")


def is_small(choice: Choice) -> bool:
    """Whether two chapters fit beside one another; one on GPT-2 takes 3 GB and both cores."""
    family = open_checkpoint(choice.name).family
    return family.config["vocab_size"] * family.d_model <= SMALL


def chapters_at_a_time(choice: Choice) -> int:
    """How many kernels: two on a small model, where there are two cores."""
    return min(2, os.cpu_count() or 1) if is_small(choice) else 1
