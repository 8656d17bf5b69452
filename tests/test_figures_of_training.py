"""What figures of trained arms, of unselectable keys and of models side by side draw, by hand."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from drawn import (
    clouds,
    curve,
    edges,
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
from matplotlib.colors import same_color, to_rgba
from test_chapter_majority import BOTH, EPOCHS, FAST, SLOW, curves

from lnattn.rotary.terms import DISTANCE_TERMS
from lnattn.selectability.decide import selectability
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, Record
from lnattn_book.figures import majority, models, rotary, unread
from lnattn_book.figures import selectability as figures
from lnattn_book.page.style import (
    BLACK,
    DISTANCE_COLOURS,
    OLIVE,
    OTHERS,
    ROSE,
    VERDICT_COLOURS,
    VIOLET,
)
from lnattn_book.studies.distance_terms import RotaryStudy
from lnattn_book.studies.language_models import LongRuns
from lnattn_book.studies.majority.long_runs import Experiment
from lnattn_book.studies.random_keys import RandomGrid


def test_learning_curves_are_medians_with_the_lowest_and_the_highest_run():
    """Three seeds, the last one apart; what the page itself ran is crosses, medians too."""
    accuracy = [[0.1, 0.5, 0.6, 0.7], [0.1, 0.6, 0.8, 0.9], [0.4, 0.3, 0.9, 0.95]]
    arm = curves("layernorm", accuracy, angle=90 * np.array(accuracy) ** 2)
    other = curves("authors", np.array(accuracy) / 2)
    own = {name: np.array([[1.0, 2], [1, 3], [7, 8]]) for name in ("loss", "accuracy", "angle")}
    live = {"authors": {"epoch": np.array([0, 5]), **own}}
    figure = majority.learning_curves(Experiment((arm, other), {}), live=live)
    loss, hits, angle = figure.axes
    assert points(named(hits, "LayerNorm"))[1:] == [
        pytest.approx(point) for point in ([10, 0.5], [20, 0.8], [30, 0.9])
    ]
    assert edges(hits.collections[0], 30) == pytest.approx([0.7, 0.95])
    assert curve(hits, "short RMSNorm") == pytest.approx([0.05, 0.25, 0.4, 0.45])
    assert curve(loss, "LayerNorm") == pytest.approx([0.9, 0.5, 0.2, 0.1])
    assert curve(angle, "LayerNorm") == pytest.approx([0.9, 22.5, 57.6, 72.9])
    (crosses,) = (line for line in angle.get_lines() if line.get_marker() == "x")
    assert points(crosses) == [[0, 1], [5, 3]]
    assert same_color(crosses.get_color(), majority.LOOKS["authors"][0])
    assert [ax.get_yscale() for ax in figure.axes] == ["log", "linear", "linear"]


def test_ratios_are_slow_over_fast_and_the_first_pairs_is_ringed():
    """layernorm has 0.8 after 10 epochs, authors after 20 and 30, and 0.85 in one run of two."""
    slow = replace(SLOW, loss=np.array([[0.9, 0.9, 0.4, 0.1], [0.9, 0.9, 0.6, 0.2]]))
    pairs = {"pair": ("authors", "layernorm"), "back": ("layernorm", "authors")}
    pairs |= {"one": ("authors", "authors"), "another": ("layernorm", "layernorm")}
    levels = [0.5, 0.8, 0.85, 0.95], [0.25, 0.5]
    left, right = majority.ratio_curves(Experiment((FAST, slow), {}), pairs, *levels, ring=0.8).axes
    assert curve(left, "pair") == pytest.approx([2, 2.5, np.inf, np.nan], nan_ok=True)
    assert curve(left, "back")[:2] == pytest.approx([0.5, 0.4])
    assert points(named(right, "pair")) == [[0.25, 3], [0.5, 2.5]]
    assert edges(left.collections[0], 0.8) == pytest.approx([2, 3])
    assert np.isfinite(left.collections[0].get_paths()[0].vertices).all()
    assert rings(left) == [(0.8, pytest.approx(2.5))]
    assert not rings(right)
    assert right.xaxis_inverted()


def test_endings_are_dots_in_the_order_of_their_medians_filled_where_an_arm_projects():
    """layernorm ends at 90 and 90 %, authors, who do not project, at 80 and 90 %."""
    ax = majority.endings(BOTH, ringed=("authors",)).axes[0]
    best, worst = ax.collections
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "LayerNorm",
        "short RMSNorm",
    ]
    assert best.get_offsets().tolist() == [pytest.approx([90, 0])] * 2
    assert sorted(worst.get_offsets().tolist()) == [pytest.approx([80, 1]), pytest.approx([90, 1])]
    assert best.get_facecolor()[0, :3].tolist() != [1, 1, 1]
    assert worst.get_facecolor()[0, :3].tolist() == [1, 1, 1]
    medians, ring = ax.get_lines()
    assert medians.get_xdata().tolist() == pytest.approx([90, 85])
    assert (ring.get_xdata().item(), ring.get_ydata().item()) == pytest.approx((85, 1))


def test_keys_keep_their_lengths_and_queries_have_that_of_the_mean_key():
    """Of the second run the keys are 1 and 3 long, so that queries are drawn 2 long."""
    keys = np.zeros((2, 2, 3))
    keys[1] = [[1, 0, 0], [0, 0, 3]]
    queries = np.ones((2, 2, 3))
    queries[1] = [[0, 30, 40], [0.5, 0, 0]]
    arm = curves("authors", [[0.1] * len(EPOCHS)] * 2)
    arm = replace(arm, keys=keys, queries=queries, seeds=(5, 7))
    figure = majority.keys_and_queries(Experiment((arm,), {}), [("authors", 1)])
    (ax,) = figure.axes
    rays = np.array(named(ax, "keys").get_data_3d()).T.reshape(2, 3, 3)
    np.testing.assert_array_equal(rays[:, 0], 0)
    np.testing.assert_array_equal(rays[:, 1], keys[1])
    np.testing.assert_array_equal(clouds(ax)[0], keys[1])
    rays = np.array(named(ax, "queries (direction)").get_data_3d()).T.reshape(2, 3, 3)
    np.testing.assert_allclose(rays[:, 1], [[0, 1.2, 1.6], [2, 0, 0]])
    assert title(ax) == "short RMSNorm\nseed 7"


def test_two_proofs_are_the_weights_of_a_mixture_and_a_direction_that_leaves_all_behind():
    """(1, 1) is 0.55 (0, 0) + 0.2 (5, 0) + 0.25 (0, 4)."""
    keys = np.array([[0.0, 0], [1, 1], [5, 0], [0, 4]])
    left, right = figures.two_proofs(keys, selectability(keys), inside=1, corner=0).axes
    told = words(left)
    assert told == {"0.55": (0, 0), "0.20": (5, 0), "0.25": (0, 4), "k": (1, 1)}
    (mixed,) = (one for one in left.patches if same_color(one.get_facecolor()[:3], OLIVE))
    assert {tuple(corner) for corner in mixed.get_xy()} == {(0, 0), (5, 0), (0, 4)}
    assert points(named(left, "not selectable")) == [[1, 1]]
    arrow, v, c = (text for text in right.texts)
    towards = np.subtract(arrow.xy, arrow.get_position())
    assert (v.get_text(), c.get_text()) == ("v", "c")
    assert (arrow.get_position(), v.xy) == (pytest.approx([0, 0]), pytest.approx(arrow.xy))
    assert tuple(c.xy) == (0, 0)
    assert np.all(keys[1:] @ towards < 0)
    (wall,) = of_colour(right, BLACK)
    start, end = np.array(points(wall))
    assert (start + end) / 2 == pytest.approx([0, 0])
    assert (end - start) @ towards == pytest.approx(0, abs=1e-12)


def test_grids_are_the_mean_share_and_how_often_any_is_unselectable():
    lost = np.zeros((2, 3, 4), dtype=int)
    lost[1, 0], lost[0, 2], lost[1, 1] = [60, 30, 0, 30], [0, 0, 5, 0], [1, 1, 1, 0]
    grid = RandomGrid(np.array([10, 60]), np.array([3, 8, 13]), lost, False, 0, 0)
    share, chance, _ = figures.grids(grid).axes
    of_share, of_chance = (ax.collections[0].get_array() for ax in (share, chance))
    np.testing.assert_allclose(of_share, [[0, 0, 0.125], [0.5, 0.0125, 0]])
    np.testing.assert_allclose(of_chance, [[0, 0, 0.25], [0.75, 0.75, 0]])
    assert title(share).startswith("mean share")
    assert title(chance).startswith("probability")
    assert {*rings(share), *rings(chance)} == {(8, 60)}
    assert of_share.shape == (len(grid.counts), len(grid.widths))


def test_long_runs_show_the_loss_held_out_and_keys_of_layers_and_heads():
    """A share is 0.1 an arm + 0.05 a seed + 0.2 a snapshot + 0.01 a place: 1, or 2 and 3."""
    arm, seed, snapshot, _, place, _ = np.indices((3, 2, 2, 2, 4, 2))
    losses = np.arange(24.0).reshape(3, 2, 2, 2)
    losses[2, 0, 1] = np.nan
    made = LongRuns(
        rates=np.zeros(3),
        sweep=np.zeros((3, 3, 2)),
        tokens=np.array([10.0, 200]),
        losses=losses,
        kept=np.array([1.0, 100]),
        unselectable=0.1 * arm + 0.05 * seed + 0.2 * snapshot + 0.01 * place,
        record={},
    )
    figure = figures.long_runs(made)
    loss, keys = figure.axes
    assert [points(line) for line in of_colour(loss, ROSE)] == [
        [[10, 9], [200, 11]], [[10, 13], [200, 15]],
    ]  # fmt: skip
    assert [points(line) for line in of_colour(loss, OLIVE)] == [[[10, 21], [200, 23]]]
    drawn = {line.get_linestyle(): points(line) for line in of_colour(keys, ROSE)[2:]}
    assert drawn["-"] == [pytest.approx(point) for point in ([1, 16], [100, 36])]
    assert drawn[":"] == [pytest.approx(point) for point in ([1, 17.5], [100, 37.5])]
    assert named(keys, "in a head").get_linestyle() == ":"
    assert legend_colours(figure)["without projection"] == OLIVE.upper()


def test_the_law_is_a_line_a_width_and_marks_of_each_set_in_the_colour_of_theirs():
    record = {"sets": ["minilm", "gpt2", "full"], "widths": [2, 8], "counts": [32, 64, 128]}
    study = {
        "expected": np.array([[0.9, 0.1], [0.95, 0.3], [0.99, 0.5]]),
        "n": np.array([[32, 64], [40, 80], [50, 100]]),
        "share": np.arange(12).reshape(3, 2, 2) / 100,
    }
    axes = figures.law(study, record, ["full", "gpt2"]).axes
    assert [title(ax) for ax in axes] == ["small models,\nLayerNorm", "GPT-2,\npositions"]
    for ax, n, share in zip(axes, ([50, 100], [40, 80]), (8, 4), strict=True):
        assert points(named(ax, "$d'$ = 2")) == [[32, 90], [64, 95], [128, 99]]
        assert curve(ax, "$d'$ = 8") == [10, 30, 50]
        for width in (0, 1):
            _, marks = of_colour(ax, OTHERS[width])
            by_hand = [[n[0], share + 2 * width], [n[1], share + 2 * width + 1]]
            np.testing.assert_allclose(points(marks), by_hand)
            assert marks.get_marker() == "o"


def test_what_differs_along_1_only_has_one_shadow_and_its_gradient_is_level():
    (ax,) = unread.nobody_reads().axes
    told = words(ax)
    arrows = [(text.get_position(), text.xy) for text in ax.texts if not text.get_text()]
    one, *given, read, gradient = arrows
    assert one[0][0] == one[1][0] == 0
    assert [tip for _, tip in given] == [told["x"], told["x′"], told["x″"]]
    assert {x for x, _ in (told["x"], told["x′"], told["x″"])} == {told["read: x C"][0]}
    assert read == ((0, 0), told["read: x C"])
    assert read[1][1] == 0
    assert gradient[0][1] == gradient[1][1]


#: What `along_1` reads of a matrix.
WRITING = ["kind", "layer", "only_writes", "along", "low", "high", "norm"]


def test_energies_along_1_are_of_what_only_writes_and_ringed_above_the_band_of_the_rest():
    """Positions have a wider band, which counts for nobody; of the FFN none is ringed."""
    rows = [
        ("attention", 0, True, 1.5, 0.8, 1.2, "LayerNorm"),
        ("attention", 1, True, 0.3, 0.7, 1.1, "LayerNorm"),
        ("attention", 2, False, 1.9, 0.1, 1.1, "LayerNorm"),
        ("FFN", 0, True, 1.8, 0.9, 1.3, "LayerNorm"),
        ("positions", -1, True, 0.5, 0.2, 1.7, "LayerNorm"),
    ]
    table = pd.DataFrame(rows, columns=WRITING)
    one = pd.DataFrame([("attention", 0, True, 0.9, 0.5, 1.4, "RMSNorm")], columns=WRITING)
    (ax,) = unread.along_1({"a": one, "b": table}).axes
    marks = {kind: [] for kind in ("attention", "FFN", "positions", "tokens")}
    for line in ax.get_lines():
        marks.get(line.get_label(), []).append(points(line))
    assert marks.pop("attention") == [[[0, 0.9]], [[0.75, 1.5], [1.25, 0.3]]]
    assert marks == {"FFN": [[[1, 1.8]]], "positions": [[[1, 0.5]]], "tokens": []}
    assert rings(ax) == [(0.75, 1.5)]
    bands = [edges(band, place - 0.4) for place, band in enumerate(ax.collections)]
    assert bands == [pytest.approx([0.5, 1.4]), pytest.approx([0.7, 1.3])]
    assert ticks(ax, "x") == ["a\nRMSNorm", "b\nLayerNorm"]


def test_arms_are_geometric_means_of_their_own_norm_direction_and_optimiser():
    """Matrices differ ninefold and seeds fourfold: means are 3 and 2 times the first."""
    norms = ["RMSNorm", "removes n", "LayerNorm"]
    norm, optimiser, seed, mark, writer, direction = np.indices((3, 2, 2, 2, 2, 2))
    base = 1 + norm + 10 * direction + 100 * optimiser + 1000 * mark
    study = {"weight": base * 4.0**seed * 9.0**writer, "marks": np.array([0, 50])}
    figure = unread.arms(study, norms, ["SGD", "Adam"])
    by_name = {
        "LayerNorm, along 1": 3, "removes n, along n": 12,
        "removes n, along 1": 2, "RMSNorm, along 1": 1,
    }  # fmt: skip
    for column, (ax, name) in enumerate(zip(figure.axes, ("SGD", "Adam"), strict=True)):
        assert title(ax) == name
        for label, first in by_name.items():
            by_hand = [6 * (first + 100 * column + later) for later in (0, 1000)]
            assert curve(ax, label) == pytest.approx(by_hand)
        thin = [line.get_ydata()[0] for line in of_colour(ax, VIOLET)[:2]]
        assert thin == pytest.approx([3 * (3 + 100 * column), 12 * (3 + 100 * column)])


def test_verdicts_are_coloured_and_framed_where_all_models_have_it_and_no_null():
    rows = {
        "K6": (HOLDS, FAILS, HOLDS_IN_PART), "K12": (HOLDS, HOLDS, HOLDS),
        "K13": (FAILS, FAILS, HOLDS), "K14": (HOLDS, HOLDS_IN_PART, FAILS),
    }  # fmt: skip
    names = ("gpt2", "gpt2, null", "minilm")
    columns = {
        name: {claim: Record(verdicts[x], "") for claim, verdicts in rows.items()}
        for x, name in enumerate(names)
    }
    figure = models.verdict_grid(columns)
    (ax,) = figure.axes
    cells = {tuple(np.round(one.get_center(), 9)): one for one in ax.patches if one.get_fill()}
    marks = {text.get_position(): text.get_text() for text in ax.texts}
    for y, verdicts in enumerate(rows.values()):
        for x, verdict in enumerate(verdicts):
            assert same_color(cells[x, y].get_facecolor(), VERDICT_COLOURS[verdict])
            assert marks[x, y] == {HOLDS: "✓", FAILS: "✗", HOLDS_IN_PART: "◐"}[verdict]
    assert [one.get_center()[1] for one in ax.patches if not one.get_fill()] == [0]
    assert ticks(ax, "x") == ["GPT-2", "null", "MiniLM"]
    assert [label.split()[-1] for label in ticks(ax, "y")] == list(rows)
    assert ticks(ax, "y")[1] == "rare tokens vary more  K12"
    assert legend_colours(figure)["◐ in part"] == VERDICT_COLOURS[HOLDS_IN_PART].upper()


def test_distance_alone_is_less_its_mean_and_ringed_where_attention_is_on_the_token_before():
    """Head 0 has the larger score at distance 1, but attends to itself."""
    curve_of = np.array([[9.0, 6, 0], [1, 4, 1]])
    alone = np.array([0.1, 0.6])
    known = Mock(curve=curve_of, null_curve=-curve_of / 3, sinks=None, alone=alone)
    figure = rotary.distance_alone(Mock(RotaryStudy, by_distance=known), named=1, far=2)
    (ax,) = figure.axes
    assert curve(ax, "head 1") == [-1, 2, -1]
    assert [4, 1, -5] in [line.get_ydata().tolist() for line in ax.lines]
    assert curve(ax, "weights in random order") == pytest.approx([-4 / 3, -1 / 3, 5 / 3])
    assert "head 0" not in legend_colours(figure)
    assert rings(ax) == [(1, 2)]


def test_a_pair_is_turned_by_its_positions_and_its_angle_by_their_distance():
    axes = rotary.rotation(0.3, ((3, 1), (7, 5), (6, 1))).axes
    between = []
    for ax, (query, key) in zip(axes, ((3, 1), (7, 5), (6, 1)), strict=True):
        assert title(ax) == f"positions {query} and {key}: Δ = {query - key}"
        told = words(ax)
        angles = [
            np.arctan2(*told[f"{name}\nat {at}"][::-1])
            for name, at in (("query", query), ("key", key))
        ]
        tips = [np.arctan2(*text.xy[::-1]) for text in ax.texts if not text.get_text()]
        assert tips == pytest.approx(angles)
        between.append((angles[0] - angles[1]) % (2 * np.pi))
    assert between[0] == pytest.approx(between[1])
    assert (between[2] - between[0]) == pytest.approx(3 * 0.3)


def test_shares_are_stacked_in_the_colours_of_their_terms():
    share = np.array([[0.1, 0.4], [0.2, 0.3], [0.3, 0.2], [0.4, 0.1]])
    study = Mock(RotaryStudy, by_distance=Mock(share=share))
    ax = rotary.shares(study).axes[0]
    bottoms = [[bar.get_y() for bar in bars] for bars in ax.containers]
    assert bottoms == [pytest.approx(row) for row in np.cumsum([[0, 0], *share[:-1]], axis=0)]
    colours = [bars[0].get_facecolor() for bars in ax.containers]
    assert colours == [to_rgba(DISTANCE_COLOURS[name]) for name in DISTANCE_TERMS]
