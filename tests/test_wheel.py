"""What the package needs is in its wheel: it works where there is no repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: What a package index takes of one file, unless asked.
LARGEST = 30 << 20

_LOOK = """
import json, sys
import lnattn
from lnattn.paths import data_folder
model = lnattn.load_first_layer("book-gpt2")
print(json.dumps({
    "package": lnattn.__file__,
    "data": str(data_folder()),
    "heads": model.attention.n_heads,
    "counts": (data_folder() / "book-gpt2" / "counts.npz").is_file(),
    "book": [name for name in sys.modules if name.split(".")[0] in ("lnattn_book", "matplotlib")],
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the wheel's contents, as `pip install --no-deps --target` leaves them."""
    built, folder = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = built.glob("*.whl")
    assert wheel.stat().st_size < LARGEST
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed: Path, folder: Path, *words: str) -> str:
    """Run Python in a folder outside the repository, with the installed package first."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LNATTN_")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(installed)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_the_embedded_model_comes_with_the_package(installed, tmp_path) -> None:
    found = json.loads(run(installed, tmp_path, "-c", _LOOK))
    assert Path(found["package"]) == installed / "lnattn" / "__init__.py"
    assert Path(found["data"]) == installed / "lnattn" / "data"
    assert found["heads"] == 8
    assert found["counts"]
    assert found["book"] == []


def test_every_module_is_in_the_wheel(installed) -> None:
    source = ROOT / "src" / "lnattn"
    wanted = {path.relative_to(source) for path in source.rglob("*.py")}
    assert len(wanted) > 50
    packed = {p.relative_to(installed / "lnattn") for p in (installed / "lnattn").rglob("*.py")}
    assert not wanted - packed
    assert (installed / "lnattn" / "py.typed").is_file()
    others = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert others == {"lnattn"}, "the book, its site and the experiments work in a clone only"
    assert {path.name for path in (installed / "lnattn" / "data").iterdir()} == {
        "book-gpt2",
        "text",
    }


def test_a_report_is_made_without_the_book(installed, tmp_path) -> None:
    """With the text that ships, and without Matplotlib."""
    code = (
        "import sys, lnattn; made = lnattn.report('book-gpt2', only=['sigma', 'subwords']);"
        "made.write('report.html');"
        "print([p.name for p in made.parts if p.is_missing], 'matplotlib' in sys.modules)"
    )
    assert run(installed, tmp_path, "-c", code).split("\n")[0] == "[] False"
    assert (tmp_path / "report.html").stat().st_size > 5000
    assert (tmp_path / "report.json").is_file()
