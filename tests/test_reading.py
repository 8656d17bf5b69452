"""A reference to another page shows what is there; in a real browser, on two small pages."""

from __future__ import annotations

import pytest
from site_pages import ROOT, served

LINKS = {
    "chapter": "other.html#ch-six",
    "figure": "other.html#fig-y",
    "equation": "other.html#equation-y",
    "section": "other.html#more",
    "page": "other.html",
    "nowhere": "other.html#nowhere",
    "absent": "absent.html#more",
}
PAGE = """<!DOCTYPE html><title>One</title><div class="bd-article">{links}
<a class="reference internal" id="code" href="other.html#more"><code>f</code></a></div>
<script src="reading.js"></script>"""
OTHER = """<!DOCTYPE html><title>Other</title><article class="bd-article"><section id="six">
<span id="ch-six"></span><h1>05 · Six<a class="headerlink">#</a></h1>
<p class="chapter-question">Which?</p><dl class="chapter-opening"><dt>Short answer</dt>
<dd><p>Six <i>terms</i>.</p></dd></dl><figure id="fig-y"><img id="i" alt="" src="../y.png">
<figcaption><span class="caption-text">Its caption</span></figcaption></figure>
<div class="math" id="equation-y"><span>(2)<a class="headerlink">#</a></span>y = 2</div>
<section id="more"><h2>More</h2><p>First words.</p></section></section></article>"""
NOTE = "[...document.querySelectorAll('.citation-note')].find(note => !note.hidden)"
WORDS = f"{NOTE}?.textContent.replace(/\\s+/g, ' ').trim()"
READ = "performance.getEntriesByType('resource').map(one => one.name.split('/').at(-1))"
REST = "new Promise(done => setTimeout(done, 400))"


@pytest.fixture
def folder(tmp_path):
    links = "".join(
        f'<a class="reference internal" id="{name}" href="{address}">{name}</a>'
        for name, address in LINKS.items()
    )
    place = tmp_path / "n"
    place.mkdir()
    (place / "one.html").write_text(PAGE.format(links=links), encoding="utf-8")
    (place / "other.html").write_text(OTHER, encoding="utf-8")
    script = ROOT / "src" / "booksite" / "assets" / "reading.js"
    (place / "reading.js").write_text(script.read_text("utf-8"), encoding="utf-8")
    return tmp_path


@pytest.fixture
def tab(chromium):
    tab = chromium.open(1280, 900)
    yield tab
    tab.close()


def told(tab, name: str) -> str | None:
    """What the note says a while after a link has got the focus; it is gone afterwards."""
    tab.evaluate(f"document.getElementById('{name}').focus()")
    tab.evaluate(REST)
    words = tab.evaluate(WORDS)
    tab.evaluate(f"document.getElementById('{name}').blur()")
    assert tab.evaluate(WORDS) is None
    return words


def test_a_reference_to_another_page_shows_what_is_there(tab, folder):
    with served(folder) as base:
        tab.go(f"{base}n/one.html")
        tab.evaluate("document.getElementById('section').focus()")
        tab.evaluate("document.getElementById('section').blur()")
        tab.evaluate(REST)
        assert "other.html" not in tab.evaluate(READ), "read before the pointer rested"
        assert told(tab, "chapter") == told(tab, "page") == "05 · Six. Six terms."
        assert told(tab, "equation") == "(2)y = 2"
        assert told(tab, "section") == "More. First words."
        assert told(tab, "figure") == "Its caption"
        assert [told(tab, name) for name in ("nowhere", "absent", "code")] == [None] * 3
        assert tab.evaluate(READ).count("other.html") == 1
        tab.evaluate("document.getElementById('figure').focus()")
        tab.until(NOTE)
        image = f"(() => {{ const i = {NOTE}.querySelector('img'); return [i.src, i.id]; }})()"
        assert tab.evaluate(image) == [f"{base}y.png", ""]
        tab.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
        assert tab.evaluate(WORDS) is None


def test_a_page_that_is_a_file_reads_no_other(tab, folder):
    tab.go((folder / "n" / "one.html").as_uri())
    assert told(tab, "chapter") is None
    tab.collect()
    assert not tab.of("Log.entryAdded")
    assert not tab.of("Runtime.exceptionThrown")
