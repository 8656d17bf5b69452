"""Cutting a corpus into shards that can be counted apart, on any machine, in any order.

Every document belongs to exactly one shard: the one in which it begins. Where a cut falls inside
a document, the shard before it reads on to the document's end, and the shard after it skips ahead
to the next beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from lnattn.errors import CorpusError
from lnattn.text.corpora import (
    HUB_CORPORA,
    JSON_LINES,
    HubCorpus,
    hub_part_documents,
    hub_parts,
    open_parquet,
    parquet_documents,
    parse_line,
    read_documents,
)

#: Bytes of text in a shard: a few seconds of work, and some ten million tokens.
LARGEST_SHARD = 64 << 20
SMALLEST_SHARD = 1 << 20


@dataclass(frozen=True)
class Shard:
    """A part of one source. It can be pickled, and its documents are the same wherever it is read.

    start, stop: bytes of a .jsonl file, row groups of a .parquet file, or files of a hub dataset;
    weight: its size in bytes, 1 for a hub file.
    """

    index: int
    kind: Literal["lines", "text", "parquet", "hub"]
    source: str | HubCorpus
    start: int
    stop: int
    weight: int

    def documents(self) -> Iterator[str]:
        """The shard's documents, in order, without the blank ones.

        Raises `CorpusError` for a missing or damaged file, or a hub that cannot be read.
        """
        reader = {"lines": _lines, "text": _text, "parquet": _parquet, "hub": _hub}[self.kind]
        return (document for document in reader(self) if document and not document.isspace())


def plan_shards(sources: Sequence[str | Path], shard_bytes: int | None = None) -> list[Shard]:
    """Cut sources (as for `read_documents`) into shards of about `shard_bytes` of text.

    The default makes some 64 shards of a corpus, none smaller than 1 MiB or larger than 64 MiB. The
    cuts depend on the files alone, so that an interrupted count finds the same shards again.
    """
    if not sources:
        raise CorpusError("no corpus was given; name files or a hub corpus.")
    paths = [Path(source) for source in sources if str(source) not in HUB_CORPORA]
    for path in paths:
        if not path.is_file():
            raise CorpusError(
                f"there is no corpus file {path}; give a .jsonl, .parquet or .txt file, or one of: "
                f"{', '.join(HUB_CORPORA)}."
            )
    if shard_bytes is None:
        total = sum(path.stat().st_size for path in paths)
        shard_bytes = min(max(total // 64, SMALLEST_SHARD), LARGEST_SHARD)
    shards: list[Shard] = []
    for source in sources:
        for part in _parts(str(source), shard_bytes):
            shards.append(Shard(index=len(shards), **part))
    return shards


def _parts(source: str, shard_bytes: int) -> Iterator[dict[str, Any]]:
    if source in HUB_CORPORA:
        corpus = HUB_CORPORA[source]
        for i in range(hub_parts(corpus)):
            yield _part("hub", corpus, i, i + 1, 1)
        return
    path = Path(source)
    source = str(path.resolve())
    if path.suffix in JSON_LINES:
        size = path.stat().st_size
        # Equal parts, so that the last one is no tiny rest.
        parts = max(1, round(size / shard_bytes))
        cuts = [size * i // parts for i in range(parts + 1)]
        for start, stop in pairwise(cuts):
            yield _part("lines", source, start, stop, stop - start)
    elif path.suffix == ".parquet":
        yield from _row_groups(source, shard_bytes)
    else:
        yield _part("text", source, 0, 1, path.stat().st_size)


def _part(kind: str, source: str | HubCorpus, start: int, stop: int, weight: int) -> dict[str, Any]:
    return {"kind": kind, "source": source, "start": start, "stop": stop, "weight": weight}


def _row_groups(source: str, shard_bytes: int) -> Iterator[dict[str, Any]]:
    """Neighbouring row groups until they hold `shard_bytes`; a row group is never cut."""
    metadata = open_parquet(Path(source)).metadata
    start, weight = 0, 0
    for group in range(metadata.num_row_groups):
        weight += metadata.row_group(group).total_byte_size
        if weight >= shard_bytes or group + 1 == metadata.num_row_groups:
            yield _part("parquet", source, start, group + 1, weight)
            start, weight = group + 1, 0


def _lines(shard: Shard) -> Iterator[str]:
    path = Path(str(shard.source))
    with path.open("rb") as file:
        if shard.start:
            # The line that holds the byte before the cut belongs to the shard before.
            file.seek(shard.start - 1)
            file.readline()
        position = file.tell()
        while position < shard.stop and (line := file.readline()):
            if not line.isspace():
                yield parse_line(line, path, "the line at byte", position)
            position += len(line)


def _text(shard: Shard) -> Iterator[str]:
    return read_documents([str(shard.source)])


def _parquet(shard: Shard) -> Iterator[str]:
    return parquet_documents(Path(str(shard.source)), range(shard.start, shard.stop))


def _hub(shard: Shard) -> Iterator[str]:
    corpus = shard.source
    if not isinstance(corpus, HubCorpus):
        raise CorpusError(f"shard {shard.index} names no hub corpus but {corpus!r}.")
    return hub_part_documents(corpus, shard.start)
