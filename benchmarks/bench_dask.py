"""Counting pairs on a Dask cluster of two local workers, one file of a corpus a shard."""

from __future__ import annotations

import json
import logging
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_counting import corpus_documents
from distributed import Client, LocalCluster
from tokenizers import Tokenizer

from lnattn.paths import data_folder
from lnattn.text.corpora import Corpus
from lnattn.text.counting import count_corpus
from lnattn.text.counts import Counts
from lnattn.text.tokenizers import encoded, load_tokenizer, plain_tokenizer

WORKERS, FILES = 2, 16
#: The corpora named by LNATTN_CORPORA are read this many times over, as distinct documents.
COPIES = 4


def processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, both))


def run(quick: bool = False) -> dict[str, Any]:
    """See benchmarks/README.md."""
    documents, name = corpus_documents(quick)
    documents = documents * (1 if quick else COPIES)
    tokenizer = Tokenizer.from_str(plain_tokenizer(load_tokenizer(data_folder() / "book-gpt2")))
    expected = Counts.from_documents(encoded(tokenizer, documents), tokenizer.get_vocab_size())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        paths = [folder / f"part-{number:02d}.jsonl" for number in range(FILES)]
        for number, path in enumerate(paths):
            lines = (json.dumps({"text": text}) + "\n" for text in documents[number::FILES])
            path.write_text("".join(lines), encoding="utf-8")
        corpus = Corpus(tuple(map(str, paths)), stream=True)
        with (
            LocalCluster(
                n_workers=WORKERS,
                threads_per_worker=1,
                dashboard_address=None,
                local_directory=place,
                silence_logs=logging.ERROR,
            ) as cluster,
            Client(cluster) as client,
        ):
            executor = client.get_executor(pure=False)
            # Once for what is loaded and compiled; the second time counts.
            count_corpus(corpus, tokenizer, folder / "first.npz", workers=executor, progress=False)
            before = client.run(processor_seconds)
            asking = processor_seconds()
            begin = time.perf_counter()
            out = folder / "counts.npz"
            count_corpus(corpus, tokenizer, out, workers=executor, progress=False)
            wall = time.perf_counter() - begin
            asking = processor_seconds() - asking
            after = client.run(processor_seconds)
        counts = Counts.load(out)
        size = sum(path.stat().st_size for path in paths)
    if (counts.bigrams != expected.bigrams).nnz or counts.tokens != expected.tokens:
        raise RuntimeError("the cluster counted otherwise than one process; nothing was measured.")
    return {
        "title": "Counting on a Dask cluster",
        "what": (
            f"`count_corpus` with the executor of a cluster of {WORKERS} local workers of one "
            f"thread, from {FILES} JSON lines files that are streamed, a shard a file, to counts "
            "on disk. Seconds of the processors, in the workers and in the process that asks."
        ),
        "workload": {
            "text": f"{name}, {1 if quick else COPIES} times",
            "text_mib": round(size / 2**20, 1),
            "tokens": counts.tokens,
            "distinct_pairs": counts.bigrams.nnz,
            "workers": WORKERS,
            "shards": FILES,
            "worker_seconds": [round(after[w] - before[w], 3) for w in before],
            "own_seconds": round(asking, 3),
            "wall_seconds": round(wall, 3),
        },
        "rows": [],
        "ratios": [],
        "growth": [],
        "notes": [
            "The counts are those of one process that reads all documents itself.",
            "Once before the measured run the same corpus was counted, so that starting Python "
            "and loading libraries are not in it.",
            "The seconds of the process that asks hold Dask's scheduler, adding up the shards' "
            "counts and writing them.",
        ],
    }
