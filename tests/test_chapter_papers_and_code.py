"""The page on papers and code: departures by hand, a random model beside Hugging Face and scipy."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from test_chapter_majority import BOTH, FAST, SLOW, curves

from lnattn import FirstLayer, fold
from lnattn.affinity.auroc import Neighbours
from lnattn.attention.layernorm import sigma
from lnattn.attention.terms import TERMS
from lnattn.attention.vectors import token_vectors
from lnattn.contribution.study import Contributions
from lnattn.selectability.decide import selectability
from lnattn.text.counts import Counts
from lnattn_book.chapters import papers_and_code as chapter
from lnattn_book.studies import samples
from lnattn_book.studies.detokenization import AffinityResult
from lnattn_book.studies.language_models import FrozenArm
from lnattn_book.studies.majority.long_runs import Experiment

VOCAB = 60
FIRST_TOKEN = 7


@pytest.fixture(scope="module")
def model():
    return random_gpt2(seed=3, d_model=24, heads=3, vocab=VOCAB, context=16)


@pytest.fixture(scope="module")
def first(model):
    layer = FirstLayer(embeddings_of(model), attention_layer(model), None, {"name": "tiny"})
    layer.embeddings.W_E.mul_(torch.linspace(0.2, 3, VOCAB)[:, None])  # σ differs
    return layer


@pytest.fixture(scope="module")
def documents():
    """Two texts in which the last ten tokens of the vocabulary never occur."""
    rng = np.random.default_rng(0)
    ids = np.minimum(rng.geometric(0.06, size=(2, 400)) - 1, VOCAB - 11)
    return [text.tolist() for text in ids]


@pytest.fixture
def on_texts(monkeypatch, documents):
    """The book's samples and counts are those of two made-up texts."""
    counts = Counts.from_documents([np.array(text) for text in documents], VOCAB)
    framed = [[FIRST_TOKEN, *text] for text in documents]
    monkeypatch.setattr(samples, "token_counts", lambda _: (counts, "made up"))
    monkeypatch.setattr(samples, "sample_tokens", lambda _: documents)
    monkeypatch.setattr(samples, "sample_framed", lambda _: framed)
    monkeypatch.setattr(chapter, "WINDOW", 8)
    return counts


# ---- Contributions -------------------------------------------------------------------------------


def of_means(**means: float) -> Contributions:
    """Contributions of one head, every term the same at all of four positions, two documents."""
    constant = np.array([means[term] for term in TERMS])
    mean = np.broadcast_to(constant[:, None, None], (6, 2, 4))
    quantiles = np.zeros((4, 6, 2))
    nothing = np.zeros((2, 6))
    record = {"causal": True, "terms": list(TERMS), "documents": 2}
    return Contributions(
        mean, 0 * mean, np.full(mean.shape, 2), quantiles, nothing, nothing, record
    )


def test_conventions_beside_the_text():
    """One doubles the second term, past the first; the other moves a mean by 4 % and no place."""
    text = {"pp": 4.0, "p": 3.0, "ee": 1.0, "ep": 0.5, "pe": 0.5 - 1e-3, "e": 1.0 + 1e-3}
    counted = {
        "text": of_means(**text),
        "unscaled": of_means(**{**text, "p": 6.0}),
        "cut": of_means(**{**text, "ep": 0.52}),
    }
    table = chapter.beside_the_text(counted)
    assert table["order"].tolist() == ["pp p e ee ep pe", "p pp e ee ep pe", "pp p e ee ep pe"]
    assert table["moved"].tolist() == ["", "p pp", ""]
    assert table["at most times"].tolist() == pytest.approx([1, 2, 1.04])
    assert table["changes at most"].tolist() == pytest.approx([0, 1, 0.04])
    smaller = chapter.beside_the_text({"text": counted["unscaled"], "less": counted["text"]})
    assert smaller.loc["less", ["at most times", "changes at most"]].tolist() == [1.0, 0.5]
    shares = chapter.shares_of_terms(counted)
    assert shares.sum(axis=1).tolist() == pytest.approx([1, 1, 1])
    assert shares.loc["unscaled", "any → position"] == pytest.approx(6 / 13)


