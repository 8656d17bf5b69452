"""Results of expensive studies, kept on disk so that each of them is computed once.

A kept result belongs to the study's parameters and to what went into it (checksums of weights, of
counts, of texts), and also to the code of this package and the versions of what computes: change
any of them and the study runs again. Two processes that want the same result do not both compute
it; the second waits for the first.

Results lie in LNATTN_STUDIES (default: `studies` in the package's cache folder), a folder each.
Deleting them costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from lnattn.errors import ResultError
from lnattn.paths import cache_folder
from lnattn.progress import say
from lnattn.storage import package_versions, sha256_of_file, write_json

R = TypeVar("R")
#: Results that nobody has asked for in so many days are deleted.
DAYS = 60
#: Parts of the package that show results and compute none.
_SHOWING = frozenset({"book", "cli.py", "commands", "__main__.py"})
_ANEW: ContextVar[bool] = ContextVar("computing anew", default=False)
_COMPUTING = ("torch", "numpy", "numba", "scipy", "transformers")


def studies_folder() -> Path:
    """Where results are kept."""
    if chosen := os.environ.get("LNATTN_STUDIES"):
        return Path(chosen)
    return cache_folder() / "studies"


def kept(
    study: str,
    key: Mapping[str, Any],
    compute: Callable[[], R],
    write: Callable[[R, Path], object],
    read: Callable[[Path], R],
) -> R:
    """What `compute` returns: read from disk if it was kept under this key, else computed and kept.

    study: a name, also that of the folder; key: what the result depends on besides the code, as
    JSON can hold it; a key with an unknown part (a value None) is no key, and nothing is kept.
    write, read: to a folder and back; `read` raises `ResultError` for a damaged result, which is
    then computed again. A folder that cannot be written costs a line and not the result.
    """
    if _ANEW.get() or any(value is None for value in key.values()):
        return compute()
    facts = {"study": study, **key, "code": code_digest()}
    place = studies_folder() / f"{study}-{_digest(facts)}"
    with _turn(place, study):
        if place.is_dir():
            try:
                result = read(place)
            except ResultError as error:
                say(f"{study} is computed again: {error}")
            else:
                with contextlib.suppress(OSError):  # a cache that others own: its age is theirs
                    os.utime(place)
                return result
        result = compute()
        try:
            _put(place, facts, lambda folder: write(result, folder))
            _clear(place.parent)
        except OSError as error:
            say(f"the result of {study} is not kept for other chapters: {error}")
        return result


@contextlib.contextmanager
def computing_anew() -> Iterator[None]:
    """Inside, every study is computed, whatever was kept, and nothing is kept: to verify one."""
    token = _ANEW.set(True)
    try:
        yield
    finally:
        _ANEW.reset(token)


def forget() -> None:
    """Delete all kept results, so that every study is computed again."""
    shutil.rmtree(studies_folder(), ignore_errors=True)


@functools.cache
def code_digest() -> str:
    """Digest of this package's source, less what only shows results, and of what it computes with.

    That is more than any single study uses, so some results are computed again without need, but
    none is ever that of other code.
    """
    package = Path(__file__).parent
    files = sorted(
        path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in _SHOWING
    )
    source = {str(path.relative_to(package)): sha256_of_file(path) for path in files}
    return _digest({"source": source, "versions": package_versions(*_COMPUTING)})


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


@contextlib.contextmanager
def _turn(place: Path, study: str) -> Iterator[None]:
    """Wait for other processes that compute the same; where no lock can be made, go on at once."""
    lock = FileLock(place.with_name(f".{place.name}.lock"))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        say(f"another process is computing {study}; waiting for its result")
        lock.acquire()
    except OSError:
        pass  # the result cannot be written either, which is said then
    try:
        yield
    finally:
        lock.release()


def _put(place: Path, facts: Mapping[str, Any], write: Callable[[Path], object]) -> None:
    """Fill a temporary folder and rename it to `place`, in place of what is there."""
    fresh = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
    try:
        write(fresh)
        write_json(fresh / "key.json", facts)
        shutil.rmtree(place, ignore_errors=True)
        fresh.rename(place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Delete what was not asked for in a long time, and locks and rests of runs that were cut."""
    old = time.time() - DAYS * 86400
    for path in folder.iterdir():
        if path.stat().st_mtime < old:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
