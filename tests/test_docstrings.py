"""Docstrings are reStructuredText, as the API reference reads them: whoever writes one, is told."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("docutils", reason="docutils is absent: pip install .[book]")
from docutils import nodes
from docutils.core import publish_doctree

SOURCE = Path(__file__).parents[1] / "src" / "lnattn"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
QUIET = {"report_level": 5, "halt_level": 5, "file_insertion_enabled": False}


def docstrings(text):
    """All docstrings of a module, and the comments that stand for one (`#:`)."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and (found := ast.get_docstring(node)):
            yield found
    for block in re.findall(r"(?:^ *#: ?.*\n)+", text, re.MULTILINE):
        yield inspect.cleandoc(re.sub(r"^ *#: ?", "", block, flags=re.MULTILINE))


def faults(docstring):
    """What docutils cannot read, and lines set off that would run together for want of `::`."""
    document = publish_doctree(docstring, settings_overrides=QUIET)
    unread = (nodes.problematic, nodes.system_message)
    yield from (node.astext() for node in document.findall() if isinstance(node, unread))
    for node in document.findall(nodes.block_quote):
        yield f"set off without '::': {node.astext()[:60]}"


@pytest.mark.parametrize(
    ("docstring", "fault"),
    [
        ("max |a − b| of all", "|a − b|"),
        ("tables [n *shape]", "Inline emphasis"),
        ("so\n\n    y = x\n    z = y", "set off"),
        ("- one\n two", "unexpected unindent"),
    ],
)
def test_faults_are_seen(docstring, fault):
    assert fault in " ".join(faults(docstring))


def test_docstrings_are_restructured_text():
    read, found = 0, []
    for file in sorted(SOURCE.rglob("*.py")):
        for docstring in docstrings(file.read_text("utf-8")):
            read += 1
            found += [f"{file.name}: {fault}" for fault in faults(docstring)]
    assert read > 1000
    assert found == []
