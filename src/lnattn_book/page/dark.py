"""The same figure for dark pages: ground, lines and words change sides, colours that mean stay.

Greys and pale tints are mirrored: what was black on white is light on dark. Colours of the palette
and of maps are the same on both grounds; what lies on a map (words in cells, rings) stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection, QuadMesh
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text

#: Lightness of the dark page's ground, where white was, and of its words, where black was.
GROUND, WORDS = 0.07, 0.92
#: The gid of what stays as it is, such as words on a colour that does.
AS_IT_IS = "as-it-is"
#: A colour whose channels differ by less is a grey, and one whose channels all exceed this a tint.
_GREY, _PALE = 0.08, 0.7


def shade(colours: Any) -> np.ndarray:
    """Colours for dark ground, as rows of RGBA: greys and pale tints mirrored, the others kept."""
    rows = to_rgba_array(colours).copy()
    grey = np.ptp(rows[:, :3], axis=1) < _GREY
    turned = grey | (rows[:, :3].min(axis=1) > _PALE)
    lightness = rows[:, :3].mean(axis=1, keepdims=True)
    hue = np.where(grey[:, None], 0, rows[:, :3] - lightness)
    mirrored = (WORDS - (WORDS - GROUND) * lightness + hue).clip(0, 1)
    rows[turned, :3] = mirrored[turned]
    return rows


@contextmanager
def recoloured(figure: Figure) -> Iterator[None]:
    """Meanwhile, the figure has its dark colours."""
    before: list[tuple[Callable[[Any], Any], Any]] = []
    on_maps = {id(part) for ax in figure.axes if _is_map(ax) for part in _drawn_on(ax)}
    for artist in figure.findobj():
        if id(artist) in on_maps or artist.get_gid() == AS_IT_IS:
            continue
        # All are asked first: the colours of a line's marks may follow the line's.
        for change, old in [(change, get()) for get, change in _colours(artist)]:
            if len(to_rgba_array(old)):
                before.append((change, old))
                new = shade(old)
                change(new if isinstance(artist, Collection) else tuple(new[0]))
    try:
        yield
    finally:
        for change, old in reversed(before):
            change(old)


def _is_map(ax: Axes) -> bool:
    return bool(ax.images) or any(isinstance(artist, QuadMesh) for artist in ax.collections)


def _drawn_on(ax: Axes) -> Iterator[Artist]:
    """What lies on a map: not its title, axes, ticks and frame."""
    for part in (*ax.texts, *ax.lines, *ax.patches, *ax.collections):
        yield from part.findobj()


def _colours(artist: Artist) -> Iterator[tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """The colours of an artist, each as what tells it and what changes it."""
    if isinstance(artist, Text):
        yield artist.get_color, artist.set_color
        box = artist.get_bbox_patch()
        arrow = artist.arrow_patch if isinstance(artist, Annotation) else None
        for part in (box, arrow):
            if part is not None:
                yield from _colours(part)
    elif isinstance(artist, Line2D):
        yield artist.get_color, artist.set_color
        yield artist.get_markerfacecolor, artist.set_markerfacecolor
        yield artist.get_markeredgecolor, artist.set_markeredgecolor
    elif isinstance(artist, Patch):
        yield artist.get_facecolor, _with_own_alpha(artist, artist.set_facecolor)
        yield artist.get_edgecolor, _with_own_alpha(artist, artist.set_edgecolor)
    elif isinstance(artist, Collection) and not isinstance(artist, QuadMesh):
        if artist.get_array() is None:
            yield artist.get_facecolor, _with_own_alpha(artist, artist.set_facecolor)
        yield artist.get_edgecolor, _with_own_alpha(artist, artist.set_edgecolor)


def _with_own_alpha(artist: Any, change: Callable[[Any], Any]) -> Callable[[Any], None]:
    """A setter for colours that hold their alpha already, which the artist would apply again."""

    def set_exactly(colour: Any) -> None:
        alpha = artist.get_alpha()
        artist.set_alpha(None)
        change(colour)
        Artist.set_alpha(artist, alpha)  # the artist's own would apply it to both colours

    return set_exactly
