"""`lnattn count`: shards, parts, kills and resumption, against a Counter; and what it refuses."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import json
import lzma
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import pairwise
from pathlib import Path
from typing import Any

import counting_workers
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from counting_workers import END, OPTIONS, WORDS, make_tokenizer
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import naming
from test_counts import as_dicts
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from lnattn.cli.main import main
from lnattn.errors import CorpusError
from lnattn.storage import read_json
from lnattn.text import corpora, counting, tokenizers
from lnattn.text.corpora import Corpus, plan_shards, read_documents
from lnattn.text.counting import CountJob, count_corpus, count_shard
from lnattn.text.counts import Boundary, Counts


def make_documents(seed: int, number: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [
        " ".join(generator.choice(WORDS, size=generator.integers(1, 40))) for _ in range(number)
    ]


def write_jsonl(path: Path, documents: list[str]) -> Path:
    lines = [json.dumps({"text": d, "other": 1}, ensure_ascii=False) for d in documents]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_parquet(path: Path, documents: list[str | None], rows: int = 7) -> Path:
    table = pyarrow.table({"text": pyarrow.array(documents, pyarrow.string())})
    pyarrow.parquet.write_table(table, path, row_group_size=rows)
    return path


def by_counter(documents: list[str], *, start: list = (), end: list = ()) -> tuple[dict, dict]:
    unigrams, neighbours = Counter(), Counter()
    for document in documents:
        ids = [WORDS.index(word) for word in document.split()]
        unigrams.update([*ids, *end])
        neighbours.update(pairwise([*start, *ids, *end]))
    return dict(unigrams), dict(neighbours)


@pytest.fixture
def corpus(tmp_path) -> tuple[Path, list[str]]:
    documents = make_documents(0, 80)
    return write_jsonl(tmp_path / "corpus.jsonl", documents), documents


texts = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=0, max_size=12), max_size=9
)


@settings(max_examples=40, deadline=None)
@given(texts, st.integers(1, 200), st.sampled_from(["\n", "\n\n", "\r\n"]), st.booleans())
def test_each_document_of_a_jsonl_file_is_in_exactly_one_shard(
    tmp_path_factory, documents, shard_bytes, newline, closed
) -> None:
    """Any characters, in Python's own words: what `json` reads, the library reads."""
    folder = tmp_path_factory.mktemp("lines")
    path = folder / "x.jsonl"
    text = newline.join(json.dumps({"text": d, "n": 1}, ensure_ascii=False) for d in documents)
    path.write_bytes((text + (newline if closed else "")).encode())
    expected = [json.loads(line)["text"] for line in text.split(newline) if line]
    expected = [document for document in expected if document.strip()]
    if not text:
        assert plan_shards(Corpus.of(path), folder, shard_bytes) == []
        return
    for stream in (True, False):
        shards = plan_shards(Corpus((str(path),), stream=stream), folder, shard_bytes)
        assert [document for shard in shards for document in shard.documents()] == expected


@pytest.mark.parametrize("shard_bytes", [1, 300, 10**6])
def test_each_row_of_a_parquet_file_is_in_exactly_one_shard(tmp_path, shard_bytes) -> None:
    documents = make_documents(1, 40)
    path = write_parquet(tmp_path / "x.parquet", documents)
    shards = plan_shards(Corpus.of(path), tmp_path, shard_bytes)
    assert len(shards) == {1: 40, 10**6: 1}.get(shard_bytes, len(shards))
    assert [d for shard in shards for d in shard.documents()] == documents
    assert list(read_documents([path])) == documents
    streamed = plan_shards(Corpus((str(path),), stream=True), tmp_path, shard_bytes)
    assert len(streamed) == 6  # its row groups
    assert [d for shard in streamed for d in shard.documents()] == documents


