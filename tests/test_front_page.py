"""The front page: numbers and pictures of the chapters, the drawing, and links of this build.

Skipped, by name, where Sphinx (the extra `book`) is not installed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from PIL import Image
from small_site import build

from lnattn import paths

ROOT = paths.repository()
INDEX = """# Start

Found: {result}`05-six-terms words` and {result}`05-six-terms plain`.

```{thumbnail} fig-x
```

```{term-grid}
```

{try-this}`text=A <cat>&head=1`

```{book-links}
```

```{toctree}
notebooks/05-six-terms
```
"""
CHAPTER = """# 05 · Six terms

(fig-x)=
```{figure} figure.png
:alt: A "picture" & more

Caption.
```
"""


def page_of(folder: Path, index: str = INDEX, **settings: object) -> tuple[str, str]:
    """The front page of a book of two pages, and the warnings."""
    (folder / "source" / "notebooks").mkdir(parents=True, exist_ok=True)
    noise = Image.effect_noise((1500, 900), 80).convert("RGB")
    noise.save(folder / "source" / "notebooks" / "figure.png")
    glue = folder / "_build" / "jupyter_execute" / "notebooks" / "05-six-terms.glue.json"
    glue.parent.mkdir(parents=True, exist_ok=True)
    texts = {"words": "'3.1 <times>'", "plain": "12"}
    glue.write_text(json.dumps({k: {"data": {"text/plain": v}} for k, v in texts.items()}))
    out, warnings, _ = build(
        folder,
        {"index.md": index, "notebooks/05-six-terms.md": CHAPTER},
        extensions=["myst_parser", "booksite.front_page", "booksite.explorer.page"],
        author="Some & one",
        **settings,
    )
    return (out / "index.html").read_text(encoding="utf-8"), warnings


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, str, str]:
    folder = tmp_path_factory.mktemp("book")
    return folder, *page_of(folder)


def test_numbers_of_a_chapter_are_shown_as_text(built) -> None:
    _, page, warnings = built
    assert "Found: 3.1 &lt;times&gt; and 12." in page
    assert not warnings


def test_a_thumbnail_is_the_figures_picture_with_its_words(built) -> None:
    folder, page, _ = built
    found = re.search(r'<img class="thumbnail"[^>]*>', page)[0]
    assert 'alt="A &quot;picture&quot; &amp; more"' in found
    assert (folder / "_build" / "html" / re.search('src="([^"]*)"', found)[1]).is_file()


def test_what_is_not_there_is_a_warning(tmp_path) -> None:
    index = "# Start\n\n{result}`05-six-terms nothing`\n\n```{thumbnail} fig-nothing\n```\n"
    page, warnings = page_of(tmp_path, index)
    assert "glues no 'nothing'; name another result" in warnings
    assert "no figure is labelled 'fig-nothing'; name another one" in warnings
    assert "?" in page


def test_try_this_is_a_safe_link_to_a_view(built) -> None:
    _, page, _ = built
    link = 'href="book/token-explorer.html#text=A+%3Ccat%3E&head=1"'
    assert f'<a class="try-this" {link}>' in page
