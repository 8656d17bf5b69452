"""What figures of LayerNorm, the six terms and their parts in attention draw, by hand."""

from __future__ import annotations

from unittest.mock import MagicMock, Mock

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from drawn import (
    clouds,
    curve,
    edges,
    figures_are_closed,  # noqa: F401  a fixture of all tests here
    image,
    legend_colours,
    named,
    of_colour,
    points,
    rings,
    ticks,
    title,
    words,
)
from matplotlib.colors import same_color

from lnattn.attention.terms import TERMS, SixTerms
from lnattn.contribution.study import Contributions
from lnattn_book.figures import ablation, contribution, folding, layer, layernorm, terms
from lnattn_book.page.style import (
    BLACK,
    GREY,
    ROSE,
    TERM_COLOURS,
    TERM_NAMES,
    term_label,
)

#: A row of one key, of two and of three, and what is left of them less their means.
ROWS = np.array([[5.0, 90, 90], [1, 3, 90], [2, 4, 9]])
CENTRED = np.array([[0, np.nan, np.nan], [-1, 1, np.nan], [-3, -1, 4]])


def test_projection_and_scaling_take_the_mean_from_a_point_and_bring_it_to_norm_root_3():
    given, projected, scaled, collapsed = layernorm.projection_and_scaling(
        np.array([[1.0, 2, 6], [3, 0, 0]])
    ).axes
    assert clouds(given)[0].tolist() == [[1, 2, 6], [3, 0, 0]]
    assert clouds(projected)[0].tolist() == pytest.approx(np.array([[-2, -1, 3], [2, -1, -1]]))
    by_hand = np.sqrt(3 / 14) * np.array([-2, -1, 3]), np.sqrt(1 / 2) * np.array([2, -1, -1])
    np.testing.assert_allclose(clouds(scaled)[0], by_hand, rtol=1e-4)
    assert [title(ax) for ax in (projected, scaled)] == ["projected, x C", "scaled to norm √3"]
    violet, its_image, rose, other_image = clouds(collapsed)
    np.testing.assert_allclose(its_image, [[1.5**0.5, -(1.5**0.5), 0]], atol=1e-12)
    np.testing.assert_allclose(other_image, -its_image)
    for plane, point in ((violet, its_image), (rose, other_image)):
        inside = plane - plane.mean(axis=1, keepdims=True)
        inside *= np.sqrt(3) / np.linalg.norm(inside, axis=1, keepdims=True)
        np.testing.assert_allclose(inside, np.repeat(point, len(plane), axis=0), atol=1e-12)


def test_histograms_count_every_token_and_bins_of_norms_are_even_in_their_logarithm():
    along, norms = np.linspace(0, 0.2, 500), np.geomspace(1, 8, 300)
    left, right = layernorm.parts_of_inputs(along, norms, d_model=16).axes
    assert sum(bar.get_height() for bar in left.patches) == 500
    assert sum(bar.get_height() for bar in right.patches) == 300
    edges = np.array([bar.get_x() for bar in right.patches])
    assert np.ptp(np.diff(np.log(edges))) == pytest.approx(0, abs=1e-10)
    assert left.get_lines()[0].get_xdata()[0] == pytest.approx(1 / 4)


def test_a_hull_joins_its_corners_and_crosses_are_what_is_not_selectable():
    keys = np.array([[0.0, 0], [1, 1], [4, 0], [0, 5], [1, 2]])
    _, ax = plt.subplots()
    layernorm.hull_of(ax, keys, np.array([True, False, True, True, False]))
    assert points(named(ax, "selectable")) == [[0, 0], [4, 0], [0, 5]]
    assert points(named(ax, "not selectable")) == [[1, 1], [1, 2]]
    (around,) = of_colour(ax, GREY)
    assert len(points(around)) == 4
    assert points(around)[0] == points(around)[-1]
    assert sorted(points(around)[:3]) == [[0, 0], [0, 5], [4, 0]]


def test_a_key_inside_the_hull_is_selectable_once_all_have_one_length():
    keys = np.array([[3.0, 4], [-3, 0], [0, -7], [0.1, 0.0]])
    before, after = layernorm.unselectable_key(keys, inside=3).axes
    assert points(named(before, "not selectable")) == [[0.1, 0]]
    assert words(before) == {"k": (0.1, 0)}
    scaled = np.sqrt(2) * np.array([[0.6, 0.8], [-1, 0], [0, -1], [1, 0]])
    np.testing.assert_allclose(points(named(after, "selectable")), scaled)
    assert words(after) == {"k": pytest.approx((np.sqrt(2), 0))}


