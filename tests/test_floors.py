"""Floors and rooms: what imports what, also by a string; no circle, no way up, nothing unreached.

The contracts stand in `pyproject.toml` and are import-linter's. What stands in a string, where it
cannot look, is looked for here.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
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
LINTER = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]


def modules_of(part: str) -> list[Path]:
    return sorted((ROOT / "src" / part).rglob("*.py"))


# ---- Contracts -----------------------------------------------------------------------------------


def linted(root: Path) -> subprocess.CompletedProcess[str]:
    """What import-linter says of the packages below a folder."""
    return subprocess.run(
        [*LINTER, str(ROOT / "pyproject.toml"), "--no-cache"],
        cwd=root,
        env={"PYTHONPATH": f"{root / 'src'}:{root}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_contracts_of_floors_and_rooms_are_kept():
    said = linted(ROOT)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "7 kept, 0 broken" in said.stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        pytest.param("lnattn/errors.py", "import lnattn_book", "Four floors", id="to the book"),
        pytest.param(
            "lnattn_book/page/names.py", "import booksite.pages", "Four floors", id="site"
        ),
        pytest.param("lnattn/stats.py", "import sklearn", "The wheel needs", id="scikit-learn"),
        pytest.param(
            "lnattn/weights.py",
            "def f():\n    from lnattn.text import counts",
            "Layers of the wheel",
            id="core to text",
        ),
        pytest.param("lnattn/new_room.py", "", "Layers of the wheel", id="a room in no layer"),
        pytest.param("lnattn_book/loose.py", "", "Rooms of the book", id="a loose module"),
        pytest.param(
            "lnattn_book/studies/samples.py",
            "from lnattn_book.claims import rules",
            "Rooms of the book",
            id="studies to claims",
        ),
        pytest.param("booksite/settings.py", "import booksite.build", "No circles", id="a circle"),
        pytest.param(
            "../conformance/make.py", "import lnattn.plain", "The conformance", id="suite to lnattn"
        ),
        pytest.param(
            "../conformance/oracle.py", "import torch", "What is right", id="oracle to a library"
        ),
    ],
)
def test_a_contract_that_is_broken_is_seen(tmp_path, file, line, contract):
    for part in ("src", "experiments", "conformance"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("[!_]*.[!p]*"))
    with (tmp_path / "src" / file).open("a", encoding="utf-8") as opened:
        opened.write(f"\n{line}\n")
    said = linted(tmp_path)
    assert said.returncode == 1
    assert re.search(rf"^{contract}.* BROKEN$", said.stdout, re.MULTILINE), said.stdout


def test_architecture_draws_the_rooms_of_the_contracts():
    """Line by line, in their order: the rooms of the wheel, and those of the book."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    blocks = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("```text\n")
    for package, block in (("lnattn", blocks[2]), ("lnattn_book", blocks[3])):
        (layers,) = [one["layers"] for one in contracts if one.get("containers") == [package]]
        drawn = block.partition("```")[0].splitlines()
        assert [re.split(r"  +", line)[0] for line in drawn] == layers


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


def test_no_two_rooms_of_the_book_have_modules_of_one_name():
    """But a chapter, its figures and its study may share a name."""
    rooms = [path.relative_to(ROOT / "src" / "lnattn_book") for path in modules_of("lnattn_book")]
    others = [room.stem for room in rooms if room.parts[0] not in ("chapters", "figures")]
    names = Counter(name for name in others if not name.startswith("__"))
    assert not [name for name, times in names.items() if times > 1]


def test_no_two_classes_have_one_name():
    sources = [path for part in ("lnattn", "lnattn_book", "booksite") for path in modules_of(part)]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sources]
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    assert len(names) > 150
    assert not [name for name, times in Counter(names).items() if times > 1]


# ---- Strings -------------------------------------------------------------------------------------


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


def named_above(source: str, above: tuple[str, ...]) -> list[str]:
    """What a module names of the floors above it in a string that could be imported by."""
    return [
        text
        for text in strings_of(source)
        if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*(:[\w.]+)?", text)
        and re.split(r"[.:]", text)[0] in above
    ]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("import_module('lnattn_book.frozen')", id="by import_module"),
        pytest.param("if find_spec('lnattn_book'): pass", id="looked for"),
        pytest.param("NAME = 'lnattn_book'\n__import__(NAME)", id="by a constant"),
        pytest.param("resolve_name('lnattn_book.frozen:STUDIES')", id="by resolve_name"),
    ],
)
def test_an_arrow_up_by_a_string_is_seen(source: str):
    assert named_above(source, ABOVE["lnattn"])
    assert not named_above('"""Of lnattn_book."""\nimport lnattn.weights', ABOVE["lnattn"])


@pytest.mark.parametrize("part", ABOVE)
def test_no_string_points_up(part: str):
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in modules_of(part)
        if (names := named_above(path.read_text(encoding="utf-8"), ABOVE[part]))
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


def test_the_package_knows_nothing_of_the_book():
    """No path of a page, a chapter or the list of claims; no chapter's number, no claim's id."""
    told = re.compile(
        r"claims\.yml|\bnotebooks\b|\bbook/|lnattn_book|\b(the|this) book\b|\bchapters? \d"
        r"|\b[KBRMNDSU][1-9]\d?\b",
        re.IGNORECASE,
    )
    for path in modules_of("lnattn"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if told.search(line)], path


def test_nothing_of_this_machine_is_committed():
    """No path of a workplace: code takes paths by argument or environment variable."""
    places = ("/ro" + "ot/", "/wo" + "rk/", "../sha" + "red")
    for pattern in ("src/**/*.py", "tests/*.py", "experiments/**/*.py", "notebooks/*.md"):
        for path in ROOT.glob(pattern):
            text = path.read_text(encoding="utf-8")
            assert not [place for place in places if place in text], path
