"""The model of the chapters' panels, where the one that was chosen has no six terms."""

from __future__ import annotations

import os
from pathlib import Path

from lnattn.models.checkpoints import open_checkpoint
from lnattn.models.choice import FALLBACK, Choice
from lnattn.models.relative_families import RelativeFamily


def with_six_terms(choice: Choice) -> Choice:
    """The choice, or the embedded model in place of one with rotary or relative positions.

    Scores of such a model have four terms. It goes to those that read it, chapter 12 and the
    explorer: this process and those that it starts find it in LNATTN_ROTARY. Raises
    `CheckpointError` where the model cannot be had.
    """
    if not isinstance(open_checkpoint(choice).family, RelativeFamily):
        return choice
    os.environ["LNATTN_ROTARY"] = choice.name
    name = Path(choice.name).name
    return Choice(
        FALLBACK,
        f"{name} has rotary or relative positions, so its scores have four terms and not six: "
        "chapter 12 and the explorer show it",
    )