def test_parts_of_layernorm_and_the_query_map_go_where_folding_puts_them():
    """W' = C γ W and b' = β W + b; the dotted line is the W of β W."""
    (ax,) = folding.where_the_parts_go().axes
    name = {text.get_position(): text.get_text() for text in ax.texts}
    joined = [
        (name[tuple(top)], line.get_linestyle(), name[tuple(end)])
        for line in ax.get_lines()
        for top, end in [points(line)]
    ]
    new_map, new_bias = "× $W'^Q$", "+ $b'^Q$"
    assert [name[x, 0] for x in (0, 2, 4, 6)] == ["$x$", "÷ σ", new_map, new_bias]
    assert [(part, end) for part, line, end in joined if line == "-"] == [
        ("$x$", "$x$"), ("− mean", new_map), ("÷ σ", "÷ σ"), ("× γ", new_map),
        ("+ β", new_bias), ("× $W^Q$", new_map), ("+ $b^Q$", new_bias),
    ]  # fmt: skip
    assert [(part, end) for part, line, end in joined if line == ":"] == [("× $W^Q$", new_bias)]


def test_a_value_is_a_disc_as_large_as_the_attention_on_its_key_and_the_output_their_mean():
    values = np.array([[1.0, 5], [2, 0], [4, 3]])
    weights = np.array([0.5, 0.3, 0.2])
    (ax,) = layer.expectation(values, weights, np.array([1.9, 3.1])).axes
    discs, dots, output = ax.collections
    assert discs.get_offsets().tolist() == dots.get_offsets().tolist() == values.tolist()
    assert discs.get_sizes() == pytest.approx([780, 480, 330])
    assert words(ax) == {"key 0: 0.50": (1, 5), "key 1: 0.30": (2, 0), "key 2: 0.20": (4, 3)}
    assert output.get_label() == "output"
    assert output.get_offsets().tolist() == [[1.9, 3.1]]
    assert same_color(output.get_facecolor()[0], ROSE)
    assert discs.get_label() == "value of a key"


def test_rows_are_centred_on_the_keys_that_a_query_sees():
    np.testing.assert_array_equal(terms.centred_rows(ROWS), CENTRED)
    both_ways = terms.centred_rows(np.array([[3.0, 0], [1, 3]]), causal=False)
    assert both_ways.tolist() == [[1.5, -1.5], [-1, 1]]


def test_six_heat_maps_are_one_heads_terms_with_queries_down_on_one_scale():
    made = MagicMock(SixTerms)
    made.__getitem__.side_effect = lambda name: torch.from_numpy(
        np.stack([-ROWS, (1 + TERMS.index(name)) * ROWS])
    )
    figure = terms.six_heat_maps(made, 1, ["a", "b", "c"], ring=(2, 1))
    for number, (name, ax) in enumerate(zip(TERMS, figure.axes, strict=False), start=1):
        np.testing.assert_allclose(image(ax), number * CENTRED)
        assert ax.images[0].get_clim() == (-24, 24)
        assert title(ax) == term_label(name)
        assert same_color(ax.spines["left"].get_edgecolor(), TERM_COLOURS[name])
        assert rings(ax) == [(1, 2)]
    assert ticks(figure.axes[4], "x") == ticks(figure.axes[4], "y") == ["a", "b", "c"]
    both_ways = terms.six_heat_maps(made, 1, ["a", "b", "c"], causal=False).axes[0]
    np.testing.assert_allclose(image(both_ways), ROWS - ROWS.mean(axis=1, keepdims=True))
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("key token", "query token")


def test_one_pair_shows_each_lift_their_sum_and_the_row_that_the_key_is_in():
    lifts = {"ee": 2.0, "pp": -0.5, "e": 0.75}
    left, right = terms.one_pair(lifts, np.array([0.1, 0.6, 0.25, 0.05]), 2, "abcd").axes
    assert [bar.get_width() for bar in left.patches] == [2, -0.5, 0.75, 2.25]
    colours = [*(TERM_COLOURS[name] for name in lifts), BLACK]
    assert all(map(same_color, (bar.get_facecolor() for bar in left.patches), colours))
    assert ticks(left, "y") == [*map(term_label, lifts), "sum"]
    assert list(words(left).items()) == [
        ("+2.0", (2, 0)), ("−0.5", (0, 1)), ("+0.8", (0.75, 2)), ("+2.2", (2.25, 3)),
    ]  # fmt: skip
    assert [bar.get_width() for bar in right.patches] == [0.1, 0.6, 0.25, 0.05]
    black = [same_color(bar.get_facecolor(), BLACK) for bar in right.patches]
    assert black == [False, False, True, False]
    assert words(right) == {"25%": (0.25, 2)}
    assert ticks(right, "y") == ["a", "b", "c", "d"]


