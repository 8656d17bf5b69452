"""Evaluation of trained arms, Table 1, marked words, and what is frozen of them."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from experiments.book_model.plan import TrainingPlan
from experiments.unselectable_lm import __main__ as whole_command
from experiments.unselectable_lm import evaluation, words
from experiments.unselectable_lm.small_models import keys_of_layers, load_arm, packed, train_arm
from lnattn.errors import CheckpointError, CorpusError, ResultError
from lnattn.selectability.decide import selectability
from lnattn.storage import read_json, read_result, sha256_of_file, write_json
from lnattn.text.corpora import read_documents
from lnattn.text.tokenizers import load_tokenizer
from lnattn_book.page.places import repository
from lnattn_book.studies.language_models import (
    KEYS,
    LONGEST,
    SHORTEST,
    FrozenArm,
    frozen_arms,
    read_table_1,
)
from lnattn_book.studies.papers_search import bounded_search
from lnattn_book.studies.unselectable_words import frozen_words

TOKENIZER = repository() / "data" / "book-gpt2"


PLAN = TrainingPlan(
    layers=2, d_model=4, heads=2, context=64, vocab_size=8192, steps=2, batch=2,
    learning_rate=3e-3, warmup=1, weight_decay=0.0, dropout=0.0, evaluate_every=1,
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def short_windows():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "SHORTEST", 40)
        patch.setattr(evaluation, "LONGEST", 64)
        yield


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
    evaluation.freeze_evaluation(arms, text, TOKENIZER, out, windows=2, searched=1)
    return out


def test_evaluated_shares_are_those_of_each_set_of_keys(arms, text, frozen):
    [full, unscaled] = frozen_arms(frozen)
    assert (full.arm, unscaled.arm) == ("full", "no-scaling")
    assert (full.d, full.seed, full.steps) == (4, 0, 2)
    windows = evaluation.text_windows(text, TOKENIZER, 2)
    model, _ = load_arm(arms[1])
    shares = unscaled.arrays["exact"]
    assert shares.shape == (2, 4, 2)
    for w, window in enumerate(windows):
        vectors = keys_of_layers(model.double(), window)
        for layer in range(2):
            assert shares[layer, 0, w] == selectability(vectors["before"][layer]).unselectable
            assert shares[layer, 1, w] == selectability(vectors["keys"][layer]).unselectable
            head = selectability(vectors["heads"][layer, 1]).unselectable
            assert shares[layer, 3, w] == head > 0.5
    assert unscaled.share(1)[0] == pytest.approx(shares[0, 1].mean())
    assert unscaled.share(slice(2, None))[1] == pytest.approx(shares[1, 2:].mean())
    assert unscaled.arrays["search"].shape == (2, 2, 1)
    assert unscaled.record["certificates"] == 2 * 4 * sum(map(len, windows))


def test_table_1_has_both_counts_of_the_same_random_windows(arms, text, tmp_path):
    options = {"windows": 3, "seed": 1}
    path = evaluation.freeze_table_1(arms, text, TOKENIZER, tmp_path, **options)
    arrays, record = read_result(tmp_path, path.stem)
    texts = evaluation.text_windows(text, TOKENIZER)
    assert record["of_windows"] == len(texts) > 3
    assert read_table_1(tmp_path)[1] == record
    write_json(tmp_path / "table-1.json", {**record, "windows": 4})
    with pytest.raises(ResultError, match="table-1"):
        read_table_1(tmp_path)
    assert list(record["weights_sha256"]) == ["full", "no-scaling"]
    chosen = np.random.default_rng(1).choice(len(texts), 3, replace=False)
    model, _ = load_arm(arms[1])
    for w, window in enumerate(chosen):
        rounded = keys_of_layers(model.float(), texts[window])["keys"]
        precise = keys_of_layers(model.double(), texts[window])["keys"]
        for layer in range(2):
            assert arrays["exact"][1, layer, w] == selectability(precise[layer]).unselectable
            assert arrays["search"][1, layer, w] == bounded_search(rounded[layer]).unselectable
    with pytest.raises(CorpusError, match="100"):
        evaluation.freeze_table_1(arms, text, TOKENIZER, tmp_path)
    other = repository() / "data" / "selectability-models" / "tokenizer"
    with pytest.raises(CheckpointError, match="another tokenizer"):
        evaluation.freeze_table_1(arms, text, other, tmp_path, **options)


def test_words_are_marked_where_a_token_is_unselectable(arms, tmp_path, monkeypatch):
    sentence = "whether you like rap music or loathe it , you ca n't deny the power of talent"
    path = tmp_path / "sst.tsv"
    path.write_text(f"sentence\tlabel\n{sentence}\t1\na short one\t0\n")
    monkeypatch.setattr(words, "TABLE_3", {"whether you like rap music": ("talent", "power")})
    words.freeze_words(arms[1], path, TOKENIZER, tmp_path / "out")
    shares, [marked], record = frozen_words(tmp_path / "out")
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
    with pytest.raises(CorpusError, match="no sentence"):
        words._starting(["a"], "b")


def load_tokens(sentence: str) -> list[int]:
    return load_tokenizer(TOKENIZER)(sentence, add_special_tokens=False)["input_ids"]


def test_the_command_trains_and_evaluates(text, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(whole_command, "PAPER_SHAPE", {**vars(PLAN), "seed": 0})

    def run(*words: str) -> None:
        args = whole_command.parser().parse_args(list(words))
        args.run_task(args)

    folder = tmp_path / "arm"
    out = tmp_path / "selectability"
    run("train", str(text), "--held-out", str(text), "--out", str(folder), "--steps", "1")
    assert "held-out loss" in capsys.readouterr().out
    options = ("--windows", "1", "--searched", "0", "--out", str(out))
    run("evaluate", str(folder), "--text", str(text), *options)
    assert "unselectable keys by layer" in capsys.readouterr().err
    arrays, record = read_result(out, "lm-arm")
    assert arrays["exact"].shape[-1] == 1
    assert record["plan"]["steps"] == 1
    assert record["command"].startswith("python -m experiments.unselectable_lm evaluate RUNS/arm")


def frozen_and_committed() -> list[tuple[FrozenArm, Path]]:
    """Every frozen evaluation with the folder of its checkpoint, which has the same name."""
    folder = repository() / "data" / "selectability-models"
    frozen = frozen_arms(repository() / "data" / "results" / "selectability")
    assert {evaluated.name for evaluated in frozen} == {
        path.parent.name for path in folder.glob("*/training.json")
    }
    return [(evaluated, folder / evaluated.name) for evaluated in frozen]


def test_every_frozen_evaluation_has_its_checkpoint():
    for evaluated, path in frozen_and_committed():
        record = read_json(path / "training.json")
        assert evaluated.record["weights_sha256"] == record["weights_sha256"]
        assert sha256_of_file(path / "model.safetensors") == record["weights_sha256"]
        assert (evaluated.arm, evaluated.record["plan"]) == (record["arm"], record["plan"])
        np.testing.assert_array_equal(
            evaluated.arrays["held_out_loss"], [entry["held_out_loss"] for entry in record["log"]]
        )
        assert {file.name for file in path.iterdir()} == {"model.safetensors", "training.json"}


def test_a_committed_checkpoint_has_the_geometry_of_its_evaluation():
    """On 100 random tokens: hulls of the frozen rank, and whether all keys are selectable."""
    ids = np.random.default_rng(0).integers(8192, size=100).tolist()
    for evaluated, path in frozen_and_committed():
        if evaluated.d > 8 or evaluated.seed > 0 or "long" in evaluated.name:
            continue
        model, _ = load_arm(path)
        again = evaluation.evaluate(model, [ids])
        assert again.exact.shape[:2] == evaluated.arrays["exact"].shape[:2] == (4, 6)
        np.testing.assert_array_equal(again.rank[:, 1:, 0], evaluated.arrays["rank"][:, 1:, 0])
        for shares in (again.exact, evaluated.arrays["exact"]):
            assert (shares[:, KEYS].max() == 0) == (evaluated.arm != "no-scaling")


def test_a_window_of_squad_is_decided_as_frozen(corpora_folder):
    """The same text, weights and window: the same shares, bit for bit."""
    by_name = {frozen.name: (frozen, path) for frozen, path in frozen_and_committed()}
    frozen, path = by_name["d8-no-scaling-s0"]
    text = corpora_folder / frozen.record["text"]
    documents = list(islice(read_documents([text]), 20))
    bpe = load_tokenizer(TOKENIZER)
    ids = bpe(documents, add_special_tokens=False)["input_ids"]
    window = packed(ids, SHORTEST, LONGEST)[0]
    again = evaluation.evaluate(load_arm(path)[0], [window])
    np.testing.assert_array_equal(again.exact[..., 0], frozen.arrays["exact"][..., 0])
    np.testing.assert_array_equal(again.rank[..., 0], frozen.arrays["rank"][..., 0])
