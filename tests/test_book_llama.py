"""The second embedded model's way into the book: a tiny run is embedded, counted, frozen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.book_model import embed
from experiments.book_model.book_model import train_book_model
from experiments.tests.test_training import TINY, _write_corpus
from lnattn import load_first_layer, paths
from lnattn.cli.main import main
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn.text.counts import Counts
from lnattn_book.studies.distance_terms import RotaryStudy
from lnattn_book.studies.samples import token_counts

LICENCE = "made up by a test, in the public domain"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two tiny models trained alike, with learned and with rotary positions."""
    from dataclasses import replace

    place = tmp_path_factory.mktemp("runs")
    text, held_out = _write_corpus(place / "a.jsonl", 40, 0), _write_corpus(place / "b.jsonl", 6, 1)
    found = {}
    for kind in ("gpt2", "llama"):
        plan = replace(TINY, heads=4, architecture=kind)
        found[kind] = place / kind
        train_book_model(
            [text], [held_out], found[kind], plan, licence=LICENCE, device="cpu", progress=False
        )
    return found


@pytest.fixture
def data(runs, tmp_path, monkeypatch) -> Path:
    """A data folder with the sample text, and no model yet."""
    folder = tmp_path / "data"
    sample = "The old man from New York sat on a mat. " * 20
    (folder / "text").mkdir(parents=True)
    (folder / "text" / "sample.jsonl").write_text(json.dumps({"text": sample}) + "\n")
    monkeypatch.setattr("lnattn.rotary.position.NULLS", 2)
    monkeypatch.setenv("LNATTN_DATA", str(folder))
    monkeypatch.setattr(
        "lnattn_book.studies.distance_terms.NAMES", (("cat", "sat"), ("old", "grey"))
    )
    assert paths.data_folder() == folder
    return folder


def test_from_two_runs_to_the_pair_side_by_side(runs, data, tmp_path, capsys) -> None:
    for kind in ("gpt2", "llama"):
        path = embed.embed(runs[kind])
        assert path == data / f"book-{kind}"
        assert LICENCE in (path / "README.md").read_text()
    assert not (data / "book-llama" / "counts.npz").exists()  # book-gpt2 has the same ones
    assert "are book-gpt2's" in (data / "book-llama" / "README.md").read_text()
    assert not list(data.rglob("checkpoint"))
    model = load_first_layer("book-llama")
    assert isinstance(model, RelativeFirstLayer)
    assert model.provenance["positions"] == "rotary (default)"
    counts, words = token_counts(model)
    assert (words, counts.sha256) == (
        "its own training text",
        Counts.load(runs["llama"] / "counts.npz").sha256,
    )
    assert main(["models"]) == 0
    assert "book-llama" in (shown := capsys.readouterr().out)
    assert "ships with the package (llama)" in shown

    files = [str(tmp_path / f"skip-{n}.npz") for n in (1, 2, 3)]
    tokens = np.load(runs["llama"] / "checkpoint" / "train_tokens.npy")
    for n, file in enumerate(files, start=1):
        Counts.from_documents([tokens], counts.vocab_size, skip=n).save(file)
    assert Counts.load(files[0]).sha256 == counts.sha256
    third = Counts.load(files[2]).bigrams
    first, last = tokens[0], tokens[3]
    assert third[first, last] == ((tokens[:-3] == first) & (tokens[3:] == last)).sum() > 0

    assert main(["freeze", "book-llama", "--counts", *files]) == 0
    folder = data / "results" / "book-llama"
    study = RotaryStudy.read(folder)
    command = "python -m lnattn_book freeze MODEL --as book-llama --only rotary"
    command += " --counts COUNTS COUNTS_2 COUNTS_3"
    assert study.record["command"] == command
    assert main(["verify", "book-llama", "--counts", *files]) == 0
    assert "rotary: agrees" in capsys.readouterr().out
    assert study.pairs.tolist() == [["cat", "sat"], ["old", "grey"]]
