"""The training of the embedded model, on a record written by hand."""

from __future__ import annotations

import pytest

from lnattn_book.chapters import book_model as chapter

RECORD = {
    "baselines": {"bigram_kneser_ney": 5.0},
    "held_out_loss": 3.75,
    "log": [
        {"step": 0, "held_out_loss": 9.0},
        {"step": 256, "held_out_loss": 5.0},
        {"step": 512, "held_out_loss": 4.5},
        {"step": 1024, "held_out_loss": 3.75},
    ],
    "twin": {"held_out_loss_of_twin": 4.9, "held_out_loss": 4.5},
}


def test_nats_are_differences_of_losses():
    assert chapter.nats_below_bigrams(RECORD) == 1.25
    assert chapter.nats_behind_without_context(RECORD) == pytest.approx(0.4)


def test_the_first_step_below_bigrams_is_truly_below():
    assert chapter.first_step_below_bigrams(RECORD) == 512
    assert chapter.first_step_below_bigrams({**RECORD, "log": RECORD["log"][:2]}) is None
