"""Corpora as streams of documents: local JSON-lines or text files, and pinned hub datasets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lnattn.errors import CorpusError
from lnattn.storage import sha256_of_file


@dataclass(frozen=True)
class HubCorpus:
    """A dataset on the Hugging Face hub, pinned to one revision of its repository."""

    path: str
    name: str | None
    split: str
    revision: str
    licence: str


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

    A source is a `.jsonl` file (one object with a `text` field a line), a `.txt` file (one
    document), or a name in `HUB_CORPORA`, which needs a network the first time.
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
            if document.strip():
                empty = False
                yield document
    if empty:
        named = ", ".join(map(str, sources)) or "(none given)"
        raise CorpusError(f"the corpus {named} holds no text; give a file with documents in it.")


def _file_documents(path: Path) -> Iterator[str]:
    if not path.is_file():
        known = ", ".join(HUB_CORPORA)
        raise CorpusError(
            f"there is no corpus file {path}; give a .jsonl or .txt file, or one of: {known}."
        )
    if path.suffix == ".txt":
        yield _decode(path)
    elif path.suffix in {".jsonl", ".json"}:
        yield from _json_lines(path)
    else:
        raise CorpusError(
            f"{path} ends in {path.suffix or 'nothing'}; documents are read from .jsonl (one "
            "object with a 'text' field a line) or .txt."
        )


def _decode(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 ({error.reason}); convert it first.") from error


def _json_lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                text = json.loads(line)["text"]
            except (ValueError, KeyError, TypeError) as error:
                raise CorpusError(
                    f"{path}, line {number} is not a JSON object with a 'text' field "
                    f"({type(error).__name__}); mend or remove the line."
                ) from error
            if not isinstance(text, str):
                raise CorpusError(
                    f"{path}, line {number}: 'text' must be a string, not {type(text).__name__}."
                )
            yield text


def _hub_documents(corpus: HubCorpus) -> Iterator[str]:
    import datasets  # heavy, and only needed for the hub

    try:
        stream = datasets.load_dataset(
            corpus.path,
            corpus.name,
            split=corpus.split,
            revision=corpus.revision,
            streaming=True,
        )
        rows: Iterable[dict] = iter(stream)
        lines = (row["text"] for row in rows)
        yield from articles(lines) if "wikitext" in corpus.path else lines
    except (OSError, ConnectionError) as error:
        raise CorpusError(
            f"the corpus {corpus.path} could not be read from the hub ({error}); check the "
            "network, or give local .jsonl or .txt files."
        ) from error


def articles(lines: Iterable[str]) -> Iterator[str]:
    """Join WikiText's lines into articles; a top-level heading ` = Title = ` starts a new one."""
    article: list[str] = []
    for line in lines:
        stripped = line.strip()
        is_title = stripped.startswith("= ") and not stripped.startswith("= =")
        if is_title and article:
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
