"""Every option of every command changes what comes out, and as its help says.

The parsers are walked: an option without a check here fails. Where the work behind an option is
tested elsewhere, the check asks what reached it.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from random_models import random_gpt2
from test_counting import as_dicts, by_counter, make_tokenizer, write_jsonl
from test_explorer_checkpoint import vectors_of

import lnattn
from lnattn.cli.main import COMMANDS, build_parser, main
from lnattn.text.counts import Counts

CITY, YORK = " city", " York"
ASKED: set[tuple[str, str]] = set()


def walked() -> Iterator[tuple[str, str]]:
    """Each command with each of its options and arguments, by the name that the help shows."""
    for command in COMMANDS:
        (commands,) = (
            action
            for action in build_parser(command)._actions
            if isinstance(action, argparse._SubParsersAction)
        )
        for action in commands.choices[command]._actions:
            if action.dest != "help":
                yield command, action.option_strings[0] if action.option_strings else action.dest


class Bench:
    """A folder, what a command prints, and what reaches a function of the package."""

    def __init__(self, folder: Path, capsys: Any, monkeypatch: Any) -> None:
        self.folder = folder
        self.capsys = capsys
        self.monkeypatch = monkeypatch

    def said(self, *words: Any, code: int = 0) -> str:
        assert main([str(word) for word in words]) == code
        return self.capsys.readouterr().out

    def printed(self, *words: Any, code: int = 0) -> Any:
        return json.loads(self.said(*words, "--json", code=code))

    def reaches(self, name: str, *words: Any, gives: Any = None) -> dict[str, Any]:
        """The arguments by name with which a command calls the function of this dotted name."""
        given: dict[str, Any] = {}
        module, function = name.rsplit(".", 1)
        signature = inspect.signature(getattr(__import__(module, fromlist=["_"]), function))

        def called(*arguments: Any, **options: Any) -> Any:
            bound = signature.bind(*arguments, **options)
            bound.apply_defaults()
            given.update(bound.arguments)
            return gives

        with self.monkeypatch.context() as patched:
            patched.setattr(name, called)
            assert main([str(word) for word in words]) in (0, 1)
        self.capsys.readouterr()
        return given

    def model(self, seed: int = 3) -> Path:
        folder = self.folder / "model"
        random_gpt2(seed=seed, vocab=20, context=16).float().save_pretrained(folder)
        return folder


@pytest.fixture
def bench(tmp_path, capsys, monkeypatch) -> Bench:
    return Bench(tmp_path, capsys, monkeypatch)


def asks(command: str, *options: str) -> Callable[[Any], Any]:
    """Notes which options of a command, or of several, a test is about."""

    def noted(test: Callable[[Any], None]) -> Callable[[Any], None]:
        ASKED.update((one, option) for one in command.split() for option in options)
        return test

    return noted


def test_the_version(bench) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert bench.capsys.readouterr().out == f"lnattn {version('lnattn')}\n"


@asks("models", "--json")
def test_as_json(bench) -> None:
    rows = bench.printed("models")["models"]
    lines = bench.said("models").splitlines()
    assert all(any(line.startswith(row["name"]) for line in lines) for row in rows)
    assert len({row["name"] for row in rows}) == len(rows) > 5
    (book,) = (row for row in rows if row["name"] == "book-gpt2")
    assert f"[frozen: {', '.join(book['frozen'])}]" in lines[-len(rows)]
    assert "survey" in book["frozen"]


# ---- affinity ------------------------------------------------------------------------------------


@asks("affinity", "model", "token", "--side", "--json")
def test_partners_by_the_model_and_the_side(bench) -> None:
    """Two tokens in the order given, and both sides by a product of vectors; keys are usual."""
    line = ["affinity", "book-gpt2", YORK, CITY]
    model = lnattn.load_first_layer("book-gpt2").to(torch.float64)
    queries, keys = vectors_of(model, distance=1)
    ids = [model.tokenizer.encode(text)[-1] for text in (YORK, CITY)]
    for side, mine, others in (("queries", keys, queries), ("keys", queries, keys)):
        rows = bench.printed(*line, "--side", side)
        asked = [(text, head) for text in (YORK, CITY) for head in range(len(keys))]
        assert [(row["token"], row["head"]) for row in rows] == asked
        right = [(others[h] @ mine[h, i]).topk(5) for i in ids for h in range(len(keys))]
        ids_found = [[one["id"] for one in row["partners"]] for row in rows]
        assert ids_found == [best.indices.tolist() for best in right]
        scores = [[one["score"] for one in row["partners"]] for row in rows]
        np.testing.assert_allclose(scores, [best.values for best in right], atol=1e-4)
    for told, row in zip(bench.said(*line).splitlines(), rows, strict=True):
        best = ", ".join(f"{one['token']!r} {one['score']:.2f}" for one in row["partners"])
        assert told == f"{row['token']!r} head {row['head']}: {best}"


@asks("affinity", "--head", "--top")
def test_one_head_and_so_many_partners(bench) -> None:
    every = bench.printed("affinity", "book-gpt2", CITY, "--top", 7)
    assert {len(row["partners"]) for row in every} == {7}
    for head in (0, 3):
        assert bench.printed("affinity", "book-gpt2", CITY, "--head", head, "--top", 7) == [
            every[head]
        ]


@asks("affinity", "--distance")
def test_a_distance(bench) -> None:
    model = lnattn.load_first_layer("book-llama").to(torch.float64)
    token = model.tokenizer.encode(YORK)[-1]
    found = {}
    for distance in (None, 0, 1, 4):
        option = [] if distance is None else ["--distance", distance]
        rows = bench.printed("affinity", "book-llama", YORK, *option)
        queries, keys = vectors_of(model, distance=1 if distance is None else distance)
        found[distance] = [row["partners"][0]["score"] for row in rows]
        best = torch.einsum("hw,hkw->hk", queries[:, token], keys).amax(dim=1)
        np.testing.assert_allclose(found[distance], best, atol=1e-4)
    assert found[None] == found[1] != found[4]


# ---- count ---------------------------------------------------------------------------------------

DOCUMENTS = [["w1 w2 w1 w1", "w3 w1"], ["w2 w2 w3 w1 w4"]]


def counted(bench: Bench, *options: Any) -> Counts:
    """Two files, each with another text in the field 'body', counted by the command."""
    make_tokenizer().save(str(bench.folder / "words.json"))
    texts = [
        write_jsonl(bench.folder / f"{i}.jsonl", documents) for i, documents in enumerate(DOCUMENTS)
    ]
    for text in texts:
        rows = [json.loads(line) for line in text.read_text().splitlines()]
        lines = [json.dumps(row | {"body": "w5 w6"}) for row in rows]
        text.write_text("\n".join(lines))
    words = ["--tokenizer", bench.folder / "words.json", "--workers", 1, "--out"]
    bench.said("count", *texts, *words, bench.folder / "out.npz", *options)
    return Counts.load(bench.folder / "out.npz")


@asks("count", "text", "--tokenizer", "--out", "--field")
def test_the_texts_and_their_field(bench) -> None:
    every = [text for documents in DOCUMENTS for text in documents]
    assert as_dicts(counted(bench)) == by_counter(every)
    assert as_dicts(counted(bench, "--field", "body")) == by_counter(["w5 w6"] * 3)


@asks("count", "--skip", "--boundary")
def test_pairs_apart_and_ends(bench) -> None:
    words = [text.split() for documents in DOCUMENTS for text in documents]
    vocabulary = make_tokenizer().get_vocab()
    for skip in (1, 2, 3):
        right: dict[tuple[int, int], int] = {}
        for text in words:
            for first, second in zip(text, text[skip:], strict=False):
                pair = vocabulary[first], vocabulary[second]
                right[pair] = right.get(pair, 0) + 1
        assert as_dicts(counted(bench, "--skip", skip))[1] == right
    plain, ends, both = (counted(bench, "--boundary", kind) for kind in ("none", "end", "both"))
    assert [ends.tokens - plain.tokens, both.tokens - plain.tokens] == [3, 3]
    pairs = [sum(as_dicts(counts)[1].values()) for counts in (plain, ends, both)]
    assert np.diff(pairs).tolist() == [3, 3]


@asks("count", "--json", "--quiet", "--restart", "--workers")
def test_how_it_is_counted(bench) -> None:
    name = "lnattn.text.counting.count_corpus"
    made = {"documents": 1, "tokens": 2, "pairs": 1, "distinct_pairs": 1}
    (bench.folder / "a.txt").write_text("w1 w2")
    make_tokenizer().save(str(bench.folder / "words.json"))
    line = ["count", bench.folder / "a.txt", "--tokenizer", bench.folder / "words.json", "--out"]
    line += [bench.folder / "out.npz"]
    usual = bench.reaches(name, *line, gives=made)
    asked = bench.reaches(name, *line, "--quiet", "--restart", "--workers", 3, gives=made)
    names = ("progress", "restart", "workers")
    assert [usual[option] for option in names] == [True, False, None]
    assert [asked[option] for option in names] == [False, True, 3]
    record = bench.printed(*line, "--quiet")
    assert record == json.loads((bench.folder / "out.json").read_text())
    assert f"1 documents, {record['tokens']} tokens" in bench.said(*line, "--quiet")


@asks("count", "--config", "--split", "--revision", "--stream", "--cached")
def test_which_texts_of_a_data_set(bench) -> None:
    make_tokenizer().save(str(bench.folder / "words.json"))
    line = ["count", "owner/texts", "--tokenizer", bench.folder / "words.json"]
    line += ["--out", bench.folder / "out.npz"]

    def corpus(*options: str) -> Any:
        name = "lnattn.text.counting.count_corpus"
        made = dict.fromkeys(("documents", "tokens", "pairs", "distinct_pairs"), 1)
        return bench.reaches(name, *line, *options, gives=made)["sources"]

    usual = corpus()
    named = (usual.sources, usual.config, usual.split, usual.revision, usual.field, usual.stream)
    assert named == (("owner/texts",), None, "train", None, "text", None)
    assert corpus("--config", "small").config == "small"
    assert corpus("--split", "test").split == "test"
    assert corpus("--revision", "v1").revision == "v1"
    assert corpus("--stream").stream is True
    assert corpus("--cached").stream is False


# ---- keys ----------------------------------------------------------------------------------------


@asks("keys", "file", "--loose", "--exact", "--json")
def test_verdicts_on_keys(bench) -> None:
    """A square, its middle, and a corner twice: strictly neither of the copies can win alone."""
    square = [[1, 1], [1, -1], [-1, 1], [-1, -1], [0, 0], [1, 1]]
    np.save(bench.folder / "keys.npy", np.array(square, dtype=float))
    np.save(bench.folder / "others.npy", np.array(square[:4], dtype=float))
    line = ["keys", bench.folder / "keys.npy"]
    assert bench.printed(*line)["unselectable"] == [0, 4, 5]
    assert bench.printed(*line, "--loose")["unselectable"] == [4]
    assert bench.printed("keys", bench.folder / "others.npy")["unselectable"] == []
    assert "all 6 certificates hold" in bench.said(*line)
    gives = SimpleNamespace(
        ok=True,
        smallest_margin=1.0,
        largest_residual=0.0,
    )
    for options in ([], ["--exact"]):
        given = bench.reaches("lnattn.selectability.verify.verify", *line, *options, gives=gives)
        assert given["exact"] is bool(options)


# ---- freeze and verify ---------------------------------------------------------------------------


@asks("freeze", "model", "--out", "--only", "--json")
def test_what_is_frozen_and_where(bench) -> None:
    line = ["freeze", bench.model(), "--out", bench.folder / "results", "--only"]
    place = str(bench.folder / "results" / "position.json")
    assert bench.printed(*line, "position") == {"position": place}
    assert sorted(bench.printed(*line, "position", "composition")) == ["composition", "position"]
    assert bench.said(*line, "position") == f"position: {place}\n"


@asks("freeze verify", "--as", "--counts")
def test_the_name_of_the_results_and_the_counts(bench) -> None:
    """In their order, since they are of pairs 1, 2 and 3 apart; nothing lands elsewhere."""
    bench.monkeypatch.setattr("lnattn.freezing.data_folder", lambda: bench.folder)
    options = ["--as", "other", "--counts", "c.npz", "a.npz", "b.npz", "--only", "x", "y"]
    for command in ("freeze", "verify"):
        given = bench.reaches(f"lnattn.freezing.{command}", command, "m", *options, gives=[])
        assert list(given.values())[:4] == [
            "m",
            bench.folder / "results" / "other",
            ["x", "y"],
            ["c.npz", "a.npz", "b.npz"],
        ]
        usual = bench.reaches(f"lnattn.freezing.{command}", command, "m", gives=[])
        assert list(usual.values())[:4] == ["m", bench.folder / "results" / "m", None, []]


@asks("verify", "model", "--folder", "--only", "--json")
def test_what_is_verified(bench) -> None:
    """Results of other weights differ, in the study that is asked for and no other."""
    folder = bench.folder / "results"
    bench.said("freeze", bench.model(), "--out", folder, "--only", "position", "composition")
    line = ["verify", bench.model(), "--folder", folder]
    assert bench.printed(*line) == {"position": [], "composition": []}
    assert bench.said(*line, "--only", "position") == "position: agrees\n"
    other = ["verify", bench.model(seed=4), "--folder", folder]
    (differences,) = bench.printed(*other, "--only", "composition", code=1).values()
    assert differences
    bench.said("freeze", bench.folder / "model", "--out", folder, "--only", "position")
    found = bench.printed(*other, code=1)  # one of two differs
    assert [name for name, differences in found.items() if differences] == ["composition"]
    every = bench.printed("verify", "--folder", folder)
    assert sorted(every) == ["composition.json", "position.json"]


# ---- report --------------------------------------------------------------------------------------


@asks("report", "model", "--out", "--corpus", "--only", "--seed")
def test_what_the_report_is_of(bench) -> None:
    page = bench.folder / "page.html"
    written = []
    made = SimpleNamespace(
        parts=[], record={"seconds": 1}, write=lambda out, *, force: written.append((out, force))
    )
    name = "lnattn.reporting.report.report"
    usual = bench.reaches(name, "report", "m", "--out", page, gives=made)
    names = ("model", "corpus", "only", "seed")
    assert [usual[name] for name in names] == ["m", [], None, 0]
    words = ["--corpus", "b.txt", "a.txt", "--only", "keys,about", "--seed", 7]
    asked = bench.reaches(name, "report", "m", "--out", page, *words, gives=made)
    given = ["m", ["b.txt", "a.txt"], ["keys", "about"], 7]
    assert [asked[name] for name in names] == given
    assert written == [(str(page), False)] * 2


@asks("report", "--force", "--json")
def test_over_what_it_may_be_written(bench) -> None:
    page = bench.folder / "page.html"
    line = ["report", bench.model(), "--out", page, "--only", "sigma"]
    page.write_text("mine")
    assert bench.said(*line, code=1) == ""
    assert page.read_text() == "mine"
    shown = bench.said(*line, "--force")
    assert shown.startswith(f"{page}: sigma; ")
    record = bench.printed(*line)
    written = json.loads((bench.folder / "page.json").read_text())
    assert record["parts"]["sigma"]["sentences"] == written["parts"]["sigma"]["sentences"] != []


def test_no_option_is_left_out() -> None:
    assert set(walked()) == ASKED
