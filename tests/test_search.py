"""The search leads where a person means: asked of the built site, in a browser."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("playwright", reason="Playwright is absent: pip install .[test]")
from browsing import tab_in
from site_pages import SITE, needs_site, served

pytestmark = needs_site

#: What is typed, and the page that is to be among the first three.
WANTED = {
    "RoPE": "notebooks/12-rotary",
    "rotary positions": "notebooks/12-rotary",
    "the switch": "notebooks/13-for-every-text",
    "later layers": "notebooks/layers-above",
    "run": "book/how-to-re-execute",
    "how to run": "book/how-to-re-execute",
    "install": "book/how-to-re-execute",
    "cite": "book/index",
    "my own model": "book/token-explorer",
    "your own sentence": "book/token-explorer",
    "book-gpt2": "notebooks/book-model",
    "position bias": "notebooks/05-position-bias",
    "six terms": "notebooks/03-six-terms",
    "AUROC": "notebooks/04-detokenization-heads",
    "detokenization": "notebooks/04-detokenization-heads",
    "layer norm": "notebooks/01-layernorm",
    "folding": "notebooks/02-folding",
    "contributions": "notebooks/06-contributions",
    "variance": "notebooks/07-variance",
    "majority": "notebooks/08-majority",
    "unselectable": "notebooks/09-unselectable-keys",
    "claims": "book/claims",
    "symbols": "book/notation",
    "command line": "notebooks/cli",
    "OpenWebText": "notebooks/counting",
}
#: Names as Python spells them, and where they stand: the first that is found.
NAMED = {
    "token_vectors": "book/api/attention#lnattn.attention.vectors.token_vectors",
    "load_first_layer": "book/api/models#lnattn.models.checkpoints.load_first_layer",
    "HeadAuroc": "book/api/affinity#lnattn.affinity.auroc.HeadAuroc",
    "lnattn.affinity.auroc": "book/api/affinity#module-lnattn.affinity.auroc",
    "ln_f": "",  # no name of the package
}
#: Pages, best first, that the search finds for words.
FOUND = (
    """words => Search._performSearch(...Search._parseQuery(words)).reverse().map(one => one[0])"""
)
#: The same with their places.
PLACES = FOUND.replace("one[0]", "one[0] + one[2]")
#: What is shown of a page under its title.
SNIPPETS = """[...document.querySelectorAll('#search-results li')].map(one => [
  one.querySelector('a').getAttribute('href'), one.querySelector('.context')?.textContent ?? ''])"""


@pytest.fixture(scope="module")
def tab(chromium):
    with served(SITE) as address, tab_in(chromium) as tab:
        tab.go(f"{address}search.html?q=attention")
        tab.until("/found/.test(document.querySelector('#search-results p')?.textContent ?? '')")
        yield tab


@pytest.mark.parametrize("words", WANTED)
def test_the_page_that_is_meant_is_among_the_first_three(words, tab):
    found = list(dict.fromkeys(tab.page.evaluate(FOUND, words)))
    assert WANTED[words] in found[:3], f"{words}: {', '.join(found[:5])}"


@pytest.mark.parametrize("name", NAMED)
def test_a_name_of_the_package_leads_to_its_docstring(name, tab):
    first, *_ = tab.page.evaluate(PLACES, name)
    if NAMED[name]:
        assert first == NAMED[name]
    else:
        assert not first.startswith("book/api/")


def test_a_snippet_begins_with_text_of_its_page(tab):
    """Not with the list of its contents, its title or a button."""
    tab.until(f"{SNIPPETS}.filter(one => one[1]).length > 5")
    snippets = [(page, text) for page, text in tab.evaluate(SNIPPETS) if text]
    for page, text in snippets:
        assert re.match(r"…?[\w'‘“(–@-]", text), f"{page}: {text[:80]}"
        assert "Contents" not in text[:40], f"{page}: {text[:80]}"
