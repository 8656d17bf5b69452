"""Arms that differ in one thing: that they do, what the rules say of them, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from experiments.book_model.loop import held_out_loss, train
from experiments.book_model.plan import TrainingPlan
from experiments.book_model.snapshots import snapshots
from experiments.displaced import __main__ as displaced
from experiments.displaced.rules import SENTENCES, coming_first, of_seeds, staying
from experiments.joining import __main__ as joining
from lnattn import load_first_layer
from lnattn.errors import CheckpointError, CorpusError, ResultError
from lnattn.paths import data_folder
from lnattn.storage import read_json
from lnattn.text.tokenizers import load_tokenizer
from lnattn_book.chapters.pairs_first import DIFFERENCE, MEASURES, Snapshots

TINY = TrainingPlan(
    layers=2, d_model=16, heads=2, context=32, vocab_size=300, steps=256, batch=2, warmup=2,
    learning_rate=1e-2, dropout=0.0, evaluate_every=100, schedule="trapezoid",
)  # fmt: skip
TEXT = np.random.default_rng(0).integers(0, 300, size=2000).astype(np.uint16)
HELD_OUT = np.random.default_rng(1).integers(0, 300, size=100).astype(np.uint16)


def tiny(arm: str, seed: int) -> TrainingPlan:
    return replace(TINY, seed=seed, **displaced.ARMS[arm])


# ---- What the arms change ------------------------------------------------------------------------


def test_the_plan_is_that_of_the_embedded_model():
    plan = displaced.plan_of("control", 3)
    recorded = read_json(data_folder() / "book-gpt2" / "training.json")["plan"]
    assert {**vars(plan), "seed": 0} == {**vars(TrainingPlan()), **recorded}
    for arm in ("frozen", "untied"):
        other = vars(displaced.plan_of(arm, 3))
        assert [name for name, value in vars(plan).items() if other[name] != value] == [
            *displaced.ARMS[arm]
        ]


def test_all_arms_begin_as_the_control():
    losses = []
    for arm in displaced.ARMS:
        torch.manual_seed(5)
        model = tiny(arm, 5).new_model(0)
        losses.append(held_out_loss(model, HELD_OUT, 32))
    assert losses[0] == losses[1] == losses[2]


def test_arms_differ_in_what_they_say_and_are_read_as_they_were(tmp_path):
    ends = {}
    for arm in displaced.ARMS:
        folder = tmp_path / arm
        load_tokenizer(data_folder() / "book-gpt2").save_pretrained(str(folder))
        options = {"device": "cpu", "progress": False}
        train(TEXT, HELD_OUT, tiny(arm, 0), folder, 0, until=64, **options)
        (end,) = snapshots(folder)
        state = load_file(folder / "checkpoint" / "last.safetensors")
        read = end.whole()
        for name, value in read.state_dict().items():
            if name in state:
                torch.testing.assert_close(value, state[name], atol=1e-3, rtol=1e-3)
        tokens = read.transformer.wte.weight
        assert torch.equal(end.model.embeddings.W_E, tokens)
        assert (read.lm_head.weight is tokens) == (arm != "untied")
        ends[arm] = read
    torch.manual_seed(0)
    start = tiny("control", 0).new_model(0).transformer
    for arm, end in ends.items():
        positions = end.transformer.wpe.weight
        moved = (positions - start.wpe.weight).abs().max()
        assert (moved > 1e-2) == (arm != "frozen"), arm
        moved = (end.transformer.wte.weight - start.wte.weight).abs().max()
        assert moved > 1e-2, arm
    untied = ends["untied"]
    assert (untied.lm_head.weight - untied.transformer.wte.weight).abs().max() > 1e-2


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path):
    options = {"device": "cpu", "progress": False}
    plan = tiny("untied", 1)
    for until in (8, 12):
        train(TEXT, HELD_OUT, plan, tmp_path / "twice", 0, until=until, **options)
    train(TEXT, HELD_OUT, plan, tmp_path / "once", 0, until=12, **options)
    file = Path("checkpoint") / "last.safetensors"
    twice = load_file(tmp_path / "twice" / file)
    for name, value in load_file(tmp_path / "once" / file).items():
        assert torch.equal(twice[name], value), name
    progress = read_json(tmp_path / "twice" / "checkpoint" / "progress.json")
    assert progress["step"] == 12
    assert progress["plan"]["steps"] == 256


@pytest.mark.parametrize("change", [{"positions": "frozen"}, {"unembedding": "own"}])
@pytest.mark.parametrize("other", [{"architecture": "llama"}, {"attention": "rotary"}])
def test_what_has_no_learned_positions_has_none_to_freeze(change, other):
    with pytest.raises(CheckpointError, match="GPT-2 with learned positions"):
        TrainingPlan(**change, **other)


# ---- What the rules say --------------------------------------------------------------------------


def arm(looks, previous, difference=(0.0, 0.0, 0.5, 0.9)):
    """Snapshots of three seeds or more; looks, previous: [seed snapshot]; chance finds 0.05."""
    rows = {
        (seed, step): {
            "found": looks[seed][place],
            "chance": 0.05,
            "chance high": 0.06,
            "tokens": tokens,
            "previous": previous[seed][place],
            "difference": np.asarray(difference[place]) + 0.0005 * seed,
        }
        for seed in range(len(looks))
        for place, (step, tokens) in enumerate(
            [(64, 2**19), (512, 2**22), (1024, 2**23), (4096, 2**25)]
        )
    }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(rows, names=["seed", "step"])
    return Snapshots(table)


FADING = [[0.05, 0.1, 0.25 + shift, 0.07 + shift] for shift in (0.0, 0.01, 0.005)]
STAYING = [[0.05, 0.1, 0.25 + shift, 0.23 + shift] for shift in (0.0, 0.01, -0.01)]
LESS = [[0.05, 0.1, 0.45 + shift, 0.17 + shift] for shift in (0.0, 0.01, 0.005)]
NOTHING = [[0.05, 0.05, 0.055, 0.05]] * 3
BACK = [[0.01, 0.02, 0.1, 0.5]] * 3
AHEAD = [[0.01, 0.01, 0.02, 0.03]] * 3


@pytest.mark.parametrize(
    ("outcome", "frozen", "control"),
    [
        ("stays", arm(STAYING, AHEAD), arm(FADING, BACK)),
        ("fades less", arm(LESS, AHEAD), arm(FADING, BACK)),
        ("fades as well", arm(FADING, AHEAD), arm(FADING, BACK)),
        ("undecided, frozen", arm([*STAYING[:1], *FADING[1:]], AHEAD), arm(FADING, BACK)),
        ("cannot be asked", arm(STAYING, [*AHEAD[:2], BACK[0]]), arm(FADING, BACK)),
        ("cannot be asked", arm(STAYING, AHEAD), arm(FADING, [*BACK[:2], AHEAD[0]])),
        ("cannot be asked", arm(NOTHING, AHEAD), arm(FADING, BACK)),
        ("cannot be asked", arm(STAYING, AHEAD), arm([FADING[0], *NOTHING[:2]], BACK)),
    ],
)
def test_each_outcome_of_frozen_positions(outcome, frozen, control):
    answer = staying({"control": control, "frozen": frozen})
    assert answer.outcome == outcome
    assert answer.sentence == SENTENCES[outcome].format(seeds=3)


def test_what_is_left_by_hand():
    table = of_seeds(arm(FADING, BACK, (0.002, -0.02, -0.5, 0.9)))
    np.testing.assert_allclose(table["left"], [0.02, 0.03, 0.025])
    np.testing.assert_allclose(table["lead"], [0.02, 0.0195, 0.019])
    assert table["displaced"].all()
    np.testing.assert_allclose(table["previous"], 0.5)


LEADING, LITTLE, NONE = (0.0, -0.03, 0.5, 0.9), (0.0, -0.008, 0.5, 0.9), (0.0, 0.01, 0.5, 0.9)


@pytest.mark.parametrize(
    ("outcome", "untied", "control"),
    [
        ("without it too", LEADING, LEADING),
        ("without it too", LITTLE, LEADING),
        ("by the tie", NONE, LEADING),
        ("undecided, untied", NONE, NONE),
    ],
)
def test_each_outcome_of_an_unembedding_of_its_own(outcome, untied, control):
    arms = {"control": arm(FADING, BACK, control), "untied": arm(FADING, BACK, untied)}
    answer = coming_first(arms)
    assert answer.outcome == outcome
    assert answer.sentence == SENTENCES[outcome].format(seeds=3)


def test_a_lead_that_differs_between_seeds_is_less():
    untied = arm(FADING, BACK, NONE)
    untied.table.loc[(0, 512), "difference"] = -0.02  # mean 0.0067, its interval from below 0.005
    answer = coming_first({"control": arm(FADING, BACK, LEADING), "untied": untied})
    assert answer.low < 0.005 < answer.value
    assert answer.outcome == "undecided, untied"  # the interval of the difference holds 0
    untied.table.loc[(0, 512), "difference"] = -0.0155
    answer = coming_first({"control": arm(FADING, BACK, LEADING), "untied": untied})
    assert (answer.value > 0.005, answer.outcome) == (True, "less without it")


def test_two_seeds_decide_nothing():
    control = arm(FADING, BACK)
    frozen = arm(STAYING[:2], AHEAD[:2])
    with pytest.raises(ResultError, match="2 seeds are finished in control and frozen"):
        staying({"control": control, "frozen": frozen})


# ---- The command ---------------------------------------------------------------------------------


def answered_at_once(snapshot, counts, what, each_head) -> dict[str, np.ndarray]:
    """In place of what takes minutes, and has tests of its own."""
    assert not each_head
    if what == "looks":
        numbers = {
            "found": 0.2,
            "chance": 0.1,
            "chance high": 0.15,
            "previous": 0.3,
            "spread pp": 0,
        }
        return {"head": np.array([-1, 0]), **{k: np.full(2, v) for k, v in numbers.items()}}
    rows = [(m, r) for m in MEASURES for r in ("ee", "place", "position", DIFFERENCE)]
    measures, removed = np.array(rows).T
    values = {name: np.full(len(rows), 0.25) for name in ("value", "low", "high")}
    return {"measure": measures, "removed": removed, "head": np.full(len(rows), -1), **values}


def test_the_command_trains_asks_keeps_and_goes_on(tmp_path, monkeypatch, capsys):
    words_of_text = ["The", "village", "lies", "on", "a", "river", ".", "Its", "church", "stands"]
    rng = np.random.default_rng(0)
    for name, documents in (("text", 20), ("held", 2)):
        lines = [
            json.dumps({"text": " ".join(rng.choice(words_of_text, 80))}) for _ in range(documents)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    plan = replace(TINY, vocab_size=8192, unembedding="own")
    monkeypatch.setattr(displaced, "plan_of", lambda arm, seed: plan)
    monkeypatch.setattr(joining, "asked", answered_at_once)
    words = [
        str(tmp_path / "text.jsonl"), "--held-out", str(tmp_path / "held.jsonl"), "--runs",
        str(tmp_path / "runs"), "--out", str(tmp_path / "results"), "--keep",
        str(tmp_path / "kept"), "--device", "cpu", "--arms", "untied", "--seeds", "1",
    ]  # fmt: skip
    with pytest.raises(CorpusError, match="is not that of book-gpt2"):
        displaced.run(displaced.parser().parse_args(words))
    for steps in (64, 128):
        args = displaced.parser().parse_args([*words, "--other-text", "--steps", str(steps)])
        displaced.run(args)
        answered = Snapshots.read(tmp_path / "results" / "displaced-untied")
        record = read_json(tmp_path / "kept" / "untied-0" / "training.json")
        assert record["step"] == steps == answered.table.index[-1][1]
    assert len(answered.table) == 2
    assert capsys.readouterr().out.count("looks-seed-0-step-64") == 2
    assert record["plan"]["unembedding"] == "own"
    assert record["corpus"]["train"][0]["file"] == "text.jsonl"
    record = read_json(tmp_path / "results" / "displaced-untied" / "lost.json")
    assert "joining RUNS --every" in record["command"]
    end = load_first_layer(tmp_path / "kept" / "untied-0")
    whole = load_file(tmp_path / "kept" / "untied-0" / "model.safetensors")
    assert torch.equal(end.embeddings.W_E, whole["transformer.wte.weight"].float())
    assert whole["lm_head.weight"].shape == (8192, 16)