def test_a_corpus_is_cut_into_some_64_even_shards(tmp_path, monkeypatch) -> None:
    """Unless that makes them smaller, or larger, than a shard may be; rows are in order."""
    assert (corpora.SMALLEST_SHARD, corpora.LARGEST_SHARD) == (2**20, 2**26)  # 1 and 64 MiB
    documents = make_documents(2, 200)
    path = write_parquet(tmp_path / "x.parquet", documents)
    monkeypatch.setattr(corpora, "SMALLEST_SHARD", 1)
    shards = plan_shards(Corpus.of(path), tmp_path)
    assert 60 <= len(shards) <= 68
    rows = [shard.stop - shard.start for shard in shards]
    assert max(rows) - min(rows) <= 1
    assert [shard.start for shard in shards] == [0, *(shard.stop for shard in shards[:-1])]
    assert (shards[-1].stop, shards[-1].index) == (200, len(shards) - 1)
    monkeypatch.setattr(corpora, "SMALLEST_SHARD", 10**6)
    assert len(plan_shards(Corpus.of(path), tmp_path)) == 1
    monkeypatch.setattr(corpora, "SMALLEST_SHARD", 1)
    monkeypatch.setattr(corpora, "LARGEST_SHARD", 1)
    assert len(plan_shards(Corpus.of(path), tmp_path)) == 200


def test_a_row_without_a_text_is_counted_from_the_first_of_its_file(tmp_path) -> None:
    """Whichever shard it is in."""
    documents: list[str | None] = list(make_documents(1, 40))
    documents[33] = None
    shards = plan_shards(Corpus.of(write_parquet(tmp_path / "x.parquet", documents)), tmp_path, 300)
    assert shards[1].start > 0
    with pytest.raises(CorpusError, match=naming("x.parquet", "'text'", "NoneType", "row 33")):
        [list(shard.documents()) for shard in shards]


def test_a_corpus_of_files_is_described_by_their_bytes_and_not_by_their_folder(tmp_path) -> None:
    first, second = write_jsonl(tmp_path / "a.jsonl", ["w1"]), tmp_path / "b.txt"
    second.write_text("w2 w3")
    expected = [
        {
            "file": path.name,
            "bytes": len(path.read_bytes()),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in (first, second)
    ]
    assert Corpus.of([first, second]).described() == expected
    with_field = [{**file, "field": "body"} for file in expected]
    assert Corpus((str(first), str(second)), field="body").described() == with_field
    assert Corpus.of([first, second]).name == f"{first}, {second}"
    runs = Corpus.of([first, second]).parts()
    assert [(part.path, part.name) for part in runs] == [(".jsonl", "a.jsonl"), (".txt", "b.txt")]


def test_files_of_every_kind_and_compression_hold_the_same_documents(tmp_path) -> None:
    """Their names may be odd: a bracket is no pattern, an ending may be in capitals."""
    documents = ["w1, w2", 'w3 "w4"', "NA", "é ½"]
    lines = "".join(json.dumps({"text": d}) + "\n" for d in documents).encode()
    (tmp_path / "a[1].jsonl").write_bytes(lines)
    (tmp_path / "b.NDJSON").write_bytes(b"\xef\xbb\xbf" + lines)
    (tmp_path / "c.json").write_text(json.dumps([{"text": d} for d in documents]))
    for name, module in (("d.jsonl.gz", gzip), ("e.jsonl.bz2", bz2), ("f.jsonl.xz", lzma)):
        (tmp_path / name).write_bytes(module.compress(lines))
    (tmp_path / "g.jsonl.zst").write_bytes(zstandard.compress(lines))
    for name, separator in (("h.csv", ","), ("i.tsv", "\t")):
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=separator).writerows([["text"], *([d] for d in documents)])
    write_parquet(tmp_path / "j.parquet", documents)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 10
    for path in files:
        assert list(read_documents(path)) == documents, path.name
    every = Corpus((str(tmp_path / "[d-g].jsonl.*"),))
    assert [path.name[0] for path in every.files()] == list("defg")
    for stream in (True, False):
        shards = plan_shards(Corpus(every.sources, stream=stream), tmp_path / "tables")
        assert [d for shard in shards for d in shard.documents()] == documents * 4


