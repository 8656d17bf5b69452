"""Pictures of the main pages for the README: `python tests/screenshots.py` (`make screenshots`).

Takes each in light and in dark colours, of the site that is built (or of LNATTN_SITE), in the
installed Chromium, and writes small PNG files to book/images.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import browser
from PIL import Image
from site_pages import ROOT, SITE, served

FOLDER = ROOT / "book" / "images"
COLOURS = 128
THEMES = ("light", "dark")
#: A reader on a slow line fetches one theme's pictures: bytes of one of them, at most.
LARGEST = 80_000


@dataclass(frozen=True)
class Shot:
    """One picture, in either theme: of an address, scrolled to `at` (a CSS selector)."""

    name: str
    address: str
    at: str | None = None
    width: int = 1000
    height: int = 760

    def path(self, theme: str) -> Path:
        return FOLDER / f"{self.name}-{theme}.png"


SHOTS = (
    Shot("preface", "book/index.html"),
    Shot("chapter", "notebooks/06-detokenization-heads.html", "#fig-joined"),
    Shot("claims", "book/claims.html", ".claims-all"),
    Shot("explorer", "book/token-explorer.html#model=minilm", '[data-part="heads"] .chosen'),
    Shot("phone", "book/token-explorer.html", '[data-part="sentence"]', 360, 740),
)


def take(running: browser.Browser, base: str, shot: Shot, theme: str) -> Path:
    """Write one picture; returns its path."""
    tab = running.open(shot.width, shot.height)
    choose = f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}')"
    try:
        tab.call("Page.addScriptToEvaluateOnNewDocument", source=choose)
        tab.go(base + shot.address)
        tab.evaluate("new Promise(done => setTimeout(done, 1500))")
        if tab.evaluate("document.documentElement.dataset.theme") != theme:
            raise LookupError(f"{shot.address} does not show itself in {theme} colours")
        if shot.at:
            found = f"document.querySelector({shot.at!r})"
            if not tab.evaluate(f"Boolean({found})"):
                raise LookupError(f"{shot.address} has no {shot.at}; mend SHOTS in {__file__}")
            tab.evaluate(f"window.scrollTo(0, {found}.getBoundingClientRect().top + scrollY - 90)")
            tab.evaluate("new Promise(done => setTimeout(done, 300))")
        with tempfile.TemporaryDirectory() as place:
            tab.screenshot(Path(place) / "shot.png")
            with Image.open(Path(place) / "shot.png") as picture:
                # By coverage, not by count: the terms have few pixels, and must keep their colours.
                small = picture.convert("RGB").quantize(
                    COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
                )
                small.save(shot.path(theme), optimize=True)
    finally:
        tab.close()
    return shot.path(theme)


def main() -> int:
    executable = browser.find()
    if executable is None:
        print("no Chromium is installed here; apt-get install chromium", file=sys.stderr)
        return 1
    if not (SITE / "index.html").is_file():
        print("the site is not built here; run: make book", file=sys.stderr)
        return 1
    with browser.Browser(executable) as running, served(SITE) as base:
        for shot, theme in product(SHOTS, THEMES):
            path = take(running, base, shot, theme)
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
