"""Studies that a machine computes once for all chapters, and keeps in the user's cache.

They lie there as frozen results do, arrays in .npz and a record in .json, so that nothing that
lies in a cache can run as code: that is why this is no `joblib.Memory`, whose entries are pickles.
(Nor does its key know of the source of the package, or of the versions of what it computes with.)
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

import lnattn
from lnattn.errors import ResultError
from lnattn.freezing import is_recomputing
from lnattn.paths import cache_folder
from lnattn.progress import say
from lnattn.storage import Result, package_versions, read_result, sha256_of_file

R = TypeVar("R", bound=Result)
#: Hexadecimal digits of a key (SHA-256).
_DIGITS = 64
#: What decides a study besides the source of the package: its tokens are these libraries', too.
_COMPUTES_WITH = ("torch", "numpy", "numba", "scipy", "tokenizers", "transformers")


def cached_study(kind: type[R], model: str, key: Mapping[str, Any], compute: Callable[[], R]) -> R:
    """What `compute` returns, read from the user's cache where it was frozen before.

    It lies in a folder of the model's short name. key: what it depends on besides the code of the
    package, as JSON can hold it; with an unknown part (None), or while a frozen result is verified,
    it is computed here. Two processes do not both compute it: the second waits. A cache that is
    damaged, of somebody else, or cannot be written costs a line, and never the result.
    """
    if is_recomputing() or any(value is None for value in key.values()):
        return compute()
    folder = studies_folder() / Path(model).name
    facts = _digest({**key, "code": _code_digest()})
    with _locked(folder, kind.NAME):
        cached = _kept(kind, folder)
        if cached is not None and cached.record.get("key") == facts:
            return cached
        study = compute()
        labelled = replace(study, record={**study.record, "key": facts, "kept_as": kind.NAME})
        try:
            _check_place(folder, kind.NAME)
            labelled.write(folder)
        except (ResultError, OSError) as error:  # also a link to itself
            say(f"the result is not kept for other chapters: {error}")
        return labelled


@contextlib.contextmanager
def _locked(folder: Path, what: str) -> Iterator[None]:
    """The model's studies for this process alone; where no lock can be had, without one."""
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another process is computing {what} of {folder.name}; waiting for it")
            lock.acquire()
    except OSError as error:
        say(f"studies of {folder.name} are computed without a lock: {error}")
    try:
        yield
    finally:
        lock.release()


def _kept(kind: type[R], folder: Path) -> R | None:
    """The study that was kept, whatever it is of; None if there is none that can be read."""
    try:
        # `lexists` sees also a link that leads nowhere, and a folder in the place of the file.
        return kind.read(folder) if os.path.lexists(folder / f"{kind.NAME}.json") else None
    except (ResultError, OSError) as error:
        say(f"the kept study cannot be used, and is computed again: {error}")
        return None


def _check_place(folder: Path, name: str) -> None:
    """`ResultError` where something lies that is not this cache's, in a folder of the user's own.

    In the package's own cache all is the package's, also what is damaged.
    """
    taken = [path for path in _pair(folder, name) if os.path.lexists(path)]
    if taken and "LNATTN_STUDIES" in os.environ and not _is_ours(folder, name):
        raise ResultError(f"{taken[0]} is no study that was kept here before; move it elsewhere.")


def _pair(folder: Path, name: str) -> tuple[Path, Path]:
    """The record and the arrays of a study."""
    return folder / f"{name}.json", folder / f"{name}.npz"


def studies_folder() -> Path:
    """Where a user's own frozen studies lie: $LNATTN_STUDIES, else in the package's cache."""
    chosen = os.environ.get("LNATTN_STUDIES")
    return Path(chosen) if chosen else cache_folder() / "studies"


def forget_studies() -> None:
    """Delete the studies that `cached_study` has kept, and nothing else.

    A damaged one may be somebody's who uses the same name; it is not used, so it can stay.
    """
    for record in studies_folder().glob("*/*.json"):
        if _is_ours(record.parent, record.stem):
            for path in _pair(record.parent, record.stem):
                with contextlib.suppress(OSError):  # of somebody else, or a second process's
                    path.unlink()


def _is_ours(folder: Path, name: str) -> bool:
    """Whether a study is one that `cached_study` wrote: its own name, its key, its arrays."""
    try:
        _, record = read_result(folder, name)
    except (ResultError, OSError):
        return False
    key = record.get("key")
    return record.get("kept_as") == name and isinstance(key, str) and len(key) == _DIGITS


@cache
def _code_digest() -> str:
    """Digest of the package's source, and of the versions of what it computes with."""
    package = Path(lnattn.__file__).parent
    source = {str(p.relative_to(package)): sha256_of_file(p) for p in sorted(package.rglob("*.py"))}
    return _digest({**source, **package_versions(*_COMPUTES_WITH)})


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
