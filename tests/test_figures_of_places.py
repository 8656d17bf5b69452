"""What figures of positions and of the first token draw, by hand."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest
from drawn import (
    curve,
    figures_are_closed,  # noqa: F401  a fixture of all tests here
    named,
    of_colour,
    points,
    rings,
    title,
    words,
)
from matplotlib.colors import same_color

from lnattn.position.bias import PositionBias
from lnattn_book.chapters.variance import Chance
from lnattn_book.figures import position, variance
from lnattn_book.page.style import BLACK, GREY, TERM_COLOURS, term_label
from lnattn_book.studies.first_token import FirstTokenSwitch
from lnattn_book.studies.variance import FrequencyStudy

#: Per cent of attention on thirteen keys, head by head; the ten near ones have 60 and 25 of them.
LAST = ([30, 5, 5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15], [60, 10, 5, 1, 1, 2, 2, 3, 3, 4, 4, 4, 1])
EARLY = ([25, 50, 25], [50, 10, 40])

SWITCH = FirstTokenSwitch(
    true=np.array([[[0.1, 0.3], [0.2, 0.1], [0.1, 0.2]], [[0.2, 1.0], [0.1, 0], [0.7, 0.4]]]),
    median=np.array([[[0.1, 0.3], [0.4, 0.1], [0.1, 0]], [[0.1, 0.3], [0.3, 0.4], [0.1, 0]]]),
    score=np.zeros(3),
    sigma_ratio=2.0,
)


def bias_of(comparison, asserted, queries, scale=2.0, causal=True):
    return PositionBias(
        queries=queries,
        self_assertion=np.array(asserted, dtype=float),
        comparison=np.array(comparison, dtype=float),
        inverse_sigma=None,
        scale=scale,
        causal=causal,
    )


def attending(early, last):
    """Position terms whose softmax is these percentages, for queries 2 and 12."""
    rows = [[[*row, *[1] * 10], end] for row, end in zip(early, last, strict=True)]
    return bias_of(2 * np.log(rows), np.zeros((len(rows), 13)), (2, 12))


def test_one_head_shows_slope_wave_and_softmax_with_a_ring_at_the_crest():
    curves = [4, 3, -2, 1, 0.5], [9, 1, 2, 5, 3], [0.1, 0.2, 0.3, 0.15, 0.25]
    axes = position.one_head(*np.array(curves, dtype=float)).axes
    colours = (TERM_COLOURS["p"], TERM_COLOURS["pp"], BLACK)
    for ax, heights, colour in zip(axes, curves, colours, strict=True):
        shown, end, *_ = of_colour(ax, colour)
        assert points(shown) == [[key, height] for key, height in enumerate(heights)]
        assert points(end) == [[4, heights[-1]]]
    assert [rings(ax) for ax in axes] == [[], [(3, 5)], []]
    assert [title(ax) for ax in axes] == [term_label("p"), term_label("pp"), "softmax of the sum"]


def test_slopes_run_from_0_to_1_and_the_heads_apart_are_bold_and_named():
    asserted = [[0, 2, 8, 4], [5, 1, 2, 3], [-6, -2, -4, -5]]
    (ax,) = position.slopes(bias_of(np.zeros((3, 2, 4)), asserted, (1, 3)), apart=[1]).axes
    (bold,) = of_colour(ax, TERM_COLOURS["p"])
    assert points(bold) == [[0, 1], [1, 0], [2, 0.25], [3, 0.5]]
    assert [points(line)[3][1] for line in of_colour(ax, GREY)] == [0.5, 0.25]
    assert words(ax) == {"head 1": (2, 0.25), "i = 1": (1, 1)}
    assert of_colour(ax, BLACK)[0].get_xdata() == [1, 1]


@pytest.mark.parametrize(("causal", "span", "crest"), [(True, 3, (3, 4)), (False, 6, (5, 7))])
def test_waves_are_over_the_scale_and_ringed_where_the_last_query_sees_the_highest(
    causal, span, crest
):
    """Position 0, far above all others, is left out; key 5 is unseen where queries look back."""
    first = [[99, 6, 2, 20, 30, 40], [99, 4, 6, 8, 2, 14]]
    bias = bias_of([first, np.flip(first, axis=1)], np.ones((2, 6)), (2, 4), causal=causal)
    figure = position.waves(bias)
    ax = figure.axes[0]
    assert points(named(ax, "query i = 2"))[:2] == [[1, 3], [2, 1]]
    assert len(points(named(ax, "query i = 2"))) == (2 if causal else 5)
    assert curve(ax, "query i = 4")[:4] == [2, 3, 4, 1]
    assert title(ax) == f"head 0: span {span}"
    assert rings(ax) == [crest]
    ends = [points(line) for line in of_colour(ax, TERM_COLOURS["pp"]) if line.get_marker() == "o"]
    assert ends == [[[2, 1]], [[4, 1]]]
    thin = [len(points(line)) for line in ax.get_lines() if line.get_linewidth() < 1]
    assert thin == [5, 5]
    assert figure.get_supylabel() == r"$T^{pp}/\sqrt{d'}$"


def test_attention_by_position_has_every_key_and_tells_the_share_of_the_near_ten():
    axes = position.attention(attending(EARLY, LAST)).axes
    assert [title(ax) for ax in axes] == ["head 0: 60% near", "head 1: 25% near"]
    for ax, early, last in zip(axes, EARLY, LAST, strict=True):
        by_hand = np.column_stack([range(13), np.divide(last, 100)])
        np.testing.assert_allclose(points(named(ax, "query i = 12")), by_hand)
        np.testing.assert_allclose(curve(ax, "query i = 2"), np.divide(early, 100))
        assert ax.get_ylim()[0] == 0


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (3, 2), (10, 3)])
def test_a_grid_has_a_panel_for_each_title_and_no_other(count, columns):
    titles = [f"head {head}" for head in range(count)]
    figure, axes = position.head_grid(titles)
    assert figure.axes == axes
    assert [title(ax) for ax in axes] == titles
    assert axes[0].get_gridspec().ncols == columns


def test_variance_of_positions_begins_at_0_and_names_both_ends():
    (ax,) = variance.position_variance(np.array([8, 1, 2, 1, 3, 0.25])).axes
    line, ends = ax.get_lines()
    assert points(line) == [[0, 8], [1, 1], [2, 2], [3, 1], [4, 3], [5, 0.25]]
    assert points(ends) == [[0, 8], [5, 0.25]]
    assert words(ax) == {"j = 0": (0, 8), "j = 5": (5, 0.25)}
    assert ax.get_yscale() == "log"


def test_attention_on_the_first_token_is_a_mean_and_ringed_where_its_sigma_draws_it():
    (ax,) = variance.first_token(SWITCH).axes
    own, ordinary = [0.4, 0.1, 0.35], [0.2, 0.3, 0.05]
    assert curve(ax, r"its own $\sigma_0$") == pytest.approx(own)
    assert curve(ax, r"an ordinary $\sigma$") == pytest.approx(ordinary)
    assert rings(ax) == [(0, pytest.approx(0.4)), (2, pytest.approx(0.35))]
    joined = [segment[:, 1].tolist() for segment in ax.collections[0].get_segments()]
    assert joined == [pytest.approx(ends) for ends in zip(ordinary, own, strict=True)]


def test_amplified_is_the_ratio_of_means_from_a_line_at_1():
    (ax,) = variance.amplified(SWITCH).axes
    dots, one = ax.get_lines()
    assert dots.get_ydata() == pytest.approx([2, 1 / 3, 7])
    assert one.get_ydata() == [1, 1]
    ends = [segment[:, 1].tolist() for segment in ax.collections[0].get_segments()]
    assert ends == [pytest.approx([1, times]) for times in (2, 1 / 3, 7)]


def test_sinks_are_multiples_of_even_attention_with_either_sigma():
    """Queries 1, 2 and 3 see two, three and four keys."""
    own = np.array([[0.5, 0.1, 0.2], [0.1, 0.6, 0.5], [0.3, 0.2, 0.1]])
    with_own, with_ordinary = variance.fading_sinks(own, own / 2, bold=[2], named=[1]).axes
    for ax, times in ((with_own, 1), (with_ordinary, 0.5)):
        curves = [line for line in ax.get_lines() if len(line.get_xdata()) == 3]
        by_hand = times * np.array([[1, 0.3, 0.8], [0.2, 1.8, 2], [0.6, 0.6, 0.4]])
        np.testing.assert_allclose([line.get_ydata() for line in curves], by_hand)
        assert [line.get_linestyle() for line in curves] == ["-", "--", "-"]
        assert [same_color(line.get_color(), BLACK) for line in curves] == [False, True, True]
        assert curves[0].get_xdata().tolist() == [1, 2, 3]
        assert words(ax)["head 1"] == (3, pytest.approx(2 * times))
    assert title(with_own) == r"with its own $\sigma_0$"


def test_the_strongest_head_by_size_is_drawn_and_all_heads_beside_chance():
    """ρ of head 1 is the lowest and the strongest; counts 1 to 16 make eighths of two."""
    counts = np.arange(1, 17)
    known = {"counts": counts, "asserted": np.array([5.0 * counts, -2.0 * counts, counts])}
    correlations = tuple(Mock(rho=rho) for rho in (0.5, -0.9, 0.2))
    study = Mock(FrequencyStudy, head_correlations=correlations, **known)
    cloud, heads = variance.self_assertion(study, Chance(head=0.25, strongest=0.4)).axes[:2]
    assert title(cloud) == "head 1: ρ = −0.90"
    assert curve(cloud, "medians") == [-3 - 4 * eighth for eighth in range(8)]
    (sizes,) = of_colour(heads, TERM_COLOURS["e"])
    assert points(sizes) == [[0, 0.5], [1, 0.9], [2, 0.2]]
    (band,) = heads.patches
    assert (band.get_y(), band.get_height()) == (0, 0.25)
    assert of_colour(heads, GREY)[0].get_ydata() == [0.4, 0.4]
    assert words(heads) == {"shuffled heads": (0, 0.25), "the best of them": (0, 0.4)}
    assert heads.get_ylim() == (0, pytest.approx(0.95))
