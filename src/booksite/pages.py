"""Which files are pages: those that the table of contents lists, whatever else lies in the clone.

A clone holds what its user put there: environments of any name with pages in their site-packages,
`node_modules`, other clones, checkpoints of notebooks, notebooks of the reader's own, and the pair
that Jupytext keeps of a chapter. Sphinx would take all that it finds for pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx_external_toc.parsing import parse_toc_yaml

#: Of two files of one name, the one that is the page; the other is its pair.
SUFFIXES = (".md", ".ipynb", ".rst")


def listed_pages(root: Path) -> list[str]:
    """The files that `_toc.yml` lists, relative to `root`, in its order; those that exist."""
    return list(_files(root, parse_toc_yaml(root / "_toc.yml")))


def _files(root: Path, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        candidates = [name, *(f"{name}{suffix}" for suffix in SUFFIXES)]
        for candidate in candidates:
            if (root / candidate).is_file():
                yield candidate
                break


def read_only_pages(app: Sphinx, config: Config) -> None:
    """Sphinx's event `config-inited`: let it look at nothing but pages, and in no other folder."""
    listed = getattr(config, "external_site_map", None)
    if listed is None:
        return  # a page that is built alone: Jupyter Book excludes all others
    root = Path(app.srcdir)
    pages = list(_files(root, listed))
    config.include_patterns = list(map(escaped, pages))
    folders_of_pages = {Path(page).parts[0] for page in pages}
    # Hidden folders and `_build` come and go; a pattern of their own excludes them (`_config.yml`).
    others = [
        escaped(path.name)
        for path in sorted(root.iterdir())
        if path.is_dir()
        and path.name not in folders_of_pages
        and not path.name.startswith((".", "_"))
    ]
    config.exclude_patterns = [*config.exclude_patterns, *others]


def escaped(name: str) -> str:
    """A name as a pattern of Sphinx's: a sign with a meaning there stands for any one sign."""
    return re.sub(r"[*?\[]", "?", name)


def setup(app: Sphinx) -> None:
    # After the table of contents was read, at priority 900.
    app.connect("config-inited", read_only_pages, priority=950)
