"""Counting a corpus of any size: shard by shard, on all cores or on a cluster, resumably.

The unit of work is `count_shard`: it reads one shard, tokenises it, counts it in bounded memory and
leaves one part, a run file and its record. A part is complete when its record is there, and a shard
that is counted again gives the same part. So an interrupted count goes on with the shards that have
no part, no document is lost or counted twice, and it does not matter which process, on which
machine, counts a shard. At the end the parts are merged, a little of each at a time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from lnattn.errors import CorpusError, ResultError
from lnattn.progress import progress_bar
from lnattn.storage import provenance, read_json, sha256_of_file, write_atomically, write_json
from lnattn.text.corpora import describe_corpus
from lnattn.text.counts_files import write_counts
from lnattn.text.pairs import Boundary, PairCounter
from lnattn.text.runs import Run, merged_blocks, write_run
from lnattn.text.schedulers import in_processes, in_this_process, on_dask
from lnattn.text.shards import Shard, plan_shards

#: Text handed to the tokenizer at a time, in characters and documents.
_BATCH_CHARACTERS, _BATCH_DOCUMENTS = 1 << 20, 1000


@dataclass(frozen=True)
class CountJob:
    """What all shards of one count have in common.

    folder: where the parts and tokenizer.json lie, the same for all machines; memory: bytes for
    the counts of one shard while they are made; skip: how far apart the tokens of a pair stand.
    """

    folder: str
    tokenizer_sha256: str
    vocab_size: int
    boundary: Boundary
    memory: int
    skip: int = 1

    def part(self, shard: Shard) -> Path:
        return Path(self.folder) / f"part-{shard.index:06d}.run"


def count_corpus(
    sources: Sequence[str | Path],
    tokenizer: Any,
    out: Path | str,
    *,
    boundary: Boundary | None = None,
    skip: int = 1,
    workers: int | None = None,
    memory: int = 1 << 29,
    scheduler: str | None = None,
    shard_bytes: int | None = None,
    restart: bool = False,
    name: str | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Count the tokens and pairs of a corpus into `out`; return the record written beside it.

    sources: as for `lnattn.text.corpora.read_documents`; tokenizer: a `tokenizers.Tokenizer`, or
    a fast tokenizer of `transformers` (no special tokens are added, nothing is truncated);
    out: a .npz that `Counts.load` reads, or a .parquet table of pairs; boundary: what counts at a
    document's ends (default: nothing); skip: how far apart the tokens of a pair stand (1:
    neighbours); workers: processes (default: one for each core; started by
    spawning, so a script needs its `if __name__ == "__main__"` guard); memory: bytes for counting,
    shared by the workers; scheduler: the address of a Dask scheduler, whose workers must see the
    same files; restart: discard what an interrupted count has left; name: what the record calls
    the tokenizer.

    An interrupted count goes on when called again with the same arguments: its parts lie in
    `out`'s neighbour NAME.parts until it is done. Raises `CorpusError` when the inputs are not
    the ones those parts were made of, or change while they are read.
    """
    begun = time.perf_counter()
    out = Path(out)
    if out.suffix not in {".npz", ".parquet"}:
        raise CorpusError(f"the counts go to a .npz or .parquet file, not to {out}.")
    workers = workers or os.cpu_count() or 1
    shards = plan_shards(sources, shard_bytes)
    inputs, stamps = describe_corpus(sources), _stamps(sources)
    text = plain_tokenizer(tokenizer)
    job = CountJob(
        folder=str(out.with_suffix(".parts").resolve()),
        tokenizer_sha256=hashlib.sha256(text.encode()).hexdigest(),
        vocab_size=vocabulary_size(text),
        boundary=boundary or Boundary(),
        memory=memory // (1 if scheduler else workers),
        skip=skip,
    )
    _prepare_folder(job, text, _plan(job, shards, inputs), restart)
    records = {shard.index: record for shard in shards if (record := _finished(job, shard))}
    waiting = [shard for shard in shards if shard.index not in records]
    # In bytes of text; in files, where the hub does not say how large they are.
    in_bytes = all(shard.kind != "hub" for shard in shards)
    weights = {shard.index: shard.weight if in_bytes else 1 for shard in shards}
    bar = progress_bar(
        what="counting",
        delay=0,
        leave=True,
        total=sum(weights.values()),
        initial=sum(weights[index] for index in records),
        unit="B" if in_bytes else "file",
        unit_scale=in_bytes,
        unit_divisor=1024,
        disable=not progress,
    )
    if scheduler:
        counted = on_dask(count_shard, job, waiting, scheduler)
    elif workers == 1:
        counted = in_this_process(count_shard, job, waiting)
    else:
        counted = in_processes(count_shard, job, waiting, workers)
    tokens = 0
    with bar:
        for record in counted:
            records[record["shard"]] = record
            tokens += record["tokens"]
            rate = tokens / (time.perf_counter() - begun)
            bar.set_postfix_str(f"{rate:,.0f} tokens/s", refresh=False)
            bar.update(weights[record["shard"]])
    if _stamps(sources) != stamps:
        raise CorpusError("the corpus files changed while they were counted; count again.")
    totals = {
        key: sum(record[key] for record in records.values())
        for key in ("documents", "tokens", "pairs")
    }
    if not totals["documents"]:
        raise CorpusError(f"the corpus {', '.join(map(str, sources))} holds no text.")
    record = provenance(
        what="unigram and bigram counts" if skip == 1 else "unigram and skip-bigram counts",
        corpus=inputs,
        tokenizer={
            "name": name,
            "sha256": job.tokenizer_sha256,
            "vocab_size": job.vocab_size,
        },
        boundary=asdict(job.boundary),
        skip=job.skip,
        **totals,
        shards=len(shards),
        resumed_with=len(shards) - len(waiting),
        seconds_of_last_session=round(time.perf_counter() - begun, 1),
    )
    blocks = merged_blocks([job.part(shard) for shard in shards], memory // 2)
    record = write_counts(out, blocks, job.vocab_size, record)
    shutil.rmtree(job.folder)
    return record


def count_shard(job: CountJob, shard: Shard) -> dict[str, Any]:
    """Count one shard: write its part, then its record, and return the record.

    Runs in any process that sees `job.folder` and the shard's source. The part is a run file: the
    keys of its pairs, and above them, from vocab² on, its tokens.
    """
    # The cores are used by counting several shards at a time, not by threads inside one.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    begun = time.perf_counter()
    tokenizer = _tokenizer(job.folder, job.tokenizer_sha256)
    counter = PairCounter(
        job.vocab_size,
        job.boundary,
        skip=job.skip,
        memory=job.memory,
        folder=Path(job.folder),
    )
    for batch in batches(shard.documents()):
        counter.add(*encode(tokenizer, batch))
    pairs = 0

    def blocks() -> Iterator[Run]:
        nonlocal pairs
        for keys, counts in counter.blocks():
            pairs += int(counts.sum())
            yield keys, counts
        tokens = np.flatnonzero(counter.unigrams)
        yield tokens.astype(np.uint64) + np.uint64(job.vocab_size**2), counter.unigrams[tokens]

    path = write_run(job.part(shard), blocks())
    record = {
        "shard": shard.index,
        "documents": counter.documents,
        "tokens": int(counter.unigrams.sum()),
        "pairs": pairs,
        "seconds": time.perf_counter() - begun,
        "sha256": sha256_of_file(path),
    }
    write_json(path.with_suffix(".json"), record)
    return record


def batches(documents: Iterable[str]) -> Iterator[list[str]]:
    """Documents in lists of a size that suits the tokenizer."""
    batch: list[str] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document)
        if size >= _BATCH_CHARACTERS or len(batch) == _BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def encode(tokenizer: Tokenizer, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids of documents, one after the other (int32), and the documents' lengths (int64)."""
    ids = [e.ids for e in tokenizer.encode_batch_fast(documents, add_special_tokens=False)]
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    return np.fromiter(chain.from_iterable(ids), np.int32, int(lengths.sum())), lengths


def plain_tokenizer(tokenizer: Any) -> str:
    """The JSON of a tokenizer without truncation and padding, which would change the counts."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise CorpusError(
            f"{type(tokenizer).__name__} is no fast tokenizer; convert it to a tokenizer.json."
        )
    plain = Tokenizer.from_str(backend.to_str())
    plain.no_truncation()
    plain.no_padding()
    return plain.to_str()


def vocabulary_size(tokenizer_json: str) -> int:
    """The highest token id plus one, added tokens included."""
    return max(Tokenizer.from_str(tokenizer_json).get_vocab().values()) + 1


@lru_cache(maxsize=4)
def _tokenizer(folder: str, sha256: str) -> Tokenizer:
    """The job's tokenizer, read once in each process; the checksum makes the cache safe."""
    text = (Path(folder) / "tokenizer.json").read_text(encoding="utf-8")
    if hashlib.sha256(text.encode()).hexdigest() != sha256:
        raise CorpusError(f"{folder}/tokenizer.json is not the one this count began with.")
    return Tokenizer.from_str(text)


def _plan(job: CountJob, shards: list[Shard], inputs: list[dict[str, Any]]) -> dict[str, Any]:
    """What must be equal for parts of an earlier session to be used."""
    return {
        "inputs": inputs,
        "tokenizer": job.tokenizer_sha256,
        "boundary": asdict(job.boundary),
        "skip": job.skip,
        "shards": [[shard.kind, shard.start, shard.stop] for shard in shards],
    }


def _prepare_folder(job: CountJob, tokenizer: str, plan: dict[str, Any], restart: bool) -> None:
    folder = Path(job.folder)
    if restart and folder.is_dir():
        shutil.rmtree(folder)
    path = folder / "plan.json"
    if path.is_file():
        before = read_json(path)
        changed = [key for key, value in plan.items() if before.get(key) != value]
        if changed:
            raise CorpusError(
                f"{folder} holds an interrupted count with other {' and '.join(changed)}; give "
                "the same arguments to go on with it, or --restart to discard it."
            )
    write_atomically(folder / "tokenizer.json", lambda file: file.write(tokenizer.encode()))
    write_json(path, plan)


def _finished(job: CountJob, shard: Shard) -> dict[str, Any] | None:
    """The record of a shard's part, if that is complete and unharmed."""
    path = job.part(shard)
    try:
        record = read_json(path.with_suffix(".json"))
    except ResultError:
        return None
    return record if path.is_file() and sha256_of_file(path) == record["sha256"] else None


def _stamps(sources: Sequence[str | Path]) -> list[tuple[int, int]]:
    """Sizes and modification times of the sources that are files."""
    files = [Path(source).stat() for source in sources if Path(source).is_file()]
    return [(stat.st_size, stat.st_mtime_ns) for stat in files]
