"""Numbers for what the curves of position terms show: trend, wave, nearness, untrained rows.

Kamoda et al. 2025, §5 and §6.4, make four statements by eye: T^p rises, T^pp undulates, attention
stays near, the last row is flat. Here each is a number for each head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from scipy.stats import spearmanr
from torch import Tensor

from lnattn.attention.folding import FoldedAttention
from lnattn.errors import ShapeError
from lnattn.inputs import require, whole_number
from lnattn.position.bias import PositionBias, position_bias
from lnattn.position.sigma import InverseSigma

#: 'Near' means the query's own position and the nine before it.
NEAR = 10


class Trend(NamedTuple):
    """How a curve moves with position: rank correlation, share of rising steps, R² of a line."""

    spearman: float
    rising: float
    straight: float


def trend(curve: Float[np.ndarray, "position"]) -> Trend:
    """The trend of a curve without the position at either end, set apart in §6.4.

    Raises `ShapeError` for fewer than three interior positions or a constant curve.
    """
    inner = _interior(curve)
    if np.ptp(inner) == 0:
        raise ShapeError("a constant curve has no trend; the term is the same at all positions.")
    place = np.arange(len(inner))
    return Trend(
        spearman=float(spearmanr(place, inner).statistic),
        rising=float((np.diff(inner) > 0).mean()),
        straight=float(np.corrcoef(place, inner)[0, 1] ** 2),
    )


def trends_of(asserted: Float[np.ndarray, "head position"]) -> list[Trend]:
    """The trend of T^p in each head; NaN where it is constant.

    A head without a query bias asserts nothing, so its T^p is zero everywhere: that it does not
    rise is no finding, and a model with such heads is no mistake.
    """
    return [trend(curve) if np.ptp(curve[1:-1]) else Trend(*[np.nan] * 3) for curve in asserted]


def rising_steps(
    curves: Float[np.ndarray, "*curve position"], until: int
) -> Float[np.ndarray, "*curve"]:
    """Of the steps from place 1 to a place, the share at which each curve rises.

    NaN of a constant curve, and up to place 1, where there is no step; place 0 is set apart (§6.4).
    Raises `ShapeError` for a place outside the curves.

    >>> float(rising_steps(np.array([9.0, 0.0, 1.0, 3.0, 2.0]), until=4))  # of three steps two rise
    0.6666666666666666
    """
    whole_number(until, "until", least=1, most=curves.shape[-1] - 1)
    seen = np.asarray(curves, dtype=np.float64)[..., 1 : until + 1]
    share = (np.diff(seen, axis=-1) > 0).sum(axis=-1) / max(until - 1, 1)
    return np.where(np.ptp(seen, axis=-1) > 0, share, np.nan)


def straight_after(
    curves: Float[np.ndarray, "*curve position"], place: int
) -> Float[np.ndarray, "*curve"]:
    """R² of a straight line through each curve from a place on, the last position left out."""
    whole_number(place, "place", least=0, most=curves.shape[-1] - 4)
    rest = np.asarray(curves, dtype=np.float64)[..., place:-1]
    along = np.arange(rest.shape[-1]) - (rest.shape[-1] - 1) / 2
    centred = rest - rest.mean(axis=-1, keepdims=True)
    explained = (centred @ along) ** 2 / np.square(along).sum()
    total = np.square(centred).sum(axis=-1)
    return np.divide(explained, total, out=np.full(total.shape, np.nan), where=total > 0)


class Wave(NamedTuple):
    """The strongest oscillation of a curve; fewer than two cycles are a bend rather than a wave.

    wavelength: in positions; cycles: how many of them fit into the curve; share: the part of the
    variance left by a straight line that a sine of this wavelength, with a line, explains.
    """

    wavelength: float
    cycles: float
    share: float


def dominant_wave(curve: Float[np.ndarray, "position"]) -> Wave:
    """The dominant wavelength of a curve that may also have a straight trend.

    The highest peak of the detrended curve's Fourier spectrum (Hann window, zero padded) tells
    where to look; a sine and a line are fitted together around it, since a spectrum misplaces a
    wave that fits only once or twice into the curve. The position at either end is left out (§6.4).
    Raises `ShapeError` for fewer than three positions between, or a straight line.
    """
    inner = _interior(curve)
    n = len(inner)
    place = np.arange(n)
    line = np.stack([np.ones(n), place], axis=1)

    def rest(columns: np.ndarray) -> np.ndarray:
        return inner - columns @ np.linalg.lstsq(columns, inner, rcond=None)[0]

    straight = float(np.square(rest(line)).sum())
    if straight <= (1e-12 * max(1.0, np.abs(inner).max())) ** 2 * n:
        raise ShapeError("the curve is a straight line; it has no wave.")
    finer = 8
    power = np.abs(np.fft.rfft(rest(line) * np.hanning(n), finer * n))
    peak = (int(power[1:].argmax()) + 1) / (finer * n)

    def unexplained(frequency: float) -> float:
        phase = 2 * np.pi * frequency * place
        return float(np.square(rest(np.column_stack([line, np.sin(phase), np.cos(phase)]))).sum())

    around = (max(0.5 / n, peak - 1 / n), min(0.5, peak + 1 / n))
    best = minimize_scalar(unexplained, bounds=around, method="bounded", options={"xatol": 1e-7})
    return Wave(wavelength=1 / best.x, cycles=n * best.x, share=1 - best.fun / straight)


@dataclass(frozen=True, eq=False)
class Nearness:
    """How strongly each head's position terms favour near keys, for every query.

    share: attention by position alone on the nearest keys; uniform: what even attention
    would give; peak: distance to the key with the highest T^pp, position 0 left out, whose long
    embedding (§6.4) would stand out whatever the wave does; percentile: share of the other keys
    whose T^pp is below the mean over the nearest, NaN while all keys seen are near.
    """

    share: Float[np.ndarray, "head query"]
    uniform: Float[np.ndarray, "query"]
    peak: np.ndarray
    percentile: Float[np.ndarray, "head query"]

    def second_half_medians(self) -> tuple[Float[np.ndarray, "head"], Float[np.ndarray, "head"]]:
        """Medians of `peak` and of `percentile` over the queries of the context's second half."""
        return second_half_medians(self.peak, self.percentile)


