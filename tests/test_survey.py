"""The survey of claims: a null keeps values and loses places; frozen surveys come back."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from random_families import CONTEXT, VOCAB, make, save

from lnattn import Embeddings, load_first_layer
from lnattn.book.figures.models import claims_by_models
from lnattn.claims import kamoda as survey_rules
from lnattn.claims import survey
from lnattn.errors import ResultError


class Words:
    """A tokenizer for which every name is a token."""

    unk_token_id = 0

    def __call__(self, text, **_):
        return {"input_ids": [1 + sum(map(ord, text)) % (VOCAB - 1)]}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    first = load_first_layer(save(make("gpt2", torch.float32), tmp_path_factory.mktemp("tiny")))
    return replace(first, tokenizer=Words())


@pytest.fixture(scope="module")
def documents():
    generator = np.random.default_rng(1)
    return [generator.integers(VOCAB, size=CONTEXT).tolist() for _ in range(30)]


@pytest.fixture
def short_windows(monkeypatch):
    monkeypatch.setattr(survey_rules, "_WINDOW", 12)


def test_every_claim_gets_an_answer(model, documents, short_windows):
    found = survey.survey(model, documents)
    assert list(found) == list(survey.RULES)
    for claim, one in found.items():
        assert one.claim == claim
        assert np.isfinite(one.value), claim
        assert isinstance(one.holds, bool), claim


def test_partial_model_answers_what_it_can(model):
    partial = replace(model, embeddings=Embeddings(None, model.embeddings.W_P))
    found = survey.survey(partial)
    answered = {claim for claim, one in found.items() if one.holds is not None}
    assert answered == {"K6", "K7", "K13", "K14"}
    assert all(np.isnan(found[c].value) for c in set(found) - answered)


def test_planted_effects_are_found_and_lost_by_the_null(model, documents, short_windows):
    """A first position of huge variance, a last one of none, and T^p that rises in every head."""
    d = model.embeddings.d_model
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(d, generator=generator)
    direction -= direction.mean()
    noise = torch.randn(CONTEXT, d, generator=generator)
    places = 1e-3 * noise + 0.1 * torch.arange(CONTEXT)[:, None] * direction
    asserted = torch.einsum("hdk,d->hk", model.attention.W_K, model.attention.ln.gamma * direction)
    # b_Q along the key of `direction`, β = 0: b_QK · direction > 0 in every head.
    ln = replace(model.attention.ln, beta=torch.zeros(d))
    attention = replace(model.attention, b_Q=asserted, ln=ln)
    rising = replace(model, embeddings=Embeddings(None, places), attention=attention)
    assert survey.survey(rising)["K6"].value == 1
    ends = noise.clone()
    ends[0] *= 40
    ends[-1] *= 1e-4
    planted = replace(model, embeddings=Embeddings(None, ends))
    found = survey.survey(planted)
    assert found["K13"].holds
    assert found["K14"].holds
    for seed in range(3):
        assert not survey.survey(survey.dealt_anew(planted, seed))["K13"].holds
        assert survey.survey(survey.dealt_anew(rising, seed))["K6"].value < 1


def test_null_keeps_values_and_loses_places(model):
    null = survey.dealt_anew(model, 3)
    for owner in ("embeddings", "attention"):
        for name, tensor in vars(getattr(model, owner)).items():
            if isinstance(tensor, torch.Tensor):
                dealt = getattr(getattr(null, owner), name)
                assert torch.equal(dealt.flatten().sort().values, tensor.flatten().sort().values)
                assert not torch.equal(dealt, tensor), name
    assert not torch.equal(null.attention.ln.gamma, model.attention.ln.gamma)
    assert null.attention.scale == model.attention.scale
    again = survey.dealt_anew(model, 3)
    assert torch.equal(again.attention.W_Q, null.attention.W_Q)
    assert "dealt anew" in null.name


def test_survey_of_null_counts_who_passes(model, monkeypatch):
    partial = replace(model, embeddings=Embeddings(None, model.embeddings.W_P))
    values = iter([0.2, 0.9, 0.7])
    rule = replace(survey.RULES["K6"], compute=lambda _subject: ((v := next(values)), v >= 0.5, ""))
    monkeypatch.setitem(survey.RULES, "K6", rule)
    found = survey.survey_of_null(partial, seeds=range(3))
    assert found["K6"] == survey.Finding("K6", 0.7, True, "2 of 3 pass")
    assert found["K3"].holds is None


def test_frozen_survey_comes_back(model, documents, short_windows, tmp_path):
    found = survey.survey(model, documents)
    survey.write_survey(tmp_path, found, model, texts="random")
    back, record = survey.read_survey(tmp_path)
    assert back == found
    assert record["model"]["weights_sha256"] == model.provenance["weights_sha256"]
    assert record["texts"] == "random"


def test_outdated_or_foreign_survey_is_refused(model, tmp_path):
    partial = replace(model, embeddings=Embeddings(None, model.embeddings.W_P))
    path = survey.write_survey(tmp_path, survey.survey(partial), model)
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "findings": record["findings"][1:]}))
    with pytest.raises(ResultError, match="does not fit"):
        survey.read_survey(tmp_path)
    record["findings"][0]["measure"] = "something else"
    path.write_text(json.dumps(record))
    with pytest.raises(ResultError, match="in another way"):
        survey.read_survey(tmp_path)


def test_table_marks_verdicts(model):
    found = {c: survey.Finding(c, 0.5, True) for c in survey.RULES}
    none = {c: survey.Finding(c, float("nan"), None, "needs token embeddings") for c in found}
    table = claims_by_models({"a": found, "b": none})
    assert list(table.index) == list(survey.RULES)
    assert table.loc["K6", "a"] == "✓ 0.50"
    assert set(table["b"]) == {"–"}


def test_single_token():
    assert survey_rules.single_token(Words(), "york") is not None

    class Pieces(Words):
        def __call__(self, text, **_):
            return {"input_ids": [1, 2]}

    assert survey_rules.single_token(Pieces(), "york") is None
