"""`lnattn count`: shards, parts, kills and resumption, against a Counter over whole documents."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import counting_workers
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from lnattn.cli import main
from lnattn.errors import CorpusError
from lnattn.storage import read_json
from lnattn.text import jobs, pairs
from lnattn.text.corpora import HUB_CORPORA, HubCorpus, read_documents
from lnattn.text.counts import Counts
from lnattn.text.jobs import CountJob, count_corpus, count_shard
from lnattn.text.pairs import Boundary, PairCounter
from lnattn.text.schedulers import in_processes, on_dask
from lnattn.text.shards import plan_shards

WORDS = [f"w{i}" for i in range(60)]
END = len(WORDS) + 1


def make_tokenizer() -> Tokenizer:
    vocabulary = {word: i for i, word in enumerate([*WORDS, "?", "<|endoftext|>"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


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


def as_dicts(counts: Counts) -> tuple[dict, dict]:
    table = counts.bigrams.tocoo()
    keys = zip(table.row.tolist(), table.col.tolist(), strict=True)
    unigrams = {token: int(n) for token, n in enumerate(counts.unigrams) if n}
    return unigrams, dict(zip(keys, table.data.tolist(), strict=True))


@pytest.fixture
def corpus(tmp_path) -> tuple[Path, list[str]]:
    documents = make_documents(0, 80)
    return write_jsonl(tmp_path / "corpus.jsonl", documents), documents


OPTIONS = {"workers": 1, "shard_bytes": 1000, "progress": False}

texts = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=0, max_size=12), max_size=9
)


@settings(max_examples=60, deadline=None)
@given(texts, st.integers(1, 200), st.sampled_from(["\n", "\n\n", "\r\n"]), st.booleans())
def test_each_document_of_a_jsonl_file_is_in_exactly_one_shard(
    tmp_path_factory, documents, shard_bytes, newline, closed
) -> None:
    path = tmp_path_factory.mktemp("lines") / "x.jsonl"
    text = newline.join(json.dumps({"text": d}, ensure_ascii=False) for d in documents)
    path.write_bytes((text + (newline if closed else "")).encode())
    shards = plan_shards([path], shard_bytes)
    found = [document for shard in shards for document in shard.documents()]
    assert found == [document for document in documents if document.strip()]
    assert sum(shard.weight for shard in shards) == path.stat().st_size


@pytest.mark.parametrize("shard_bytes", [1, 300, 10**6])
def test_each_row_of_a_parquet_file_is_in_exactly_one_shard(tmp_path, shard_bytes) -> None:
    documents = make_documents(1, 40)
    path = write_parquet(tmp_path / "x.parquet", documents)
    shards = plan_shards([path], shard_bytes)
    assert len(shards) == {1: 6, 10**6: 1}.get(shard_bytes, len(shards))
    assert [d for shard in shards for d in shard.documents()] == documents
    assert list(read_documents([path])) == documents


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


def test_the_command_counts_pairs_at_a_distance(corpus, tmp_path) -> None:
    path, documents = corpus
    make_tokenizer().save(str(tmp_path / "tokenizer.json"))
    out = tmp_path / "third.npz"
    arguments = ["count", str(path), "--tokenizer", str(tmp_path / "tokenizer.json"), "--quiet"]
    assert main([*arguments, "--out", str(out), "--skip", "3", "--workers", "1"]) == 0
    encode = make_tokenizer().encode
    ids = [np.array(encode(text, add_special_tokens=False).ids) for text in documents]
    expected = Counts.from_documents(ids, len(WORDS) + 2, skip=3)
    counts = Counts.load(out)
    assert counts.record["skip"] == 3
    assert (counts.bigrams != expected.bigrams).nnz == 0
    assert np.array_equal(counts.unigrams, expected.unigrams)


def test_little_memory_gives_the_same_counts(corpus, tmp_path, monkeypatch) -> None:
    path, documents = corpus
    spilled = []
    real = PairCounter._write_runs
    monkeypatch.setattr(pairs, "_BUFFER", 40)
    monkeypatch.setattr(PairCounter, "_write_runs", lambda self: (spilled.append(1), real(self))[1])
    count_corpus([path], make_tokenizer(), tmp_path / "x.npz", memory=1500, **OPTIONS)
    assert len(spilled) > 20
    assert as_dicts(Counts.load(tmp_path / "x.npz")) == by_counter(documents)


def test_a_parquet_table_of_pairs(corpus, tmp_path) -> None:
    path, documents = corpus
    record = count_corpus([path], make_tokenizer(), tmp_path / "x.parquet", **OPTIONS)
    unigrams, neighbours = by_counter(documents)
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet").to_pydict()
    keys = zip(table["previous"], table["next"], strict=True)
    assert dict(zip(keys, table["count"], strict=True)) == neighbours
    table = pyarrow.parquet.read_table(tmp_path / "x.unigrams.parquet").to_pydict()
    found = dict(zip(table["token"], table["count"], strict=True))
    assert {token: n for token, n in found.items() if n} == unigrams
    assert read_json(tmp_path / "x.json") == json.loads(json.dumps(record))


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


@pytest.mark.parametrize(
    ("words", "sources"),
    [
        ([], ["wikitext-103"]),
        (["--corpus", "openwebtext"], ["openwebtext"]),
        (["wikitext-103"], ["wikitext-103"]),
        (["a.txt", "--corpus", "wikitext-103"], ["a.txt", "wikitext-103"]),
    ],
)
def test_which_corpus_the_command_counts(words, sources, tmp_path, monkeypatch) -> None:
    """WikiText-103 unless told otherwise; the two names are ones that can be read."""
    assert set(sources) <= {"a.txt", *HUB_CORPORA}
    make_tokenizer().save(str(tmp_path / "tokenizer.json"))
    given = []
    record = {"documents": 1, "tokens": 2, "pairs": 1, "distinct_pairs": 1}
    monkeypatch.setattr(
        jobs, "count_corpus", lambda what, *_, **__: (given.append(what), record)[1]
    )
    arguments = ["--tokenizer", str(tmp_path / "tokenizer.json"), "--out", str(tmp_path / "x.npz")]
    assert main(["count", *words, *arguments]) == 0
    assert given == [sources]


def test_progress_tells_the_rate_and_the_time_left(corpus, tmp_path, capsys) -> None:
    count_corpus([corpus[0]], make_tokenizer(), tmp_path / "x.npz", **{**OPTIONS, "progress": True})
    shown = capsys.readouterr().err
    assert re.search(r"[\d,]+ tokens/s", shown)
    assert re.search(r"100%.*\d+:\d+<\d+:\d+", shown), "no time left"


# --- kills ---------------------------------------------------------------------------------------

_KILLED = """
import os, signal, sys
from lnattn.text import jobs, pairs
from test_jobs import make_tokenizer, OPTIONS

