"""What `import lnattn` offers: examples that run, here and in the reference; nothing heavy."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys

import pytest

import lnattn
from lnattn import inputs
from lnattn_book.places import repository

#: Its example would ask the network.
WITHOUT_EXAMPLE = {"default_model"}
_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = _CODE.findall((repository() / "book" / "api.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [n for n in lnattn.__all__ if n not in WITHOUT_EXAMPLE])
def test_examples_show_what_happens(name):
    thing = getattr(lnattn, name)
    module = importlib.import_module(thing.__module__)
    (example,) = doctest.DocTestFinder(recurse=False).find(
        inspect.unwrap(thing), name, module=False, globs=dict(vars(module))
    )
    assert example.examples, f"{name} shows no example"
    assert doctest.DocTestRunner().run(example).failed == 0


def test_the_doors_show_what_they_take():
    assert doctest.testmod(inputs).failed == 0
    assert doctest.testmod(inputs).attempted > 4


def test_importing_it_loads_nothing_heavy():
    code = "import sys, lnattn; print(*sorted({'torch', 'numba', 'numpy'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == ""


@pytest.mark.parametrize("example", EXAMPLES, ids=["affinity", "position", "contribution", "keys"])
def test_the_examples_of_the_reference_run(example, capsys) -> None:
    exec(compile(example, "api.md", "exec"), {})  # trusted: our own file
    assert capsys.readouterr().out.strip()
