"""What the package tells those who check types: README's lines pass, a misspelt name does not."""

from __future__ import annotations

import json
import os
import re
import shutil
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


OF_A_NAME = """
import lnattn


def terms(name: str) -> float:
    model = lnattn.load_first_layer(name)
    folded = lnattn.fold(model.attention)
    return float(lnattn.six_terms(folded, model.embeddings, [1, 2, 3]).ee.sum())


def terms_by_distance(name: str) -> float:
    model = lnattn.load_first_layer(name)
    if isinstance(model, lnattn.FirstLayer):
        return terms(name)
    folded = lnattn.fold_relative(model.attention)
    return float(lnattn.distance_terms(folded, model.embeddings, [1, 2, 3]).ee.sum())
"""
RIGHT = [README and README[1], RELATIVE, OF_A_FOLDER, OF_A_NAME]
WRONG = [
    "lnattn.nothing()",
    "lnattn.six_term",
    "lnattn.fold(3)",
    'lnattn.fold(lnattn.load_first_layer("book-llama").attention)',
]


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
@pytest.mark.parametrize("text", RIGHT)
def test_what_the_package_is_for_passes_a_check_of_types(place, text):
    assert "Success: no issues found" in checked(place, text)


@pytest.mark.whole
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_does_not(place, wrong):
    assert "error:" in checked(place, f"import lnattn\n\n{wrong}\n")


@pytest.mark.whole
def test_pyright_says_the_same(tmp_path):
    pyright = shutil.which("pyright")
    if pyright is None:
        # It is a program of Node.js, which it fetches; the weekly run has it.
        pytest.skip("pyright is not installed here: pip install pyright")
    settings = {"extraPaths": [str(repository() / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    texts = [*RIGHT, *(f"import lnattn\n\n{wrong}\n" for wrong in WRONG)]
    for number, text in enumerate(texts):
        (tmp_path / f"mine_{number}.py").write_text(text)
    command = [pyright, "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = [
        Path(said["file"]).stem
        for said in json.loads(done.stdout)["generalDiagnostics"]
        if said["severity"] == "error"
    ]
    assert sorted(set(errors)) == [f"mine_{number}" for number in range(len(RIGHT), len(texts))]


def test_every_model_that_has_a_name_of_its_own_is_of_a_kind():
    kinds = {*get_args(checkpoints._Learned), *get_args(checkpoints._Relative)}
    assert kinds == {*checkpoints.BOOK_MODELS, checkpoints.MINILM, checkpoints.WHISPER, *hub.PINNED}
