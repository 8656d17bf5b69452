"""What the package tells those who check types: README's lines pass, a misspelt name does not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from lnattn.models import checkpoints, hub
from lnattn_book.page.places import repository

PAGE = (repository() / "README.md").read_text(encoding="utf-8")
README = re.search(r"```python\n(import lnattn\n.*?)```", PAGE, re.DOTALL)
RELATIVE = """
import lnattn

model = lnattn.load_first_layer("book-llama")
folded = lnattn.fold_relative(model.attention)
terms = lnattn.distance_terms(folded, model.embeddings, [1, 2, 3])
"""
OF_A_FOLDER = """
import lnattn

model = lnattn.load_first_layer("a/folder")
if isinstance(model, lnattn.FirstLayer):
    folded = lnattn.fold(model.attention)
    given = model.tokenizer("A cat")
    print(lnattn.six_terms(folded, model.embeddings, given).ee.shape)
    print(folded.attention(model.embeddings.W_P[:3], [True, True, False]))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with mypy's cache: it reads PyTorch and the package once."""
    return tmp_path_factory.mktemp("typed")


def checked(tmp_path: Path, text: str) -> str:
    """What mypy says of a program of somebody who imports the package."""
    (tmp_path / "mine.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull]
    command += ["--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent", "mine.py"]
    told = {**os.environ, "MYPYPATH": str(repository() / "src")}
    done = subprocess.run(
        command, cwd=tmp_path, env=told, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.whole
@pytest.mark.parametrize("text", [README and README[1], RELATIVE, OF_A_FOLDER])
def test_what_the_package_is_for_passes_a_check_of_types(place, text):
    assert "Success: no issues found" in checked(place, text)


@pytest.mark.whole
@pytest.mark.parametrize("wrong", ["lnattn.nothing()", "lnattn.six_term", "lnattn.fold(3)"])
def test_what_is_wrong_does_not(place, wrong):
    assert "error:" in checked(place, f"import lnattn\n\n{wrong}\n")


def test_every_model_that_has_a_name_of_its_own_is_of_a_kind():
    kinds = {*get_args(checkpoints._Learned), *get_args(checkpoints._Relative)}
    assert kinds == {*checkpoints.BOOK_MODELS, checkpoints.MINILM, checkpoints.WHISPER, *hub.PINNED}
