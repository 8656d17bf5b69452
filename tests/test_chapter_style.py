"""The chapters' code is in ruff's style, and the tool that sees to it changes nothing else."""

from __future__ import annotations

from pathlib import Path

import chapter_style
import pytest
from naming import naming

CHAPTER = """# A title

Prose with `code`,   two spaces and a fence:

```python
x=1
```

```{code-cell} ipython3
---
tags: [hide-input]
mystnb: {figure: {caption: "a=1"}}
---
import os
y = {  'a':1 }
```

```{code-cell} ipython3
:tags: [remove-cell]
y
```
"""


def test_the_chapters_are_in_style() -> None:
    assert chapter_style.main([]) == 0


def test_only_code_in_cells_is_changed(tmp_path: Path) -> None:
    told = chapter_style.fixed(tmp_path / "x.md", CHAPTER)
    assert told == CHAPTER.replace("import os\ny = {  'a':1 }", 'y = {"a": 1}')


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
