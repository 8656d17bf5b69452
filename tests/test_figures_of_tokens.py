"""What figures of heads that know tokens, and of heads that read heads, draw, by hand."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from drawn import (
    curve,
    figures_are_closed,  # noqa: F401  a fixture of all tests here
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

from lnattn.affinity.subwords import Pieces, Subwords
from lnattn_book.figures import affinity, circuits, for_every_text, subwords
from lnattn_book.page.style import BLACK, BLUE, GREY, ROSE, VERMILION
from lnattn_book.studies.detokenization import AffinityResult


def ends(lines):
    """Lowest and highest point of each line of a collection."""
    return [segment[:, 1].tolist() for segment in lines.get_segments()]


def test_aurocs_are_bars_from_a_half_with_a_ring_at_the_best_heads_wrong_query():
    table = pd.DataFrame(
        {
            "auroc": [0.6, 0.75, 0.55],
            "low": [0.57, 0.72, 0.5],
            "high": [0.61, 0.77, 0.56],
            "wrong query": [0.65, 0.61, 0.35],
        }
    )
    known = {"table": lambda: table, "n_heads": 3, "common_baselines": np.array([0.8, 0.7])}
    (ax,) = affinity.auroc_bars(Mock(AffinityResult, **known)).axes
    assert [bar.get_y() for bar in ax.patches] == [0.5, 0.5, 0.5]
    tops = [bar.get_y() + bar.get_height() for bar in ax.patches]
    assert tops == pytest.approx([0.6, 0.75, 0.55])
    assert ends(ax.collections[0]) == [pytest.approx(row[1:3]) for row in table.to_numpy()]
    assert points(named(ax, "with a wrong query")) == [[0, 0.65], [1, 0.61], [2, 0.35]]
    assert rings(ax) == [(1, 0.61)]
    (listed,) = (line for line in of_colour(ax, BLACK) if line.get_linestyle() == "--")
    assert listed.get_ydata() == [0.8, 0.8]
    assert words(ax)["the list"] == (pytest.approx(2.6), 0.8)
    assert ax.get_ylim() == (pytest.approx(0.33), 1)


def test_recall_is_walked_down_from_the_first_key_in_both_orders():
    walks = {
        "one": {"by head": np.array([0.2, 0.5, 1]), "by count": np.array([0.1, 0.3])},
        "two": {"by head": np.array([0.4, 0.6]), "by count": np.array([0, 0.7])},
    }
    figure = affinity.recall_curves(walks)
    for ax, (name, orders) in zip(figure.axes, walks.items(), strict=True):
        assert title(ax) == name
        for label, met in orders.items():
            assert points(named(ax, label)) == [[1 + key, share] for key, share in enumerate(met)]
            assert named(ax, label).get_drawstyle() == "steps-post"
    assert legend_colours(figure) == {"by head": BLACK, "by count": GREY}


def test_joined_pieces_are_key_and_query_with_their_best_head_and_share():
    """Pieces 0 and 2 continue the same token: the better one is shown."""
    pieces = Pieces(
        queries=np.array([3, 4, 5, 6]),
        keys=np.array([0, 1, 0, 2]),
        share=np.array([0.3, 0.6, 0.9, 0.4]),
        count=np.array([30, 60, 90, 40]),
    )
    ranks = np.array([[5, 2, 9, 1], [4, 8, 3, 7]])
    found = Subwords(pieces=pieces, ranks=ranks, chance=np.zeros((2, 1, 3)))
    left, right = subwords.joined_pieces(found, "abcdefg").axes
    told = [(text.get_text(), *text.get_position()) for text in left.texts]
    assert told == [
        ("c", -0.02, 0), ("g", 0.02, 0), ("head 0, rank 1", 1, 0),
        ("b", -0.02, 1), ("e", 0.02, 1), ("head 0, rank 2", 1, 1),
        ("a", -0.02, 2), ("f", 0.02, 2), ("head 1, rank 3", 1, 2),
    ]  # fmt: skip
    boxes = [text.get_bbox_patch().get_edgecolor() for text in left.texts[:2]]
    assert all(map(same_color, boxes, (BLUE, VERMILION)))
    assert [bar.get_width() for bar in right.patches] == [0.4, 0.6, 0.9]
    assert [(text.get_text(), text.get_position()[1]) for text in right.texts] == [
        ("of 40", 0), ("of 60", 1), ("of 90", 2),
    ]  # fmt: skip
    assert len(subwords.joined_pieces(found, "abcdefg", n=2).axes[1].patches) == 2


def test_shares_by_head_stand_beside_chance_and_are_ringed_at_what_is_found():
    columns = ["found", "low", "high", "chance", "chance low", "chance high"]
    shares = [[0.1, 0.05, 0.3, 0.11, 0.08, 0.2], [0.6, 0.5, 0.64, 0.1, 0.09, 0.15]]
    shares.append([0.7, 0.61, 0.72, 0.2, 0.16, 0.22])
    table = pd.DataFrame(shares, columns=columns, index=[0, 1, "best"])
    asked = Mock(return_value=table)
    (ax,) = subwords.shares_by_head(Mock(Subwords, table=asked), ringed=[1], top=1).axes
    asked.assert_called_once_with(1)
    assert points(named(ax, "found, 95 % interval")) == [[-0.15, 0.1], [0.85, 0.6], [1.85, 0.7]]
    assert points(named(ax, "pieces exchanged: mean")) == [[0.15, 0.11], [1.15, 0.1], [2.15, 0.2]]
    found, chance = ax.collections
    assert ends(found) == [[0.05, 0.3], [0.5, 0.64], [0.61, 0.72]]
    assert ends(chance) == [[0.08, 0.2], [0.09, 0.15], [0.16, 0.22]]
    assert rings(ax) == [(0.85, 0.6)]
    assert ticks(ax, "x") == ["0", "1", "best"]
    assert ax.get_ylabel() == "share within rank 1"


def test_usable_pairs_are_drawn_by_kind_over_the_share_with_their_intervals():
    rows = [
        (kind, share, size * share, size * share / 2, size * share * 3)
        for kind, size in (("V", 5), ("Q", 20), ("K", 90))
        for share in (0.1, 0.01, 0.5)
    ]
    table = pd.DataFrame(rows, columns=["kind", "share", "ratio", "low", "high"])
    figure = circuits.usable_by_share(table, ring=(0.01, 0.3))
    (ax,) = figure.axes
    for kind, size, band in zip("KQV", (90, 20, 5), ax.collections, strict=True):
        line = curve(ax, f"{kind}-composition")
        assert line == pytest.approx([0.01 * size, 0.1 * size, 0.5 * size])
        corners = band.get_paths()[0].vertices
        assert corners[corners[:, 0] == 0.1, 1] == pytest.approx([0.05 * size, 0.3 * size])
    assert rings(ax) == [(0.01, pytest.approx(0.01 * size)) for size in (90, 20, 5)]
    colours = {"K-composition": BLACK, "Q-composition": ROSE, "V-composition": GREY}
    assert legend_colours(figure) == colours


def test_readers_are_framed_in_their_layer_and_head_and_scores_written():
    scores = np.array([[0.05, 0.1, 0.9], [0.4, 0.2, 0.3]])
    figure = circuits.readers_of(scores, "4.1", 5, ["5.2", "6.0"], 0.25)
    ax, bar = figure.axes
    np.testing.assert_array_equal(ax.images[0].get_array(), scores)
    written = {text.get_position(): (text.get_text(), text.get_color()) for text in ax.texts}
    assert written[2, 0] == ("90", "black")
    assert written[0, 1] == ("40", "white")
    assert [frame.get_center().tolist() for frame in ax.patches] == [
        pytest.approx([2, 0], abs=0.01),
        pytest.approx([0, 1], abs=0.01),
    ]
    assert ticks(ax, "y") == ["5", "6"]
    assert of_colour(bar, ROSE)[0].get_ydata() == [0.25, 0.25]
    assert bar.get_ylabel() == "score with 4.1"


def test_same_token_is_a_violin_a_head_with_a_ring_at_the_median():
    z = np.random.default_rng(0).normal([[-2.0], [3.0]], 1, size=(2, 200))
    ax = affinity.same_token(Mock(AffinityResult, same_token=z), ringed=1).axes[0]
    low, high = (violin.get_paths()[0].vertices[:, 1] for violin in ax.collections)
    assert (low.min(), low.max()) == pytest.approx((z[0].min(), z[0].max()))
    assert (high.min(), high.max()) == pytest.approx((z[1].min(), z[1].max()))
    ring = ax.get_lines()[-1]
    assert (ring.get_xdata().item(), ring.get_ydata().item()) == (1, pytest.approx(np.median(z[1])))


def test_heat_maps_have_white_at_zero_and_each_heads_own_range():
    heat = np.array([[[-4.0, 1.0], [0.0, 2.0]], [[0.6, 7.0], [3.0, 1.0]]])
    study = Mock(AffinityResult, heat=heat, n_heads=2)
    axes = affinity.heat_maps(study, columns=2).axes
    assert [ax.get_title() or ax.get_title(loc="left") for ax in axes] == ["0: −4…2", "1: 1…7"]
    for ax, scores, limit in zip(axes, heat, (4, 7), strict=True):
        (image,) = ax.images
        np.testing.assert_array_equal(image.get_array(), scores)
        assert image.get_clim() == (-limit, limit)
    white = axes[0].images[0].to_rgba(np.zeros((1, 1)))[0, 0]
    assert white.tolist() == pytest.approx([1, 1, 1, 1], abs=0.01)


def test_tokens_are_lines_from_least_to_greatest_in_the_order_of_their_least():
    """Medians are no means; of a hundred whole words sixty are drawn, both ends among them."""
    least = np.array([[0.5, 0.1, 0.15, *[0.2] * 97], np.linspace(0, 0.99, 100)[::-1]])
    pieces, whole = for_every_text.intervals(least, least + 0.01).axes
    assert (title(pieces), title(whole)) == ("pieces of words", "whole words")
    drawn = ends(pieces.collections[0])
    assert drawn[0] == pytest.approx([0.1, 0.11])
    assert drawn[-1] == pytest.approx([0.5, 0.51])
    assert len(drawn) == len(ends(whole.collections[0])) == for_every_text.SHOWN
    dots, median = pieces.get_lines()
    assert dots.get_ydata().tolist() == [low for low, _ in drawn]
    assert median.get_ydata() == [0.2, 0.2]
    assert ends(whole.collections[0])[-1] == pytest.approx([0.99, 1])
