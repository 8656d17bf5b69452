"""Position terms against the six terms and loops; their statistics on curves that are known."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2, random_layer

from lnattn import FirstLayer, fold, six_terms
from lnattn.errors import CorpusError, LnattnError, ShapeError
from lnattn.position.bias import PositionBias, position_bias, share_of_context
from lnattn.position.curves import (
    NEAR,
    LastRows,
    Nearness,
    dominant_wave,
    last_rows,
    near_keys,
    nearness,
    position_table,
    rising_steps,
    straight_after,
    trend,
    wave_recurrence,
)
from lnattn.position.measured import (
    MeasuredAttention,
    compare_with_position_only,
    measured_attention,
    near_share,
    windows,
)
from lnattn.position.sigma import inverse_sigma_bands
from lnattn.position.without_tokens import (
    PositionOnly,
    position_only,
)


@pytest.fixture(scope="module")
def model():
    return random_gpt2(seed=3, d_model=24, heads=3, vocab=11, context=16)


@pytest.fixture(scope="module")
def folded(model):
    return fold(attention_layer(model))


@pytest.fixture(scope="module")
def embeddings(model):
    return embeddings_of(model)


@pytest.fixture(scope="module")
def bias(folded, embeddings):
    sigma = inverse_sigma_bands(embeddings, folded.eps)
    return position_bias(folded, embeddings.W_P, [0, 5, 15], sigma)


def test_terms_are_means_over_all_pairs_of_tokens_of_the_six_terms(bias, folded, embeddings):
    """T^p, T^pp at i = 5 for every token of key and query, by way of `six_terms`."""
    i, vocab = 5, embeddings.vocab_size
    p = np.empty((vocab, 3, i))
    pp = np.empty((vocab, vocab, 3, i))
    for key in range(vocab):
        for query in range(vocab):
            terms = six_terms(folded, embeddings, [key] * i + [query])
            pp[query, key] = terms.pp[:, i, :i]
        p[key] = terms.p[:, i, :i]
    np.testing.assert_allclose(bias.term_p().mean[:, :i], p.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(bias.term_p().lower[:, :i], np.quantile(p, 0.025, axis=0))
    np.testing.assert_allclose(bias.term_p().upper[:, :i], np.quantile(p, 0.975, axis=0))
    np.testing.assert_allclose(bias.term_pp().mean[:, 1, :i], pp.mean(axis=(0, 1)), atol=1e-10)
    # The band: over the key's token, with the query's divisor at its mean.
    over_keys = pp.mean(axis=0)
    np.testing.assert_allclose(
        bias.term_pp().lower[:, 1, :i], np.quantile(over_keys, 0.025, axis=0)
    )
    total = (p + over_keys)[:, :, :]
    np.testing.assert_allclose(bias.total().mean[:, 1, :i], total.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(bias.total().upper[:, 1, :i], np.quantile(total, 0.975, axis=0))


def test_attention_is_the_softmax_over_visible_keys(bias, folded):
    alpha, total = bias.attention(), bias.total().mean
    for row, i in enumerate(bias.queries):
        for head in range(3):
            weights = [math.exp(total[head, row, j] / folded.scale) for j in range(i + 1)]
            expected = np.array(weights) / sum(weights)
            np.testing.assert_allclose(alpha[head, row, : i + 1], expected, rtol=1e-10)
            assert not alpha[head, row, i + 1 :].any()


@pytest.mark.parametrize("queries", [[0, 5, 15], list(range(16))], ids=["few", "all"])
def test_without_sigma_the_terms_are_bare_products(queries, folded, embeddings):
    bare = position_bias(folded, embeddings.W_P, queries)
    dense = torch.stack([folded.dense_W_QK(head) for head in range(3)])
    expected = embeddings.W_P[queries] @ dense @ embeddings.W_P.T
    np.testing.assert_allclose(bare.term_pp().mean, expected, atol=1e-10)
    np.testing.assert_allclose(bare.term_p().mean, folded.b_QK @ embeddings.W_P.T, atol=1e-10)
    assert bare.term_p().lower is None
    assert bare.inverse_sigma is None


def test_bidirectional_model_sees_all_keys():
    folded = fold(random_layer(1, 8, 2, 4, causal=False))
    W_P = torch.randn(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    alpha = position_bias(folded, W_P, [2]).attention()
    assert (alpha > 0).all()
    np.testing.assert_allclose(alpha.sum(axis=-1), 1)
    assert (
        near_keys(2, 6, causal=False, window=2)[0].tolist()
        == [False, True, True, True] + [False] * 2
    )


def test_nearness_against_a_loop(folded, embeddings):
    sigma = inverse_sigma_bands(embeddings, folded.eps)
    found = nearness(folded, embeddings.W_P, sigma, window=4, block=5)
    for i in (0, 3, 4, 15):
        bias = position_bias(folded, embeddings.W_P, [i], sigma)
        for head in range(3):
            alpha = bias.attention()[head, 0]
            score = bias.term_pp().mean[head, 0]
            near = [j for j in range(i + 1) if i - j < 4]
            far = [j for j in range(i + 1) if i - j >= 4]
            assert found.share[head, i] == pytest.approx(sum(alpha[j] for j in near))
            assert found.peak[head, i] == i - max(range(min(i, 1), i + 1), key=lambda j: score[j])
            level = sum(score[j] for j in near) / len(near)
            if far:
                below = sum(score[j] < level for j in far) / len(far)
                assert found.percentile[head, i] == pytest.approx(below)
            else:
                assert np.isnan(found.percentile[head, i])
            assert found.uniform[i] == pytest.approx(len(near) / (i + 1))


def test_a_long_first_position_is_no_crest(folded, embeddings):
    """Position 0 made a hundred times longer wins every row, and says nothing about the wave."""
    longer = embeddings.W_P.clone()
    longer[0] *= 100
    scores = position_bias(folded, longer, range(1, 16)).comparison
    assert (scores.argmax(axis=-1) == 0).mean() > 0.3
    np.testing.assert_array_equal(
        nearness(folded, longer).peak[:, 1:], nearness(folded, embeddings.W_P).peak[:, 1:]
    )


def test_trend_of_known_curves():
    rising = np.arange(20.0)
    rising[[0, -1]] = 100, -100  # the ends are set apart
    assert trend(rising) == trend(np.exp(0 * rising) + rising)
    assert trend(rising).spearman == pytest.approx(1)
    assert trend(rising).rising == 1
    assert trend(rising).straight == pytest.approx(1)
    assert trend(-rising).spearman == pytest.approx(-1)
    rising[1] = 100  # and no other place is
    assert trend(rising).spearman < 0.9
    assert trend(np.arange(20.0) ** 3).straight < 0.95


def test_rising_steps_and_a_straight_rest_by_hand() -> None:
    """A fall of ten steps and a line of ninety: no step rises to 10, eight in nine to 90."""
    place = np.arange(101)
    bent = np.where(place <= 11, -3.0 * place, place - 44.0)
    curves = np.stack([bent, -bent, np.zeros(101)])[:, None]
    np.testing.assert_allclose(rising_steps(curves, 11)[:, 0], [0, 1, np.nan])
    np.testing.assert_allclose(rising_steps(curves, 91)[:, 0], [80 / 90, 10 / 90, np.nan])
    assert rising_steps(np.array([5.0, 0.0, 1.0, 9.0]), 2) == 1  # place 0 is set apart
    np.testing.assert_allclose(straight_after(curves, 11)[:, 0], [1, 1, np.nan])
    whole = straight_after(curves, 1)[0, 0]
    assert whole == pytest.approx(np.corrcoef(place[1:-1], bent[1:-1])[0, 1] ** 2)
    assert np.isnan(rising_steps(curves, 1)).all()
    for until in (0, 101):
        with pytest.raises(LnattnError):
            rising_steps(curves, until)


@pytest.mark.parametrize("wavelength", [7.0, 33.3, 120.0, 400.0])
def test_wave_on_a_slope_is_found(wavelength):
    place = np.arange(600)
    curve = 0.05 * place + 3 * np.sin(2 * np.pi * place / wavelength + 0.4)
    found = dominant_wave(curve)
    assert found.wavelength == pytest.approx(wavelength, rel=1e-3)
    assert found.share > 0.999
    assert found.cycles == pytest.approx(598 / found.wavelength)


def test_last_rows_show_an_untrained_position(folded, embeddings):
    assert last_rows(folded, embeddings.W_P, 5).ratio.min() > 0.1
    untrained = embeddings.W_P.clone()
    untrained[-1] *= 1e-3
    found = last_rows(folded, untrained, 5)
    assert found.queries == (11, 12, 13, 14, 15)
    spread = [np.std(found.curves[1, row]) for row in range(5)]
    expected = spread[4] / np.median(spread[:4])
    assert found.ratio[1] == pytest.approx(expected)
    assert found.ratio.max() < 0.01


def test_measured_attention_is_that_of_hugging_face(model, folded, embeddings):
    ids = np.random.default_rng(1).integers(0, 11, size=(6, 14))
    measured = measured_attention(folded, embeddings, ids, [4, 13])
    with torch.no_grad():
        out = model(torch.from_numpy(ids), output_attentions=True)
    rows = out.attentions[0][:, :, [4, 13], :].numpy()
    np.testing.assert_allclose(measured.mean, rows.mean(axis=0), atol=1e-10)
    error = rows.std(axis=0, ddof=1) / math.sqrt(6)
    np.testing.assert_allclose(measured.error, error, atol=1e-10)
    near = rows.mean(axis=0)[:, 1, 4:14].sum(axis=-1)
    np.testing.assert_allclose(measured.near_share()[:, 1], near)
    np.testing.assert_allclose(near_share(measured.mean, [4, 13], True)[:, 1], near)
    assert measured.windows == 6


def test_local_attention_is_measured_but_has_no_position_study(embeddings):
    layer = dataclasses.replace(random_layer(2, 24, 3, 8), window=4)
    folded = fold(layer)
    ids = np.random.default_rng(4).integers(0, 11, size=(2, 9))
    rows = [
        folded.attention(embeddings.W_E[row] + embeddings.W_P[:9])[:, [1, 8]]
        for row in torch.from_numpy(ids)
    ]
    found = measured_attention(folded, embeddings, ids, [1, 8]).mean
    np.testing.assert_allclose(found, torch.stack(rows).mean(0), atol=1e-10)


def test_skill_of_single_texts(folded, embeddings):
    """By hand for each text; the skill of the mean over texts is another number."""
    ids = np.random.default_rng(3).integers(0, 11, size=(5, 10))
    bias = position_bias(folded, embeddings.W_P, [4, 9])
    found = measured_attention(folded, embeddings, ids, [4, 9], bias)
    expected = []
    for one in ids:
        table = compare_with_position_only(
            measured_attention(folded, embeddings, one[None], [4, 9]), bias
        )
        expected.append(table["skill"].to_numpy())
    np.testing.assert_allclose(found.text_skill[:, :, 1], expected, atol=1e-10)
    table = compare_with_position_only(found, bias)
    np.testing.assert_allclose(table["skill, one text"], np.mean(expected, axis=0), atol=1e-10)
    assert np.abs(table["skill, one text"] - table["skill"]).max() > 1e-3


def test_errors_are_over_texts_each_with_all_of_its_windows(folded, embeddings):
    """By resampling texts, here all 3³ ways to draw three: exact but for the factor 3/2."""
    ids = np.random.default_rng(8).integers(0, 11, size=(6, 10))
    texts = np.array([7, 0, 7, 3, 0, 3])
    bias = position_bias(folded, embeddings.W_P, [4, 9])
    found = measured_attention(folded, embeddings, ids, [4, 9], bias, texts)
    assert found.texts is texts
    alone = measured_attention(folded, embeddings, ids, [4, 9], bias)
    np.testing.assert_allclose(found.mean, alone.mean, atol=1e-14)
    np.testing.assert_array_equal(found.text_skill, alone.text_skill)

    def by_drawing(windows):
        means = [windows[texts == text].mean(axis=0) for text in (7, 0, 3)]
        drawn = [np.mean(draw, axis=0) for draw in itertools.product(means, repeat=3)]
        return np.std(drawn, axis=0) * np.sqrt(3 / 2)

    of_windows = [measured_attention(folded, embeddings, one[None], [4, 9]).mean for one in ids]
    np.testing.assert_allclose(found.error, by_drawing(np.array(of_windows)), atol=1e-12)
    table = compare_with_position_only(found, bias)
    skills = by_drawing(found.text_skill[:, :, 1])
    np.testing.assert_allclose(table["skill, error"], skills, atol=1e-12)
    assert np.abs(found.error - alone.error).max() > 1e-3
    with pytest.raises(ShapeError, match="names 5 windows, and there are 6"):
        measured_attention(folded, embeddings, ids, [4], texts=texts[:5])


def test_errors_over_texts_of_unlike_size_by_hand(folded, embeddings):
    """Of two texts, one with three windows: their sums about the mean are equal and opposite."""
    ids = np.random.default_rng(9).integers(0, 11, size=(4, 10))
    texts = np.array([1, 1, 0, 1])
    found = measured_attention(folded, embeddings, ids, [9], texts=texts)
    other = measured_attention(folded, embeddings, ids[2:3], [9]).mean
    np.testing.assert_allclose(found.error, 2 * np.abs(other - found.mean) / 4, atol=1e-12)
    one = measured_attention(folded, embeddings, ids, [9], texts=np.zeros(4, int))
    assert np.isnan(one.error).all()


def test_windows_do_not_overlap_and_begin_as_asked():
    documents = [[1, 2, 3, 4, 5], [6], [7, 8]]
    assert windows(documents, 2).tolist() == [[1, 2], [3, 4], [7, 8]]
    assert windows(documents, 3, first=0).tolist() == [[0, 1, 2], [0, 3, 4], [0, 7, 8]]
    with pytest.raises(CorpusError, match="9 tokens"):
        windows(documents, 9)


def test_position_only_is_frozen_and_read_unchanged(model, tmp_path):
    layer = FirstLayer(
        embeddings_of(model), attention_layer(model), provenance={"name": "random", "tensors": []}
    )
    made = position_only(layer)
    made.write(tmp_path)
    read = PositionOnly.read(tmp_path)
    for name in ("variance", "peak", "assumed", "spearman", "near", "echo"):
        np.testing.assert_array_equal(getattr(read, name), getattr(made, name))
    np.testing.assert_allclose(read.bias.comparison, made.bias.comparison, rtol=1e-6)
    np.testing.assert_allclose(read.last.ratio, made.last.ratio, rtol=1e-5)
    assert read.record["model"] == "random"
    table = read.table()
    for head in range(3):
        wave = dominant_wave(read.bias.comparison[head, -1])
        shape = (wave.wavelength, wave.cycles, wave.share)
        columns = ["T^pp wavelength", "T^pp cycles", "T^pp wave share"]
        assert table.loc[head, columns].tolist() == pytest.approx(list(shape))
        straight = trend(read.bias.self_assertion[head])
        columns = ["T^p Spearman", "T^p rising steps", "T^p straight line R²"]
        assert table.loc[head, columns].tolist() == pytest.approx(list(straight))
        of_cases = made.spearman[:, head]
        assert table.loc[head, "lowest, any assumed σ"] == of_cases.min()
        assert table.loc[head, "highest, any assumed σ"] == of_cases.max()
        half = slice(8, 15)  # the second half of 16 positions, without the last
        assert table.loc[head, "distance to highest T^pp"] == np.median(made.peak[head, half])
    assert made.assumed[2] == pytest.approx(np.median(layer.embeddings.W_P.var(1, correction=0)))
    # One assumed case, by hand.
    sigma = (layer.embeddings.W_P.var(dim=1, correction=0) + made.assumed[3] + 1e-5).sqrt()
    folded = fold(layer.attention)
    curve = (folded.b_QK @ layer.embeddings.W_P.T / sigma).numpy()[2]
    assert made.spearman[3, 2] == pytest.approx(trend(curve).spearman)
    inputs = layer.embeddings.W_P / sigma[:, None]
    query, last = 1, made.bias.queries[1]
    to_query = inputs[last] @ folded.W_Q[2]
    scores = inputs[: last + 1] @ (folded.W_K[2] @ to_query + folded.b_QK[2])
    alpha = (scores / folded.scale).softmax(dim=0)
    assert made.near[3, 2, query] == pytest.approx(float(alpha[-NEAR:].sum()), abs=1e-6)
    # The echo of the same case: the loudest key about a wavelength away over the loudest near one.
    products = (inputs[last] @ folded.W_Q[2] @ (inputs[: last + 1] @ folded.W_K[2]).T).numpy()
    far = np.abs(last - np.arange(last + 1) - dominant_wave(products).wavelength)
    echoing = (far <= dominant_wave(products).wavelength / 4) & (np.arange(last + 1) <= last - NEAR)
    loudest = float(alpha[torch.from_numpy(echoing)].max()) if echoing.any() else 0.0
    assert made.echo[3, 2, query] == pytest.approx(loudest / float(alpha[-NEAR:].max()), abs=1e-9)
    middle = np.median(layer.embeddings.W_P.double().var(dim=1, correction=0).numpy())
    np.testing.assert_allclose(made.assumed, np.array([0, 0.25, 1, 4, 16]) * middle, rtol=1e-12)


def waving(wavelength: float, slope: float, n: int = 200) -> PositionBias:
    """One head whose T^pp is a wave with a crest at every query, on a rising T^p; no σ."""
    places, queries = np.arange(n), (n - 10,)
    compared = 20 * np.cos(2 * np.pi * (queries[0] - places) / wavelength)
    return PositionBias(queries, slope * places[None], compared[None, None], None, 1.0, True)


def test_an_echo_is_as_loud_as_the_slope_lets_it_be():
    loud, quiet = waving(60, 0.0), waving(60, 1.0)
    assert wave_recurrence(loud)[0, 0] == pytest.approx(1, abs=1e-3)
    # The slope moves the crest from 60 to 55 keys away: e^(−55 + 20 cos 30°) over e^20.
    crest = np.exp(-55 + 20 * np.sqrt(3) / 2 - 20)
    assert wave_recurrence(quiet)[0, 0] == pytest.approx(crest, rel=1e-6, abs=0)
    # On a steep slope the nearest key of the window is the loudest: a quarter wave from the crest.
    steep = np.log(wave_recurrence(waving(60, 3.0))[0, 0])
    key_45 = -3 * 45 + 20 * np.cos(1.5 * np.pi) - 20
    key_46 = -3 * 46 + 20 * np.cos(46 / 30 * np.pi) - 20
    assert key_46 - 1e-6 <= steep <= key_45 + 1e-6
    assert wave_recurrence(quiet)[0, 0] < wave_recurrence(waving(60, 0.01))[0, 0] < 1


def test_skill_is_against_even_attention():
    """A prediction that is right has skill 1, even attention 0, a wrong one less; by hand."""
    bias = PositionBias((3,), np.zeros((3, 6)), np.zeros((3, 1, 6)), None, 1.0, True)
    sharp = np.array([0.0, 0.0, 0.0, 40.0, 0.0, 0.0])
    bias = replace(bias, self_assertion=np.stack([sharp, 0 * sharp, sharp[::-1]]))
    mean = np.zeros((3, 1, 5))
    mean[:, 0, 3] = 1.0
    measured = MeasuredAttention((3,), mean, np.zeros_like(mean), 1, True)
    table = compare_with_position_only(measured, bias)
    np.testing.assert_allclose(table["even"], 0.75)
    np.testing.assert_allclose(table["total variation"], [0, 0.75, 1], atol=1e-10)
    np.testing.assert_allclose(table["skill"], [1, 0, 1 - 4 / 3], atol=1e-10)
    np.testing.assert_allclose(table["itself, measured"], 1)
    np.testing.assert_allclose(table["itself, by position"], [1, 0.25, 0], atol=1e-10)
    other = replace(measured, queries=(2,))
    with pytest.raises(ShapeError, match="queries"):
        compare_with_position_only(other, bias)


def test_medians_of_nearness_are_each_of_their_own_kind():
    """Eight queries: of 4, 5 and 6, without the last; a distance is no percentile."""
    peak = np.array([[9, 9, 9, 9, 3, 1, 2, 90], [0, 0, 0, 0, 8, 6, 7, 0]])
    percentile = np.array([[1, 1, 1, 1, 0.2, 0.4, 0.3, 1], [0, 0, 0, 0, 0.5, 0.9, 0.6, 0]])
    near = Nearness(share=percentile, uniform=percentile[0], peak=peak, percentile=percentile)
    distances, percentiles = near.second_half_medians()
    assert distances.tolist() == [2, 7]
    assert percentiles.tolist() == [0.3, 0.6]


def test_the_last_rows_are_those_of_the_last_positions_and_undivided(folded, embeddings):
    found = last_rows(folded, embeddings.W_P, 3)
    assert found.queries == (13, 14, 15)
    rows = embeddings.W_P
    for head in range(3):
        products = rows @ folded.W_Q[head] @ (rows @ folded.W_K[head]).T
        for row, i in enumerate(found.queries):
            np.testing.assert_allclose(found.curves[head, row, : i + 1], products[i, : i + 1])


def test_a_trend_by_hand() -> None:
    """Inside the ends 0, 2, 1, 3, 3: ranks 1, 3, 2, 4½, 4½; two of four steps rise."""
    found = trend(np.array([50.0, 0, 2, 1, 3, 3, -50]))
    # Products of ranks and places add up to 8½ about their means, squares to 10 and 9½.
    assert found.spearman == pytest.approx(8.5 / np.sqrt(95), abs=1e-12)
    assert found.rising == 0.5
    # Those of values and places to 7, squares to 10 and 6.8.
    assert found.straight == pytest.approx(49 / 68, abs=1e-12)


def test_the_share_of_a_wave_is_of_the_variance() -> None:
    """Whole rounds of two sines of 3 and 1: nine tenths of what a line leaves."""
    place = np.arange(600.0)
    louder = 3 * np.cos(2 * np.pi * place / 30)
    curve = 0.4 * place + louder + np.cos(2 * np.pi * place / 12)
    found = dominant_wave(np.concatenate([[9.0], curve, [-9.0]]))
    assert found.wavelength == pytest.approx(30, rel=1e-3)
    assert found.cycles == pytest.approx(20, rel=1e-3)
    assert found.share == pytest.approx(0.9, abs=2e-3)


def test_nearness_where_queries_see_both_ways() -> None:
    """Near are three keys on either side, and the highest may come after the query."""
    folded = fold(random_layer(5, 8, 2, 4, causal=False))
    W_P = torch.randn(12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = nearness(folded, W_P, window=4, block=7)
    bias = position_bias(folded, W_P, range(12))
    attention = bias.attention()
    for i in range(12):
        near = [j for j in range(12) if abs(i - j) <= 3]
        far = [j for j in range(12) if abs(i - j) > 3]
        assert found.uniform[i] == pytest.approx(len(near) / 12)
        for head in range(2):
            score = bias.comparison[head, i]
            assert found.share[head, i] == pytest.approx(attention[head, i, near].sum())
            highest = max(range(1 if i else 0, 12), key=lambda j: score[j])
            assert found.peak[head, i] == abs(i - highest)
            below = [score[j] < score[near].mean() for j in far]
            assert found.percentile[head, i] == pytest.approx(np.mean(below))
    assert (found.peak > 6).any()


def test_spreads_of_last_rows_by_hand() -> None:
    """Over all keys, n and not n − 1: 2, 1, 4 and 3; the last by the median of the others."""
    rows = np.array([[[1.0, 5, 1, 5], [0, 2, 0, 2], [-4, 4, -4, 4], [3, 9, 3, 9]]])
    found = LastRows(queries=(8, 9, 10, 11), curves=rows)
    assert found.spread.tolist() == [[2, 1, 4, 3]]
    assert found.ratio.tolist() == [1.5]


def test_beside_position_each_column_is_its_own_number() -> None:
    """Two queries, of which the first is asked for; three texts, whose spread is by n − 1."""
    bias = PositionBias((11, 2), np.zeros((1, 14)), np.zeros((1, 2, 14)), None, 1.0, True)
    mean = np.zeros((1, 2, 13))
    mean[0, 0, [0, 5, 11]] = 0.5, 0.25, 0.25
    mean[0, 1, 2] = 1.0
    error = np.zeros_like(mean)
    error[0, 0, 11] = 0.125
    skills = np.array([0.1, 0.5, 0.9])[:, None, None] * np.array([1.0, 3.0])
    measured = MeasuredAttention((11, 2), mean, error, 3, True, skills)
    [row] = compare_with_position_only(measured, bias, row=0).to_dict("records")
    assert row["near, by position"] == pytest.approx(10 / 12)
    assert row["near, measured"] == pytest.approx(0.5)
    assert row["itself, by position"] == pytest.approx(1 / 12)
    assert row["itself, measured"] == 0.25
    assert row["itself, error"] == 0.125
    apart = (0.5 + 2 * 0.25 - 3 / 12 + 9 / 12) / 2
    assert row["total variation"] == row["even"] == pytest.approx(apart)
    assert row["skill"] == pytest.approx(0)
    assert row["skill, one text"] == pytest.approx(0.5)
    assert row["skill, error"] == pytest.approx(0.4 / np.sqrt(3))
    [other] = compare_with_position_only(measured, bias).to_dict("records")
    assert other["skill, one text"] == pytest.approx(1.5)
    alone = replace(measured, text_skill=skills[:1])
    assert np.isnan(compare_with_position_only(alone, bias)["skill, error"]).all()


def test_a_single_window_has_no_standard_error(folded, embeddings) -> None:
    found = measured_attention(folded, embeddings, np.array([[1, 2, 3]]), [2])
    assert np.isnan(found.error).all()
    assert (found.queries, found.windows, found.causal) == ((2,), 1, True)


def test_bands_are_between_products_with_either_end(bias) -> None:
    """Whatever the sign of a term: of the total and of T^pp, as of T^p above."""
    sigma = bias.inverse_sigma
    compared = bias.comparison * sigma.mean[[0, 5, 15]][:, None]
    for values, found in (
        (compared, bias.term_pp()),
        (bias.self_assertion[:, None] + compared, bias.total()),
    ):
        ends = np.sort([values * sigma.lower, values * sigma.upper], axis=0)
        np.testing.assert_allclose(found.lower, ends[0])
        np.testing.assert_allclose(found.upper, ends[1])
        assert (values < 0).any()
    assert (bias.n_heads, bias.n_positions) == (3, 16)
    for end in ("lower", "upper"):
        with_one_end = replace(bias, inverse_sigma=replace(sigma, **{end: None}))
        found = with_one_end.term_p()
        np.testing.assert_array_equal(found.mean, bias.term_p().mean)
        assert (found.lower, found.upper) == (None, None)


def test_the_papers_queries_are_at_the_same_share_of_any_context() -> None:
    assert share_of_context(1024) == (50, 500, 1000)
    assert share_of_context(256) == (12, 125, 250)  # 12.5 is rounded to even
    assert share_of_context(3) == (0, 1, 2)
    assert share_of_context(100, of=1001) == (5, 50, 99)


def test_a_table_of_heads_is_of_the_last_query(bias, folded, embeddings) -> None:
    around = nearness(folded, embeddings.W_P, bias.inverse_sigma, window=4)
    table = position_table(bias, around)
    for head in range(3):
        of_last = dominant_wave(bias.term_pp().mean[head, 2])
        assert table.loc[head, "T^pp wavelength"] == pytest.approx(of_last.wavelength)
        asserted = trend(bias.term_p().mean[head])
        assert table.loc[head, "T^p Spearman"] == pytest.approx(asserted.spearman)
        half = slice(8, 15)
        assert table.loc[head, "distance to highest T^pp"] == np.median(around.peak[head, half])
        percentile = np.median(around.percentile[head, half])
        assert table.loc[head, "near T^pp percentile"] == pytest.approx(percentile)
        attention = bias.attention()[head]
        assert table.loc[head, "near share, i = 15"] == pytest.approx(attention[2, 6:].sum())
        assert table.loc[head, "near share, i = 5"] == pytest.approx(attention[1, :6].sum())


def test_without_tokens_terms_are_undivided(model) -> None:
    layer = FirstLayer(embeddings_of(model), attention_layer(model))
    found = position_only(layer)
    W_P = layer.embeddings.W_P
    folded = fold(layer.attention)
    np.testing.assert_allclose(found.variance, np.var(W_P.numpy(), axis=1), rtol=1e-10)
    assert found.bias.queries == (1, 8, 15)  # 50, 500 and 1000 of 1,024, of 16
    assert found.bias.inverse_sigma is None
    assert found.last.queries == (11, 12, 13, 14, 15)
    for head in range(3):
        compared = (W_P @ folded.dense_W_QK(head) @ W_P.T).numpy()
        for i in (6, 15):
            assert found.peak[head, i] == i - max(range(1, i + 1), key=lambda j: compared[i, j])
        far = compared[15, :6] < compared[15, 6:].mean()
        assert found.percentile[head, 15] == pytest.approx(far.mean())
