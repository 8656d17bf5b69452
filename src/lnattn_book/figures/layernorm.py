"""The geometry of LayerNorm in three dimensions, and unselectable keys in two (chapter 1)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter
from mpl_toolkits.mplot3d import Axes3D
from scipy.spatial import ConvexHull

from lnattn.attention.layernorm import center, standardise
from lnattn_book.chapters.layernorm import half_plane
from lnattn_book.page.style import (
    GREY,
    OLIVE,
    ROSE,
    VIOLET,
    WIDTH,
    legend,
    space,
    words_at,
)


def projection_and_scaling(points: np.ndarray) -> Figure:
    """Points of R³ before LayerNorm, after the projection, and after the scaling."""
    x = torch.from_numpy(np.asarray(points, dtype=float))
    stages = [
        ("input x", x.numpy(), VIOLET),
        ("projected, x C", center(x).numpy(), OLIVE),
        ("scaled to norm √3", standardise(x).numpy(), ROSE),
    ]
    figure = plt.figure(figsize=(WIDTH, 6.6))
    look = {"projection": "3d", "computed_zorder": False}  # a line in front would cut dots in two
    panels = [figure.add_subplot(2, 2, place, **look) for place in range(1, 5)]
    for axes in panels:
        space(axes, 2.0)
        axes.view_init(elev=16, azim=12)
    for axes, (title, cloud, colour) in zip(panels, stages, strict=False):
        axes.scatter(*cloud.T, color=colour, s=14, depthshade=False, zorder=3)
        axes.set_title(title)
    angle = np.linspace(0, 2 * np.pi, 200)[:, None]
    turning = np.cos(angle) * [1.0, -1.0, 0.0] + np.sin(angle) * [1.0, 0.0, -1.0]
    panels[2].plot(*standardise(torch.from_numpy(turning)).numpy().T, color=GREY, lw=1, zorder=2)
    _collapse(panels[3])
    panels[3].set_title("a plane becomes two points")
    return figure


def _collapse(axes: Axes3D) -> None:
    """The plane span(v, 1), coloured by the side of the line 1, and its two images ±√d v."""
    v = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)
    for sign, colour in ((1, VIOLET), (-1, ROSE)):
        axes.scatter(*half_plane(sign).numpy().T, color=colour, s=5, depthshade=False, zorder=3)
        axes.scatter(*(sign * np.sqrt(3) * v), color=colour, s=90, edgecolor="black", zorder=5)


def hull_of(ax: Axes, keys: np.ndarray, selectable: np.ndarray) -> None:
    """Keys [n 2] with their convex hull; a cross is a key that no query can select."""
    hull = ConvexHull(keys).vertices
    ax.fill(*keys[hull].T, color=VIOLET, alpha=0.1)
    ax.plot(*keys[[*hull, hull[0]]].T, color=GREY, lw=1)
    ax.plot(*keys[selectable].T, "o", color=VIOLET, label="selectable")
    if not selectable.all():
        ax.plot(*keys[~selectable].T, "X", color=ROSE, markersize=7, label="not selectable")
    ax.set_aspect("equal")
    ax.margins(0.16)
    ax.set_xlabel("coordinate 1")


def unselectable_key(keys: np.ndarray, inside: int) -> Figure:
    """Keys in the plane with their convex hull; one key inside it, and the same keys scaled."""
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.4))
    scaled = keys / np.linalg.norm(keys, axis=1, keepdims=True) * np.sqrt(2)
    titles = ("before scaling", "scaled to norm √2")
    for axes, cloud, title in zip(panels, (keys, scaled), titles, strict=True):
        corners = ConvexHull(cloud).vertices
        hull_of(axes, cloud, np.isin(np.arange(len(cloud)), corners))
        words_at(axes, "k", cloud[inside], (7, 5), fontweight="bold")
        axes.set_title(title)
    panels[0].set_ylabel("coordinate 2")
    legend(figure, "lower center")
    return figure


def parts_of_inputs(along_ones: np.ndarray, norms: np.ndarray, d_model: int) -> Figure:
    """What LayerNorm removes in a trained model: the share along 1, and the spread of norms."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.0))
    look = {"bins": 40, "color": VIOLET, "alpha": 1, "edgecolor": "none"}
    sns.histplot(along_ones.ravel(), ax=left, **look)
    left.axvline(1 / np.sqrt(d_model), color=ROSE, ls="--", lw=1.5)
    left.set(xlabel="|cos(x, 1)|", ylabel="tokens", title="removed by C")
    sns.histplot(norms.ravel(), log_scale=True, ax=right, **look)
    right.axvline(np.sqrt(d_model), color=ROSE, ls="--", lw=1.5)
    right.set(xlabel="‖x C‖ before scaling", ylabel="tokens", title="removed by σ")
    right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    right.xaxis.set_major_formatter(ScalarFormatter())
    right.xaxis.set_minor_formatter(NullFormatter())
    return figure
