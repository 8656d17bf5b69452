"""What the book says of its own model follows the model's training record, whatever it holds."""

from __future__ import annotations

from lnattn.paths import data_folder
from lnattn.storage import read_json
from lnattn_book import page, trained_model

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


def test_numbers_of_an_old_record_and_of_a_new_one():
    old, new = said(OLD), said(NEW)
    assert (old["kind"], old["precision"], old["epochs"]) == ("GPT-2", "float32", "2.0")
    assert (old["below"], old["gap"], old["beats"]) == ("below", "0.50", "beats")
    assert "4.50, after 20 steps" in old["overfit"]
    assert (new["kind"], new["precision"], new["licence"]) == ("Llama", "bfloat16", "CC0")
    assert (new["seen"], new["epochs"]) == ("3.2", "2500.0")
    assert (new["below"], new["beats"]) == ("above", "does not beat")
    assert "0.25 nats" in new["twin_short"]
    no_worse = {**TWIN, "held_out_loss_of_twin": TWIN["held_out_loss"]}
    assert "nats" not in trained_model.attention_is_worth(no_worse)


def test_the_model_that_is_there():
    words = said(read_json(data_folder() / "book-gpt2" / "training.json"))
    assert all(words.values())
