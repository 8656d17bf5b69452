"""The composition study: tables by hand, freezing, and GPT-2's induction circuit in the weights."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from random_models import random_gpt2, random_layer

import lnattn
from lnattn import composition
from lnattn.attention.circuits import composition_scores, model_composition
from lnattn.composition import (
    CompositionStudy,
    double_centred,
    exceedances,
    pair_table,
    study_composition,
    threshold,
)
from lnattn.errors import ResultError
from lnattn.storage import sha256_of_file, write_result
from lnattn_book.composition import study_checkpoint, study_of_gpt2


@pytest.fixture(scope="module")
def layers():
    return [random_layer(i, 12, 2, 3) for i in range(4)]


@pytest.fixture(scope="module")
def study(layers):
    W_P = torch.randn(9, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return study_composition(layers, W_P, {"name": "random", "weights_sha256": "0" * 64})


def test_frozen_scores_of_gpt2_stand_in_only_where_the_live_model_is_not_gpt2(study):
    hub, scores = "hub model openai-community/gpt2", torch.zeros(3, 12, 12, 12, 12)
    whole = replace(study.raw, scores=scores)
    live = replace(study, raw=whole, record={"name": "gpt2", "source": hub})
    assert study_of_gpt2(live)[0] is live
    for other in (
        replace(live, record={"name": "gpt2", "source": "local folder gpt2"}),
        replace(live, raw=study.raw),  # a stand-in with fewer heads
    ):
        found, computed = study_of_gpt2(other)
        assert found.record["metadata"]["model"].startswith("openai-community/gpt2")
        assert "frozen" in computed


def test_pair_table_has_every_pair_once_with_its_numbers(study):
    table = pair_table(study.raw, "K")
    assert len(table) == 64
    assert table["score"].is_monotonic_decreasing
    row = table.set_index(["writer", "reader"]).loc[("1.0", "3.1")]
    score = study.raw.of("K")[1, 0, 3, 1].item()
    assert row["score"] == pytest.approx(score)
    assert row["excess"] == pytest.approx(score - 12**-0.5)
    assert row["possible"]
    impossible = table[~table["possible"]]["score"]
    assert row["impossible_share"] == pytest.approx((impossible >= score).mean())
    assert (table["possible"] == (table["writer"].str[0] < table["reader"].str[0])).all()


def test_shares_count_ties_as_reached():
    scores = torch.tensor([[0.1, 0.2], [0.2, 0.3]], dtype=torch.float64)
    share = composition._share_at_least(scores, scores.flatten())
    assert share.tolist() == [[1.0, 0.75], [0.75, 0.25]]


def test_table_without_impossible_pairs_says_so(layers):
    only = model_composition(layers)
    table = pair_table(only, "Q")
    assert len(table) == 4 * 6
    assert table["possible"].all()
    assert table["impossible_share"].isna().all()
    with pytest.raises(ResultError, match="impossible pairs were not computed"):
        threshold(only, "Q")


def test_double_centring_removes_what_a_head_has_with_everybody():
    generator = torch.Generator().manual_seed(0)
    writer = torch.rand(3, 4, 1, 1, generator=generator, dtype=torch.float64)
    reader = torch.rand(1, 1, 3, 4, generator=generator, dtype=torch.float64)
    scores = writer + reader
    assert double_centred(scores).abs().max() < 1e-12
    scores = scores.clone()
    scores[0, 1, 2, 3] += 1
    special = double_centred(scores)
    assert special[0, :, 2].argmax().item() == 1 * 4 + 3
    assert special[0, 1, 2, 3].item() == pytest.approx((3 / 4) ** 2)


@pytest.mark.parametrize(("special", "column"), [(False, "score"), (True, "special")])
def test_exceedances_count_against_the_impossible_quantile(study, special, column):
    table = exceedances(study.raw, share=0.1, special=special)
    for kind in "QKV":
        pairs = pair_table(study.raw, kind)
        level = np.quantile(pairs[~pairs["possible"]][column], 0.9)
        assert table.loc[kind, "threshold"] == pytest.approx(level)
        assert table.loc[kind, "above"] == (pairs[pairs["possible"]][column] >= level).sum()
        assert table.loc[kind, "expected"] == pytest.approx(0.1 * 24)


def test_study_of_a_folder_names_its_files_and_their_checksums(tmp_path):
    random_gpt2(3, 2, 24, 3).save_pretrained(tmp_path)
    study = study_checkpoint(tmp_path)
    name = "model.safetensors"
    assert study.record["files"] == [name]
    assert study.record["file_sha256"] == {name: sha256_of_file(tmp_path / name)}
    assert study.raw.scores.shape == (3, 2, 3, 2, 3)
    assert str(tmp_path) not in json.dumps(study.record)


def test_frozen_study_reads_back_the_same(study, tmp_path):
    path = study.write(tmp_path)
    assert path.name == "composition.json"
    again = CompositionStudy.read(tmp_path)
    assert torch.equal(again.raw.scores, study.raw.scores)
    assert torch.equal(again.folded.read_spectrum, study.folded.read_spectrum)
    assert torch.equal(again.previous_token, study.previous_token)
    assert again.record["weights_sha256"] == "0" * 64
    assert again.name == "random"
    assert again.raw.d_model == 12


def test_a_result_of_another_kind_is_refused(tmp_path):
    write_result(tmp_path, "composition", {"x": np.zeros(2)}, {"d_model": 3})
    with pytest.raises(ResultError, match="no frozen CompositionStudy"):
        CompositionStudy.read(tmp_path)
    with pytest.raises(ResultError, match="does not exist"):
        CompositionStudy.read(tmp_path / "nowhere")


def test_raw_scores_ignore_the_layernorm_and_folded_ones_do_not(layers, study):
    gains = [replace(layer, ln=replace(layer.ln, gamma=layer.ln.gamma.flip(0))) for layer in layers]
    other = study_composition(gains, torch.randn(9, 12).double(), {})
    assert torch.equal(other.raw.scores, study.raw.scores)
    assert (other.folded.scores - study.folded.scores).abs().max() > 1e-3


def test_gpt2s_induction_heads_read_the_previous_token_head(gpt2_attention_folder):
    """Head 4.11 into layer 5, K-composition of the raw weights: four readers stand out."""
    one, two = lnattn.load_attention_layers(gpt2_attention_folder)[4:6]
    scores = composition_scores(one, two, "K")[11]
    expected = {0: 0.088, 1: 0.102, 5: 0.098, 8: 0.086}
    for head, value in expected.items():
        assert scores[head].item() == pytest.approx(value, abs=5e-4)
    others = [scores[head].item() for head in range(12) if head not in expected]
    assert min(scores[head].item() for head in expected) > max(others) + 0.02
