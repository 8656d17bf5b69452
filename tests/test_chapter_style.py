"""The chapters' code is in ruff's style, and the tool that sees to it changes nothing else."""

from __future__ import annotations

from pathlib import Path

import chapter_style
import pytest
from jupytext.cli import jupytext
from naming import naming

HEAD = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
    format_version: 0.13
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# A title

Prose with `code`,   two spaces and a fence:

```python
x=1
```
"""
WRITTEN = (
    HEAD
    + """
```{code-cell} ipython3
---
tags: [hide-input]
mystnb:
  figure:
    name: fig-x
    caption: |
      One line: *a*
      and {numref}`another` that's longer.
---
import os
y = {  'a':1 }
```

```{code-cell} ipython3
:tags: [remove-cell]
y
```
"""
)
STORED = (
    HEAD.replace(
        "jupytext:\n", f"jupytext:\n  notebook_metadata_filter: {chapter_style.FILTER}\n"
    ).replace("Python 3\n", "Python 3 (ipykernel)\n")
    + """
```{code-cell} ipython3
---
mystnb:
  figure:
    caption: 'One line: *a* and {numref}`another` that''s longer.'
    name: fig-x
tags: [hide-input]
---
y = {"a": 1}
```

```{code-cell} ipython3
:tags: [remove-cell]

y
```
"""
)


def test_the_chapters_are_in_style() -> None:
    assert chapter_style.main([]) == 0


def test_prose_stays_and_the_rest_is_as_ruff_and_jupytext_write_it(tmp_path: Path) -> None:
    assert chapter_style.fixed(tmp_path / "x.md", WRITTEN) == STORED
    assert chapter_style.fixed(tmp_path / "x.md", STORED) == STORED


@pytest.mark.parametrize("path", sorted(chapter_style.NOTEBOOKS.glob("*.md")), ids=lambda p: p.stem)
def test_what_jupytext_reads_it_writes(path: Path, tmp_path: Path) -> None:
    """By its own command line, through a notebook: as an editor opens and saves a chapter."""
    notebook, again = tmp_path / "x.ipynb", tmp_path / "x.md"
    jupytext(["--quiet", "--to", "ipynb", "--output", str(notebook), str(path)])
    jupytext(["--quiet", "--to", "md:myst", "--output", str(again), str(notebook)])
    assert again.read_text("utf-8") == path.read_text("utf-8")


def test_another_form_is_told(tmp_path: Path) -> None:
    chapter = tmp_path / "x.md"
    chapter.write_text(STORED, encoding="utf-8")
    assert chapter_style.complaints(chapter) == ""
    chapter.write_text(STORED.replace("]\n\ny", "]\ny"), encoding="utf-8")
    assert chapter_style.complaints(chapter) == (
        "x.md is not as jupytext writes it: JupyterLab would change it\n"
    )


def test_a_fault_is_told(tmp_path: Path) -> None:
    chapter = tmp_path / "x.md"
    chapter.write_text("```{code-cell} ipython3\nz = undefined\n```\n", encoding="utf-8")
    assert "F821" in chapter_style.complaints(chapter)


def test_all_cells_are_found() -> None:
    for chapter in sorted(chapter_style.NOTEBOOKS.glob("*.md")):
        text = chapter.read_text(encoding="utf-8")
        assert len(chapter_style.cells_of(text)) == text.count("```{code-cell}"), chapter.name


def test_a_chapter_is_named_by_its_file_or_its_name(tmp_path: Path) -> None:
    chapter = chapter_style.NOTEBOOKS / "02-folding.md"
    assert chapter_style.chapter_file("02-folding") == chapter
    assert chapter_style.chapter_file("02-folding.md") == chapter
    other = tmp_path / "x.md"
    other.touch()
    assert chapter_style.chapter_file(str(other)) == other
    with pytest.raises(SystemExit, match=naming("02-foldng", "02-folding")):
        chapter_style.main(["02-foldng"])
