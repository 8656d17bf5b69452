"""The main path on paper: `python tools/paper.py` (`make paper`) writes a PDF and an EPUB.

Both come from Jupyter Book's own builders, `singlehtml` and `epub`, and have the front page, the
numbered chapters, the symbols and the bibliography; they go to `_build/paper`. The PDF is printed
by the installed Chromium.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # the browser is the tests'

import browsing
from browsing import tab_in
from site_pages import ROOT, served

from booksite.build import build
from booksite.epub import main_path

BUILD = ROOT / "_build"
#: Takes the pages that are not asked for out of the one that has all; a link to them is words.
PRUNE = """pages => {
  const wanted = new Set(pages.map(page => 'document-' + page));
  for (const mark of document.querySelectorAll('span[id^="document-"]')) {
    if (wanted.has(mark.id)) continue;
    const section = mark.nextElementSibling;
    if (section?.tagName === 'SECTION') section.remove();
    mark.remove();
  }
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    const place = decodeURIComponent(link.getAttribute('href').slice(1));
    if (place && !document.getElementById(place)) link.replaceWith(...link.childNodes);
  }
  for (const image of document.images) image.loading = 'eager';
  return document.querySelectorAll('article section > h1').length;
}"""
READY = """Promise.all([window.MathJax?.startup?.promise ?? null, document.fonts.ready,
  ...[...document.images].filter(image => !image.complete).map(image =>
    new Promise(done => { image.onload = image.onerror = done; }))]).then(() => true)"""
#: A chapter begins a page; the contents, which are those of the whole site, are in the outline.
STYLE = (
    "article section > h1 { break-before: page } #print-main-content { display: none !important }"
)
NUMBERS = (
    '<div style="width:100%;text-align:center;font:8pt sans-serif;color:#555">'
    '<span class="pageNumber"></span></div>'
)


def print_pdf(site: Path, target: Path) -> int:
    """Print the main path from the built `singlehtml`; returns its number of chapters."""
    with browsing.chromium() as browser, served(site) as address, tab_in(browser) as tab:
        tab.go(f"{address}book/index.html")
        tab.page.emulate_media(media="print", color_scheme="light")
        count = tab.page.evaluate(PRUNE, main_path(ROOT))
        tab.page.add_style_tag(content=STYLE)
        tab.page.evaluate(READY)
        margin = {"top": "16mm", "bottom": "18mm", "left": "15mm", "right": "15mm"}
        tab.page.pdf(
            path=target,
            format="A4",
            margin=margin,
            print_background=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=NUMBERS,
            outline=True,
            tagged=True,
        )
    return count


def main() -> int:
    if browsing.executable() is None:
        print("no Chromium is installed here; apt-get install chromium", file=sys.stderr)
        return 1
    for options in (
        ("--builder", "custom", "--custom-builder", "epub"),
        ("--builder", "singlehtml"),
    ):
        status = build(ROOT, *options)
        if status:
            return status
    folder = BUILD / "paper"
    folder.mkdir(exist_ok=True)
    shutil.copy(BUILD / "epub" / "lnattn.epub", folder)
    print_pdf(BUILD / "singlehtml", folder / "lnattn.pdf")
    for path in sorted(folder.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
