"""What makes a site of the executed chapters: takes no part in what a chapter computes.

As a Sphinx extension, `booksite` is all of it: which files are pages, what is executed, claims,
downloads, the front page, the explorer, and what search engines read.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

#: The modules below that are extensions of Sphinx, too.
PARTS = (
    "pages",
    "assets",
    "checks",
    "claims_page",
    "claims_roles",
    "directives",
    "doors",
    "downloads",
    "epub",
    "execution",
    "explorer.page",
    "front_page",
    "glossary",
    "head",
    "not_found",
    "opening",
    "other_builders",
    "outputs",
    "plain_code",
    "roles",
    "warned",
    "weight",
)

#: New objects after which Python looks for garbage. Pages are trees of a million nodes that know
#: their parents: to look after every 700 took a quarter of a build, and half of a short one.
#: And among what has survived, after a hundred such looks.
GARBAGE = 100_000, 100


def setup(app: Any) -> dict[str, Any]:
    gc.freeze()  # what is loaded by now stays
    gc.set_threshold(*GARBAGE)
    for name in PARTS:  # here: the command line reads parts of this package without Sphinx
        import_module(f"booksite.{name}").setup(app)
    from booksite.inputs import site_source_digest

    return {
        "version": "1",
        "env_version": site_source_digest(),
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
