"""Keys of real first layers, evaluation of trained arms, marked words, the command, the figures."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from random_models import attention_layer, embeddings_of, random_gpt2

from lnattn import Embeddings, FirstLayer, load_first_layer
from lnattn.attention.layernorm import layer_norm
from lnattn.book.figures import selectability as figures
from lnattn.commands import selectability as command
from lnattn.errors import CheckpointError, CorpusError, ResultError, TokenError
from lnattn.paths import repository
from lnattn.storage import read_json, read_result, sha256_of_file, write_json
from lnattn.studies.selectability import evaluation, first_layers, words
from lnattn.studies.selectability.decide import selectability
from lnattn.studies.selectability.papers_search import bounded_search
from lnattn.studies.selectability.random_keys import random_grid
from lnattn.studies.selectability.small_models import keys_of_layers, load_arm, packed, train_arm
from lnattn.text.corpora import read_documents
from lnattn.text.tokenizers import load_tokenizer
from lnattn.training.plan import TrainingPlan

mpl.use("Agg")
TOKENIZER = repository() / "data" / "book-gpt2"


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
    with pytest.raises(CorpusError, match="2 documents have 55"):
        first_layers.study_text(model, documents, (55,), windows=3)


def test_frozen_shares_come_back(model, tmp_path):
    found = first_layers.study_positions(model, (32, 64))
    replace(found, record={"model": "random"}).write(tmp_path, first_layers.POSITIONS)
    back = first_layers.HeadShares.read(tmp_path, first_layers.POSITIONS)
    np.testing.assert_array_equal(back.heads, found.heads)
    assert back.record["model"] == "random"
    assert first_layers.positions_of(model).record["d_head"] == 4
    mpl.pyplot.close(figures.in_fewer_dimensions({"random": back}))


def test_a_partial_model_is_studied_on_its_positions_alone(model, tmp_path):
    partial = FirstLayer(
        Embeddings(W_E=None, W_P=model.embeddings.W_P), model.attention, provenance={"name": "p"}
    )
    assert first_layers.positions_of(partial).lengths.tolist() == [32, 64]
    with pytest.raises(TokenError, match="no token embeddings"):
        first_layers.text_of(partial, tmp_path / "none.jsonl")
    with pytest.raises(TokenError, match="no token embeddings"):
        first_layers.first_layer_keys(partial, [1])
    with pytest.raises(TokenError, match="65 tokens does not fit"):
        first_layers.first_layer_keys(model, [0] * 65)


def test_gpt2_position_keys_are_as_frozen(gpt2_attention_folder):
    model = load_first_layer(gpt2_attention_folder)
    frozen = first_layers.HeadShares.read(
        repository() / "data" / "results" / "gpt2", first_layers.POSITIONS
    )
    found = first_layers.study_positions(model, (32, 64))
    np.testing.assert_array_equal(found.heads, frozen.heads[:2])


def test_doubling_stays_within_the_context():
    assert first_layers._doubling(256) == [32, 64, 128, 256]
    assert first_layers._doubling(300) == [32, 64, 128, 256]
    assert first_layers._doubling(20) == [32]


PLAN = TrainingPlan(
    layers=2, d_model=4, heads=2, context=64, vocab_size=8192, steps=2, batch=2,
    learning_rate=3e-3, warmup=1, weight_decay=0.0, dropout=0.0, evaluate_every=1,
)  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.jsonl"
    sentence = "A small corpus about keys, queries, corners and the hull of them all. "
    lines = [json.dumps({"text": f"{n} {sentence * 2}"}) for n in range(40)]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def arms(text, tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("arms")
    for arm in ("full", "no-scaling"):
        train_arm([text], [text], folder / arm, arm, PLAN, TOKENIZER, 200, progress=False)
    return [folder / "full", folder / "no-scaling"]


@pytest.fixture(scope="module")
def frozen(arms, text, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "SHORTEST", 40)
        patch.setattr(evaluation, "LONGEST", 64)
        evaluation.freeze_evaluation(arms, text, TOKENIZER, out, windows=2, searched=1)
    return out


def test_evaluated_shares_are_those_of_each_set_of_keys(arms, text, frozen, monkeypatch):
    [full, unscaled] = evaluation.frozen_arms(frozen)
    assert (full.arm, unscaled.arm) == ("full", "no-scaling")
    assert (full.d, full.seed, full.steps) == (4, 0, 2)
    monkeypatch.setattr(evaluation, "SHORTEST", 40)
    monkeypatch.setattr(evaluation, "LONGEST", 64)
    windows = evaluation.text_windows(text, TOKENIZER, 2)
    model, _ = load_arm(arms[1])
    shares = unscaled.arrays["exact"]
    assert shares.shape == (2, 4, 2)
    for w, window in enumerate(windows):
        found = keys_of_layers(model.double(), window)
        for layer in range(2):
            assert shares[layer, 0, w] == selectability(found["before"][layer]).unselectable
            assert shares[layer, 1, w] == selectability(found["keys"][layer]).unselectable
            head = selectability(found["heads"][layer, 1]).unselectable
            assert shares[layer, 3, w] == head > 0.5
    assert unscaled.share(1)[0] == pytest.approx(shares[0, 1].mean())
    assert unscaled.share(slice(2, None))[1] == pytest.approx(shares[1, 2:].mean())
    assert unscaled.arrays["search"].shape == (2, 2, 1)
    assert unscaled.record["certificates"] == 2 * 4 * sum(map(len, windows))
    for draw in (
        lambda: figures.losses([full, unscaled]),
        lambda: figures.shares_by_layer([full, unscaled], {"reported": [50.0, 30.0]}),
        lambda: figures.shares_by_width([full, unscaled]),
    ):
        mpl.pyplot.close(draw())


def test_table_1_has_both_counts_of_the_same_random_windows(arms, text, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation, "SHORTEST", 40)
    monkeypatch.setattr(evaluation, "LONGEST", 64)
    options = {"windows": 3, "seed": 1}
    path = evaluation.freeze_table_1(arms, text, TOKENIZER, tmp_path, **options)
    arrays, record = read_result(tmp_path, path.stem)
    texts = evaluation.text_windows(text, TOKENIZER)
    assert record["of_windows"] == len(texts) > 3
    assert evaluation.read_table_1(tmp_path)[1] == record
    write_json(tmp_path / "table-1.json", {**record, "windows": 4})
    with pytest.raises(ResultError, match="windows that table-1"):
        evaluation.read_table_1(tmp_path)
    assert list(record["weights_sha256"]) == ["full", "no-scaling"]
    chosen = np.random.default_rng(1).choice(len(texts), 3, replace=False)
    model, _ = load_arm(arms[1])
    for w, window in enumerate(chosen):
        rounded = keys_of_layers(model.float(), texts[window])["keys"]
        precise = keys_of_layers(model.double(), texts[window])["keys"]
        for layer in range(2):
            assert arrays["exact"][1, layer, w] == selectability(precise[layer]).unselectable
            assert arrays["search"][1, layer, w] == bounded_search(rounded[layer]).unselectable
    with pytest.raises(CorpusError, match="100 were asked for"):
        evaluation.freeze_table_1(arms, text, TOKENIZER, tmp_path)
    other = repository() / "data" / "selectability-models" / "tokenizer"
    with pytest.raises(CheckpointError, match="another tokenizer"):
        evaluation.freeze_table_1(arms, text, other, tmp_path, **options)


def test_the_books_arms_ship_with_the_tokenizer_that_they_were_trained_with():
    folder = repository() / "data" / "selectability-models"
    arms = sorted(path.parent for path in folder.glob("*/training.json"))
    assert len(arms) == 18
    for arm in arms:
        load_arm(arm, folder / "tokenizer")


def test_a_frozen_evaluation_is_not_made_twice_and_a_false_certificate_stops_it(
    arms, text, frozen, monkeypatch
):
    monkeypatch.setattr(evaluation, "SHORTEST", 40)
    monkeypatch.setattr(evaluation, "LONGEST", 64)
    called = []
    monkeypatch.setattr(evaluation, "evaluate", lambda *_: called.append(1))
    evaluation.freeze_evaluation(arms, text, TOKENIZER, frozen, windows=2, searched=1)
    assert not called
    monkeypatch.undo()

    class Failed:
        ok, failures = False, ("key 3 does not win.",)

    monkeypatch.setattr(evaluation, "verify", lambda *_: Failed)
    with pytest.raises(ResultError, match="window 0, layer 0, place 0: key 3"):
        evaluation.evaluate(load_arm(arms[0])[0], [[1, 2, 3, 4]])


def test_too_little_text_and_empty_folders_are_refused(text, tmp_path):
    with pytest.raises(CorpusError, match="fills"):
        evaluation.text_windows(text, TOKENIZER, 100)
    with pytest.raises(ResultError, match="no evaluated model"):
        evaluation.frozen_arms(tmp_path)


def test_words_are_marked_where_a_token_is_unselectable(arms, tmp_path, monkeypatch):
    sentence = "whether you like rap music or loathe it , you ca n't deny the power of talent"
    path = tmp_path / "sst.tsv"
    path.write_text(f"sentence\tlabel\n{sentence}\t1\na short one\t0\n")
    monkeypatch.setattr(words, "TABLE_3", {"whether you like rap music": ("talent", "power")})
    words.freeze_words(arms[1], path, TOKENIZER, tmp_path / "out")
    shares, [marked], record = words.frozen_words(tmp_path / "out")
    assert " ".join(marked.words) == sentence
    assert [w for w, b in zip(marked.words, marked.bold, strict=True) if b] == ["power", "talent"]
    assert record["count"] == 2
    assert shares["share_by_layer"].shape == (2,)
    assert shares["share_in_any_layer"] >= shares["share_by_layer"].max()

    model, _ = load_arm(arms[1])
    ids = load_tokens(sentence)
    lost = np.zeros(len(ids), bool)
    for keys in keys_of_layers(model.double(), ids)["keys"]:
        lost |= ~selectability(keys).selectable
    assert lost.any()
    assert any(marked.exact)
    assert sum(marked.exact) <= lost.sum()
    assert marked.markdown.count("**") == 2 * sum(marked.exact)
    with pytest.raises(CorpusError, match="no column"):
        words.treebank_sentences(TOKENIZER / "README.md")
    with pytest.raises(CorpusError, match="no sentence starts"):
        words._starting(["a"], "b")


def load_tokens(sentence: str) -> list[int]:
    return load_tokenizer(TOKENIZER)(sentence, add_special_tokens=False)["input_ids"]


def run(*arguments: str) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.run(parser.parse_args(list(arguments)))


def test_the_command_decides_a_file(tmp_path, capsys):
    keys = np.array([[0.0, 0], [1, 0], [0, 1], [0.2, 0.2]])
    np.save(tmp_path / "keys.npy", keys)
    run("keys", str(tmp_path / "keys.npy"), "--json", "--exact")
    record = json.loads(capsys.readouterr().out)
    assert record["unselectable"] == [3]
    assert sum(record["methods"].values()) == record["keys"] == 4
    run("keys", str(tmp_path / "keys.npy"))
    assert "all 4 certificates hold" in capsys.readouterr().out
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(ResultError, match=r"no \.npy file of numbers"):
        run("keys", str(tmp_path / "text.npy"))
    with pytest.raises(ResultError, match="2 were given"):
        run("keys", "a", "b")
    with pytest.raises(ResultError, match="--out"):
        run("lengths", "files", "--text", "text")


def test_the_command_trains_and_evaluates(text, tmp_path, capsys, monkeypatch):
    from lnattn.studies.selectability import small_models

    monkeypatch.setattr(small_models, "PAPER_SHAPE", {**vars(PLAN), "seed": 0})
    monkeypatch.setattr(evaluation, "SHORTEST", 40)
    monkeypatch.setattr(evaluation, "LONGEST", 64)
    folder = tmp_path / "arm"
    run(
        "train", str(text), "--held-out", str(text), "--out", str(folder), "--steps", "1", "--quiet"
    )
    assert "no-scaling, 128 tokens" in capsys.readouterr().out
    options = ("--windows", "1", "--searched", "0", "--out", str(tmp_path / "out"))
    run("evaluate", str(folder), "--text", str(text), *options)
    assert "unselectable keys by layer" in capsys.readouterr().err
    arrays, record = read_result(tmp_path / "out", "lm-arm")
    assert arrays["exact"].shape[-1] == 1
    assert record["plan"]["steps"] == 1


def test_figures_of_hulls_and_grids_are_drawn():
    keys = np.random.default_rng(5).normal(size=(11, 2))
    found = selectability(keys)
    inside, corner = np.flatnonzero(~found.selectable)[0], np.flatnonzero(found.selectable)[0]
    figure = figures.two_proofs(keys, found, int(inside), int(corner))
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert {f"{w:.2f}" for w in found.weights[inside] if w} <= texts
    mpl.pyplot.close(figure)
    grid = random_grid((3, 5), (3, 4), 2)
    mpl.pyplot.close(figures.grids({"one": grid, "two": grid}))


def test_the_benchmark_compares_before_it_times():
    import sys

    sys.path.insert(0, str(repository() / "benchmarks"))
    try:
        import bench_selectability as bench
    finally:
        sys.path.pop(0)
    assert not bench.compare(bench.normal_keys(60, 3), 4).selectable.all()
    keys = bench.half_inside(40, 6)
    assert (~selectability(keys).selectable)[20:].all()
    assert set(bench.sized(5000, 3, 2)) == {"ours, all keys"}


def test_a_record_of_another_run_is_refused(arms, tmp_path):
    record = read_json(arms[0] / "training.json")
    write_json(tmp_path / "training.json", record)
    with pytest.raises(ValueError, match="missing or not the file"):
        load_arm(tmp_path)


def frozen_and_committed() -> list[tuple[evaluation.FrozenArm, Path]]:
    """Every frozen evaluation with the folder of its checkpoint, which has the same name."""
    folder = repository() / "data" / "selectability-models"
    frozen = evaluation.frozen_arms(repository() / "data" / "results" / "selectability")
    assert {one.name for one in frozen} == {
        path.parent.name for path in folder.glob("*/training.json")
    }
    return [(one, folder / one.name) for one in frozen]


def test_every_frozen_evaluation_has_its_checkpoint():
    for one, path in frozen_and_committed():
        record = read_json(path / "training.json")
        assert one.record["weights_sha256"] == record["weights_sha256"]
        assert sha256_of_file(path / "model.safetensors") == record["weights_sha256"]
        assert (one.arm, one.record["plan"]) == (record["arm"], record["plan"])
        np.testing.assert_array_equal(
            one.arrays["held_out_loss"], [entry["held_out_loss"] for entry in record["log"]]
        )
        assert {file.name for file in path.iterdir()} == {"model.safetensors", "training.json"}


def test_a_committed_checkpoint_has_the_geometry_of_its_evaluation():
    """On 200 random tokens: hulls of the frozen rank, and whether all keys are selectable."""
    ids = np.random.default_rng(0).integers(8192, size=200).tolist()
    for one, path in frozen_and_committed():
        if one.d > 8 or one.seed > 0:
            continue
        model, _ = load_arm(path)
        found = evaluation.evaluate(model, [ids])
        assert found.exact.shape[:2] == one.arrays["exact"].shape[:2] == (4, 6)
        np.testing.assert_array_equal(found.rank[:, 1:, 0], one.arrays["rank"][:, 1:, 0])
        for shares in (found.exact, one.arrays["exact"]):
            assert (shares[:, evaluation.KEYS].max() == 0) == (one.arm != "no-scaling")


def test_a_window_of_squad_is_decided_as_frozen(corpora_folder):
    """The same text, weights and window: the same shares, bit for bit."""
    (one,) = (both for both in frozen_and_committed() if both[0].name == "d8-no-scaling-s0")
    frozen, path = one
    text = corpora_folder / frozen.record["text"]
    documents = list(islice(read_documents([text]), 20))
    bpe = load_tokenizer(TOKENIZER)
    ids = bpe(documents, add_special_tokens=False)["input_ids"]
    window = packed(ids, evaluation.SHORTEST, evaluation.LONGEST)[0]
    found = evaluation.evaluate(load_arm(path)[0], [window])
    np.testing.assert_array_equal(found.exact[..., 0], frozen.arrays["exact"][..., 0])
    np.testing.assert_array_equal(found.rank[..., 0], frozen.arrays["rank"][..., 0])
