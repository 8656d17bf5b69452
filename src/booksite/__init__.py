"""What makes a site of the executed chapters: takes no part in what a chapter computes.

As a Sphinx extension, `booksite` is all of it: claims, downloads, the front page, the explorer, and
what search engines read.
"""

from __future__ import annotations

from typing import Any


def setup(app: Any) -> dict[str, Any]:
    # Here, because the command line reads parts of this package where Sphinx is not installed.
    from booksite import assets, claims_page, downloads, front_page, glossary, head, opening, roles
    from booksite.explorer import page as explorer

    for part in (
        assets, claims_page, downloads, explorer, front_page, glossary, head, opening, roles,
    ):  # fmt: skip
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
