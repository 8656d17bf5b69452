"""What the page on the embedded model states of its training; losses in nats a token.

record: what `data/book-gpt2/training.json` holds, as `lnattn.storage.read_json` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def nats_below_bigrams(record: Mapping[str, Any]) -> float:
    """By how much the model's held-out loss ends below that of counted bigrams (Kneser–Ney)."""
    return record["baselines"]["bigram_kneser_ney"] - record["held_out_loss"]


def first_step_below_bigrams(record: Mapping[str, Any]) -> int | None:
    """The first step of the log with a held-out loss below that of bigrams; None for none."""
    bigrams = record["baselines"]["bigram_kneser_ney"]
    below = (entry["step"] for entry in record["log"] if entry["held_out_loss"] < bigrams)
    return next(below, None)


def nats_behind_without_context(record: Mapping[str, Any]) -> float:
    """How much higher the held-out loss of the twin was that sees one token, at the same step."""
    twin = record["twin"]
    return twin["held_out_loss_of_twin"] - twin["held_out_loss"]
