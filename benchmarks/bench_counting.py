"""Counting pairs of tokens: sorting against `Counter.update(zip(...))`, and the pass from text.

Two questions. Given tokens, how much faster is sorting? And given text, how much longer does
counting take than tokenising alone, which no counter can avoid?
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from common import Timing, growth, peak_memory, ratio, time_side_by_side
from tokenizers import Tokenizer

from lnattn.paths import data_folder
from lnattn.text.corpora import read_documents
from lnattn.text.counts import Counts
from lnattn.text.tokenizers import encoded, load_tokenizer, plain_tokenizer

VOCAB = 50_257
#: Tokens of a synthetic document: a web page.
DOCUMENT = 1000
CORES = 2
#: The corpora named by LNATTN_CORPORA are read this many times over, as distinct documents.
COPIES = 24
PAPERS = "Counter.update(zip(…)) per document"
OURS = "sorted keys"
FLOOR = "tokenizer alone, its own threads"
PASS = "lnattn count, text to npz"


def zipf_stream(tokens: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Independent tokens with p(rank r) ∝ 1/(r + 2.7): flat documents of the vocabulary's size."""
    generator = np.random.default_rng(seed)
    weights = 1 / (np.arange(VOCAB) + 2.7)
    edges = np.cumsum(weights / weights.sum())
    stream = np.empty(tokens, dtype=np.int32)
    for first in range(0, tokens, 1 << 22):
        part = stream[first : first + (1 << 22)]
        part[:] = np.searchsorted(edges, generator.random(len(part))).clip(max=VOCAB - 1)
    return stream, np.full(tokens // DOCUMENT, DOCUMENT)


def by_counter(stream: np.ndarray, lengths: np.ndarray) -> tuple[Counter, Counter]:
    """The papers' way. A tokenizer gives lists, so the lists are not part of the work."""
    unigrams = Counter()
    pairs = Counter()
    first = 0
    for length in lengths.tolist():
        ids = stream[first : first + length].tolist()
        unigrams.update(ids)
        pairs.update(zip(ids, ids[1:]))  # noqa: B905, RUF007 - as it is written there
        first += length
    return unigrams, pairs


def by_sorting(stream: np.ndarray, lengths: np.ndarray) -> Counts:
    """Ours, in one thread."""
    return Counts.from_documents(np.split(stream, np.cumsum(lengths)[:-1]), VOCAB)


def given_tokens(tokens: int, rounds: int) -> tuple[list[Timing], list[dict], dict[str, Any]]:
    """Rows and ratios for one synthetic stream; the counts are compared first."""
    stream, lengths = zipf_stream(tokens)
    results: dict[str, Any] = {}

    def slow() -> None:
        results["slow"] = by_counter(stream, lengths)

    slow_peak = peak_memory(
        lambda: results.update(time_side_by_side({PAPERS: slow}, repeats=1, warm_up=0))
    )
    slow_time = replace(results.pop(PAPERS), peak_mib=slow_peak)
    expected = results.pop("slow")[1]
    counts = by_sorting(stream, lengths)
    assert expected == as_dict(counts), "the two methods count differently"
    assert counts.tokens == len(stream)
    distinct = counts.bigrams.nnz
    del expected, counts
    times = time_side_by_side(
        {OURS: lambda: by_sorting(stream, lengths)}, repeats=rounds, warm_up=0
    )
    fast_time = replace(times[OURS], peak_mib=peak_memory(lambda: by_sorting(stream, lengths)))
    facts = {"tokens": tokens, "distinct_pairs": distinct}
    return [slow_time, fast_time], [ratio(slow_time, fast_time, floor=10)], facts


def as_dict(counts: Counts) -> dict[tuple[int, int], int]:
    table = counts.bigrams.tocoo()
    keys = zip(table.row.tolist(), table.col.tolist(), strict=True)
    return dict(zip(keys, table.data.tolist(), strict=True))


def _resident_kib(pid: int) -> int:
    """Resident memory of a process and of all that it has started; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(p) for t in tasks for p in (t / "children").read_text().split()]
    except OSError:
        return 0
    resident = sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return resident + sum(map(_resident_kib, children))


def peak_of_command(command: list[str], environment: dict[str, str]) -> float | None:
    """MiB resident in a command's processes together, at the highest of samples 50 ms apart."""
    running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    highest = 0
    while running.poll() is None:
        highest = max(highest, _resident_kib(running.pid))
        time.sleep(0.05)
    if running.returncode:
        raise RuntimeError(f"{command[0]} … ended with status {running.returncode}")
    return highest / 1024 or None


def corpus_documents(quick: bool) -> tuple[list[str], str]:
    """Real text: the development corpora where they are, else the book's small sample."""
    folder = os.environ.get("LNATTN_CORPORA")
    if quick or not folder:
        return list(read_documents([data_folder() / "text" / "sample.jsonl"])), "the book's sample"
    names = ("wikitext_test", "wikisplit_sentences", "squad_dev_contexts", "openwebtext_sample")
    paths = [Path(folder) / f"{name}.jsonl" for name in names]
    return list(read_documents(paths)), "the book's corpus"


def distinct_growth(documents: list[str], tokenizer: Tokenizer) -> dict[str, list[int]]:
    """Distinct pairs in growing parts of a text, its documents in random order."""
    order = np.random.default_rng(1).permutation(len(documents))
    vocab = tokenizer.get_vocab_size()
    counts = Counts.from_documents([], vocab)
    sizes = {"tokens": [], "distinct": []}
    for batch in np.array_split(order, 8):
        texts = [documents[i] for i in batch]
        counts += Counts.from_documents(encoded(tokenizer, texts), vocab)
        sizes["tokens"].append(counts.tokens)
        sizes["distinct"].append(counts.bigrams.nnz)
    return sizes


def whole_pass(quick: bool, rounds: int) -> tuple[list[Timing], dict[str, Any]]:
    """From text to counts on disk, against the tokenizer alone, on the same cores."""
    documents, name = corpus_documents(quick)
    tokenizer = Tokenizer.from_str(plain_tokenizer(load_tokenizer(data_folder() / "book-gpt2")))
    new_pairs = distinct_growth(documents, tokenizer)
    copies = 1 if quick else COPIES
    documents = documents * copies
    # Shuffled, so that every shard is a fair sample: the sources differ in length of document.
    order = np.random.default_rng(0).permutation(len(documents))
    documents = [documents[i] for i in order]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "corpus.jsonl"
        with source.open("w", encoding="utf-8") as file:
            for document in documents:
                file.write(json.dumps({"text": document}) + "\n")
        out = Path(folder) / "counts.npz"
        words = Path(folder) / "tokenizer.json"
        tokenizer.save(str(words))
        command = [sys.executable, "-m", "lnattn", "count", str(source), "--quiet"]
        command += ["--tokenizer", str(words), "--out", str(out)]
        command += ["--workers", str(1 if quick else CORES)]

        environment = dict(os.environ)
        environment.pop("TOKENIZERS_PARALLELISM", None)

        def tokenise() -> None:
            os.environ["TOKENIZERS_PARALLELISM"] = "true"
            for _ in encoded(tokenizer, documents):
                pass

        def count() -> None:
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)

        count()
        counts = Counts.load(out)
        expected = Counter()
        for ids in encoded(tokenizer, documents):
            expected.update(pairwise(ids.tolist()))
        assert expected == as_dict(counts), "the two methods count differently"
        times = time_side_by_side({PASS: count, FLOOR: tokenise}, repeats=rounds, warm_up=0)
        peak = None if quick else peak_of_command(command, environment)
        size = source.stat().st_size
    pass_time = replace(times[PASS], peak_mib=peak)
    entry = ratio(pass_time, times[FLOOR])
    facts = {
        "pass_over_floor": {key: entry[key] for key in ("median", "low", "high")},
        "text": f"{name}, {copies} times",
        "text_mib": round(size / 2**20, 1),
        "text_tokens": counts.tokens,
        "text_distinct_pairs": counts.bigrams.nnz,
        "text_documents": counts.record["documents"],
        "distinct_growth": new_pairs,
    }
    return [pass_time, times[FLOOR]], facts


