"""Every figure can be enlarged, and downloaded with its numbers.

A chapter's figures carry an SVG drawing and a CSV table in the executed notebook
(`lnattn.book.drawings`). Both become files in `_downloads/figures`, named by the figure's label; a
line under the figure leads to them, and the picture itself to the drawing.
"""

from __future__ import annotations

import html
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
    found = {}
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
    here = app.builder.get_target_uri(page)
    parts = []
    for text, ending, words in ((svg, "svg", "SVG"), (csv, "csv", "data as CSV")):
        name, data = f"{FOLDER}/{label}.{ending}", text.encode()
        write_atomically(Path(app.outdir) / name, lambda file, data=data: file.write(data))
        address = html.escape(relative_uri(here, name), quote=True)
        size = f"{max(1, round(len(data) / 1e3))} kB"
        parts.append(f'<a href="{address}" download>{words}</a> ({size})')
    image = next(figure.findall(nodes.image))
    to = relative_uri(here, f"{FOLDER}/{label}.svg")
    if not isinstance(image.parent, nodes.reference):
        image.replace_self(
            nodes.reference("", "", image.deepcopy(), refuri=to, classes=["enlarge"])
        )
    line = f'<p class="figure-files">Download this figure: {", ".join(parts)}</p>'
    figure += nodes.raw("", line, format="html")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-resolved", offer)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
