"""What the page on the embedded model states of its training; losses in nats a token.

record: what `data/book-gpt2/training.json` holds, as `lnattn.storage.read_json` reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from lnattn_book.page import Check, says


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


def checks(record: Mapping[str, Any], missing: float) -> Iterator[Check]:
    """What the page says of its numbers; missing: of the model's skill to the threshold of K5."""
    plan = record["plan"]
    (change,) = record["plan_changes"]
    steps = change["step"], change["steps_before"], change["steps"]
    gained = nats_below_bigrams(record)
    losses = [entry["held_out_loss"] for entry in record["log"]]
    seen = record["tokens"]["seen"]
    passed = (first_step_below_bigrams(record) or math.inf) / plan["steps"]
    trained = record["twin"]["step"] / plan["steps"]
    yield says(
        "predicts better than counted pairs, by about a nat", 0.9 < gained < 1.2, found=gained
    )
    yield says(
        "Two layers of width 256 with eight heads, a context of 256 tokens",
        plan["d_model"],
        plan["context"],
        plan["layers"] == 2,
        plan["heads"] == 8,
    )
    yield says("vocabulary of 8,192 tokens", plan["vocab_size"])
    yield says("68 million tokens in all", record["tokens"]["train"])
    yield says("was shown a hundred million", 9.5e7 < seen < 10.5e7, found=seen)
    yield says("At step 1,024 the planned length was cut from 16,000 steps to 12,288", steps)
    yield says("Within the first tenth of its training", passed <= 0.1, found=passed)
    yield says("it ends about a nat below them", 0.9 < gained < 1.2, found=gained)
    yield says("the held-out loss still falling", losses[-1] == min(losses), found=losses[-1])
    yield says("after a twelfth of the training", 1 / 13 < trained < 1 / 11, found=trained)
    yield says("twin was 0.4 nats behind", nats_behind_without_context(record))
    yield says("by less than a thousandth", 0 < missing < 1e-3, found=missing)
