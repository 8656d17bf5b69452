"""An idea a line, and errors told of in docstrings: read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Where all Python of the project lies, tests aside.
TREES = ("src/lnattn", "src/lnattn_book", "src/booksite", "experiments", "tools", "benchmarks")
ROOT = Path(__file__).parents[1]


def packed(tree: ast.AST) -> Iterator[int]:
    """Lines that bind several names to as many expressions: a, b = f(x), g(y). Swaps are fine."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
            continue
        if all(ast.unparse(name).lstrip("_").isupper() for name in node.targets[0].elts):
            continue  # constants that belong together
        if isinstance(node.value, ast.GeneratorExp | ast.ListComp):
            yield node.lineno
        elif isinstance(node.value, ast.Tuple):
            names = {ast.unparse(name) for name in node.targets[0].elts}
            if names != {ast.unparse(value) for value in node.value.elts}:
                yield node.lineno


def test_packed_lines_are_told_from_swaps() -> None:
    lines = ["a, b = b, a", "a, b = f(x)", "a, b = 1, 2", "a, b = (f(x) for x in y)", "a = b, c"]
    lines += ["FEW, MANY = 1, 9"]
    assert list(packed(ast.parse("\n".join(lines)))) == [3, 4]


@pytest.mark.parametrize("tree", TREES)
def test_a_line_binds_one_idea(tree: str) -> None:
    files = sorted((ROOT / tree).rglob("*.py"))
    assert files
    for file in files:
        lines = list(packed(ast.parse(file.read_text(encoding="utf-8"))))
        assert not lines, f"{file} binds several ideas in lines {lines}; give each its own"


def flagged_strings(tree: ast.AST) -> Iterator[int]:
    """Lines where a text is taken times a flag: arithmetic in the place of `if` and `else`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = (node.left, node.right)
            is_text = [isinstance(side, ast.JoinedStr) or _is_string(side) for side in sides]
            is_named = [isinstance(side, ast.Name | ast.Attribute | ast.UnaryOp) for side in sides]
            if any(is_text) and any(is_named):
                yield node.lineno


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_a_text_times_a_flag_is_seen() -> None:
    lines = [
        "a = ', fragile' * weak",
        "b = said * 2",
        "c = f'{d}' * (not name)",
        "e = '-' * len(x)",
    ]
    assert list(flagged_strings(ast.parse("\n".join(lines)))) == [1, 3]


@pytest.mark.parametrize("tree", TREES)
def test_arithmetic_chooses_no_text(tree: str) -> None:
    for file in sorted((ROOT / tree).rglob("*.py")):
        lines = list(flagged_strings(ast.parse(file.read_text(encoding="utf-8"))))
        assert not lines, f"{file} multiplies texts in lines {lines}; say `if` and `else`"


#: Names that say when a thing was made, or that there is one, and not what it is.
PRONOUNS = {"found", "one", "own", "some", "kept"}
#: Where such a word says what the thing is (the number one, one head beside two, a model's own),
#: or frozen results and pages call a field so.
MEANT = {
    "lnattn/affinity/auroc_kernel.py": {"one"},
    "lnattn/affinity/by_distance.py": {"own"},
    "lnattn/models/position_tables.py": {"own"},
    "lnattn/models/relative_families.py": {"own"},
    "lnattn_book/studies/distance_terms.py": {"own"},
    "lnattn_book/studies/by_place.py": {"own"},
    "lnattn_book/chapters/detokenization.py": {"found"},
    "lnattn_book/chapters/information_gain.py": {"own"},
    "lnattn_book/chapters/for_every_text.py": {"found"},
    "lnattn_book/chapters/variance.py": {"own"},
    "lnattn_book/claims/nulls.py": {"one"},
    "lnattn_book/claims/ours.py": {"own"},
    "lnattn_book/claims/residual.py": {"one"},
    "lnattn_book/claims/rules.py": {"own"},
    "lnattn_book/figures/variance.py": {"own"},
    "lnattn_book/page/checks.py": {"found"},
    "lnattn_book/studies/language_models.py": {"kept"},
    "lnattn_book/studies/layers_above.py": {"found"},
}


def pronouns(tree: ast.AST) -> set[str]:
    """The pronouns that a module gives to variables, arguments and fields."""
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    return bound & PRONOUNS


def test_a_pronoun_is_seen() -> None:
    source = "def f(own):\n    found = [some for some in own]\n    return found.one"
    assert pronouns(ast.parse(source)) == {"own", "found", "some"}
    assert pronouns(ast.parse("class A:\n    kept: int")) == {"kept"}


@pytest.mark.parametrize("tree", ["src", "experiments", "tools", "benchmarks"])
def test_names_say_what_a_thing_is(tree: str) -> None:
    for file in sorted((ROOT / tree).rglob("*.py")):
        words = pronouns(ast.parse(file.read_text(encoding="utf-8")))
        path = file.relative_to(ROOT).as_posix().removeprefix("src/")
        assert words <= MEANT.get(path, set()), f"{path} binds {sorted(words)}: what is it?"


#: Readers of checkpoints, whose base class says what is raised; and commands.
BY_THEIR_BASE = (
    "cli/",
    "models/architectures.py",
    "models/relative_families.py",
    "models/sources.py",
)


def untold_errors(tree: ast.AST, of_class: str = "") -> Iterator[str]:
    """Public functions and methods that raise, and whose docstring, or class's, does not say so."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from untold_errors(node, ast.get_docstring(node) or "")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            told = (ast.get_docstring(node) or "") + of_class
            raised = [ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.Raise)]
            own = [line for line in raised if "Error" in line and "NotImplemented" not in line]
            if own and "aise" not in told and "Error`" not in told:
                yield node.name


def test_an_untold_error_is_seen() -> None:
    lines = ["def f():", "    raise ShapeError('x')", "def g():", "    'Raises `ShapeError`.'"]
    assert list(untold_errors(ast.parse("\n".join([*lines, "    raise ShapeError('x')"])))) == ["f"]


def test_public_functions_tell_what_they_raise() -> None:
    package = ROOT / "src" / "lnattn"
    for file in sorted(package.rglob("*.py")):
        if not file.relative_to(package).as_posix().startswith(BY_THEIR_BASE):
            untold = list(untold_errors(ast.parse(file.read_text(encoding="utf-8"))))
            assert not untold, f"{file.name}: {untold} raise, and their docstrings do not say what"
