"""Which model a chapter runs on, and why."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lnattn.models import hub
from lnattn.models.download import offline

#: The papers' model, and the one that is always there.
PREFERRED = "gpt2"
FALLBACK = "book-gpt2"


@dataclass(frozen=True)
class Choice:
    """A model's name, to be given to `load_first_layer`, and the reason it was taken."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


def default_model(*, patience: float = 3.0) -> Choice:
    """The model that LNATTN_MODEL names; else GPT-2 if it can be had; else the embedded one.

    GPT-2 counts as available when the tensors of its first layer are cached, or when the hub
    answers within `patience` seconds. The reason is meant to be shown to the reader.
    """
    if name := os.environ.get("LNATTN_MODEL", "").strip():
        # The book's build asks once for all chapters, and passes on the reason it was given.
        return Choice(name, os.environ.get("LNATTN_MODEL_WHY") or "chosen by LNATTN_MODEL")
    if hub.is_cached(PREFERRED):
        return Choice(PREFERRED, "GPT-2 is in this machine's cache")
    if offline():
        return Choice(FALLBACK, "the embedded model: GPT-2 is not cached and HF_HUB_OFFLINE is set")
    if hub.reachable(patience):
        return Choice(PREFERRED, "the Hugging Face hub answers")
    return Choice(FALLBACK, "the embedded model: GPT-2 is not cached and the hub does not answer")