@pytest.mark.parametrize(
    ("boundary", "start", "end"),
    [(Boundary(), [], []), (Boundary(end=END), [], [END]), (Boundary(END, END), [END], [END])],
)
def test_counts_of_all_formats_equal_a_counter(tmp_path, boundary, start, end) -> None:
    parts = [make_documents(seed, 20) for seed in (1, 2, 3)]
    text = tmp_path / "c.txt"
    text.write_text("\n".join(parts[2]), encoding="utf-8")
    sources = [
        write_jsonl(tmp_path / "a.jsonl", parts[0]),
        write_parquet(tmp_path / "b.parquet", parts[1]),
        text,
    ]
    out = tmp_path / "out" / "counts.npz"
    record = count_corpus(sources, make_tokenizer(), out, boundary=boundary, **OPTIONS)
    documents = [*parts[0], *parts[1], " ".join(parts[2])]
    counts = Counts.load(out)
    assert as_dicts(counts) == by_counter(documents, start=start, end=end)
    assert record["documents"] == len(documents)
    assert (record["tokens"], record["pairs"]) == (counts.tokens, counts.pairs)
    assert record["distinct_pairs"] == counts.bigrams.nnz
    assert counts.record == json.loads(json.dumps(record))
    assert sorted(p.name for p in out.parent.iterdir()) == ["counts.json", "counts.npz"]


def test_truncation_and_padding_of_the_tokenizer_are_not_applied(corpus, tmp_path) -> None:
    path, documents = corpus
    tokenizer = make_tokenizer()
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=64)
    count_corpus([path], tokenizer, tmp_path / "x.npz", **OPTIONS)
    assert as_dicts(Counts.load(tmp_path / "x.npz")) == by_counter(documents)
    assert tokenizer.truncation["max_length"] == 5


def test_two_processes_through_the_command_line(corpus, tmp_path, capsys) -> None:
    path, documents = corpus
    make_tokenizer().save(str(tmp_path / "tokenizer.json"))
    arguments = ["count", str(path), str(write_jsonl(tmp_path / "b.jsonl", ["w1 w2", "w2"]))]
    arguments += ["--tokenizer", str(tmp_path / "tokenizer.json"), "--boundary", "both"]
    arguments += ["--out", str(tmp_path / "x.npz"), "--workers", "2", "--json", "--quiet"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out) == read_json(tmp_path / "x.json")
    expected = by_counter([*documents, "w1 w2", "w2"], start=[END], end=[END])
    assert as_dicts(Counts.load(tmp_path / "x.npz")) == expected
    # No path of this machine in what is published.
    assert str(tmp_path) not in captured.out


def test_a_process_that_counts_loads_neither_pytorch_nor_transformers() -> None:
    """They take two seconds in each worker."""
    code = "import sys, lnattn.text.counting; print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


# --- kills ---------------------------------------------------------------------------------------

_KILLED = """
import os, signal, sys
from counting_workers import make_tokenizer, OPTIONS
from lnattn import storage
from lnattn.text import counting

calls = 0
real = {function}
def killing(*args, **kwargs):
    global calls
    calls += 1
    if calls == {call}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)
{function} = killing
counting.count_corpus([sys.argv[1]], make_tokenizer(), sys.argv[2], **OPTIONS)
"""


def _run_script(script: str, *arguments: Path) -> subprocess.Popen:
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment)


@pytest.mark.parametrize(
    ("function", "call"),
    # Before the fifth shard; before a part's arrays, its record written; before the sum.
    [("counting.count_shard", 5), ("storage.write_atomically", 8), ("counting._sum", 1)],
)
def test_kill_9_and_resume(function, call, corpus, tmp_path, monkeypatch) -> None:
    path, documents = corpus
    out = tmp_path / "x.npz"
    script = _KILLED.format(function=function, call=call)
    assert _run_script(script, path, out).wait(120) == -signal.SIGKILL
    assert not out.exists()
    kept = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "x.parts").glob("part-*.json")}
    assert len(kept) >= 2
    counted = []
    real = counting.count_shard
    monkeypatch.setattr(
        counting, "count_shard", lambda job, s: (counted.append(s.index), real(job, s))[1]
    )
    record = count_corpus([path], make_tokenizer(), out, **OPTIONS)
    assert record["resumed_with"] == len(kept)
    assert len(counted) == record["shards"] - len(kept)
    assert as_dicts(Counts.load(out)) == by_counter(documents)
    assert not (tmp_path / "x.parts").exists()