calls = 0
real = jobs.{function}
def killing(*args, **kwargs):
    global calls
    calls += 1
    if calls == {call}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)
jobs.{function} = killing
jobs.count_corpus([sys.argv[1]], make_tokenizer(), sys.argv[2], **OPTIONS)
"""


def _run_script(script: str, *arguments: Path) -> subprocess.Popen:
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment)


@pytest.mark.parametrize(
    ("function", "call"),
    # After the plan; between a part and its record; before a part; before the merge's end.
    [("write_json", 4), ("write_run", 5), ("write_counts", 1)],
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
    real = jobs.count_shard
    monkeypatch.setattr(
        jobs, "count_shard", lambda job, s: (counted.append(s.index), real(job, s))[1]
    )
    record = count_corpus([path], make_tokenizer(), out, **OPTIONS)
    assert record["resumed_with"] == len(kept)
    assert len(counted) == record["shards"] - len(kept)
    assert as_dicts(Counts.load(out)) == by_counter(documents)
    assert not (tmp_path / "x.parts").exists()


def _job(folder: Path, path: Path) -> tuple[CountJob, list]:
    """A job whose folder is prepared, and its shards."""
    import hashlib

    folder.mkdir()
    text = jobs.plain_tokenizer(make_tokenizer())
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()
    job = CountJob(str(folder), digest, len(WORDS) + 2, Boundary(), 1 << 20)
    return job, plan_shards([path], 1000)


def _merged(job: CountJob, shards: list, records: list[dict], out: Path) -> Counts:
    assert sorted(record["shard"] for record in records) == [shard.index for shard in shards]
    blocks = jobs.merged_blocks([job.part(shard) for shard in shards])
    jobs.write_counts(out, blocks, job.vocab_size, {})
    return Counts.load(out)


def test_a_killed_worker_costs_nothing_but_time(corpus, tmp_path) -> None:
    path, documents = corpus
    job, shards = _job(tmp_path / "parts", path)
    records = list(in_processes(counting_workers.count_and_die_once, job, shards, 2))
    assert (tmp_path / "parts" / "has-died").exists()
    counts = _merged(job, shards, records, tmp_path / "x.npz")
    assert as_dicts(counts) == by_counter(documents)


def test_workers_that_keep_dying_are_given_up(corpus, tmp_path) -> None:
    job, shards = _job(tmp_path / "parts", corpus[0])
    with pytest.raises(CorpusError, match="killed 3 times in a row"):
        list(in_processes(counting_workers.die, job, shards[:1], 1))


_PARENT = """
import sys
from pathlib import Path
import counting_workers
from lnattn.text.schedulers import in_processes
from lnattn.text.shards import plan_shards
from test_jobs import _job
if __name__ == "__main__":
    job, shards = _job(Path(sys.argv[2]), Path(sys.argv[1]))
    list(in_processes(counting_workers.note_pid_and_wait, job, shards, 2))
