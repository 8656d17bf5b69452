"""The built site in a real browser: nothing from other hosts, no errors, mathematics, phones.

And for everyone: axe-core finds no grave violation, in the light colours or the dark ones.
Skipped, by name, where the site is not built (`make book`) or no Chromium is installed.
"""

from __future__ import annotations

import re
from pathlib import Path

import browsing
import pytest
from browsing import DESKTOP, PHONE, Tab, tab_in
from site_pages import SEEN, SITE, SYSTEM_PAGES, each_page, needs_site, seen_before, served

needs_browser = pytest.mark.skipif(
    browsing.executable() is None, reason="no Chromium is installed here; apt-get install chromium"
)
pytestmark = [needs_site, needs_browser]


@pytest.fixture(scope="module")
def address():
    with served(SITE) as address:
        yield address


# Scrolls to what waits for a reader to come near.
EXPLORED = """(() => {
  const waiting = [...document.querySelectorAll('.token-explorer')].find(e => !e.dataset.state);
  waiting?.scrollIntoView();
  return !waiting;
})()"""
# A picture far down the page is fetched when a reader comes near it; here, before it is looked at.
FETCH = """
Promise.all([...document.querySelectorAll('img[loading=lazy]')].map(image => {
  image.loading = 'eager';
  return image.decode().catch(() => null);
})).then(() => true)
"""
LOOK = """
(() => {
  const article = document.querySelector('.bd-article') ?? document.body;
  const formulas = [...article.querySelectorAll('.math')];
  // Wider than a box that hides what is too wide, with no scroll bar to get at it.
  const cut = part => {
    for (let box = part; box && box !== article; box = box.parentElement) {
      const way = getComputedStyle(box).overflowX;
      if (way === 'auto' || way === 'scroll') return false;
      if (way !== 'visible' && box.scrollWidth > box.clientWidth + 1) return true;
    }
    return false;
  };
  return {
    formulas: formulas.length,
    rendered: formulas.filter(e => e.querySelector('mjx-container')).length,
    broken: [...document.querySelectorAll('mjx-merror, [data-mjx-error]')].map(e => e.title
      || e.dataset.mjxError || e.textContent),
    raw: formulas.filter(e => !e.querySelector('mjx-container')).map(e => e.textContent),
    nameless: [...article.querySelectorAll('img')]
      .filter(e => !e.alt.trim() || e.getAttribute('src').endsWith(e.alt)).map(e => e.src),
    empty: [...article.querySelectorAll('img')].filter(e => e.naturalWidth === 0).map(e => e.src),
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    clipped: [...article.querySelectorAll('mjx-container[display], table, td, pre')]
      .filter(e => cut(e)).slice(0, 5).map(e => e.tagName + ' ' + e.textContent.slice(0, 60)),
    wide: [...article.querySelectorAll('*')]
      .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
      .slice(0, 5).map(e => e.tagName + '.' + e.className),
    headings: article.querySelectorAll('h1').length,
    language: document.documentElement.lang,
  };
})()
"""


#: Every shift of the layout that no touch or key has caused, from the start.
SHIFTS = """
window.shifted = 0;
new PerformanceObserver(list => {
  for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifted += shift.value;
}).observe({type: 'layout-shift', buffered: true});
"""


def least_shift(chromium, url: str, until: str | None = None) -> float:
    """How far a page jumps while it loads, on a phone: the least of at most six visits.

    A jump that is in the page is there each time. A browser that waits for a processor may paint
    between two scripts of one task: 0.43 once, and 0.002 in forty other visits of the same page;
    0.47 in three visits in a row on a machine with more to do than it has processors.
    """
    shifted = 1.0
    for _ in range(6):
        with tab_in(chromium, PHONE) as tab:
            tab.page.add_init_script(SHIFTS)
            tab.go(url)
            if until is not None:
                tab.until(until)
            tab.page.wait_for_timeout(500)
            shifted = min(shifted, tab.evaluate("window.shifted"))
        if shifted < 0.1:
            break
    return shifted


