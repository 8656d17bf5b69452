"""The walk's linear algebra, row by row, against NumPy's on the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn.selectability import corral


class Corral:
    """Points as the kernel keeps them, in arrays of full size of which m rows are in use."""

    def __init__(self, rank: int) -> None:
        most = rank + 2
        self.points, self.members = np.zeros((most, rank)), np.arange(most)
        self.gram, self.factor = np.full((most, most), np.nan), np.full((most, most), np.nan)
        self.weights, self.solved, self.target = (np.zeros(most) for _ in range(3))
        self.m = 0

    def add(self, point: np.ndarray) -> bool:
        self.points[self.m], self.weights[self.m] = point, 0.0
        corral.append(self.points, self.gram, self.m)
        ready = corral.factor_row(self.gram, self.factor, self.solved, self.m)
        self.m += ready
        return bool(ready)

    def drop(self) -> int:
        kept, moved = corral.shrink(
            self.points, self.members, self.gram, self.weights, self.target, self.m
        )
        for row in range(moved, kept):
            assert corral.factor_row(self.gram, self.factor, self.solved, row)
        self.m = kept
        return moved

    def check(self) -> None:
        """Weights of the nearest point, by a dense solver, from the points alone."""
        x = self.points[: self.m]
        gram = x @ x.T + 1.0
        np.testing.assert_allclose(
            np.tril(self.gram[: self.m, : self.m]), np.tril(gram), rtol=1e-12, atol=1e-12
        )
        mu = np.linalg.solve(gram, np.ones(self.m))
        corral.affine_minimiser(self.factor, self.solved, self.m, self.target)
        np.testing.assert_allclose(self.target[: self.m], mu / mu.sum(), rtol=1e-6, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_points_come_and_go(rank, seed):
    rng = np.random.default_rng(seed)
    here = Corral(rank)
    for _ in range(20):
        full = here.m > rank
        if full or (here.m > 1 and rng.random() < 0.4):
            # A target outside the simplex: somewhere on the way to it, one weight or more is 0.
            here.weights[: here.m] = rng.dirichlet(np.ones(here.m))
            here.target[: here.m] = here.weights[: here.m]
            gone = rng.choice(here.m, size=1 if here.m < 3 else 2, replace=False)
            here.weights[gone] = here.weights[gone[0]]
            here.target[gone] = -0.5
            points, size = here.points[: here.m].copy(), here.m
            moved = here.drop()
            assert moved == min(gone)
            assert here.m == size - len(gone)
            np.testing.assert_array_equal(here.points[: here.m], np.delete(points, gone, axis=0))
            np.testing.assert_array_equal(here.points[:moved], points[:moved])
        else:
            assert here.add(rng.normal(size=rank))
        here.check()


def test_a_point_in_the_plane_of_the_others_is_refused():
    here = Corral(2)
    assert all(here.add(np.array(point)) for point in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)))
    assert not here.add(np.array((0.25, 0.5)))
    assert here.m == 3


def test_the_nearest_point_of_a_segment():
    here = Corral(2)
    here.add(np.array((1.0, 1.0)))
    here.add(np.array((1.0, -3.0)))
    here.check()
    assert here.target[:2] @ here.points[:2] == pytest.approx([1.0, 0.0])