def _job(folder: Path, path: Path) -> tuple[CountJob, list]:
    """A job whose folder is prepared, and its shards."""
    folder.mkdir()
    text = tokenizers.plain_tokenizer(make_tokenizer())
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()
    job = CountJob(str(folder), digest, len(WORDS) + 2, Boundary())
    return job, plan_shards(Corpus.of(path), folder / "tables", 1000)


def _merged(job: CountJob, shards: list, records: list[dict]) -> Counts:
    assert sorted(record["shard"] for record in records) == [shard.index for shard in shards]
    return counting._sum(Counts.load(job.part(shard)) for shard in shards)


def test_a_killed_worker_costs_nothing_but_time(corpus, tmp_path) -> None:
    path, documents = corpus
    job, shards = _job(tmp_path / "parts", path)
    records = list(counting._run(job, shards, 2, counting_workers.count_and_die_once))
    assert (tmp_path / "has-died").exists()
    assert as_dicts(_merged(job, shards, records)) == by_counter(documents)


def test_workers_that_always_die_are_tried_three_times(corpus, tmp_path, monkeypatch) -> None:
    path, _ = corpus
    pools = []

    class Dying(ThreadPoolExecutor):
        """A pool whose every process is killed before it has counted a shard."""

        def __init__(self, workers: int, *_: object, **__: object) -> None:
            super().__init__(workers)
            pools.append(self)

        def submit(self, *_: object) -> Future:
            future: Future = Future()
            future.set_exception(BrokenProcessPool("killed"))
            return future

    monkeypatch.setattr(counting, "ProcessPoolExecutor", Dying)
    job, shards = _job(tmp_path / "parts", path)
    with pytest.raises(CorpusError, match="3 times"):
        list(counting._run(job, shards, 2))
    assert len(pools) == 3


def test_any_executor_counts(corpus, tmp_path) -> None:
    path, documents = corpus
    with ThreadPoolExecutor(3) as threads:
        options = {**OPTIONS, "workers": threads}
        count_corpus([path], make_tokenizer(), tmp_path / "x.npz", **options)
    assert as_dicts(Counts.load(tmp_path / "x.npz")) == by_counter(documents)


def test_a_dask_cluster_of_two_workers_one_of_which_is_killed(corpus, tmp_path) -> None:
    distributed = pytest.importorskip("distributed", reason="the optional extra 'dask' is absent")
    path, documents = corpus
    job, shards = _job(tmp_path / "parts", path)
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs="CRITICAL",
            local_directory=str(tmp_path),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor(pure=False)
        work = counting_workers.count_and_die_once
        records = list(counting._run(job, shards, executor, work))
        assert (tmp_path / "has-died").exists()
        assert as_dicts(_merged(job, shards, records)) == by_counter(documents)


# --- resuming on other inputs --------------------------------------------------------------------


@pytest.fixture
def interrupted(corpus, tmp_path, monkeypatch) -> tuple[Path, Path, list[str]]:
    """A count that stopped after three shards: (corpus, out, documents)."""
    path, documents = corpus
    done = []

    def stopping(job, shard):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(shard)
        return count_shard(job, shard)

    with monkeypatch.context() as patch:
        patch.setattr(counting, "count_shard", stopping)
        with pytest.raises(KeyboardInterrupt):
            count_corpus([path], make_tokenizer(), tmp_path / "x.npz", **OPTIONS)
    return path, tmp_path / "x.npz", documents


def test_a_resumed_count_is_equal_byte_for_byte(interrupted, tmp_path) -> None:
    """And leaves what somebody else has put among its parts."""
    path, out, _ = interrupted
    (out.with_suffix(".parts") / "notes.txt").write_text("my own")
    assert count_corpus([path], make_tokenizer(), out, **OPTIONS)["resumed_with"] == 3
    count_corpus([path], make_tokenizer(), tmp_path / "y.npz", **OPTIONS)
    assert out.read_bytes() == (tmp_path / "y.npz").read_bytes()
    assert [file.name for file in out.with_suffix(".parts").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"text": "w1 w2"}\n{"text": \n', naming("c.jsonl", "line 2")),
        ('{"text": ""}\n', naming("c.jsonl", "no text")),
    ],
)
def test_a_count_that_failed_does_not_block_the_next(text, said, tmp_path) -> None:
    path, out = tmp_path / "c.jsonl", tmp_path / "x.npz"
    path.write_text(text)
    with pytest.raises(CorpusError, match=said):
        count_corpus([path], make_tokenizer(), out, **OPTIONS)
    path.write_text('{"text": "w1 w2"}\n')
    assert count_corpus([path], make_tokenizer(), out, **OPTIONS)["pairs"] == 1
    assert not out.with_suffix(".parts").exists()


