"""Compiled code is forgotten when code of another module that is part of it changes."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import subprocess
import sys
import time
from pathlib import Path

from numba.extending import is_jitted

import lnattn
from lnattn.numerics.compiled import forget_outdated

HELPER = """
import numba
@numba.njit(cache=True)
def number():
    return {}
"""
CALLER = """
import numba, helper
from helper import number
from lnattn.numerics.compiled import forget_outdated
@numba.njit(cache=True)
def twice():
    return 2 * number()
forget_outdated(__name__, helper)
if __name__ != "__main__":
    print(twice(), *twice.stats.cache_hits.values())
"""


def run(folder: Path) -> str:
    paths = os.pathsep.join([str(folder), *filter(None, sys.path)])
    kept = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder / "kept")}
    done = subprocess.run(
        [sys.executable, "-c", "import caller"], env=kept, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_change_in_another_module_is_noticed(tmp_path):
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "helper.py").write_text(HELPER.format(1))
    assert run(tmp_path) == "2"
    assert run(tmp_path) == "2 1", "what has not changed is not compiled again"
    (tmp_path / "helper.py").write_text(HELPER.format(21))
    later = time.time() + 2  # also where the file system counts whole seconds
    os.utime(tmp_path / "helper.py", (later, later))
    assert run(tmp_path) == "42"


def test_a_module_without_compiled_functions_has_nothing_to_forget():
    forget_outdated(__name__, lnattn)


def test_every_module_names_what_its_compiled_functions_are_made_of():
    """From the functions' own globals: each compiled one of another module must be named."""
    crossing = 0
    for found in pkgutil.walk_packages(lnattn.__path__, "lnattn."):
        path = Path(lnattn.__path__[0], *found.name.split(".")[1:]).with_suffix(".py")
        if not path.is_file() or "njit" not in path.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(found.name)
        named = named_in(path)
        for function in vars(module).values():
            if not is_jitted(function) or function.py_func.__module__ != found.name:
                continue
            for used in made_of(function):
                if used != found.name:
                    crossing += 1
                    assert used.rpartition(".")[2] in named, f"{path.name}: {used} is not named"
    assert crossing >= 6


def made_of(function, seen=None) -> set[str]:
    """The modules of all compiled functions that this one calls, directly or not."""
    seen = set() if seen is None else seen
    code = function.py_func
    if code in seen:
        return set()
    seen.add(code)
    found = {code.__module__}
    for name in code.__code__.co_names:
        other = code.__globals__.get(name)
        if other is None:  # an attribute, perhaps of a module: kernel.name
            others = [getattr(value, name, None) for value in code.__globals__.values()]
        else:
            others = [other]
        for one in others:
            if is_jitted(one):
                found |= made_of(one, seen)
    return found


def named_in(path: Path) -> set[str]:
    """The modules that a file names to forget_outdated, by their own names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alias = {
        one.asname: one.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for one in node.names
        if one.asname
    }
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "forget_outdated"
    ]
    return {alias.get(arg.id, arg.id) for call in calls for arg in call.args if hasattr(arg, "id")}
