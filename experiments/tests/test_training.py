"""Training: a tiny run through the command line, interrupted and resumed, and its refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, GPT2LMHeadModel, LlamaForCausalLM

from experiments.book_model import loop
from experiments.book_model.__main__ import parser as book_model
from experiments.book_model.book_model import train_book_model
from experiments.book_model.loop import held_out_loss, windows
from experiments.book_model.plan import TrainingPlan
from experiments.tokens import encode_stream
from lnattn import load_first_layer
from lnattn.errors import CheckpointError, CorpusError
from lnattn.storage import read_json, sha256_of_file

TINY = TrainingPlan(
    layers=1,
    d_model=16,
    heads=2,
    context=16,
    vocab_size=300,
    steps=9,
    batch=4,
    warmup=2,
    dropout=0.3,
    evaluate_every=3,
)
SENTENCE = "the cat sat on a mat and then another cat came to sit near an old grey wall"
WORDS = SENTENCE.split()


def _write_corpus(path: Path, documents: int, seed: int) -> Path:
    generator = np.random.default_rng(seed)
    lines = [
        json.dumps({"text": " ".join(generator.choice(WORDS, size=40))}) for _ in range(documents)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("corpus")
    return _write_corpus(folder / "a.jsonl", 40, 0), _write_corpus(folder / "b.jsonl", 6, 1)


@pytest.fixture(scope="module")
def uninterrupted(corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    train_book_model([corpus[0]], [corpus[1]], folder, TINY, device="cpu", progress=False)
    return folder


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_the_folder_is_a_complete_hugging_face_model(uninterrupted, corpus) -> None:
    model = GPT2LMHeadModel.from_pretrained(uninterrupted)
    tokenizer = AutoTokenizer.from_pretrained(uninterrupted)
    record = read_json(uninterrupted / "training.json")
    assert (model.config.n_layer, model.config.n_embd, len(tokenizer)) == (1, 16, 300)
    assert tokenizer.decode(tokenizer("a grey cat")["input_ids"]) == "a grey cat"
    text = [json.loads(line)["text"] for line in corpus[1].read_text().splitlines()]
    stream = np.concatenate(
        [[*tokenizer(t)["input_ids"], tokenizer.eos_token_id] for t in text]
    ).astype(np.int32)
    assert record["held_out_loss"] == pytest.approx(held_out_loss(model, stream, 16), abs=1e-6)
    assert record["weights_sha256"] == sha256_of_file(uninterrupted / "model.safetensors")
    assert record["corpus"]["train"][0]["sha256"] == sha256_of_file(corpus[0])


def test_the_end_of_a_run_is_kept_by_a_command(corpus, tmp_path, capsys) -> None:
    run = tmp_path / "run"
    plan = replace(TINY, steps=64, evaluate_every=64)
    train_book_model([corpus[0]], [corpus[1]], run, plan, device="cpu", progress=False)
    end = tmp_path / "end"
    args = book_model().parse_args(["keep", str(run), "--out", str(end)])
    args.run_task(args)
    assert capsys.readouterr().out.strip() == str(end)
    at_the_end = load_file(run / "checkpoint" / "step-000064.safetensors")
    assert all(torch.equal(weight, at_the_end[name]) for name, weight in _weights(end).items())
    assert len(at_the_end) > 5
    assert read_json(end / "training.json")["step"] == 64


def test_training_lowers_the_held_out_loss(uninterrupted) -> None:
    log = read_json(uninterrupted / "checkpoint" / "progress.json")["log"]
    assert [entry["step"] for entry in log] == [3, 6, 9]
    losses = [entry["held_out_loss"] for entry in log]
    # Nine small steps: below the loss of uniform guesses, and falling.
    assert losses[-1] < losses[0] < np.log(300) + 0.1


@pytest.mark.parametrize(("stop_at", "save_every"), [(4, 300), (5, 0)])
def test_an_interrupted_run_ends_like_an_uninterrupted_one(
    stop_at, save_every, uninterrupted, corpus, tmp_path, monkeypatch
) -> None:
    def train_it() -> dict:
        place = tmp_path / "model"
        options = {"device": "cpu", "progress": False}
        return train_book_model([corpus[0]], [corpus[1]], place, TINY, **options)

    step = loop.take_step

    def stopping(model, optimiser, rows, plan, number, *rest):
        if number == stop_at:
            raise KeyboardInterrupt
        return step(model, optimiser, rows, plan, number, *rest)

    monkeypatch.setattr(loop, "take_step", stopping)
    monkeypatch.setattr(loop, "_SAVE_EVERY", save_every)
    with pytest.raises(KeyboardInterrupt):
        train_it()
    reached = stop_at if save_every == 0 else stop_at - stop_at % TINY.evaluate_every
    progress = tmp_path / "model" / "checkpoint" / "progress.json"
    assert (read_json(progress)["step"] if reached else progress.is_file()) == reached
    assert not (tmp_path / "model" / "model.safetensors").exists()
    # Another process would start from an unrelated random state.
    torch.manual_seed(12345)
    monkeypatch.setattr(loop, "take_step", step)
    printed = train_it()
    expected = read_json(uninterrupted / "training.json")
    assert printed["held_out_loss"] == expected["held_out_loss"]
    resumed = _weights(tmp_path / "model")
    whole = _weights(uninterrupted)
    assert resumed.keys() == whole.keys()
    for name, value in whole.items():
        assert torch.equal(resumed[name], value), name


def test_training_stops_early_and_keeps_the_best_model(corpus, tmp_path, monkeypatch) -> None:
    """Held-out losses are given here: a run that really gets worse would depend on rounding."""
    given = [5.0, 4.0, 3.0, 3.5, 3.0, 2.0]  # the third is the best; an equal one is no better
    plan = replace(TINY, steps=60, patience=2)
    evaluated = []

    def next_loss(model, *_):
        evaluated.append({name: value.clone() for name, value in model.state_dict().items()})
        return given[len(evaluated) - 1]

    monkeypatch.setattr(loop, "held_out_loss", next_loss)
    train_book_model([corpus[0]], [corpus[1]], tmp_path, plan, device="cpu", progress=False)
    log = read_json(tmp_path / "training.json")["log"]
    assert [entry["held_out_loss"] for entry in log] == given[:5]
    assert [entry["step"] for entry in log] == [3, 6, 9, 12, 15]
    for name, value in _weights(tmp_path).items():
        assert torch.equal(value, evaluated[2][name].half()), name
        assert not torch.equal(value, evaluated[4][name].half()), name


def test_a_trapezoid_is_flat_up_to_its_corner_and_ends_near_zero() -> None:
    plan = replace(TINY, schedule="trapezoid", learning_rate=0.5, warmup=10, steps=100)
    rates = np.array([plan.rate(step) for step in range(100)])
    np.testing.assert_allclose(rates[:10], 0.05 * np.arange(1, 11))
    np.testing.assert_array_equal(rates[10:81], 0.5)
    np.testing.assert_allclose(rates[80:], 0.5 * np.arange(20, 0, -1) / 20)
    # Its length can be decided late: before the corner the rates are those of a longer plan.
    longer = replace(plan, steps=1000)
    np.testing.assert_array_equal([longer.rate(step) for step in range(81)], rates[:81])


def test_a_llama_is_trained_by_the_same_command(corpus, tmp_path) -> None:
    plan = replace(TINY, architecture="llama", heads=4, dropout=0.0)
    record = train_book_model(
        [corpus[0]], [corpus[1]], tmp_path, plan, device="cpu", progress=False
    )
    model = LlamaForCausalLM.from_pretrained(tmp_path)
    assert record["name"] == "book-llama"
    assert "A Llama of 1 layers" in (tmp_path / "README.md").read_text()
    text = [json.loads(line)["text"] for line in corpus[1].read_text().splitlines()]
    stream = encode_stream(text, AutoTokenizer.from_pretrained(tmp_path))
    assert held_out_loss(model, stream, 16) == pytest.approx(record["held_out_loss"], abs=1e-6)
    layer = load_first_layer(tmp_path)
    stored = _weights(tmp_path)["model.embed_tokens.weight"]
    assert torch.equal(layer.embeddings.W_E, stored.float())


def test_windows_visit_every_token_at_every_position_and_are_reproducible() -> None:
    plan = replace(TINY, context=8, batch=2)
    tokens = np.arange(8 * 2 * 5 + 9, dtype=np.int32)
    stream = windows(tokens, plan)
    epoch = torch.cat([next(stream) for _ in range(5)])
    assert epoch.shape == (10, 9)
    # Rows are runs of consecutive tokens, and no two start at the same token.
    assert torch.equal(epoch, epoch[:, :1] + torch.arange(9))
    assert len(set(epoch[:, 0].tolist())) == 10
    starts = {int(row[0]) % 8 for _ in range(100) for row in next(stream)}
    assert starts == set(range(8))
    again = windows(tokens, plan)
    assert torch.equal(torch.cat([next(again) for _ in range(5)]), epoch)


def test_held_out_loss_is_the_mean_over_all_predicted_tokens() -> None:
    torch.manual_seed(0)
    model = replace(TINY, dropout=0.0).new_model(0).double().eval()
    tokens = np.random.default_rng(0).integers(0, 300, size=16 * 3 + 6).astype(np.int32)
    total = 0.0
    for start in range(0, len(tokens) - 1, 16):
        window = torch.from_numpy(tokens[start : start + 17].astype(np.int64))
        with torch.no_grad():
            logp = model(window[None, :-1]).logits[0].log_softmax(-1)
        total -= float(logp[torch.arange(len(window) - 1), window[1:]].sum())
    assert held_out_loss(model, tokens, 16) == pytest.approx(total / (len(tokens) - 1), rel=1e-6)


def test_a_diverging_run_says_so(corpus, tmp_path) -> None:
    plan = replace(TINY, learning_rate=float("inf"))
    with pytest.raises(CheckpointError, match="learning rate"):
        train_book_model([corpus[0]], [corpus[1]], tmp_path, plan, device="cpu", progress=False)


def test_another_plan_or_corpus_is_refused(uninterrupted, corpus, tmp_path) -> None:
    text = [corpus[0]]
    held_out = [corpus[1]]
    with pytest.raises(CheckpointError, match=r"another plan \(batch differ\)"):
        train_book_model(text, held_out, uninterrupted, replace(TINY, batch=5), progress=False)
    with pytest.raises(CorpusError, match="held out"):
        train_book_model(text, text, tmp_path, TINY, progress=False)
