"""Pictures of the main pages for the README: `python tests/screenshots.py` (`make screenshots`).

Takes them of the site that is built, in the installed Chromium, and writes small PNG files to
book/images.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import browser
from PIL import Image
from site_pages import ROOT, SITE, served

COLOURS = 96


@dataclass(frozen=True)
class Shot:
    """One picture: of an address, scrolled to `at` (a CSS selector), in one of the two themes."""

    name: str
    address: str
    at: str | None = None
    width: int = 1100
    height: int = 760
    theme: str = "light"


SHOTS = (
    Shot("screenshot-preface", "book/index.html"),
    Shot("screenshot-chapter", "notebooks/06-detokenization-heads.html", "#who-looks-for-whom"),
    Shot("screenshot-claims", "book/claims.html", ".claims-all"),
    Shot("screenshot-explorer", "book/token-explorer.html#model=minilm", "#one-token-every-head"),
    Shot(
        "screenshot-phone",
        "book/token-explorer.html",
        '[data-part="sentence"]',
        width=360,
        height=740,
        theme="dark",
    ),
)


def take(running: browser.Browser, base: str, shot: Shot, target: Path) -> int:
    """Write one picture; returns its size in bytes."""
    tab = running.open(shot.width, shot.height)
    try:
        tab.go(base + shot.address)
        tab.evaluate(f"document.documentElement.dataset.theme = {shot.theme!r}")
        tab.evaluate("new Promise(done => setTimeout(done, 1500))")
        if shot.at:
            found = f"document.querySelector({shot.at!r})"
            if not tab.evaluate(f"Boolean({found})"):
                raise LookupError(f"{shot.address} has no {shot.at}; mend SHOTS in {__file__}")
            tab.evaluate(f"window.scrollTo(0, {found}.getBoundingClientRect().top + scrollY - 90)")
            tab.evaluate("new Promise(done => setTimeout(done, 300))")
        with tempfile.TemporaryDirectory() as place:
            tab.screenshot(Path(place) / "shot.png")
            with Image.open(Path(place) / "shot.png") as picture:
                small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                small.save(target, optimize=True)
    finally:
        tab.close()
    return target.stat().st_size


def main() -> int:
    executable = browser.find()
    if executable is None:
        print("no Chromium is installed here; apt-get install chromium", file=sys.stderr)
        return 1
    if not (SITE / "index.html").is_file():
        print("the site is not built here; run: make book", file=sys.stderr)
        return 1
    with browser.Browser(executable) as running, served(SITE) as base:
        for shot in SHOTS:
            size = take(running, base, shot, ROOT / "book" / "images" / f"{shot.name}.png")
            print(f"book/images/{shot.name}.png: {size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
