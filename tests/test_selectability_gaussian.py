"""The law of Gaussian keys against known cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import comb, ndtr

from lnattn.errors import ShapeError
from lnattn.selectability import gaussian


def test_angles_and_shares_are_those_of_known_cases():
    assert gaussian.inner_angle(1) == pytest.approx(1 / 2)
    assert gaussian.inner_angle(2) == pytest.approx(1 / 6)
    assert gaussian.inner_angle(3) == pytest.approx((3 * np.arccos(1 / 3) - np.pi) / (4 * np.pi))
    h = np.linspace(-9, 9, 20_001)
    for n in (5, 40, 1000):
        # By facets: the hyperplane through d points lies at a distance of variance 1/d.
        facets = {}
        for d in (2, 3):
            beyond = np.exp(-d * h * h / 2) * ndtr(h) ** (n - d)
            facets[d] = 2 * comb(n, d) * np.sqrt(d / (2 * np.pi)) * np.trapezoid(beyond, h)
        corners = [n * (1 - gaussian.expected_share(n, d)) for d in (1, 2, 3)]
        assert corners == pytest.approx([2, facets[2], facets[3] / 2 + 2], rel=1e-6)
    # Sylvester's problem: one of four points in the plane lies in the triangle of the others.
    assert 4 * gaussian.expected_share(4, 2) == pytest.approx(1 - 6 / np.pi * np.arcsin(1 / 3))
    assert gaussian.expected_share(9, 8) == 0


def test_few_of_very_many_keys_are_corners():
    corners = [n * (1 - gaussian.expected_share(n, 3)) for n in (10**3, 10**6, 10**9)]
    asymptotic = [2**3 / np.sqrt(3) * np.pi * np.log(n) / 2 for n in (10**3, 10**6, 10**9)]
    ratio = np.array(asymptotic) / corners
    assert 1.4 > ratio[0] > ratio[1] > ratio[2] > 1


def test_an_effective_dimension_inverts_the_law():
    for d in (3, 6, 11):
        share = np.array(gaussian.expected_share(300, d))
        assert gaussian.effective_dimension(share, 300) == pytest.approx(d)
    assert np.isnan(gaussian.effective_dimension(np.array([0.0]), 200)).all()


@pytest.mark.parametrize(("n", "d"), [(0, 2), (5, 0), (-3, 2)])
def test_no_keys_or_dimensions_are_refused(n, d):
    with pytest.raises(ShapeError):
        gaussian.expected_share(n, d)
