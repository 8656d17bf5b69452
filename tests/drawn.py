"""What a figure shows, read back from what matplotlib was told to draw."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("seaborn", reason="seaborn is absent: pip install .[book]")
import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import same_color, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from mpl_toolkits.mplot3d import Axes3D
from mpl_toolkits.mplot3d.art3d import Path3DCollection

mpl.use("Agg")


@pytest.fixture(autouse=True)
def figures_are_closed() -> Iterator[None]:
    """A file whose tests draw imports this."""
    yield
    plt.close("all")


def points(line: Line2D) -> list[list[float]]:
    """The points of a line: (x, y), …"""
    return np.asarray(line.get_xydata(), dtype=float).tolist()


def named(ax: Axes, label: str) -> Line2D:
    """The one line that the legend calls so."""
    (line,) = (line for line in ax.get_lines() if line.get_label() == label)
    return line


def curve(ax: Axes, label: str) -> list[float]:
    """Heights of the line that the legend calls so."""
    return np.asarray(named(ax, label).get_ydata(), dtype=float).tolist()


def of_colour(ax: Axes, colour: str) -> list[Line2D]:
    """All lines of a colour that have points, but for rings."""
    lines = [line for line in ax.get_lines() if len(line.get_xdata()) and not _is_ring(line)]
    return [line for line in lines if same_color(line.get_color(), colour)]


def rings(ax: Axes) -> list[tuple[float, float]]:
    """Where open circles are: (x, y), …"""
    return [(x, y) for line in ax.get_lines() if _is_ring(line) for x, y in points(line)]


def _is_ring(line: Line2D) -> bool:
    return line.get_marker() == "o" and line.get_markerfacecolor() == "none"


def edges(band: PolyCollection, x: float) -> list[float]:
    """The lowest and the highest point of a band at x."""
    corners = band.get_paths()[0].vertices
    heights = corners[np.isclose(corners[:, 0], x), 1]
    return [heights.min(), heights.max()]


def words(ax: Axes) -> dict[str, tuple[float, float]]:
    """What is written in a panel, and beside which point."""
    return {
        text.get_text(): tuple(map(float, getattr(text, "xy", text.get_position())))
        for text in ax.texts
    }


def title(ax: Axes) -> str:
    """A panel's title, in the middle or at the left, as the style of the book has it."""
    return ax.get_title() or ax.get_title(loc="left")


def ticks(ax: Axes, axis: str) -> list[str]:
    """The words along an axis, x or y."""
    return [label.get_text() for label in getattr(ax, f"get_{axis}ticklabels")()]


def image(ax: Axes) -> np.ndarray:
    """The numbers of a heat map: [row column], hidden ones NaN."""
    (shown,) = ax.images
    return np.ma.filled(shown.get_array().astype(float), np.nan)


def legend_colours(figure: Figure) -> dict[str, str]:
    """The lines and patches of a figure's legend: words → colour."""
    (legend,) = figure.legends
    handles = legend.legend_handles
    colours = (h.get_color() if isinstance(h, Line2D) else h.get_facecolor() for h in handles)
    names = (text.get_text() for text in legend.get_texts())
    return {name: to_hex(colour).upper() for name, colour in zip(names, colours, strict=True)}


def clouds(ax: Axes3D) -> list[np.ndarray]:
    """The points of each scatter in space: [n 3]."""
    found = (one for one in ax.collections if isinstance(one, Path3DCollection))
    return [np.stack(cloud._offsets3d, axis=1) for cloud in found]
