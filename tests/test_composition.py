"""The composition study: tables by hand, freezing, and GPT-2's induction circuit in the weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from random_models import plain_layer, random_layer

from lnattn import composition, plain
from lnattn.composition import (
    CompositionStudy,
    exceedances,
    pair_table,
    study_composition,
)
from lnattn.errors import ResultError


@pytest.fixture(scope="module")
def layers():
    return [random_layer(i, 12, 2, 3) for i in range(4)]


@pytest.fixture(scope="module")
def study(layers):
    W_P = torch.randn(9, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return study_composition(layers, W_P, {"name": "random", "weights_sha256": "0" * 64})


def test_pair_table_has_every_pair_once_with_its_numbers(study):
    table = pair_table(study.raw, "K")
    assert len(table) == 64
    assert table["score"].is_monotonic_decreasing
    assert table.index.tolist() == list(range(64))
    row = table.set_index(["writer", "reader"]).loc[("1.0", "3.1")]
    score = study.raw.of("K")[1, 0, 3, 1].item()
    assert row["score"] == pytest.approx(score)
    assert row["excess"] == pytest.approx(score - 12**-0.5)
    assert row["possible"]
    impossible = table[~table["possible"]]["score"]
    assert row["impossible_share"] == pytest.approx((impossible >= score).mean())
    assert (table["possible"] == (table["writer"].str[0] < table["reader"].str[0])).all()
    # Each pair counts scores as high as its own: an impossible one counts itself.
    for pair in table.itertuples():
        assert pair.impossible_share == pytest.approx((impossible >= pair.score).mean())
    assert table[~table["possible"]]["impossible_share"].min() == pytest.approx(1 / len(impossible))


def test_pairs_are_compared_with_those_of_the_same_two_layers(study):
    """By hand; what differs between layers alone is not counted."""
    found, scores = exceedances(study.raw, share=0.25), study.raw.scores.numpy()
    assert found.shape == (3, 2, 6)
    usable, other = scores[1, 0, :, 2].flatten(), scores[1, 2, :, 0].flatten()
    least = np.sort(np.concatenate([usable, other]))[-2]
    np.testing.assert_array_equal(found[1, :, 1], [(usable >= least).sum(), (other >= least).sum()])
    drift = torch.arange(4.0)[:, None] + torch.arange(4.0)
    moved = replace(study.raw, scores=study.raw.scores + drift[:, None, :, None])
    np.testing.assert_array_equal(exceedances(moved, share=0.25), found)


def test_a_share_of_no_reference_is_no_number():
    """And of one reference, it is 1 at or below it and 0 above."""
    scores = torch.tensor([0.5, 1.0, 2.0, torch.nan])
    assert composition._share_at_least(scores, torch.tensor([torch.nan])).isnan().all()
    shares = composition._share_at_least(scores, torch.tensor([torch.nan, 1.0]))
    torch.testing.assert_close(shares, torch.tensor([1, 1, 0, torch.nan]), equal_nan=True)


def test_of_two_layers_the_highest_hundredth_is_counted_unless_another_share_is_given(study):
    """Two layers of 12 heads: of 288 scores, 3. The later layer has two of them."""
    scores = torch.rand(1, 2, 12, 2, 12, generator=torch.Generator().manual_seed(1)).double()
    scores[0, 0, 3, 1, 4] = scores[0, 0, 5, 1, 1] = 2.0
    scores[0, 1, 2, 0, 7] = 3.0
    spectra = torch.ones(1, 2, 12, 1, dtype=torch.float64)
    made = replace(study.raw, scores=scores, write_spectrum=spectra[0], read_spectrum=spectra)
    assert exceedances(made).tolist() == [[[2], [1]]]
    assert exceedances(made, share=1e-6).tolist() == [[[0], [1]]]  # one at least


def test_what_is_frozen_is_everything_under_its_own_name(study, tmp_path):
    """Raw and folded, written and read: no array stands in another's place."""
    assert study.write(tmp_path).name == "composition.json"
    again = CompositionStudy.read(tmp_path)
    assert (again.name, again.raw.d_model) == ("random", 12)
    assert again.record["weights_sha256"] == "0" * 64
    assert set(study.arrays()) == {
        "previous_token",
        *(f"{kind}_{what}" for kind in ("raw", "folded") for what in STORED),
    }
    for name in ("raw", "folded"):
        for what in STORED:
            written = getattr(getattr(study, name), what)
            assert torch.equal(getattr(getattr(again, name), what), written)
    different = [array.tobytes() for array in study.arrays().values()]
    # What heads write is not normalised: its spectra are the same folded and raw.
    assert len(set(different)) == len(different) - torch.equal(
        study.raw.write_spectrum, study.folded.write_spectrum
    )


