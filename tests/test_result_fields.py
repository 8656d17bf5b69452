"""Every public part of a study's result is asked for in some test that knows the study's room.

That a test names a part does not say that it tests it; that none names it says that none does.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import lnattn

#: The rooms whose results pages and reports rest on.
ROOMS = (
    "lnattn.affinity",
    "lnattn.composition",
    "lnattn.contribution",
    "lnattn.position",
    "lnattn.rotary",
    "lnattn.selectability",
    "lnattn.stats",
    "lnattn_book.studies",
    "experiments.layers_above.lone_tokens",
)
#: Modules of those rooms whose classes are what a study is given, or how it is computed.
GIVEN = {
    "lnattn.attention.vectors",
    "lnattn.rotary.fold",
    "lnattn.rotary.weights",
    "lnattn.selectability.kernel",
    "lnattn_book.studies.majority.encoder",
    "lnattn_book.studies.majority.train",
    "lnattn_book.studies.costs.formulas",
    "lnattn_book.studies.costs.profiling",
}
#: Modules that read what experiments froze: chapters show of it what they need.
READERS = {
    f"lnattn_book.studies.{name}"
    for name in (
        "benchmark_report",
        "exposure",
        "joining_runs",
        "language_models",
        "layers_above",
        "switch",
        "unselectable_words",
    )
}
#: What a result is stored by, which writing and reading it tests; and what the model was.
STORED = {"arrays", "restored", "causal"}
TESTS = Path(__file__).parent


def modules(room: str) -> Iterator[str]:
    """A room's modules by name, itself first, without those that make no results."""
    package = importlib.import_module(room)
    yield package.__name__
    for found in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
        if found.name not in GIVEN | READERS:
            yield found.name


def results(room: str) -> Iterator[type]:
    """The public dataclasses and named tuples that are defined in a room."""
    for name in modules(room):
        for known in vars(importlib.import_module(name)).values():
            if not isinstance(known, type) or known.__name__.startswith("_"):
                continue
            if known.__module__ == name and (
                dataclasses.is_dataclass(known) or hasattr(known, "_fields")
            ):
                yield known


def parts(result: type) -> set[str]:
    """Names of a result's public fields, properties and methods; no constant of the class."""
    fields = getattr(result, "__dataclass_fields__", None) or result._fields  # type: ignore[attr-defined]
    described = {
        name
        for name, known in vars(result).items()
        if callable(known) or isinstance(known, property | classmethod)
    }
    names = {*fields, *described} - STORED
    return {name for name in names if not name.startswith("_") and not name.isupper()}


@functools.cache
def named_in(path: Path) -> frozenset[str]:
    """What a test file asks of anything: attributes, and names that stand in strings."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return frozenset(names)


def files_of(room: str) -> list[Path]:
    """Test files that import from a room, or from the package what lives there."""
    public = [name for name, home in lnattn._HOME_OF.items() if f"{home}.".startswith(f"{room}.")]
    package, _, name = room.rpartition(".")
    known = (room, f"from {package} import {name}", *public)
    found = []
    for path in sorted(TESTS.glob("test_*.py")):
        text = path.read_text("utf-8")
        if path.name != Path(__file__).name and any(name in text for name in known):
            found.append(path)
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_no_part_of_a_result_is_without_a_test(room: str) -> None:
    asked = frozenset[str]().union(*map(named_in, files_of(room)))
    silent = {f"{one.__name__}.{name}" for one in results(room) for name in parts(one) - asked}
    assert list(results(room))
    assert not silent, f"write a test of {', '.join(sorted(silent))}"
