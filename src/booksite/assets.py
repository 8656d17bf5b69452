"""The files that the pages load, all of them local: the book's scripts, its templates, MathJax.

MathJax comes from the Python package that carries it, and only the parts that a page can ask for.
It lies outside the book's own static folder, for Jupyter Book loads every script of that folder on
every page.
"""

from __future__ import annotations

import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

FOLDER = Path(__file__).with_name("assets")
TEMPLATES = Path(__file__).with_name("templates")
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
        carrier = distribution(_CARRIER)
    except PackageNotFoundError as error:
        raise ExtensionError(
            f"the package {_CARRIER} is missing; install the book's tools with: "
            "pip install -e '.[book]'"
        ) from error
    folder = Path(str(carrier.locate_file("sphinx-mathjax-offline/static/mathjax")))
    if not (folder / "tex-chtml.js").is_file():
        raise ExtensionError(f"{_CARRIER} {carrier.version} holds no tex-chtml.js below {folder}")
    return folder


def copy_files(app: Sphinx) -> None:
    """Sphinx's event `builder-inited`: copy all before pages compute their checksums."""
    if app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    shutil.copytree(FOLDER, static / "lnattn", dirs_exist_ok=True)
    app.add_js_file("lnattn/reading.js", loading_method="defer")
    source = mathjax_folder()
    target = static / "mathjax"
    for part in MATHJAX_PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, dirs_exist_ok=True)
        else:
            (target / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / part, target / part)


def use_templates(_app: Sphinx, config: Any) -> None:
    """Sphinx's event `config-inited`: this package's templates and search go before others."""
    config.templates_path.insert(0, str(TEMPLATES))
    config.html_search_scorer = str(FOLDER / "search.js")
    if "redirect_html_template_file" in config:  # of sphinx_reredirects; absolute, for single pages
        config.redirect_html_template_file = str(TEMPLATES / "redirect.html")


def setup(app: Sphinx) -> None:
    app.connect("config-inited", use_templates)
    app.connect("builder-inited", copy_files)
