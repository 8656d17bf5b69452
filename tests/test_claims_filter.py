"""The claims page in a real browser, from a file: filter, share a view; notes; print.

Skipped, by name, where Sphinx or Chromium is not installed.
"""

from __future__ import annotations

import json

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from test_claims_page import RECORDS, Book

from lnattn_book.claims.listed import claims

SHOWN = """(() => [...document.querySelectorAll('.claims-all .claim')]
  .filter(row => !row.hidden).map(row => row.querySelector('b').textContent))()"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A small book's claims page, as a file, with three records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LNATTN_MODEL", "tiny")
        book = Book(tmp_path_factory.mktemp("book"))
        other = {"claim": "K2", "model": "another", "verdict": "holds in part", "words": "7"}
        book.leave([*RECORDS, other])
        book.build(mathjax_path="no-mathjax.js")
        yield (book.out / "book" / "claims.html").as_uri()


@pytest.fixture
def page(chromium, address):
    tab = chromium.open(1280, 900)
    tab.go(address)
    yield tab
    tab.close()


def choose(page, name: str, value: str) -> None:
    """Set one field of the filter as a reader would, with the event that follows."""
    page.evaluate(
        f"(() => {{ const f = document.querySelector('.claims-filter [name={name}]');"
        f"f.value = {json.dumps(value)};"
        "f.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def press(page, key: str, code: int, text: str = "") -> None:
    for kind, typed in (("keyDown", text), ("keyUp", "")):
        page.call(
            "Input.dispatchKeyEvent", type=kind, key=key, text=typed, windowsVirtualKeyCode=code
        )


def test_all_rows_are_shown_at_first_and_each_filter_narrows(page):
    assert sorted(page.evaluate(SHOWN)) == sorted(claims())
    said = page.evaluate("document.querySelector('.claims-shown').textContent")
    assert said == f"{len(claims())} of {len(claims())} claims"
    choose(page, "from", "K")
    assert page.evaluate(SHOWN) == [name for name in claims() if name[0] == "K"]
    found = "[...document.querySelectorAll('#claim-k2 .found')].map(one => !one.hidden)"
    assert page.evaluate(found) == [True, True]
    choose(page, "verdict", "fails")
    assert page.evaluate(SHOWN) == ["K2"]
    assert page.evaluate(found) == [True, False]
    choose(page, "model", "another")
    assert page.evaluate(SHOWN) == []  # that model's verdict is another one
    assert "0 of" in page.evaluate("document.querySelector('.claims-shown').textContent")
    page.evaluate("document.querySelector('.claims-filter [type=reset]').click()")
    page.until(f"({SHOWN}).length === {len(claims())}")
    assert page.evaluate(found) == [True, True]


def test_all_words_must_be_there_in_any_case(page):
    choose(page, "words", "KEY bias")
    assert set(page.evaluate(SHOWN)) == {"K2", "K22", "R1"}
    choose(page, "words", "<script>")
    assert page.evaluate(SHOWN) == []


def test_the_keyboard_is_enough(page):
    """Tab leads to every control, in order; Enter on a line unfolds it."""
    page.evaluate("document.querySelector('.claims-filter input').focus()")
    reached = []
    for _ in range(5):
        focused = "document.activeElement.name || document.activeElement.textContent"
        reached.append(page.evaluate(focused))
        press(page, "Tab", 9)
    assert reached == ["words", "from", "verdict", "model", "Show all"]
    page.evaluate("document.querySelector('#claim-k2 summary').focus()")
    press(page, "Enter", 13, "\r")
    assert page.evaluate("document.querySelector('#claim-k2').open") is True


def test_a_view_can_be_shared_by_its_address(page, chromium):
    choose(page, "verdict", "fails")
    choose(page, "words", "key")
    shared = page.evaluate("location.href")
    assert shared.endswith("?words=key&verdict=fails")
    other = chromium.open(400, 800)
    try:
        other.go(shared)
        assert other.evaluate(SHOWN) == ["K2"]
        other.go(shared.replace("fails", "%3Cscript%3E"))
        assert set(other.evaluate(SHOWN)) >= {"K2"}
        assert other.evaluate("document.querySelector('[name=verdict]').value") == ""
    finally:
        other.close()


def test_an_address_opens_its_claim_and_the_group_it_is_folded_in(page, chromium, address):
    other = chromium.open(400, 800)
    try:
        other.go(f"{address}#claim-m3")
        opened = "[...document.querySelectorAll('.claims-all details[open] > summary')]"
        shown = f"{opened}.map(one => one.textContent.split(' ').slice(0, 2).join(' '))"
        assert other.evaluate(shown) == ["Transformer notes:", "M3 A"]
        wide = "document.documentElement.scrollWidth <= innerWidth"
        assert other.evaluate(wide) is True
    finally:
        other.close()


def test_the_page_is_quiet(page):
    """No script error; what fails to load is the mathematics that this small book goes without."""
    page.collect()
    assert not page.of("Runtime.exceptionThrown")
    assert all("no-mathjax.js" in e["entry"].get("url", "") for e in page.of("Log.entryAdded"))


def test_symbols_and_equations_show_what_they_are(page):
    """Under the pointer, on focus and on a tap."""
    page.evaluate("""(() => {
      const article = document.createElement('div');
      article.className = 'bd-article';
      article.innerHTML = `
        <span class="symbol" data-note="a <b>note</b>"><i id="formula" tabindex="0">T</i></span>
        <a class="reference internal" id="to-equation" href="#equation-x">(1)</a>
        <a class="reference internal" id="to-heading" href="#heading">elsewhere</a>
        <h2 id="heading">A heading</h2>
        <div class="math" id="equation-x">x = 1</div>`;
      document.body.prepend(article);
      const again = document.createElement('script');
      again.src = document.querySelector('script[src*="reading.js"]').src;
      return new Promise(done => { again.onload = done; document.body.append(again); });
    })()""")
    notes = "[...document.querySelectorAll('.citation-note')].filter(note => !note.hidden)"
    visible = f"{notes}.map(note => note.textContent.trim())"
    page.evaluate("document.querySelector('#formula').focus()")
    assert page.evaluate(visible) == ["a <b>note</b>"]
    page.evaluate("document.querySelector('#formula').blur()")
    assert page.evaluate(visible) == []
    tap = "document.querySelector('.symbol').dispatchEvent(new MouseEvent('click'))"
    page.evaluate(f"{tap}; 0")
    assert page.evaluate(visible) == ["a <b>note</b>"]
    outside = "document.body.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true})); 0"
    page.evaluate(outside)
    assert page.evaluate(visible) == []
    page.evaluate("document.querySelector('#to-equation').focus()")
    assert page.evaluate(visible) == ["x = 1"]
    page.evaluate("document.querySelector('#to-heading').focus()")
    assert page.evaluate(visible) == []


def test_a_printed_page_is_light_and_then_as_it_was(page):
    theme = "document.documentElement.dataset.theme"
    page.evaluate(f"{theme} = 'dark'; dispatchEvent(new Event('beforeprint')); 0")
    assert page.evaluate(theme) == "light"
    page.evaluate("dispatchEvent(new Event('afterprint')); 0")
    assert page.evaluate(theme) == "dark"
