"""What a page offers for download: its executed notebook and its figures.

- The notebook has its outputs. MyST-NB writes those of the chapters that it ran itself only; the
  others come from the execution cache.
- A figure that carries drawings (SVG) and its numbers (CSV) is shown as a drawing, light or dark as
  the page, which leads to itself in full size; a line under it offers it and the numbers.
"""

from __future__ import annotations

import html
import json
import re
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import nbformat
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.osutil import relative_uri

from booksite.doors import repository_address
from lnattn.storage import read_json, write_atomically
from lnattn_book.page.names import KEY, PNG
from lnattn_book.page.places import repository

FOLDER = "_downloads"
#: Bytes of a file from which on its size stands beside its link.
LIGHT = 1_000_000
_SIZE = re.compile(r'<svg [^>]*?\b(width="\d+" height="\d+")')


def executed(app: Sphinx, page: str) -> Path:
    """Where MyST-NB leaves the notebook of a page."""
    return Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"


def complete(app: Sphinx, _doctree: nodes.document) -> None:
    """Sphinx's event `doctree-read`: put the cached outputs into the notebook of the page.

    MyST-NB renders the cached notebook and writes the one that it read, which has no outputs.
    """
    page = app.env.docname
    path = executed(app, page)
    if getattr(app.config, "nb_execution_mode", "off") != "cache" or not path.is_file():
        return
    from jupyter_cache import get_cache  # here: the command line comes without it

    cache = get_cache(app.config.nb_execution_cache_path or str(Path(app.outdir, ".jupyter_cache")))
    try:
        _, notebook = cache.merge_match_into_notebook(nbformat.read(path, as_version=4))
    except KeyError as error:
        raise ExtensionError(f"{page} is not in the execution cache; run: make clean") from error
    data = nbformat.writes(notebook).encode()
    write_atomically(path, lambda file: file.write(data))


def write_suite(app: Sphinx, exception: Exception | None) -> None:
    """Sphinx's event `build-finished`: the conformance suite as one archive, the same bytes always.

    What makes and records its cases stays in the repository.
    """
    if exception is not None or app.builder.format != "html":
        return
    suite = repository() / "conformance"
    paths = [suite / name for name in ("README.md", "check.py", "falcon.md", "witness.py")]
    for folder in ("adapters", "cases"):
        paths += sorted(path for path in (suite / folder).rglob("*.*") if path.suffix != ".pyc")

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in paths:
                if path.is_file():
                    name = path.relative_to(suite.parent).as_posix()
                    archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)

    write_atomically(Path(app.outdir) / "conformance.zip", write)


