"""Run the explorer's scripts: in Node.js where it is installed, and in the test browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser
import pytest

ASSETS = Path(__file__).resolve().parents[1] / "src" / "booksite" / "explorer" / "assets"


#: Where scripts are run, as the parameters of a fixture.
ENGINES = ("node", "chromium")


def in_engine(
    request: pytest.FixtureRequest, names: list[str]
) -> Iterator[Callable[[str, Any], Any]]:
    """For a fixture of `ENGINES`: a function of an expression and its `data`."""
    if request.param == "node":
        # A second engine for the scripts, beside the browser's; pip installs none.
        if node() is None:
            pytest.skip("Node.js is not installed here; apt-get install nodejs")
        yield lambda expression, data: in_node(names, expression, data)
        return
    # Node runs the same scripts, but has no page for them to be loaded into; pip installs none.
    if browser.find() is None:
        pytest.skip("no Chromium is installed here; apt-get install chromium")
    tab = request.getfixturevalue("chromium").open()
    yield lambda expression, data: in_page(tab, names, expression, data)
    tab.close()


def node() -> str | None:
    """The path of Node.js, or None."""
    return shutil.which("node")


def in_node(names: list[str], expression: str, data: Any) -> Any:
    """The value of `expression`, in which `data` is defined, after the named scripts have run."""
    sources = [(ASSETS / name).read_text("utf-8") for name in names]
    program = (
        "const { sources, data } = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "for (const source of sources) (0, eval)(source);"
        f"process.stdout.write(JSON.stringify({expression}));"
    )
    done = subprocess.run(
        [str(node()), "-e", program],
        input=json.dumps({"sources": sources, "data": data}),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_page(tab: Any, names: list[str], expression: str, data: Any) -> Any:
    """The same in a tab of the browser."""
    for name in names:
        tab.evaluate((ASSETS / name).read_text("utf-8") + ";0")
    return tab.evaluate(f"(data => ({expression}))({json.dumps(data)})")