@each_page
def test_a_page_in_the_browser(page, address, chromium):
    """Everything is looked at in one visit, and reported together: visits are what takes time."""
    # CI looks at both editions; a page whose article is the same in both was checked in the other.
    if seen_before(page):
        pytest.skip(f"the same in {SEEN}, which was looked at before")
    with tab_in(chromium, PHONE) as tab:
        tab.page.add_init_script(SHIFTS)
        tab.go(address + page)
        tab.evaluate(FETCH)
        shifted = tab.evaluate("window.shifted")
        phone = tab.evaluate(LOOK)
        tab.resize(DESKTOP)
        tab.page.wait_for_timeout(600)  # the theme looks anew a moment after the window's change
        desktop = tab.evaluate(LOOK)
        light, dark = barriers(tab, page)
        wrong, urls = tab.problems, tab.requests
    assert urls, "the browser reported no request at all"
    elsewhere = [url for url in urls if not url.startswith((address, "data:", "blob:"))]
    assert not elsewhere, "requests to other hosts"
    assert not wrong, "failed requests, or errors on the console"
    assert shifted < 0.1 or least_shift(chromium, address + page) < 0.1, "jumps while it loads"
    assert not phone["broken"], "formulas that MathJax could not read"
    assert not phone["raw"], "formulas that were not rendered"
    assert phone["rendered"] == phone["formulas"]
    assert not phone["nameless"], "images without alternative text"
    assert not phone["empty"], "images without content"
    assert phone["overflow"] <= 0, f"scrolls sideways at 390 px: {phone['wide']}"
    assert not phone["clipped"], "cut off at 390 px"
    assert not desktop["clipped"], "cut off at 1440 px"
    assert desktop["overflow"] <= 0, f"scrolls sideways at 1440 px: {desktop['wide']}"
    assert phone["language"] == "en"
    if page not in SYSTEM_PAGES:
        assert phone["headings"] == 1
    assert not light, "accessibility"
    assert not dark, "contrast on dark ground"


def barriers(tab: Tab, page: str) -> tuple[list[str], list[str]]:
    """Grave violations: of all guidelines in light colours, of legibility in dark ones.

    Empty for the pages of the API that autodoc makes. Templates and style sheets are the same in
    both editions, and so is what a chapter is made of: one edition is looked at.
    """
    if page.startswith("book/api/") or (SEEN and Path(SEEN, page).is_file()):
        return [], []
    # A folded claim is looked at unfolded; axe would take what it holds for lying on the rest.
    tab.evaluate("document.querySelectorAll('.claims-all details').forEach(e => e.open = true)")
    tab.page.wait_for_timeout(600)  # the page hears of it a moment later
    tab.evaluate("document.documentElement.dataset.theme = 'light'")
    light = browsing.violations(tab)
    tab.evaluate("document.documentElement.dataset.theme = 'dark'")
    return light, browsing.violations(tab, browsing.CONTRAST)


def test_the_checker_of_accessibility_runs(address, chromium):
    """On a page that is spoilt on purpose."""
    with tab_in(chromium) as tab:
        tab.go(address + "book/index.html")
        tab.evaluate("document.querySelector('.bd-article h1').style.color = '#ddd'")
        assert any("color-contrast" in line for line in browsing.violations(tab))


PARTS = {"book/index.html": 1, "book/notation.html": 0, "book/token-explorer.html": 5}


