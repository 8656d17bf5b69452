"""Claims judged on shorter trainings: counting verdicts, the file, the ledger, and real runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lnattn.book.results import read_all
from lnattn.book.seeds import check_seeds, facts_of, freeze_seeds, table_of
from lnattn.claims import kamoda_position, ledger, seeds
from lnattn.claims.seeds import Judged, Seeds, read_seeds, write_seeds
from lnattn.claims.survey import ASKED
from lnattn.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, Verdict, rule_of
from lnattn.cli import main
from lnattn.errors import CheckpointError, ResultError
from lnattn.storage import read_json, write_json
from lnattn.training.book_model import train_book_model
from lnattn.training.plan import TrainingPlan


def judged(seed: int, **verdicts: str) -> Judged:
    """A made-up training with these verdicts by claim."""
    given = {
        claim: Verdict(claim, f"m, seed {seed}", verdict, "words", rule_of(claim), {"x": 1.5})
        for claim, verdict in verdicts.items()
    }
    return Judged(seed, 10, 320, 5.5, "0" * 64, given)


@pytest.fixture
def made_up() -> Seeds:
    itself = judged(0, K4=HOLDS, K6=HOLDS, K7=FAILS)
    runs = [
        judged(0, K4=HOLDS, K6=NOT_SEEN, K7=HOLDS),
        judged(1, K4=HOLDS, K6=NOT_SEEN, K7=FAILS),
        judged(2, K4=HOLDS, K6=NOT_SEEN, K7=HOLDS_IN_PART),
    ]
    return Seeds(itself, runs)


def test_verdicts_are_counted(made_up) -> None:
    words = {claim: made_up.in_words(one) for claim, one in made_up.itself.verdicts.items()}
    assert words["K4"] == "the same in 3 of 3 shorter runs"
    assert words["K6"] == "the same in 0 of 3 shorter runs (not seen in this model: 3)"
    assert words["K7"] == "the same in 1 of 3 shorter runs (holds: 1, holds in part: 1)"
    assert made_up.in_words(replace(made_up.itself.verdicts["K4"], claim="K1")) == ""
    assert (made_up.alike(), made_up.by_length(), made_up.by_chance()) == (["K4"], ["K6"], ["K7"])


def test_the_page_of_the_model_is_told_the_same(made_up) -> None:
    told = facts_of(made_up)
    groups = [told[name] for name in ("alike", "length", "chance")]
    assert groups == ["1 of 3 claims (K4)", "1 of 3 claims (K6)", "1 of 3 claims (K7)"]
    assert told["trained"] == (
        "3 of them, with seeds 0, 1 and 2 (the model's own is 0), for 0.0 million tokens each, "
        "100% of the model's, ended at 5.50 to 5.50 nats a token, where the model has 5.50"
    )
    assert "1 have one verdict in the model and in 3 shorter trainings" in told["short"]
    assert facts_of(replace(made_up, runs=[made_up.itself]))["chance"] == "0 of 3 claims"
    table = table_of(made_up, ["K7", "K6"])
    assert table.columns.tolist() == ["the model", "seed 0", "seed 1", "seed 2"]
    assert table.loc["K7"].tolist() == [FAILS, HOLDS, FAILS, HOLDS_IN_PART]
    assert table_of(made_up, ["K6"], "words").loc["K6", "seed 1"] == "words"
    # Where nothing is frozen the page says so, with the same names.
    assert set(facts_of(None)) == set(told)
    assert facts_of(None)["short"].startswith("It is not known: no such trainings are frozen")
    assert table_of(None, []).empty


def test_the_file_is_read_as_it_was_written(made_up, tmp_path) -> None:
    path = write_seeds(tmp_path, made_up, model="m")
    again = read_seeds(tmp_path)
    assert again == replace(made_up, runs=tuple(made_up.runs))
    assert check_seeds(tmp_path) == again
    record = read_json(path)
    assert set(record["rules"]) == {"K4", "K6", "K7"}
    assert "rule" not in record["runs"][0]["verdicts"]["K4"]
    with pytest.raises(ResultError, match="the same claims by the same rules"):
        write_seeds(tmp_path, replace(made_up, runs=[judged(1, K4=HOLDS)]))
    write_json(path, {**record, "rules": {**record["rules"], "K9": "?"}})
    with pytest.raises(ResultError, match="holds no verdicts on seeds"):
        read_seeds(tmp_path)


def test_another_rule_is_no_longer_counted(made_up, tmp_path) -> None:
    path = write_seeds(tmp_path, made_up)
    record = read_json(path)
    record["rules"]["K6"] += " Or not."
    write_json(path, record)
    with pytest.raises(ResultError, match="another rule of K6; judge the runs again"):
        check_seeds(tmp_path)
    with pytest.raises(ResultError, match="another rule of K6; judge them again"):
        read_seeds(tmp_path).same(made_up.itself.verdicts["K6"])


def test_the_ledger_says_it_beside_a_verdict_on_that_model(made_up, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LNATTN_DATA", str(tmp_path / "data"))
    write_seeds(tmp_path / "data" / "results" / "book-gpt2", made_up)
    for model in ("book-gpt2", "gpt2", "majority, equal norms √d", "someone/book-gpt2"):
        found = kamoda_position.k6(np.array([0.95, 0.2]), model=model)
        assert found.verdict == HOLDS_IN_PART
        ledger.register(found, note="by hand", folder=tmp_path / "ledger")
    notes = {entry.model: entry.note for entry in ledger.entries(tmp_path / "ledger")}
    said = "by hand; the same in 0 of 3 shorter runs (not seen in this model: 3)"
    assert notes.pop("book-gpt2") == said
    assert set(notes.values()) == {"by hand"}


PLAN = TrainingPlan(
    layers=1, d_model=16, heads=4, context=32, vocab_size=400, steps=3, batch=4, dropout=0.0
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A data folder with a tiny book-gpt2 and sample texts, and two shorter runs beside it."""
    place, rng = tmp_path_factory.mktemp("seeds"), np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghijklmnop"), rng.integers(2, 8))) for _ in range(200)]

    def texts(n: int) -> str:
        rows = (" ".join(rng.choice(words, 120)) for _ in range(n))
        return "".join(json.dumps({"text": row}) + "\n" for row in rows)

    (place / "train.jsonl").write_text(texts(40))
    (place / "valid.jsonl").write_text(texts(5))
    (place / "data" / "text").mkdir(parents=True)
    (place / "data" / "text" / "sample.jsonl").write_text(texts(12))
    runs = {place / "data" / "book-gpt2": PLAN}
    runs |= {place / f"seed-{n}": replace(PLAN, seed=n, steps=2) for n in (1, 2)}
    for folder, plan in runs.items():
        if plan.seed:
            folder.mkdir()
            shutil.copy(place / "data" / "book-gpt2" / "tokenizer.json", folder)
            shutil.copy(place / "data" / "book-gpt2" / "tokenizer_config.json", folder)
        sources = [place / "train.jsonl"], [place / "valid.jsonl"]
        train_book_model(*sources, folder, plan, progress=False)
    return place


