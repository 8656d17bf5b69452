"""A small Sphinx extension: every asset local, and pages that describe their own environment.

- MathJax is copied into the site at build time, from the Python package that carries it; only
  the parts that a page can ask for. It lies outside the book's own static folder, because Jupyter
  Book loads every script of that folder on every page.
- `{installed-versions}` lists the packages that the book was built with.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

_CARRIER = "sphinx-mathjax-offline"
#: Below MathJax's folder: TeX in, HTML with web fonts out, and what its menu may ask for later.
MATHJAX_PARTS = (
    "tex-chtml.js",
    "input/tex/extensions",
    "output/chtml/fonts",
    "a11y",
    "ui",
    "sre/mathmaps/base.json",
    "sre/mathmaps/en.json",
)


def mathjax_folder() -> Path:
    """Where the installed package keeps MathJax; `ExtensionError` where it is not installed."""
    try:
        found = distribution(_CARRIER)
    except PackageNotFoundError as error:
        raise ExtensionError(
            f"the package {_CARRIER} is missing; install the book's tools with: "
            "pip install -e '.[book]'"
        ) from error
    folder = Path(str(found.locate_file("sphinx-mathjax-offline/static/mathjax")))
    if not (folder / "tex-chtml.js").is_file():
        raise ExtensionError(f"{_CARRIER} {found.version} holds no tex-chtml.js below {folder}")
    return folder


def copy_mathjax(app: Sphinx) -> None:
    """Copy MathJax to `_static/mathjax` of the site, before pages compute its checksum."""
    if app.builder.format != "html":
        return
    source, target = mathjax_folder(), Path(app.outdir) / "_static" / "mathjax"
    for part in MATHJAX_PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, dirs_exist_ok=True)
        elif (source / part).is_file():
            (target / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / part, target / part)
        else:
            raise ExtensionError(f"{source} holds no {part}; check the version of {_CARRIER}")


class InstalledVersions(SphinxDirective):
    """`{installed-versions}`: Python, and every package of constraints.txt that is installed."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        lock = Path(self.env.srcdir, "constraints.txt")
        self.env.note_dependency(str(lock))
        rows = [("Python", platform.python_version()), *installed(lock)]
        table = nodes.table(classes=["versions"])
        group = nodes.tgroup(cols=2)
        table += group
        group += [nodes.colspec(colwidth=60), nodes.colspec(colwidth=40)]
        group += nodes.thead("", _row("Package", "Version"))
        group += nodes.tbody("", *(_row(name, number) for name, number in rows))
        return [table]


def installed(lock: Path) -> Iterator[tuple[str, str]]:
    """Names of a lock's packages, with the versions that are installed here."""
    for line in lock.read_text(encoding="utf-8").splitlines() if lock.is_file() else ():
        name = line.partition("==")[0]
        if name and not name.startswith("#"):
            with suppress(PackageNotFoundError):
                yield name, version(name)


def _row(*cells: str) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=cell)) for cell in cells))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("installed-versions", InstalledVersions)
    app.connect("builder-inited", copy_mathjax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
