"""Looks at small models against loops over queries and keys."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2
from safetensors.torch import save_file

from experiments.book_model.plan import TrainingPlan
from experiments.book_model.snapshot_tables import by_position, look, near_spread
from experiments.book_model.snapshots import snapshots
from experiments.tokens import train_bpe
from lnattn import FirstLayer, fold, six_terms
from lnattn.affinity.subwords import PieceRule
from lnattn.errors import CheckpointError, CorpusError
from lnattn.position.sigma import inverse_sigma_bands
from lnattn.storage import write_json
from lnattn.text.counts import Counts
from lnattn_book.studies.small_models import BEST


class Letters:
    """Half of the tokens begin a word, half continue one."""

    all_special_ids = (0,)

    def get_vocab(self) -> dict[str, int]:
        return {("Ġ" if i % 2 else "") + chr(97 + i // 26) + chr(97 + i % 26): i for i in range(50)}

    def convert_tokens_to_string(self, pieces: list[str]) -> str:
        return pieces[0].replace("Ġ", " ")


@pytest.fixture(scope="module")
def model() -> FirstLayer:
    whole = random_gpt2(seed=8, d_model=12, heads=3, vocab=50, context=24)
    return FirstLayer(embeddings_of(whole), attention_layer(whole), Letters(), {"name": "random"})


@pytest.fixture(scope="module")
def counts() -> Counts:
    rng = np.random.default_rng(1)
    return Counts.from_documents([np.minimum(rng.zipf(1.4, 900) - 1, 49)], 50)


def test_spread_among_near_keys_by_a_loop() -> None:
    scores = torch.randn(2, 9, 9, generator=torch.Generator().manual_seed(0)).double()
    expected = [
        [np.std([float(scores[head, i, i - o]) for o in (1, 2, 3)]) for i in range(4, 9)]
        for head in (0, 1)
    ]
    spread = near_spread(scores, window=3)
    np.testing.assert_allclose(spread.numpy(), np.mean(expected, axis=1))
    with pytest.raises(CorpusError, match="9 tokens"):
        near_spread(scores, window=9)


def test_a_look_is_made_of_its_parts(model: FirstLayer, counts: Counts) -> None:
    rng = np.random.default_rng(2)
    documents = [rng.integers(0, 50, size).tolist() for size in (24, 10, 40)]
    table = look(model, counts, documents, PieceRule(3, 0.1)).set_index("head")
    assert list(table.index) == [0, 1, 2, BEST]
    assert (table["pieces"] > 1).all()
    assert table["found"].between(0, 1).all()
    assert table.loc[BEST, "found"] >= table["found"].max()
    assert table.loc[BEST, ["previous", "spread ee"]].isna().all()
    folded = fold(model.attention)
    for term in ("ee", "pp"):  # the short document takes no part, the long one is cut
        spread = [
            near_spread(six_terms(folded, model.embeddings, ids[:24])[term])
            for ids in (documents[0], documents[2])
        ]
        expected = (spread[0] + spread[1]) / 2 / folded.scale
        np.testing.assert_allclose(table[f"spread {term}"][:3], expected.numpy())
    sigma = inverse_sigma_bands(model.embeddings, folded.eps)
    itself, previous = by_position(folded, model.embeddings.W_P, sigma)
    np.testing.assert_allclose(table["previous"][:3], previous)
    np.testing.assert_allclose(table["itself"][:3], itself)
    with pytest.raises(CorpusError, match="context of 24"):
        look(model, counts, documents[1:2], PieceRule(3, 0.1))


def test_attention_by_position_by_a_loop(model: FirstLayer) -> None:
    folded = fold(model.attention)
    places = model.embeddings.W_P
    sigma = inverse_sigma_bands(model.embeddings, folded.eps)
    itself, previous = by_position(folded, places, sigma)
    for head in range(3):
        before = []
        on_itself = []
        for i in range(12, 24):
            query = places[i] @ folded.W_Q[head] * sigma.mean[i] + folded.b_Q[head]
            keys = places[: i + 1] @ folded.W_K[head] * torch.from_numpy(sigma.mean[: i + 1, None])
            alpha = torch.softmax(keys @ query / folded.scale, dim=0)
            before.append(float(alpha[i - 1]))
            on_itself.append(float(alpha[i]))
        assert previous[head] == pytest.approx(np.mean(before))
        assert itself[head] == pytest.approx(np.mean(on_itself))


def test_snapshots_of_a_run_are_its_first_layers(tmp_path) -> None:
    words = ["sap", "iens", "homo", "an", "old", "word", "new"]
    rng = np.random.default_rng(0)
    train_bpe((" ".join(rng.choice(words, 60)) for _ in range(20)), 270).save_pretrained(
        str(tmp_path)
    )
    with pytest.raises(CheckpointError, match="checkpoint/step"):
        list(snapshots(tmp_path))
    plan = TrainingPlan(
        layers=1, d_model=12, heads=3, context=8, vocab_size=270, batch=5, steps=200
    )
    write_json(tmp_path / "checkpoint" / "progress.json", {"plan": vars(plan), "step": 130})
    wholes = {}
    for step in (128, 64):
        wholes[step] = random_gpt2(step, d_model=12, heads=3, vocab=270, context=8).half()
        weights = {k: v for k, v in wholes[step].state_dict().items() if k != "lm_head.weight"}
        save_file(weights, tmp_path / "checkpoint" / f"step-{step:06d}.safetensors")
    run = list(snapshots(tmp_path))
    assert [(snapshot.step, snapshot.tokens) for snapshot in run] == [
        (64, 64 * 40),
        (128, 128 * 40),
    ]
    wholes[130] = wholes[64]
    save_file(weights, tmp_path / "model.safetensors")  # those of the step written last, 64
    run = list(snapshots(tmp_path))
    assert [snapshot.step for snapshot in run] == [64, 128, 130]
    for snapshot in run:
        expected = attention_layer(wholes[snapshot.step].float())
        torch.testing.assert_close(snapshot.model.attention.W_Q, expected.W_Q)
        torch.testing.assert_close(
            snapshot.model.embeddings.W_E, wholes[snapshot.step].float().transformer.wte.weight.data
        )
        assert snapshot.model.tokenizer("homo")["input_ids"]
        assert len(snapshot.model.provenance["weights_sha256"]) == 64
