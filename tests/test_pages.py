"""Whatever else lies in the clone, the pages are those of the table of contents."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx_external_toc", reason="Jupyter Book is absent: pip install .[book]")

import yaml
from small_site import build

from booksite.pages import listed_pages, read_only_pages
from lnattn_book.page.places import repository

PAGES = {
    "_toc.yml": "format: jb-book\nroot: book/index\nchapters:\n- file: notebooks/05-terms\n",
    "book/index.md": "# The book",
    "notebooks/05-terms.md": "# Terms",
}
#: What lies beside them, by what put it there.
BESIDE = {
    "python -m venv my-env": "my-env/lib/python3.11/site-packages/typer/.agents/SKILL.md",
    "an environment of another name": "env[1] *?/lib/python3.11/site-packages/x/README.md",
    "pip install --target": "notebooks/vendored/README.md",
    "npm install": "node_modules/some-package/README.md",
    "another clone": "other/book/index.md",
    "a build of another tool": "_site/index.md",
    "Jupyter's checkpoints": "notebooks/.ipynb_checkpoints/05-terms-checkpoint.ipynb",
    "Jupytext's pair": "notebooks/05-terms.ipynb",
    "a reader's notebook": "notebooks/mine.ipynb",
    "a reader's chapter": "notebooks/mine.md",
    "notes": "NOTES.md",
    "reStructuredText of the same name": "book/index.rst",
}


@pytest.fixture
def clone(tmp_path):
    source = tmp_path / "source"
    for name in BESIDE.values():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("neither a page nor JSON: {broken}`role` [](missing.md)")
    (source / "my-env" / "lib64").symlink_to("lib")
    (source / "loop").symlink_to(".")
    return tmp_path


def test_nothing_beside_the_pages_is_read(clone):
    shipped = yaml.safe_load((repository() / "_config.yml").read_text(encoding="utf-8"))
    out, warnings, app = build(
        clone,
        PAGES,
        extensions=["sphinx_external_toc", "myst_nb", "booksite.pages"],
        exclude_patterns=shipped["exclude_patterns"],
        nb_execution_mode="off",
    )
    assert warnings == ""
    assert app.env.found_docs == {"book/index", "notebooks/05-terms"}
    assert "Terms" in (out / "notebooks" / "05-terms.html").read_text()
    assert not shipped.get("only_build_toc_files")  # else all of the clone is searched for pages


def test_the_first_file_of_a_name_is_the_page(clone):
    for name, text in PAGES.items():
        (clone / "source" / name).write_text(text)
    assert listed_pages(clone / "source") == ["book/index.md", "notebooks/05-terms.md"]


def test_folders_without_a_page_are_not_searched(clone):
    """Hidden ones, and those that begin with a line, have a pattern of their own."""
    source = clone / "source"
    for name in PAGES:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    (source / ".hidden").mkdir()
    config = SimpleNamespace(
        external_site_map=["book/index", "notebooks/05-terms"], exclude_patterns=["before"]
    )
    read_only_pages(SimpleNamespace(srcdir=source), config)
    assert config.include_patterns == ["book/index.md", "notebooks/05-terms.md"]
    assert config.exclude_patterns == [
        "before", "env?1] ??", "loop", "my-env", "node_modules", "other"
    ]  # fmt: skip
    alone = SimpleNamespace(exclude_patterns=["before"])
    read_only_pages(SimpleNamespace(srcdir=source), alone)
    assert vars(alone) == {"exclude_patterns": ["before"]}