def run(quick: bool = False) -> dict[str, Any]:
    tokens, rounds = (100_000, 1) if quick else (50_000_000, 5)
    rows, ratios, facts = given_tokens(tokens, rounds)
    text_rows, text_facts = whole_pass(quick, 1 if quick else 3)

    over = text_facts["pass_over_floor"]

    def make(size: int) -> dict[str, Any]:
        stream, lengths = zipf_stream(size, seed=1)
        return {
            PAPERS: lambda: by_counter(stream, lengths),
            OURS: lambda: by_sorting(stream, lengths),
        }

    sizes = (10_000, 20_000) if quick else (250_000, 500_000, 1_000_000, 2_000_000, 4_000_000)
    return {
        "title": "Counting pairs of tokens",
        "what": (
            "Unigram and bigram counts of documents of a thousand tokens, drawn from a Zipf law "
            "over GPT-2's vocabulary: the papers' Counter for each document against sorted "
            "keys, with identical counts; and the whole pass from text to counts on disk against "
            "the tokenizer alone on the same two cores."
        ),
        "workload": {"V": VOCAB, "document": DOCUMENT, "cores": CORES, **facts, **text_facts},
        "rows": [row.as_row() for row in [*rows, *text_rows]],
        "ratios": ratios,
        "growth": [growth("N", "tokens", sizes, make, repeats=1 if quick else 3)],
        "notes": [
            "The Counter was run once on the long stream; the memory of both is what a run adds "
            "to the process, the stream itself not counted.",
            "The whole pass is the command `lnattn count`: starting Python, and it again in every "
            "worker, is part of its time, and of its peak, which is that of all its processes.",
            f"The whole pass took {over['median']:.2f} times as long as the tokenizer alone "
            f"({over['low']:.2f} to {over['high']:.2f}), which is its floor; at most 1.3 was asked "
            "for.",
        ],
    }


if __name__ == "__main__":
    json.dump(run(quick="--quick" in sys.argv), sys.stdout, indent=2)
