"""axe-core, the accessibility checker, run in a page of the test browser."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

from browser import Page

#: Impacts that fail a test; axe calls the lesser ones minor and moderate.
GRAVE = ("serious", "critical")
_RUN = """
axe.run(document, {runOnly: %s, resultTypes: ['violations'], preload: false}).then(found =>
  found.violations.filter(rule => %s.includes(rule.impact))
  .map(rule => `${rule.id}: ${rule.help}: ` + rule.nodes.slice(0, 4).map(node =>
    `${node.target.join(' ')} (${node.any.concat(node.all, node.none).map(c => c.message)
      .slice(0, 1)})`).join(' | ') + (rule.nodes.length > 4 ? ` and ${rule.nodes.length - 4} more`
    : '')))
"""
#: The Web Content Accessibility Guidelines 2.1, levels A and AA.
GUIDELINES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
CONTRAST = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}


# A colour that is still changing, as after a change of theme, is none that a reader sees.
_STILL = """document.head.insertAdjacentHTML('beforeend',
  '<style>*, *::before, *::after {transition: none !important; animation: none !important}</style>')
"""


def find() -> Path | None:
    """The checker's script, where the package that carries it is installed."""
    found = importlib.util.find_spec("axe_core_python")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / "axe.min.js"
    return path if path.is_file() else None


@functools.cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def violations(page: Page, rules: dict[str, Any] = GUIDELINES) -> list[str]:
    """Grave violations on the page as it is now, a line for each rule."""
    path = find()
    if path is None:
        raise RuntimeError("axe-core is absent; pip install -e '.[test]'")
    if not page.evaluate("'axe' in window"):
        page.evaluate(_source(path) + ";0")
        page.evaluate(_STILL)
    return page.evaluate(_RUN % (rules, list(GRAVE)))
