"""Corpora as streams of documents: local JSON-lines, Parquet or text files, pinned hub datasets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lnattn.errors import CorpusError
from lnattn.storage import sha256_of_file


@dataclass(frozen=True)
class HubCorpus:
    """A dataset on the Hugging Face hub, pinned to one revision of its repository.

    path: the repository, or a local folder of the same layout; name: its configuration; lines:
    whether a row is one line of an article, as in WikiText, and not a whole document.
    """

    path: str
    name: str | None
    split: str
    revision: str
    licence: str
    lines: bool = False


#: Endings of files with one JSON object a line.
JSON_LINES = {".jsonl", ".json"}

#: Names that may be given instead of files. Revisions are commits of the dataset repositories, as
#: several independent public projects pin them; OpenWebText's is the one whose files are Parquet
#: (its older ones need a loading script, which `datasets` no longer runs).
HUB_CORPORA = {
    "wikitext-103": HubCorpus(
        "Salesforce/wikitext",
        "wikitext-103-raw-v1",
        "train",
        "b08601e04326c79dfdd32d625aee71d232d685c3",
        "CC BY-SA",
        lines=True,
    ),
    "wikitext-103-validation": HubCorpus(
        "Salesforce/wikitext",
        "wikitext-103-raw-v1",
        "validation",
        "b08601e04326c79dfdd32d625aee71d232d685c3",
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


def read_documents(sources: Sequence[str | Path]) -> Iterator[str]:
    """Yield the non-empty documents of all sources, in order.

    A source is a `.jsonl` file (one object with a `text` field a line), a `.parquet` file (a
    column `text`), a `.txt` file (one document), or a name in `HUB_CORPORA`, which needs a network.
    Raises `CorpusError` for a missing file, a damaged line, or when nothing at all was found.
    """
    if isinstance(sources, str | Path):
        sources = [sources]
    empty = True
    for source in sources:
        documents = (
            _hub_documents(HUB_CORPORA[str(source)])
            if str(source) in HUB_CORPORA
            else _file_documents(Path(source))
        )
        for document in documents:
            if document and not document.isspace():
                empty = False
                yield document
    if empty:
        named = ", ".join(map(str, sources)) or "(none given)"
        raise CorpusError(f"the corpus {named} holds no text; give a file with documents in it.")


def _file_documents(path: Path) -> Iterator[str]:
    if not path.is_file():
        known = ", ".join(HUB_CORPORA)
        raise CorpusError(
            f"there is no corpus file {path}; give a .jsonl, .parquet or .txt file, or one of: "
            f"{known}."
        )
    if path.suffix == ".txt":
        yield _decode(path)
    elif path.suffix in JSON_LINES:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield parse_line(line, path, "line", number)
    elif path.suffix == ".parquet":
        yield from parquet_documents(path)
    else:
        raise CorpusError(
            f"{path} ends in {path.suffix or 'nothing'}; documents are read from .jsonl (one "
            "object with a 'text' field a line), .parquet (a column 'text') or .txt."
        )


def _decode(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 ({error.reason}); convert it first.") from error


def parse_line(line: bytes, path: Path, unit: str, number: int) -> str:
    """The document in one line of JSON. A `CorpusError` begins with `path, unit number`."""
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorpusError(
            f"{path}, {unit} {number} is not a JSON object with a 'text' field "
            f"({type(error).__name__}); mend or remove the line."
        ) from error
    if not isinstance(text, str):
        raise CorpusError(
            f"{path}, {unit} {number}: 'text' must be a string, not {type(text).__name__}."
        )
    return text


def open_parquet(path: Path) -> Any:
    """A `pyarrow.parquet.ParquetFile` with a string column `text`; `CorpusError` without one."""
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise CorpusError(f"{path} cannot be read as Parquet ({error}).") from error
    names = file.schema_arrow.names
    if "text" not in names:
        raise CorpusError(f"{path} has no column 'text' but {', '.join(names)}; rename one.")
    kind = file.schema_arrow.field("text").type
    if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        raise CorpusError(f"{path}: the column 'text' holds {kind}, not strings.")
    return file


def parquet_documents(path: Path, row_groups: Sequence[int] | None = None) -> Iterator[str]:
    """The documents of a Parquet file, or of some of its row groups, read a little at a time."""
    import pyarrow

    file = open_parquet(path)
    groups = None if row_groups is None else list(row_groups)
    try:
        for batch in file.iter_batches(batch_size=1000, row_groups=groups, columns=["text"]):
            for text in batch.column(0).to_pylist():
                if text is None:
                    raise CorpusError(f"{path} has a row without text; remove such rows.")
                yield text
    except (pyarrow.ArrowException, OSError) as error:
        raise CorpusError(f"{path} is damaged ({error}); fetch it again.") from error


def _hub_documents(corpus: HubCorpus) -> Iterator[str]:
    for part in range(hub_parts(corpus)):
        yield from hub_part_documents(corpus, part)


def hub_parts(corpus: HubCorpus) -> int:
    """How many files a hub corpus consists of."""
    return _hub_stream(corpus).num_shards


def hub_part_documents(corpus: HubCorpus, part: int) -> Iterator[str]:
    """The documents that begin in one file of a hub corpus."""
    stream = _hub_stream(corpus)
    if corpus.lines:
        return articles(_lines_of_own_articles(stream, part))
    return _rows(stream, part)


def _hub_stream(corpus: HubCorpus) -> Any:
    import datasets  # heavy, and only needed for the hub

    try:
        return datasets.load_dataset(
            corpus.path,
            corpus.name,
            split=corpus.split,
            revision=corpus.revision,
            streaming=True,
        )
    except Exception as error:  # HTTP, offline mode, missing repositories: unrelated types
        raise _unreadable(corpus.path, error) from error


def _rows(stream: Any, part: int) -> Iterator[str]:
    try:
        for row in stream.shard(num_shards=stream.num_shards, index=part):
            yield row["text"]
    except Exception as error:  # the network, once `datasets` has retried
        raise _unreadable(stream.info.dataset_name, error) from error


def _unreadable(name: str | None, error: Exception) -> CorpusError:
    return CorpusError(
        f"the corpus {name} could not be read from the hub ({error}); check the network, or give "
        "local .jsonl, .parquet or .txt files."
    )


def _lines_of_own_articles(stream: Any, part: int) -> Iterator[str]:
    """The lines of the articles that begin in a file; the last one may end in a later file."""
    own = part == 0
    for line in _rows(stream, part):
        own = own or starts_article(line)
        if own:
            yield line
    for later in range(part + 1, stream.num_shards if own else 0):
        for line in _rows(stream, later):
            if starts_article(line):
                return
            yield line


def starts_article(line: str) -> bool:
    """Whether a line of WikiText is a top-level heading, ` = Title = `."""
    stripped = line.strip()
    return stripped.startswith("= ") and not stripped.startswith("= =")


def articles(lines: Iterable[str]) -> Iterator[str]:
    """Join WikiText's lines into articles; a top-level heading ` = Title = ` starts a new one."""
    article: list[str] = []
    for line in lines:
        if starts_article(line) and article:
            yield "".join(article)
            article = []
        article.append(line)
    if article:
        yield "".join(article)


def describe_corpus(sources: Sequence[str | Path]) -> list[dict[str, object]]:
    """What a corpus is made of, for provenance: file name, bytes, SHA-256; or hub revision."""
    described: list[dict[str, object]] = []
    for source in sources:
        if str(source) in HUB_CORPORA:
            corpus = HUB_CORPORA[str(source)]
            described.append({"dataset": corpus.path, "revision": corpus.revision})
        else:
            path = Path(source)
            if not path.is_file():
                raise CorpusError(f"there is no corpus file {path}; check its name.")
            described.append(
                {
                    "file": path.name,
                    "bytes": path.stat().st_size,
                    "sha256": sha256_of_file(path),
                }
            )
    return described