def test_runs_are_judged_by_every_rule_that_weights_decide(trained, monkeypatch, capsys) -> None:
    monkeypatch.setenv("LNATTN_DATA", str(trained / "data"))
    results = trained / "data" / "results"
    runs = [str(trained / f"seed-{n}") for n in (1, 2)]
    assert main(["seeds", "book-gpt2", *runs]) == 0
    assert "K4 " in capsys.readouterr().out
    found = check_seeds(results / "book-gpt2")
    assert found.claims == [*ASKED, "K16", "S1", "S2", "S3"]
    assert [(one.seed, one.steps, one.tokens) for one in found.runs] == [(1, 2, 256), (2, 2, 256)]
    assert (found.itself.seed, found.itself.steps) == (0, 3)
    for one, folder in zip(found.runs, runs, strict=True):
        record = read_json(Path(folder) / "training.json")
        assert one.held_out_loss == record["held_out_loss"]
        assert one.weights_sha256 == record["weights_sha256"]
    # The rules were given the runs' own weights: numbers of two trainings differ.
    smallest = {one.verdicts["K15"].values["smallest"] for one in (found.itself, *found.runs)}
    assert len(smallest) == 3
    assert not [wrong for _, wrong in read_all(results) if wrong]
    assert seeds.of_model("book-gpt2") == found
    assert seeds.of_model("gpt2") is None


def test_runs_that_do_not_belong_are_refused(trained, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("LNATTN_DATA", str(trained / "data"))
    one, other = trained / "seed-1", trained / "seed-2"
    with pytest.raises(CheckpointError, match=r"another seed, not of \[1, 1\]"):
        freeze_seeds("book-gpt2", [one, one], tmp_path)
    with pytest.raises(CheckpointError, match="holds no training"):
        freeze_seeds("book-gpt2", [one, tmp_path], tmp_path)
    shutil.copytree(other, tmp_path / "run")
    record = read_json(other / "training.json")
    wrong = {**record, "plan": {**record["plan"], "heads": 2}, "corpus": {}}
    write_json(tmp_path / "run" / "training.json", wrong)
    with pytest.raises(CheckpointError, match="heads, the texts differ"):
        freeze_seeds("book-gpt2", [one, tmp_path / "run"], tmp_path)
    write_json(tmp_path / "run" / "training.json", {**record, "weights_sha256": "0"})
    with pytest.raises(CheckpointError, match="the weights are not those"):
        freeze_seeds("book-gpt2", [tmp_path / "run", one], tmp_path)
