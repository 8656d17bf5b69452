"""Corpora as documents, read by the library `datasets`: sets of the hub, and local files.

A *shard* is a part of a corpus that can be counted alone, in any process that sees the same files.
What is *prepared* lies as Arrow tables on the disk, and a shard is a span of rows. What is
*streamed* is read over the network or from its files as it is counted, and a shard is one of its
files (or, of few Parquet files, a row group).
"""

from __future__ import annotations

import contextlib
import errno
import glob
import io
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from huggingface_hub.errors import (
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from lnattn.errors import CorpusError, HubError, one_line
from lnattn.models.hub import what_is_listed
from lnattn.progress import say
from lnattn.storage import sha256_of_file

#: Bytes of prepared text in a shard: at most a few seconds of work, and some ten million tokens.
LARGEST_SHARD, SMALLEST_SHARD = 64 << 20, 1 << 20
#: Of fewer streamed files than this, those that can are divided further.
_FEW = 8
#: The builder of `datasets` for each ending, and its settings: a .txt file is one document.
_TEXT = ("text", {"sample_by": "document", "encoding": "utf-8-sig"})
_CSV = {"keep_default_na": False}  # the word NA is no missing value
_BUILDERS: dict[str, tuple[str, dict[str, Any]]] = {
    ".jsonl": ("json", {}),
    ".ndjson": ("json", {}),
    ".json": ("json", {}),
    ".parquet": ("parquet", {}),
    ".csv": ("csv", _CSV),
    ".tsv": ("csv", {**_CSV, "sep": "\t"}),
    ".txt": _TEXT,
}
_COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz")
_BATCH = 1000
#: How to mend what cannot be read.
_OF_FILES = "mend it, or fetch it again"
_OF_A_SET = "check its name, configuration, split and revision, and that the hub can be reached"


@dataclass(frozen=True)
class Corpus:
    """Which documents: local files, or one data set of the Hugging Face hub by its name.

    sources: files and patterns such as `part-*.jsonl.gz`, or a name like 'Skylion007/openwebtext';
    config, split, revision: which part and commit of a set of the hub; field: the column that holds
    the text; stream: read while counting, or prepare all of it on the disk first (None: stream a
    set of the hub, and prepare local files).
    """

    sources: tuple[str, ...]
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    field: str = "text"
    stream: bool | None = None

    @classmethod
    def of(cls, sources: Corpus | Sequence[str | Path] | str | Path) -> Corpus:
        """The corpus itself, or that of some files; a single path may be given."""
        if isinstance(sources, Corpus):
            return sources
        given = [sources] if isinstance(sources, str | Path) else sources
        return cls(tuple(map(str, given)))

    @property
    def name(self) -> str:
        """What a record calls the corpus."""
        return ", ".join(self.sources)

    @property
    def is_on_the_hub(self) -> bool:
        """A single name that is no path, such as 'owner/name': files win over a name."""
        [first, *more] = self.sources or ("",)
        path = Path(first)
        parts = path.parts
        return (
            not more
            and first != "-"
            and 1 <= len(parts) <= 2
            and not path.is_absolute()
            and not glob.has_magic(first)
            and not _ending(path)
            and not path.exists()
        )

    @property
    def is_streamed(self) -> bool:
        """Whether documents are read as they arrive, and not fetched first."""
        return self.is_on_the_hub if self.stream is None else self.stream

    def files(self) -> list[Path]:
        """The local files, patterns filled in; `CorpusError` for one that is missing or unknown."""
        if self.is_on_the_hub:
            return []
        return corpus_files(self.sources)

    def parts(self) -> list[CorpusPart]:
        """What `datasets` is asked for: the set of the hub, or runs of files of one kind."""
        if self.is_on_the_hub:
            return [
                CorpusPart(
                    path=self.sources[0],
                    config=self.config,
                    files=(),
                    split=self.split,
                    revision=self.revision,
                    field=self.field,
                )
            ]
        # A file of no bytes has no columns.
        non_empty = [path for path in self.files() if path.stat().st_size]
        runs = groupby(non_empty, key=_ending)
        return [
            CorpusPart(
                path=ending,
                config=None,
                files=tuple(str(path.resolve()) for path in files),
                split="train",
                revision=None,
                field=self.field,
            )
            for ending, files in runs
        ]

    def pinned(self) -> Corpus:
        """The same at the commit that its revision names now, so that all workers read that one."""
        if not self.is_on_the_hub:
            return self
        with _errors(self.name, _OF_A_SET), contextlib.suppress(OfflineModeIsEnabled):
            path = f"datasets/{self.sources[0]}"
            if self.revision is not None:
                path += f"/revision/{quote(self.revision, safe='')}"
            told = what_is_listed(self.name, path, seconds=30)
            return replace(self, revision=str(told["sha"]))
        return replace(self, stream=False)  # what is cached can be read, and not streamed

    def described(self) -> list[dict[str, object]]:
        """What the corpus is made of, for provenance; of a set of the hub its name and commit."""
        if not self.is_on_the_hub:
            files = describe_corpus(self.sources)
            return (
                files if self.field == "text" else [{**file, "field": self.field} for file in files]
            )
        return [
            {
                "dataset": self.sources[0],
                "config": self.config,
                "split": self.split,
                "revision": self.revision,
                "field": self.field,
            }
        ]


@dataclass(frozen=True)
class CorpusPart:
    """One call of `datasets.load_dataset`. path: a name of the hub, or the ending of `files`."""

    path: str
    config: str | None
    files: tuple[str, ...]
    split: str
    revision: str | None
    field: str

    @property
    def name(self) -> str:
        """What a record calls the corpus."""
        return ", ".join(Path(file).name for file in self.files) or self.path

    def errors(self) -> contextlib.AbstractContextManager[None]:
        """What goes wrong with this part, as a `CorpusError`."""
        return _errors(self.name, _OF_FILES if self.files else _OF_A_SET, self.files)

    def load(self, stream: bool, folder: Path | None = None) -> Any:
        """A `Dataset`, prepared in `folder` (None: the user's cache), or an `IterableDataset`.

        Raises `CorpusError` for a set, configuration, split, column or network that is missing.
        """
        datasets = _library()
        cache = None if folder is None else str(folder)
        with _quiet(datasets), self.errors():
            if self.files:
                builder, settings = _BUILDERS[self.path]
                files = [glob.escape(file) for file in self.files]  # names, and no patterns
                try:
                    loaded = datasets.load_dataset(
                        builder,
                        data_files=files,
                        split="train",
                        streaming=stream,
                        cache_dir=cache,
                        **settings,
                    )
                except ValueError as error:
                    if "corresponds to no data" not in str(error):
                        raise
                    # Files without a single row, of which the library makes no table.
                    return datasets.Dataset.from_dict({self.field: []})
            else:
                loaded = datasets.load_dataset(
                    self.path,
                    self.config,
                    split=self.split,
                    revision=self.revision,
                    streaming=stream,
                    cache_dir=cache,
                )
            if stream and loaded.num_shards < _FEW and hasattr(loaded, "reshard"):
                loaded = loaded.reshard()
            columns = loaded.column_names
            if columns is None:  # a streamed file tells them by its first row only
                columns = list(next(iter(loaded.take(1)), {}))
        if columns and self.field not in columns:
            raise CorpusError(
                f"{self.name} has no column {self.field!r} but {', '.join(columns)}; name one of "
                "them as the field."
            )
        return loaded.select_columns([self.field]) if columns else loaded


@dataclass(frozen=True)
class Shard:
    """A part of a corpus. It can be pickled, and its documents are the same wherever it is read.

    tables: the Arrow files in which the part is prepared, of which rows `start` to `stop` are
    meant; or none: then it is shard number `start` of `stop` of the streamed part.
    """

    index: int
    part: CorpusPart
    tables: tuple[str, ...]
    start: int
    stop: int

    def documents(self) -> Iterator[str]:
        """The shard's documents, in order, without the blank ones.

        Raises `CorpusError` for a missing or damaged file, and for a row without a text.
        """
        if self.tables:
            rows = _prepared(self.tables).select(range(self.start, self.stop))
            first = self.start
        else:
            rows = _streamed(self.part).shard(num_shards=self.stop, index=self.start)
            first = 0
        with self.part.errors():
            yield from _texts(rows, self.part, first)


def _texts(rows: Any, part: CorpusPart, first: int) -> Iterator[str]:
    """The texts of some rows but blank ones. first: the number of the first row."""
    number = first
    for batch in rows.with_format("arrow").iter(batch_size=_BATCH):
        for text in batch[part.field].to_pylist():
            if not isinstance(text, str):
                raise CorpusError(
                    f"{part.name} holds a {part.field!r} of type {type(text).__name__} in row "
                    f"{number} (counted from 0); it must be a string: mend it."
                )
            if text and not text.isspace():
                yield text
            number += 1


def read_documents(sources: Corpus | Sequence[str | Path] | str | Path) -> Iterator[str]:
    """Yield the documents of a corpus that are not blank, in order; it is streamed.

    sources: a `Corpus`, or files: .jsonl, .ndjson or .json (objects with a field `text`), .csv,
    .tsv or .parquet (a column `text`), .txt (one document), each also with .gz, .zst, .bz2 or .xz.
    Raises `CorpusError` for a missing or damaged file, or when nothing at all was found.
    """
    corpus = Corpus.of(sources)
    empty = True
    for part in corpus.parts():
        with part.errors():
            for document in _texts(part.load(stream=True), part, 0):
                empty = False
                yield document
    if empty:
        raise CorpusError(f"the corpus {corpus.name} holds no text; give a file with documents.")


def plan_shards(corpus: Corpus, folder: Path, shard_bytes: int | None = None) -> list[Shard]:
    """Cut a corpus into shards; what is not streamed is prepared in `folder` first.

    shard_bytes: of prepared text in a shard; by default some 64 shards of 1 to 64 MiB. The same
    corpus is cut alike each time, so that an interrupted count finds its shards again.
    """
    spans: list[tuple[CorpusPart, tuple[str, ...], int, int]] = []
    for part in corpus.parts():
        if corpus.is_streamed:
            number = part.load(stream=True).num_shards
            spans += [(part, (), i, number) for i in range(number)]
            continue
        # A set of the hub is cached where the user's other sets are.
        rows = part.load(stream=False, folder=folder if part.files else None)
        tables = tuple(table["filename"] for table in rows.cache_files)
        size = sum(Path(table).stat().st_size for table in tables)
        most = shard_bytes or min(max(size // 64, SMALLEST_SHARD), LARGEST_SHARD)
        pieces = min(max(1, round(size / most)), len(rows))
        edges = [len(rows) * i // pieces for i in range(pieces + 1)] if pieces else []
        spans += [(part, tables, start, stop) for start, stop in pairwise(edges)]
    return [Shard(index, *span) for index, span in enumerate(spans)]


def corpus_files(sources: Sequence[str | Path]) -> list[Path]:
    """The sources as paths, each file once, whatever it is called.

    Raises `CorpusError` for one that is missing, no file or of an unknown kind.
    """
    files: dict[tuple[int, int], Path] = {}
    for source in map(str, sources):
        exists = Path(source).exists() or not glob.has_magic(source)  # a name may have brackets
        matching = [] if exists else sorted(glob.glob(source, recursive=True))  # noqa: PTH207
        for path in map(Path, matching or [source]):
            _check_file(path)
            place = path.stat()
            known = files.setdefault((place.st_dev, place.st_ino), path)
            if known is not path:
                _say_once(f"{path} and {known} are one file, which counts once.")
    return list(files.values())


def _check_file(path: Path) -> None:
    """Raise `CorpusError` unless a path is a file of documents; it says what it is instead."""
    several = f"{', '.join(_BUILDERS)}, each also with {', '.join(_COMPRESSIONS)}"
    if str(path) == "-" or path.is_fifo() or path.is_char_device():
        raise CorpusError(
            f"{path} is a stream, which can be read only once; write it to a file first, of one of "
            f"the kinds {several}."
        )
    if path.is_dir():
        saved = (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file()
        way = (
            "a data set as save_to_disk writes it; write it with to_parquet and give that file"
            if saved
            else f"a folder; give the files in it, such as '{path}/*.txt'"
        )
        raise CorpusError(f"{path} is {way}.")
    if not path.is_file():
        raise CorpusError(
            f"there is no corpus file {path}; give files of documents, or one name of a data "
            "set of the hub."
        )
    if not _ending(path):
        raise CorpusError(
            f"{path} ends in {path.suffix or 'nothing'}; documents are read from {several}."
        )


@lru_cache(maxsize=64)
def _say_once(text: str) -> None:
    """A line; the files of a corpus are looked up several times."""
    say(text)


def describe_corpus(sources: Sequence[str | Path]) -> list[dict[str, object]]:
    """What files a corpus is made of, for provenance: file name, bytes, SHA-256."""
    return [
        {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256_of_file(path)}
        for path in corpus_files(sources)
    ]


def _ending(path: Path) -> str:
    """The ending that says what a file is, in small letters and without that of a compression."""
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in _COMPRESSIONS:
        endings.pop()
    return endings[-1] if endings and endings[-1] in _BUILDERS else ""


@lru_cache(maxsize=4)
def _prepared(tables: tuple[str, ...]) -> Any:
    """The rows of Arrow files, mapped into memory; once in each process."""
    datasets = _library()
    return datasets.concatenate_datasets([datasets.Dataset.from_file(table) for table in tables])


@lru_cache(maxsize=4)
def _streamed(part: CorpusPart) -> Any:
    return part.load(stream=True)


def _library() -> Any:
    """The module `datasets`; `CorpusError` where it is not installed."""
    try:
        import datasets
    except ImportError as error:
        raise CorpusError("texts are read by datasets; pip install 'lnattn[text]'.") from error
    # It would tell the hub of every file that is read, a request each, and a wait without network.
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
    # What its readers log before they raise is what we say.
    logging.getLogger("datasets.packaged_modules").setLevel(logging.CRITICAL)
    return datasets


@contextlib.contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Without bars and remarks of the library: what matters is said in our own words."""
    bars = datasets.are_progress_bars_disabled()
    level = datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        datasets.logging.set_verbosity(level)
        if not bars:
            datasets.enable_progress_bars()


@contextlib.contextmanager
def _errors(name: str, mend: str, files: Sequence[str] = ()) -> Iterator[None]:
    """What `datasets`, its client and Arrow raise, as a `CorpusError` of one sentence."""
    try:
        yield
    except CorpusError:
        raise
    except HubError as error:  # a sentence already
        raise CorpusError(str(error)) from error
    except Exception as error:  # half a dozen libraries, each with errors of its own
        if place := _unusable_cache(error, files):
            raise CorpusError(
                f"the library datasets cannot keep or lock what it reads of {name} ({place}); set "
                "HF_HOME to a folder where files can be written and locked."
            ) from error
        where = _first_bad_line(files) or name
        raise CorpusError(f"{where} cannot be read ({one_line(_cause(error))}); {mend}.") from error


#: What an operating system says of a folder that cannot be written, locked or filled.
_NO_PLACE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOENT, errno.ENOTDIR),
}


def _unusable_cache(error: BaseException, files: Sequence[str]) -> str:
    """What is wrong with the place where files are kept, if that is what is wrong; or ''."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, NotImplementedError) and "flock" in str(chain):
            return "it has no file locks"
        named = str(getattr(chain, "filename", None) or "")
        if isinstance(chain, OSError) and chain.errno in _NO_PLACE and named not in files:
            return one_line(f"{named} {chain.strerror}".strip())
        chain = chain.__cause__ or chain.__context__
    return ""


def _first_bad_line(files: Sequence[str]) -> str:
    """Where the first line of a .jsonl file is that is no JSON, if that is what is wrong."""
    for path in map(Path, files):
        if path.suffix.lower() not in (".jsonl", ".ndjson"):
            continue
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    # A lone surrogate can be read, but it is no character that could be written.
                    json.dumps(json.loads(line.strip() or b"0"), ensure_ascii=False).encode()
                except (ValueError, RecursionError):
                    return f"{path.name}, line {number}"
    return ""


def _cause(error: BaseException) -> str:
    """The message of the first error of a chain: `datasets` wraps what says what is wrong."""
    while error.__cause__ is not None:
        if isinstance(error, RevisionNotFoundError):
            return "it has no such revision"
        if isinstance(error, RepositoryNotFoundError):
            return "there is no such data set, or it asks for a login"
        error = error.__cause__
    return f"{type(error).__name__}: {error}"
