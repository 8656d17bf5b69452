"""Docstrings in the API reference: plain prose with `code` in backticks, made safe for Sphinx.

Sphinx reads docstrings as reStructuredText. The package's are plain text, in which *words* can be
emphasised, and any other asterisk, a vertical bar or a trailing underscore means itself; lines that
are indented more are either a list or set off as they stand, and so are examples (`>>>`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

_CODE = re.compile(r"(`+)([^`]*[^`\s][^`]*)\1")
_NUMBERED = re.compile(r"(\d+|[a-zA-Z])[.)] ")
_SPECIAL = re.compile(r"([\\*_|])")
#: A word or a few between asterisks, as in Markdown; not a power, nor the axes `*shape`.
_EMPHASIS = re.compile(r"(?<![^\s(\[/:-])\*(\w(?:[\w -]*\w)?)\*(?=$|[\s)\]/:.,;!?-])")


def as_restructured_text(lines: Sequence[str]) -> list[str]:
    """The lines of a docstring (its common indentation removed) as reStructuredText."""
    converted: list[str] = []
    for blank, group in groupby(lines, key=lambda line: not line.strip()):
        if blank:
            converted.append("")
        else:
            converted += [*_paragraph(list(group)), ""]
    return converted


def _paragraph(lines: list[str]) -> Iterator[str]:
    if lines[0].startswith(">>> "):  # an example, which Sphinx knows
        yield from lines
        return
    if all(line.startswith(" ") for line in lines):
        yield ".. code-block:: text"
        yield ""
        yield from (f"  {line}" for line in lines)
        return
    for item in _items(lines):
        text = " ".join(line.strip() for line in item)
        if text.startswith("- "):
            yield f"- {_escape(text[2:])}"
        else:
            # A number at the start would become a list of Sphinx's own numbering.
            yield ("\\" if _NUMBERED.match(text) else "") + _escape(text)
        yield ""


def _items(lines: list[str]) -> list[list[str]]:
    """One group of lines for each list item, and one for the words before the first item."""
    items: list[list[str]] = []
    for line in lines:
        if not items or line.startswith("- ") or _NUMBERED.match(line):
            items.append([])
        items[-1].append(line)
    return items


def _escape(text: str) -> str:
    """Text as it stands, and `code` as code. An odd backtick is a character like any other."""
    pieces: list[str] = []
    position = 0
    for match in _CODE.finditer(text):
        pieces += [_plain(text[position : match.start()]), f"``{match[2].strip()}``"]
        # A letter right after code ("`fold`s") would undo its end.
        if match.end() < len(text) and (text[match.end()].isalnum() or text[match.end()] == "_"):
            pieces.append("\\ ")
        position = match.end()
    return "".join([*pieces, _plain(text[position:])])


def _plain(text: str) -> str:
    parts = [_SPECIAL.sub(r"\\\1", part).replace("`", "\\`") for part in _EMPHASIS.split(text)]
    return "".join(f"*{part}*" if odd % 2 else part for odd, part in enumerate(parts))
