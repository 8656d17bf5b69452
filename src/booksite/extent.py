"""How much a built site holds: its pages, claims, figures and bytes.

`make publish` compares each edition with `data/published.json`, which `make freeze-extent` writes
of what is built, and publishes nothing where a number has fallen by more than a tenth: a chapter
whose figures fail to appear, or a page that is left out, is no error to Sphinx.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from booksite.inputs import PUBLISHED
from booksite.settings import BUILD, Folders
from booksite.terminal import say
from lnattn.models.choice import FALLBACK, PREFERRED
from lnattn.storage import read_json, write_json
from lnattn_book.page.places import repository

#: A number may become so much smaller, as a part of itself.
TOLERANCE = 0.1


def extent_of(site: Path) -> dict[str, int]:
    """Pages with an article, verdicts on claims, figures and bytes."""
    pages = (path.read_text("utf-8") for path in site.rglob("*.html"))
    articles = [text for text in pages if '<article class="bd-article"' in text]
    claims = read_json(site / "claims.json")["claims"]
    files = (path for path in site.rglob("*") if path.is_file())
    return {
        "pages": len(articles),
        "claims": sum(len(claim["found"]) for claim in claims),
        "figures": sum(text.count("<figure") for text in articles),
        "bytes": sum(path.stat().st_size for path in files),
    }


def shrunk(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """What has fallen by more than `TOLERANCE`, in words: 'figures: 80 where there were 95'."""
    return [
        f"{name}: {now.get(name, 0):,} where there were {count:,}"
        for name, count in before.items()
        if now.get(name, 0) < (1 - TOLERANCE) * count
    ]


def is_whole(root: Path, edition: str, site: Path) -> bool:
    """Whether the built edition holds what was recorded of it; says what is missing, if any."""
    path = root / PUBLISHED
    recorded = read_json(path).get(edition) if path.is_file() else None
    lost = shrunk(recorded, extent_of(site)) if recorded else []
    for line in lost:
        say(f"the edition on {edition} has lost a part of itself: {line}")
    if lost:
        say("nothing is published; if that is meant, run: make freeze-extent")
    return not lost


def freeze(root: Path, output: Path) -> None:
    """Record the editions that are built: the embedded one in `root`, GPT-2's in `output`."""
    path = root / PUBLISHED
    recorded = read_json(path) if path.is_file() else {}
    for edition, place in ((FALLBACK, root), ("GPT-2", output / PREFERRED)):
        if (Folders(place / BUILD).html / "claims.json").is_file():
            recorded[edition] = extent_of(Folders(place / BUILD).html)
            say(f"{edition}: {recorded[edition]}")
    write_json(path, recorded)


if __name__ == "__main__":
    freeze(repository(), repository() / "_build")
