"""Pictures of the main pages for the README: `python tools/screenshots.py` (`make screenshots`).

Takes each in light and in dark colours, of the site that is built (or of LNATTN_SITE), in the
installed Chromium, and writes small PNG files to book/images.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # the browser is the tests'

import browsing
from browsing import tab_in
from site_pages import ROOT, SITE, served

FOLDER = ROOT / "book" / "images"
COLOURS = 128


#: Name, address, the element to scroll to, width and height.
SHOTS = (
    ("preface", "book/index.html", "", 1000, 760),
    ("chapter", "notebooks/04-detokenization-heads.html", "#fig-joined", 1000, 760),
    ("claims", "book/claims.html", ".claims-all", 1000, 760),
    (
        "explorer",
        "book/token-explorer.html#model=minilm&token=obama",
        '[data-part="heads"]',
        1000,
        760,
    ),
    ("widget", "book/index.html", '[data-part="widget"]', 760, 680),
    ("phone", "book/token-explorer.html", '[data-part="sentence"]', 360, 740),
)


def take(browser: Browser, address: str, at: str, size: tuple[int, int], path: Path) -> None:
    """Write one picture, in the theme that the path's name ends with."""
    theme = path.stem.rpartition("-")[2]
    with tab_in(browser, size, theme=theme) as tab:
        tab.go(address)
        tab.page.wait_for_timeout(1500)
        if at:  # an error where the page has no such element
            there = f"document.querySelector({at!r})"
            scroll = f"window.scrollTo(0, {there}.getBoundingClientRect().top + scrollY - 90)"
            tab.evaluate(scroll)  # a tool of the explorer loads when it is near
            tab.until(
                f"['ready', undefined].includes({there}.dataset.state ?? {there}.dataset.part)"
            )
            tab.evaluate(scroll)
            tab.page.wait_for_timeout(300)
        tab.screenshot(path)
    with Image.open(path) as opened:
        # The widget's picture stands on a page, where scripts do not run: without the bar on top.
        top = 84 if "widget" in path.name else 0
        picture = opened.crop((0, top, *opened.size))
        # By coverage, not by count: the terms have few pixels, and must keep their colours.
        small = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=0)
    small.save(path, optimize=True)


def main() -> int:
    if browsing.executable() is None:
        print("no Chromium is installed here; apt-get install chromium", file=sys.stderr)
        return 1
    if not (SITE / "index.html").is_file():
        print("the site is not built here; run: make book", file=sys.stderr)
        return 1
    with browsing.chromium() as browser, served(SITE) as base:
        for (name, address, at, *size), theme in product(SHOTS, ("light", "dark")):
            path = FOLDER / f"{name}-{theme}.png"
            take(browser, base + address, at, tuple(size), path)
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
