"""A page that was read with a warning is read again in the next build, and warns again.

Sphinx says what is wrong with a page when it reads or writes it. A page that has not changed since
is not read again, so the next build would pass in silence, also one that takes warnings for errors.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.logging import NAMESPACE, is_suppressed_warning

from lnattn.errors import ResultError
from lnattn.storage import read_json, write_json

#: Where the pages are kept from one build to the next, beside Sphinx's own memory.
FILE = "warned.json"
_LISTENER = "lnattn_warned"


class _Listener(logging.Handler):
    """Collects the pages, or files, that Sphinx's warnings name."""

    def __init__(self, app: Sphinx) -> None:
        super().__init__(logging.WARNING)
        self.app = app
        self.places: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        kind = getattr(record, "type", None) or ""
        subtype = getattr(record, "subtype", None) or ""
        if is_suppressed_warning(kind, subtype, self.app.config.suppress_warnings):
            return
        location = getattr(record, "location", None)
        if isinstance(location, nodes.Node):
            location = location.source
        if isinstance(location, tuple):
            location = location[0]
        if location:
            # 'FILE', 'FILE:LINE', or 'FILE:docstring of NAME:LINE', where Sphinx has formatted it.
            self.places.add(str(location).partition(":")[0])


def listen(app: Sphinx) -> None:
    """Sphinx's event `builder-inited`."""
    listener = _Listener(app)
    logging.getLogger(NAMESPACE).addHandler(listener)
    setattr(app, _LISTENER, listener)


def read_again(app: Sphinx, *_: Any) -> list[str]:
    """Sphinx's event `env-get-outdated`: the pages that warned in the last build."""
    try:
        return read_json(Path(app.doctreedir) / FILE)["pages"]
    except (ResultError, KeyError):
        return []


def remember(app: Sphinx, _error: Exception | None) -> None:
    """Sphinx's event `build-finished`: keep the pages that warned in this one."""
    listener: _Listener = getattr(app, _LISTENER)
    logging.getLogger(NAMESPACE).removeHandler(listener)
    pages = {page_of(app.env, place) for place in listener.places} & app.env.found_docs
    write_json(Path(app.doctreedir) / FILE, {"pages": sorted(pages)})


def page_of(env: BuildEnvironment, place: str) -> str:
    """The name of the page that a warning names by itself, or by its file; '' for another file."""
    return place if place in env.found_docs else env.path2doc(place) or ""


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", listen)
    app.connect("env-get-outdated", read_again)
    app.connect("build-finished", remember)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
