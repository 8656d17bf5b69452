"""Frozen results of experiments beside those made now: the same, another, and what is not there."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import verify
from lnattn.errors import CheckpointError, ResultError
from lnattn.paths import data_folder
from lnattn.storage import read_result


def test_what_is_made_now_is_compared_array_by_array():
    frozen = {"a": np.array([1.0, 2.0]), "step": np.array([64, 64])}
    same = verify.compared("x", frozen, lambda: {"a": np.array([1.0, 2.00001])}, 1e-4)
    assert same == ("x", [], "")
    other = verify.compared("x", frozen, lambda: {"a": np.array([1.0, 2.1])}, 1e-4)
    assert len(other.differences) == 1
    assert "a differs by up to 0.1" in other.differences[0]
    nothing = verify.compared("x", frozen, lambda: {"b": np.ones(2)}, 1e-4)
    assert nothing.differences == ["the two have no array in common"]


def test_a_model_that_is_not_at_hand_is_told_and_is_no_difference():
    def absent():
        raise CheckpointError("it is not here.")

    assert verify.compared("x", {"a": np.ones(2)}, absent, 1e-4) == ("x", [], "it is not here.")


def asked_of(words: list[str]) -> None:
    verify.run(verify.parser().parse_args(words))


def test_the_command_names_what_agrees_what_differs_and_what_is_left_out(monkeypatch, capsys):
    compared = [
        verify.Compared("one", []),
        verify.Compared("two", ["a differs by 3"]),
        verify.Compared("three", [], "its weights were not kept"),
    ]
    monkeypatch.setitem(verify.WHAT, "sigma", lambda: iter(compared))
    with pytest.raises(ResultError, match="two: other than what is frozen"):
        asked_of(["sigma"])
    assert capsys.readouterr().out.splitlines() == [
        "one: agrees",
        "two: differs",
        "  a differs by 3",
        "three: not compared: its weights were not kept",
    ]
    with pytest.raises(ResultError, match="'sgima' is none of sigma, writing"):
        asked_of(["sgima"])


def test_one_sigma_for_all_tokens_is_computed_again(monkeypatch, capsys):
    """Of book-gpt2, whose weights are here; and another number is noticed."""
    monkeypatch.setattr(verify, "results_of", lambda name: iter(["book-gpt2"]))
    asked_of(["sigma"])
    assert capsys.readouterr().out == "book-gpt2/sigma: agrees\n"

    def other(name: str):
        frozen = read_result(data_folder() / "results" / name, "sigma")[0]
        return {**frozen, "auroc": frozen["auroc"] + 0.01}, {}

    monkeypatch.setattr(verify, "constant_sigma", other)
    with pytest.raises(ResultError, match="book-gpt2/sigma"):
        asked_of(["sigma"])
    assert "auroc differs by up to 0.01" in capsys.readouterr().out
