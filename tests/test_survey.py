"""The survey of claims: one rule a claim, a null keeps values and loses places, freezing."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial as partial_function

import numpy as np
import pytest
import torch
from families import CONTEXT, VOCAB, make, save
from naming import naming

from lnattn import Embeddings, load_first_layer
from lnattn.attention.nulls import permuted_weights
from lnattn.errors import ResultError
from lnattn.position.measured import windows
from lnattn.text.counts import Counts
from lnattn_book.claims import survey
from lnattn_book.claims.listed import claim as claim_of
from lnattn_book.claims.survey import ASKED, Surveyed
from lnattn_book.claims.verdicts import VERDICTS, Record

HOLDS, _, FAILS, NOT_SEEN, UNDECIDED, NOT_COMPUTABLE = VERDICTS


class Words:
    """A tokenizer for which every word is a token."""

    def get_vocab(self):
        return {}

    def __call__(self, text, **_):
        return {"input_ids": [1 + sum(map(ord, text)) % (VOCAB - 1)]}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    first = load_first_layer(save(make("gpt2", torch.float32), tmp_path_factory.mktemp("tiny")))
    return replace(first, tokenizer=Words())


@pytest.fixture(scope="module")
def found(model):
    documents = np.random.default_rng(1).integers(VOCAB, size=(30, CONTEXT)).tolist()
    counts = Counts.from_documents([np.asarray(ids) for ids in documents], VOCAB)
    seen = Surveyed(model, partial_function(windows, documents), documents, counts)
    return survey.survey(seen)


@pytest.fixture(scope="module")
def partial(model):
    return replace(model, embeddings=Embeddings(None, model.embeddings.W_P))


def test_every_claim_gets_a_verdict_by_its_rule(found, model):
    assert list(found) == list(ASKED)
    for claim, one in found.items():
        assert (one.claim, one.model) == (claim, model.name)
        assert one.verdict in set(VERDICTS) - {NOT_COMPUTABLE}, claim
        assert one.short, claim
        assert claim_of(claim).measure, claim
    assert found["K11"].verdict == found["K12"].verdict == UNDECIDED  # too few are counted


def test_partial_model_answers_what_it_can(partial):
    found = survey.survey(Surveyed(partial))
    answered = {claim for claim, one in found.items() if one.verdict != NOT_COMPUTABLE}
    assert answered == {"K6", "K7", "K8", "K13", "K14"}
    assert "token embeddings" in found["K3"].words


def test_planted_effects_are_found_and_lost_by_the_null(model):
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
    assert survey.survey(Surveyed(rising))["K6"].values["spearman, most"] > 0.99
    noise[0], noise[-1] = 40 * noise[0], 1e-4 * noise[-1]
    planted = replace(model, embeddings=Embeddings(None, noise))
    found = survey.survey(Surveyed(planted))
    assert found["K13"].values["first"] > 10
    assert found["K13"].values["last"] < -10
    assert found["K14"].verdict == HOLDS
    for seed in range(3):
        ends, slope = (
            survey.survey(Surveyed(permuted_weights(one, seed))) for one in (planted, rising)
        )
        assert ends["K13"].verdict != HOLDS
        assert slope["K6"].values["spearman, most"] < 0.99


def test_null_keeps_values_and_loses_places(model):
    null, again = permuted_weights(model, 3), permuted_weights(model, 3)
    for owner in ("embeddings", "attention"):
        for name, tensor in vars(getattr(model, owner)).items():
            if isinstance(tensor, torch.Tensor):
                dealt = getattr(getattr(null, owner), name)
                assert torch.equal(dealt.flatten().sort().values, tensor.flatten().sort().values)
                assert not torch.equal(dealt, tensor), name
    assert torch.equal(again.attention.W_Q, null.attention.W_Q)
    assert "permuted" in null.name


def test_survey_of_null_shows_the_best_deal_and_how_many_got_there(partial, monkeypatch):
    verdicts = iter([NOT_SEEN, HOLDS, FAILS, HOLDS])

    def judge(*_found, model):
        assert "random order" in model or "permuted" in model or "dealt anew" in model
        return Record(next(verdicts), "words", claim="K6", model=model)

    monkeypatch.setattr(survey.kamoda, "k6", judge)
    found = survey.survey_of_null(Surveyed(partial), seeds=range(4))
    assert (found["K6"].verdict, found["K6"].short) == (HOLDS, "2 of 4")
    assert found["K3"].verdict == NOT_COMPUTABLE


def test_frozen_survey_comes_back_and_an_outdated_one_is_refused(found, model, tmp_path):
    path = survey.write_survey(tmp_path, found, model, texts="random")
    back, record = survey.read_survey(tmp_path)
    assert back == found
    assert record["model"]["weights_sha256"] == model.provenance["weights_sha256"]
    path.write_text(json.dumps({**record, "verdicts": record["verdicts"][1:]}))
    with pytest.raises(ResultError, match="no survey"):
        survey.read_survey(tmp_path)
    record["verdicts"][0]["rule"] = "another rule"
    path.write_text(json.dumps(record))
    with pytest.raises(ResultError, match=naming("rule", "K3")):
        survey.read_survey(tmp_path)
