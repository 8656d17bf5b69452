"""What figures of runs, heads and models show, on numbers that are known by hand."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip("seaborn", reason="seaborn is absent: pip install .[book]")
import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgba
from test_chapter_majority import BOTH

from lnattn_book.figures import affinity, layernorm, majority, rotary, variance
from lnattn_book.studies.detokenization import AffinityResult
from lnattn_book.studies.distance_terms import RotaryStudy
from lnattn_book.studies.variance import FrequencyStudy

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


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


def test_histograms_count_every_token_and_bins_of_norms_are_even_in_their_logarithm():
    along, norms = np.linspace(0, 0.2, 500), np.geomspace(1, 8, 300)
    left, right = layernorm.parts_of_inputs(along, norms, d_model=16).axes
    assert sum(bar.get_height() for bar in left.patches) == 500
    assert sum(bar.get_height() for bar in right.patches) == 300
    edges = np.array([bar.get_x() for bar in right.patches])
    assert np.ptp(np.diff(np.log(edges))) == pytest.approx(0, abs=1e-10)
    assert left.get_lines()[0].get_xdata()[0] == pytest.approx(1 / 4)


def test_shares_are_stacked_in_the_colours_of_their_terms():
    share = np.array([[0.1, 0.4], [0.2, 0.3], [0.3, 0.2], [0.4, 0.1]])
    study = Mock(RotaryStudy, by_distance=Mock(share=share))
    ax = rotary.shares(study).axes[0]
    bottoms = [[bar.get_y() for bar in bars] for bars in ax.containers]
    assert bottoms == [pytest.approx(row) for row in np.cumsum([[0, 0], *share[:-1]], axis=0)]
    colours = [bars[0].get_facecolor() for bars in ax.containers]
    assert colours == [to_rgba(rotary.DISTANCE_COLOURS[name]) for name in rotary.DISTANCE_TERMS]


def test_medians_of_eighths_of_the_tokens():
    """Of counts 1 to 16 with values twice as large, each eighth holds two."""
    counts = np.arange(1, 17)
    known = {"counts": counts, "variance": 2.0 * counts, "variance_correlation": Mock(rho=1.0)}
    study = Mock(FrequencyStudy, **known)
    medians = variance.token_variance({"made": study}).axes[0].get_lines()[0]
    assert medians.get_xdata().tolist() == [1.5 + 2 * eighth for eighth in range(8)]
    assert medians.get_ydata().tolist() == [3 + 4 * eighth for eighth in range(8)]