def nearness(
    folded: FoldedAttention,
    W_P: Float[Tensor, "position d_model"],
    inverse_sigma: InverseSigma | None = None,
    window: int = NEAR,
    block: int = 128,
) -> Nearness:
    """`Nearness` of all queries of the context, a block of queries at a time.

    window: how many keys are near, the query's own among them; block: queries held at one time.
    Raises `ShapeError` for either below 1, and as `position_bias` does.
    """
    whole_number(window, "window")
    whole_number(block, "block")
    n = len(W_P)
    share = np.empty((folded.n_heads, n))
    percentile = np.empty((folded.n_heads, n))
    peak = np.empty((folded.n_heads, n), dtype=np.int64)
    uniform = np.empty(n)
    for begin in range(0, n, block):
        queries = range(begin, min(n, begin + block))
        bias = position_bias(folded, W_P, queries, inverse_sigma)
        attention = bias.attention()
        compared = bias.term_pp().mean
        for row, i in enumerate(queries):
            near, seen = near_keys(i, n, folded.causal, window)
            share[:, i] = attention[:, row, near].sum(axis=-1)
            uniform[i] = near.sum() / seen.sum()
            ordinary = seen & (np.arange(n) > 0) if i > 0 else seen
            peak[:, i] = np.abs(i - np.where(ordinary, compared[:, row], -np.inf).argmax(axis=-1))
            far = compared[:, row, seen & ~near]
            level = compared[:, row, near].mean(axis=-1, keepdims=True)
            percentile[:, i] = (far < level).mean(axis=-1) if far.size else np.nan
    return Nearness(share=share, uniform=uniform, peak=peak, percentile=percentile)


