"""Every file below data/results: its record names its kind and the command that makes it again.

A kind is how a file is read, and whoever freezes one names both (`sign`). To freeze something of a
new kind, enter its reader in `READERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from lnattn.composition import CompositionStudy
from lnattn.contribution.study import Contributions
from lnattn.errors import LnattnError, ResultError
from lnattn.position.without_tokens import PositionOnly
from lnattn.selectability import first_layers
from lnattn.storage import read_json, read_result, write_json
from lnattn_book.claims import survey
from lnattn_book.claims.frozen import frozen_records
from lnattn_book.claims.nulls import read_nulls
from lnattn_book.studies import benchmark_report, language_models, unselectable_words
from lnattn_book.studies.ablation.losses import Ablations
from lnattn_book.studies.by_place import ByPlace
from lnattn_book.studies.detokenization import AffinityResult
from lnattn_book.studies.distance_terms import RotaryStudy
from lnattn_book.studies.guaranteed import Guaranteed
from lnattn_book.studies.joining_runs import JoiningRuns
from lnattn_book.studies.keys_by_layer import LayerVerdicts
from lnattn_book.studies.language_models import LongRuns
from lnattn_book.studies.layers_above import LayersAbove
from lnattn_book.studies.majority.long_runs import Experiment
from lnattn_book.studies.small_models import read_looks
from lnattn_book.studies.unselectable_words import Sentiment

#: By kind, what reads a file by its folder and name; `ResultError` where it is damaged.
READERS: dict[str, Callable[[Path, str], object]] = {
    # Studies of a model.
    PositionOnly.NAME: PositionOnly.read,
    CompositionStudy.NAME: CompositionStudy.read,
    AffinityResult.NAME: AffinityResult.read,
    Contributions.NAME: Contributions.read,
    Ablations.NAME: Ablations.read,
    LayerVerdicts.NAME: LayerVerdicts.read,
    first_layers.POSITIONS: first_layers.HeadShares.read,
    first_layers.TEXT: first_layers.HeadShares.read,
    RotaryStudy.NAME: RotaryStudy.read,
    Guaranteed.NAME: Guaranteed.read,
    ByPlace.NAME: ByPlace.read,
    "survey": survey.read_survey,
    "survey-null": survey.read_survey,
    # What experiments found.
    "arrays": read_result,
    "joining": lambda folder, _: JoiningRuns.read(folder),
    "language-model": language_models.read_arm,
    "layers-above": LayersAbove.read,
    "long-runs": LongRuns.read,
    "looks": read_looks,
    "majority": Experiment.read,
    "sentiment": Sentiment.read,
    "table-1": language_models.read_table_1,
    "words": lambda folder, _: unselectable_words.frozen_words(folder),
    # What pages are checked against.
    "benchmark": lambda folder, name: benchmark_report.read(folder / f"{name}.json"),
    "claims": lambda folder, _: frozen_records(folder),
    "nulls": lambda folder, name: read_nulls(folder / f"{name}.json"),
}


def sign(path: Path, kind: str, command: str) -> Path:
    """Write into a record its kind and the command that makes it again; returns its path."""
    write_json(path, {**read_json(path), "kind": kind, "command": command})
    return path


def read(path: Path) -> None:
    """Read a frozen file by its kind; `ResultError` where it is damaged or misnamed."""
    record = read_json(path)
    reader = READERS.get(record.get("kind", ""))
    if reader is None or "command" not in record:
        raise ResultError(
            f"{path} names no kind that this book freezes, or no command that makes it; delete it."
        )
    reader(path.parent, path.stem)
    words = record["command"].split()
    if "freeze" in words and "--only" in words and path.parent.name not in words:
        raise ResultError(f"{path} names a command that freezes another folder's; move it there.")


def read_all(results: Path) -> Iterator[tuple[Path, str]]:
    """Read every file below data/results; yields each record and what is wrong with it, or ''."""
    for path in sorted(p for p in results.rglob("*") if p.is_file()):
        record = path.with_suffix(".json")
        if path.suffix == ".npz" and record.is_file():
            continue
        try:
            if path.suffix != ".json":
                raise ResultError(f"{path} belongs to no frozen result; move it elsewhere.")
            read(record)
        except LnattnError as error:
            yield path, str(error)
        else:
            yield path, ""
