"""One chapter, run alone: what Jupytext reads is what the build would run."""

from __future__ import annotations

import pytest

pytest.importorskip("myst_nb", reason="MyST-NB is not installed; pip install -e '.[book]'")

import jupytext
from jupyter_cache import get_cache
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig

from lnattn_book.page.places import repository


def test_a_chapter_run_alone_has_the_builds_key(tmp_path):
    """Else the next build would run it again."""
    cache = get_cache(str(tmp_path))
    chapters = sorted((repository() / "notebooks").glob("*.md"))
    assert chapters
    for path in chapters:
        text = path.read_text(encoding="utf-8")
        built = read_myst_markdown_notebook(text, config=MdParserConfig(), path=path)
        alone = jupytext.read(path, fmt="md:myst")
        assert cache.create_hashed_notebook(alone)[1] == cache.create_hashed_notebook(built)[1]
