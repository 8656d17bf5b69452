"""How a page shows what cells give: minus signs, columns, edges, and names of folded code."""

from __future__ import annotations

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from browsing import PHONE, tab_in
from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document
from small_site import build

from booksite.outputs import name, sign, with_minus

#: As pandas writes a frame with two levels of heads and of rows.
FRAME = """<table>
<thead>
<tr><th></th><th></th><th colspan="2">loss</th><th>of</th></tr>
<tr><th>model</th><th>layer</th><th>mean</th><th>least</th><th>whom</th></tr>
</thead>
<tbody>
<tr><th rowspan="2">GPT-2</th><th>0</th><td>-0.5</td><td>1e-05</td><td>2026-11-28</td></tr>
<tr><th>1</th><td>0.25</td><td>-3 [-4, -2]</td><td>heads 3-5</td></tr>
<tr><td colspan="5">-7 across</td></tr>
</tbody></table>"""
PAGE = f"""# Tables

```{{raw}} html
<div class="bd-article" style="max-width: 10rem">
<div class="output" style="overflow-x: auto">{FRAME}</div></div>
```

| Claim | by |
|:--|:--|
| `-1` | -2 and **-3** |

It is -8 here.
"""


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("-0.3", "−0.3"), ("[-.5, -1e-05]", "[−.5, −1e−05]"), ("GPT-2", "GPT-2"),
        ("2026-11-28", "2026-11-28"), ("3-5", "3-5"), ("10%-20%", "10%-20%"), ("a - b", "a - b"),
        ("(2)-3", "(2)-3"), ("2e-7 ± 1e-9", "2e−7 ± 1e−9"), ("pre-LN", "pre-LN"), ("--3", "--3"),
    ],
)  # fmt: skip
def test_a_hyphen_that_is_a_sign_becomes_one(written, shown):
    assert with_minus(written) == shown


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    own = ["myst_parser", "booksite.outputs", "booksite.assets"]
    out, warnings, _ = build(tmp_path_factory.mktemp("book"), {"index.md": PAGE}, extensions=own)
    assert warnings == ""
    return out


def test_the_cells_of_every_table_have_true_minus_signs(site):
    page = BeautifulSoup((site / "index.html").read_text("utf-8"), "html.parser")
    frame, markdown = page.select("table")
    cells = [cell.text for cell in frame.select("td")]
    assert cells == ["−0.5", "1e−05", "2026-11-28", "0.25", "−3 [−4, −2]", "heads 3-5", "−7 across"]
    assert [cell.text for cell in markdown.select("td")] == ["-1", "−2 and −3"], "code is code"
    assert "It is -8 here" in page.text


def test_numbers_are_set_to_the_right_under_merged_heads_and_beside_merged_rows(site, chromium):
    classes = """[...document.querySelectorAll('table')[0].rows].map(row =>
      [...row.cells].map(cell => cell.classList.contains('number') ? 1 : 0).join(''))"""
    edges = """(() => { const {classList} = document.querySelector('.output');
      return [classList.contains('goes-on'), classList.contains('came-from')]; })()"""
    with tab_in(chromium, PHONE) as tab:
        tab.go((site / "index.html").as_uri())
        assert tab.evaluate(classes) == ["0000", "00110", "00110", "0110", "0"]
        assert tab.evaluate(edges) == [True, False]
        tab.evaluate("void document.querySelector('.output').scrollBy(9999, 0)")
        tab.until("document.querySelector('.output.came-from:not(.goes-on)')")


def test_folded_code_is_called_by_what_it_makes():
    made = {
        "figure": nodes.figure("", nodes.image(uri="a.svg")),
        "table": nodes.raw("", FRAME, format="html"),
        "picture": nodes.image(uri="a.svg"),
        "output": nodes.literal_block("", "7"),
    }
    document = new_document("page")
    for output in made.values():
        document += nodes.container("", output, hide_mode="input", prompt_show="Show {type}")
    document += nodes.container("", hide_mode="input", prompt_show="Setup")
    document += nodes.container("", hide_mode="all", prompt_show="Show {type}")
    name(None, document)
    called = [cell["prompt_show"] for cell in document.children]
    assert called == [*(f"Code of the {what}" for what in made), "Setup", "Show {type}"]
    sign(None, document)
    assert "<td>−0.5</td>" in document.astext()