# ---- The search ----------------------------------------------------------------------------------


def test_the_search_does_not_depend_on_the_unit():
    keys = np.random.default_rng(1).normal(size=(12, 2))
    found = chapter.searched_at_scales(keys, scales=(1e-4, 1.0))
    assert list(found) == [1e-4, 1.0]
    assert set(found.values()) == {selectability(keys).unselectable}
    assert found[1.0] > 0


def test_single_precision_has_a_rank_too_many():
    keys = np.random.default_rng(0).normal(size=(60, 4))
    assert chapter.ranks_after_layernorm(keys) == {"double": 3, "single": 4}


def arm(name: str, d: int, seed: int, searched: int, base: float, steps: int = 320) -> FrozenArm:
    """Shares [layer place window]: base + place/10, and 0.9 in windows that were not searched."""
    exact = np.full((4, 6, 5), base) + np.arange(6)[:, None] / 10
    exact[..., searched:] = 0.9
    plan: dict[str, Any] = {"d_model": d, "seed": seed, "steps": steps}
    arrays = {"exact": exact, "search": exact[..., :searched] - 0.05}
    return FrozenArm(name, arrays, {"arm": name, "plan": plan})


def test_models_are_compared_on_the_windows_that_were_searched():
    arms = [
        arm("no-scaling", 8, 0, 3, 0.2),
        arm("no-scaling", 8, 1, 3, 0.4),
        arm("no-scaling", 8, 2, 0, 0.0),
        arm("no-scaling", 16, 0, 3, 0.0),
        arm("full", 8, 0, 3, 0.0),
    ]
    assert chapter.of_trained_models(arms, "no-scaling") == pytest.approx((0.4, 0.35))


def test_inputs_are_means_over_the_seeds_of_one_width():
    arms = [arm("full", 8, 0, 5, 0.2), arm("full", 8, 1, 5, 0.4), arm("full", 16, 0, 5, 0.0)]
    arms += [arm("no-scaling", 8, 0, 5, 0.5), arm("no-scaling", 8, 0, 5, 0.9, steps=600)]
    shares = chapter.of_inputs(arms, ["full", "no-scaling"])
    assert shares == {"full": pytest.approx(0.3), "no-scaling": pytest.approx(0.5)}


# ---- Tokens and neighbours -----------------------------------------------------------------------


def test_zeros_for_tokens_without_bigrams_lower_the_best_head_most():
    """Three of four tokens have an AUROC; with zeros, heads' means fall to three quarters."""
    defined = np.array([[0.8, 0.6, np.nan, 1.0], [0.5, 0.4, np.nan, 0.3]])
    means = np.nanmean(defined, axis=1)
    study = Mock(spec=AffinityResult, share_defined=0.75, mean_auroc=lambda: means)
    with_zeros = np.nan_to_num(defined).mean(axis=1)
    lost = (means - with_zeros).max()
    assert chapter.auroc_lost_to_zeros(study) == pytest.approx(lost)
    assert lost == pytest.approx(0.2)


def test_the_study_is_of_the_models_vectors_and_counts(first, monkeypatch):
    study, counts = Mock(spec=AffinityResult), Mock(spec=Counts)
    asked = Mock(return_value=(study, "computed here"))
    monkeypatch.setattr(chapter, "counts_and_source", lambda _: (counts, {"model": "tiny"}))
    monkeypatch.setattr(chapter, "affinity_study", asked)
    assert chapter.auroc_study(first) is study
    vectors, *others = asked.call_args.args
    expected = token_vectors(fold(first.attention), first.embeddings)
    assert torch.equal(vectors.queries, expected.queries)
    assert others == [first.embeddings, counts, {"model": "tiny"}]


