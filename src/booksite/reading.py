"""The site's own scripts and styles: copied from this package into `_static/lnattn`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FOLDER = Path(__file__).with_name("assets")


def copy_assets(app: Sphinx) -> None:
    """Copy them before pages compute their checksums."""
    if app.builder.format == "html":
        shutil.copytree(FOLDER, Path(app.outdir) / "_static" / "lnattn", dirs_exist_ok=True)
        app.add_js_file("lnattn/reading.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", copy_assets)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
