"""The figures of chapter 04 show the numbers they were given."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

from lnattn_book.figures import circuits
from lnattn_book.style import use_style


@pytest.fixture
def rng():
    """The same numbers for every test, whichever runs first."""
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _style():
    use_style()
    yield
    mpl.pyplot.close("all")


def test_head_graph_draws_one_arrow_for_each_edge_and_names_its_heads():
    edges = pd.DataFrame(
        {
            "writer": ["0.1", "1.0", "0.0"],
            "reader": ["2.0", "2.1", "1.1"],
            "kind": ["K", "Q", "V"],
            "weight": [0.1, 0.05, 0.02],
        }
    )
    figure = circuits.head_graph(edges, layers=3, heads=2)
    (ax,) = figure.axes
    assert len(ax.patches) == 3
    assert {text.get_text() for text in ax.texts} == {*edges["writer"], *edges["reader"]}
    assert ax.get_xlabel() == "layer"
    assert len(figure.legends[0].get_texts()) == 3


def test_readers_are_labelled_from_the_first_layer_on_and_marks_are_framed():
    scores = np.array([[0.01, 0.02], [0.03, 0.10]])
    ax = circuits.readers_of(scores, "4.11", 5, ["6.1"]).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["5", "6"]
    assert [text.get_text() for text in ax.texts] == ["1", "2", "3", "10"]
    (frame,) = ax.patches
    assert frame.get_x() == pytest.approx(0.53)
    assert frame.get_y() == pytest.approx(0.54)


def test_bars_show_every_part_and_the_rest_together():
    parts = pd.Series({f"part {n}": float(n) for n in range(1, 21)})
    ax = circuits.logit_parts(parts, "logit", most=5).axes[0]
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [20, 19, 18, 17, 16, sum(range(1, 16))]
    assert ax.get_yticklabels()[-1].get_text() == "15 others"
    # With nothing left out there is no such bar.
    assert len(circuits.logit_parts(parts[:5], "logit", most=5).axes[0].patches) == 5


def test_path_groups_show_groups_and_pairs_of_heads(rng):
    figure = circuits.path_groups({"direct": 1.0, "virtual": -0.5}, rng.normal(size=(3, 2)), "t")
    bars, image = figure.axes[:2]
    assert [bar.get_width() for bar in bars.patches] == [1.0, -0.5]
    assert image.images[0].get_array().shape == (3, 2)
    # All-zero values must not break the scales.
    circuits.path_groups({"direct": 0.0}, np.zeros((1, 1)), "t").canvas.draw()
