"""The API reference: every public docstring is valid for Sphinx, and its examples run."""

from __future__ import annotations

import importlib
import inspect
import io
import pkgutil
import re

import docutils.core
import pytest

import lnattn
from booksite.docstrings import as_restructured_text
from lnattn.paths import repository


def render(lines: list[str]) -> tuple[str, str]:
    """Text of a docstring after docutils has read it, and docutils' complaints."""
    stream = io.StringIO()
    settings = {"warning_stream": stream, "report_level": 1, "halt_level": 5}
    document = docutils.core.publish_doctree("\n".join(lines), settings_overrides=settings)
    return document.astext(), stream.getvalue()


def documented() -> list[tuple[str, str]]:
    """(name, docstring) of every module, and of its public classes, functions and methods."""
    found = []
    modules = pkgutil.walk_packages(lnattn.__path__, "lnattn.")
    for info in modules:
        if info.name == "lnattn.__main__":  # the command line itself, which runs when imported
            continue
        module = importlib.import_module(info.name)
        found.append((info.name, module))
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != info.name:
                continue
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found.append((f"{info.name}.{name}", thing))
            if inspect.isclass(thing):
                members = vars(thing).items()
                found += [
                    (f"{info.name}.{name}.{key}", value)
                    for key, value in members
                    if not key.startswith("_") and inspect.isfunction(value)
                ]
    return [(name, inspect.cleandoc(thing.__doc__ or "")) for name, thing in found]


def test_every_docstring_is_valid_and_keeps_its_words() -> None:
    everything = documented()
    assert len(everything) > 200
    for name, text in everything:
        shown, complaints = render(as_restructured_text(text.splitlines()))
        assert not complaints, f"{name}: {complaints}"
        assert _words(shown) == _words(text), name


def _words(text: str) -> str:
    """The text without spaces, backticks, asterisks and the dashes of lists."""
    return "".join(text.split()).replace("`", "").replace("*", "").replace("-", "")


_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = _CODE.findall((repository() / "book" / "api.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", EXAMPLES, ids=["affinity", "position", "contribution", "keys"])
def test_the_examples_of_the_reference_run(example, capsys) -> None:
    exec(compile(example, "api.md", "exec"), {})  # trusted: our own file
    assert capsys.readouterr().out.strip()
