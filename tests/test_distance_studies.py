"""Studies of models with rotary or relative positions, each against its plain definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from naming import naming
from scipy import sparse
from test_distance import VOCAB, random_relative

from lnattn import distance_terms, fold_relative, plain
from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.affinity.by_distance import (
    curve_over_distance,
    distance_grid,
    sample_queries,
    vectors_at_distance,
)
from lnattn.affinity.topk import partners, strongest_pairs
from lnattn.attention.vectors import TokenVectors, heat_map, ranks, same_token_z
from lnattn.contribution.study import kl_of_removal
from lnattn.errors import ShapeError, TokenError
from lnattn.rotary import position
from lnattn.rotary.fold import mean_vectors
from lnattn.rotary.position import (
    ByDistance,
    attention_of_curve,
    by_distance,
    distance_variance,
    self_assertion,
)
from lnattn.rotary.terms import DISTANCE_TERMS, distance_divergences
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn.selectability.first_layers import first_layer_keys, study_text
from lnattn.text.counts import Counts


@pytest.fixture
def parts():
    layer, embeddings = random_relative(21)
    return fold_relative(layer), embeddings


def affinities(folded, embeddings, distance):
    """T^ee of all pairs at a distance, by the decomposition of two-token texts."""
    table = torch.empty(folded.n_heads, VOCAB, VOCAB, dtype=torch.float64)
    for b in range(VOCAB):
        for a in range(VOCAB):
            terms = distance_terms(folded, embeddings, [a, b], positions=[0, max(distance, 1)])
            table[:, b, a] = terms.ee[:, 1, 0]
    return table


@pytest.mark.parametrize("distance", [1, 2, 7])
def test_products_are_the_token_term_at_a_distance(parts, distance, monkeypatch):
    monkeypatch.setattr("lnattn.rotary.fold._BLOCK", 50)  # blocks of two tokens
    folded, embeddings = parts
    table = affinities(folded, embeddings, distance)
    vectors = vectors_at_distance(folded, embeddings, distance)
    assert vectors.keys.shape[0] == 2
    assert (vectors.n_heads, vectors.vocab_size) == (4, VOCAB)
    everything = list(range(VOCAB))
    torch.testing.assert_close(vectors.scores(everything), table, atol=1e-9, rtol=1e-9)
    assert (table - affinities(folded, embeddings, distance + 1)).abs().max() > 0.1


def test_everything_made_of_vectors_takes_grouped_keys(parts):
    folded, embeddings = parts
    vectors = vectors_at_distance(folded, embeddings)
    plain = TokenVectors(vectors.queries, vectors.keys_per_head)
    ids = [3, 9, 0]
    for study in (
        lambda v: v.scores(ids),
        lambda v: heat_map(v, ids),
        lambda v: ranks(v, ids, [1, 2, 3]).double(),
        lambda v: torch.from_numpy(partners(v, ids, 4).scores),
        lambda v: torch.from_numpy(partners(v, ids, 4, side="queries").scores),
        same_token_z,
        lambda v: torch.from_numpy(partners(v, k=3).scores),
        lambda v: torch.from_numpy(strongest_pairs(v, 3).scores),
    ):
        torch.testing.assert_close(study(vectors), study(plain))


def test_the_distance_is_1_unless_given_and_may_be_as_large_as_32_bits_hold(parts):
    folded, embeddings = parts
    usual = vectors_at_distance(folded, embeddings)
    torch.testing.assert_close(usual.queries, vectors_at_distance(folded, embeddings, 1).queries)
    far = vectors_at_distance(folded, embeddings, 2**31 - 1)
    assert far.queries.isfinite().all()
    with pytest.raises(TokenError, match="distance"):
        vectors_at_distance(folded, embeddings, 2**31)


def test_some_queries_only(parts):
    folded, embeddings = parts
    whole = vectors_at_distance(folded, embeddings, 2)
    some = vectors_at_distance(folded, embeddings, 2, query_ids=[7, 1, 7])
    assert some.tokens.tolist() == [1, 7]
    torch.testing.assert_close(some.scores([7, 1]), whole.scores([7, 1]))
    assert partners(some, k=2).ids.tolist() == partners(whole, [1, 7], 2).ids.tolist()
    with pytest.raises(TokenError, match="token 3"):
        some.scores([7, 3, 5])
    dealt = some.shuffled(0, keys=False)
    assert sorted(dealt.queries[0, :, 0].tolist()) == sorted(some.queries[0, :, 0].tolist())
    for needs_all in (
        lambda: some.swapped(),
        lambda: some.shuffled(0),
        lambda: strongest_pairs(some, 3),
    ):
        with pytest.raises(TokenError, match="all tokens"):
            needs_all()


def test_auroc_at_a_distance(parts):
    folded, embeddings = parts
    counts = np.random.default_rng(0).integers(0, 3, (VOCAB, VOCAB))
    before = Neighbours.before(sparse.csr_array(counts))
    table = affinities(folded, embeddings, 2).numpy()
    asked = [2, 5, 6]
    vectors = vectors_at_distance(folded, embeddings, 2, query_ids=asked)
    found = head_auroc(vectors, before)
    assert np.flatnonzero(found.defined).tolist() == asked
    for head in range(4):
        for b in asked:
            expected = plain.auroc(table[head, b], counts[:, b])
            assert found.values[head, b] == pytest.approx(expected, abs=1e-12)


def test_curve_over_distance(parts):
    folded, embeddings = parts
    pairs, distances = [(3, 4), (9, 9)], [0, 1, 5]
    curve = curve_over_distance(folded, embeddings, pairs, distances)
    for row, (b, a) in enumerate(pairs):
        for column, distance in enumerate(distances):
            vectors = vectors_at_distance(folded, embeddings, distance)
            torch.testing.assert_close(curve[row, :, column], vectors.scores([b])[:, 0, a])
    for wrong in ([-1], []):
        with pytest.raises(ShapeError, match="distances ≥ 0"):
            curve_over_distance(folded, embeddings, pairs, wrong)


def test_keys_after_the_query(parts):
    folded, embeddings = parts
    both = replace(folded, causal=False)
    terms = distance_terms(both, embeddings, [4, 6, 2], constants=mean_vectors(both, embeddings))
    vectors = vectors_at_distance(both, embeddings, -2)
    torch.testing.assert_close(vectors.scores([4])[:, 0, 2], terms.ee[:, 0, 2])
    with pytest.raises(TokenError, match=naming("causal", -2)):
        vectors_at_distance(folded, embeddings, -2)
    with pytest.raises(TokenError, match="3 keys"):
        vectors_at_distance(replace(folded, window=3), embeddings, 3)


# ---- distance alone, and shares of variance ------------------------------------------------


COUNTS = np.array([0, 5, 1, 0, 2, 9, 3, 1, 1, 4, 7])
DISTANCES = (0, 1, 2, 5, 11)


def all_terms(folded, embeddings, distances):
    """The four terms of every pair of tokens at every distance: [term head distance b a]."""
    constants = mean_vectors(folded, embeddings, torch.from_numpy(COUNTS))
    out = np.zeros((4, folded.n_heads, len(distances), VOCAB, VOCAB))
    for n, distance in enumerate(distances):
        for b in range(VOCAB):
            for a in range(VOCAB):
                # Position 0 twice is no text: two tokens at one place, by their parts.
                terms = distance_terms(
                    folded, embeddings, [a, b], positions=[3, 3 + max(distance, 1)],
                    constants=constants,
                )  # fmt: skip
                if distance == 0:
                    terms = replace(terms, positions=torch.tensor([3, 3]))
                for t, name in enumerate(DISTANCE_TERMS):
                    out[t, :, n, b, a] = terms[name][:, 1, 0]
    return out


@pytest.mark.parametrize("biased", [False, True])
def test_shares_are_an_analysis_of_variance(parts, biased):
    folded, embeddings = parts
    if biased:
        slopes = torch.tensor([0.5, -0.1, 0.2, 0.3], dtype=torch.float64)
        folded = replace(
            folded, bias=lambda distance: slopes.view(-1, *[1] * distance.ndim) * distance
        )
    every = all_terms(folded, embeddings, DISTANCES)
    weights = np.einsum("b,a->ba", COUNTS, COUNTS) / COUNTS.sum() ** 2 / len(DISTANCES)

    def mean(x):
        return np.einsum("hnba,ba->h", x, weights)

    def of_queries(x):
        """What is the same for all keys of a query, which the softmax never sees: [head query]."""
        return np.einsum("hnba,a->hb", x, COUNTS / COUNTS.sum() / len(DISTANCES))

    total = every.sum(axis=0)
    found = distance_variance(folded, embeddings, COUNTS, DISTANCES)
    for t in range(4):
        centred = every[t] - of_queries(every[t])[:, None, :, None]
        np.testing.assert_allclose(found.variance[t], mean(centred**2), rtol=1e-9)
    between_keys = total - of_queries(total)[:, None, :, None]
    np.testing.assert_allclose(found.variance.sum(axis=0), mean(between_keys**2), rtol=1e-9)
    constant = of_queries(total) - mean(total)[:, None]
    expected = (constant**2) @ COUNTS / COUNTS.sum()
    np.testing.assert_allclose(found.constant, expected, rtol=1e-9)
    assert (found.constant > 0.001 * found.variance.sum(axis=0)).all()
    np.testing.assert_allclose(found.share.sum(axis=0), 1)
    np.testing.assert_allclose(found.curve, every[3, :, :, 0, 0], rtol=1e-9)


def test_a_score_that_only_its_query_decides_has_no_share(parts):
    """Without a rotation every key stands alike: what a query wants of k₀ is one number."""
    folded, embeddings = parts
    still = replace(folded, rotation=None)
    found = distance_variance(still, embeddings, COUNTS, DISTANCES)
    np.testing.assert_allclose(found.share[[1, 3]], 0, atol=1e-25)
    assert (found.constant > 0).all()


def test_self_assertion_against_frequency(parts):
    folded, embeddings = parts
    tokens, asserted = self_assertion(folded, embeddings, COUNTS, distance=2)
    assert tokens.tolist() == np.flatnonzero(COUNTS).tolist()
    every = all_terms(folded, embeddings, [2])[DISTANCE_TERMS.index("e"), :, 0, 0]
    np.testing.assert_allclose(asserted, every[:, tokens], rtol=1e-9)


# ---- what the terms contribute ------------------------------------------------------------


@pytest.mark.parametrize("biased", [False, True])
def test_divergences_of_removing_a_term(parts, biased):
    folded, embeddings = parts
    if biased:
        # Not linear: a step of all a query's distances would be a constant, which nobody sees.
        bend = 2 * torch.rand(4, 1, 1, generator=torch.Generator().manual_seed(4))
        folded = replace(folded, bias=lambda distance: -bend * distance.abs().sqrt())
    ids = torch.randint(VOCAB, (70,), generator=torch.Generator().manual_seed(3))
    constants = mean_vectors(folded, embeddings, torch.from_numpy(COUNTS))
    found = distance_divergences(folded, embeddings, ids, constants)
    terms = distance_terms(folded, embeddings, ids, constants=constants)
    before = torch.ones(70, 70).triu(1).bool()
    scores = (terms.scores() / folded.scale).masked_fill(before, -torch.inf)
    for t, name in enumerate(DISTANCE_TERMS):
        expected = kl_of_removal(scores, terms[name] / folded.scale).numpy()
        np.testing.assert_allclose(found[t], expected, atol=2e-5, rtol=2e-3)
        assert expected[:, 5:].max() > 0.1


@pytest.mark.parametrize("change", [{"soft_cap": 2.0}, {"window": 3}, {"causal": False}])
def test_divergences_are_of_the_attention_that_the_block_has(parts, change):
    folded, embeddings = parts
    folded, ids = replace(folded, **change), [1, 2, 3, 4, 9, 9]
    terms = distance_terms(folded, embeddings, ids)
    found = distance_divergences(folded, embeddings, ids)
    alpha = terms.attention()
    for t, name in enumerate(DISTANCE_TERMS):
        less = terms.attention(without=name)
        expected = torch.xlogy(alpha, alpha / less).nan_to_num(0.0).sum(dim=-1)
        np.testing.assert_allclose(found[t], expected.numpy(), atol=2e-7)
        assert expected.max() > 0.01


def test_divergences_count_what_a_sink_takes(parts):
    """The distribution of which KL is taken has the sink as its last entry, and sums to 1."""
    folded, embeddings = parts
    sinks = torch.tensor([0.0, 2.0, -1.0, 4.0]).double()
    folded, ids = replace(folded, sinks=sinks), [1, 2, 3, 4, 9, 9]
    terms = distance_terms(folded, embeddings, ids)
    found = distance_divergences(folded, embeddings, ids)

    def with_sink(attention):
        return torch.cat([attention, 1 - attention.sum(dim=-1, keepdim=True)], dim=-1)

    alpha = with_sink(terms.attention())
    for t, name in enumerate(DISTANCE_TERMS):
        less = with_sink(terms.attention(without=name))
        expected = torch.xlogy(alpha, alpha / less).nan_to_num(0.0).sum(dim=-1)
        np.testing.assert_allclose(found[t], expected.numpy(), atol=2e-7)
        assert expected[:, 0].max() > 0.001  # one key, and still a choice


def test_attention_by_distance_alone_leaves_a_sink_its_share():
    curve = np.log([[1.0, 2.0, 5.0], [1.0, 1.0, 2.0]])
    alone = attention_of_curve(curve)
    np.testing.assert_allclose(alone, [[0.125, 0.25, 0.625], [0.25, 0.25, 0.5]])
    beside = attention_of_curve(curve, np.log([2.0, 12.0]))
    np.testing.assert_allclose(beside, [[0.1, 0.2, 0.5], [0.0625, 0.0625, 0.125]])


def test_keys_of_a_text_are_turned():
    layer, embeddings = random_relative(30)
    model = RelativeFirstLayer(embeddings, layer)
    keys = first_layer_keys(model, [4, 4, 9])
    folded = fold_relative(layer)
    rows = embeddings.rows(torch.tensor([4, 4, 9]))
    expected = folded.rotated(folded.keys(rows), torch.arange(3))
    np.testing.assert_allclose(keys["heads"], expected.numpy())
    assert np.abs(keys["heads"][:, 0] - keys["heads"][:, 1]).max() > 0.1  # one token, two places
    np.testing.assert_allclose(keys["after"] @ layer.W_K[0].numpy() + layer.b_K[0].numpy(),
                               folded.keys(rows)[0].numpy())  # fmt: skip
    shares = study_text(model, [[4, 4, 9, 2, 0, 1], [5, 6, 7, 8, 9, 10]], [3, 6], 2)
    assert shares.heads.shape == (2, 2, 2)


# ---- skill at each distance ---------------------------------------------------------------


def pair_counts(seed: int) -> Neighbours:
    counts = np.random.default_rng(seed).integers(0, 3, (VOCAB, VOCAB))
    counts[:, 3] = 0  # token 3 is never second: it has no AUROC
    return Neighbours.before(sparse.csr_array(counts))


def test_skill_at_each_distance_by_hand(parts):
    folded, embeddings = parts
    asked = [2, 3, 5, 6, 9]
    vectors = {
        turn: vectors_at_distance(folded, embeddings, turn, query_ids=asked) for turn in (1, 2)
    }
    neighbours = {apart: pair_counts(apart) for apart in (1, 2, 3)}
    grid = distance_grid(vectors, neighbours, seed=1)
    assert grid.queries.tolist() == [2, 5, 6, 9]
    assert grid.own.shape == (2, 3, 4, 4)
    for t, turned in enumerate(vectors.values()):
        wrong = turned.shuffled(1, keys=False)
        for n, pairs in enumerate(neighbours.values()):
            own = head_auroc(turned, pairs).values[:, grid.queries]
            other = head_auroc(wrong, pairs).values[:, grid.queries]
            np.testing.assert_allclose(grid.own[t, n], own)
            np.testing.assert_allclose(grid.query_specific_auroc[t, n], (own - other).mean(axis=1))
    found = grid.interval(draws=200, seed=3)
    specific = grid.own[0, 0] - grid.wrong[0, 0]
    rng = np.random.default_rng(3)
    means = [specific[:, rng.integers(4, size=4)].mean(axis=1) for _ in range(200)]
    np.testing.assert_allclose(found[:, 0], specific.mean(axis=1))
    np.testing.assert_allclose(found[:, 1], np.quantile(means, 0.025, axis=0))
    np.testing.assert_allclose(found[:, 2], np.quantile(means, 0.975, axis=0))


def test_sampled_queries_occur():
    counts = np.array([0, 10, 9, 50, 11, 10])
    assert sample_queries(counts, 9).tolist() == [1, 3, 4, 5]
    assert len(sample_queries(counts, 2)) == 2
    assert sample_queries(counts, 2).tolist() == sample_queries(counts, 2).tolist()


def test_a_query_that_every_token_precedes_has_no_auroc_and_is_left_out(parts):
    folded, embeddings = parts
    counts = np.random.default_rng(1).integers(0, 3, (VOCAB, VOCAB))
    counts[:, 4] = 1  # every token stands before token 4, so there is no negative
    neighbours = {1: Neighbours.before(sparse.csr_array(counts))}
    vectors = {1: vectors_at_distance(folded, embeddings, 1)}
    grid = distance_grid(vectors, neighbours)
    assert 4 not in grid.queries
    assert len(grid.queries) == VOCAB - 1
    assert np.isfinite(grid.own).all()
    assert np.isfinite(grid.wrong).all()


def test_what_heads_do_by_distance_is_over_the_scale(parts, monkeypatch):
    """Every field of `ByDistance` by hand; the block's scale is 2.5."""
    monkeypatch.setattr(position, "NULLS", 2)
    layer, embeddings = random_relative(21)
    model = RelativeFirstLayer(embeddings, layer)
    unigrams = np.arange(1, VOCAB + 1)
    found = by_distance(model, unigrams, seed=5)

    def variance_of(other):
        folded = fold_relative(other.attention)
        return distance_variance(folded, other.embeddings, unigrams, range(256))

    here = variance_of(model)
    null = variance_of(position.permuted_weights(model, 5))
    np.testing.assert_allclose(found.curve, here.curve / 2.5)
    np.testing.assert_allclose(found.null_curve, null.curve / 2.5)
    np.testing.assert_allclose(found.spread, np.sqrt(here.variance.sum(axis=0)) / 2.5)
    np.testing.assert_allclose(found.constant, here.constant / here.variance.sum(axis=0))
    np.testing.assert_allclose(found.share, here.variance / here.variance.sum(axis=0))
    np.testing.assert_allclose(found.alone, found.share[3])
    for deal, seed in enumerate((5, 6)):
        heads = position.permuted_weights(model, seed, heads_only=True)
        np.testing.assert_allclose(found.null_share[deal], variance_of(heads).share[3])
    weights = np.exp(found.null_curve)
    expected = weights[:, :7].sum(axis=1) / weights.sum(axis=1)
    np.testing.assert_allclose(found.near_share(7, null=True), expected)


