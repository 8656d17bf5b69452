"""The example notebook runs on a checkpoint of the user's own: here, a tiny random one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from random_models import random_gpt2

from lnattn import paths

ROOT = paths.repository()
EXAMPLES = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A folder as `save_pretrained` leaves it, with a tokenizer of its own."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("checkpoint")
    words = ["the", "city", "of", "new", "york", "lies", "on", "coast", "atlantic", "ocean", "."]
    vocabulary = {word: number for number, word in enumerate(["<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<unk>"
    ).save_pretrained(folder)
    random_gpt2(seed=3, vocab=len(vocabulary), context=32).float().save_pretrained(folder)
    return folder


def code_of(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_there_is_an_example():
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_on_a_folder(path, checkpoint, monkeypatch):
    monkeypatch.setenv("CHECKPOINT", str(checkpoint))
    space: dict = {"__name__": "__main__"}
    for cell in code_of(path):
        exec(compile(cell, path.name, "exec"), space)  # trusted: our own file
    attention = space["attention"]
    assert attention.shape == (3, len(space["ids"]), len(space["ids"]))
    assert (attention.sum(dim=-1) - 1).abs().max() < 1e-5
    assert space["names"], "no partners were listed"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_kept_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def test_the_heart_of_the_example_is_ten_lines():
    cells = code_of(ROOT / "examples" / "your_checkpoint.ipynb")
    (heart,) = [cell for cell in cells if "lnattn.fold(" in cell]
    lines = [line for line in heart.splitlines() if line.strip()]
    assert len(lines) <= 10, lines
