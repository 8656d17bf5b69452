"""Corpora as documents: JSON-lines, Parquet and text files, and their shards.

A *shard* is a part of a corpus that can be counted alone. Every document belongs to the shard in
which it begins: where a cut falls inside a document, the shard before it reads on to its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from lnattn.errors import CorpusError
from lnattn.storage import sha256_of_file

#: Bytes of text in a shard: at most a few seconds of work, and some ten million tokens.
LARGEST_SHARD, SMALLEST_SHARD = 64 << 20, 1 << 20
_ENDINGS = {".jsonl": "lines", ".json": "lines", ".parquet": "parquet", ".txt": "text"}


@dataclass(frozen=True)
class Shard:
    """A part of one source. It can be pickled, and its documents are the same wherever it is read.

    kind: lines, text or parquet; start, stop: bytes of a .jsonl file, or row groups of a .parquet
    file; weight: its size in bytes.
    """

    index: int
    kind: str
    source: str
    start: int
    stop: int
    weight: int

    def documents(self) -> Iterator[str]:
        """The shard's documents, in order, without the blank ones.

        Raises `CorpusError` for a missing or damaged file.
        """
        reader = {"lines": _lines, "text": _text, "parquet": _parquet}[self.kind]
        documents = reader(self.source, self.start, self.stop)
        return (document for document in documents if document and not document.isspace())


def read_documents(sources: Sequence[str | Path]) -> Iterator[str]:
    """Yield the non-empty documents of all sources, in order.

    A source is a `.jsonl` file (one object with a `text` field a line), a `.parquet` file (a
    column `text`) or a `.txt` file (one document). Raises `CorpusError` for a missing file, a
    damaged line, or when nothing at all was found.
    """
    sources = [sources] if isinstance(sources, str | Path) else sources
    empty = True
    for shard in plan_shards(sources):
        for document in shard.documents():
            empty = False
            yield document
    if empty:
        raise CorpusError(
            f"the corpus {', '.join(map(str, sources))} holds no text; give a file with documents."
        )


def plan_shards(sources: Sequence[str | Path], shard_bytes: int | None = None) -> list[Shard]:
    """Cut sources (as for `read_documents`) into shards of about `shard_bytes` of text.

    By default some 64 shards of 1 to 64 MiB. The cuts depend on the files alone, so that an
    interrupted count finds the same shards again.
    """
    files = corpus_files(sources)
    if shard_bytes is None:
        total = sum(path.stat().st_size for path in files)
        shard_bytes = min(max(total // 64, SMALLEST_SHARD), LARGEST_SHARD)
    parts = (part for source in sources for part in _parts(str(source), shard_bytes))
    return [Shard(index, *part) for index, part in enumerate(parts)]


def corpus_files(sources: Sequence[str | Path]) -> list[Path]:
    """The sources as paths; `CorpusError` for one that is missing or of an unknown kind."""
    files = [Path(source) for source in sources]
    for path in files:
        if not path.is_file():
            raise CorpusError(
                f"there is no corpus file {path}; give a .jsonl, .parquet or .txt file."
            )
        if path.suffix not in _ENDINGS:
            raise CorpusError(
                f"{path} ends in {path.suffix or 'nothing'}; documents are read from .jsonl (one "
                "object with a 'text' field a line), .parquet (a column 'text') or .txt."
            )
    return files


def describe_corpus(sources: Sequence[str | Path]) -> list[dict[str, object]]:
    """What a corpus is made of, for provenance: file name, bytes, SHA-256."""
    return [
        {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256_of_file(path)}
        for path in corpus_files(sources)
    ]


def _parts(source: str, shard_bytes: int) -> Iterator[tuple[str, str, int, int, int]]:
    """(kind, source, start, stop, weight) of the shards of one source."""
    path = Path(source).resolve()
    kind, size = _ENDINGS[path.suffix], path.stat().st_size
    if kind == "lines":
        # Equal parts, so that the last one is no tiny rest.
        parts = max(1, round(size / shard_bytes))
        for start, stop in pairwise(size * i // parts for i in range(parts + 1)):
            yield kind, str(path), start, stop, stop - start
    elif kind == "parquet":
        # Neighbouring row groups until they hold `shard_bytes`; a row group is never cut.
        metadata = _open_parquet(path).metadata
        start, weight = 0, 0
        for group in range(metadata.num_row_groups):
            weight += metadata.row_group(group).total_byte_size
            if weight >= shard_bytes or group + 1 == metadata.num_row_groups:
                yield kind, str(path), start, group + 1, weight
                start, weight = group + 1, 0
    else:
        yield kind, str(path), 0, size, size


def _text(path: Any, start: int, stop: int) -> Iterator[str]:
    try:
        yield Path(path).read_text(encoding="utf-8-sig")  # a byte order mark is no text
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 ({error.reason}); convert it first.") from error


def _lines(path: Any, start: int, stop: int) -> Iterator[str]:
    """The documents of the lines that begin in bytes `start` to `stop` of a file."""
    with Path(path).open("rb") as file:
        if start:
            # The line that holds the byte before the cut belongs to the shard before.
            file.seek(start - 1)
            file.readline()
        position = file.tell()
        while position < stop and (line := file.readline()):
            if not line.isspace():
                try:
                    yield _document(line)
                except CorpusError as error:
                    file.seek(0)
                    number = 1 + file.read(position).count(b"\n")
                    raise CorpusError(f"{path}, line {number} {error}") from error
            position += len(line)


def _document(line: bytes) -> str:
    """The document in one line of JSON; the message of a `CorpusError` goes on from its number."""
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorpusError(
            f"is not a JSON object with a 'text' field ({type(error).__name__}); mend the line."
        ) from error
    if not isinstance(text, str):
        raise CorpusError(f"holds a 'text' of type {type(text).__name__}; it must be a string.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorpusError("holds a lone surrogate, which is no character; mend it.") from error
    return text


def _open_parquet(path: Path | str) -> Any:
    """A `pyarrow.parquet.ParquetFile` with a string column `text`; `CorpusError` without one."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise CorpusError("Parquet needs pyarrow; pip install 'lnattn[text]'.") from error
    try:
        file = parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise CorpusError(f"{path} cannot be read as Parquet ({error}).") from error
    names = file.schema_arrow.names
    if "text" not in names:
        raise CorpusError(f"{path} has no column 'text' but {', '.join(names)}; rename one.")
    return file


def _parquet(path: Any, start: int, stop: int) -> Iterator[str]:
    """The documents of some row groups of a Parquet file, read a little at a time."""
    import pyarrow

    file, groups = _open_parquet(path), list(range(start, stop))
    try:
        for batch in file.iter_batches(batch_size=1000, row_groups=groups, columns=["text"]):
            for text in batch.column(0).to_pylist():
                if not isinstance(text, str):
                    raise CorpusError(f"{path} has a row whose 'text' is no string; mend it.")
                yield text
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path} is damaged ({error}); fetch it again.") from error