def second_half_medians(
    peak: np.ndarray, percentile: Float[np.ndarray, "head query"]
) -> tuple[Float[np.ndarray, "head"], Float[np.ndarray, "head"]]:
    """Medians over the second half of the context, without the last position (§6.4)."""
    half = slice(peak.shape[1] // 2, peak.shape[1] - 1)
    return np.median(peak[:, half], axis=1), np.median(percentile[:, half], axis=1)


def near_keys(
    i: int, n_positions: int, causal: bool, window: int = NEAR
) -> tuple[np.ndarray, np.ndarray]:
    """Which keys count as near query i, and which it sees at all: two boolean arrays [position].

    Near are i and the `window` − 1 before it; in a model that is not causal, those after it too.
    """
    distance = i - np.arange(n_positions)
    seen = distance >= 0 if causal else np.ones(n_positions, dtype=bool)
    return seen & (np.abs(distance) < window), seen


def wave_recurrence(bias: PositionBias) -> Float[np.ndarray, "head query"]:
    """What is left of T^pp's wave in attention by position alone, for every query of `bias`.

    The most attention on a key one wavelength (± a quarter) from the query, near keys left out,
    over the most on a near key: close to 1 where a head cannot tell *here* from *one wave ago*; 0
    where no key is that far.
    """
    require(bias, PositionBias, "bias")
    attention = bias.attention()
    longest = int(np.argmax(bias.queries))
    waves = [dominant_wave(curve).wavelength for curve in bias.term_pp().mean[:, longest]]
    recurrence = np.zeros(attention.shape[:2])
    for column, i in enumerate(bias.queries):
        distance = np.abs(i - np.arange(bias.n_positions))
        near = distance < NEAR
        for head, wavelength in enumerate(waves):
            away = (np.abs(distance - wavelength) <= wavelength / 4) & ~near
            row = attention[head, column]
            if away.any():
                recurrence[head, column] = row[away].max() / row[near].max()
    return recurrence


@dataclass(frozen=True, eq=False)
class LastRows:
    """p_i W_QK p_jᵀ, not divided by σ, for the last few queries (Fig. 7): [head query position]."""

    queries: tuple[int, ...]
    curves: Float[np.ndarray, "head query position"]

    @property
    def spread(self) -> Float[np.ndarray, "head query"]:
        """Standard deviation of each curve over the keys."""
        return self.curves.std(axis=-1)

    @property
    def ratio(self) -> Float[np.ndarray, "head"]:
        """The last spread over the median of the others."""
        return self.spread[:, -1] / np.median(self.spread[:, :-1], axis=-1)


def last_rows(
    folded: FoldedAttention, W_P: Float[Tensor, "position d_model"], count: int = 5
) -> LastRows:
    """The comparison curves of the last `count` positions: an untrained last row is flat.

    Raises `ShapeError` for fewer than two rows, with nothing to compare, or more than there are.
    """
    n = len(W_P)
    whole_number(count, "count", least=2, most=n)
    queries = tuple(range(n - count, n))
    return LastRows(queries=queries, curves=position_bias(folded, W_P, queries).comparison)


def position_table(bias: PositionBias, near: Nearness) -> pd.DataFrame:
    """One row a head: trend of T^p, wave and nearness of T^pp, attention on near keys by position.

    The wave is that of the last query's curve; distance and percentile are medians over the queries
    of the context's second half.
    """
    compared = bias.term_pp().mean[:, int(np.argmax(bias.queries))]
    distance, percentile = near.second_half_medians()
    table = terms_table(bias.term_p().mean, compared, distance, percentile)
    shares = bias.attention()
    for column, i in enumerate(bias.queries):
        close, _ = near_keys(i, bias.n_positions, bias.causal)
        table[f"near share, i = {i}"] = shares[:, column, close].sum(axis=-1)
    return table


def terms_table(
    asserted: Float[np.ndarray, "head position"],
    compared: Float[np.ndarray, "head position"],
    distance: Float[np.ndarray, "head"],
    percentile: Float[np.ndarray, "head"],
) -> pd.DataFrame:
    """One row a head: the trend of T^p, the wave of one curve of T^pp, and what is near.

    Trends are those of `trends_of`; distance and percentile: from `second_half_medians`.
    """
    trends = trends_of(asserted)
    waves = [dominant_wave(curve) for curve in compared]
    columns = {
        "T^p Spearman": [head.spearman for head in trends],
        "T^p rising steps": [head.rising for head in trends],
        "T^p straight line R²": [head.straight for head in trends],
        "T^pp wavelength": [head.wavelength for head in waves],
        "T^pp cycles": [head.cycles for head in waves],
        "T^pp wave share": [head.share for head in waves],
        "distance to highest T^pp": distance,
        "near T^pp percentile": percentile,
    }
    return pd.DataFrame(columns, index=pd.RangeIndex(len(asserted), name="head"))


def _interior(curve: np.ndarray) -> np.ndarray:
    inner = np.asarray(curve, dtype=np.float64)[1:-1]
    if len(inner) < 3:
        raise ShapeError(f"a curve of {len(curve)} positions has fewer than 3 inside its ends.")
    return inner
