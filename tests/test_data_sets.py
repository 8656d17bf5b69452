"""`lnattn count` of a data set of the hub, by the real client and a stand-in on this machine."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
from fake_data_sets import DataSet, serving
from huggingface_hub import constants
from test_counting import as_dicts, by_counter, make_documents, make_tokenizer, write_jsonl

from lnattn.errors import CorpusError
from lnattn.models import hub
from lnattn.text.corpora import Corpus
from lnattn.text.counts import Counts

COMMIT = "a" * 40
#: Runs commands in one process, since to import the libraries takes longest; a line for each.
_COMMANDS = """
import contextlib, io, json, sys
from lnattn.cli.main import main
if __name__ == "__main__":
    for arguments in json.loads(sys.argv[1]):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = main(["count", *arguments, "--quiet"])
        print(json.dumps([code, said.getvalue()]))
"""


def packed(documents: list[str]) -> bytes:
    lines = (json.dumps({"text": text, "body": text[::-1]}) for text in documents)
    return gzip.compress("\n".join(lines).encode())


@pytest.fixture(scope="module")
def data() -> tuple[dict[str, bytes], list[list[str]]]:
    """The files of a data set, and the documents of each of its training files."""
    parts = [make_documents(seed, 12) for seed in range(3)]
    files = {f"data/train-{i}.jsonl.gz": packed(part) for i, part in enumerate(parts)}
    files["data/test-0.jsonl.gz"] = packed(["w1 w2"])
    files["README.md"] = b"---\nlicense: mit\n---\n# Texts\n"
    return files, parts


def run(folder: Path, url: str, *commands: list[str], **environment: str) -> list[tuple[int, str]]:
    """The exit code and the message of each command."""
    make_tokenizer().save(str(folder / "words.json"))
    options = ["--tokenizer", str(folder / "words.json")]
    given = json.dumps([[*command, *options] for command in commands])
    (folder / "commands.py").write_text(_COMMANDS)
    done = subprocess.run(
        [sys.executable, str(folder / "commands.py"), given],
        env={**os.environ, "HF_ENDPOINT": url, "HF_HOME": str(folder / "hf"), **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.whole
def test_a_data_set_of_the_hub_is_streamed_cached_and_read_offline(tmp_path, data):
    files, parts = data
    outs = [str(tmp_path / f"{i}.npz") for i in range(5)]
    with serving(DataSet("owner/texts", COMMIT, files)) as hub:
        found = run(
            tmp_path, hub.url,
            ["owner/texts", "--out", outs[0], "--workers", "1"],
            ["owner/texts", "--out", outs[1], "--workers", "2", "--split", "train"],
            ["owner/texts", "--out", outs[2], "--workers", "1", "--cached", "--revision", "main"],
            ["owner/texts", "--out", outs[3], "--field", "body", "--split", "test"],
        )  # fmt: skip
        assert [code for code, _ in found] == [0] * 4, found
        assert ("GET", f"/datasets/owner/texts/resolve/{COMMIT}/data/train-2.jsonl.gz") in hub.log
        asked = len(hub.log)
        offline = ["owner/texts", "--out", outs[4], "--workers", "1"]
        [(code, said)] = run(tmp_path, hub.url, offline, HF_HUB_OFFLINE="1")
        assert (code, said, len(hub.log)) == (0, "", asked)
    expected = by_counter([text for part in parts for text in part])
    for place in (0, 1, 2, 4):
        assert as_dicts(Counts.load(outs[place])) == expected
    streamed = Counts.load(outs[0]).record
    assert streamed["shards"] == 3  # one of its files is what a worker takes
    [described] = streamed["corpus"]
    assert described == {
        "dataset": "owner/texts",
        "config": None,
        "split": "train",
        "revision": COMMIT,
        "field": "text",
    }
    unigrams, _ = as_dicts(Counts.load(outs[3]))
    assert sum(unigrams.values()) == 2  # "2w 1w", two unknown words


@pytest.mark.whole
def test_what_is_missing_is_one_sentence(tmp_path, data):
    """Set, revision, configuration, split, field; then the network, and what was never cached."""
    out = ["--out", str(tmp_path / "x.npz"), "--workers", "1"]
    commands = {
        "there is no such data set": ["owner/absent", *out],
        "it has no such revision": ["owner/texts", "--revision", "nope", *out],
        "BuilderConfig 'nope' not found": ["owner/texts", "--config", "nope", *out],
        "Available splits: ['train', 'test']": ["owner/texts", "--split", "nope", *out],
        "no column 'nope' but text, body": ["owner/texts", "--field", "nope", *out],
    }
    with serving(DataSet("owner/texts", COMMIT, data[0])) as hub:
        found = run(tmp_path, hub.url, *commands.values())
    found += run(tmp_path, "http://127.0.0.1:9", ["owner/texts", *out])
    found += run(tmp_path, "http://127.0.0.1:9", ["owner/other", *out], HF_HUB_OFFLINE="1")
    for (code, said), words in zip(found, [*commands, "refused", "owner/other"], strict=True):
        assert (code, said.count("\n")) == (1, 1), said
        assert words in said
    assert not list(tmp_path.glob("x.*"))


def test_a_name_is_of_the_hub_where_no_file_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    on_the_hub = ("Skylion007/openwebtext", "imdb")
    files = ("a.jsonl", "a/b.parquet", "/a/b", "a/b/c", "*.jsonl", "a/b.txt.gz")
    assert all(Corpus((name,)).is_on_the_hub for name in on_the_hub)
    assert not any(Corpus((name,)).is_on_the_hub for name in files)
    assert not Corpus(("imdb", "imdb")).is_on_the_hub
    write_jsonl(tmp_path / "imdb", ["w1"])
    assert not Corpus(("imdb",)).is_on_the_hub


def test_a_list_of_a_data_sets_files_is_not_read_without_end(monkeypatch, data):
    with serving(DataSet("owner/texts", COMMIT, data[0])) as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        corpus = Corpus(("owner/texts",))
        assert corpus.pinned().revision == COMMIT
        assert Corpus(("owner/texts",), revision="main").pinned().revision == COMMIT
        monkeypatch.setattr(hub, "LONGEST_LIST", 50)
        with pytest.raises(CorpusError, match=r"owner/texts is longer than 50 bytes.*HF_ENDPOINT"):
            corpus.pinned()


def test_what_the_library_is_asked_for_of_a_set_of_the_hub(tmp_path, monkeypatch):
    """Another configuration, split, commit or column is another corpus, and counts as well."""
    corpus = Corpus(("owner/texts",), "en", split="validation", revision="abc", field="body")
    (part,) = corpus.parts()
    assert vars(part) == {
        "path": "owner/texts",
        "config": "en",
        "files": (),
        "split": "validation",
        "revision": "abc",
        "field": "body",
    }
    assert part.name == "owner/texts"
    asked = []

    def load_dataset(*args, **options):
        asked.append((args, options))
        return datasets.Dataset.from_dict({"title": ["a"], "body": ["w1 w2"]})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    loaded = part.load(stream=False, folder=tmp_path)
    assert loaded.to_list() == [{"body": "w1 w2"}]
    where = {"split": "validation", "revision": "abc"}
    cached = {"streaming": False, "cache_dir": str(tmp_path)}
    assert asked == [(("owner/texts", "en"), where | cached)]


def test_what_the_library_is_asked_for_of_files(tmp_path):
    """Files have no split and no commit, whatever was said of a set of the hub."""
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in files:
        path.write_text('{"body": "w1"}\n')
    names = tuple(map(str, files))
    (part,) = Corpus(names, "en", split="validation", revision="abc", field="body").parts()
    assert vars(part) == {
        "path": ".jsonl",
        "config": None,
        "files": tuple(str(path.resolve()) for path in files),
        "split": "train",
        "revision": None,
        "field": "body",
    }
    assert [row["body"] for row in part.load(stream=False, folder=tmp_path)] == ["w1", "w1"]
