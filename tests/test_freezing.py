"""Freezing and verifying studies, the printed numbers, and the commands that show models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from families import VOCAB, make, save
from random_models import plain_layer, plain_rows

from lnattn import load_first_layer, plain
from lnattn.cli.main import main
from lnattn.contribution.study import Contributions
from lnattn.errors import LnattnError, TokenError
from lnattn.freezing import STUDIES, Study, _differences, compare_arrays, freeze, verify
from lnattn.storage import read_result, write_result
from lnattn_book.frozen import making as freezing
from lnattn_book.frozen.printed import differences_from_printed
from lnattn_book.studies import samples

QUICK = ["position", "composition"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return save(make("gpt2", torch.float32), tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def frozen(model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    assert [one.study for one in freeze(str(model), folder, QUICK)] == QUICK
    return folder


def _changed(folder: Path, place: Path, name: str, change) -> Path:
    """A copy of the frozen results in which one study's arrays or record are changed."""
    for one in QUICK:
        arrays, record = read_result(folder, one)
        if one == name:
            change(arrays, record)
        write_result(place, one, arrays, record)
    return place


def test_what_was_frozen_verifies(model, frozen) -> None:
    compared = list(verify(str(model), frozen))
    assert [one.study for one in compared] == QUICK
    assert not any(one.differences for one in compared), compared


def test_a_changed_number_is_listed(model, frozen, tmp_path) -> None:
    def change(arrays, _record):
        arrays["variance"][3] += 1e-3 * np.abs(arrays["variance"]).max()

    folder = _changed(frozen, tmp_path, "position", change)
    by_study = {one.study: one for one in verify(str(model), folder)}
    assert not by_study["composition"].differences
    assert len(by_study["position"].differences) == 1
    assert by_study["position"].differences[0].startswith("variance differs by up to")


def test_other_weights_are_listed(frozen, tmp_path) -> None:
    torch.manual_seed(99)
    changed = make("gpt2", torch.float32)
    with torch.no_grad():
        changed.transformer.wpe.weight += 0.1 * torch.randn_like(changed.transformer.wpe.weight)
    other = save(changed, tmp_path)
    differences = next(verify(str(other), frozen, ["position"])).differences
    assert any(text.startswith("variance differs") for text in differences)


def test_all_studies_of_a_model_and_those_it_does_not_support(
    model, tmp_path, monkeypatch, capsys
) -> None:
    """The surveys are stubs here: their own tests cover what they compute."""
    first = load_first_layer(model)
    seen = freezing.survey.Surveyed(first)
    monkeypatch.setattr(freezing.survey, "evidence", lambda *_, **__: seen)
    monkeypatch.setattr(freezing.survey, "survey", lambda *_, **__: {})
    monkeypatch.setattr(freezing.survey, "survey_of_null", lambda *_, **__: {})
    found = {one.study: one for one in freeze(str(model), tmp_path)}
    quick = [name for name, study in STUDIES.items() if not study.long]
    assert list(found) == quick
    # The tiny model has no tokenizer, so no text can be read with it.
    without = {"detokenization", "contribution", "selectability-text"}
    long = {name: study for name, study in STUDIES.items() if study.long}
    assert long
    with pytest.raises(LnattnError, match="tokenizer"):
        list(freeze(str(model), tmp_path, list(long)))
    for name in without:
        assert found[name].path is None
        assert "no tokenizer" in found[name].why
    written = {name for name, one in found.items() if one.path}
    assert "added to its input" in found["rotary"].why
    assert written == set(quick) - without - {"rotary"}
    assert {path.stem for path in tmp_path.glob("*.json")} == written
    assert main(["freeze", str(model), "--out", str(tmp_path), "--only", "detokenization"]) == 1
    assert "no tokenizer" in capsys.readouterr().err


def test_contributions_are_frozen_from_the_sample(tmp_path, monkeypatch) -> None:
    """The embedded model on two short texts: what its chapter computes, and it verifies."""
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "The city of York is old."}\n{"text": "It rained in the north."}\n')
    monkeypatch.setattr(samples, "sample_file", lambda: texts)
    (done,) = freeze("book-gpt2", tmp_path / "out", ["contribution"])
    assert done.path is not None
    found = Contributions.read(tmp_path / "out")
    assert found.documents == 2
    assert found.grand_mean().shape == (6, 9)
    assert found.record["corpus"][0]["file"] == "texts.jsonl"
    (compared,) = verify("book-gpt2", tmp_path / "out")
    assert not compared.differences, compared
    texts.write_text('{"text": "The city of York is old."}\n')
    (compared,) = verify("book-gpt2", tmp_path / "out")
    assert compared.differences


