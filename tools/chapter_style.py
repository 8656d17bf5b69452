"""Style and form of the chapters: `tools/chapter_style.py [--fix] [CHAPTER …]`.

CHAPTER is a file, or a name as in the table of contents: `04-detokenization-heads`.

A chapter is stored as jupytext writes it, so that opening and saving it in JupyterLab changes
nothing. The code of its cells is handed to ruff as a notebook, so its rules for cells hold (a last
line may be a bare expression). `--fix` never touches prose; captions and the like become one line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
#: A chapter's head: no version of jupytext, which would change with the editor's.
FILTER = "-jupytext.text_representation.jupytext_version"
#: As JupyterLab writes it.
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


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
    return [cell.source for cell in _code(jupytext.reads(chapter, fmt="md:myst"))]


def saved(notebook: Any) -> str:
    """A notebook's text, written as JSON first, as an editor has it."""
    as_json = nbformat.reads(nbformat.writes(notebook), as_version=4)
    return str(jupytext.writes(as_json, fmt="md:myst"))


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _in_one_line(options: Any) -> Any:
    """A cell's options, in which a text is one line: YAML quotes others with empty lines."""
    if isinstance(options, dict):
        return {name: _in_one_line(value) for name, value in options.items()}
    return " ".join(options.split()) if isinstance(options, str) else options


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
    """The chapter with its cells as ruff mends and formats them, as jupytext writes it."""
    notebook = jupytext.reads(text, fmt="md:myst")
    code = as_notebook(cells_of(text))
    for command in (["check", "--fix-only", "--quiet"], ["format", "--quiet"]):
        answer = ruff(command, chapter, code)
        if answer.returncode:
            raise SystemExit(f"{chapter.name}: ruff cannot read a cell: {answer.stderr}")
        code = answer.stdout
    for cell, mended in zip(_code(notebook), json.loads(code)["cells"], strict=True):
        cell.source = "".join(mended["source"])
        cell.metadata = _in_one_line(cell.metadata)
    notebook.metadata["jupytext"]["notebook_metadata_filter"] = FILTER
    notebook.metadata["kernelspec"] = KERNEL
    return saved(notebook)


def complaints(chapter: Path) -> str:
    """What ruff has against a chapter; '' where nothing."""
    text = chapter.read_text(encoding="utf-8")
    notebook = as_notebook(cells_of(text))
    check = ruff(["check", "--quiet", "--output-format", "concise"], chapter, notebook)
    layout = ruff(["format", "--diff"], chapter, notebook)
    said = (check.stdout + check.stderr) + (layout.stdout if layout.returncode else "")
    if saved(jupytext.reads(text, fmt="md:myst")) != text:
        said += f"{chapter.name} is not as jupytext writes it: JupyterLab would change it\n"
    return said


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
