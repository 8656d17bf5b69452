"""Style and formatting of the chapters' code: `tools/chapter_style.py [--fix] [CHAPTER …]`.

CHAPTER is a file, or a name as in the table of contents: `04-detokenization-heads`.

The code cells of a chapter are handed to ruff as a notebook, so its rules for cells hold (a last
line may be a bare expression). Only what stands in a cell is ever rewritten; prose, fences and the
options of cells stay as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
#: A cell: its fence, its options (`:tags: […]`, or YAML between dashes), then the code.
CELL = re.compile(
    r"(?P<head>^```\{code-cell\}[^\n]*\n(?:---\n.*?^---\n|(?::[\w-]+:[^\n]*\n)*))"
    r"(?P<code>.*?)^```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def chapter_file(name: str) -> Path:
    """The file of a chapter, by its path or its bare name; `SystemExit` where there is none."""
    given = Path(name)
    for path in (given, NOTEBOOKS / given.with_suffix(".md").name):
        if path.is_file():
            return path
    names = ", ".join(sorted(path.stem for path in NOTEBOOKS.glob("*.md")))
    raise SystemExit(f"there is no chapter {name}; give a file, or one of {names}.")


def cells_of(chapter: str) -> list[str]:
    """The code of all cells, without options, in order."""
    return [cell["code"] for cell in CELL.finditer(chapter)]


def with_cells(chapter: str, cells: Sequence[str]) -> str:
    """The chapter with other code in its cells."""
    new = iter(cells)
    return CELL.sub(lambda cell: f"{cell['head']}{next(new).rstrip()}\n```", chapter)


def as_notebook(cells: Sequence[str]) -> str:
    """Cells as the JSON of a notebook, which ruff reads."""
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "execution_count": None,
                    "metadata": {},
                    "outputs": [],
                    "source": code.rstrip("\n").splitlines(keepends=True),
                }
                for code in cells
            ],
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 4,
        }
    )


def ruff(command: Sequence[str], chapter: Path, notebook: str) -> subprocess.CompletedProcess[str]:
    """Ruff's answer about the cells, which it takes for a notebook beside the chapter."""
    name = chapter.with_suffix(".ipynb")
    return subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(name), "-"],
        input=notebook,
        capture_output=True,
        encoding="utf-8",
        cwd=NOTEBOOKS.parent,
    )


def fixed(chapter: Path, text: str) -> str:
    """The chapter with its cells as ruff mends and formats them."""
    notebook = as_notebook(cells_of(text))
    for command in (["check", "--fix-only", "--quiet"], ["format", "--quiet"]):
        answer = ruff(command, chapter, notebook)
        if answer.returncode:
            raise SystemExit(f"{chapter.name}: ruff cannot read a cell: {answer.stderr}")
        notebook = answer.stdout
    return with_cells(text, ["".join(cell["source"]) for cell in json.loads(notebook)["cells"]])


def complaints(chapter: Path) -> str:
    """What ruff has against a chapter; '' where nothing."""
    text = chapter.read_text(encoding="utf-8")
    notebook = as_notebook(cells_of(text))
    check = ruff(["check", "--quiet", "--output-format", "concise"], chapter, notebook)
    layout = ruff(["format", "--diff"], chapter, notebook)
    return (check.stdout + check.stderr) + (layout.stdout if layout.returncode else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Look at the chapters named, or all; 1 where ruff has something against one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("chapters", nargs="*", type=chapter_file)
    parser.add_argument("--fix", action="store_true", help="mend what ruff can mend first")
    given = parser.parse_args(arguments)
    status = 0
    for chapter in given.chapters or sorted(NOTEBOOKS.glob("*.md")):
        if given.fix:
            before = chapter.read_text(encoding="utf-8")
            chapter.write_text(fixed(chapter, before), encoding="utf-8")
        if said := complaints(chapter):
            print(said.rstrip())
            status = 1
    if status:
        print("mend most of it with: python tools/chapter_style.py --fix")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
