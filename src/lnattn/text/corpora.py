"""Corpora as documents: JSON-lines, Parquet and text files, pinned hub datasets, and their shards.

A *shard* is a part of a corpus that can be counted alone. Every document belongs to the shard in
which it begins: where a cut falls inside a document, the shard before it reads on to the document's
end, and the shard after it skips ahead to the next beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from lnattn.errors import CorpusError
from lnattn.storage import sha256_of_file


@dataclass(frozen=True)
class HubCorpus:
    """A dataset on the Hugging Face hub, pinned to one revision of its repository.

    path: the repository, or a local folder of the same layout; name: its configuration; lines:
    whether a row is one line of an article, as in WikiText, or a whole document.
    """

    path: str
    name: str | None
    split: str
    revision: str
    licence: str
    lines: bool = False


_WIKITEXT = "b08601e04326c79dfdd32d625aee71d232d685c3"
#: Names that may be given instead of files. Revisions are commits of the dataset repositories, as
#: several independent public projects pin them; OpenWebText's is the one whose files are Parquet
#: (its older ones need a loading script, which `datasets` no longer runs).
HUB_CORPORA = {
    "wikitext-103": HubCorpus(
        "Salesforce/wikitext", "wikitext-103-raw-v1", "train", _WIKITEXT, "CC BY-SA", lines=True
    ),
    "wikitext-103-validation": HubCorpus(
        "Salesforce/wikitext",
        "wikitext-103-raw-v1",
        "validation",
        _WIKITEXT,
        "CC BY-SA",
        lines=True,
    ),
    "openwebtext": HubCorpus(
        "Skylion007/openwebtext",
        None,
        "train",
        "79d93d786212f7344586290adb811d4ae6a1762c",
        "CC0 (packaging)",
    ),
}

#: Bytes of text in a shard: at most a few seconds of work, and some ten million tokens.
LARGEST_SHARD, SMALLEST_SHARD = 64 << 20, 1 << 20
_ENDINGS = {".jsonl": "lines", ".json": "lines", ".parquet": "parquet", ".txt": "text"}


@dataclass(frozen=True)
class Shard:
    """A part of one source. It can be pickled, and its documents are the same wherever it is read.

    kind: lines, text, parquet or hub; start, stop: bytes of a .jsonl file, row groups of a .parquet
    file, or files of a hub dataset; weight: its size in bytes, 1 for a hub file.
    """

    index: int
    kind: str
    source: str | HubCorpus
    start: int
    stop: int
    weight: int

    def documents(self) -> Iterator[str]:
        """The shard's documents, in order, without the blank ones.

        Raises `CorpusError` for a missing or damaged file, or a hub that cannot be read.
        """
        if isinstance(self.source, HubCorpus):
            documents = _hub_documents(self.source, self.start)
        else:
            reader = {"lines": _lines, "text": _text, "parquet": _parquet}[self.kind]
            documents = reader(Path(self.source), self.start, self.stop)
        return (document for document in documents if document and not document.isspace())


def read_documents(sources: Sequence[str | Path]) -> Iterator[str]:
    """Yield the non-empty documents of all sources, in order.

    A source is a `.jsonl` file (one object with a `text` field a line), a `.parquet` file (a
    column `text`), a `.txt` file (one document), or a name in `HUB_CORPORA`, which needs a network.
    Raises `CorpusError` for a missing file, a damaged line, or when nothing at all was found.
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

    The default makes some 64 shards of a corpus, none smaller than 1 MiB or larger than 64 MiB. The
    cuts depend on the files alone, so that an interrupted count finds the same shards again.
    """
    if not sources:
        raise CorpusError("no corpus was given; name files or a hub corpus.")
    files = corpus_files(sources)
    if shard_bytes is None:
        total = sum(path.stat().st_size for path in files)
        shard_bytes = min(max(total // 64, SMALLEST_SHARD), LARGEST_SHARD)
    parts = (part for source in sources for part in _parts(str(source), shard_bytes))
    return [Shard(index, *part) for index, part in enumerate(parts)]


def corpus_files(sources: Sequence[str | Path]) -> list[Path]:
    """The sources that are files; `CorpusError` for one that is missing or of an unknown kind."""
    files = [Path(source) for source in sources if str(source) not in HUB_CORPORA]
    for path in files:
        if not path.is_file():
            raise CorpusError(
                f"there is no corpus file {path}; give a .jsonl, .parquet or .txt file, or one of: "
                f"{', '.join(HUB_CORPORA)}."
            )
        if path.suffix not in _ENDINGS:
            raise CorpusError(
                f"{path} ends in {path.suffix or 'nothing'}; documents are read from .jsonl (one "
                "object with a 'text' field a line), .parquet (a column 'text') or .txt."
            )
    return files


def describe_corpus(sources: Sequence[str | Path]) -> list[dict[str, object]]:
    """What a corpus is made of, for provenance: file name, bytes, SHA-256; or hub revision."""
    described: list[dict[str, object]] = []
    for source in sources:
        if corpus := HUB_CORPORA.get(str(source)):
            described.append({"dataset": corpus.path, "revision": corpus.revision})
        else:
            (path,) = corpus_files([source])
            size = path.stat().st_size
            described.append({"file": path.name, "bytes": size, "sha256": sha256_of_file(path)})
    return described


def _parts(source: str, shard_bytes: int) -> Iterator[tuple[str, str | HubCorpus, int, int, int]]:
    """(kind, source, start, stop, weight) of the shards of one source."""
    if corpus := HUB_CORPORA.get(source):
        for i in range(_hub_stream(corpus).num_shards):
            yield "hub", corpus, i, i + 1, 1
        return
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


def _text(path: Path, start: int, stop: int) -> Iterator[str]:
    try:
        yield path.read_text(encoding="utf-8-sig")  # a byte order mark is no text
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 ({error.reason}); convert it first.") from error


def _lines(path: Path, start: int, stop: int) -> Iterator[str]:
    """The documents of the lines that begin in bytes `start` to `stop` of a file."""
    with path.open("rb") as file:
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
                    number = _line_number(path, position)
                    raise CorpusError(f"{path}, line {number} {error}") from error
            position += len(line)


def _line_number(path: Path, position: int) -> int:
    with path.open("rb") as file:
        number = 1
        while file.tell() < position:
            file.readline()
            number += 1
    return number


def _document(line: bytes) -> str:
    """The document in one line of JSON; the message of a `CorpusError` goes on from its number."""
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorpusError(
            f"is not a JSON object with a 'text' field ({type(error).__name__}); mend or remove "
            "the line."
        ) from error
    if not isinstance(text, str):
        raise CorpusError(f"holds a 'text' of type {type(text).__name__}; it must be a string.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorpusError("holds a lone surrogate, which is no character; mend it.") from error
    return text


def _open_parquet(path: Path) -> Any:
    """A `pyarrow.parquet.ParquetFile` with a string column `text`; `CorpusError` without one."""
    pyarrow, parquet = _optional("pyarrow"), _optional("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise CorpusError(f"{path} cannot be read as Parquet ({error}).") from error
    names = file.schema_arrow.names
    if "text" not in names:
        raise CorpusError(f"{path} has no column 'text' but {', '.join(names)}; rename one.")
    kind = file.schema_arrow.field("text").type
    if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        raise CorpusError(f"{path}: the column 'text' holds {kind}, not strings.")
    return file


def _parquet(path: Path, start: int, stop: int) -> Iterator[str]:
    """The documents of some row groups of a Parquet file, read a little at a time."""
    import pyarrow

    file, groups = _open_parquet(path), list(range(start, stop))
    try:
        for batch in file.iter_batches(batch_size=1000, row_groups=groups, columns=["text"]):
            for text in batch.column(0).to_pylist():
                if text is None:
                    raise CorpusError(f"{path} has a row without text; remove such rows.")
                yield text
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path} is damaged ({error}); fetch it again.") from error


def _optional(module: str) -> Any:
    """A module of the extra 'text'."""
    try:
        return import_module(module)
    except ImportError as error:
        raise CorpusError(
            f"this corpus needs {module}; install it with: pip install 'lnattn[text]'"
        ) from error


def _hub_stream(corpus: HubCorpus) -> Any:
    datasets = _optional("datasets")
    try:
        return datasets.load_dataset(
            corpus.path,
            corpus.name,
            split=corpus.split,
            revision=corpus.revision,
            streaming=True,
        )
    except Exception as error:  # HTTP, offline mode, missing repositories: unrelated types
        raise _unreadable(corpus, error) from error


def _hub_documents(corpus: HubCorpus, part: int) -> Iterator[str]:
    """The documents that begin in one file of a hub corpus."""
    stream = _hub_stream(corpus)

    def rows(part: int) -> Iterator[str]:
        try:
            for row in stream.shard(num_shards=stream.num_shards, index=part):
                yield row["text"]
        except Exception as error:  # the network, once `datasets` has retried
            raise _unreadable(corpus, error) from error

    if not corpus.lines:
        return rows(part)
    return _articles(_own_lines(rows, part, stream.num_shards))


def _unreadable(corpus: HubCorpus, error: Exception) -> CorpusError:
    return CorpusError(
        f"the corpus {corpus.path} could not be read from the hub ({error}); check the network, or "
        "give local .jsonl, .parquet or .txt files."
    )


def _own_lines(rows: Any, part: int, parts: int) -> Iterator[str]:
    """The lines of the articles that begin in a file; the last one may end in a later file."""
    own = part == 0
    for line in rows(part):
        own = own or _starts_article(line)
        if own:
            yield line
    for later in range(part + 1, parts if own else 0):
        for line in rows(later):
            if _starts_article(line):
                return
            yield line


def _starts_article(line: str) -> bool:
    """Whether a line of WikiText is a top-level heading, ` = Title = `."""
    stripped = line.strip()
    return stripped.startswith("= ") and not stripped.startswith("= =")


def _articles(lines: Iterable[str]) -> Iterator[str]:
    """Join WikiText's lines into articles."""
    article: list[str] = []
    for line in lines:
        if _starts_article(line) and article:
            yield "".join(article)
            article = []
        article.append(line)
    if article:
        yield "".join(article)
