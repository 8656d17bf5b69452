"""Which model to take where none is named, and why."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants

from lnattn.errors import CheckpointError, HubError
from lnattn.models import hub

#: The papers' model, and the one that is always there.
PREFERRED = "gpt2"
FALLBACK = "book-gpt2"
#: The twin of the embedded model with rotary positions.
BOOK_LLAMA = "book-llama"
#: all-MiniLM-L6-v2, from a Python package.
MINILM = "minilm"


@dataclass(frozen=True)
class Choice:
    """A model's `name`, to be given to `load_first_layer`, and `why` it was taken, in words.

    >>> print(Choice("book-gpt2", "it ships with the package"))
    book-gpt2 (it ships with the package)
    """

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


def default_model(*, patience: float = 3.0) -> Choice:
    """The model that LNATTN_MODEL names; else GPT-2 if it can be had; else the embedded one.

    GPT-2 is taken where everything that is read of it is cached, or fetched where the hub answers
    within `patience` seconds. The reason is meant to be shown. Whatever stands between this
    machine and the hub ends in the embedded model, never in an error; so does a folder `gpt2` with
    a config.json, which would be opened in place of the hub's. A name in LNATTN_MODEL is not looked
    at here: what is wrong with it `load_first_layer` says.

    >>> from unittest import mock
    >>> with mock.patch.dict("os.environ", LNATTN_MODEL="distilgpt2", LNATTN_MODEL_WHY=""):
    ...     print(default_model())
    distilgpt2 (chosen by LNATTN_MODEL)
    """
    if name := os.environ.get("LNATTN_MODEL", "").strip():
        # A program that asked once for all its processes passes on the reason it was given.
        return Choice(name, os.environ.get("LNATTN_MODEL_WHY") or "chosen by LNATTN_MODEL")
    try:
        return Choice(PREFERRED, _had(hub.PINNED[PREFERRED], patience))
    except CheckpointError as error:
        # What is wrong, without the advice to take the model that is taken.
        problem = str(error).partition(";")[0].rstrip(".")
        return Choice(FALLBACK, f"the embedded model: {problem}")


def _had(pin: hub.Pin, patience: float) -> str:
    """How GPT-2 came to be at hand; `CheckpointError` with the reason why it is not."""
    if _is_hidden_by_a_folder():
        raise CheckpointError(
            f"a folder {PREFERRED} of this directory has a config.json and hides the hub's GPT-2; "
            f"rename it, or set LNATTN_MODEL={PREFERRED} where it is the model that is meant"
        )
    missing = hub.missing_files(pin)
    if not missing:
        return "GPT-2 is in this machine's cache"
    state = f"the cache lacks GPT-2's {' and '.join(missing)}"
    if constants.HF_HUB_OFFLINE:
        raise HubError(f"{state} and HF_HUB_OFFLINE is set")
    if why := hub.why_unreachable(pin, patience):
        raise HubError(f"{state}, and {why}")
    try:
        hub.download(pin)
    except CheckpointError as error:
        raise HubError(f"GPT-2 could not be fetched, {error}") from error
    return "fetched from the Hugging Face hub"


def _is_hidden_by_a_folder() -> bool:
    """Whether a folder of this directory would be opened in place of the hub's GPT-2."""
    try:
        return Path(PREFERRED, "config.json").is_file()
    except OSError:  # it may not be looked into, and is not opened either
        return False
