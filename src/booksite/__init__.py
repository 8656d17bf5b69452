"""What makes a site of the executed chapters: takes no part in what a chapter computes.

As a Sphinx extension, `booksite` is all of it: claims, downloads, the front page, the explorer, and
what search engines read.
"""

from __future__ import annotations

from typing import Any


def setup(app: Any) -> dict[str, Any]:
    # Here, because the command line reads parts of this package where Sphinx is not installed.
    from booksite import (
        claims_page,
        downloads,
        drawings,
        formulas,
        front_page,
        glossary,
        head,
        icons,
        light,
        numbers,
        opening,
        reading,
        roles,
        search,
        shrink,
        typography,
    )
    from booksite.explorer import page as explorer

    parts = (
        claims_page, downloads, drawings, explorer, formulas, front_page, glossary, head, icons,
        light, numbers, opening, reading, roles, search, shrink, typography,
    )  # fmt: skip
    for part in parts:
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
