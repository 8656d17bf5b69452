"""Simple formulas are set as text, so that a page with no others needs no MathJax."""

from __future__ import annotations

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from docutils import nodes
from small_site import build

from booksite import glossary
from booksite.formulas import simple


def html_of(tex: str) -> str | None:
    """What `simple` makes of a formula, with the tags that Sphinx writes."""

    def written(node: nodes.Node) -> str:
        if isinstance(node, nodes.Text):
            return node.astext()
        tags = {"emphasis": "em", "superscript": "sup", "subscript": "sub", "inline": "span"}
        tag = tags[type(node).__name__]
        return f"<{tag}>{''.join(map(written, node.children))}</{tag}>"

    made = simple(tex)
    return None if made is None else "".join(map(written, made))


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        (
            "T^{ee}_{b,a}",
            "<em>T</em><sup><em>ee</em></sup><sub><em>b</em>,<em>a</em></sub>",
        ),
        (r"\sqrt{d'}", "<span>√<em>d</em>′</span>"),
        (r"1/\sigma", "1/<em>σ</em>"),
        (r"\Delta", "Δ"),
        (r"\mathrm{Var}(p_0)", "Var(<em>p</em><sub>0</sub>)"),
        (
            r"\operatorname{KL}(\alpha \,\Vert\, \alpha^{-T})",
            "KL(<em>α</em>\u202f‖\u202f<em>α</em><sup>−<em>T</em></sup>)",
        ),
    ],
)
def test_letters_raised_and_lowered_are_text(tex, expected):
    assert html_of(tex) == expected


@pytest.mark.parametrize(
    "tex",
    [r"\frac12", r"\sqrt{d'+1}", "a + b", r"x_\alpha", r"\approx", r"\mathbf 1", "{x}"],
)
def test_what_text_cannot_set_is_left_to_mathjax(tex):
    assert simple(tex) is None


def test_a_page_is_set_as_text_if_all_of_it_can_be(tmp_path):
    """Symbols keep their notes; one formula that needs MathJax leaves the page as it is."""
    pages = {
        glossary.FILE.as_posix(): "- {tex: ['T^{ee}'], term: ee, words: a note}\n",
        "index.md": "# Page\n\nOf $T^{ee}$ and $x$.\n\n```{toctree}\nmixed\nshown\n```\n",
        "mixed.md": "# Mixed\n\n$x$ and $x + 1$.\n",
        "shown.md": "# Shown\n\n$x$\n\n$$x$$\n",
    }
    out, warnings, _ = build(
        tmp_path,
        pages,
        extensions=["myst_parser", "booksite.glossary", "booksite.formulas", "booksite.light"],
        myst_enable_extensions=["dollarmath"],
        mathjax_path="mathjax/tex.js",
    )
    assert not warnings
    index, mixed, shown = (
        (out / f"{name}.html").read_text("utf-8") for name in ("index", "mixed", "shown")
    )
    term = "<em>T</em><sup><em>ee</em></sup></span></span> and <span"
    assert f'data-note="token → token: a note"><span class="formula">{term}' in index
    assert 'src="_static/mathjax/tex.js' not in index
    assert "MathJax" in mixed or "mathjax/tex.js" in mixed
    assert mixed.count('class="math') == 2
    assert shown.count('class="math') == 2