def test_a_second_count_of_the_same_file_is_refused(interrupted) -> None:
    path, out, documents = interrupted
    parts = out.with_suffix(".parts")
    before = {file.name: file.read_bytes() for file in parts.glob("*.*")}
    with (
        FileLock(parts / "lock"),
        pytest.raises(CorpusError, match=naming("another count", "x.parts")),
    ):
        count_corpus([path], make_tokenizer(), out, **{**OPTIONS, "restart": True})
    assert {file.name: file.read_bytes() for file in parts.glob("*.*")} == before
    count_corpus([path], make_tokenizer(), out, **OPTIONS)
    assert as_dicts(Counts.load(out)) == by_counter(documents)


# --- what is not written over --------------------------------------------------------------------


@pytest.fixture
def count(tmp_path, capsys):
    """Runs the command in one process and returns its exit code and its message."""
    make_tokenizer().save(str(tmp_path / "words.json"))

    def run(source: Path | str, out: Path | str, *options: str, more: Any = ()) -> tuple[int, str]:
        arguments = ["--tokenizer", str(tmp_path / "words.json"), "--workers", "1", "--quiet"]
        sources = [str(one) for one in (source, *more)]
        code = main(["count", *sources, *arguments, "--out", str(out), *options])
        return code, capsys.readouterr().err

    return run


def test_what_is_read_is_never_written_over(count, tmp_path) -> None:
    corpus = write_jsonl(tmp_path / "articles.json", ["w1 w2", "w3"])
    table = write_parquet(tmp_path / "mine.parquet", ["w1 w2"])
    (tmp_path / "linked.json").symlink_to(corpus)
    (tmp_path / "hard.json").hardlink_to(corpus)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    outs = ("articles.npz", "linked.npz", "hard.npz", "./articles.npz", "words.npz")
    for source, out in (*((corpus, out) for out in outs), (table, "mine.parquet")):
        code, message = count(source, tmp_path / out)
        assert code == 1
        assert "is read, and would be written over; give another --out" in message
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_files_and_folders_of_others_are_neither_written_over_nor_deleted(
    count, corpus, tmp_path
) -> None:
    parts = tmp_path / "notes.parts"
    parts.mkdir()
    (parts / "part-000000.npz").write_text("my own")
    for options in ([], ["--restart"]):
        code, message = count(corpus[0], tmp_path / "notes.npz", *options)
        assert code == 1
        assert "notes.parts is there and is of no count" in message
    for plan in ("{}", "[1]", '{"inputs": 3', '{"name": "a holiday", "shards": 2}'):
        (parts / "plan.json").write_text(plan)
        (parts / "tokenizer.json").write_text("mine")
        (parts / "tables").mkdir(exist_ok=True)
        (parts / "tables" / "one.csv").write_text("1,2")
        for options in ([], ["--restart"]):
            code, message = count(corpus[0], tmp_path / "notes.npz", *options)
            assert code == 1
            assert "notes.parts is there and is of no count" in message
        assert (parts / "plan.json").read_text() == plan
        assert (parts / "tokenizer.json").read_text() == "mine"
        assert (parts / "tables" / "one.csv").is_file()
    for path in (parts / "plan.json", parts / "tokenizer.json", parts / "tables" / "one.csv"):
        path.unlink()
    (parts / "tables").rmdir()
    (parts / "part-000000.npz").rename(parts / "lock")  # is cut to nothing when it is locked
    assert count(corpus[0], tmp_path / "notes.npz")[0] == 1
    assert (parts / "lock").read_text() == "my own"
    (parts / "lock").rename(parts / "part-000000.npz")
    assert (parts / "part-000000.npz").read_text() == "my own"
    (tmp_path / "a.json").write_text('{"my": "settings"}')
    np.savez(tmp_path / "b.npz", mine=np.arange(3))
    for name, shown in (("a.npz", "a.json"), ("b.npz", "b.npz")):
        code, message = count(corpus[0], tmp_path / name)
        assert code == 1
        assert f"{shown} is there and is no result of lnattn" in message
    assert read_json(tmp_path / "a.json") == {"my": "settings"}
    # What the command itself has made may be made again.
    assert count(corpus[0], tmp_path / "d.npz")[0] == 0
    assert count(corpus[0], tmp_path / "d.npz")[0] == 0


