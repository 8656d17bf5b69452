"""The whole model of a page that needs more than a first layer."""

from __future__ import annotations

from lnattn.errors import CheckpointError
from lnattn.models.checkpoints import load_first_layer
from lnattn.models.choice import FALLBACK, Choice
from lnattn.models.whole_gpt2 import load_transformer
from lnattn.transformer import Transformer
from lnattn.weights import FirstLayer, require_absolute


def load_whole(choice: Choice) -> tuple[Transformer, FirstLayer, str]:
    """The whole chosen model, its first layer with the tokenizer, and what both are loaded by.

    The last is a name or a folder, for what loads the model once more. Where the choice is no whole
    GPT-2, book-gpt2 is taken, and a line says so, with the reason.
    """
    try:
        whole = load_transformer(choice)
        name = choice.name
    except CheckpointError as reason:
        print(f"{reason} Where a whole model is needed, this page uses {FALLBACK}.")
        whole = load_transformer(FALLBACK)
        name = FALLBACK
    return whole, require_absolute(load_first_layer(name)), name
