"""Pages that run commands are made again when the commands change, and they alone.

The command line is no part of the execution digest: a better sentence in a command's help would
otherwise run every chapter again. So the few pages that show it are forgotten one by one.
"""

from __future__ import annotations

from pathlib import Path

from booksite.inputs import commands_digest

#: What a notebook imports to run commands.
_MARK = "lnattn.cli"


def forget_outdated_pages(root: Path, cache: Path, doctrees: Path) -> list[str]:
    """Drop the pages that run commands from a cache if the commands are no longer the same.

    root: the repository; cache: the execution cache of a build; doctrees: Sphinx's own. Returns
    the names of these pages; none where nothing changed.
    """
    note, now = cache / "commands", commands_digest(root)
    if note.is_file() and note.read_text() == now:
        return []
    pages = [
        path
        for path in sorted((root / "notebooks").glob("*.md"))
        if _MARK in path.read_text(encoding="utf-8")
    ]
    if pages and (cache / "cells").is_dir():
        from jupyter_cache import get_cache  # here: a build that has nothing to do needs it not

        cells = get_cache(str(cache / "cells"))
        for record in cells.list_cache_records():
            if Path(record.uri).stem in {path.stem for path in pages}:
                cells.remove_cache(record.pk)
    for path in pages:
        (doctrees / "notebooks" / f"{path.stem}.doctree").unlink(missing_ok=True)
    note.write_text(now)
    return [path.stem for path in pages]