def test_sizes_of_terms_are_shares_of_a_head_with_a_ring_at_the_largest():
    """The largest size is half of its head's sum, a smaller one four fifths."""
    sizes = np.ones((6, 3)) * [1, 2, 20]
    sizes[1, 0] = 20
    sizes[4, 2] = 100
    ax = terms.term_sizes(sizes).axes[0]
    assert image(ax).sum(axis=0) == pytest.approx(1)
    assert (image(ax)[1, 0], image(ax)[4, 2]) == (0.8, 0.5)
    assert rings(ax) == [(0, 1)]
    assert ticks(ax, "y") == [term_label(name) for name in TERMS]


def test_contributions_by_position_are_the_mean_of_heads_with_1_96_errors_on_both_sides():
    """Positions 1 to 3 of the last slot; T^e, which is 0 everywhere, has no line."""
    of_term, of_slot = np.arange(1.0, 7)[:, None, None], np.arange(1.0, 4)[:, None]
    mean = of_term * of_slot * [np.nan, 1, 4, 2]
    mean[TERMS.index("e")] = 0
    error = np.broadcast_to(0.1 * of_term, mean.shape)
    (ax,) = contribution.by_position(Mock(Contributions, mean=mean, standard_error=error)).axes
    drawn = [term for term in TERM_COLOURS if term != "e"]
    assert [line.get_label() for line in ax.get_lines()] == [term_label(term) for term in drawn]
    for term, band in zip(drawn, ax.collections, strict=True):
        size = 1 + TERMS.index(term)
        line = named(ax, term_label(term))
        assert points(line) == [[1, 3 * size], [2, 12 * size], [3, 6 * size]]
        assert line.get_linestyle() == ("--" if term in ("ep", "pe") else "-")
        assert edges(band, 2) == pytest.approx([11.804 * size, 12.196 * size])


def test_contributions_by_head_are_written_in_their_cells_and_the_largest_is_ringed():
    """The ring is at the largest of a single head, though that of all is larger here."""
    means = np.arange(1, 25).reshape(6, 4) / 1000
    means[4, 1], means[2, 3] = 0.25, 1.5
    ax = contribution.by_head(Mock(Contributions, grand_mean=lambda: means, n_heads=3)).axes[0]
    np.testing.assert_array_equal(image(ax), means)
    written = {text.get_position(): (text.get_text(), text.get_color()) for text in ax.texts}
    assert written[1, 4] == (".25", "black")
    assert written[3, 2] == ("1.50", "black")
    assert written[2, 0] == (".003", "white")
    assert rings(ax) == [(1, 4)]
    assert ticks(ax, "x") == ["0", "1", "2", "all"]
    assert ticks(ax, "y") == [TERM_NAMES[term] for term in TERMS]


def test_trainings_are_thin_under_their_mean_and_pairs_and_positions_keep_their_colours():
    """Three seeds at four steps; the last one is an outlier, so that means are no medians."""
    column = {"pairs": 0.1, "positions": 0.3, "found": 0.5, "chance": 0.05, "previous": 0.7}
    steps = dict(enumerate([262_144, 2_100_000, 2_500_000, 52_400_000]))
    made = [
        {"seed": seed, "step": step, "tokens": tokens}
        | {name: size * (1 + step) * [1, 1, 4][seed] for name, size in column.items()}
        for seed in range(3)
        for step, tokens in steps.items()
    ]
    figure = ablation.early_and_late(pd.DataFrame(made))
    top, below = figure.axes
    pairs, positions = "without pairs of tokens", "without all that knows a position"
    found = "pieces found by pairs"
    previous = "largest attention on the token before, by place alone"
    shown = [(top, pairs, 0.1), (top, positions, 0.3), (below, found, 0.5), (below, previous, 0.7)]
    for ax, label, size in [*shown, (below, "found by chance", 0.05)]:
        assert curve(ax, label) == pytest.approx([2 * size * step for step in (1, 2, 3, 4)])
    assert [len(of_colour(ax, TERM_COLOURS["ee"])) for ax in (top, below)] == [4, 4]
    colours = legend_colours(figure)
    assert colours[pairs] == colours[found] == TERM_COLOURS["ee"].upper()
    assert colours[positions] == colours[previous] == TERM_COLOURS["pp"].upper()
    assert ticks(below, "x") == ["0.3M", "", "2.5M", "52M"]
