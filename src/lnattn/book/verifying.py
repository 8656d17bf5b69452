"""Verifying frozen studies: each is computed again and compared with what is on disk.

What differs by more than the tolerances is told in words.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lnattn.book.freezing import STUDIES, TOLERANCE, known, writer
from lnattn.book.printed import differences_from_printed
from lnattn.claims.verdicts import NOT_COMPUTABLE
from lnattn.errors import ResultError
from lnattn.kept import computing_anew
from lnattn.models.checkpoints import load_first_layer
from lnattn.storage import read_result

#: Share of the entries of an array of integers that may differ: ties may fall either way.
TIES = 1e-3

Result = tuple[Mapping[str, np.ndarray], Mapping[str, Any]]


@dataclass(frozen=True)
class Comparison:
    """One frozen study beside a new computation; `differences` is empty where they agree.

    not_compared: why there was no comparison, or ''.
    """

    study: str
    differences: tuple[str, ...]
    not_compared: str = ""

    @property
    def agrees(self) -> bool:
        return not self.differences


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
    present = [name for name in STUDIES if (folder / f"{name}.json").is_file()]
    names = known(only or present)
    if not names:
        raise ResultError(f"{folder} holds no frozen study; make one with `lnattn freeze`.")
    whole = not load_first_layer(model).is_partial
    for name in names:
        frozen = read_result(folder, name)
        if whole and _of_a_part(frozen[1]):
            yield Comparison(
                name, (), "frozen from weights without tokens, which gave fewer claims"
            )
            continue
        if STUDIES[name].relative and "counts_sha256" in frozen[1] and not counts:
            why = "read, but not computed again: its counts were not given (--counts)"
            yield Comparison(name, (), why)
            continue
        with tempfile.TemporaryDirectory() as place, computing_anew():
            writer(name, counts)(model, Path(place))
            anew = read_result(place, name)
        yield Comparison(name, tuple(_differences(frozen, anew, STUDIES[name].tolerance)))


def verify_printed(model: str) -> Iterator[Comparison]:
    """The scores that the paper's authors printed; nothing for a model without embeddings."""
    first = load_first_layer(model)
    if not first.is_partial:
        yield Comparison("printed by the authors", tuple(differences_from_printed(first)))


def _differences(frozen: Result, anew: Result, tolerance: float) -> Iterator[str]:
    before, after = _weights(frozen[1]), _weights(anew[1])
    if before != after and _what_was_read(frozen[1]) == _what_was_read(anew[1]):
        yield f"made from other weights: {before}, now {after}"
    for name in sorted(frozen[0].keys() | anew[0].keys()):
        if name not in frozen[0] or name not in anew[0]:
            yield f"{name} is only in the {'frozen' if name in frozen[0] else 'new'} result"
        else:
            yield from compare_arrays(name, frozen[0][name], anew[0][name], tolerance)
    for old, new in zip(frozen[1].get("verdicts", []), anew[1].get("verdicts", []), strict=False):
        if old["verdict"] != new["verdict"]:
            yield f"{old['claim']}: {old['verdict']!r} when frozen, {new['verdict']!r} now"


def compare_arrays(
    name: str, frozen: np.ndarray, anew: np.ndarray, tolerance: float = TOLERANCE
) -> Iterator[str]:
    """What differs beyond the tolerances, in words; nothing where two arrays agree."""
    if frozen.shape != anew.shape:
        yield f"{name} has shape {list(frozen.shape)} when frozen, {list(anew.shape)} now"
    elif not frozen.size:
        return
    elif frozen.dtype.kind not in "fc":
        share = float((frozen != anew).mean())
        if share > TIES:
            yield f"{name}: {share:.2%} of its entries differ"
    elif not np.array_equal(np.isfinite(frozen), np.isfinite(anew)):
        yield f"{name} is undefined or infinite at other places than when it was frozen"
    else:
        finite = np.isfinite(frozen)
        gap = np.abs(frozen[finite] - anew[finite]).max(initial=0)
        scale = np.abs(frozen[finite]).max(initial=0)
        if gap > tolerance * scale:
            yield f"{name} differs by up to {gap:.3g}, where its largest value is {scale:.3g}"


def _weights(record: Mapping[str, Any]) -> Any:
    """The checksum of the weights a record names, wherever the study keeps it."""
    return _entry(record, "weights_sha256", "file_sha256")


def _what_was_read(record: Mapping[str, Any]) -> Any:
    """Names of the tensors, or of the files, that a checksum of weights is over.

    A checkpoint without token embeddings and a complete one have different checksums, whatever
    they share; then the arrays alone tell.
    """
    return _entry(record, "tensors") or sorted(_entry(record, "file_sha256") or ())


def _of_a_part(record: Mapping[str, Any]) -> bool:
    """Whether a survey was made of a checkpoint without token embeddings."""
    return any(one["verdict"] == NOT_COMPUTABLE for one in record.get("verdicts", ()))


def _entry(record: Mapping[str, Any], *keys: str) -> Any:
    places = (record, record.get("model"), record.get("source"))
    found = [p[key] for p in places if isinstance(p, Mapping) for key in keys if p.get(key)]
    return found[0] if found else None
