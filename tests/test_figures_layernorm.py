"""The figures of chapter 02, and the curve of a training: nothing is written over anything else."""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lnattn.book.figures import layernorm, training
from lnattn.book.style import use_style


@pytest.fixture(autouse=True)
def _style():
    with plt.rc_context():
        use_style()
        yield
        plt.close("all")


@pytest.mark.parametrize("spread", [0.1, 0.35, 0.7])
def test_ticks_of_norms_do_not_lie_on_each_other(spread):
    draw = np.random.default_rng(0)
    figure = layernorm.parts_of_inputs(
        np.abs(draw.normal(size=999)), np.exp(draw.normal(1.3, spread, 999)), 256
    )
    figure.canvas.draw()
    axis = figure.axes[1].xaxis
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    boxes = [t.label1.get_window_extent() for t in ticks if t.label1.get_text()]
    inside = [box for box in boxes if figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1]
    assert not any(one.overlaps(two) for one, two in itertools.combinations(inside, 2))


def test_the_legend_of_a_training_hides_no_baseline():
    log = [{"step": 1.0 * n, "train_loss": 8 / n, "held_out_loss": 9 / n} for n in range(1, 9)]
    figure = training.training_curve(log, {"unigram": 7.0, "bigram": 5.0}, "nats")
    figure.canvas.draw()
    [ax] = figure.axes
    assert ax.get_legend() is None
    assert not figure.legends[0].get_window_extent().overlaps(ax.get_window_extent())
