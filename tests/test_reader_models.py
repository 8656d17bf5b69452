"""What the chapters ask of a model, asked of models that lack something.

Here the functions behind the panels, on made models. LNATTN_WEEKLY=1 runs whole chapters on all of
them: an hour on two cores.
"""

from __future__ import annotations

import os

import matplotlib as mpl
import numpy as np
import odd_models
import pytest

pytest.importorskip("jupytext", reason="jupytext is absent: pip install .[book]")
import chapter_runs

import lnattn
from lnattn.contribution.study import contributions
from lnattn.models.reference import load_reference_model
from lnattn.position.bias import position_bias
from lnattn.position.curves import trends_of
from lnattn.position.sigma import inverse_sigma_bands
from lnattn_book.chapters import circuits, folding, layernorm, six_terms
from lnattn_book.figures import contribution as contribution_figures
from lnattn_book.studies import samples
from lnattn_book.studies.variance import frequency_study, variance_of_inputs

mpl.use("Agg")
SENTENCE = "The Libertarian candidate from New York visited Michelle Obama in Washington."
#: Chapters that have a panel on the reader's model, by the beginning of their file's name.
CHAPTERS = (
    "transformer-layer",
    "circuits",
    *(f"{number:02d}" for number in (*range(1, 8), *range(9, 13))),
)


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    return {
        name: odd_models.make(name, tmp_path_factory.mktemp("odd") / name)
        for name in odd_models.ODD
    }


@pytest.fixture(params=list(odd_models.ODD))
def folder(request, folders):
    return folders[request.param]


@pytest.fixture
def model(folder):
    return lnattn.load_first_layer(folder)


def test_six_terms_are_the_attention_of_every_model(model, folder):
    """Chapters 2 and 3. Families whose softmax is computed in single precision agree to that."""
    own = six_terms.of_sentence(model, SENTENCE)
    assert own.terms.ee.shape[0] == model.attention.n_heads
    errors = folding.trained_errors(load_reference_model(folder), model, SENTENCE)
    assert errors["float32"] < 1e-4
    assert errors["float64"] < 1e-5
    sizes = six_terms.spread(own.terms)
    assert np.isfinite(sizes).all()


def test_parts_of_the_input_and_biases_of_every_model(model):
    """Chapters 1 and 2."""
    cosine, length = layernorm.removed(layernorm.inputs(model))
    assert np.isfinite(cosine).all()
    assert np.isfinite(length).all()
    x = folding.inputs_of(model, SENTENCE)
    assert folding.moved_by_bias(model.attention, x)["b_K"] < 1e-6
    assert circuits.circuit_errors(model.attention.to(x.dtype), x).attention < 1e-8


def test_trends_and_correlations_are_nan_only_without_a_query_bias(model):
    """Chapters 5 and 7: T^p and T^e are zero there, and have no trend."""
    folded, rows = lnattn.fold(model.attention), model.embeddings.W_P
    asserts = bool(folded.b_QK.any())
    bands = inverse_sigma_bands(model.embeddings, folded.eps)
    bias = position_bias(folded, rows, (2, len(rows) - 2), bands)
    rho = np.array([head.spearman for head in trends_of(bias.term_p().mean)])
    assert np.isfinite(rho).all() == asserts
    counts, _ = samples.token_counts(model)
    inputs = variance_of_inputs(model.embeddings, folded.eps)
    study = frequency_study(folded, model.embeddings, inputs, counts.unigrams)
    of_heads = np.array([head.rho for head in study.head_correlations])
    assert np.isfinite(of_heads).all() == asserts


def test_contributions_are_drawn_where_a_term_is_constant(model):
    """Chapter 6."""
    folded, documents = lnattn.fold(model.attention), samples.sample_framed(model)[:3]
    result = contributions(folded, model.embeddings, documents, source=model.provenance)
    lines = contribution_figures.by_position(result).axes[0].get_lines()
    assert len(lines) == (6 if folded.b_QK.any() else 4)


@pytest.mark.parametrize("chapter", CHAPTERS if "LNATTN_WEEKLY" in os.environ else ())
def test_every_chapter_runs_to_its_end_on_every_model(folder, chapter, monkeypatch):
    monkeypatch.setenv("LNATTN_MODEL", str(folder))
    done = chapter_runs.run(chapter)
    assert "Error:" not in done.said, "a mistake in the code is no lack of the model"
