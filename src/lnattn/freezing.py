"""Freezing studies of a model, and computing them again to compare.

Here are the studies that weights alone suffice for. Others enter their own, such as those that read
texts and counts: see `register_studies`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lnattn.errors import LnattnError, ResultError
from lnattn.models.checkpoints import load_first_layer
from lnattn.paths import data_folder
from lnattn.storage import check_outputs, read_json, read_result, write_json
from lnattn.text.counts import check_count_files
from lnattn.weights import FirstLayer, require_absolute

#: Largest difference of two runs, as a share of the largest value in an array: float32 rounding in
#: other orders of summation.
TOLERANCE = 1e-4
#: Share of an array's entries that may differ, because ties may fall either way: of integers by
#: anything, of other numbers by the study's `max_outlier`.
OUTLIER_SHARE = 1e-3
Frozen = tuple[Mapping[str, np.ndarray], Mapping[str, Any]]


_RECOMPUTING: ContextVar[bool] = ContextVar("recomputing", default=False)


@contextmanager
def recomputing() -> Iterator[None]:
    """Inside, a study is to be computed whatever was kept of it, since a frozen one is verified."""
    token = _RECOMPUTING.set(True)
    try:
        yield
    finally:
        _RECOMPUTING.reset(token)


def is_recomputing() -> bool:
    """Whether a frozen result is being verified, so that no kept one may be read."""
    return _RECOMPUTING.get()


@dataclass(frozen=True)
class Study:
    """A study that can be frozen.

    name: of its two files; write: computes it for a model (anything that `load_first_layer` takes)
    and writes it to a folder; tolerance: by how much two runs may differ, as a share of the largest
    value; max_outlier: by how much the entries of `OUTLIER_SHARE` may; relative: whether it is
    about models with rotary or relative positions, or about the others; None: about both; long: it
    takes hours for a model of GPT-2's size: made only if named; program: whose command `freeze`
    makes it.
    """

    name: str
    write: Callable[..., Path]
    tolerance: float = TOLERANCE
    max_outlier: float = 0.0
    relative: bool | None = False
    long: bool = False
    program: str = "lnattn"


def _position(model: str, folder: Path) -> Path:
    from lnattn.position.without_tokens import position_only

    return position_only(require_absolute(load_first_layer(model))).write(folder)


def _composition(model: str, folder: Path) -> Path:
    from lnattn.composition import study_checkpoint

    return study_checkpoint(model).write(folder)


def _selectable_positions(model: str, folder: Path) -> Path:
    from lnattn.selectability.first_layers import POSITIONS, positions_of

    return positions_of(require_absolute(load_first_layer(model))).write(folder, POSITIONS)


#: Every study that can be frozen, quick ones first, by name.
STUDIES = {
    study.name: study
    for study in (
        Study("position", _position),  # position-only terms of the first layer
        Study("composition", _composition),  # of all layers, raw and folded
        Study("selectability-positions", _selectable_positions),
    )
}

#: Further checks of the results of one name, as (model) -> comparisons.
CHECKS: dict[str, Callable[[str], Iterator[Comparison]]] = {}


def register_studies(
    *entered: Study, checks: Mapping[str, Callable[[str], Iterator[Comparison]]] | None = None
) -> None:
    """Enter studies, and checks of the results of one name, beside those of the package.

    A study takes the place of one with its name. So whoever stands above the package, as a book
    does, has its studies frozen and verified by the same commands, and the package imports nobody.

    >>> register_studies(Study("position", _position))
    """
    STUDIES.update({study.name: study for study in entered})
    CHECKS.update(checks or {})


def studies(names: Sequence[str] | None = None) -> list[Study]:
    """The named studies, or all that are not long; `ResultError` for a name that none has."""
    for name in names or ():
        if name not in STUDIES:
            raise ResultError(f"there is no study {name!r}; there are {', '.join(STUDIES)}.")
    return [STUDIES[name] for name in names or STUDIES if names or not STUDIES[name].long]


def results_folder(name: str) -> Path:
    """Where the frozen results of a model are read, by its short name."""
    return data_folder() / "results" / Path(name).name


def writable_folder(name: str) -> Path:
    """Where those of a clone are written; `ResultError` where the package is an installed one."""
    folder = results_folder(name)
    if folder.is_relative_to(Path(__file__).resolve().parent):
        raise ResultError("an installed package is no place for results; give --out FOLDER.")
    return folder


def summary(folder: Path | str) -> dict[str, str]:
    """Names and dates of the studies frozen in a folder."""
    studies()
    paths = ((name, Path(folder) / f"{name}.json") for name in STUDIES)
    return {k: read_json(path).get("date", "no date") for k, path in paths if path.is_file()}


@dataclass(frozen=True)
class FrozenStudy:
    """A study that was written to `path`, or, where that is None, why the model has none."""

    study: str
    path: Path | None
    why: str = ""


def freeze(
    model: str,
    folder: Path | str,
    only: Sequence[str] | None = None,
    counts: Sequence[Path | str] = (),
) -> Iterator[FrozenStudy]:
    """Compute studies of a model and write them; yields as each is done.

    only: some studies, each of which must succeed; by default all but the long ones, passing over,
    with the reason, what this model does not support. counts: files of pairs 1, 2 and 3 tokens
    apart, for the study of a rotary model. Raises `ResultError` for an unknown study or a file that
    is not written over, and what the loaders raise for a bad model.
    """
    requested_studies = studies(only)
    check_count_files(counts)
    files_read = [Path(path) for path in counts]
    if Path(model).is_dir():
        files_read += Path(model).iterdir()
    for study in requested_studies:
        check_outputs(
            [Path(folder) / f"{study.name}{kind}" for kind in (".npz", ".json")], files_read
        )
    # A model that cannot be read is an error, and no reason to pass over.
    relative = not isinstance(load_first_layer(model), FirstLayer)
    for study in requested_studies:
        try:
            if study.relative not in (None, relative):
                kind = "not added to its input" if relative else "added to its input"
                raise ResultError(f"this model's positions are {kind}.")
            path = _written(study, model, folder, counts)
            name = path.parent.name
            whose = f"MODEL --as {name}" if study.relative else name
            command = f"{study.program} freeze {whose} --only {study.name}"
            if study.relative and counts:
                command += " --counts COUNTS COUNTS_2 COUNTS_3"
            named = {"kind": study.name, "command": command}
            write_json(path, named | read_json(path))
            yield FrozenStudy(study.name, path)
        except LnattnError as error:
            if only:
                raise
            yield FrozenStudy(study.name, None, str(error))


def _written(study: Study, model: str, folder: Path | str, counts: Sequence[Path | str]) -> Path:
    options = {"files": counts} if study.relative else {}
    return study.write(model, Path(folder), **options)


@dataclass(frozen=True)
class Comparison:
    """One frozen study beside a new computation; `differences` is empty where they agree.

    not_compared: why there was no comparison, or ''.
    """

    study: str
    differences: tuple[str, ...]
    not_compared: str = ""


def verify(
    model: str,
    folder: Path | str,
    only: Sequence[str] | None = None,
    counts: Sequence[Path | str] = (),
) -> Iterator[Comparison]:
    """Compute again what is frozen in a folder, and compare; yields as each study is done.

    counts: as for `freeze`; without them a study that was made with such files is read only.
    Raises `ResultError` where nothing is frozen there, or a file is damaged.
    """
    folder = Path(folder)
    check_count_files(counts)
    names = only or list(summary(folder))
    if not names:
        raise ResultError(f"{folder} holds no frozen study; make one with `lnattn freeze`.")
    has_tokens = not load_first_layer(model).is_partial
    for study in studies(names):
        frozen = read_result(folder, study.name)
        verdicts = [claim["verdict"] for claim in frozen[1].get("verdicts", ())]
        if has_tokens and "not computable" in verdicts:
            why = "frozen from weights without tokens, which gave fewer claims"
            yield Comparison(study.name, (), why)
        elif study.relative and "counts_sha256" in frozen[1] and not counts:
            why = "read, but not computed again: its counts were not given (--counts)"
            yield Comparison(study.name, (), why)
        else:
            with tempfile.TemporaryDirectory() as place, recomputing():
                _written(study, model, place, counts)
                again = read_result(place, study.name)
            yield Comparison(study.name, tuple(_differences(frozen, again, study)))
    if not only and folder.name in CHECKS:
        yield from CHECKS[folder.name](model)


def _differences(frozen: Frozen, anew: Frozen, study: Study) -> Iterator[str]:
    for name in sorted(frozen[0].keys() | anew[0].keys()):
        if name not in frozen[0] or name not in anew[0]:
            yield f"{name} is only in the {'frozen' if name in frozen[0] else 'new'} result"
        else:
            yield from compare_arrays(name, frozen[0][name], anew[0][name], study)
    for old, new in zip(frozen[1].get("verdicts", []), anew[1].get("verdicts", []), strict=False):
        if old["verdict"] != new["verdict"]:
            yield f"{old['claim']}: {old['verdict']!r} when frozen, {new['verdict']!r} now"


def compare_arrays(name: str, frozen: np.ndarray, anew: np.ndarray, study: Study) -> Iterator[str]:
    """What differs beyond the tolerances, in words; nothing where two arrays agree."""
    if frozen.shape != anew.shape:
        yield f"{name} has shape {list(frozen.shape)} when frozen, {list(anew.shape)} now"
    elif not frozen.size:
        return
    elif frozen.dtype.kind not in "fc":
        share = float((frozen != anew).mean())
        if share > OUTLIER_SHARE:
            yield f"{name}: {share:.2%} of its entries differ"
    elif not np.array_equal(finite := np.isfinite(frozen), np.isfinite(anew)):
        yield f"{name} is undefined or infinite at other places than when it was frozen"
    else:
        gaps = np.abs(frozen[finite] - anew[finite])
        scale = np.abs(frozen[finite]).max(initial=0)
        gap = gaps.max(initial=0)
        share = float((gaps > study.tolerance * scale).sum() / frozen.size)
        if share > OUTLIER_SHARE or (share and gap > study.max_outlier):
            yield f"{name} differs by up to {gap:.3g}, where its largest value is {scale:.3g}"


def read_all(results: Path | str) -> Iterator[tuple[Path, str, str]]:
    """Read every frozen file below a folder, and compare its arrays with the record's checksum.

    Yields each record, what is wrong with it, or '', and the command that makes it again. Nothing
    is raised for a damaged file.
    """
    for path in sorted(p for p in Path(results).rglob("*") if p.is_file()):
        if path.suffix == ".npz" and path.with_suffix(".json").is_file():
            continue
        try:
            if path.suffix != ".json":
                raise ResultError(f"{path} belongs to no frozen result; move it elsewhere.")
            record = read_json(path)
            if "arrays_sha256" in record:
                read_result(path.parent, path.stem)
            yield path, "", record.get("command", "its record names no command")
        except ResultError as error:
            yield path, str(error), ""
