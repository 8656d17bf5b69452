"""The study of a rotary model that chapter 12 shows: its nulls, its file, its twin."""

from __future__ import annotations

from typing import ClassVar

import matplotlib as mpl
import numpy as np
import pytest
import torch
from naming import naming
from scipy.stats import spearmanr
from test_distance import random_relative

from lnattn import distance_terms, fold_relative, freezing, plain
from lnattn.affinity.by_distance import sample_queries
from lnattn.attention.vectors import TokenVectors
from lnattn.cli.main import main
from lnattn.errors import CorpusError, ResultError
from lnattn.rotary import position
from lnattn.rotary.fold import mean_vectors
from lnattn.rotary.position import distance_variance, self_assertion
from lnattn.rotary.terms import DistanceTerms
from lnattn.rotary.weights import RelativeFirstLayer, TokenEmbeddings
from lnattn.storage import write_result
from lnattn.text.counts import Counts
from lnattn_book.frozen import making as book_freezing
from lnattn_book.studies import distance_terms as study_module
from lnattn_book.studies.distance_terms import RotaryStudy, known_pairs, rank_pairs, rotary_study

mpl.use("Agg")
WORDS = 40


class TwoWords:
    """A tokenizer with two words that are single tokens after a space."""

    known: ClassVar = {" York": 3, " New": 4}

    def __call__(self, text: str, **_: bool) -> dict[str, list[int]]:
        return {"input_ids": [self.known[text]] if text in self.known else [1, 2]}

    def get_vocab(self) -> dict[str, int]:
        return self.known


