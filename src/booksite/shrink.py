"""Keep the site small: figures with a palette, sources without colours, no files without use.

Figures are stored twice, on the page and in the notebook that can be downloaded, and a palette of
256 colours makes them a third of their size; what changes is the tint of some antialiased pixels.
The same figure always gives the same bytes.
"""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sphinx.application import Sphinx

from lnattn.book.drawings import PNG

#: Below `_static`: what only a developer of the theme looks at, and old formats of fonts.
UNUSED = ("**/*.map", "vendor/**/*.ttf", "locales")
_COLOURS = 256
_SPAN = re.compile(r"</?span[^>]*>")


@lru_cache(maxsize=64)
def smaller_png(data: bytes) -> bytes:
    """The same picture with a palette, or the same bytes where that is not smaller."""
    with Image.open(io.BytesIO(data)) as picture:
        if picture.format != "PNG" or picture.mode == "P" or _has_transparency(picture):
            return data
        palette = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    out = io.BytesIO()
    palette.save(out, "PNG", optimize=True)
    return min(data, out.getvalue(), key=len)


def _has_transparency(picture: Image.Image) -> bool:
    return "A" in picture.getbands() and bool((np.asarray(picture.getchannel("A")) < 255).any())


def smaller_notebook(text: str) -> str:
    """A notebook with the same cells and outputs, its figures made smaller."""
    notebook = json.loads(text)
    for cell in notebook.get("cells", ()):
        for output in cell.get("outputs", ()):
            found = output.get("data", {}).get(PNG)
            if found:
                # Drawings are files of their own, see booksite.drawings.
                output.get("metadata", {}).pop(PNG, None)
                picture = smaller_png(base64.b64decode("".join(found)))
                output["data"][PNG] = base64.b64encode(picture).decode()
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def shrink(site: Path) -> None:
    """Shrink a built site in place; a second time changes nothing."""
    for path in sorted(site.glob("_images/*.png")):
        path.write_bytes(smaller_png(path.read_bytes()))
    for path in sorted(site.glob("_sources/**/*.ipynb")):
        path.write_text(smaller_notebook(path.read_text(encoding="utf-8")), encoding="utf-8")
    for pattern in UNUSED:
        for path in list((site / "_static").glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def without_colours(
    _app: Any, page: str, _template: str, context: dict[str, Any], _doctree: Any
) -> None:
    """Drop the spans of the highlighter from the pages of the package's source, anchors kept."""
    if page.startswith("_modules/lnattn") and "body" in context:
        context["body"] = _SPAN.sub("", context["body"])


def finish(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        shrink(Path(app.outdir))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", without_colours)
    # After all others: they write files too.
    app.connect("build-finished", finish, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
