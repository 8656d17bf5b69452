"""What the book says of its own model follows the model's training record, whatever it holds."""

from __future__ import annotations

import pytest

from lnattn.book import page, trained_model
from lnattn.paths import data_folder
from lnattn.storage import read_json

OLD = {
    "plan": {
        "layers": 2, "d_model": 8, "heads": 2, "context": 16, "vocab_size": 8192, "steps": 40,
        "batch": 4,
    },
    "corpus": {"train": [{"file": "a.jsonl", "bytes": 1_240_250}], "held_out": [{"dataset": "w"}]},
    "tokens": {"train": 1_280, "held_out": 20_000},
    "held_out_loss": 5.0,
    "baselines": {"unigram": 7.0, "bigram_kneser_ney": 5.5},
    "log": [{"step": 20, "held_out_loss": 4.5}, {"step": 40, "held_out_loss": 5.0}],
}  # fmt: skip
TWIN = {"step": 1_280, "tokens": 1, "held_out_loss": 5.5, "held_out_loss_of_twin": 5.75}
NEW = {
    **OLD,
    "plan": {**OLD["plan"], "precision": "bfloat16", "architecture": "llama"},
    "tokens": {**OLD["tokens"], "seen": 3_200_000},
    "held_out_loss": 6.0,
    "licence_of_text": "CC0",
    "twin": TWIN,
    "plan_changes": [{"step": 900, "steps_before": 3_600, "steps": 2_400}],
    "log": [{"step": 20, "held_out_loss": 6.5}, {"step": 40, "held_out_loss": 6.0}],
}


def said(record):
    """The texts as the chapter would glue them."""
    given = trained_model.facts(record)
    pairs = {key: v if isinstance(v, tuple) else (v, "") for key, v in given.items()}
    return {key: page.formatted(value, spec, key) for key, (value, spec) in pairs.items()}


def test_an_old_record():
    words = said(OLD)
    assert (words["kind"], words["precision"], words["epochs"]) == ("GPT-2", "float32", "2.0")
    assert words["files"] == "a.jsonl (1.2 MB)"
    assert words["held_files"] == "w"
    assert (words["below"], words["gap"], words["beats"]) == ("below", "0.50", "beats")
    assert words["overfit"] == "The held-out loss was lowest, 4.50, after 20 steps"
    assert "has none yet" in words["twin"]
    assert "has not been measured" in words["twin_short"]
    assert words["changes"] == "The plan was not changed while it ran"


def test_a_new_record():
    words = said(NEW)
    assert (words["kind"], words["precision"]) == ("Llama", "bfloat16")
    assert (words["seen"], words["epochs"]) == ("3.2", "2500.0")
    assert (words["below"], words["beats"]) == ("above", "does not beat")
    assert words["overfit"] == "The held-out loss was at its lowest when training ended"
    assert "5.75 nats where the model had 5.50: at step 1,280" in words["twin"]
    assert words["twin_short"] == (
        "at step 1,280 attention to other tokens was worth 0.25 nats a token"
    )
    assert "At step 900 the planned length was changed from 3,600 to 2,400" in words["changes"]
    assert words["licence"] == "CC0"


@pytest.mark.parametrize("gain", [0.0, -0.1])
def test_a_twin_that_is_no_worse(gain):
    twin = {**TWIN, "held_out_loss_of_twin": TWIN["held_out_loss"] + gain}
    assert trained_model.attention_is_worth(twin).endswith("had not helped it")


def test_the_model_that_is_there():
    words = said(read_json(data_folder() / "book-gpt2" / "training.json"))
    assert all(words.values())
