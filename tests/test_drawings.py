"""Figures for download: drawings and numbers are right, small, the same every time, and linked."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest
from bs4 import BeautifulSoup
from matplotlib.figure import Figure

from lnattn_book.page import dark, drawings
from lnattn_book.page.style import settings

CURVE = np.array([1 / 3, 2.0, np.nan, -4e-7])


def figure() -> Figure:
    with plt.rc_context(settings()):
        drawn, axes = plt.subplots(2, 2)
        axes[0, 0].plot(range(4), CURVE, label="$T^{p}$, all")
        axes[0, 0].axhline(7)
        axes[0, 0].fill_between([0, 1], [2, 3], [4, 5])
        axes[0, 0].set_title("first")
        axes[0, 1].bar([1, 2], [0.5, 3], bottom=1)
        axes[0, 1].barh([5], [9])
        cells = np.ma.masked_equal([[1.5, 2], [0, 4]], 0)
        image = axes[1, 0].imshow(cells)
        axes[1, 0].set_xticks([0, 1], ["␣New", "␣York"])
        drawn.colorbar(image)
        axes[1, 1].scatter([1, 2], [3, 4], c=[8, 9], label="points")
        axes[1, 1].pcolormesh([[7.0]])
        axes[1, 1].vlines([6], [0], [1])
    plt.close(drawn)
    return drawn


def rows_of(drawn: Figure) -> list[tuple[str, ...]]:
    first, *rows = csv.reader(io.StringIO(drawings.csv_of(drawn)))
    assert tuple(first) == drawings.COLUMNS
    return [tuple(row) for row in rows]


def test_numbers_are_those_that_are_drawn() -> None:
    rows = rows_of(figure())
    line = [row for row in rows if row[1] == "line"]
    assert line == [
        ("first", "line", "$T^{p}$, all", "0", "0.33333", ""),
        ("first", "line", "$T^{p}$, all", "1", "2", ""),
        ("first", "line", "$T^{p}$, all", "2", "", ""),
        ("first", "line", "$T^{p}$, all", "3", "-4e-07", ""),
    ]
    assert {row[3:5] for row in rows if row[1] == "area"} >= {("0", "2"), ("0", "4"), ("1", "5")}
    bars = [row[2:] for row in rows if row[1] == "bar"]
    assert bars == [("1", "1", "1.5", ""), ("1", "2", "4", ""), ("2", "9", "5", "")]
    maps = [row for row in rows if row[1] == "map"]
    assert [row[3:] for row in maps[:4]] == [
        ("␣New", "0", "1.5"), ("␣York", "0", "2"), ("␣New", "1", ""), ("␣York", "1", "4"),
    ]  # fmt: skip
    assert [row[5] for row in maps[4:]] == ["7"], "the colour bar is no data"
    points = [row[2:] for row in rows if row[1] == "point"]
    assert points == [("points", "1", "3", "8"), ("points", "2", "4", "9")]
    assert [row[3:5] for row in rows if row[1] == "segment"] == [("6", "0"), ("6", "1")]


# ---- The site ------------------------------------------------------------------------------------

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_nb", reason="MyST-NB is not installed; pip install -e '.[book]'")
import nbformat  # noqa: E402
from small_site import build  # noqa: E402

from booksite import execute  # noqa: E402


def test_greys_and_tints_change_sides_and_colours_stay() -> None:
    white, black, tint, blue = dark.shade(["white", "black", "#dbe9f6", "#0072b2"])[:, :3]
    assert np.ptp(white) == np.ptp(black) == 0
    assert white[0] < 0.1 < 0.9 < black[0]
    assert tint.max() < 0.25
    assert tint.argmax() == 2
    assert np.allclose(blue, (0, 114 / 255, 178 / 255))


def test_the_dark_figure_is_another_and_leaves_the_figure_as_it_was() -> None:
    drawn = figure()
    words = drawn.axes[2].text(0, 0, "in a cell", color="white")
    _, light = drawings.svg_of(drawn), drawings.svg_of(drawn)  # the first may move the axes
    with dark.recoloured(drawn):
        dark_one = drawings.svg_of(drawn)
        assert words.get_color() == "white"
    assert drawings.svg_of(drawn) == light
    assert ("fill: #121212" in dark_one, "fill: #121212" in light) == (True, False)
    assert "#0072b2" in dark_one
    assert len(ElementTree.fromstring(light).findall(".//{*}image")) > 0


CHAPTER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {name: python3, display_name: Python 3}
---
# A chapter

```{code-cell} ipython3
---
mystnb:
  figure:
    name: fig-one
    caption: A line.
  image:
    alt: A line that rises.
---
import matplotlib.pyplot as plt
from lnattn_book.page import drawings
from lnattn_book.page import style
style.use_style()
drawings.install_formatter()
figure, ax = plt.subplots()
ax.plot([1, 2], [3, 4]);
```
"""


@pytest.mark.parametrize("outside", [False, True])
def test_a_page_offers_its_notebook_and_its_figures(outside, tmp_path, monkeypatch) -> None:
    """Whether Sphinx runs the chapter, or finds it in the cache, as a build's other chapters."""
    monkeypatch.setenv("LNATTN_DRAWINGS", "yes")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    chapter, cache = tmp_path / "source" / "index.md", tmp_path / "cache"
    chapter.parent.mkdir()
    chapter.write_text(CHAPTER)
    if outside:
        notebook, seconds, error = execute.execute(chapter)
        assert not error
        execute.keep(notebook, seconds, chapter, cache)
    out, warnings, _ = build(
        tmp_path,
        extensions=["myst_nb", "booksite.downloads"],
        nb_execution_mode="cache",
        nb_execution_cache_path=str(cache),
        # Not Sphinx's own default, which myst_nb would change for every later build.
        source_suffix={".md": "myst-nb"},
    )
    assert not warnings
    page = (out / "index.html").read_text("utf-8")
    rows = (out / "_downloads" / "figures" / "fig-one.csv").read_text().splitlines()
    drawn = ElementTree.parse(out / "_images" / "fig-one.svg").getroot()
    assert rows[1:] == ["panel 1,line,1,1,3,", "panel 1,line,1,2,4,"]
    assert drawn.tag.endswith("svg")
    assert '<a href="_downloads/figures/fig-one.csv" download>' in page
    assert '<a href="_images/fig-one.svg" download>' in page
    light, dark = BeautifulSoup(page, "html.parser").select("figure a.enlarge > img")
    assert (light["class"], dark["class"]) == (["only-light"], ["only-dark"])
    for picture in (light, dark):
        assert picture["alt"] == "A line that rises."
        assert picture.parent["href"] == picture["src"]
        drawn = ElementTree.parse(out / picture["src"]).getroot()
        assert (picture["width"], picture["height"]) == (drawn.get("width"), drawn.get("height"))
    assert "loading" not in light.attrs, "the first picture of a page is fetched at once"
    assert dark["loading"] == "lazy"
    whole = nbformat.read(out.parent / "jupyter_execute" / "index.ipynb", 4).cells[1].outputs[-1]
    # The first cell of the offered one says elsewhere what it needs.
    offered = nbformat.read(out / "_sources" / "index.ipynb", 4).cells[2].outputs[-1]
    assert set(whole.metadata) == {drawings.PNG}
    assert (set(offered.data), offered.metadata) == ({"image/png", "text/plain"}, {})
