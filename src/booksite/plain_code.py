"""The 400 lines of NumPy, a place on their page for each function, and links that lead there.

- `{plain-code} FILE`: the file, cut above the formula of each function, lines numbered through;
- `{plain}`fold`` : "`fold`, 17 lines", a link to that function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

import lnattn

#: Read and not imported, which would load SciPy in every build.
SOURCE = Path(lnattn.__file__).with_name("plain.py")


class Piece(NamedTuple):
    """Lines of the file that belong to one function: its formula, itself, and what follows."""

    name: str | None  # of the function; None for what stands before the first
    first: int  # the number of its first line, from 1
    text: str
    lines: int  # of the formula and the function alone


def pieces(source: str) -> Iterator[Piece]:
    """The source in order, cut above the comment of each function."""
    lines = source.splitlines()
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    starts = [_formula(lines, function.lineno) for function in functions]
    if starts[0] > 1:
        yield Piece(None, 1, "\n".join(lines[: starts[0] - 1]), 0)
    ends = [*starts[1:], len(lines) + 1]
    for function, start, end in zip(functions, starts, ends, strict=True):
        last = function.end_lineno or function.lineno
        text = "\n".join(lines[start - 1 : end - 1])
        yield Piece(function.name, start, text, last - start + 1)


def _formula(lines: list[str], line: int) -> int:
    """The first of the comments that stand right above a line."""
    while line > 1 and lines[line - 2].startswith("# ") and not lines[line - 2].startswith("# ="):
        line -= 1
    return line


def label(name: str) -> str:
    """What a function is called among the book's labels."""
    return f"plain-{name.replace('_', '-')}"


class PlainCode(SphinxDirective):
    """The file, function by function; each can be linked to."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(SOURCE))
        made: list[nodes.Node] = []
        for piece in pieces(SOURCE.read_text(encoding="utf-8")):
            block = nodes.literal_block(piece.text, piece.text, language="python", linenos=True)
            block["highlight_args"] = {"linenostart": piece.first}
            if piece.name:
                target = nodes.target("", "", ids=[label(piece.name)], names=[label(piece.name)])
                self.state.document.note_explicit_target(target)
                made.append(target)
            made.append(block)
        return made


class PlainRole(SphinxRole):
    """A link to a function of the file, with its name and how many lines it takes."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        known = {piece.name: piece for piece in pieces(SOURCE.read_text(encoding="utf-8"))}
        piece = known.get(self.text)
        if piece is None:
            message = self.inliner.reporter.warning(
                f"lnattn.plain has no function {self.text!r}; name one of it.", line=self.lineno
            )
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        self.env.note_dependency(str(SOURCE))
        link = addnodes.pending_xref(
            "",
            nodes.literal("", piece.name, classes=["xref", "py"]),
            nodes.Text(f", {piece.lines} lines"),
            refdomain="std",
            reftype="ref",
            refexplicit=True,
            reftarget=label(self.text),
            refdoc=self.env.docname,
            refwarn=True,
        )
        return [link], []


def setup(app: Sphinx) -> None:
    """Register the directive and the role."""
    app.add_directive("plain-code", PlainCode)
    app.add_role("plain", PlainRole())
