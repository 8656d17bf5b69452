"""How many checked sentences follow from code that a page shows.

A guard asks about names. Where each of them is bound in a cell that stands on the page, open or
folded, a reader can follow the sentence to its number. Where one is bound in a removed cell he
cannot. The build prints the sum over all pages.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: What a cell is to a reader, from best to worst.
OPEN, FOLDED, REMOVED = "open", "folded", "removed"
_ORDER = (OPEN, FOLDED, REMOVED)
_REMOVING = {"remove-cell", "remove-input"}
_FOLDING = {"hide-cell", "hide-input"}


def counts(cells: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Of how many guards of a notebook the names are bound in open, folded, or removed cells.

    cells: those of the notebook, as its JSON has them. A guard counts for the worst cell that it
    needs. Names that nothing binds are of Python.
    """
    bound: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        kind = _kind(set(cell["metadata"].get("tags", ())))
        tree = ast.parse(_without_magics("".join(cell["source"])))
        imported = set(_imported(tree))
        for name in _bound(tree):
            bound[name] = OPEN if name in imported else kind
        for condition in _conditions(tree):
            needed = {bound.get(name, OPEN) for name in _names(condition)}
            counts[max(needed, key=_ORDER.index, default=OPEN)] += 1
    return counts


def told(counts: Counter[str]) -> str:
    """The counts as one line of a build's log."""
    total = sum(counts.values())
    shown = counts[OPEN] + counts[FOLDED]
    share = shown / total if total else 1.0
    return (
        f"of {total} checked sentences {shown} ({share:.0%}) follow from code on their page: "
        f"{counts[OPEN]} from open cells alone"
    )


def _kind(tags: set[str]) -> str:
    if tags & _REMOVING:
        return REMOVED
    return FOLDED if tags & _FOLDING else OPEN


def _without_magics(source: str) -> str:
    """The source without IPython's lines, which are no Python."""
    return "\n".join("" if line.startswith(("%", "!")) else line for line in source.split("\n"))


def _conditions(tree: ast.AST) -> Iterator[ast.expr]:
    """The second argument of each `page.holds`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "page.holds":
            yield node.args[1]


def _names(condition: ast.expr) -> set[str]:
    """The names that a condition reads and does not bind itself."""
    names = [node for node in ast.walk(condition) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names} - bound - set(vars(builtins))


def _bound(tree: ast.AST) -> Iterator[str]:
    """The names that a cell binds."""
    yield from _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
