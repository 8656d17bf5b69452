"""Studies of models with rotary or relative positions, each against its plain definition."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from random_models import random_layer
from scipy import sparse
from sklearn.metrics import roc_auc_score
from test_distance_terms import VOCAB, random_relative

from lnattn import distance_terms, fold
from lnattn.attention.relative import mean_vectors
from lnattn.cli import main
from lnattn.errors import ShapeError, TokenError
from lnattn.studies.affinity.at_distance import curve_over_distance, vectors_at_distance
from lnattn.studies.affinity.auroc import Neighbours, head_auroc
from lnattn.studies.affinity.topk import best_partners, partners, strongest_pairs
from lnattn.studies.affinity.vectors import TokenVectors, heat_map, ranks, same_token_z


@pytest.fixture
def parts():
    layer, embeddings = random_relative(21)
    return fold(layer), embeddings


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
    monkeypatch.setattr("lnattn.studies.affinity.at_distance._BLOCK", 50)  # blocks of two tokens
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
        lambda v: partners(v, ids, 4).scores,
        lambda v: partners(v, ids, 4, side="queries").scores,
        same_token_z,
        lambda v: torch.from_numpy(best_partners(v, 3).scores),
        lambda v: torch.from_numpy(strongest_pairs(v, 3).scores),
    ):
        torch.testing.assert_close(study(vectors), study(plain))


def test_some_queries_only(parts):
    folded, embeddings = parts
    whole = vectors_at_distance(folded, embeddings, 2)
    some = vectors_at_distance(folded, embeddings, 2, query_ids=[7, 1, 7])
    assert some.tokens.tolist() == [1, 7]
    torch.testing.assert_close(some.scores([7, 1]), whole.scores([7, 1]))
    assert (
        best_partners(some, 2).ids.tolist()
        == best_partners(whole, 2, query_ids=[1, 7]).ids.tolist()
    )
    with pytest.raises(TokenError, match="token 3 is not among"):
        some.scores([3])
    for needs_all in (
        lambda: some.swapped(),
        lambda: some.shuffled(0),
        lambda: strongest_pairs(some, 3),
    ):
        with pytest.raises(TokenError, match="queries of all tokens"):
            needs_all()


@pytest.mark.parametrize("device", [None, "cpu"])
def test_auroc_at_a_distance(parts, device):
    folded, embeddings = parts
    counts = np.random.default_rng(0).integers(0, 3, (VOCAB, VOCAB))
    before = Neighbours.before(sparse.csr_array(counts))
    table = affinities(folded, embeddings, 2).numpy()
    asked = [2, 5, 6]
    vectors = vectors_at_distance(folded, embeddings, 2, query_ids=asked)
    found = head_auroc(vectors, before, device=device)
    assert np.flatnonzero(found.defined).tolist() == asked
    for head in range(4):
        for b in asked:
            weight = np.where(counts[:, b] > 0, counts[:, b], 1)
            expected = roc_auc_score(counts[:, b] > 0, table[head, b], sample_weight=weight)
            assert found.values[head, b] == pytest.approx(expected, abs=1e-12)


def test_curve_over_distance(parts):
    folded, embeddings = parts
    pairs, distances = [(3, 4), (9, 9)], [0, 1, 5]
    curve = curve_over_distance(folded, embeddings, pairs, distances)
    for row, (b, a) in enumerate(pairs):
        for column, distance in enumerate(distances):
            vectors = vectors_at_distance(folded, embeddings, distance)
            torch.testing.assert_close(curve[row, :, column], vectors.scores([b])[:, 0, a])
    with pytest.raises(ShapeError, match="one pair or more"):
        curve_over_distance(folded, embeddings, pairs, [-1])


def test_keys_after_the_query(parts):
    folded, embeddings = parts
    both = replace(folded, causal=False)
    terms = distance_terms(both, embeddings, [4, 6, 2], constants=mean_vectors(both, embeddings))
    vectors = vectors_at_distance(both, embeddings, -2)
    torch.testing.assert_close(vectors.scores([4])[:, 0, 2], terms.ee[:, 0, 2])
    with pytest.raises(TokenError, match="no query of a causal model"):
        vectors_at_distance(folded, embeddings, -2)
    with pytest.raises(TokenError, match="sees 3 keys"):
        vectors_at_distance(replace(folded, window=3), embeddings, 3)


def test_affinity_command_takes_a_distance(parts, monkeypatch, capsys):
    folded, embeddings = parts
    tokenizer = SimpleNamespace(unk_token_id=None, eos_token_id=0, decode=lambda ids: f"t{ids[0]}")
    model = SimpleNamespace(attention=None, embeddings=embeddings, name="any", tokenizer=tokenizer)
    monkeypatch.setattr("lnattn.models.checkpoints.load_first_layer", lambda _name: model)
    monkeypatch.setattr("lnattn.attention.folding.fold", lambda _layer: folded)
    monkeypatch.setattr("lnattn.commands.affinity._single", lambda _tokenizer, text: int(text[1:]))
    assert main(["affinity", "any", "t7", "--distance", "3", "--head", "2", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    scores = affinities(folded, embeddings, 3)[2, 7]
    assert [one["id"] for one in row["partners"]] == scores.argsort(descending=True)[:5].tolist()
    assert main(["affinity", "any", "t7", "--side", "queries", "--head", "0", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    scores = affinities(folded, embeddings, 1)[0, :, 7]
    assert [one["id"] for one in row["partners"]] == scores.argsort(descending=True)[:5].tolist()
    learned = fold(random_layer(1, 10, 2, 4))
    monkeypatch.setattr("lnattn.attention.folding.fold", lambda _layer: learned)
    assert main(["affinity", "any", "t7", "--distance", "1"]) == 1
    assert "the same at every distance" in capsys.readouterr().err
