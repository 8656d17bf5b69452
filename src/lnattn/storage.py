"""Writing files so that an interruption never leaves half of one, and frozen results.

A *frozen result* is a pair of files, `NAME.npz` (arrays) and `NAME.json` (a record: what was
computed, by what, from what, and when), which names the SHA-256 of the arrays.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TypeVar, get_type_hints

import numpy as np
from jaxtyping import jaxtyped

from lnattn.errors import ResultError, ShapeError, one_line
from lnattn.json_files import read_json as read_json

_CHUNK = 1 << 20
#: NumPy's letters for what an array of a result may hold: truth values, numbers and text.
_KINDS = "biufcUS"
R = TypeVar("R", bound="Result")


def write_atomically(path: Path | str, write: Callable[[BinaryIO], object]) -> Path:
    """Call `write(file)` on a temporary neighbour of `path`, then rename it into place.

    Readers see the old file or the new one, never a part. If `write` raises (a full disk, an
    interrupt), the temporary file is removed and the old file is untouched. A link stays a link:
    what it leads to is written. Others may read the file as far as the user's umask lets them.
    Raises `ResultError` for a link that leads back to itself.
    """
    path = Path(path)
    target = real_path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    file = _new_neighbour(target)
    temporary = Path(file.name)
    try:
        with file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def real_path(path: Path | str) -> Path:
    """The absolute path without links; `ResultError` where a link leads back to itself."""
    path = Path(path)
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ResultError(f"{path} is a link to itself; delete it, or give another.") from error
    return path.resolve()


def _new_neighbour(path: Path) -> BinaryIO:
    """A new file in the same folder, open for writing, with a name that nobody has."""
    while True:
        with contextlib.suppress(FileExistsError):
            # Made by `open`, and not by `mkstemp`, it has the permissions that the umask leaves.
            return path.with_name(f".{path.name}.{secrets.token_hex(4)}").open("xb")


def check_outputs(outputs: Iterable[Path | str], inputs: Iterable[Path | str] = ()) -> None:
    """Refuse outputs that a command must not write; every command asks before it reads anything.

    An output may be new, or a result of this package that is made again. Raises `ResultError` where
    it is one of the inputs, a folder, or of something else.
    """
    sources = [Path(path) for path in inputs]
    for path in map(Path, outputs):
        target = real_path(path)
        exists = target.exists()
        if any(
            target == real_path(source) or (exists and source.exists() and target.samefile(source))
            for source in sources
        ):
            raise ResultError(f"{path} is read, and would be written over; give another --out.")
        if exists and not (path.is_file() and _is_own(path)):
            raise ResultError(f"{path} is there and is no result of lnattn; give another --out.")


def _is_own(path: Path) -> bool:
    """Whether a file, or the record beside it, is one that this package writes."""
    try:
        record = read_json(path.with_suffix(".json"))
    except (ResultError, OSError):
        return False
    is_record = isinstance(record, dict) and isinstance(record.get("versions", {}), dict)
    return is_record and ("arrays_sha256" in record or "lnattn" in record.get("versions", {}))


def write_json(path: Path | str, record: Mapping[str, Any]) -> Path:
    """Write a mapping as indented UTF-8 JSON, atomically, keys in the order given."""
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return write_atomically(path, lambda file: file.write(text.encode()))


def sha256_of_file(path: Path | str) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sha256_of_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, dtypes, shapes and values; independent of zip time stamps.

    Raises `ResultError` for arrays of other things than numbers and text.
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        if array.dtype.kind not in _KINDS:
            raise ResultError(f"array {name!r} is of type {array.dtype}; numbers or text are kept.")
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def package_versions(*names: str) -> dict[str, str]:
    """Installed versions of the named distributions; 'absent' where one is not installed."""
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    return versions


def provenance(**facts: Any) -> dict[str, Any]:
    """A record of what made a result: the given facts, then versions, platform and date (UTC)."""
    return {
        **facts,
        "versions": {
            "python": platform.python_version(),
            **package_versions("lnattn", "torch", "transformers", "numpy", "numba"),
        },
        "machine": f"{platform.machine()}, {os.cpu_count()} logical cores",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def write_result(
    folder: Path | str, name: str, arrays: Mapping[str, np.ndarray], record: Mapping[str, Any]
) -> Path:
    """Freeze `arrays` and their `record` as `folder/name.npz` and `folder/name.json`.

    The record goes first: a run stopped between the two is then reported by `read_result`. Raises
    `ResultError` for arrays of Python objects.
    """
    for key, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise ResultError(f"array {key!r} of result {name!r} holds Python objects; use text.")
    folder = Path(folder)
    plain: dict[str, Any] = {key: np.asarray(array) for key, array in arrays.items()}
    described = {**record, "arrays_sha256": sha256_of_arrays(plain)}
    path = write_json(folder / f"{name}.json", described)
    write_atomically(folder / f"{name}.npz", lambda file: np.savez_compressed(file, **plain))
    return path


def read_result(folder: Path | str, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a frozen result and check that its arrays are the ones its record describes.

    Raises `ResultError` where one of the two files is missing or damaged, or they do not belong
    together.
    """
    folder = Path(folder)
    record = read_json(folder / f"{name}.json")
    path = folder / f"{name}.npz"
    arrays = read_arrays(path)
    if sha256_of_arrays(arrays) != record.get("arrays_sha256"):
        raise ResultError(f"{path} does not match the checksum in {name}.json; recompute it.")
    return arrays, record


