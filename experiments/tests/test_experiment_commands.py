"""The experiments' commands: they can be asked for help, and an error is one sentence."""

from __future__ import annotations

import runpy
import sys

import pytest

from experiments.book_model.__main__ import parser as book_model
from experiments.book_model.plan import TrainingPlan
from experiments.command import given_plan, main
from experiments.unselectable_lm.__main__ import parser as unselectable_lm


def test_a_plan_is_given_by_its_fields():
    line = [
        "train",
        "a.txt",
        "--held-out",
        "b.txt",
        "--out",
        "here",
        "--steps",
        "7",
        "--learning-rate",
        "0.5",
    ]
    args = book_model().parse_args(line)
    assert given_plan(args, TrainingPlan) == {"steps": 7, "learning_rate": 0.5}


def test_every_task_of_the_language_models_has_its_arguments():
    whole = unselectable_lm()
    args = whole.parse_args(["evaluate", "one", "two", "--text", "t.jsonl", "--out", "here"])
    assert (args.runs, args.windows, args.searched) == (["one", "two"], 24, 2)
    with pytest.raises(SystemExit):
        whole.parse_args(["long", "a.txt", "--out", "here"])  # nothing is held out


def test_an_error_is_one_sentence(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["x", "embed", str(tmp_path)])
    assert main(book_model(), lambda args: args.run_task(args)) == 1
    assert "holds no finished run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["book_model", "joining", "majority", "sentiment", "unselectable_lm"]
)
def test_help_is_printed(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    monkeypatch.delitem(sys.modules, f"experiments.{name}.__main__", raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"experiments.{name}", run_name="__main__")
    assert ended.value.code == 0
    assert "usage" in capsys.readouterr().out
