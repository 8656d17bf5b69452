"""The opening of a chapter, the minutes that its page takes, and the panel of its own model."""

from __future__ import annotations

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from docutils import nodes
from docutils.utils import new_document
from small_site import build

from booksite import opening
from lnattn_book.page.banner import describe

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
        ("word " * 4 * opening.WORDS + "\n\n$$a = b$$\n" * 8, 8),
        ("word " * 5 * opening.WORDS + "\n\n```python\n" + "code " * 900 + "\n```\n", 5),
        ("```{raw} html\n<table></table>\n```\n\n" * 12, 6),
        (":::{dropdown} Solution\n" + "word " * 900 + "\n:::\n", 1),
        ("word " * 342 + "\n\n$$a = b$$\n" * 3, 4),
        ("```{figure} a.png\n\nA caption.\n```\n\n" * 3, 3),
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


def test_a_hundred_minutes_are_as_many_times_160_words():
    assert opening.minutes(nodes.section("", nodes.paragraph("", "word " * 16_000))) == 100


@pytest.mark.parametrize(
    "content", ["One.\n\nTwo.\n", f"{THREE}\nFour.\n", "One.\n\nTwo.\n\n- a list\n"]
)
def test_an_opening_of_other_parts_is_an_error(tmp_path, content):
    page, warnings = built(tmp_path, content)
    assert "an opening is 3 paragraphs (question, short answer, why it matters)" in warnings
    assert "chapter-question" not in page


def banner(name: str) -> dict:
    """A cell that shows which model the page is about."""
    _, metadata = describe(name)._repr_mimebundle_()
    return {"outputs": [{"output_type": "stream"}, {"metadata": metadata}]}


def with_model() -> str:
    """A chapter with a picture, a section, and the panel of the page's model."""
    picture = "![seen](https://example.org/a.png)\n"
    return (
        f":::{{figure-md}}\n{picture}\nCaption.\n:::\n\n"
        f"## First\n\ntext\n\n## {opening.PANEL}\n\n" + "word " * 900 + "\n"
    )


@pytest.mark.parametrize(
    ("name", "shown", "is_open"),
    [
        ("openai-community/gpt2", "GPT-2", True),
        ("book-gpt2", "book-gpt2", False),
        ("A", "A", False),
    ],
)
def test_the_panel_names_its_model_and_is_first_and_open_on_gpt2(
    tmp_path, monkeypatch, name, shown, is_open
):
    monkeypatch.setattr(opening, "executed_notebook", lambda _app, _page: {"cells": [banner(name)]})
    page, _ = built(tmp_path, THREE, with_model())
    panel = page.index(f"<h2>On {shown}<")
    assert (panel < page.index("<h2>First<")) == is_open
    assert "about 1 minute to read" in page
    assert ("to read, and 6 for the panel On GPT-2" in page) == is_open
    assert panel < page.index("<details", panel) < page.index("word word", panel)
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
    other, made = (
        nodes.container("", nb_element="cell_code", classes=["cell"], cell_index=index)
        for index in (0, 1)
    )
    doctree = new_document("page")
    doctree += [other, made]
    found = opening.made_with({"cells": [{}, banner("openai-community/gpt2"), banner("x")]})
    assert found == (1, "GPT-2")
    assert opening.made_with({"cells": [{"outputs": []}]}) is None
    opening.arrange(doctree, found)
    assert made["classes"] == ["cell", "page-made"]
    assert (made["hide_mode"], made["prompt_show"]) == ("all", opening.MADE)
    assert other["classes"] == ["cell"]
    assert "hide_mode" not in other
    made["hide_mode"] = "input"
    opening.arrange(doctree, found)
    assert made["hide_mode"] == "all", "whatever its author said"


@pytest.mark.parametrize(
    ("given", "cells", "order"),
    [
        ("HEAD = 3\nMODEL = None", ["start(HEAD)", "x", "y[HEAD]"], "start x given y[HEAD] panel"),
        ("HEAD = 3", ["start(HEAD)", "FIGURE HEAD", "y"], "start FIGURE given y panel"),
        ("MODEL = None", ["start(MODEL)", "MODELS"], "start MODELS panel: given"),
        ("HEAD = 3", ["start", "HEADS"], "start HEADS panel: given"),
    ],
)
def test_what_may_be_changed_stands_where_its_change_is_seen(given, cells, order):
    def cell(index: int, source: str, *classes: str) -> nodes.container:
        part = nodes.container("", nodes.literal_block(source, source))
        shown = [nodes.figure()] if "FIGURE" in source else []
        options = {"nb_element": "cell_code", "classes": ["cell", *classes], "cell_index": index}
        return nodes.container("", part, *shown, **options)

    parameters = cell(0, given, "tag_parameters")
    panel = nodes.section("", nodes.title("", opening.PANEL))
    doctree = new_document("page")
    doctree += [parameters, *(cell(index, source) for index, source in enumerate(cells, 1)), panel]
    opening.arrange(doctree, opening.Made(1, "x"))
    named = [
        "given" if node is parameters else node[0].astext().split("(")[0].replace(" HEAD", "")
        for node in doctree
    ]
    inside = [": given"] if parameters in panel.children else []
    assert " ".join(named).replace(opening.PANEL, "panel") + "".join(inside) == order


def order_of(*between: nodes.Node) -> list[str]:
    """An opening's rest and nodes behind it, as `arrange` leaves them: their classes or kinds."""
    rest = nodes.definition_list("", classes=[opening.REST])
    section = nodes.section("", rest, *between)
    doctree = new_document("page")
    doctree += section
    opening.arrange(doctree, None)
    return [(node.get("classes") or [type(node).__name__])[0] for node in section.children]


def test_the_rest_stands_behind_the_first_picture_if_no_prose_is_before_it():
    def picture() -> nodes.container:
        return nodes.container("", nodes.figure())

    rest = opening.REST
    others = (nodes.container(), nodes.comment(), nodes.target())
    names = ["container", "comment", "target"]
    assert order_of(*others, picture(), picture()) == [*names, "container", rest, "container"]
    prose = nodes.paragraph("", "words")
    assert order_of(prose, picture()) == [rest, "paragraph", "container"]
    assert order_of(*(node.deepcopy() for node in others)) == [rest, *names]


def test_a_panel_is_named_by_its_own_title_and_no_section_without_one():
    inner = nodes.section("", nodes.title("", opening.PANEL), nodes.paragraph("", "x"))
    bare = nodes.section("", nodes.paragraph("", "y"))
    doctree = new_document("page")
    doctree += [bare, nodes.section("", inner)]
    opening.put_panel(doctree, None)
    assert inner.children[0].astext() == "On the model of this page"
    assert [section["classes"] for section in doctree.findall(nodes.section)] == [
        [], [], ["on-model-folded"]
    ]  # fmt: skip
