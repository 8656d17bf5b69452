"""The geometry of LayerNorm in three dimensions, and unselectable keys in two (chapter 02)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter
from mpl_toolkits.mplot3d import Axes3D

from lnattn.attention.layernorm import center, standardise
from lnattn_book.style import BLUE, GREEN, GREY, ORANGE, VERMILION, WIDTH

_LIMIT = 2.3


def projection_and_scaling(points: np.ndarray) -> Figure:
    """Points of R³ before LayerNorm, after the projection, and after the scaling."""
    x = torch.from_numpy(np.asarray(points, dtype=float))
    stages = [
        ("input x", x.numpy(), BLUE),
        ("projected, x C", center(x).numpy(), ORANGE),
        ("scaled to norm √3", standardise(x).numpy(), VERMILION),
    ]
    figure = plt.figure(figsize=(WIDTH, 6.6))
    for index, (title, cloud, colour) in enumerate(stages):
        axes = figure.add_subplot(2, 2, index + 1, projection="3d")
        _plane_and_ones(axes)
        if index == 2:
            axes.plot(*_circle(), color=GREY, lw=1)
        axes.scatter(*cloud.T, color=colour, s=14, depthshade=False)
        axes.set_title(title)
    axes = figure.add_subplot(2, 2, 4, projection="3d")
    _plane_and_ones(axes)
    _collapse(axes)
    axes.set_title("a plane becomes two points")
    return figure


def _collapse(axes: Axes3D) -> None:
    """The plane span(v, 1), coloured by the side of the line 1, and its two images ±√d v."""
    v = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)
    ones = np.ones(3) / np.sqrt(3)
    for sign, colour in ((1, GREEN), (-1, ORANGE)):
        a, b = np.meshgrid(sign * np.linspace(0.15, 1.6, 6), np.linspace(-1.7, 1.7, 8))
        cloud = a[..., None] * v + b[..., None] * ones
        axes.scatter(*cloud.reshape(-1, 3).T, color=colour, s=5, depthshade=False)
        axes.scatter(*(sign * np.sqrt(3) * v), color=colour, s=90, edgecolor="black", zorder=5)


def _plane_and_ones(axes: Axes3D) -> None:
    """The plane orthogonal to 1, the vector 1 itself, and quiet axes."""
    side = np.linspace(-_LIMIT, _LIMIT, 2)
    a, b = np.meshgrid(side, side)
    u, w = np.array([1, -1, 0]) / np.sqrt(2), np.array([1, 1, -2]) / np.sqrt(6)
    plane = a[..., None] * u + b[..., None] * w
    axes.plot_surface(*np.moveaxis(plane, -1, 0), color=GREY, alpha=0.12, linewidth=0)
    axes.plot([0, 1.6], [0, 1.6], [0, 1.6], color="black", lw=1.5)
    axes.text(1.75, 1.75, 1.75, "1", fontweight="bold")
    axes.set(xlim=(-2, 2), ylim=(-2, 2), zlim=(-2, 2), xticks=[], yticks=[], zticks=[])
    axes.set_xlabel("x₁", labelpad=-12)
    axes.set_ylabel("x₂", labelpad=-12)
    axes.set_zlabel("x₃", labelpad=-12)
    axes.view_init(elev=16, azim=12)
    axes.set_box_aspect((1, 1, 1), zoom=1.0)


def _circle() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    angle = np.linspace(0, 2 * np.pi, 200)
    u, w = np.array([1, -1, 0]) / np.sqrt(2), np.array([1, 1, -2]) / np.sqrt(6)
    x, y, z = (np.sqrt(3) * (np.cos(angle)[:, None] * u + np.sin(angle)[:, None] * w)).T
    return x, y, z


def unselectable_key(keys: np.ndarray, inside: int) -> Figure:
    """Keys in the plane with their convex hull; one key inside it, and the same keys scaled."""
    from scipy.spatial import ConvexHull

    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.4))
    scaled = keys / np.linalg.norm(keys, axis=1, keepdims=True) * np.sqrt(2)
    titles = ("before scaling", "scaled to norm √2")
    for axes, cloud, title in zip(panels, (keys, scaled), titles, strict=True):
        hull = ConvexHull(cloud)
        ring = np.append(hull.vertices, hull.vertices[0])
        axes.fill(*cloud[hull.vertices].T, color=BLUE, alpha=0.12)
        axes.plot(*cloud[ring].T, color=BLUE, lw=1.2)
        selectable = np.isin(np.arange(len(cloud)), hull.vertices)
        axes.scatter(*cloud[selectable].T, color=BLUE, label="selectable")
        if not selectable.all():
            axes.scatter(
                *cloud[~selectable].T, color=VERMILION, marker="X", s=55, label="not selectable"
            )
        axes.annotate(
            "k", cloud[inside], textcoords="offset points", xytext=(7, 5), fontweight="bold"
        )
        axes.set_aspect("equal")
        axes.set(title=title, xlabel="coordinate 1", ylabel="coordinate 2")
        axes.margins(0.12)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def parts_of_inputs(along_ones: np.ndarray, norms: np.ndarray, d_model: int) -> Figure:
    """What LayerNorm removes in a trained model: the share along 1, and the spread of norms."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.0))
    sns.histplot(along_ones.ravel(), bins=40, color=BLUE, alpha=1, lw=0, ax=left)
    left.axvline(1 / np.sqrt(d_model), color=VERMILION, ls="--", lw=1.5)
    left.set(xlabel="|cos(x, 1)|", ylabel="tokens", title="removed by C")
    sns.histplot(norms.ravel(), bins=40, log_scale=True, color=BLUE, alpha=1, lw=0, ax=right)
    right.axvline(np.sqrt(d_model), color=VERMILION, ls="--", lw=1.5)
    right.set(xlabel="‖x C‖ before scaling", ylabel="tokens", title="removed by σ")
    right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    right.xaxis.set_major_formatter(ScalarFormatter())
    right.xaxis.set_minor_formatter(NullFormatter())
    return figure


__all__ = ["parts_of_inputs", "projection_and_scaling", "unselectable_key"]
