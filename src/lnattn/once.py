"""Studies that a machine computes once, and reads from the user's cache from then on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from lnattn.errors import ResultError
from lnattn.paths import cache_folder
from lnattn.progress import say
from lnattn.storage import Result, package_versions, read_json, sha256_of_file

R = TypeVar("R", bound=Result)
_RECOMPUTE: ContextVar[bool] = ContextVar("recompute", default=False)


def computed_once(kind: type[R], model: str, key: Mapping[str, Any], compute: Callable[[], R]) -> R:
    """What `compute` returns, read from the user's cache where it was frozen before.

    It lies there as in data/results, in a folder of the model's short name. key: what it depends on
    besides the code of this package, as JSON can hold it; with an unknown part (None), or inside
    `recomputing`, it is computed here. Two processes do not both compute it: the second waits. A
    cache that cannot be written costs a line and not the result.
    """
    if _RECOMPUTE.get() or any(value is None for value in key.values()):
        return compute()
    folder, facts = studies_folder() / Path(model).name, _digest({**key, "code": _code_digest()})
    lock: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if os.access(folder.parent, os.W_OK):
            lock = FileLock(folder.with_name(f".{folder.name}.lock"))
            try:
                lock.acquire(timeout=0)
                lock.release()
            except Timeout:
                say(f"another process is computing {kind.NAME} of {folder.name}; waiting for it")
    with lock:
        # Missing, damaged, or of an older form: computed again, and written over.
        with contextlib.suppress(ResultError):
            found = kind.read(folder)
            if found.record.get("key") == facts:
                return found
        result = compute()
        result = replace(result, record={**result.record, "key": facts})
        try:
            result.write(folder)
        except OSError as error:
            say(f"the result is not frozen for other chapters: {error}")
        return result


@contextlib.contextmanager
def recomputing() -> Iterator[None]:
    """Inside, `computed_once` computes, whatever is frozen, and freezes nothing: to verify one."""
    token = _RECOMPUTE.set(True)
    try:
        yield
    finally:
        _RECOMPUTE.reset(token)


def studies_folder() -> Path:
    """Where a user's own frozen studies lie: $LNATTN_STUDIES, else in the package's cache."""
    chosen = os.environ.get("LNATTN_STUDIES")
    return Path(chosen) if chosen else cache_folder() / "studies"


def forget_studies() -> None:
    """Delete the studies that `computed_once` has frozen, by name."""
    for path in studies_folder().glob("*/*.json"):
        if "key" in read_json(path):
            path.unlink()
            path.with_suffix(".npz").unlink(missing_ok=True)


@cache
def _code_digest() -> str:
    """Digest of this package's source, and of the versions of what it computes with."""
    package = Path(__file__).parent
    source = {str(p.relative_to(package)): sha256_of_file(p) for p in sorted(package.rglob("*.py"))}
    return _digest({**source, **package_versions("torch", "numpy", "numba", "scipy")})


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
