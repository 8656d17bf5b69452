"""Put the editions of the book together: the same pages, each computed on another model.

The first edition lies at the root of the site, every other one in a folder of its own. A link in
the header of each page leads to the same page of the other edition. The pages themselves were built
one edition at a time (`booksite.build`).
"""

from __future__ import annotations

import html
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lnattn.errors import ResultError

FRONT = "book/index.html"
#: Where in a page the link goes, and where a note goes: the first thing inside each.
_BUTTONS = '<div class="article-header-buttons">'
_TEXT = '<article class="bd-article">'


@dataclass(frozen=True)
class Edition:
    """An edition: the model that it ran on, its built site, and its folder below the root."""

    model: str
    site: Path
    folder: str = ""


def assemble(target: Path, editions: Sequence[Edition], note: str = "") -> Path:
    """Copy one or two editions into `target`, replacing what is there, and join them by links.

    note: a sentence for the first edition's front page. Raises `ResultError` where a site is not
    built, its pages have no place for a link or a note, or `target` is no site of this book: then
    `target` stays as it was.
    """
    if target.exists() and not _is_site(target):
        raise ResultError(f"{target} is there and is no site of this book; give another --output.")
    for edition in editions:
        if not (edition.site / FRONT).is_file():
            raise ResultError(f"{edition.site} holds no built book ({FRONT}); run make book first.")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        for edition in editions:
            shutil.copytree(edition.site, fresh / edition.folder, dirs_exist_ok=True)
        for edition, other in zip(editions, reversed(editions), strict=True):
            if edition is not other:
                _link(fresh, edition, other)
        if note:
            _insert_note(fresh / editions[0].folder / FRONT, note)
        fresh.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def _is_site(target: Path) -> bool:
    """Whether a folder is empty, or holds what was put together before."""
    if not target.is_dir():
        return False
    return not any(target.iterdir()) or (target / "_static" / "lnattn").is_dir()


def _link(root: Path, edition: Edition, other: Edition) -> None:
    """Put a link to the other edition into every page of this one that has a header."""
    here = root / edition.folder
    there = root / other.folder
    linked = 0
    name = html.escape(other.model)
    for source in sorted(edition.site.rglob("*.html")):
        page = source.relative_to(edition.site)
        path = here / page
        text = path.read_text(encoding="utf-8")
        if _BUTTONS not in text:
            continue
        same = page if (other.site / page).is_file() else Path(FRONT)
        address = html.escape(Path(os.path.relpath(there / same, path.parent)).as_posix())
        link = (
            f'<a class="btn btn-sm edition-switch" href="{address}" '
            f'title="This page, computed on {name}">on {name}</a>'
        )
        path.write_text(text.replace(_BUTTONS, _BUTTONS + link, 1), encoding="utf-8")
        linked += 1
    if not linked:
        raise ResultError(f"no page of {edition.site} has a header to put a link into.")


def _insert_note(path: Path, note: str) -> None:
    text = path.read_text(encoding="utf-8")
    if _TEXT not in text:
        raise ResultError(f"{path} has no place for a note on its edition.")
    box = (
        '<div class="admonition note edition-note"><p class="admonition-title">This edition</p>'
        f"<p>{html.escape(note)}</p></div>"
    )
    path.write_text(text.replace(_TEXT, _TEXT + box, 1), encoding="utf-8")
