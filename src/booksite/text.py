"""Short texts with mathematics in dollars, as they stand in the list of claims and the ledger."""

from __future__ import annotations

import re

from docutils import nodes

_MATHEMATICS = re.compile(r"\$([^$]+)\$")


def inline(text: str) -> list[nodes.Node]:
    """Nodes for a text: what stands between two dollars is mathematics, the rest is itself."""
    made: list[nodes.Node] = []
    for number, part in enumerate(_MATHEMATICS.split(" ".join(text.split()))):
        if part:
            made.append(nodes.math(part, part) if number % 2 else nodes.Text(part))
    return made