def test_a_table_by_distance_names_its_terms():
    """Shares in the order of the terms; then the standard deviation, which is the spread."""
    share = np.array([[0.1, 0.5], [0.2, 0.3], [0.3, 0.15], [0.4, 0.05]])
    none = np.zeros((2, 3))
    found = ByDistance(none, none, share, np.array([2.0, 3.0]), np.ones(2), np.zeros((1, 2)))
    table = found.table()
    assert table.columns.tolist() == ["ee", "ed", "e", "d", "standard deviation"]
    assert table.loc[0].tolist() == [0.1, 0.2, 0.3, 0.4, 2.0]
    assert table.loc[1].tolist() == [0.5, 0.3, 0.15, 0.05, 3.0]
    assert table.index.name == "head"
    assert found.n_heads == 2
    assert found.alone.tolist() == [0.4, 0.05]


def test_a_grid_keeps_offsets_and_distances_apart(parts):
    """Offsets 2 and 5 against pairs 1, 3 and 4 apart: rows are offsets."""
    folded, embeddings = parts
    stream = [np.random.default_rng(3).integers(0, VOCAB, 300)]
    counted = {
        apart: Neighbours.before(Counts.from_documents(stream, VOCAB, skip=apart).bigrams)
        for apart in (1, 3, 4)
    }
    vectors = {offset: vectors_at_distance(folded, embeddings, offset) for offset in (2, 5)}
    grid = distance_grid(vectors, counted)
    assert (grid.offsets, grid.counted) == ((2, 5), (1, 3, 4))
    assert grid.own.shape[:2] == (2, 3)
    for row, offset in enumerate(grid.offsets):
        for column, apart in enumerate(grid.counted):
            alone = head_auroc(vectors[offset], counted[apart], grid.queries).values
            np.testing.assert_allclose(grid.own[row, column], alone[:, grid.queries])
