"""The rooms of the house: who may import whom, read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from lnattn import paths

SOURCE, HERE = paths.repository() / "src", Path(__file__).parent
#: From the bottom up. A module imports from its own floor and from those below it.
FLOORS = (
    {"errors", "storage", "paths", "progress", "kept", "weights", "transformer", "relative"},
    {"numerics"},
    {"attention", "text"},
    {"models"},
    {"training"},
    {"studies"},
    {"claims"},
    {"book"},
    {"commands"},
    {"cli"},
)
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}
#: Attention is algebra: no files, no names of models.
GROUND_OF_ATTENTION = {"attention", "weights", "transformer", "relative", "numerics", "errors"}


def imports_of(tree: ast.AST) -> Iterator[str]:
    """The dotted names that a module imports, wherever in it: 'package.module.name'."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def arrows(package: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(module, imported name) for each import of one of our two packages, as parts."""
    found = []
    for path in sorted((SOURCE / package).rglob("*.py")):
        module = path.relative_to(SOURCE).with_suffix("").parts
        for name in imports_of(ast.parse(path.read_text(encoding="utf-8"))):
            parts = tuple(name.split("."))
            if parts[0] in ("lnattn", "booksite"):
                found.append((module, parts))
    return found


INSIDE = arrows("lnattn")
#: The package's own `__init__` offers names of all rooms.
BETWEEN_ROOMS = [(a, b) for a, b in INSIDE if b[0] == "lnattn" and a != ("lnattn", "__init__")]


def shown(arrow: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
    return " imports ".join(".".join(end) for end in arrow)


def test_the_arrows_were_found():
    assert len(INSIDE) > 300
    assert (("lnattn", "attention", "folding"), ("lnattn", "weights", "AttentionLayer")) in INSIDE


def test_the_package_knows_nothing_of_the_site():
    assert not [shown(arrow) for arrow in INSIDE if arrow[1][0] == "booksite"]


def test_every_room_has_a_floor():
    rooms = {
        path.stem
        for path in (SOURCE / "lnattn").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert rooms - {"__init__"} == set(FLOOR_OF)


def test_no_arrow_goes_up():
    assert not [shown((a, b)) for a, b in BETWEEN_ROOMS if FLOOR_OF.get(b[1], 0) > FLOOR_OF[a[1]]]


def test_every_import_names_the_room():
    """`from lnattn import fold` would hide where it is from."""
    assert not [shown((a, b)) for a, b in BETWEEN_ROOMS if len(b) < 2 or b[1] not in FLOOR_OF]


def test_attention_is_algebra():
    others = [
        shown((a, b))
        for a, b in BETWEEN_ROOMS
        if a[1] == "attention" and b[1] not in GROUND_OF_ATTENTION
    ]
    assert not others


def test_no_study_imports_another():
    """Folders of studies, and the two studies of one module, `composition` and `identities`."""
    across = [
        shown((a, b))
        for a, b in BETWEEN_ROOMS
        if a[1] == b[1] == "studies" and a[2] != "__init__" and a[2] != b[2]
    ]
    assert not across


def test_the_folder_of_a_study_says_what_it_asks():
    folders = [path for path in (SOURCE / "lnattn" / "studies").iterdir() if path.is_dir()]
    folders = [path for path in folders if (path / "__init__.py").is_file()]
    assert len(folders) >= 6
    for folder in folders:
        tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
        text = ast.get_docstring(tree) or ""
        first = text.splitlines()[0] if text else ""
        assert "?" in first, folder.name
        assert "(chapter" in first, folder.name
        assert re.search("§|[Ss]ection|App[.]", text), f"{folder.name}: of which paper's sections?"
        assert 5 <= len(text.splitlines()) <= 10, folder.name
        offered = next(n.value for n in tree.body if isinstance(n, ast.Assign))
        assert 1 <= len(ast.literal_eval(offered)) <= 5, folder.name


#: Test files about several modules, the project or the site as a whole; helpers' own tests.
OF_THE_WHOLE = {
    *("accessibility", "benchmarks", "book_llama", "browser", "browser_explorer", "chapters"),
    *("claims_filter", "distance_studies", "examples", "first_command", "layout", "project"),
    *("public_api", "screenshots", "selectability_models", "site", "wheel"),
}


def test_a_test_file_is_named_after_what_it_tests():
    """A module or a folder, with the folder's name before it where that alone would not say it."""
    found = [path for room in ("lnattn", "booksite") for path in (SOURCE / room).rglob("*")]
    things = [path.with_suffix("") for path in found if path.suffix == ".py" or path.is_dir()]
    named = {name for one in things for name in (one.name, f"{one.parent.name}_{one.name}")}
    tests = {path.stem.removeprefix("test_") for path in HERE.glob("test_*.py")}
    assert tests - named == OF_THE_WHOLE
