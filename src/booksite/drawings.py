"""Every figure can be enlarged, and downloaded with its numbers.

A chapter's figures carry an SVG drawing and a CSV table in the executed notebook
(`lnattn.book.drawings`). Both go into an archive in `_downloads/figures`, named by the figure's
label, since together they would weigh more than the book; a line under the figure leads to it, and
the picture to itself in full size.
"""

from __future__ import annotations

import html
import io
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.osutil import relative_uri

from lnattn.book.drawings import KEY, PNG
from lnattn.storage import read_json, write_atomically

FOLDER = "_downloads/figures"


def drawings_of(notebook: Path) -> dict[str, tuple[str, str]]:
    """Label → (SVG, CSV) of the figures of an executed notebook that carry both."""
    found: dict[str, tuple[str, str]] = {}
    for cell in read_json(notebook)["cells"] if notebook.is_file() else ():
        label = cell["metadata"].get("mystnb", {}).get("figure", {}).get("name")
        for output in cell.get("outputs", ()) if label else ():
            carried = output.get("metadata", {}).get(PNG, {}).get(KEY)
            if carried:
                found.setdefault(label, (carried["svg"], carried["csv"]))
    return found


@lru_cache(maxsize=2)  # a page asks for each of its figures
def _cached(notebook: Path, _changed: float) -> dict[str, tuple[str, str]]:
    return drawings_of(notebook)


def offer(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Sphinx's event `doctree-resolved`: write the files of a page's figures, and link them."""
    notebook = Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"
    if app.builder.format != "html" or not notebook.is_file():
        return
    found = _cached(notebook, notebook.stat().st_mtime)
    for figure in doctree.findall(nodes.figure):
        label = next((name for name in figure["ids"] if name in found), None)
        if label is not None:
            _link(app, page, figure, label, *found[label])


def _link(app: Sphinx, page: str, figure: nodes.figure, label: str, svg: str, csv: str) -> None:
    here, name = app.builder.get_target_uri(page), f"{FOLDER}/{label}.zip"
    data = zipped({f"{label}.svg": svg, f"{label}.csv": csv})
    write_atomically(Path(app.outdir) / name, lambda file: file.write(data))
    image = next(figure.findall(nodes.image))
    picture = app.env.images.get(image["uri"])
    if picture is not None and not isinstance(image.parent, nodes.reference):
        to = relative_uri(here, f"{app.builder.imagedir}/{picture[1]}")
        image.replace_self(
            nodes.reference("", "", image.deepcopy(), refuri=to, classes=["enlarge"])
        )
    address = html.escape(relative_uri(here, name), quote=True)
    size = f"{max(1, round(len(data) / 1e3))} kB"
    line = f'<a href="{address}" download>Drawing (SVG) and data (CSV)</a>, {size}'
    figure += nodes.raw("", f'<p class="figure-files">{line}</p>', format="html")


def zipped(files: Mapping[str, str]) -> bytes:
    """The files in one archive; the same bytes for the same files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)  # of the first day that archives know
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, text.encode(), compresslevel=9)
    return out.getvalue()


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-resolved", offer)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
