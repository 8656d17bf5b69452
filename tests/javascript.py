"""Run the explorer's scripts: in Node.js where it is installed, and in the test browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).resolve().parents[1] / "src" / "booksite" / "explorer" / "assets"


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
