"""Run the explorer's scripts in Node.js, with files of this machine in place of a reader's."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ASSETS = Path(__file__).resolve().parents[1] / "src" / "booksite" / "explorer" / "assets"
#: What the scripts need of a page. `fileOf(path)` is a file as a reader chooses it.
_HARNESS = """
const fs = require('fs');
const { basename } = require('path');
const { scripts, data } = JSON.parse(fs.readFileSync(0, 'utf8'));
globalThis.window = globalThis;
globalThis.document = { currentScript: { src: 'file:///explorer/' }, querySelectorAll: () => [] };
globalThis.addEventListener = () => {};
globalThis.location = { hash: '' };
const fileOf = async (path) => {
  const blob = await fs.openAsBlob(path);
  const slice = (...range) => blob.slice(...range);
  return { name: basename(path), size: blob.size, slice, text: () => blob.text() };
};
for (const script of scripts) (0, eval)(script);
(async () => (%s))().then((value) => process.stdout.write(JSON.stringify(value)));
"""


def in_node(expression: str, data: Any, *more: str) -> Any:
    """The value of `expression`, which may await, and in which `data` is defined.

    more: scripts beside those that all parts of the explorer load.
    """
    node = shutil.which("node")
    if node is None:
        # pip installs none; the tests in Chromium run the same scripts.
        # The scripts run in a browser; without one of these engines there is nothing to ask.
        pytest.skip("Node.js is not installed here; apt-get install nodejs")
    pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
    from booksite.explorer.publishing import SHARED_SCRIPTS

    scripts = [(ASSETS / name).read_text("utf-8") for name in (*SHARED_SCRIPTS, *more)]
    done = subprocess.run(
        [node, "-e", _HARNESS % expression],
        input=json.dumps({"scripts": scripts, "data": data}),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
