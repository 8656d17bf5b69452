"""Verdicts on keys against linear programs; their certificates against arithmetic."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from naming import naming
from scipy.spatial import ConvexHull

from lnattn import plain
from lnattn.errors import ResultError, ShapeError
from lnattn.selectability import corral, decide, kernel
from lnattn.selectability.decide import (
    DIRECTION,
    DUPLICATE,
    PROGRAM,
    WALK,
    AffineHull,
    Selectability,
    selectability,
)
from lnattn.selectability.verify import verify


def normal(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def layer_normed(x: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    x = x.astype(dtype)
    x = x - x.mean(axis=1, keepdims=True)
    return x / x.std(axis=1, keepdims=True)


SETS = {
    "normal": normal(60, 3),
    "normal, more": normal(150, 3),
    "normal, float32": normal(60, 4, 1).astype(np.float32),
    "fewer keys than dimensions": normal(5, 9),
    "as many as a simplex": normal(6, 5),
    "one dimension": normal(12, 1),
    "one key": normal(1, 4),
    "two keys": normal(2, 3),
    "a lattice, with keys on facets and edges": np.indices((3, 3, 3)).reshape(3, -1).T * 1.0,
    "on a line": np.outer(np.arange(7.0) - 2, [1.0, -2.0, 0.5]),
    "in a plane of R^5": normal(30, 2) @ normal(2, 5, 3),
    "far from the origin": normal(40, 3) + 1e4,
    "tiny": normal(40, 3) * 1e-30,
    "one direction far shorter": normal(40, 3) * [1.0, 1.0, 1e-4],
    "layer-normed": layer_normed(normal(50, 5)),
    "layer-normed in float32": layer_normed(normal(50, 5), np.float32),
    "only projected, in float32": (lambda x: x - x.mean(1, keepdims=True))(
        normal(80, 4).astype(np.float32)
    ),
    "duplicates": np.repeat(normal(20, 3), [1, 2] * 10, axis=0),
    "all equal": np.ones((4, 3)),
    "a corner that is only just one": np.array(
        [[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 1 + 1e-7], [0.5, 1 - 1e-7]]
    ),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("strict", [True, False])
def test_verdicts_are_those_of_linear_programs_and_come_with_proofs(name: str, strict: bool):
    keys = SETS[name]
    found = selectability(keys, strict=strict)
    expected, _ = plain.selectability(keys.astype(float), strict)
    np.testing.assert_array_equal(found.selectable, expected)
    checked = verify(keys, found)
    assert checked.ok, checked.failures
    assert checked.directions == found.selectable.sum()
    assert checked.combinations == (~found.selectable).sum()
    assert checked.directions + checked.combinations == len(keys)


@pytest.mark.parametrize("threads", [1, 2])
def test_verdicts_do_not_depend_on_order_threads_or_affine_maps(threads: int, monkeypatch):
    monkeypatch.setattr(decide, "thread_count", lambda jobs: threads)
    keys = normal(120, 4, 5)
    order = np.random.default_rng(0).permutation(len(keys))
    found = selectability(keys).selectable
    np.testing.assert_array_equal(selectability(keys[order]).selectable, found[order])
    moved = keys @ normal(4, 4, 6) + 3.0
    np.testing.assert_array_equal(selectability(moved).selectable, found)


@pytest.mark.parametrize("d", [2, 3, 8, 33])
def test_every_layer_normed_key_is_selectable_and_the_rank_is_one_less(d: int):
    keys = layer_normed(normal(150, d), np.float32)
    if d == 2:  # only two points are left of the line: ±(1, −1)
        keys = np.unique(keys.round(3), axis=0)
    found = selectability(keys)
    assert found.selectable.all()
    assert found.rank == d - 1
    assert found.noise < 1e-5


lattice = st.integers(1, 3).flatmap(
    lambda d: st.integers(1, 12).flatmap(
        lambda n: arrays(np.int64, (n, d), elements=st.integers(-3, 3))
    )
)


@settings(max_examples=60, deadline=None)
@given(lattice, st.booleans())
@example(np.zeros((1, 1), np.int64), True)
@example(np.zeros((3, 2), np.int64), False)
@example(np.array([[0], [1], [2]]), True)
def test_lattices_with_ties_are_decided_as_by_linear_programs_and_proved_exactly(keys, strict):
    found = selectability(keys, strict=strict)
    expected, _ = plain.selectability(keys.astype(float), strict)
    np.testing.assert_array_equal(found.selectable, expected)
    checked = verify(keys, found, exact=True)
    assert checked.ok, checked.failures


def test_no_query_selects_an_unselectable_key():
    """Theorem 1 by brute force: many queries, those that fit the key best among them."""
    keys = normal(60, 3, 2)
    found = selectability(keys)
    rng = np.random.default_rng(0)
    queries = np.concatenate([rng.normal(size=(20_000, 3)), keys, keys - keys.mean(0)])
    winners = np.unique((queries @ keys.T).argmax(axis=1))
    assert found.selectable[winners].all()
    assert set(winners) == set(np.flatnonzero(found.selectable))


def test_duplicates_are_a_documented_choice():
    square = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [1, 1], [0.5, 0.5]])
    found = selectability(square)
    assert found.selectable.tolist() == [True, True, True, False, False, False]
    assert found.method[3] == found.method[4] == DUPLICATE
    assert (found.support[3, 0], found.support[4, 0]) == (4, 3)
    loose = selectability(square, strict=False)
    assert loose.selectable.tolist() == [True, True, True, True, True, False]
    negative_zero = np.array([[0.0], [-0.0], [1.0]])
    assert selectability(negative_zero).selectable.tolist() == [False, False, True]


def test_margins_and_residuals_are_those_of_the_certificates():
    keys = normal(50, 3, 4)
    found = selectability(keys)
    for i in range(len(keys)):
        if found.selectable[i]:
            v = found.direction[i]
            assert np.linalg.norm(v) == pytest.approx(1)
            lead = keys[i] @ v - np.delete(keys @ v, i).max()
            assert found.margin[i] == pytest.approx(lead, rel=1e-9)
            assert math.isnan(found.residual[i])
        else:
            used = found.support[i] >= 0
            assert found.weights[i][used].sum() == pytest.approx(1)
            assert found.residual[i] < 1e-12
            assert math.isnan(found.margin[i])
            assert not found.direction[i].any()
    assert selectability(keys[:1]).margin[0] == math.inf


def gives_up(keys, todo, proofs, start, step):
    proofs.verdict[todo] = kernel.UNDECIDED


def nobody_wins(keys, queries, verdict, winner, start, step):
    winner[:] = -1


def test_what_the_walk_leaves_goes_to_linear_programs_and_says_so(monkeypatch):
    keys = normal(40, 3, 7)
    walked = selectability(keys)
    assert walked.by_linear_program == 0
    monkeypatch.setattr(kernel, "walk_all", gives_up)
    found = selectability(keys)
    assert found.by_linear_program > 10
    assert "linear program" in repr(found)
    np.testing.assert_array_equal(found.selectable, walked.selectable)
    assert ((found.method == PROGRAM) & ~found.selectable).any()
    assert ((found.method == PROGRAM) & found.selectable).any()
    assert verify(keys, found).ok


def test_a_key_that_wins_by_a_ten_millionth_is_selectable(monkeypatch):
    """Also where the walk gives up: layer-normed keys near one another, and one apart."""
    rng, left = np.random.default_rng(0), 0
    for spread in [1e-3, 3e-4, 1e-4] * 8:
        near = rng.normal(size=8) + spread * rng.normal(size=(20, 8))
        keys = layer_normed(np.concatenate([rng.normal(size=(1, 8)), near]))
        found = selectability(keys * rng.uniform(0.5, 2, 8))
        assert found.selectable.all()
        left += found.by_linear_program
    assert left > 4
    monkeypatch.setattr(kernel, "walk_all", gives_up)
    monkeypatch.setattr(kernel, "winners", nobody_wins)
    square = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0]])
    for lead, wins in ((1e-7, True), (1e-8, True), (1e-11, False), (-1e-7, False)):
        square[4, 1] = 1 + lead
        found = selectability(square)
        assert found.by_linear_program == 5
        assert found.selectable.tolist() == [True] * 4 + [wins]


BAD = {
    "not finite": (np.array([[0.0, 1], [np.nan, 0]]), "key 1"),
    "infinite": (np.array([[np.inf, 1], [0, 0]]), "key 0"),
    "empty": (np.zeros((0, 3)), "one key"),
    "no coordinates": (np.zeros((3, 0)), "one key"),
    "complex": (np.zeros((3, 2), complex), "real numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_keys_are_refused_in_a_sentence(name: str):
    keys, words = BAD[name]
    with pytest.raises(ShapeError, match=words):
        selectability(keys)


@pytest.mark.parametrize("tolerance", [-1e-9, 1, None, "1e-6", True, math.nan])
@pytest.mark.parametrize("name", ["rank_tolerance", "hull_tolerance"])
def test_a_tolerance_is_a_small_number(name: str, tolerance: object, shapes_unchecked):
    with pytest.raises(ShapeError, match=name):
        selectability(normal(4, 2), **{name: tolerance})


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16", "int64"])
def test_tensors_of_every_type_are_decided(dtype: str):
    """Parameters, and columns of a larger tensor, which are not contiguous, too."""
    tensor = torch.from_numpy(normal(60, 3) * 8).to(getattr(torch, dtype))
    expected, _ = plain.selectability(tensor.double().numpy())
    given = torch.nn.Parameter(tensor) if tensor.is_floating_point() else tensor
    wide = torch.cat([given, given], dim=1)[:, :3]
    for keys in (given, wide):
        found = selectability(keys)
        assert found.selectable.tolist() == expected.tolist()
        assert verify(keys, found).ok


@pytest.mark.parametrize("scale", [5e-320, 1e-310, 1e-200, 1e200, 2e307])
def test_verdicts_and_proofs_do_not_depend_on_the_scale(scale: float):
    """Also among denormal numbers, and where a difference or a square would overflow."""
    keys = normal(40, 3, 8)
    expected = selectability(keys).selectable
    found = selectability(keys * scale)
    assert found.selectable.tolist() == expected.tolist()
    checked = verify(keys * scale, found)
    assert checked.ok, checked.failures
    assert checked.smallest_margin == pytest.approx(
        verify(keys, selectability(keys)).smallest_margin * scale, rel=0.05, abs=0
    )


def test_one_huge_key_or_coordinate_is_warned_of():
    """What the others do would count as rounding; a smaller tolerance decides it as Qhull does."""
    keys = normal(200, 4, 9)
    keys[3] = 1e8
    with pytest.warns(UserWarning, match=naming("4 of 4 coordinates", "key 3", "1e")):
        assert selectability(keys).rank == 1
    found = selectability(keys, rank_tolerance=1e-12)
    assert found.rank == 4
    assert verify(keys, found).ok
    wide = normal(200, 4, 9) * [1.0, 1e7, 1.0, 1.0]
    with pytest.warns(UserWarning, match=naming("3 of 4 coordinates", "coordinate 1")):
        assert selectability(wide).rank == 1
    found = selectability(wide, rank_tolerance=1e-12)
    corners = ConvexHull(normal(200, 4, 9)).vertices  # the scale of a coordinate moves no corner
    assert np.flatnonzero(found.selectable).tolist() == sorted(corners)


def broken(found: Selectability, **changes: object) -> Selectability:
    return dataclasses.replace(found, **changes)


def test_verification_sees_every_kind_of_false_proof():
    keys = normal(40, 2, 3)
    found = selectability(keys)
    corner = int(np.flatnonzero(found.selectable)[0])
    inside = int(np.flatnonzero(~found.selectable)[0])

    def failures(exact: bool = False, **changes: object) -> tuple[str, ...]:
        return verify(keys, broken(found, **changes), exact=exact).failures

    assert not failures()
    turned = found.direction.copy()
    turned[corner] *= -1
    assert f"key {corner} does not win" in failures(direction=turned)[0]
    flags = found.selectable.copy()
    flags[inside] = True  # with no direction at all
    assert f"key {inside} does not win" in failures(selectable=flags)[0]
    flags = found.selectable.copy()
    flags[corner] = False
    assert "has no combination" in failures(selectable=flags)[0]

    stranger = int(np.setdiff1d(np.arange(40), [inside, *found.support[inside]])[0])
    for change, words in (
        (lambda s, w: s.__setitem__((inside, 0), inside), "from itself"),
        (lambda s, w: w.__setitem__((inside, 0), w[inside, 0] + 1e-6), "do not sum to 1"),
        (lambda s, w: w.__setitem__((inside, slice(0, 2)), (-0.5, 1.5)), "negative"),
        (lambda s, w: s.__setitem__((inside, 0), stranger), "from its combination"),
    ):
        support, weights = found.support.copy(), found.weights.copy()
        change(support, weights)
        [sentence] = failures(support=support, weights=weights)
        assert words in sentence
    support = found.support.copy()
    others = np.argsort(np.linalg.norm(keys - keys[inside], axis=1))[[-1, -2]]
    support[inside, :2], support[inside, 2:] = others, -1
    weights = _halves(found.weights, inside)
    assert "no exact combination" in failures(exact=True, support=support, weights=weights)[0]
    with pytest.raises(ResultError, match="compute"):
        verify(keys[1:], found)


def _halves(weights: np.ndarray, row: int) -> np.ndarray:
    changed = weights.copy()
    changed[row] = 0.0
    changed[row, :2] = 0.5
    return changed


def test_a_margin_below_rounding_is_settled_in_rational_numbers():
    """Far from the origin float64 cannot see the margin of 2⁻²⁰; fractions can."""
    keys = np.array([[0.0], [2.0**-20]]) + 2.0**30
    checked = verify(keys, selectability(keys))
    assert checked.ok
    assert checked.exact == 2
    assert checked.smallest_margin == 2.0**-20


def test_an_affine_combination_is_no_proof():
    """2 = −1 · 0 + 2 · 1: the sum of the weights is 1, and nothing is left over."""
    keys = np.arange(3.0)[:, None]
    found = selectability(keys)
    flags, support, weights = found.selectable.copy(), found.support.copy(), found.weights.copy()
    flags[2], support[2], weights[2] = False, -1, 0.0
    support[2, :2], weights[2, :2] = (0, 1), (-1.0, 2.0)
    said = verify(keys, broken(found, selectable=flags, support=support, weights=weights))
    assert said.failures == ("key 2 has weights that are negative or do not sum to 1.",)


@pytest.mark.parametrize("spread", [1e-5, 1e-3])
def test_a_thin_direction_above_rounding_counts_as_a_dimension(spread: float):
    """The inner key leaves the plane of a square by little; float32 would still see it."""
    keys = np.array([[1.0, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0], [0, 0, spread]])
    found = selectability(keys)
    assert found.rank == 3
    assert found.selectable.all()
    keys[4, 2] = 1e-8  # rounding of float32: the key lies within the square
    found = selectability(keys)
    assert found.rank == 2
    assert found.selectable.tolist() == [True] * 4 + [False]


def test_noise_is_the_longest_part_that_was_dropped():
    """By hand: a square in the plane z = 0, and one key 3e-8 and another 4e-8 beside it."""
    keys = np.array([[1.0, 1, 0, 0], [1, -1, 0, 0], [-1, 1, 3e-8, 0], [-1, -1, 0, 4e-8]])
    centred = keys[:, 2:] - keys[:, 2:].mean(axis=0)
    plane = np.column_stack(
        [keys[:, :2], np.ones(4)]
    )  # what a turned plane takes of it is no noise
    left_over = centred - plane @ np.linalg.lstsq(plane, centred, rcond=None)[0]
    found = selectability(keys)
    assert found.rank == 2
    assert found.noise == pytest.approx(np.linalg.norm(left_over, axis=1).max(), rel=1e-4, abs=0)


def test_a_rival_with_one_coordinate_in_common_is_a_rival():
    """Key 0 claims to win along y, where key 1, straight above it, scores more."""
    keys = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    found = selectability(keys, strict=False)
    assert found.selectable.tolist() == [False, True, True, True]
    false = broken(
        found,
        selectable=np.ones(4, dtype=bool),
        direction=np.vstack([[[0.0, 1.0]], found.direction[1:]]),
    )
    assert verify(keys, false).failures == ("key 0 does not win in its direction: margin -1.",)


def test_the_share_of_unselectable_keys_is_of_all_keys():
    """A square and its middle, and the middle of an edge: two of six keys are lost."""
    keys = np.array([[0, 0], [4, 0], [0, 4], [4, 4], [1, 2], [2, 0]], dtype=float)
    assert selectability(keys).unselectable == pytest.approx(2 / 6)


def test_a_hull_scores_points_as_keys_are_scored():
    """A direction there and back: differences of scores are the same; a far plane in R^3."""
    keys = normal(20, 2, 1) @ normal(2, 3, 5) * [1.0, 50.0, 0.02] + [7.0, -3.0, 1e3]
    hull = AffineHull.of(keys)
    assert hull.rank == 2
    assert hull.points.shape == (20, 2)
    np.testing.assert_allclose(hull.points.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(hull.points.T @ hull.points / 20, np.eye(2), atol=1e-9)
    v = np.array([0.3, -2.0])
    along_keys = (keys - keys[0]) @ (hull.back @ v)
    np.testing.assert_allclose(along_keys, (hull.points - hull.points[0]) @ v, atol=1e-8)
    w = hull.back @ np.array([1.5, 0.4])  # in the plane of the keys
    along_points = (hull.points - hull.points[0]) @ hull.direction_of(w)
    np.testing.assert_allclose(along_points, (keys - keys[0]) @ w, atol=1e-8)
    assert hull.noise < 1e-9
    assert not hull.vanished.any()


def test_coordinates_vanish_where_most_of_what_keys_do_is_dropped():
    """The second coordinate is a millionth of a millionth of the first; the third is constant."""
    keys = np.column_stack([normal(50, 1) * 1e12, normal(50, 1, 2), np.ones(50)])
    hull = AffineHull.of(keys)
    assert hull.rank == 1
    assert hull.vanished.tolist() == [False, True, False]
    assert AffineHull.of(keys, 1e-15).vanished.tolist() == [False, False, False]


def test_verdicts_say_whether_copies_count():
    keys = np.array([[0.0], [1.0], [1.0]])
    assert selectability(keys).strict
    loose = selectability(keys, strict=False)
    assert not loose.strict
    assert verify(keys, loose).ok
    assert not verify(keys, broken(loose, strict=True)).ok
    # Copies cannot prove each other inside where they count as one.
    assert verify(keys, selectability(keys)).ok
    assert "own copy" in verify(keys, broken(selectability(keys), strict=False)).failures[0]


def test_a_verification_counts_what_held_and_how_far_it_was_off():
    """Four corners of a square of half-width 1, and its centre, said to lie 0.01 aside."""
    keys = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]])
    found = selectability(keys)
    checked = verify(keys, found)
    assert (checked.directions, checked.combinations) == (4, 1)
    assert checked.largest_residual == pytest.approx(0, abs=1e-15)
    support, weights = np.full_like(found.support, -1), np.zeros_like(found.weights)
    support[4, :2] = (0, 3)
    weights[4, :2] = (0.505, 0.495)  # of (1, 1) and (−1, −1): (0.01, 0.01)
    said = verify(keys, broken(found, support=support, weights=weights))
    # Over the spread, the largest distance of a key from the mean, which is √2 as well.
    assert said.largest_residual == pytest.approx(0.01)
    assert (said.directions, said.combinations) == (4, 0)
    assert said.smallest_margin == pytest.approx(found.margin[:4].min())


@pytest.mark.parametrize(("noise", "holds"), [(7.0, False), (8.0, True)])
def test_a_residual_may_be_twice_the_noise_of_the_keys(noise, holds):
    """A square of half-width 1,024: its centre is said to lie (10.24, 10.24) aside, 14.5 in all."""
    keys = 1024 * np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]])
    found = selectability(keys)
    support, weights = np.full_like(found.support, -1), np.zeros_like(found.weights)
    support[4, :2] = (0, 3)
    weights[4, :2] = (0.505, 0.495)
    changed = broken(found, support=support, weights=weights, noise=noise)
    assert verify(keys, changed).ok == holds


def test_a_step_ends_where_the_first_weight_is_none():
    """Of weights that fall below 0, and not of those that rise or end as good as none."""

    def shrunk(weights, target):
        weights, m = np.array(weights), len(weights)
        members, points = np.arange(m), np.arange(2.0 * m).reshape(m, 2)
        size, moved = corral.shrink(points, members, np.eye(m), weights, np.array(target), m)
        return weights[:size].tolist(), members[:size].tolist(), moved

    # Half of the way the second weight is 0: 0.25 + 0.5 · (0.75 − 0.25) and so on.
    kept, members, moved = shrunk([0.25, 0.25, 0.5], [0.75, -0.25, 0.5])
    assert (kept, members, moved) == ([0.5, 0.5], [0, 2], 1)
    # A point that has just come in with no weight, and is to have none that counts.
    kept, members, moved = shrunk([0.5, 0.0], [1.0, 1e-14])
    assert (kept, members, moved) == ([1.0], [0], 1)


def test_a_keys_own_query_is_its_certificate_where_several_prove_it():
    queries = np.array([[1.0, 0], [0, 1], [1, 1], [2, 2]])
    verdict, direction = np.full(4, kernel.OUTSIDE + 1), np.zeros((4, 2))
    kernel.settle(np.array([1, 1, 1, -1]), queries, verdict, direction)
    assert direction.tolist() == [[0, 0], [0, 1], [0, 0], [0, 0]]
    assert (verdict == kernel.OUTSIDE).tolist() == [False, True, False, False]


def test_margins_and_methods_on_a_line_by_hand():
    """0, 3, 4 and 10: only ends win, by 3 and by 6, in the direction of their own end."""
    keys = np.array([[0.0], [3.0], [4.0], [10.0]])
    found = selectability(keys)
    assert found.selectable.tolist() == [True, False, False, True]
    np.testing.assert_allclose(found.direction[:, 0], [-1, 0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(found.margin, [3, np.nan, np.nan, 6], atol=1e-12)
    assert found.method.tolist() == [DIRECTION, WALK, WALK, DIRECTION]
    assert (found.rank, found.by_linear_program) == (1, 0)
    for i, share in ((1, 0.3), (2, 0.4)):  # of the far end
        weights = {
            int(j): w for j, w in zip(found.support[i], found.weights[i], strict=True) if j >= 0
        }
        assert weights == pytest.approx({0: 1 - share, 3: share})


def test_the_worst_of_all_proofs_is_told():
    """The same line, with key 1 said to lie at 3.2, and key 2 at 3.9; the mean is 4¼."""
    keys = np.array([[0.0], [3.0], [4.0], [10.0]])
    found = selectability(keys)
    exact = verify(keys, found, exact=True)
    assert (exact.directions, exact.combinations, exact.exact) == (2, 2, 4)
    assert exact.smallest_margin == pytest.approx(3)
    support, weights = np.full_like(found.support, -1), np.zeros_like(found.weights)
    support[1:3, :2] = (0, 3)
    weights[1, :2] = (0.68, 0.32)
    weights[2, :2] = (0.61, 0.39)
    said = verify(keys, broken(found, support=support, weights=weights))
    assert said.largest_residual == pytest.approx(0.2 / 5.75)
    assert (said.smallest_margin, said.exact) == (pytest.approx(3), 0)
    assert (said.directions, said.combinations, len(said.failures)) == (2, 0, 2)


def test_a_residual_is_in_the_units_of_the_keys():
    """A key 1 beyond the edge of a square of half-width 1,024 is inside for a tolerance of 1 %."""
    keys = np.array([[1024.0, 1024], [1024, -1024], [-1024, 1024], [-1024, -1024], [1025, 0]])
    assert selectability(keys).selectable.all()
    found = selectability(keys, hull_tolerance=0.01)
    assert found.selectable.tolist() == [True] * 4 + [False]
    used = found.support[4] >= 0
    combination = found.weights[4, used] @ keys[found.support[4, used]]
    assert found.residual[4] == pytest.approx(np.linalg.norm(combination - keys[4]), rel=1e-9)
    assert 1 <= found.residual[4] < 10
