"""The opening of a chapter, the minutes that its page takes, and the panel of its own model."""

from __future__ import annotations

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from docutils import nodes
from docutils.utils import new_document
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


@pytest.mark.parametrize(
    ("rest", "minutes"),
    [
        ("word " * 10 * opening.WORDS, 10),
        ("word " * 4 * opening.WORDS + "\n\n$$a = b$$\n" * 8, 6),
        ("word " * 5 * opening.WORDS + "\n\n```python\n" + "code " * 900 + "\n```\n", 5),
        ("```{raw} html\n<table></table>\n```\n\n" * 12, 3),
        (":::{dropdown} Solution\n" + "word " * 900 + "\n:::\n", 1),
    ],
)
def test_minutes_are_those_of_prose_and_of_what_one_looks_at(tmp_path, rest, minutes):
    page, _ = built(tmp_path, THREE, rest)
    assert f"about {minutes} minute{'s' if minutes > 1 else ''} to read" in page


def test_markup_within_a_sentence_is_not_read():
    """Such as what stands behind the mark of a checked sentence."""
    mark = nodes.raw("", "word " * 9 * opening.WORDS, format="html")
    sentence = nodes.paragraph("", "", nodes.Text("word " * 2 * opening.WORDS), mark)
    assert opening.minutes(nodes.section("", sentence)) == 2


def with_model(name: str) -> str:
    """A chapter with a picture, a section, and the panel of a model of this name."""
    banner = f'<p class="lnattn-banner">Model: <strong>{name}</strong> (chosen).</p>'
    picture = "![seen](https://example.org/a.png)\n"
    return (
        f"```{{raw}} html\n{banner}\n```\n\n:::{{figure-md}}\n{picture}\nCaption.\n:::\n\n"
        f"## First\n\ntext\n\n## {opening.PANEL}\n\n" + "word " * 900 + "\n"
    )


@pytest.mark.parametrize(
    ("name", "shown", "is_open"),
    [("openai-community/gpt2", "GPT-2", True), ("book-gpt2", "book-gpt2", False)],
)
def test_the_panel_names_its_model_and_is_first_and_open_on_gpt2(tmp_path, name, shown, is_open):
    page, _ = built(tmp_path, THREE, with_model(name))
    panel = page.index(f"<h2>On {shown}<")
    assert (panel < page.index("<h2>First<")) == is_open
    assert "about 1 minute to read" in page
    assert ("to read, and 5 for the panel On GPT-2" in page) == is_open
    assert "</details>" in page
    assert ('<details class="on-model" open>' in page) == is_open


def test_the_answer_stands_before_the_picture_and_the_rest_behind_it(tmp_path):
    cell = (
        ":::{container}\n:::{figure-md}\n![seen](https://example.org/a.png)\n\nCaption.\n:::\n:::\n"
    )
    page, _ = built(tmp_path, THREE, cell)
    question, answer = page.index("What is it?"), page.index("Short answer")
    picture, why = page.index("<figure"), page.index("Why it matters")
    assert question < answer < picture < why < page.index("about 1 minute")


def test_the_cell_that_says_what_a_page_was_made_with_is_folded_and_no_other():
    def cell(text: str) -> nodes.container:
        output = nodes.raw("", text, format="html")
        return nodes.container("", output, nb_element="cell_code", classes=["cell"])

    banner = '<p class="lnattn-banner">Model: <strong>book-gpt2</strong> (chosen).</p>'
    made, other = cell(banner), cell("<p>Model: none</p>")
    doctree = new_document("page")
    doctree += [made, other]
    opening.arrange(doctree)
    assert made["classes"] == ["cell", "page-made"]
    assert (made["hide_mode"], made["prompt_show"]) == ("all", opening.MADE)
    assert other["classes"] == ["cell"]
    assert "hide_mode" not in other
