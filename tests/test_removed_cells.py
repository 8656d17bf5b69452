"""Removed cells guard sentences and register verdicts; what they ask about is computed on the page.

A reader sees neither the cell nor what it prints, so a number that was computed there could be
neither followed nor changed. Allowed are imports, calls of the claims' rules, registrations, and
guards that compare what other cells computed. A guard may ask *each* (`all`, `any`, the least and
the largest), may count for how many a comparison holds, and may set two shown numbers beside each
other, by one difference, ratio or product: "twice as long" is itself a ratio. It takes no mean,
adds up nothing, fits nothing and draws nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import jupytext
import pytest

from lnattn_book.page import places

NOTEBOOKS = sorted((places.repository() / "notebooks").glob("*.md"))
REMOVED = {"remove-cell", "remove-input"}

#: Nodes that compute, but for a comprehension within `all(…)`, `any(…)`, `min(…)` or `max(…)`.
COMPUTING = (
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.FunctionDef,
    ast.While,
    ast.AugAssign,
)
QUANTIFIERS = {"all", "any", "min", "max"}
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
    allowed = {id(node) for node in (*_asked_of_each(tree), *_within_guards(tree))}
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if id(node) not in allowed and (_is_arithmetic(node) or _is_reduction(node))
    ]


def _is_arithmetic(node: ast.AST) -> bool:
    """A comprehension, a function, or an operation on anything but written numbers, as 1 / 3."""
    if isinstance(node, ast.BinOp):
        return any(isinstance(part, ast.Name) for part in ast.walk(node))
    return isinstance(node, COMPUTING)


def _is_reduction(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return name.startswith(ARITHMETIC_MODULES) or _last(name) in REDUCTIONS


def _asked_of_each(tree: ast.AST) -> Iterator[ast.AST]:
    """What stands in `all(…)`, `any(…)`, `min(…)` and `max(…)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in QUANTIFIERS:
            yield node.args[0]


def _within_guards(tree: ast.AST) -> Iterator[ast.AST]:
    """In guards: two shown numbers beside each other, and counts of what a comparison holds for."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "page.holds":
            continue
        for node in ast.walk(call):
            if isinstance(node, ast.BinOp) and _is_shown(node.left) and _is_shown(node.right):
                yield node
            if isinstance(node, ast.Call) and _counts(node):
                yield node


def _is_shown(operand: ast.AST) -> bool:
    """Whether an operand only names what the page has: no arithmetic, no call but of `NAMING`."""
    calls = [part for part in ast.walk(operand) if isinstance(part, ast.Call)]
    operations = [part for part in ast.walk(operand) if isinstance(part, ast.BinOp)]
    return not operations and all(_last(ast.unparse(call.func)) in NAMING for call in calls)


def _counts(call: ast.Call) -> bool:
    """Whether it is `(… > …).sum()`."""
    function = call.func
    is_sum = isinstance(function, ast.Attribute) and function.attr == "sum"
    return is_sum and isinstance(function.value, ast.Compare)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_removed_cell_computes_nothing(path):
    assert [found for source in removed_cells(path) for found in computations(source)] == []


@pytest.mark.parametrize(
    "source",
    [
        "share = found.mean()",
        "ratio = a / b",
        "page.holds('half', (a / b - 1) < 0.1)",
        "page.holds('half', a.mean() < 0.1)",
        "ledger.register(k1(a - b))",
        "lost = [one.lost for one in runs]",
        "page.holds('even', np.allclose(a, b))",
        "def share(x):\n    return x",
    ],
)
def test_what_computes_is_found(source):
    assert computations(source)


@pytest.mark.parametrize(
    "source",
    [
        "page.holds('twice', 1.9 < a.max() / b['rms'] < 2.1)",
        "page.holds('all', all(0.2 < one < 1 / 3 for one in shares))",
        "page.holds('four heads', (z < -1).sum() == 4)",
        "for record in records:\n    ledger.register(record, cell='fig-one')",
        "verdict = kamoda.k1(a, model=name)",
    ],
)
def test_what_asks_and_registers_is_allowed(source):
    assert not computations(source)