def test_a_changed_corpus_is_not_resumed(interrupted) -> None:
    path, out, documents = interrupted
    text = path.read_text()
    path.write_text(text.replace("w1 ", "w2 ", 1))
    with pytest.raises(CorpusError, match=naming("x.parts", "other inputs", "--restart")):
        count_corpus([path], make_tokenizer(), out, **OPTIONS)
    path.write_text(text)
    count_corpus([path], make_tokenizer(), out, **OPTIONS)
    assert as_dicts(Counts.load(out)) == by_counter(documents)


def test_another_tokenizer_or_boundary_is_not_mixed_in(interrupted) -> None:
    path, out, _ = interrupted
    other = make_tokenizer()
    other.add_tokens(["w1w2"])
    with pytest.raises(CorpusError, match="other tokenizer;"):
        count_corpus([path], other, out, **OPTIONS)
    with pytest.raises(CorpusError, match="other boundary;"):
        count_corpus([path], make_tokenizer(), out, boundary=Boundary(end=END), **OPTIONS)
    with pytest.raises(CorpusError, match="other skip;"):
        count_corpus([path], make_tokenizer(), out, skip=2, **OPTIONS)
    with pytest.raises(CorpusError, match="other shards;"):
        count_corpus([path], make_tokenizer(), out, **{**OPTIONS, "shard_bytes": 500})
    record = count_corpus([path], make_tokenizer(), out, restart=True, **OPTIONS)
    assert record["resumed_with"] == 0


def test_a_damaged_part_is_counted_again(interrupted) -> None:
    path, out, documents = interrupted
    part = out.with_suffix(".parts") / "part-000001.npz"
    with np.load(part) as file:
        np.savez(part, **{**file, "counts": file["counts"] + np.uint8(1)})
    record = count_corpus([path], make_tokenizer(), out, **OPTIONS)
    assert record["resumed_with"] == 2
    assert as_dicts(Counts.load(out)) == by_counter(documents)


def test_a_corpus_that_changes_while_it_is_counted(corpus, tmp_path, monkeypatch) -> None:
    path, _ = corpus

    def changing(job, shard):
        os.utime(path, (1, 1))
        return count_shard(job, shard)

    monkeypatch.setattr(counting, "count_shard", changing)
    with pytest.raises(CorpusError, match="changed"):
        count_corpus([path], make_tokenizer(), tmp_path / "x.npz", **OPTIONS)
    assert not (tmp_path / "x.npz").exists()


# --- bad input -----------------------------------------------------------------------------------


def test_a_document_that_takes_much_memory_is_warned_of(monkeypatch, capsys) -> None:
    monkeypatch.setattr(tokenizers, "LONG", 20)
    assert len(list(tokenizers.encoded(make_tokenizer(), ["w1 w2", "w3 " * 9]))) == 2
    assert capsys.readouterr().err.count("is tokenised whole") == 1


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        (b'{"text": "a\\ud800b"}', naming("c.jsonl", "line 3")),
        (b'{"text": ' + b"[" * 20_000, naming("c.jsonl", "line 3")),
        (b'{"text": "\xff"}', naming("c.jsonl", "line 3")),
        (b'{"text": 3}', naming("c.jsonl")),
        (b'{"text": null}', naming("'text'", "NoneType", "row 1")),
        (b'{"other": "w1"}', naming("'text'", "NoneType", "row 1")),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_bad_line_is_named(line, pattern, stream, tmp_path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"text": "w1"}\n\n' + line + b'\n{"text": "w2"}\n')
    with pytest.raises(CorpusError, match=pattern):
        count_corpus(
            Corpus((str(path),), stream=stream), make_tokenizer(), tmp_path / "x.npz", **OPTIONS
        )
    assert [file.name for file in tmp_path.iterdir()] == ["c.jsonl"]


