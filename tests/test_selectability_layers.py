"""Unselectable keys in every head of every layer, against decisions made one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_models import random_gpt2
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from lnattn import load_first_layer
from lnattn.errors import CorpusError
from lnattn.freezing import freeze
from lnattn.models.attending import keys_of_layers, patched
from lnattn.selectability.decide import selectability
from lnattn.selectability.first_layers import first_layer_keys
from lnattn_book.claims import ours
from lnattn_book.claims.intervals import Interval
from lnattn_book.studies.keys_by_layer import LayerVerdicts, decide_layers


def drawn_keys(seed: int) -> list[np.ndarray]:
    """Two layers of three heads with 30 keys each, of other widths."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(3, 30, 2)), rng.normal(size=(3, 30, 4)).astype(np.float32)]


def test_verdicts_of_every_head():
    windows = np.random.default_rng(9).integers(50, size=(4, 30))
    counts = np.random.default_rng(8).integers(1000, size=50)
    seeds = iter(range(4))
    about = {"model": "drawn"}
    found = decide_layers(lambda _: drawn_keys(next(seeds)), windows, counts, source=about)
    assert {name: found.record[name] for name in ("model", "windows", "keys")} == {
        **about, "windows": 4, "keys": 30,
    }  # fmt: skip
    assert found.unselectable.shape == (2, 2, 3, 4, 30)
    for w in range(4):
        for layer, heads in enumerate(drawn_keys(w)):
            for head, keys in enumerate(heads.astype(np.float64)):
                few = PCA(max(1, keys.shape[1] // 4)).fit_transform(keys)
                assert found.rank[layer, head, w] == keys.shape[1]
                far = np.linalg.norm(keys - keys.mean(axis=0), axis=1)
                for kept, points in enumerate((keys, few)):
                    lost = ~selectability(points).selectable
                    assert np.array_equal(found.unselectable[kept, layer, head, w], lost)
                    for place, values in enumerate((counts[windows[w]], np.arange(30), far)):
                        expected = roc_auc_score(lost, values)
                        assert found.auroc[kept, place, layer, head, w] == pytest.approx(expected)
    # In one dimension all keys but two are lost.
    assert found.by_head(1) == pytest.approx(28 / 30)
    by_position = found.by_position(groups=5)
    assert by_position.shape == (2, 5)
    assert by_position[1, 4] == pytest.approx(found.unselectable[0, 1, :, :, 24:].mean())
    with pytest.raises(CorpusError, match="window"):
        decide_layers(lambda _: drawn_keys(0), windows[:0], counts)


def test_what_unselectable_keys_have_in_common():
    """Windows drawn anew; what has no AUROC in a window does not count."""
    auroc = np.full((2, 3, 1, 2, 6), np.nan)
    auroc[0, :, 0, 0] = np.array([0.9, 0.6, 0.2])[:, None] + np.linspace(-0.05, 0.05, 6)
    auroc[0, :, 0, 1, 0] = 0.5
    flags = np.zeros((2, 1, 2, 6, 20), dtype=bool)
    flags[0, 0, 0, :, ::2] = True
    # Of 20 Gaussian keys in two dimensions more than half are lost: the claim's null.
    found = LayerVerdicts(flags, np.full((1, 2, 6), 2), auroc, {})
    middle, low, high = found.common().T
    assert middle == pytest.approx(np.nanmean(auroc[0], axis=(1, 2, 3)))
    # Twenty draws by hand: how often each of six windows came, and the mean over windows and heads.
    _, low, high = found.common(draws=20, seed=4).T
    drawn = np.random.default_rng(4).multinomial(6, np.full(6, 1 / 6), size=20)
    anew = [
        [np.nanmean(np.repeat(values, times, axis=-1)) for values in auroc[0]] for times in drawn
    ]
    np.testing.assert_allclose(low, np.quantile(anew, 0.025, axis=0))
    np.testing.assert_allclose(high, np.quantile(anew, 0.975, axis=0))
    assert (high - low > 0.01).all(), "or no level of the interval could be told from another"
    few = LayerVerdicts(np.zeros_like(flags), found.rank, np.full_like(auroc, np.nan), {})
    assert np.isnan(few.common()).all()


def test_keys_of_layers_are_those_that_the_model_multiplies(tmp_path):
    """Layer 0 against the package's own; layer 1 against Hugging Face's cache of keys."""
    model = random_gpt2(seed=5, layers=2, dtype=torch.float64)
    model.save_pretrained(tmp_path)
    ids = torch.tensor([3, 17, 9, 9, 30, 2])
    with patched(model):
        keys = keys_of_layers(model, ids)
    own = first_layer_keys(load_first_layer(tmp_path), ids.tolist())["heads"]
    assert np.abs(keys[0].numpy() - own).max() < 1e-10
    with torch.inference_mode():
        cached = model(ids[None], use_cache=True).past_key_values
    for layer, found in enumerate(keys):
        assert (found - cached.layers[layer].keys[0]).abs().max() < 1e-10


def test_the_book_freezes_it_for_models_of_all_kinds(tmp_path, monkeypatch):
    """One short text, joined with itself; MiniLM's window is framed."""
    file = tmp_path / "texts.jsonl"
    file.write_text('{"text": "' + "It rained on the old castle by the sea. " * 60 + '"}\n')
    readers = (
        "lnattn_book.studies.whole_models",
        "lnattn_book.studies.samples",
        "lnattn.reporting.shipped",
    )
    for module in readers:
        monkeypatch.setattr(f"{module}.sample_file", lambda: file)
    for name, shape in (
        ("book-gpt2", (2, 2, 8, 2, 256)), ("book-llama", (2, 2, 2, 2, 256)),
        ("minilm", (2, 6, 12, 1, 512)),
    ):  # fmt: skip
        [done] = freeze(name, tmp_path / name, ["selectability-layers"])
        found = LayerVerdicts.read(done.path.parent)
        assert found.unselectable.shape == shape
        assert found.record["model"] == name
        assert (found.rank > 1).all()


def test_the_law_is_judged_by_its_intervals():
    cases = {"holds": (1.1, 0.9), "holds in part": (1.1, 0.03), "fails": (0.03, 0.04)}
    for verdict, values in {**cases, "undecided": (1.24, 0.12)}.items():
        rows = [[one, one - 0.05, one + 0.05] for one in values]
        ratio = Interval.rows([*rows, [np.nan] * 3, [np.nan] * 3])
        assert ours.u4(ratio=ratio, furthest=1.0, model="any").verdict == verdict


def test_shares_by_head_and_position_by_hand():
    """Two layers, two heads, two windows of four keys: each mean is over what its name leaves."""
    flags = np.zeros((2, 2, 2, 2, 4), dtype=bool)
    flags[0, 0, 1, 0] = [True, True, True, False]
    flags[0, 0, 1, 1] = [True, False, False, False]
    flags[0, 1, 0, 1] = [False, False, False, True]
    flags[1] = True
    found = LayerVerdicts(flags, np.full((2, 2, 2), 2), np.full((2, 3, 2, 2, 2), np.nan), {})
    assert found.by_head().tolist() == [[0, 4 / 8], [1 / 8, 0]]
    assert found.by_head(1).tolist() == [[1, 1], [1, 1]]
    # Over two heads and two windows; then over the two halves of the positions.
    assert found.by_position(groups=2).tolist() == [[3 / 8, 1 / 8], [0, 1 / 8]]
    assert found.by_position(groups=4).tolist() == [[2 / 4, 1 / 4, 1 / 4, 0], [0, 0, 0, 1 / 4]]
    assert found.by_position(1, groups=1).tolist() == [[1], [1]]
