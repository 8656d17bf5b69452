"""Which model a build is about: chosen, fetched and opened before any chapter runs."""

from __future__ import annotations

import os
from pathlib import Path

from huggingface_hub import constants

from booksite.terminal import say
from lnattn.errors import CheckpointError
from lnattn.models import hub
from lnattn.models.choice import FALLBACK, Choice, default_model
from lnattn_book.page.names import rotary_models

#: Numbers in the table of embeddings up to which two chapters' memory is no matter (GPT-2: 39e6).
SMALL = 12_000_000


def resolve_model() -> Choice:
    """The model of the chapters, fetched if it must be, and opened: they read local files only.

    With a model that is not embedded come the rotary models of chapter 12; who asks for an embedded
    one asks for no download. A rotary model itself is shown by chapter 12 and the explorer, and the
    other chapters take the embedded one (`with_six_terms`). Raises `CheckpointError` where a model
    that the user named cannot be had; where nobody named one, the embedded model takes its place.
    """
    try:
        choice = _opened(from_anywhere(default_model()))
    except CheckpointError as error:
        if os.environ.get("LNATTN_MODEL", "").strip():
            raise
        choice = Choice(FALLBACK, f"the embedded model: {error}")
    if choice.name != FALLBACK or "LNATTN_ROTARY" in os.environ:
        for name in rotary_models():
            _fetch_rotary(name)
    return choice


def _opened(choice: Choice) -> Choice:
    """A model that chapters can read, or the one that takes its place (`with_six_terms`).

    Of the embedded model that is known, and PyTorch need not be loaded to ask.
    """
    if choice.name == FALLBACK:
        return choice
    from lnattn_book.page.chosen import with_six_terms

    return with_six_terms(choice)


def from_anywhere(choice: Choice) -> Choice:
    """A choice that means the same in every folder: chapters run in their own."""
    try:
        folder = Path(choice.name).expanduser()
        is_checkpoint = (folder / "config.json").is_file()
    except (OSError, RuntimeError, ValueError):  # no name of a folder, which the opener says
        return choice
    if choice.name in hub.PINNED or not is_checkpoint:
        return choice
    return Choice(str(folder.resolve()), choice.why)


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
    """Whether two chapters fit beside one another; one on GPT-2 takes 3 GB and both cores.

    Raises `CheckpointError` where the model cannot be opened.
    """
    from lnattn.models.checkpoints import open_checkpoint  # here: only where chapters are to run

    family = open_checkpoint(choice.name).family
    return family.config["vocab_size"] * family.d_model <= SMALL