@pytest.mark.parametrize("share", [0.0, 1.0, 1.5])
def test_a_share_of_none_or_all_pairs_is_refused(study, share):
    with pytest.raises(ResultError, match="share"):
        exceedances(study.raw, share=share)


STORED = ("scores", "write_spectrum", "read_spectrum")


def test_a_pair_has_the_numbers_of_its_weights(layers, study):
    """Head 1.0 writes what the keys of head 3.1 read: each column from d × d matrices."""
    C = plain.centring(12)
    table = {
        name: pair_table(getattr(study, name), "K").set_index(["writer", "reader"])
        for name in ("raw", "folded")
    }
    for name in ("raw", "folded"):
        scores = np.empty((4, 2, 4, 2))
        for a, b, c, d in np.ndindex(4, 2, 4, 2):
            one, two = plain_layer(layers[a]), plain_layer(layers[c])
            write, read = one.W_V[b] @ one.W_O[b], two.W_K[d] @ two.W_Q[d].T
            if name == "folded":
                to_read = C @ np.diag(two.gamma)
                write, read = C @ np.diag(one.gamma) @ write, to_read @ read @ to_read.T
            scores[a, b, c, d] = plain.composition(write, read)
            if (a, b, c, d) == (1, 0, 3, 1):
                z = _z_by_hand(write, read)
        row = table[name].loc[("1.0", "3.1")]
        assert row["score"] == pytest.approx(scores[1, 0, 3, 1], abs=1e-10)
        assert row["excess"] == pytest.approx(scores[1, 0, 3, 1] - 1 / np.sqrt(12), abs=1e-10)
        own = scores[1, :, 3, :]
        special = own[0, 1] - own[0].mean() - own[:, 1].mean() + own.mean()
        assert row["special"] == pytest.approx(special, abs=1e-10)
        assert row["z"] == pytest.approx(z, abs=1e-8)


def _z_by_hand(write: np.ndarray, read: np.ndarray) -> float:
    """Of the squared score over random rotations between the two: moments of Haar matrices.

    Σ p_k q_l R_kl², and E R² = 1/d, E R⁴ = 3/(d(d+2)), E R_kl² R_kn² = 1/(d(d+2)),
    E R_kl² R_mn² = (d + 1)/(d (d − 1)(d + 2)).
    """
    d = len(write)
    p, q = (np.linalg.svd(M, compute_uv=False) ** 2 for M in (write, read))
    p, q = p / p.sum(), q / q.sum()
    same_p, same_q = (p**2).sum(), (q**2).sum()
    square = (
        3 * same_p * same_q
        + same_p * (1 - same_q)
        + (1 - same_p) * same_q
        + (1 - same_p) * (1 - same_q) * (d + 1) / (d - 1)
    ) / (d * (d + 2))
    return (plain.composition(write, read) ** 2 - 1 / d) / np.sqrt(square - 1 / d**2)


def test_previous_tokens_are_those_of_the_layers_fed_with_positions(layers, study):
    """The mean attention on the key before, of queries 1 to 8, without any token."""
    W_P = torch.randn(9, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for index, layer in enumerate(layers):
        attention, _ = plain.attention(W_P.numpy(), plain_layer(layer))
        before = attention[:, np.arange(1, 9), np.arange(8)].mean(axis=1)
        np.testing.assert_allclose(study.previous_token[index], before, atol=1e-12)


def test_a_record_says_what_was_compared(study):
    sizes = {name: study.record[name] for name in ("layers", "heads", "d_model", "name")}
    assert sizes == {"layers": 4, "heads": 2, "d_model": 12, "name": "random"}
    assert study.record["seconds"] >= 0
    assert len({study, replace(study)}) == 2  # a study is itself: its arrays are not compared