"""


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


# Whether a process is gone, or a zombie, is read there; other systems need an extension to tell.
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_workers_end_when_their_parent_is_killed(corpus, tmp_path) -> None:
    folder = tmp_path / "parts"
    script = tmp_path / "parent.py"
    script.write_text(_PARENT)
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    parent = subprocess.Popen(
        [sys.executable, str(script), str(corpus[0]), str(folder)],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
    )
    limit = time.monotonic() + 120
    while len(pids := [int(p.stem) for p in folder.glob("*.pid")]) < 2:
        assert time.monotonic() < limit, "the workers did not start"
        assert parent.poll() is None, "the parent ended by itself"
        time.sleep(0.1)
    parent.kill()
    parent.wait()
    while any(map(_alive, pids)):
        assert time.monotonic() < limit, "workers outlived their parent"
        time.sleep(0.1)


def test_a_dask_cluster_of_two_workers_one_of_which_is_killed(corpus, tmp_path) -> None:
    distributed = pytest.importorskip("distributed", reason="the optional extra 'dask' is absent")
    path, documents = corpus
    job, shards = _job(tmp_path / "parts", path)
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        silence_logs="CRITICAL",
        local_directory=str(tmp_path),
    ) as cluster:
        address = cluster.scheduler_address
        records = list(on_dask(counting_workers.count_and_die_once, job, shards, address))
        assert (tmp_path / "parts" / "has-died").exists()
        counts = _merged(job, shards, records, tmp_path / "x.npz")
        assert as_dicts(counts) == by_counter(documents)
        # The same through the public function.
        options = {**OPTIONS, "scheduler": address}
        count_corpus([path], make_tokenizer(), tmp_path / "y.npz", **options)
    assert as_dicts(Counts.load(tmp_path / "y.npz")) == by_counter(documents)


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
        patch.setattr(jobs, "count_shard", stopping)
        with pytest.raises(KeyboardInterrupt):
            count_corpus([path], make_tokenizer(), tmp_path / "x.npz", **OPTIONS)
    return path, tmp_path / "x.npz", documents


def test_a_changed_corpus_is_not_resumed(interrupted) -> None:
    path, out, documents = interrupted
    text = path.read_text()
    path.write_text(text.replace("w1 ", "w2 ", 1))
    with pytest.raises(CorpusError, match="an interrupted count with other inputs"):
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
    part = out.with_suffix(".parts") / "part-000001.run"
    content = bytearray(part.read_bytes())
    content[8] ^= 1
    part.write_bytes(bytes(content))
    record = count_corpus([path], make_tokenizer(), out, **OPTIONS)
    assert record["resumed_with"] == 2
    assert as_dicts(Counts.load(out)) == by_counter(documents)


def test_a_corpus_that_changes_while_it_is_counted(corpus, tmp_path, monkeypatch) -> None:
    path, _ = corpus

    def changing(job, shard):
        os.utime(path, (1, 1))
        return count_shard(job, shard)

    monkeypatch.setattr(jobs, "count_shard", changing)
    with pytest.raises(CorpusError, match="changed while they were counted"):
        count_corpus([path], make_tokenizer(), tmp_path / "x.npz", **OPTIONS)
    assert not (tmp_path / "x.npz").exists()


# --- the hub, as a local folder of the same layout -----------------------------------------------

LINES = [
    [" = First = \n", "w1 w2\n", " = = Section = = \n", "w3\n"],
    ["w4 w5\n"],
    ["w6\n", " = Second = \n", "w7\n", " = Third = \n"],
    ["w8\n"],
]


def _hub_folder(folder: Path, parts: list[list[str]]) -> str:
    (folder / "data").mkdir(parents=True)
    for i, part in enumerate(parts):
        write_parquet(folder / "data" / f"train-{i:05d}-of-{len(parts):05d}.parquet", part)
    return str(folder)


def test_a_hub_corpus_of_documents(tmp_path, monkeypatch) -> None:
    parts = [make_documents(seed, 9) for seed in (1, 2, 3)]
    corpus = HubCorpus(_hub_folder(tmp_path / "hub", parts), None, "train", "main", "none")
    monkeypatch.setitem(HUB_CORPORA, "pretend", corpus)
    record = count_corpus(["pretend"], make_tokenizer(), tmp_path / "x.npz", **OPTIONS)
    documents = [document for part in parts for document in part]
    assert list(read_documents(["pretend"])) == documents
    assert as_dicts(Counts.load(tmp_path / "x.npz")) == by_counter(documents)
    assert (record["shards"], record["corpus"][0]["revision"]) == (3, "main")


def test_articles_that_span_the_files_of_a_hub_corpus(tmp_path, monkeypatch) -> None:
    folder = _hub_folder(tmp_path / "hub", LINES)
    monkeypatch.setitem(
        HUB_CORPORA, "pretend", HubCorpus(folder, None, "train", "main", "none", lines=True)
    )
    shards = plan_shards(["pretend"])
    lines = [line for part in LINES for line in part]
    expected = ["".join(lines[:6]), "".join(lines[6:8]), "".join(lines[8:])]
    assert [list(shard.documents()) for shard in shards] == [expected[:1], [], expected[1:], []]
    assert list(read_documents(["pretend"])) == expected


def test_a_hub_that_cannot_be_reached_is_one_sentence(tmp_path, monkeypatch) -> None:
    corpus = HubCorpus(str(tmp_path / "absent"), None, "train", "main", "none")
    monkeypatch.setitem(HUB_CORPORA, "pretend", corpus)
    with pytest.raises(CorpusError, match="could not be read from the hub"):
        count_corpus(["pretend"], make_tokenizer(), tmp_path / "x.npz", **OPTIONS)


# --- bad input -----------------------------------------------------------------------------------


def test_bad_input_is_one_sentence(corpus, tmp_path, capsys) -> None:
    path, _ = corpus
    tokenizer = make_tokenizer()

    def refused(pattern: str, source: Path, out: str = "x.npz", **options) -> None:
        with pytest.raises(CorpusError, match=pattern):
            count_corpus([source], tokenizer, tmp_path / out, **{**OPTIONS, **options})

    refused("no corpus file", tmp_path / "absent.jsonl")
    refused(r"\.npz or \.parquet", path, "x.csv")
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "w1"}\n{"text": 3}\n')
    refused("the line at byte 15: 'text' must be a string, not int", broken, "a.npz")
    broken.write_text('{"text": "w1"\n')
    refused("at byte 0 is not a JSON object", broken, "b.npz")
    blank = tmp_path / "blank.jsonl"
    blank.write_text('\n{"text": "  "}\n')
    refused("holds no text", blank, "c.npz")
    blank.write_text("")
    refused("holds no text", blank, "d.npz")
    refused("a row without text", write_parquet(tmp_path / "n.parquet", ["w1", None]), "e.npz")
    odd = tmp_path / "odd.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"body": ["w1"]}), odd)
    refused("no column 'text' but body", odd, "f.npz")
    pyarrow.parquet.write_table(pyarrow.table({"text": [1]}), odd)
    refused("holds int64, not strings", odd, "g.npz")
    odd.write_bytes(b"PAR1 nothing")
    refused("cannot be read as Parquet", odd, "h.npz")
    no_scheduler = "no Dask scheduler answers" if find_spec("distributed") else "needs Dask"
    refused(no_scheduler, path, "i.npz", scheduler="nonsense://x")
    with pytest.raises(CorpusError, match="no fast tokenizer"):
        count_corpus([path], object(), tmp_path / "j.npz", **OPTIONS)
    with pytest.raises(CorpusError, match="no corpus was given"):
        count_corpus([], tokenizer, tmp_path / "k.npz", **OPTIONS)
    damaged = tmp_path / "tokenizer.json"
    damaged.write_text("{}")
    arguments = ["count", str(path), "--out", str(tmp_path / "l.npz"), "--tokenizer"]
    assert main([*arguments, str(damaged)]) == 1
    assert capsys.readouterr().err.startswith("lnattn count: ")
    plain = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    plain.save(str(damaged))
    assert main([*arguments, str(damaged), "--boundary", "end"]) == 1
    assert "no end-of-text token" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, str(damaged), "--workers", "0"])
    assert stopped.value.code == 2
