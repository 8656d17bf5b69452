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
from lnattn_book.page.places import repository

_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = _CODE.findall((repository() / "book" / "api.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", lnattn.__all__)
def test_examples_show_what_happens(name):
    thing = getattr(lnattn, name)
    module = thing if inspect.ismodule(thing) else importlib.import_module(thing.__module__)
    (example,) = doctest.DocTestFinder(recurse=False).find(
        inspect.unwrap(thing), name, module=False, globs=dict(vars(module))
    )
    assert example.examples, f"{name} shows no example"
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("name", sorted({*lnattn.__all__} - {"LnattnError", "plain"}))
def test_a_docstring_tells_of_every_argument(name):
    thing = getattr(lnattn, name)
    told = inspect.getdoc(thing)
    arguments = [argument for argument in inspect.signature(thing).parameters if argument != "self"]
    untold = [argument for argument in arguments if not re.search(rf"\b{argument}\b", told)]
    assert arguments
    assert not untold, f"the docstring of {name} does not say what {untold} are"


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
