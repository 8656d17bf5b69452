"""Names that figures, pages and the build of the site share; it loads no library for figures."""

from __future__ import annotations

import os
from pathlib import Path

#: Where a displayed figure carries its drawings and numbers (`drawings`): in the metadata of its
#: picture, under this key.
PNG, KEY = "image/png", "lnattn"
#: What pages and figures call a model that functions and commands know by another name.
MODEL_NAMES: dict[str, str] = {
    "minilm": "MiniLM",
    "gpt2": "GPT-2",
    "smollm2-135m": "SmolLM2",
    "smollm2-135m-q4": "SmolLM2 (four bits)",
    "pythia-160m": "Pythia",
}


def model_name(name: str) -> str:
    """A model as readers know it; what follows its name, such as ' (frozen)', stays.

    >>> model_name("gpt2 (frozen)")
    'GPT-2 (frozen)'
    """
    first = name.partition(" ")[0].rstrip(",")
    return MODEL_NAMES.get(first, first) + name[len(first) :]


#: Rotary models of the hub, read where they are at hand.
ROTARY = ("smollm2-135m", "pythia-160m")


def rotary_models() -> list[str]:
    """Names of the rotary models that chapter 12 reads: those in LNATTN_ROTARY, or else `ROTARY`.

    Spaces stand between names; a folder alone may have some in its own.
    """
    named = os.environ.get("LNATTN_ROTARY")
    if named is None:
        return list(ROTARY)
    is_folder = bool(named.strip()) and Path(named).is_dir()
    return [named] if is_folder else named.split()
