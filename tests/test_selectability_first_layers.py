"""Keys of real first layers: against the attention block, each window, and what is frozen."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from naming import naming
from random_models import attention_layer, embeddings_of, random_gpt2
from sklearn.decomposition import PCA

from lnattn import FirstLayer
from lnattn.attention.layernorm import layer_norm
from lnattn.errors import CorpusError
from lnattn.selectability import first_layers
from lnattn.selectability.decide import selectability


@pytest.fixture(scope="module")
def model() -> FirstLayer:
    gpt2 = random_gpt2(seed=5, d_model=12, heads=3, vocab=40, context=64)
    return FirstLayer(embeddings_of(gpt2), attention_layer(gpt2), provenance={"name": "random"})


def test_keys_of_heads_are_those_of_the_attention_block(model):
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    found = first_layers.first_layer_keys(model, ids)
    x = model.embeddings.W_E[ids] + model.embeddings.W_P[:8]
    after = layer_norm(x, model.attention.ln)
    np.testing.assert_allclose(found["before"], x)
    np.testing.assert_allclose(found["after"], after, atol=1e-12)
    for head in range(3):
        k = after @ model.attention.W_K[head] + model.attention.b_K[head]
        np.testing.assert_allclose(found["heads"][head], k, atol=1e-12)
    alone = first_layers.position_keys(model)["after"]
    np.testing.assert_allclose(alone, layer_norm(model.embeddings.W_P, model.attention.ln))


def test_shares_are_those_of_each_window_and_length(model):
    rng = np.random.default_rng(0)
    documents = [rng.integers(40, size=n).tolist() for n in (50, 10, 64, 55)]
    found = first_layers.study_text(model, documents, (8, 40), windows=2)
    assert found.heads.shape == (2, 3, 2)
    for w, ids in enumerate((documents[0], documents[2])):
        for row, n in enumerate((8, 40)):
            keys = first_layers.first_layer_keys(model, ids[:n])
            assert found.before[row, w] == selectability(keys["before"]).unselectable
            assert found.after[row, w] == selectability(keys["after"]).unselectable == 0
            for head in range(3):
                assert found.heads[row, head, w] == selectability(keys["heads"][head]).unselectable
    assert found.by_head[1].max() > 0  # 40 keys in four dimensions
    assert found.dims.tolist() == [2, 3, 4]
    np.testing.assert_allclose(found.fewer[:, -1], found.heads[1, :, 0])
    assert (np.diff(found.fewer, axis=1) <= 0).all()
    assert found.normal[0] > 0
    with pytest.raises(CorpusError, match=naming("2 documents", 55)):
        first_layers.study_text(model, documents, (55,), windows=3)


def test_positions_alone_are_decided_at_doubling_lengths(model):
    """64 positions: the first 32 and all of them, as one window."""
    found = first_layers.positions_of(model)
    assert found.lengths.tolist() == [32, 64]
    keys = first_layers.position_keys(model)
    for row, n in enumerate((32, 64)):
        assert found.before[row, 0] == selectability(keys["before"][:n]).unselectable
        for head in range(3):
            verdicts = selectability(keys["heads"][head][:n])
            assert found.heads[row, head, 0] == verdicts.unselectable
            assert found.rank[row, head, 0] == verdicts.rank
    assert found.by_head.tolist() == found.heads[:, :, 0].tolist()  # of one window
    assert found.record["d_head"] == 4


def test_fewer_dimensions_are_principal_components_beside_as_many_normal_keys(model):
    """Of the longest first window of two; by scikit-learn's components."""
    rng = np.random.default_rng(0)
    documents = [rng.integers(40, size=50).tolist() for _ in range(2)]
    found = first_layers.study_text(model, documents, (8, 40), windows=2)
    windows = [first_layers.first_layer_keys(model, ids[:40])["heads"] for ids in documents]
    normal = np.random.default_rng(0).normal(size=(40, 4))
    for place, dim in enumerate((2, 3, 4)):
        shares = [*found.fewer[:, place], found.normal[place]]
        for keys, share in zip([*windows[0], normal], shares, strict=True):
            expected = selectability(PCA(dim).fit_transform(keys)).unselectable
            assert share == pytest.approx(expected)
    assert len(np.unique(found.fewer)) > 3
    by_window = [[selectability(keys).unselectable for keys in heads] for heads in windows]
    assert by_window[0] != by_window[1]
    np.testing.assert_allclose(found.by_head[1], np.mean(by_window, axis=0))


def test_a_file_of_texts_is_decided_at_doubling_lengths(model, tmp_path):
    """Documents of 33, 70, 31 and 64 letters: of two windows 32 and 64 keys, of three 32."""
    rng = np.random.default_rng(3)
    texts = ["".join(rng.choice(list("abcdefgh"), size=n)) for n in (33, 70, 31, 64)]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))

    def tokenizer(texts, **_):
        return {"input_ids": [[ord(letter) - ord("a") for letter in text] for text in texts]}

    with_tokenizer = replace(model, tokenizer=tokenizer)
    assert first_layers.text_of(with_tokenizer, path, windows=3).lengths.tolist() == [32]
    found = first_layers.text_of(with_tokenizer, path, windows=2)
    assert found.lengths.tolist() == [32, 64]
    for window, text in enumerate((texts[1][:64], texts[3])):
        keys = first_layers.first_layer_keys(model, [ord(letter) - ord("a") for letter in text])
        for row, n in enumerate((32, 64)):
            expected = selectability(keys["heads"][1][:n])
            assert found.heads[row, 1, window] == expected.unselectable
            assert found.rank[row, 1, window] == expected.rank
    said = {name: found.record[name] for name in ("model", "texts", "windows", "d_model", "d_head")}
    assert said == {
        **{"model": "random", "texts": "texts.jsonl", "windows": 2, "d_model": 12, "d_head": 4}
    }
    assert found.record["texts_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