def read_arrays(path: Path | str) -> dict[str, np.ndarray]:
    """The arrays of an npz; `ResultError` if it is missing or damaged, or holds Python objects."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except FileNotFoundError as error:
        raise ResultError(f"{path} does not exist; compute it first.") from error
    except Exception as error:  # a damaged zip raises half a dozen unrelated types
        reason = one_line(error)
        raise ResultError(f"{path} cannot be read ({reason}); delete it and recompute.") from error


def read_array(path: Path | str) -> np.ndarray:
    """The array of a .npy file; `ResultError` if it is missing, damaged, or too large to hold."""
    try:
        with Path(path).open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except FileNotFoundError as error:
        raise ResultError(f"{path} does not exist; give a .npy file.") from error
    except Exception as error:  # also `TokenError` and `MemoryError`
        raise ResultError(
            f"{path} is no .npy file of numbers ({one_line(error)}); save an array with np.save."
        ) from error


class Result:
    """What a study found, that can be frozen: a dataclass with a field `record`, what made it.

    Its other fields are its arrays, unless a study tells otherwise in `arrays` and `restored`.
    """

    #: The name of the two files, unless one is given.
    NAME: ClassVar[str] = ""
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    record: Mapping[str, Any]

    def arrays(self) -> dict[str, np.ndarray]:
        """What goes into the npz, by name."""
        names = [item.name for item in fields(self) if item.name != "record"]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def restored(cls: type[R], arrays: dict[str, np.ndarray], record: dict[str, Any]) -> R:
        """The result that `arrays` took apart; any exception says that it is another one."""
        make: Callable[..., R] = cls
        return make(**arrays, record=record)

    def write(self, folder: Path | str, name: str = "") -> Path:
        """Freeze as folder/name.npz and folder/name.json; returns the path of the record."""
        return write_result(folder, name or self.NAME, self.arrays(), self.record)

    @classmethod
    def read(cls: type[R], folder: Path | str, name: str = "") -> R:
        """Read a frozen result; `ResultError` if it is missing, damaged, or another one."""
        name = name or cls.NAME
        arrays, record = read_result(folder, name)
        try:
            result = cls.restored(arrays, record)
            check_shapes(result)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ResultError(
                f"{Path(folder) / name}.npz is no frozen {cls.__name__} ({one_line(error)}); "
                "compute it again."
            ) from error
        return result


def check_shapes(result: Any) -> None:
    """`ShapeError` where an array of a dataclass is not what its annotation says.

    An axis name in several annotations is one number: `Float[np.ndarray, "n window"]` beside
    `Int[np.ndarray, "n"]`.
    """
    hints = get_type_hints(type(result))
    with jaxtyped("context"):
        for item in fields(result):
            hint = hints[item.name]
            value = getattr(result, item.name)
            if isinstance(value, np.ndarray) and not isinstance(value, hint):
                actual = f"{value.dtype} {list(value.shape)}"
                raise ShapeError(f"{item.name} is {actual}, where {item.type} is meant")