def test_special_tokens_in_a_text_cut_it(tmp_path) -> None:
    """F26: no pair on either side, and the token is counted by --boundary alone."""
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|end"])
    texts = ["w1 w2<|endoftext|>w3 w4 ", "<|endoftext|>w5<|end <|endoftext|>"]
    path = write_jsonl(tmp_path / "c.jsonl", texts)
    for boundary, end in ((None, []), (Boundary(end=END), [END])):
        record = count_corpus([path], tokenizer, tmp_path / "x.npz", boundary=boundary, **OPTIONS)
        expected = by_counter(["w1 w2", "w3 w4", "w5"], end=end)
        assert as_dicts(Counts.load(tmp_path / "x.npz")) == expected
        assert record["documents"] == 3


@pytest.mark.parametrize("way", ["no guard", "standard input", "daemon"])
def test_workers_need_nothing_of_the_script_that_calls(way, corpus, tmp_path) -> None:
    """F15: a script without a guard or from a pipe, and a process that may have no children."""
    path, documents = corpus
    make_tokenizer().save(str(tmp_path / "words.json"))
    script = f"""
from tokenizers import Tokenizer
from lnattn.text.counting import count_corpus
def count(workers):
    words = Tokenizer.from_file({str(tmp_path / "words.json")!r})
    count_corpus([{str(path)!r}], words, {str(tmp_path / "x.npz")!r}, workers=workers,
                 shard_bytes=1000, progress=False)
"""
    if way == "daemon":
        script += "import multiprocessing\n"
        script += "multiprocessing.get_context('fork').Pool(1).map_async(count, [2]).get(100)\n"
    else:
        script += "count(2)\n"
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, "-" if way == "standard input" else str(tmp_path / "script.py")]
    done = subprocess.run(
        command, input=script, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert as_dicts(Counts.load(tmp_path / "x.npz")) == by_counter(documents)


def test_the_callers_script_is_hidden_while_workers_start_and_shown_again(monkeypatch) -> None:
    main_module = sys.modules["__main__"]
    spec = object()
    monkeypatch.setattr(main_module, "__spec__", spec)
    monkeypatch.setattr(main_module, "__file__", "script.py", raising=False)
    with counting._main_module_hidden():
        assert main_module.__spec__ is None
        assert not hasattr(main_module, "__file__")
    assert main_module.__spec__ is spec
    assert main_module.__file__ == "script.py"
    monkeypatch.delattr(main_module, "__file__")
    with counting._main_module_hidden():
        assert not hasattr(main_module, "__file__")
    assert not hasattr(main_module, "__file__")


def test_bad_input_is_one_sentence(count, corpus, tmp_path) -> None:
    (tmp_path / "c.docx").touch()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "blank.jsonl").write_text('\n{"text": "  "}\n')
    pyarrow.parquet.write_table(pyarrow.table({"body": ["w1"]}), tmp_path / "odd.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"text": [1, 2]}), tmp_path / "ids.parquet")
    doubled = pyarrow.Table.from_arrays([["w1"], ["w2"]], names=["text", "text"])
    pyarrow.parquet.write_table(doubled, tmp_path / "two.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    for source, words in {
        "absent.jsonl": "no corpus file",
        "c.docx": "ends in .docx; documents are read from",
        "blank.jsonl": "holds no text",
        "empty.jsonl": "holds no text",
        "ids.parquet": "holds a 'text' of type int in row 0",
        "odd.parquet": "no column 'text' but body",
        "two.parquet": "two.parquet cannot be read",
        "bad.parquet": "bad.parquet cannot be read",
    }.items():
        code, said = count(tmp_path / source, (tmp_path / source).with_suffix(".npz"))
        assert (code, said.count("\n")) == (1, 1)
        assert words in said
    (tmp_path / "words.json").write_text("{}")
    assert count(corpus[0], tmp_path / "x.npz")[0] == 1
    assert not (tmp_path / "x.npz").exists()


# ---- The same file twice, streams and folders, tokenizers that draw ------------------------------


def test_a_file_that_is_named_twice_counts_once(count, corpus, tmp_path, monkeypatch):
    path, _ = corpus
    once = tmp_path / "once.npz"
    assert count(path, once)[0] == 0
    (tmp_path / "link.jsonl").symlink_to(path)
    (tmp_path / "hard.jsonl").hardlink_to(path)
    monkeypatch.chdir(tmp_path)
    for more in (["corpus.jsonl"], ["./corpus.jsonl"], ["link.jsonl", "hard.jsonl"], ["*.jsonl"]):
        corpora._say_once.cache_clear()
        code, said = count(path, "twice.npz", more=more)
        assert code == 0
        assert "are one file, which counts once" in said
        assert read_json("twice.json")["tokens"] == read_json(once.with_suffix(".json"))["tokens"]
        assert len(read_json("twice.json")["corpus"]) == 1
    assert list(read_documents([path, path])) == list(read_documents([path]))


def test_files_of_the_same_contents_are_counted_with_a_word(count, corpus, tmp_path):
    path, _ = corpus
    (tmp_path / "copy.jsonl").write_bytes(path.read_bytes())
    code, said = count(path, tmp_path / "both.npz", more=[tmp_path / "copy.jsonl"])
    assert code == 0
    assert "corpus.jsonl and copy.jsonl hold the same, and are all counted" in said
    assert count(path, tmp_path / "one.npz")[0] == 0
    both, one = (read_json(tmp_path / f"{name}.json")["tokens"] for name in ("both", "one"))
    assert both == 2 * one


def test_what_is_no_file_of_documents_is_called_what_it_is(count, tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "texts").mkdir()
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "dataset_info.json").write_text("{}")
    for source, words in (
        ("-", ["stream", "write it to a file"]),
        (tmp_path / "pipe.jsonl", ["stream"]),
        ("/dev/null", ["stream"]),
        (tmp_path / "texts", ["a folder", "texts/*.txt"]),
        (tmp_path / "saved", ["save_to_disk", "to_parquet"]),
    ):
        code, said = count(source, tmp_path / "x.npz")
        assert code == 1
        for word in words:
            assert word in said