@pytest.fixture(scope="module", autouse=True)
def deals():
    """Four deals of the heads in place of twenty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(position, "NULLS", 4)
        yield 4


@pytest.fixture(scope="module")
def everything(deals):
    layer, _ = random_relative(40)
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(WORDS, layer.d_model, generator=generator, dtype=torch.float64)
    model = RelativeFirstLayer(TokenEmbeddings(rows), layer, TwoWords(), {"name": "tiny"})
    stream = np.random.default_rng(0).integers(0, WORDS, 1500)
    counts = {skip: Counts.from_documents([stream], WORDS, skip=skip) for skip in (1, 2, 3)}
    texts = [stream[:30].tolist(), stream[30:70].tolist()]
    return model, counts, rotary_study(model, counts, texts, queries=20)


def test_nulls_keep_the_embeddings_and_deal_the_heads_anew(everything):
    model, counts, study = everything
    unigrams = counts[1].unigrams
    assert study.by_distance.null_share.shape == study.null_rho.shape == (4, study.n_heads)
    assert study.null_divergence.shape == (study.record["nulls"], 4)
    for deal, null in enumerate(position.permuted_heads(model)):
        assert torch.equal(null.embeddings.W_E, model.embeddings.W_E)
        assert torch.equal(null.attention.ln.gamma, model.attention.ln.gamma)
        for name in ("W_Q", "W_K", "b_Q", "b_K"):
            ours, theirs = getattr(model.attention, name), getattr(null.attention, name)
            assert not torch.equal(ours, theirs)
            assert torch.equal(ours.flatten().sort()[0], theirs.flatten().sort()[0])
        folded = fold_relative(null.attention)
        bias = distance_variance(folded, null.embeddings, unigrams, range(256))
        np.testing.assert_allclose(study.by_distance.null_share[deal], bias.share[3])
        tokens, asserted = self_assertion(folded, null.embeddings, unigrams, 1, min_count=10)
        rho = [spearmanr(row, unigrams[tokens]).statistic for row in asserted]
        np.testing.assert_allclose(study.null_rho[deal], rho, atol=1e-12)
    assert len(np.unique(study.null_divergence, axis=0)) == 4


def test_divergences_are_means_over_queries_that_have_a_choice(everything):
    """All four terms of every head, from the texts, by the definition; permuted heads as well."""
    model, counts, study = everything
    stream = np.random.default_rng(0).integers(0, WORDS, 1500)
    texts = [stream[:30].tolist(), stream[30:70].tolist()]
    unigrams = torch.from_numpy(counts[1].unigrams)

    def by_hand(layer) -> np.ndarray:
        folded = fold_relative(layer.attention)
        constants = mean_vectors(folded, layer.embeddings, unigrams)
        rows = []
        for ids in texts:
            terms = distance_terms(folded, layer.embeddings, ids, constants=constants)
            scores = terms.scores().numpy()
            rows.append(
                [
                    plain.kl_of_removal(scores, terms[name].numpy(), folded.scale)[:, 1:]
                    for name in ("ee", "ed", "e", "d")
                ]
            )
        return np.concatenate(rows, axis=-1).mean(axis=-1)

    np.testing.assert_allclose(study.divergence, by_hand(model), rtol=1e-4, atol=1e-6)
    for deal, null in enumerate(position.permuted_heads(model)):
        expected = by_hand(null).mean(axis=1)
        np.testing.assert_allclose(study.null_divergence[deal], expected, rtol=1e-4, atol=1e-6)


def test_a_seed_decides_which_queries_are_asked(everything):
    model, counts, study = everything
    unigrams = counts[1].unigrams
    asked = [sample_queries(unigrams, 20, seed).tolist() for seed in (0, 1)]
    assert asked[0] != asked[1]
    assert set(study.queries.tolist()) <= set(asked[0])
    texts = [list(range(30))]
    other = rotary_study(model, counts, texts, queries=20, seed=1)
    assert set(other.queries.tolist()) <= set(asked[1])
    assert other.queries.tolist() != study.queries.tolist()


def test_the_command_freezes_the_same_study(everything, tmp_path, monkeypatch, capsys):
    model, counts, _ = everything
    for module in (freezing, book_freezing):
        monkeypatch.setattr(module, "load_first_layer", lambda name: model)
    monkeypatch.setattr(book_freezing.samples, "sample_tokens", lambda model: [[1, 2, 5, 4, 3]])
    files = [str(counts[skip].save(tmp_path / f"{skip}.npz")) for skip in (1, 2, 3)]
    out = tmp_path / "any" / "tiny"
    command = ["freeze", "tiny", "--out", str(out), "--counts", *files]
    assert main(command) == 0
    assert "position: not supported: this model's positions" in capsys.readouterr().out
    again = RotaryStudy.read(out)
    wanted = rotary_study(model, counts, [[1, 2, 5, 4, 3]])
    np.testing.assert_array_equal(again.own, wanted.own)
    assert again.record["command"].startswith(
        "python -m lnattn_book freeze MODEL --as tiny --only rotary "
    )
    assert again.record["pairs_sha256"] == counts[1].sha256
    (compared,) = freezing.verify("tiny", out, counts=files)
    assert not compared.differences
    assert not compared.not_compared
    (compared,) = freezing.verify("tiny", out)
    assert "--counts" in compared.not_compared
    arrays = again.arrays() | {"curve": again.by_distance.curve * 1.01}
    write_result(out, "rotary", arrays, again.record)
    (compared,) = freezing.verify("tiny", out, counts=files)
    assert "curve differs" in compared.differences[0]


def test_counts_that_do_not_fit_are_one_sentence(everything, tmp_path, monkeypatch, capsys):
    model, counts, _ = everything
    for module in (freezing, book_freezing):
        monkeypatch.setattr(module, "load_first_layer", lambda name: model)
    files = [str(counts[skip].save(tmp_path / f"{skip}.npz")) for skip in (2, 1, 3)]
    study = ["freeze", "tiny", "--out", str(tmp_path / "out"), "--only"]
    for more, words in (
        (["rotary", "--counts", *files], "no counts of pairs 1 apart"),
        (["position"], "positions are not added to its input"),
    ):
        assert main([*study, *more]) == 1
        assert words in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*"))


def test_without_counts_the_shipped_texts_are_counted(everything, tmp_path, monkeypatch):
    model, _, _ = everything
    for module in (freezing, book_freezing):
        monkeypatch.setattr(module, "load_first_layer", lambda name: model)
    texts = np.random.default_rng(1).integers(0, WORDS, (9, 60)).tolist()
    monkeypatch.setattr(book_freezing.samples, "sample_tokens", lambda model: texts)
    out = tmp_path / "any" / "tiny"
    assert main(["freeze", "tiny", "--out", str(out)]) == 0
    study = RotaryStudy.read(out)
    assert study.record["tokens_counted"] == 540
    assert study.record["counts"] == "the sample documents"
    assert study.record["command"] == "python -m lnattn_book freeze MODEL --as tiny --only rotary"
    counts = {
        skip: Counts.from_documents([np.array(one) for one in texts], WORDS, skip=skip)
        for skip in (1, 2, 3)
    }
    np.testing.assert_array_equal(study.own, rotary_study(model, counts, texts).own)
    (compared,) = freezing.verify("tiny", out)
    assert not compared.differences
    assert not compared.not_compared


def test_what_keys_assert_is_correlated_with_how_often_they_occur(everything):
    """ρ by scipy, over tokens that occur ten times; the ends by Bonett and Wright's formula."""
    model, counts, study = everything
    unigrams = counts[1].unigrams
    folded = fold_relative(model.attention)
    often = np.flatnonzero(unigrams >= 10)
    shares = torch.from_numpy(unigrams / unigrams.sum())
    queries = folded.queries(model.embeddings.rows(torch.arange(WORDS)))
    q0 = torch.einsum("v,hvd->hd", shares, queries)
    keys = folded.keys(model.embeddings.rows(torch.from_numpy(often)))
    turned = folded.rotated(q0[:, None], torch.tensor([1]))
    at_origin = folded.at_origin(keys)
    asserted = torch.einsum("hnd,hkd->hk", turned, at_origin).numpy()
    for head in range(study.n_heads):
        rho = spearmanr(asserted[head], unigrams[often]).statistic
        half = 1.959963985 * np.sqrt((1 + rho**2 / 2) / (len(often) - 3))
        ends = np.tanh(np.arctanh(rho) + np.array([-half, half]))
        assert study.rho[head] == pytest.approx(rho, abs=1e-9)
        assert [study.asserted_low[head], study.asserted_high[head]] == pytest.approx(ends)


