"""Drawings in HTML and SVG that follow a page's light or dark colours, without any library.

The package does not depend on Matplotlib; the few kinds of figures that a report needs are drawn
here, and take their colours from the variables that `page.STYLE` sets.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

#: Sizes of one small panel, in pixels of the drawing.
_WIDTH, _HEIGHT, _GAP, _TITLE = 200, 96, 22, 20
#: Most points of one curve; a longer one is thinned out to lows and highs.
_POINTS = 240


@dataclass(frozen=True, eq=False)
class Line:
    """One curve of a panel. look: the CSS colour; thin: drawn faint, as a reference."""

    values: Float[np.ndarray, "x"]
    colour: str
    thin: bool = False


@dataclass(frozen=True)
class Panel:
    """A small panel: its title, and the curves that share its scale."""

    title: str
    lines: Sequence[Line]


def small_multiples(panels: Sequence[Panel], x: str, alt: str, columns: int = 4) -> str:
    """A grid of small panels, each with a scale of its own; x: what runs to the right."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width = columns * (_WIDTH + _GAP) - _GAP
    height = rows * (_HEIGHT + _TITLE + _GAP)
    parts = []
    for place, panel in enumerate(panels):
        left = (place % columns) * (_WIDTH + _GAP)
        top = (place // columns) * (_HEIGHT + _TITLE + _GAP)
        parts.append(f'<g transform="translate({left} {top})">{_panel(panel)}</g>')
    end = f'<text class="lr-axis" x="{width / 2:g}" y="{height - 4}" text-anchor="middle">'
    return _svg(width, height, alt, "".join(parts) + f"{end}{html.escape(x)} →</text>")


def _panel(panel: Panel) -> str:
    values = np.concatenate([line.values for line in panel.lines])
    finite = values[np.isfinite(values)]
    low = float(finite.min()) if len(finite) else 0.0
    high = float(finite.max()) if len(finite) else 1.0
    span = high - low or 1.0
    title = f'<text class="lr-title" x="0" y="14">{html.escape(panel.title)}</text>'
    frame = f'<rect class="lr-frame" x="0" y="{_TITLE}" width="{_WIDTH}" height="{_HEIGHT}"/>'
    zero = ""
    if low < 0 < high:
        y = _TITLE + _HEIGHT * (1 - (0 - low) / span)
        zero = f'<path class="lr-zero" d="M0 {y:.1f}H{_WIDTH}"/>'
    curves = "".join(_curve(line, low, span) for line in panel.lines)
    return title + frame + zero + curves


def _curve(line: Line, low: float, span: float) -> str:
    x, y = thinned(line.values)
    steps = max(len(line.values) - 1, 1)
    across = _WIDTH * x / steps
    down = _TITLE + 4 + (_HEIGHT - 8) * (1 - (y - low) / span)
    drawn = np.isfinite(y)
    points = [f"{a:.1f} {b:.1f}" for a, b in zip(across[drawn], down[drawn], strict=True)]
    look = "lr-thin" if line.thin else "lr-line"
    return f'<path class="{look}" style="stroke:{line.colour}" d="M{"L".join(points)}"/>'


def thinned(values: Float[np.ndarray, "x"]) -> tuple[np.ndarray, np.ndarray]:
    """Places and values of a curve; of a long one the lowest and highest of each stretch."""
    if len(values) <= _POINTS:
        return np.arange(len(values)), values
    extremes = []
    for stretch in np.array_split(np.arange(len(values)), _POINTS // 2):
        inside = values[stretch]
        extremes += sorted({stretch[inside.argmin()], stretch[inside.argmax()]})
    places = np.array(extremes)
    return places, values[places]


def intervals(
    rows: Sequence[tuple[str, float, float, float]],
    alt: str,
    *,
    reference: float,
    marks: Sequence[tuple[str, str]] = (),
    values: Mapping[str, Float[np.ndarray, "row"]] | None = None,
    spec: str = ".2f",
) -> str:
    """A row a head: a dot with its interval, a line at a reference, and other marks beside.

    rows: label, mean, low, high; values: the marks' values by name; marks: name and CSS colour of
    each.
    """
    others = values or {}
    numbers = [number for row in rows for number in row[1:]] + [reference]
    numbers += [float(value) for name, _ in marks for value in others[name]]
    finite = [number for number in numbers if np.isfinite(number)]
    margin = 0.06 * (max(finite) - min(finite) or 1.0)
    low = min(finite) - margin
    high = max(finite) + margin
    width = 640
    left = 74
    height = 22
    total = height * len(rows) + 34

    def across(value: float) -> float:
        return left + (width - left - 60) * (value - low) / (high - low)

    parts = [f'<path class="lr-zero" d="M{across(reference):.1f} 4V{height * len(rows) + 6}"/>']
    for place, (label, mean, least, most) in enumerate(rows):
        y = height * place + 16
        parts.append(f'<text class="lr-label" x="0" y="{y + 4}">{html.escape(label)}</text>')
        for name, colour in marks:
            value = float(others[name][place])
            if np.isfinite(value):
                look = f'class="lr-other" style="stroke:{colour}"'
                parts.append(f'<circle {look} cx="{across(value):.1f}" cy="{y}" r="4"/>')
        parts.append(
            f'<path class="lr-line" style="stroke:var(--lr-blue)" d="M{across(least):.1f} {y}'
            f'H{across(most):.1f}"/><circle style="fill:var(--lr-blue)" cx="{across(mean):.1f}" '
            f'cy="{y}" r="4"/>'
        )
        parts.append(
            f'<text class="lr-label" x="{width - 44}" y="{y + 4}">{written(mean, spec)}</text>'
        )
    foot = height * len(rows) + 22
    for value in (reference, high - margin):
        parts.append(
            f'<text class="lr-axis" x="{across(value):.1f}" y="{foot}" text-anchor="middle">'
            f"{value:.3g}</text>"
        )
    return _svg(width, total, alt, "".join(parts))


def band(
    mean: Float[np.ndarray, "x"],
    low: Float[np.ndarray, "x"],
    high: Float[np.ndarray, "x"],
    x: str,
    y: str,
    alt: str,
) -> str:
    """One curve with its band, over the whole width."""
    width = 640
    height = 210
    left = 56
    bottom = 30
    top_value = float(np.max(high))
    bottom_value = min(0.0, float(np.min(low)))
    span = top_value - bottom_value or 1.0

    def points(curve: Float[np.ndarray, "x"]) -> list[str]:
        places, values = thinned(curve)
        across = left + (width - left - 8) * places / max(len(curve) - 1, 1)
        down = 8 + (height - bottom - 8) * (1 - (values - bottom_value) / span)
        return [f"{x:.1f} {y:.1f}" for x, y in zip(across, down, strict=True)]

    edge = points(high) + points(low)[::-1]
    middle = points(mean)
    marks = ""
    for share in (0, 0.5, 1):
        down = 12 + (height - bottom - 8) * (1 - share)
        marks += f'<text class="lr-axis" x="{left - 6}" y="{down:.0f}" text-anchor="end">'
        marks += f"{bottom_value + share * span:.3g}</text>"
    words = (
        f'<text class="lr-axis" x="{width / 2:g}" y="{height - 8}" text-anchor="middle">'
        f"{html.escape(x)} →</text>"
        f'<text class="lr-axis" x="0" y="{height - 8}">{html.escape(y)}</text>'
    )
    area = f'<path class="lr-band" d="M{"L".join(edge)}Z"/>'
    look = 'class="lr-line" style="stroke:var(--lr-blue)"'
    curve = f'<path {look} d="M{"L".join(middle)}"/>'
    return _svg(width, height, alt, area + curve + marks + words)


def heat_table(
    title: str,
    labels: Sequence[str],
    columns: Mapping[str, tuple[str, Float[np.ndarray, "row"]]],
    last: Mapping[str, Sequence[str]],
) -> str:
    """A table whose cells are shares, each column in its colour, the deeper the larger.

    columns: header → colour and shares; last: columns of words or numbers behind them.
    """
    head = "".join(f"<th>{html.escape(name)}</th>" for name in (*columns, *last))
    body = []
    for row, label in enumerate(labels):
        cells = [_heat(colour, float(shares[row])) for colour, shares in columns.values()]
        cells += [f"<td>{html.escape(words[row])}</td>" for words in last.values()]
        body.append(f"<tr><th>{html.escape(label)}</th>{''.join(cells)}</tr>")
    return (
        f'<div class="lr-scroll" tabindex="0" role="region" aria-label="{html.escape(title)}">'
        f'<table class="lr-heat"><caption>{html.escape(title)}</caption><thead><tr><th>head</th>'
        f"{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _heat(colour: str, share: float) -> str:
    if not np.isfinite(share):
        return '<td class="lr-number">–</td>'
    depth = 100 * min(max(share, 0.0), 1.0) * 0.7
    look = f"background:color-mix(in srgb,{colour} {depth:.0f}%,transparent)"
    return f'<td class="lr-number" style="{look}">{written(share, ".0%")}</td>'


def joined(pairs: Sequence[tuple[str, str, str]]) -> str:
    """Pairs of tokens as two boxes that meet, key before query, with a few words behind."""
    rows = "".join(
        f'<li><span class="lr-key">{html.escape(key)}</span><span class="lr-query">'
        f'{html.escape(query)}</span> <span class="lr-words">{html.escape(words)}</span></li>'
        for key, query, words in pairs
    )
    return f'<ul class="lr-pairs">{rows}</ul>'


def written(value: float, spec: str) -> str:
    """A number by its format, with a true minus; what rounds to nothing has none.

    >>> written(-0.004, ".0%"), written(-0.04, ".0%")
    ('0%', '−4%')
    """
    text = format(value, spec)
    if text.startswith("-") and not any(digit in text for digit in "123456789"):
        text = text[1:]
    return text.replace("-", "−")


def _svg(width: int, height: int, alt: str, inside: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{html.escape(alt)}">{inside}</svg>'
    )
