"""What q₀ and k₀ account for, against every pair and distance one by one; constants turned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_distance import VOCAB, random_relative

from lnattn import distance_terms, fold_relative
from lnattn.errors import ShapeError
from lnattn.rotary.fold import mean_vectors
from lnattn.rotary.terms import DistanceTerms
from lnattn.rotary.weights import Rotation
from lnattn_book.studies.constants import coordinate_energies, nearly_a_sum
from lnattn_book.studies.wanted import back_directions, turned_constants, wants_the_token_before

DISTANCES = (0, 1, 2, 5, 11)


def tables(positions, dtype):
    angle = positions[:, None] * torch.tensor([0.9, 0.2, 0.01], dtype=torch.float64)
    return angle.cos().repeat(1, 2).to(dtype), angle.sin().repeat(1, 2).to(dtype)


def interleaved(positions, dtype):
    cos, sin = (table[:, :3] for table in tables(positions, dtype))
    return cos.repeat_interleave(2, dim=1), sin.repeat_interleave(2, dim=1)


def some_bias(distance):
    return torch.stack([-0.3 * (h + 1) * distance.double() for h in range(4)])


ROTATIONS = pytest.mark.parametrize(
    "rotation", [Rotation(tables), Rotation(interleaved, interleaved=True)], ids=["half", "pairs"]
)


def a_model(**more):
    layer, embeddings = random_relative(8, **more)
    counts = np.random.default_rng(2).integers(0, 9, VOCAB)
    return fold_relative(layer), embeddings, counts


@ROTATIONS
@pytest.mark.parametrize("bias", [None, some_bias], ids=["no bias", "bias"])
def test_scores_split_as_a_two_way_analysis_of_variance_does(rotation, bias) -> None:
    folded, embeddings, counts = a_model(rotation=rotation, bias=bias)
    found = nearly_a_sum(folded, embeddings, counts, DISTANCES)
    means = mean_vectors(folded, embeddings, torch.from_numpy(counts))
    share = counts / counts.sum()
    scores = np.empty((4, VOCAB, VOCAB, len(DISTANCES)))  # head, query, key, distance
    moved = {name: np.empty_like(scores) for name in ("ee", "e")}
    rows = embeddings.rows(torch.arange(VOCAB))
    for place, distance in enumerate(DISTANCES):
        at = distance_of_all(folded, rows, means, distance)
        scores[..., place] = at.scores()[:, VOCAB:, :VOCAB]
        for name, kept in moved.items():
            kept[..., place] = at[name][:, VOCAB:, :VOCAB]

    def over_keys(x):
        return np.tensordot(x, share, axes=(2, 0))  # [head query distance]

    by_distance = over_keys(scores)
    by_key = scores.mean(axis=3)
    whole = over_keys(scores).mean(axis=2)
    fitted = by_distance[:, :, None] + by_key[..., None] - whole[:, :, None, None]

    def variance(x):
        return over_keys(np.square(x)).mean(axis=2) @ share

    np.testing.assert_allclose(found.distance, by_distance.var(axis=2) @ share, rtol=1e-8)
    centred = by_key - whole[:, :, None]
    np.testing.assert_allclose(found.pair, np.square(centred) @ share @ share, rtol=1e-8)
    left = variance(scores - fitted)
    np.testing.assert_allclose(found.ee + found.e, left, rtol=1e-8)
    for name, kept in moved.items():
        alone = variance(kept - kept.mean(axis=3, keepdims=True))
        np.testing.assert_allclose(getattr(found, name), alone, rtol=1e-8)
    for head in range(4):
        weights = (share[:, None, None] * share[:, None] * np.ones(len(DISTANCES))).ravel()
        within = scores[head] - whole[head][:, None, None]
        fit = fitted[head] - whole[head][:, None, None]
        table = np.cov(within.ravel(), fit.ravel(), aweights=weights, ddof=0)
        r = table[0, 1] / np.sqrt(table[0, 0] * table[1, 1])
        assert found.correlation[head] == pytest.approx(r, rel=1e-6)


def distance_of_all(folded, rows, means, distance: int) -> DistanceTerms:
    """The terms of all tokens as keys at 0, then all as queries at a distance."""
    places = torch.tensor([0] * len(rows) + [distance] * len(rows))
    both = torch.cat([rows, rows])
    return DistanceTerms(folded, folded.queries(both), folded.keys(both), means, places)


def test_distances_that_are_none_are_refused() -> None:
    folded, embeddings, counts = a_model()
    for wrong in ([3], [-1, 2]):
        with pytest.raises(ShapeError, match="two distances"):
            nearly_a_sum(folded, embeddings, counts, wrong)


def test_energies_are_mean_squares_of_coordinates() -> None:
    folded, embeddings, counts = a_model()
    queries, keys = coordinate_energies(folded, embeddings, counts)
    rows = embeddings.rows(torch.arange(VOCAB))
    share = counts / counts.sum()
    for found, vectors in ((queries, folded.queries(rows)), (keys, folded.keys(rows))):
        vectors = vectors.numpy()
        whole = np.einsum("hnd,n->hd", vectors**2, share)
        constant = np.einsum("hnd,n->hd", vectors, share) ** 2
        np.testing.assert_allclose(found.whole, whole, rtol=1e-9)
        np.testing.assert_allclose(found.constant, constant, rtol=1e-9)
        for head in range(len(whole)):
            top = int(np.argmax(whole[head]))
            rest = [d for d in range(whole.shape[1]) if d != top]
            sizes = np.sqrt(whole[head])
            assert found.times_the_mean[head] == pytest.approx(sizes[top] / sizes.mean())
            largest = constant[head, top] / whole[head, top]
            assert found.of_the_largest[head] == pytest.approx(largest)
            others = constant[head, rest].sum() / whole[head, rest].sum()
            assert found.of_the_rest[head] == pytest.approx(others)


@ROTATIONS
def test_wanting_the_token_before_is_the_term_ed_over_the_distances(rotation) -> None:
    folded, embeddings, _ = a_model(rotation=rotation)
    means = mean_vectors(folded, embeddings)
    found = wants_the_token_before(folded, embeddings, [4, 9], means, far=6)
    for place, token in enumerate((4, 9)):
        terms = distance_terms(folded, embeddings, [*range(6), token], constants=means)
        ed = terms.ed[:, 6, :6].flip(1) / folded.scale  # distances 1 … 6
        expected = ed[:, 0] - ed[:, 1:].mean(dim=1)
        torch.testing.assert_close(found[:, place], expected, atol=1e-9, rtol=1e-9)
    usual = wants_the_token_before(folded, embeddings, [4, 9], means)
    torch.testing.assert_close(
        usual, wants_the_token_before(folded, embeddings, [4, 9], means, far=32)
    )
    with pytest.raises(ShapeError, match="far"):
        back_directions(folded, means, far=1)


@ROTATIONS
def test_turned_constants_keep_their_length_in_every_plane(rotation) -> None:
    folded, embeddings, _ = a_model(rotation=rotation)
    means = mean_vectors(folded, embeddings)
    turned = turned_constants(folded, means, seed=1)
    assert turned.q0 is means.q0

    def lengths(k0):
        paired = k0.view(2, 3, 2) if rotation.interleaved else k0.view(2, 2, 3).mT
        return paired.square().sum(dim=2)

    torch.testing.assert_close(lengths(turned.k0), lengths(means.k0))
    assert (turned.k0 - means.k0).abs().max() > 0.1
    assert not torch.equal(turned.k0, turned_constants(folded, means, seed=2).k0)
    with pytest.raises(ShapeError, match="rotated"):
        turned_constants(a_model(rotation=None)[0], means, seed=1)
