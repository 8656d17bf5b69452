"""The floors of the project: arrows go down only, those that are strings too; read from the source.

`lnattn` knows neither book nor site nor experiments; `lnattn_book` knows no site; rooms of the
package import one another without circles.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import lnattn
from lnattn.cli import main
from lnattn_book.page import places

ROOT = places.repository()
#: What a part must know nothing of.
ABOVE = {
    "lnattn": ("lnattn_book", "booksite", "experiments", "matplotlib", "seaborn", "sklearn"),
    "lnattn_book": ("booksite", "experiments"),
}


def modules_of(part: str) -> list[Path]:
    return sorted((ROOT / "src" / part).rglob("*.py"))


def imports_of(source: str) -> Iterator[str]:
    """The dotted names that a module imports, wherever in it: 'package.module.name'."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def strings_of(source: str) -> Iterator[str]:
    """Strings that a module could import by or find a module with; docstrings are none."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.value


def arrows_up(source: str, above: tuple[str, ...]) -> list[str]:
    """What a module imports of the floors above it, by statement or by a string."""
    imported = [name for name in imports_of(source) if name.partition(".")[0] in above]
    named = [
        text
        for text in strings_of(source)
        if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*(:[\w.]+)?", text)
        and re.split(r"[.:]", text)[0] in above
    ]
    return imported + named


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("import lnattn_book", id="a statement"),
        pytest.param("def f():\n    from lnattn_book.page import start", id="in a function"),
        pytest.param("import_module('lnattn_book.frozen.making')", id="by import_module"),
        pytest.param("if find_spec('lnattn_book'): pass", id="looked for"),
        pytest.param("NAME = 'lnattn_book'\n__import__(NAME)", id="by a constant"),
        pytest.param("resolve_name('lnattn_book.frozen.making:STUDIES')", id="by resolve_name"),
    ],
)
def test_an_arrow_up_is_seen(source: str):
    assert arrows_up(source, ABOVE["lnattn"])
    assert not arrows_up('"""Of lnattn_book."""\nimport lnattn.weights', ABOVE["lnattn"])


@pytest.mark.parametrize("part", ABOVE)
def test_arrows_point_down(part: str):
    found = {
        path.relative_to(ROOT).as_posix(): arrows
        for path in modules_of(part)
        if (arrows := arrows_up(path.read_text(encoding="utf-8"), ABOVE[part]))
    }
    assert not found


def test_the_package_loads_nothing_by_entry_points():
    """The one script of the wheel is its own, and no module asks what others have registered."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "entry-points" not in project
    assert all(where.startswith("lnattn.") for where in project["scripts"].values())
    for path in modules_of("lnattn"):
        source = path.read_text(encoding="utf-8")
        assert not [name for name in imports_of(source) if name.endswith(".entry_points")], path


def test_the_package_names_no_file_of_the_book():
    """No path of a page, a chapter or the list of claims, no search for them, nor its commands."""
    for path in modules_of("lnattn"):
        assert "lnattn_book" not in path.read_text(encoding="utf-8"), path
        strings = strings_of(path.read_text(encoding="utf-8"))
        assert not [
            one for one in strings if re.search(r"claims\.yml|\bnotebooks\b|\bbook/", one)
        ], path


def test_each_module_of_the_package_is_reached():
    """From a name of `lnattn.__all__` or from a command; what only a chapter needs is the book's.

    Imports for type checkers alone do not count, nor does `lnattn/__init__.py`, which names all.
    """
    graph = grimp.build_graph("lnattn", exclude_type_checking_imports=True, cache_dir=None)
    homes = {lnattn._HOME_OF.get(name, f"lnattn.{name}") for name in lnattn.__all__}
    commands = {module for module, _ in main.COMMANDS.values()} | {"lnattn.__main__"}
    reached = homes | commands
    for door in homes | commands:
        reached |= graph.find_upstream_modules(door)
    packages = {name for name in graph.modules if graph.find_children(name)}
    assert "lnattn.attention.terms" in reached
    assert not graph.modules - packages - reached


def test_rooms_of_the_package_lie_in_layers():
    """No circle of imports: `TopologicalSorter` raises where there is one."""
    source = ROOT / "src" / "lnattn"
    rooms: dict[str, list[Path]] = {}
    for path in modules_of("lnattn"):
        room = path.relative_to(source).with_suffix("").parts[0]
        if room != "__init__":
            rooms.setdefault(room, []).append(path)
    below: dict[str, set[str]] = {}
    for room, modules in rooms.items():
        for path in modules:
            parts = [name.split(".") for name in imports_of(path.read_text(encoding="utf-8"))]
            other = {name[1] for name in parts if name[0] == "lnattn" and len(name) > 1}
            below.setdefault(room, set()).update(other & set(rooms) - {room})
    order = list(TopologicalSorter(below).static_order())
    assert order.index("weights") < order.index("attention") < order.index("cli")
    with pytest.raises(CycleError):
        list(TopologicalSorter({**below, "weights": {"cli"}}).static_order())


def test_nothing_of_this_machine_is_committed():
    """No path of a workplace: code takes paths by argument or environment variable."""
    places = ("/ro" + "ot/", "/wo" + "rk/", "../sha" + "red")
    for pattern in ("src/**/*.py", "tests/*.py", "experiments/**/*.py", "notebooks/*.md"):
        for path in ROOT.glob(pattern):
            text = path.read_text(encoding="utf-8")
            assert not [place for place in places if place in text], path