class Words:
    """A tokenizer whose tokens are t0, t1, …"""

    unk_token_id = eos_token_id = None

    def get_vocab(self) -> dict[str, int]:
        return {f"t{i}": i for i in range(VOCAB)}

    def __call__(self, text, **_) -> dict[str, list[int]]:
        return {"input_ids": [int(part) for part in text.replace("t", " ").split()]}

    def decode(self, ids) -> str:
        return "".join(f"t{i}" for i in ids)


@pytest.fixture(scope="module")
def with_words(model):
    first = load_first_layer(model)
    return replace(first.to(torch.float64), tokenizer=Words())


def _scores_by_hand(model, query: int, head: int) -> np.ndarray:
    """T^ee of a query token with all tokens, from its definition."""
    folded = plain.fold(plain_layer(model.attention))
    return plain.affinities(query, *plain_rows(model.embeddings), folded)[head]


def test_printed_scores_are_compared_with_the_definition(with_words) -> None:
    row = _scores_by_hand(with_words, 5, 1)
    order = np.argsort(-row)
    printed = {f"t{i}": float(row[i]) for i in (order[0], order[3], order[-1])}
    options = {"head": 1, "query": "t5"}
    assert differences_from_printed(with_words, printed, **options) == []
    wrong = {**printed, f"t{order[3]}": printed[f"t{order[3]}"] * 1.004}
    assert len(differences_from_printed(with_words, wrong, **options)) == 1
    swapped = dict(reversed(printed.items()))
    ends = differences_from_printed(with_words, swapped, **options)
    assert [text.split(" is ")[0] for text in ends] == ["the highest score", "the lowest score"]
    with pytest.raises(TokenError, match="GPT-2"):
        differences_from_printed(with_words)


def test_affinity_command_shows_the_best_partners(with_words, monkeypatch, capsys) -> None:
    monkeypatch.setattr("lnattn.models.checkpoints.load_first_layer", lambda _name: with_words)
    assert main(["affinity", "any", "t5", "--head", "1", "--top", "3", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    scores = _scores_by_hand(with_words, 5, 1)
    assert [one["id"] for one in row["partners"]] == np.argsort(-scores)[:3].tolist()
    found = [one["score"] for one in row["partners"]]
    assert found == pytest.approx(np.sort(scores)[::-1][:3], rel=1e-9)
    assert main(["affinity", "any", "t5"]) == 0
    assert "'t5' head 0: 't" in capsys.readouterr().out
    assert main(["affinity", "any", "t5t6"]) == 1
    assert "no single token of this model but 't5', 't6'" in capsys.readouterr().err
    assert main(["affinity", "any", "t5", "--head", "99"]) == 1
    assert "99 is none" in capsys.readouterr().err


def test_a_verdict_that_changed_is_listed() -> None:
    """Also where every number behind it stayed: the rule may be another."""
    before, after = (
        ({}, {"verdicts": [{"claim": "K6", "verdict": verdict}]}) for verdict in ("holds", "fails")
    )
    study = Study("survey", lambda *_: Path())
    assert list(_differences(before, after, study)) == ["K6: 'holds' when frozen, 'fails' now"]
    assert not list(_differences(before, before, study))


def test_a_few_entries_may_jump_and_no_more() -> None:
    """An AUROC jumps where two scores that are equal but for rounding change places."""
    frozen = np.linspace(0.2, 1.0, 2000)
    few, many, far = frozen.copy(), frozen.copy(), frozen.copy()
    few[7] += 2e-4
    many[:9] += 2e-4
    far[7] += 4e-4
    study = Study("auroc", lambda *_: Path(), max_outlier=3e-4)
    for anew, differs in ((frozen, False), (few, False), (many, True), (far, True)):
        assert bool(list(compare_arrays("auroc", frozen, anew, study))) is differs
    assert list(compare_arrays("auroc", frozen, few, Study("other", lambda *_: Path())))