def test_pairs_of_names_are_curves_and_ranks_of_the_token_term(everything):
    """'New York': York, 3, asks for New, 4, as the only pair, so its wrong query is itself."""
    model, counts, study = everything
    folded = fold_relative(model.attention)
    means = mean_vectors(folded, model.embeddings, torch.from_numpy(counts[1].unigrams))

    def token_terms(distance: int, key: int) -> torch.Tensor:
        places = [0, distance]
        terms = distance_terms(folded, model.embeddings, [key, 3], places, constants=means)
        return terms.ee[:, 1, 0]

    assert study.pair_curves.shape == (1, 4, 33)
    for distance in (1, 2, 32):
        expected = token_terms(distance, 4) / folded.scale
        np.testing.assert_allclose(study.pair_curves[0, :, distance], expected, atol=1e-9)
    scores = torch.stack([token_terms(1, key) for key in range(WORDS)], dim=1)
    ranks = 1 + (scores > scores[:, 4:5]).sum(dim=1)
    np.testing.assert_array_equal(study.pair_ranks[0], ranks)
    np.testing.assert_array_equal(study.chance_ranks[0], ranks)


def test_a_study_is_restored_with_every_array_in_its_place(everything, tmp_path):
    _, _, study = everything
    assert study.pairs.tolist() == [["New", "York"]]
    study.write(tmp_path)
    again = RotaryStudy.read(tmp_path)
    for name, array in study.arrays().items():
        read = getattr(again, name, None)
        read = getattr(again.by_distance, name) if read is None else read
        np.testing.assert_array_equal(read, array)
    assert again.grid.offsets == again.grid.counted == (1, 2, 3)


def test_aurocs_of_a_study_are_those_of_the_token_term(everything):
    """By the definition, for every offset and distance of the pairs; wrong queries by hand."""
    model, counts, study = everything
    folded = fold_relative(model.attention)
    means = mean_vectors(folded, model.embeddings, torch.from_numpy(counts[1].unigrams))
    rows = model.embeddings.rows(torch.arange(WORDS))
    both = torch.cat([rows, rows])
    asked = sample_queries(counts[1].unigrams, 20).tolist()
    dealt = torch.randperm(20, generator=torch.Generator().manual_seed(0)).tolist()
    for row, offset in enumerate((1, 2, 3)):
        places = torch.tensor([0] * WORDS + [offset] * WORDS)
        terms = DistanceTerms(folded, folded.queries(both), folded.keys(both), means, places)
        scores = terms.ee[:, WORDS:, :WORDS].numpy()
        for column, apart in enumerate((1, 2, 3)):
            dense = counts[apart].bigrams.toarray()
            for place, b in enumerate(study.queries.tolist()):
                other = asked[dealt[asked.index(b)]]
                for head in range(study.n_heads):
                    own = plain.auroc(scores[head, b], dense[:, b])
                    wrong = plain.auroc(scores[head, other], dense[:, b])
                    assert study.own[row, column, head, place] == pytest.approx(own, abs=1e-6)
                    assert study.wrong[row, column, head, place] == pytest.approx(wrong, abs=1e-6)


def test_a_wrong_pair_is_asked_by_the_query_of_the_pair_before_it():
    """Of the first pair, by that of the last; ranks by counting what is higher."""
    vectors = TokenVectors(*torch.randn(2, 2, 9, 3, generator=torch.Generator().manual_seed(1)))
    own, wrong = rank_pairs(vectors, [(3, 4), (5, 6), (7, 8)])
    scores = vectors.queries @ vectors.keys.mT
    for pair, (query, before, key) in enumerate(((3, 7, 4), (5, 3, 6), (7, 5, 8))):
        for head in range(2):
            assert own[pair, head] == plain.rank(scores[head, query].numpy(), key)
            assert wrong[pair, head] == plain.rank(scores[head, before].numpy(), key)


def test_of_a_text_no_more_than_the_context_is_read(everything, monkeypatch):
    model, counts, _ = everything
    monkeypatch.setattr(study_module, "CONTEXT", 8)
    texts = [list(range(8)), list(range(20, 28))]
    longer = [[*ids, 39, 38, 37] for ids in texts]
    whole = study_module._frequency_and_removal(model, counts[1].unigrams, texts)
    cut = study_module._frequency_and_removal(model, counts[1].unigrams, longer)
    np.testing.assert_array_equal(cut[1], whole[1])


def test_a_name_of_which_one_word_is_known_is_no_pair(everything):
    model, counts, _ = everything
    names = [("Los", "York"), ("New", "York"), ("New", "Angeles")]
    assert known_pairs(model, names) == ([("New", "York")], [(3, 4)])
    with pytest.raises(ResultError, match=naming("name", "tiny")):
        known_pairs(model, names[:1])
    with pytest.raises(CorpusError, match="0 documents"):
        rotary_study(model, counts, [])