def test_half_precision_moves_sigma_and_areas(first, on_texts):
    """σ and T^ee computed anew, areas by scikit-learn."""
    found = chapter.in_half_precision(first, tokens=10)
    tokens, places = first.embeddings.W_E, first.embeddings.W_P
    exact = torch.stack([sigma(tokens + place, first.attention.ln.eps) for place in places]).mean(0)
    rounded = exact.half()
    assert found.sigma == pytest.approx(float((rounded / exact - 1).abs().max()), rel=1e-6)
    before = Neighbours.before(on_texts.bigrams)
    known = np.flatnonzero(before.n_distinct)
    drawn = np.random.default_rng(0).choice(known, 10, replace=False)
    areas = [_areas(first, divisor, before, drawn) for divisor in (exact, rounded.to(exact))]
    assert found.auroc == pytest.approx(np.abs(areas[1] - areas[0]).max(), abs=1e-10)
    assert found.auroc > 0


def _areas(first, divisor, before, queries):
    folded = fold(first.attention)
    rows = first.embeddings.W_E / divisor[:, None]
    heads = []
    for W_Q, W_K in zip(folded.W_Q, folded.W_K, strict=True):
        scores = (rows @ W_Q @ (rows @ W_K).T).numpy()
        areas = []
        for query in queries.tolist():
            positive, weight = before.labels(query)
            areas.append(roc_auc_score(positive, scores[query], sample_weight=weight))
        heads.append(np.mean(areas))
    return np.array(heads)


def test_tokens_that_never_occur_move_the_rank_correlation(first, on_texts):
    """Var(e) and T^e of each head, by scipy, over all tokens and over those that occur."""
    moved = chapter.rho_moved_by_zeros(first)
    counts = on_texts.unigrams
    tokens, places = first.embeddings.W_E, first.embeddings.W_P
    eps = first.attention.ln.eps
    divisor = torch.stack([sigma(tokens + place, eps) for place in places]).mean(0)
    asserted = (tokens @ fold(first.attention).b_QK.T / divisor[:, None]).numpy().T
    known = [*asserted, tokens.var(dim=1, correction=0).numpy()]
    occurs = counts > 0
    changes = [
        spearmanr(values, counts).statistic - spearmanr(values[occurs], counts[occurs]).statistic
        for values in known
    ]
    assert moved == pytest.approx(np.abs(changes).max())


# ---- Attention -----------------------------------------------------------------------------------


def test_moved_by_hand():
    one = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    other = np.array([[0.4, 0.5, 0.1], [0.1, 0.8, 0.1]])
    assert chapter.moved(one, other) == pytest.approx((0.1, 0.5))


def test_a_first_token_moves_attention_as_in_hugging_face(model, first, on_texts, documents):
    found = chapter.moved_by_first_token(first)
    bodies = {
        with_token: np.array(
            [
                ([FIRST_TOKEN] if with_token else []) + text[start : start + 8 - with_token]
                for text in documents
                for start in range(0, len(text) - (8 - with_token) + 1, 8 - with_token)
            ]
        )
        for with_token in (True, False)
    }
    means = []
    for ids in bodies.values():
        with torch.no_grad():
            attention = model(torch.from_numpy(ids), output_attentions=True).attentions[0]
        means.append(attention[:, :, 7].mean(dim=0).numpy())  # [head key]
    change = np.abs(means[0] - means[1])
    expected = (change[:, 0].max(), change.sum(axis=1).max() / 2)
    assert found == pytest.approx(expected, abs=1e-10)


# ---- Majority ------------------------------------------------------------------------------------


def test_slower_by_the_median_run():
    assert chapter.times_slower(BOTH, ["authors", "layernorm"], 0.8) == [2.5, 1.0]
    assert math.isnan(chapter.times_slower(BOTH, ["authors"], 0.95)[0])


def test_only_the_default_setting_is_taken_from_a_sweep():
    other = curves("authors", [[0.1, 0.8, 0.9, 0.9]] * 2, learning_rate=0.01)
    wide = curves("layernorm", [[0.1, 0.8, 0.9, 0.9]] * 2, initial_scale=4.0)
    sweep = Experiment((FAST, other, SLOW, wide), {})
    assert chapter.at_default_setting(sweep, ["authors", "layernorm"]).curves == (SLOW, FAST)
