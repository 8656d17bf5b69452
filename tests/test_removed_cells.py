"""Removed cells guard sentences and register verdicts; what they ask about is computed on the page.

A reader sees neither the cell nor what it prints, so a number that was computed there could be
neither followed nor changed. Allowed are imports, calls of the claims' rules, registrations, and
guards that compare what other cells computed. A guard may ask *each* (`all`, `any`, the least and
the largest), and may set two shown numbers beside each other, by one difference, ratio or product:
"twice as long" is itself a ratio. It takes no mean, sums nothing, fits nothing and draws nothing.
"""

from __future__ import annotations

import ast

import jupytext
import pytest

from lnattn_book import places

NOTEBOOKS = sorted((places.repository() / "notebooks").glob("*.md"))
REMOVED = {"remove-cell", "remove-input"}

#: Nodes that compute, wherever they stand in a removed cell but within `all(…)` or `any(…)`.
COMPUTING = (
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.FunctionDef,
    ast.While,
    ast.AugAssign,
)
#: Modules whose calls compute.
ARITHMETIC_MODULES = ("np.", "pd.", "torch.", "numpy.", "math.")
#: Reductions and fits, as methods or functions.
REDUCTIONS = {
    *("mean", "median", "sum", "std", "var", "quantile", "prod", "cumsum", "diff", "groupby"),
    *("exp", "log", "log10", "sqrt", "polyfit", "corr", "apply", "accumulate", "concat"),
}
#: Calls that pick a shown number: the extremes, how many there are, the same number in Python.
NAMING = {"min", "max", "len", "float", "int", "abs", "item"}


def removed_cells(path) -> list[str]:
    """The sources of a notebook's cells that no page shows."""
    cells = jupytext.read(path).cells
    return [
        cell.source
        for cell in cells
        if cell.cell_type == "code" and REMOVED & set(cell.metadata.get("tags", ()))
    ]


def computations(source: str) -> list[str]:
    """What a removed cell computes itself, as it stands in the code."""
    tree = ast.parse(source)
    quantified = {
        id(call.args[0])
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in ("all", "any", "min", "max")
    }
    beside = {
        id(node)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "page.holds"
        for node in ast.walk(call)
        if isinstance(node, ast.BinOp) and _is_shown(node.left) and _is_shown(node.right)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, COMPUTING) and id(node) not in quantified:
            found.append(ast.unparse(node))
        elif isinstance(node, ast.BinOp) and id(node) not in beside and not _is_number(node):
            if not isinstance(node.op, ast.BitAnd | ast.BitOr):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and _reduces(node):
            found.append(ast.unparse(node))
    return found


def _is_shown(node: ast.AST) -> bool:
    """Whether an operand only names what the page has: no arithmetic, no call but the extremes."""
    return not any(
        isinstance(part, ast.BinOp)
        or (isinstance(part, ast.Call) and ast.unparse(part.func).rpartition(".")[2] not in NAMING)
        for part in ast.walk(node)
    )


def _is_number(node: ast.AST) -> bool:
    """An expression of written numbers alone, as 1 / 3."""
    return not any(isinstance(part, ast.Name) for part in ast.walk(node))


def _reduces(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    return name.startswith(ARITHMETIC_MODULES) or name.rpartition(".")[2] in REDUCTIONS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_removed_cell_computes_nothing(path):
    assert [found for source in removed_cells(path) for found in computations(source)] == []