@pytest.fixture
def drawing(tmp_path) -> Path:
    """A tokenizer that splits texts by chance."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Whitespace()
    trained.train_from_iterator(
        [" ".join(WORDS)] * 9, trainers.BpeTrainer(vocab_size=400, show_progress=False)
    )
    parts = json.loads(trained.to_str())
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps(parts))
    parts["model"]["dropout"] = 0.5
    (tmp_path / "drawing").mkdir()
    (tmp_path / "drawing" / "tokenizer.json").write_text(json.dumps(parts))
    return tmp_path / "drawing" / "tokenizer.json"


def test_a_tokenizer_that_draws_how_to_split_gives_the_same_tokens_each_time(
    corpus, drawing, tmp_path, capsys
):
    path, documents = corpus
    plain = tokenizers.load_tokenizer(drawing.parent.parent / "plain.json")
    expected = [plain(text)["input_ids"] for text in documents]
    for place in (drawing, drawing.parent):
        loaded = tokenizers.load_tokenizer(place)
        assert "splits texts by chance (dropout)" in capsys.readouterr().err
        assert [loaded(text)["input_ids"] for text in documents] == expected
    direct = Tokenizer.from_file(str(drawing))
    record = count_corpus(path, direct, tmp_path / "direct.npz", workers=1, progress=False)
    assert "switched off" in capsys.readouterr().err
    assert record["tokens"] == sum(map(len, expected))
    assert direct.model.dropout == 0.5, "what is a user's own stays as it is"


def test_a_unigram_tokenizer_that_samples_gives_the_same_tokens_each_time(capsys):
    sampling = Tokenizer(models.Unigram([("a", -1.0), ("b", -2.0), ("ab", -1.5)], unk_id=0))
    model = sampling.model
    model.alpha, model.nbest_size = 0.5, 4
    plain = Tokenizer.from_str(tokenizers.plain_tokenizer(sampling))
    assert "alpha" in capsys.readouterr().err
    assert {tuple(plain.encode("abab").tokens) for _ in range(20)} == {("ab", "ab")}