# Neither what loads from a disk nor where it stands depends on both at once.
@pytest.mark.parametrize(("size", "theme"), [(PHONE, "dark"), (DESKTOP, "light")], ids=str)
@pytest.mark.parametrize("page", PARTS)
def test_the_site_works_from_a_disk(page, size, theme, chromium):
    with tab_in(chromium, size, theme=theme) as tab:
        tab.go((SITE / page).as_uri())
        tab.until(EXPLORED)
        looked = tab.evaluate(LOOK)
        if "explorer" in page:  # what is typed needs scripts of its own: weights and embeddings
            tab.page.fill("#explorer-text", "Zürich, 日本")
            tab.until("/日/.test(document.querySelector('.words').textContent)")
        states = tab.evaluate(
            "[...document.querySelectorAll('.token-explorer')].map(e => e.dataset.state)"
        )
        assert tab.evaluate("document.documentElement.dataset.theme") == theme
    assert not tab.problems
    assert all(url.startswith(("file://", "data:", "blob:")) for url in tab.requests)
    assert looked["rendered"] == looked["formulas"]
    assert states == ["ready"] * PARTS[page]
    assert "url=book/index.html" in (SITE / "index.html").read_text(encoding="utf-8")


def test_a_page_is_printed_in_light_colours(chromium):
    theme = "document.documentElement.dataset.theme"
    with tab_in(chromium, theme="dark") as tab:
        tab.go((SITE / "book/notation.html").as_uri())
        tab.evaluate("void dispatchEvent(new Event('beforeprint'))")
        printed = tab.evaluate(theme)
        tab.evaluate("void dispatchEvent(new Event('afterprint'))")
        assert (printed, tab.evaluate(theme)) == ("light", "dark")


def test_the_claims_are_printed_on_four_pages_in_letters_that_can_be_read(address, chromium):
    """Every claim with its signs, also where folded on the screen; nothing that a click opens."""
    shown = """(() => {
      const seen = e => e.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true});
      const all = [...document.querySelectorAll('.claims-all .claim')];
      const points = e => parseFloat(getComputedStyle(e).fontSize) * 0.75;
      return {
        hidden: all.filter(e => !seen(e.querySelector('.said'))).map(e => e.id),
        opened: all.filter(e => [...e.querySelectorAll('.found')].some(seen)).map(e => e.id),
        least: Math.min(...[...document.querySelectorAll('.claims-all .sign')].map(points)),
      };
    })()"""
    with tab_in(chromium) as tab:
        tab.go(address + "book/claims.html")
        tab.page.emulate_media(media="print")
        assert tab.evaluate(shown) == {"hidden": [], "opened": [], "least": pytest.approx(7.5)}
        printed = tab.page.pdf(prefer_css_page_size=True)
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 4


RESULTS = """[...document.querySelectorAll('#search-results li')].map(one => [
  one.querySelector('a').getAttribute('href'), one.textContent])"""


def test_a_search_lists_chapters_first_and_the_api_last_without_tex(address, chromium):
    with tab_in(chromium) as tab:
        tab.go(f"{address}search.html?q=auroc")
        tab.until("/found/.test(document.querySelector('#search-results p')?.textContent ?? '')")
        tab.until(f"{RESULTS}.every(one => one[1].length > 40 || /book.(api|plain)/.test(one[0]))")
        found = tab.evaluate(RESULTS)
        tab.go(f"{address}search.html?q=layer+norm")
        tab.until("document.querySelectorAll('#search-results li a').length > 3")
        first = tab.evaluate("document.querySelector('#search-results li a').getAttribute('href')")
    assert first.startswith("notebooks/01-layernorm.html")
    ranks = (r"notebooks/\d", r"(?!book/(api|how-to)|genindex|py-modindex)", "")
    kinds = [next(i for i, rank in enumerate(ranks) if re.match(rank, page)) for page, _ in found]
    assert kinds == sorted(kinds)
    assert set(kinds) == {0, 1, 2}
    assert not [text for _, text in found if "\\(" in text]


@pytest.mark.parametrize("page", ["book/index.html", "book/token-explorer.html"])
def test_a_page_does_not_jump_while_it_loads(page, address, chromium):
    """Below a tenth, which is what browsers' makers call good, on a phone."""
    assert least_shift(chromium, address + page, until=EXPLORED) < 0.1
