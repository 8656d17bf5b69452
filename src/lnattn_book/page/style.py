"""One look for all figures: palette, colour maps, sizes, and fonts that a phone can show.

All colours come from the Okabe–Ito set or from maps that stay ordered for colour-blind readers. On
dark pages figures are drawn by `lnattn_book.page.dark`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from mpl_toolkits.mplot3d import Axes3D

from lnattn.reporting.words import DISTANCE_COLOURS as DISTANCE_COLOURS
from lnattn.reporting.words import DISTANCE_NAMES as DISTANCE_NAMES
from lnattn.reporting.words import TERM_COLOURS as TERM_COLOURS
from lnattn.reporting.words import TERM_NAMES as TERM_NAMES
from lnattn_book.page.names import model_name as model_name

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#767676"
#: What is no term of a score; contrast 3.4 and more on light and dark ground. Rose and teal, and
#: olive and brown, are alike to some eyes: never told apart by colour alone.
VIOLET = "#7C63C9"
OLIVE = "#8A8A1E"
ROSE = "#C2407C"
BROWN = "#9A6436"
TEAL = "#1F9A9A"

#: Okabe–Ito, ordered so that the first few differ in lightness too; yellow, weak on white, is last.
PALETTE: tuple[str, ...] = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, YELLOW)
#: In figures without terms, whose colours would say something there.
OTHERS: tuple[str, ...] = (VIOLET, OLIVE, ROSE, BROWN, BLACK, TEAL)

#: The ground of a verdict, with dark letters on it; the claims page has the same (claims.css).
VERDICT_COLOURS: dict[str, str] = {
    "holds": "#4ea3d6",
    "holds in part": "#b5daf0",
    "fails": "#f0965a",
    "not seen in this model": "#c4c4c4",
    "undecided": "#e3cbe6",
    "not computable": "#e8e8e8",
}


def term_label(term: str) -> str:
    """A term as figures write it, T with its letters, and its plain name, for legends."""
    return f"$T^{{{term}}}$ {TERM_NAMES[term]}"


#: For quantities that start at zero or at a minimum: perceptually even, safe for colour-blind eyes.
SEQUENTIAL = "cividis"
#: For signed quantities: blue below, vermilion above, white at zero. Centre it: vmin = -vmax.
DIVERGING = "lnattn_blue_vermilion"
#: The same beside the colours of terms: violet below, olive above.
DIVERGING_BESIDE_TERMS = "lnattn_violet_olive"

#: The ground of cells that a causal query does not see: no colour of either map.
HIDDEN = "#dcdcdc"

#: Inches. A 360 px phone shows a figure about 330 px wide: at WIDTH, FONT points become 9 px.
WIDTH = 5.6
HEIGHT = 3.5
FONT = 11
SMALL = 9.5
#: (width, height) of an ordinary figure.
SINGLE = (WIDTH, HEIGHT)
DPI = 160


def _register_diverging() -> None:
    stops = {
        DIVERGING: ["#00395a", BLUE, "#a9cfe4", "#ffffff", "#f3c19d", VERMILION, "#6b2f00"],
        DIVERGING_BESIDE_TERMS: [
            "#36266e", VIOLET, "#cdc4ec", "#ffffff", "#dcdca8", OLIVE, "#3f3f06",
        ],
    }  # fmt: skip
    for name, colours in stops.items():
        colour_map = LinearSegmentedColormap.from_list(name, colours)
        mpl.colormaps.register(colour_map, force=True)
        mpl.colormaps.register(colour_map.reversed(), force=True)


_register_diverging()


def settings() -> dict[str, object]:
    """The matplotlib settings of the book, as `rcParams` entries."""
    return {
        "figure.figsize": SINGLE,
        "figure.dpi": DPI,
        "savefig.dpi": DPI,
        "figure.facecolor": "white",
        "axes.facecolor": "white",
        "savefig.facecolor": "white",
        "savefig.transparent": False,
        "figure.constrained_layout.use": True,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "mathtext.fontset": "dejavusans",
        "font.size": FONT,
        "axes.titlesize": FONT,
        "axes.labelsize": FONT,
        "xtick.labelsize": SMALL,
        "ytick.labelsize": SMALL,
        "legend.fontsize": SMALL,
        "figure.titlesize": FONT + 1,
        "axes.prop_cycle": cycler(color=PALETTE),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": False,
        "axes.axisbelow": True,
        "axes.titlelocation": "left",
        "grid.color": "#dddddd",
        "grid.linewidth": 0.8,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "legend.frameon": False,
        "image.cmap": SEQUENTIAL,
        "image.interpolation": "nearest",
        "svg.hashsalt": "lnattn",
    }


def use_style() -> None:
    """Make every later figure of this process follow the book's style (idempotent).

    A user's own matplotlibrc is undone first: a figure of the book is the same on every machine.
    """
    mpl.rcdefaults()
    mpl.rcParams.update(settings())


def ring(
    ax: Axes, x: int | float | np.number, y: int | float | np.number, size: int | float = 13
) -> None:
    """An open circle around the point of a figure that its text speaks of, in data coordinates."""
    ax.plot(x, y, "o", ms=size, mfc="none", mec=BLACK, mew=1.4, zorder=5, clip_on=False)


def legend(figure: Figure, at: str = "upper center", columns: int = 2) -> None:
    """One legend for all axes, outside of them; what several axes show stands in it once."""
    known = {
        label: handle
        for ax in figure.axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(known.values(), known.keys(), loc=f"outside {at}", ncols=columns)


def intervals(
    ax: Axes, table: Any, colour: str, label: str | None = None, aside: float = 0
) -> None:
    """A dot and its interval for each row of a table [place, (mean, low, high)], at 0, 1, 2, …"""
    mean, low, high = np.asarray(table, dtype=float).T
    places = np.arange(len(mean)) + aside
    ax.vlines(places, low, high, color=colour, lw=2.5)
    ax.plot(places, mean, "o", color=colour, label=label)


def words_at(
    ax: Axes, text: str, point: Sequence[Any] | np.ndarray, aside: tuple[float, float], **look: Any
) -> None:
    """A few words beside a point in data coordinates, `aside` in points to the right and up."""
    x, y = point
    ax.annotate(text, (x, y), aside, textcoords="offset points", **{"fontsize": SMALL, **look})


def space(axes: Axes3D, size: float) -> None:
    """The plane orthogonal to 1 in R³, the line through 1, and quiet axes that reach to `size`."""
    a, b = np.meshgrid([-size, size], [-size, size])
    u = np.array([1, -1, 0]) / np.sqrt(2)
    w = np.array([1, 1, -2]) / np.sqrt(6)
    plane = a[..., None] * u + b[..., None] * w
    axes.plot_surface(*np.moveaxis(plane, -1, 0), color=GREY, alpha=0.15, linewidth=0)
    end = 1.3 * size / np.sqrt(3)
    axes.plot([-end, end], [-end, end], [-end, end], color=BLACK, lw=1.6, ls="--")
    axes.text(end * 1.1, end * 1.1, end * 1.1, "1", color=BLACK, fontweight="bold")
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):  # walls as the page is, light or dark
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
    limits = (-1.15 * size, 1.15 * size)
    axes.set(xlim=limits, ylim=limits, zlim=limits, xticks=[], yticks=[], zticks=[])
    axes.set_box_aspect((1, 1, 1))
