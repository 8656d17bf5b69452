"""Every figure as a drawing (SVG) for light and for dark pages, and its numbers (CSV).

While the book is built (LNATTN_DRAWINGS is set), a displayed figure carries the three beside its
picture; `booksite.downloads` turns them into files and links.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.category import StrCategoryFormatter
from matplotlib.collections import (
    Collection,
    LineCollection,
    PathCollection,
    PolyCollection,
    QuadMesh,
)
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

from lnattn_book.page.dark import recoloured
from lnattn_book.page.names import KEY, PNG
from lnattn_book.page.style import DPI

#: The columns of a figure's numbers; `value` is the colour of a cell or a point.
COLUMNS = ("panel", "kind", "series", "x", "y", "value")
#: Marks of one artist beyond which a drawing holds a picture of it instead, and rows beyond which
#: shaded areas are left out of the numbers: both files are to be small.
MANY, MOST_ROWS = 300, 5000
_COORDINATES = re.compile(r'(?<= )(?:d|x|y|points)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{2,}")
_SIZE = re.compile(r'(?<= )(width|height)="([\d.]+)pt"')

_Row = tuple[str, str, str, Any, Any, Any]


def svg_of(figure: Figure) -> str:
    """A figure as SVG, as large in pixels as its picture; the same bytes for the same figure.

    Letters are outlines, so that they stand where they were put, whatever fonts a reader has.
    """
    out = io.StringIO()
    ground = figure.get_facecolor()
    # Half a pixel, and below a tenth of a point, is finer than anyone can see.
    look = {"svg.fonttype": "path", "svg.hashsalt": "lnattn", "path.simplify_threshold": 0.5}
    with rc_context(look), _pictures(figure):
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(out, format="svg", bbox_inches="tight", facecolor=ground, metadata=nothing)
    text = _COORDINATES.sub(
        lambda match: _LONG.sub(lambda number: f"{float(number[0]):.1f}", match[0]), out.getvalue()
    )
    pixels = DPI / 72  # of a point
    return _SIZE.sub(lambda size: f'{size[1]}="{float(size[2]) * pixels:.0f}"', text, count=2)


@contextmanager
def _pictures(figure: Figure) -> Iterator[None]:
    """Meanwhile, artists of very many points are drawn as pictures."""
    many = [
        artist
        for ax in figure.axes
        for artist in ax.collections
        if isinstance(artist, PathCollection | LineCollection | PolyCollection)
        and max(len(artist.get_offsets()), len(artist.get_paths())) > MANY
    ]
    for artist in many:
        artist.set_rasterized(True)
    try:
        yield
    finally:
        for artist in many:
            artist.set_rasterized(False)


def csv_of(figure: Figure) -> str:
    """What a figure draws, a row a point: lines, bars, points, cells of a map, shaded areas."""
    rows = [row for number, ax in enumerate(figure.axes) for row in _rows_of(ax, number)]
    if len(rows) > MOST_ROWS:
        rows = [row for row in rows if row[1] != "area"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_written(value) for value in row])
    return out.getvalue()


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or not np.isfinite(value):
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e9 else f"{value:.5g}"


def _rows_of(ax: Axes, number: int) -> Iterator[_Row]:
    if ax.get_label() == "<colorbar>":
        return
    panel = ax.get_title() or ax.get_title("left") or ax.get_ylabel() or f"panel {number + 1}"
    names_x = _names(ax.xaxis)
    names_y = _names(ax.yaxis)
    for kind, series, points in _artists(ax):
        for x, y, value in points:
            yield panel, kind, series, names_x.get(x, x), names_y.get(y, y), value


def _names(axis: Axis) -> Mapping[float, str]:
    """The words at the places of an axis, where it has words."""
    places = axis.get_major_locator()
    words = axis.get_major_formatter()
    if isinstance(words, StrCategoryFormatter):
        return {float(x): word for x in places() if (word := words(x))}
    named = isinstance(words, FixedFormatter | FuncFormatter)
    if not (isinstance(places, FixedLocator) and named):
        return {}
    return {float(x): word for at, x in enumerate(places.locs) if (word := words(x, at))}


def _artists(ax: Axes) -> Iterator[tuple[str, str, Iterator[tuple[Any, Any, Any]]]]:  # noqa: C901 (a branch for each kind of artist)
    """Kind, label and points of everything that is drawn from data."""
    for place, line in enumerate(ax.lines):
        if line.get_transform().contains_branch(ax.transData):  # not a line across the whole axes
            three = getattr(line, "get_data_3d", None)
            data = three() if three else (*line.get_data(orig=False), None)
            yield "line", _label(line, place), _points(*data)
    for place, bars in enumerate(bars for bars in ax.containers if isinstance(bars, BarContainer)):
        yield "bar", _label(bars, place), _bars(bars)
    outlines = [patch for patch in ax.patches if isinstance(patch, Polygon)]  # histograms in steps
    for place, outline in enumerate(outlines):
        if outline.get_transform().contains_branch(ax.transData):
            yield "outline", _label(outline, place), _points(*outline.get_xy().T)
    for place, image in enumerate(ax.images):
        yield "map", _label(image, place), _cells(image.get_array())
    for place, drawn in enumerate(ax.collections):
        label = _label(drawn, place)
        if isinstance(drawn, QuadMesh):
            yield "map", label, _cells(drawn.get_array())
        elif isinstance(drawn, PathCollection):
            yield "point", label, _scattered(drawn)
        elif isinstance(drawn, LineCollection):
            segments = [segment[:, :2] for segment in drawn.get_segments()]
            ends = np.concatenate([np.empty((0, 2)), *segments])
            yield "segment", label, _points(ends[:, 0], ends[:, 1])
        elif isinstance(drawn, PolyCollection) and drawn.get_array() is not None:
            yield "map", label, _tiles(ax, drawn)
        elif isinstance(drawn, PolyCollection):
            corners = [path.vertices[:, :2] for path in drawn.get_paths()]
            edge = np.concatenate([np.empty((0, 2)), *corners])
            yield "area", label, _points(edge[:, 0], edge[:, 1])


def _label(artist: Any, place: int) -> str:
    text = str(artist.get_label() or "")
    return str(place + 1) if not text or text.startswith("_") else text


def _points(x: Any, y: Any, value: Any = None) -> Iterator[tuple[Any, Any, Any]]:
    values = [None] * len(x) if value is None else np.asarray(value, dtype=float).tolist()
    columns = (
        np.ma.filled(np.ma.asarray(column, dtype=float), np.nan).tolist() for column in (x, y)
    )
    yield from zip(*columns, values, strict=True)


def _scattered(drawn: Collection) -> Iterator[tuple[Any, Any, Any]]:
    three = getattr(drawn, "_offsets3d", None)
    if three is not None:
        return _points(*(np.asarray(axis) for axis in three))
    places = np.ma.asarray(drawn.get_offsets())
    colours = drawn.get_array()
    value = colours if colours is not None and len(colours) == len(places) else None
    return _points(places[:, 0], places[:, 1], value)


def _tiles(ax: Axes, drawn: PolyCollection) -> Iterator[tuple[Any, Any, Any]]:
    """The middles of cells of any shape, as in a histogram of hexagons, with their values."""
    shapes = [drawn.get_transform().transform(path.vertices[:-1, :2]) for path in drawn.get_paths()]
    # One shape at many places, or a shape a cell: what is not many serves all.
    on_screen = np.array([shape.mean(axis=0) for shape in shapes])
    on_screen = on_screen + drawn.get_offset_transform().transform(drawn.get_offsets())
    places = ax.transData.inverted().transform(on_screen)
    return _points(places[:, 0], places[:, 1], drawn.get_array())


def _bars(bars: BarContainer) -> Iterator[tuple[Any, Any, Any]]:
    for bar in bars.patches:
        across = bar.get_x() + bar.get_width() / 2
        up = bar.get_y() + bar.get_height() / 2
        if bars.orientation == "horizontal":
            yield bar.get_x() + bar.get_width(), round(up, 9), None
        else:
            yield round(across, 9), bar.get_y() + bar.get_height(), None


def _cells(array: Any) -> Iterator[tuple[Any, Any, Any]]:
    values: np.ndarray = np.ma.filled(np.ma.asarray(array, dtype=float), np.nan)
    if values.ndim != 2:  # a picture in colours has no numbers
        return
    for (row, column), value in np.ndenumerate(values):
        yield float(column), float(row), value


@dataclass(frozen=True)
class _Carrier:
    """What makes the pictures of figures, each with its drawing and numbers in its metadata."""

    plain: Callable[[Figure], Any]

    def __call__(self, figure: Figure) -> tuple[str, dict[str, Any]]:
        made = self.plain(figure)
        data, facts = made if isinstance(made, tuple) else (made, {})
        with recoloured(figure):
            dark = svg_of(figure)
        carried = {"svg": svg_of(figure), "csv": csv_of(figure), "dark": dark}
        return data, {**facts, KEY: carried}


def install_formatter() -> None:
    """Let figures that are displayed from now on carry the three, if LNATTN_DRAWINGS is set.

    They travel in the metadata of the picture, which every reader of notebooks leaves alone.
    """
    if not os.environ.get("LNATTN_DRAWINGS"):
        return
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        return
    import matplotlib_inline.backend_inline  # noqa: F401 (it registers the maker of pictures)

    pictures = shell.display_formatter.formatters[PNG]
    plain = pictures.for_type(Figure)
    if plain is not None and not isinstance(plain, _Carrier):
        pictures.for_type(Figure, _Carrier(plain))
