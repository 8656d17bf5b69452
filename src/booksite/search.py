"""The search: chapters before the API reference, and mathematics as words (`assets/search.js`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

SCORER = Path(__file__).with_name("assets") / "search.js"


def use_scorer(_app: Sphinx, config: Any) -> None:
    """Sphinx's event `config-inited`: its search takes one script, and opens it by its path."""
    config.html_search_scorer = str(SCORER)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", use_scorer)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
