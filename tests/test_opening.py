"""The opening of a chapter: three paragraphs and the minutes that its page takes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from booksite import opening

THREE = "What is it?\n\nA *thing*.\n\nThings matter.\n"


def build(folder: Path, content: str, rest: str = "") -> tuple[str, Sphinx]:
    """The warnings of a book of one page, and its builder."""
    (folder / "source").mkdir()
    page = f"# Title\n\n:::{{opening}}\n{content}:::\n\n{rest}\n"
    (folder / "source" / "index.md").write_text(page)
    warnings = folder / "warnings.txt"
    with patch_docutils(), docutils_namespace(), warnings.open("w") as stream:
        app = Sphinx(
            str(folder / "source"), None, str(folder / "html"), str(folder / "trees"), "html",
            confoverrides={
                "extensions": ["myst_parser", "sphinx_design", "booksite.opening"],
                "myst_enable_extensions": ["colon_fence", "dollarmath"],
            },
            status=None, warning=stream,
        )  # fmt: skip
        app.build()
    return warnings.read_text(), app


def test_three_paragraphs_become_four_terms(tmp_path):
    warnings, app = build(tmp_path, THREE)
    page = (Path(app.outdir) / "index.html").read_text()
    assert not warnings
    question, answer, why, time = (f"<dt>{name}" for name in (*opening.PARTS, opening.TIME))
    texts = [question, "What is it?", answer, "<em>thing</em>", why, "Things matter.", time]
    places = [page.index(text) for text in texts]
    assert places == sorted(places)
    assert "about 1 minute to read" in page


@pytest.mark.parametrize("content", ["Two?\n\nParagraphs.\n", f"{THREE}\nA fourth.\n", "- list\n"])
def test_any_other_number_is_refused(tmp_path, content):
    warnings, _ = build(tmp_path, content)
    assert "an opening is 3 paragraphs (question, short answer, why it matters)" in warnings


@pytest.mark.parametrize(
    ("rest", "minutes"),
    [
        ("word " * 10 * opening.WORDS, 10),
        ("word " * 4 * opening.WORDS + "\n\n$$a = b$$\n" * 8, 6),
        ("word " * 5 * opening.WORDS + "\n\n```python\n" + "code " * 900 + "\n```\n", 5),
        (":::{dropdown} Solution\n" + "word " * 900 + "\n:::\n", 1),
    ],
)
def test_minutes_are_those_of_prose_and_of_what_one_looks_at(tmp_path, rest, minutes):
    _, app = build(tmp_path, THREE, rest)
    page = (Path(app.outdir) / "index.html").read_text()
    assert f"about {minutes} minute{'s' if minutes > 1 else ''} to read" in page
