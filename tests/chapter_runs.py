"""Run a chapter's cells as a reader would who changed its first cell, in the test's own process."""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import jupytext
import matplotlib.pyplot as plt
from IPython.display import display
from jaxtyping import config as jaxtyping_config

from lnattn_book import page
from lnattn_book.page.checks import Check, CheckTable, table
from lnattn_book.page.places import repository

NOTEBOOKS = repository() / "notebooks"


@dataclass
class Run:
    """What a run left: its names, what it printed or displayed as text; how many cells ended.

    checks: the sentences that the page's table has asked.
    """

    names: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    ended: int = 0
    checks: list[Check] = field(default_factory=list)

    @property
    def broken(self) -> list[str]:
        """What is said of sentences of the page that are not about this run."""
        return [check.message for check in self.checks if not check.holds]

    def table(self, checks: Iterable[Check]) -> CheckTable:
        """In place of `page.table`, which a notebook would show."""
        made = table(checks)
        self.checks.extend(made.checks)
        return made


def find(name: str) -> Path:
    """The notebook whose file begins with a number, or has a name."""
    (path,) = [path for path in NOTEBOOKS.glob("*.md") if path.stem.startswith(name)]
    return path


def cells_of(name: str) -> list[Any]:
    """The code cells of a chapter, in order."""
    notebook = jupytext.read(find(name), fmt="md:myst")
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def solutions_of(name: str) -> list[str]:
    """The code that the solutions of a chapter's exercises show."""
    return re.findall(
        r"^```python\n(.*?)^```", find(name).read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def run(name: str, **parameters: Any) -> Run:
    """Run all code cells of a chapter from its own folder, after its first cell was changed.

    parameters: as papermill would inject them, behind the cell with the tag `parameters`. An error
    in a cell is raised, with the cell's code in the traceback.
    """
    path, cells = find(name), cells_of(name)
    tagged = [n for n, cell in enumerate(cells) if "parameters" in cell.metadata.get("tags", ())]
    codes = [cell.source for cell in cells]
    if parameters:
        (first,) = tagged
        injected = [f"{key} = {value!r}" for key, value in parameters.items()]
        codes.insert(first + 1, "\n".join(injected))
    names = {"__name__": f"chapter_{path.stem}", "display": display}  # as in a notebook
    done, before = Run(names), Path.cwd()
    os.chdir(path.parent)
    heard = io.StringIO()
    jaxtyping_config.update("jaxtyping_disable", True)  # as for a reader
    try:
        with (
            contextlib.redirect_stdout(heard),
            mock.patch.object(page, "table", done.table),
        ):
            for number, code in enumerate(codes):
                file = f"<{path.name}, cell {number}>"
                linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
                exec(compile(code, file, "exec"), done.names)
                plt.close("all")
                done.ended = number + 1
    finally:
        jaxtyping_config.update("jaxtyping_disable", False)
        os.chdir(before)
        done.said = heard.getvalue()
    return done
