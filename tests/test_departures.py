"""The page on departures: each effect is what a slow and obvious computation gives."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2

import lnattn
from lnattn import FirstLayer
from lnattn.majority.train import MajorityPlan
from lnattn.storage import write_result
from lnattn.text.counts import Counts
from lnattn_book import departures
from lnattn_book import language_models as evaluation
from lnattn_book.departures import effects_on_training


@pytest.fixture(scope="module")
def model() -> FirstLayer:
    whole = random_gpt2(seed=5, d_model=12, heads=3, vocab=30, context=16)
    return FirstLayer(embeddings_of(whole), attention_layer(whole), tokenizer=None, provenance={})


def test_half_precision_rounds_before_and_after_the_mean(model):
    eps = model.attention.ln.eps
    found = departures.half_precision_sigma(model.embeddings, eps)
    for token in (0, 7, 29):
        inputs = model.embeddings.W_E[token] + model.embeddings.W_P
        sigmas = (inputs.var(dim=-1, unbiased=False) + eps).sqrt()
        by_hand = np.float16(np.float32(sigmas.numpy().astype(np.float16)).mean())
        assert float(found[token]) == pytest.approx(float(by_hand), rel=1e-3)
        assert float(found[token]) == float(found[token].half())


def test_rounding_comes_before_the_mean_too(model, monkeypatch):
    """1.00045 and 1.0014 round to 1 and 1 + 2⁻¹⁰, whose mean rounds to 1; theirs does not."""
    both = torch.tensor([1.00045, 1.0014])
    monkeypatch.setattr(
        departures, "sigma_of_pairs", lambda embeddings, ids, *_: both.expand(len(ids), 2)
    )
    assert (departures.half_precision_sigma(model.embeddings, 0.0) == 1).all()
    assert both.mean().half() > 1


def test_the_effect_of_half_precision_is_small_and_not_nothing(model):
    documents = [np.random.default_rng(0).integers(30, size=200)]
    effect = departures.effect_of_half_sigma(model, Counts.from_documents(documents, 30), 20)
    assert 0 < effect.change < 2e-3
    assert effect.full.shape == effect.half.shape == (3,)
    assert np.abs(effect.full - effect.half).max() < 0.02


def test_attention_with_and_without_a_first_token(model):
    document = list(range(1, 12))
    two = departures.attention_with_and_without(model, [document], first=0, length=6)
    folded = lnattn.fold(model.attention)
    for name, window in (
        ("with", [[0, *range(1, 6)], [0, *range(6, 11)]]),
        ("without", [document[:6]]),
    ):
        last = [
            lnattn.six_terms(folded, model.embeddings, torch.tensor(ids)).attention()[:, -1]
            for ids in window
        ]
        torch.testing.assert_close(torch.from_numpy(two[name]), torch.stack(last).mean(dim=0))


def test_search_and_proof_agree_on_corners_with_a_point_inside():
    corners = np.array([[2.0, 1, 0], [0, -1, 1], [-1, 2, 0.5], [1, 0, -2]])
    keys = np.vstack([corners, corners.mean(axis=0)])
    table = departures.exact_and_searched(keys, scales=(1.0,))
    assert list(table.columns) == ["exact", "× 1"]
    assert table.loc["as drawn, float64"].tolist() == pytest.approx([0.2, 0.2])


def test_keys_lose_a_dimension_in_layer_norm_and_rounding_hides_it():
    keys = np.random.default_rng(0).standard_normal((60, 4))
    assert departures.ranks_after_layer_norm(keys) == (3, 4)


def test_what_is_not_measured_says_so(tmp_path):
    effects = effects_on_training(tmp_path)
    assert len(effects) == 5
    assert all("not measured" in effect for effect in effects.values())
    write_result(
        tmp_path / "selectability", "lengths", {"lengths": np.array([5, 800])}, {"shortest": 768}
    )
    assert effects_on_training(tmp_path)["samples"] == "long enough: 1 of 2 contexts"


def freeze_runs(folder, name: str, arrivals: dict[str, int]) -> None:
    """An experiment whose arms arrive at these epochs; of layernorm there is one run less."""
    epoch = np.arange(0, 100, 2)
    plan = asdict(MajorityPlan(learning_rate=1e-3, initial_scale=1.0))
    jobs, arrays = [], {}
    for arm, arrival in arrivals.items():
        runs = 2 if arm == "layernorm" else 3
        reached = np.stack([np.where(epoch >= arrival, 1.0, 0.0)] * runs)
        arrays |= {f"{arm}/{key}": reached for key in ("accuracy", "angle", "spread")}
        arrays |= {f"{arm}/{key}": np.zeros((runs, 20, 8)) for key in ("queries", "keys")}
        arrays |= {f"{arm}/epoch": epoch, f"{arm}/loss": 1 - reached}
        jobs.append({"name": arm, "arm": arm, "plan": plan, "seeds": list(range(runs))})
    write_result(folder, name, arrays, {"jobs": jobs})


def test_frozen_training_runs_are_compared(tmp_path):
    """Without projection 8 times slower by the code's norms, 2 times at equal norm."""
    folder, arrivals = tmp_path / "majority", {"authors": 80, "rms": 20}
    for name in ("main", "sweep", "authors"):
        freeze_runs(folder, name, {"layernorm": 10, **arrivals})
    effects = effects_on_training(tmp_path)
    assert "8 (8 to 8) by the code, 2 (2 to 2) at equal norm" in effects["norm"]
    assert "8 by the text, 8 by the code" in effects["schedule"]
    for name in ("main", "sweep", "authors"):
        freeze_runs(folder, name, {"layernorm": 1000, **arrivals})
    effects = effects_on_training(tmp_path)
    assert "(not reached) by the code" in effects["norm"]
    assert "(not reached) by the text" in effects["schedule"]


def test_the_search_is_compared_on_the_windows_it_was_run_on(tmp_path):
    """Two runs of an arm, one without any search; the second window would change the share."""
    exact = np.zeros((4, 6, 2))
    exact[:, evaluation.KEYS] = 0.5, 0.1
    exact[:, evaluation.BEFORE] = 0.3
    folder = tmp_path / "selectability"
    for searched in (1, 0):
        plan = {"d_model": 8, "seed": searched, "steps": 9}
        arrays = {"exact": exact, "search": np.full((4, 2, searched), 0.4)}
        write_result(folder, f"lm-{searched}", arrays, {"arm": "full", "plan": plan})
    effects = effects_on_training(tmp_path)
    assert effects["search"] == "mean over layers of full: 50.0% exactly, 40.0% by the search"
    assert effects["before"] == "unselectable before LayerNorm, mean over layers: full: 30.0%"
    for path in folder.glob("lm-1.*"):
        path.unlink()
    assert "was not run" in effects_on_training(tmp_path)["search"]
