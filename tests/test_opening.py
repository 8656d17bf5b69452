"""The opening of a chapter: three paragraphs and the minutes that its page takes."""

from __future__ import annotations

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from small_site import build

from booksite import opening

THREE = "What is it?\n\nA *thing*.\n\nThings matter.\n"


def built(folder, content: str, rest: str = "") -> tuple[str, str]:
    """A book of one page, and its warnings."""
    out, warnings, _ = build(
        folder,
        {"index.md": f"# Title\n\n:::{{opening}}\n{content}:::\n\n{rest}\n"},
        extensions=["myst_parser", "sphinx_design", "booksite.opening"],
        myst_enable_extensions=["colon_fence", "dollarmath"],
    )
    return (out / "index.html").read_text(), warnings


def test_three_paragraphs_become_four_terms(tmp_path):
    page, warnings = built(tmp_path, THREE)
    assert not warnings
    question, answer, why, time = (f"<dt>{name}" for name in (*opening.PARTS, opening.TIME))
    texts = [question, "What is it?", answer, "<em>thing</em>", why, "Things matter.", time]
    places = [page.index(text) for text in texts]
    assert places == sorted(places)
    assert "about 1 minute to read" in page


@pytest.mark.parametrize("content", ["Two?\n\nParagraphs.\n", f"{THREE}\nA fourth.\n", "- list\n"])
def test_any_other_number_is_refused(tmp_path, content):
    _, warnings = built(tmp_path, content)
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
    page, _ = built(tmp_path, THREE, rest)
    assert f"about {minutes} minute{'s' if minutes > 1 else ''} to read" in page