def offer_notebook(
    app: Any, page: str, _template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Put the executed notebook where the theme's download button looks for it."""
    if doctree is None or "kernelspec" not in app.env.metadata.get(page, {}):
        return
    path = executed(app, page)
    if not path.is_file():
        raise ExtensionError(f"{page} was executed, but {path} is missing; run: make clean")
    known = (app.config.html_theme_options or {}).get("repository_url") or ""
    data = offered_notebook(path, repository_address(Path(app.srcdir), known)).encode()
    target = Path(app.outdir) / "_sources" / f"{page}.ipynb"
    write_atomically(target, lambda file: file.write(data))
    context["ipynb_source"] = f"{page}.ipynb"


def offered_notebook(path: Path, repository: str) -> str:
    """A notebook as it is offered: without the drawings, which are apart, and with a first cell
    that says elsewhere what it needs.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.get("metadata", {}).pop(PNG, None)
    needs = nbformat.v4.new_code_cell(needs_of(repository), id="needs")
    if notebook.nbformat_minor < 5:  # whose cells have no ids
        del needs["id"]
    notebook.cells.insert(0, needs)
    return nbformat.writes(notebook) + "\n"


def needs_of(repository: str) -> str:
    """The code of the first cell: nothing in the book's own environment, else one sentence.

    On Colab it gets what it needs by itself, where the repository's address is known.
    """
    template = Path(__file__).with_name("templates") / "needs.py"
    text = template.read_text(encoding="utf-8")
    return text.replace('"REPOSITORY"', json.dumps(repository)).rstrip("\n")


@lru_cache(maxsize=2)  # a page asks for each of its figures
def drawings_of(notebook: Path) -> dict[str, tuple[str, str, str]]:
    """Label → (SVG, CSV, SVG for dark pages) of the figures of an executed notebook."""
    drawings: dict[str, tuple[str, str, str]] = {}
    for cell in read_json(notebook)["cells"]:
        label = cell["metadata"].get("mystnb", {}).get("figure", {}).get("name")
        for output in cell.get("outputs", ()) if label else ():
            carried = output.get("metadata", {}).get(PNG, {}).get(KEY)
            if carried:
                drawings.setdefault(label, (carried["svg"], carried["csv"], carried["dark"]))
    return drawings


def offer_drawings(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Sphinx's event `doctree-resolved`: write the files of a page's figures, and link them."""
    notebook = executed(app, page)
    if app.builder.format != "html" or not notebook.is_file():
        return
    drawings = drawings_of(notebook)
    here = app.builder.get_target_uri(page)
    is_first = True
    for figure in doctree.findall(nodes.figure):
        label = next((name for name in figure["ids"] if name in drawings), None)
        if label is None:
            continue
        light, csv, dark = drawings[label]
        data = _written(app, here, f"{FOLDER}/figures/{label}.csv", csv)
        addresses = {
            ground: _written(app, here, f"{app.builder.imagedir}/{drawn_for(ground, label)}", svg)
            for ground, svg in {"light": light, "dark": dark}.items()
        }
        image = next(figure.findall(nodes.image))
        pictures = _pictures(image, addresses, size_of(light), is_first)
        image.replace_self(nodes.raw("", pictures, format="html"))
        is_first = False
        offered = {"Drawing (SVG)": addresses["light"], "data (CSV)": data}
        links = [f'<a href="{to}" download>{what}</a>' for what, to in offered.items()]
        weight = len(csv.encode())
        if weight > LIGHT:
            links[-1] += f", {weight / 1e6:.1f} MB"
        line = f'<p class="figure-files">{" and ".join(links)}</p>'
        figure += nodes.raw("", line, format="html")


def _written(app: Sphinx, here: str, name: str, text: str) -> str:
    """Write a file of the site; its address as seen from a page, for an attribute."""
    write_atomically(Path(app.outdir) / name, lambda file: file.write(text.encode()))
    return html.escape(relative_uri(here, name))


def _pictures(image: nodes.image, addresses: Mapping[str, str], size: str, is_first: bool) -> str:
    """The drawings for light and dark pages in place of an image, each leading to itself.

    A page fetches one of the two when it comes near, but the first light one at once.
    """
    alt = html.escape(image.get("alt", ""))
    pictures = ""
    for ground, address in addresses.items():
        shown = " ".join([*image["classes"], f"only-{ground}"])
        loading = "" if is_first and ground == "light" else ' loading="lazy"'
        pictures += f'<a class="enlarge" href="{address}">'
        pictures += f'<img class="{shown}" alt="{alt}" src="{address}" {size}{loading}></a>'
    return pictures


def size_of(svg: str) -> str:
    """The size of a drawing, as attributes of its picture: the page keeps the place free."""
    match = _SIZE.search(svg)
    if match is None:
        raise ExtensionError("a figure's drawing names no size; build the page again: make clean")
    return match[1]


def drawn_for(ground: str, label: str) -> str:
    """The name of a figure's drawing for a light or a dark page."""
    return f"{label}-dark.svg" if ground == "dark" else f"{label}.svg"


def setup(app: Sphinx) -> None:
    # Before the checks of the page are read from it (`checks`, at 300).
    app.connect("doctree-read", complete, priority=200)
    app.connect("doctree-resolved", offer_drawings)
    # The theme makes its buttons at the default priority, 500, from what the page context holds.
    app.connect("html-page-context", offer_notebook, priority=100)
    app.connect("build-finished", write_suite)
