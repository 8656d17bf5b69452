"""Frozen results survive interruptions and notice when their two files disagree."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import time
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from jaxtyping import Float, Int
from naming import naming

from lnattn.errors import ResultError
from lnattn.storage import (
    Result,
    check_outputs,
    package_versions,
    provenance,
    read_array,
    read_json,
    read_result,
    sha256_of_arrays,
    sha256_of_file,
    write_atomically,
    write_json,
    write_result,
)

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "names": np.array(["x", "Ġy"])}


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = write_json(tmp_path / "r.json", {"version": 1})

    def write_half_and_die(file):
        file.write(b'{"version": ')
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, write_half_and_die)
    assert read_json(path) == {"version": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_arrays_that_do_not_match_their_record_are_refused(tmp_path):
    write_result(tmp_path, "study", ARRAYS, {})
    other = {**ARRAYS, "a": ARRAYS["a"] + 1e-9}
    write_atomically(tmp_path / "study.npz", lambda f: np.savez_compressed(f, **other))
    with pytest.raises(ResultError, match=naming("study.npz", "checksum")):
        read_result(tmp_path, "study")


def test_missing_and_damaged_files_are_one_sentence(tmp_path):
    with pytest.raises(ResultError, match=naming("study.json", "exist")):
        read_result(tmp_path, "study")
    write_result(tmp_path, "study", ARRAYS, {})
    whole = (tmp_path / "study.npz").read_bytes()
    (tmp_path / "study.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ResultError, match=naming("study.npz", "read")):
        read_result(tmp_path, "study")
    (tmp_path / "study.npz").unlink()
    with pytest.raises(ResultError, match=naming("study.npz", "exist")):
        read_result(tmp_path, "study")
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(ResultError, match=naming("study.json", "JSON")):
        read_result(tmp_path, "study")


def test_python_objects_are_never_stored(tmp_path):
    with pytest.raises(ResultError, match="Python objects"):
        write_result(tmp_path, "study", {"o": np.array([{}], dtype=object)}, {})
    assert not list(tmp_path.iterdir())


def test_a_checksum_of_arrays_is_of_names_types_shapes_and_values_in_order_of_the_names():
    """Written here: frozen records of years ago are compared with it."""
    b = np.array([[1, 2, 3]], dtype=np.int32)
    expected = hashlib.sha256()
    expected.update(b"a:<f8:(2,)" + np.array([0.5, -1.0]).tobytes())
    expected.update(b"b:<i4:(1, 3)" + b.tobytes())
    assert sha256_of_arrays({"b": b, "a": np.array([0.5, -1.0])}) == expected.hexdigest()
    # Of a view of every other column, or a matrix by columns, its values count as they are read.
    wide = np.array([[1, 0, 2, 0, 3, 0]], dtype=np.int32)
    assert sha256_of_arrays({"b": wide[:, ::2]}) == sha256_of_arrays({"b": b})
    assert sha256_of_arrays({"b": b}) != sha256_of_arrays({"c": b})


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_a_record_has_the_day_of_greenwich(zone, monkeypatch):
    """One of the two zones always has another day: they are 25 hours apart."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        before = datetime.now(UTC).strftime("%Y-%m-%d")
        record = provenance()
        after = datetime.now(UTC).strftime("%Y-%m-%d")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert record["date"] in (before, after)
    assert record["machine"] == f"{platform.machine()}, {os.cpu_count()} logical cores"


def test_file_checksum(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * (3 << 20))
    assert sha256_of_file(path) == hashlib.sha256(b"x" * (3 << 20)).hexdigest()


def test_nan_is_refused_in_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "r.json", {"x": float("nan")})


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_that_the_umask_leaves(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        path = write_json(tmp_path / "r.json", {})
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode


def test_a_file_system_that_refuses_chmod_is_written(tmp_path, monkeypatch):
    def refuse(*_args, **_options):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    for module, name in ((os, "chmod"), (os, "fchmod"), (Path, "chmod")):
        monkeypatch.setattr(module, name, refuse)
    assert read_json(write_json(tmp_path / "r.json", {"x": 1})) == {"x": 1}


def test_a_link_is_written_through_and_a_loop_is_a_sentence(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "target.json")
    write_json(tmp_path / "link.json", {"x": 1})
    assert (tmp_path / "link.json").is_symlink()
    assert read_json(tmp_path / "target.json") == {"x": 1}
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (loop, loop / "r.json"):
        with pytest.raises(ResultError, match=naming("loop", "itself")):
            write_json(path, {})
        for outputs, inputs in (([path], []), ([tmp_path / "new.json"], [path])):
            with pytest.raises(ResultError, match=naming("loop", "itself")):
                check_outputs(outputs, inputs)


def test_outputs_are_new_or_our_own(tmp_path):
    """Our own: with a checksum, or with our version among others, or both."""
    mine = tmp_path / "notes.json"
    mine.write_text('{"my": "own"}')
    with pytest.raises(ResultError, match=naming("notes.json", "lnattn")):
        check_outputs([mine])
    for record in (
        '{"arrays_sha256": "ab"}',  # as `Counts.save` writes it where there is no record
        '{"versions": {"lnattn": "0"}}',
        '{"versions": {}, "arrays_sha256": "ab"}',
    ):
        mine.write_text(record)
        check_outputs([mine, tmp_path / "new.npz"])
    for record in ('{"versions": {}}', '{"versions": ["lnattn"]}', "[]", "{"):
        mine.write_text(record)
        with pytest.raises(ResultError, match=naming("notes.json", "lnattn")):
            check_outputs([mine])
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ResultError, match=naming("folder.npz", "lnattn")):
        check_outputs([tmp_path / "folder.npz"])


@pytest.mark.parametrize("array", [np.array(["2020-01-01"], "M8[D]"), np.zeros(2, "V3")])
def test_arrays_of_other_types_are_one_sentence(tmp_path, array):
    with pytest.raises(ResultError, match=naming("'a'", array.dtype)):
        write_result(tmp_path, "study", {"a": array}, {})
    np.savez(tmp_path / "study.npz", a=array)
    write_json(tmp_path / "study.json", {"arrays_sha256": "0"})
    with pytest.raises(ResultError, match=naming("'a'", array.dtype)):
        read_result(tmp_path, "study")


@dataclass(frozen=True)
class Bands(Result):
    NAME: ClassVar[str] = "bands"
    names: np.ndarray
    n: Int[np.ndarray, " row"]
    value: Float[np.ndarray, "row column"]
    record: dict[str, Any]


@pytest.mark.parametrize(
    "arrays",
    [
        {"value": np.zeros((2, 4))},  # another number of rows
        {"value": np.zeros(3)},
        {"value": np.zeros((3, 4), np.int64)},
        {"n": np.zeros(())},
        {"extra": np.zeros(2)},
        {"value": None},
    ],
)
def test_a_frozen_result_of_another_shape_is_one_sentence(tmp_path, arrays):
    """Its checksum fits: another version of the package has written it."""
    whole = {"names": np.array(["a"]), "n": np.arange(3), "value": np.zeros((3, 4))}
    Bands(**whole, record={}).write(tmp_path)
    assert Bands.read(tmp_path).value.shape == (3, 4)
    changed = {key: a for key, a in {**whole, **arrays}.items() if a is not None}
    write_result(tmp_path, "bands", changed, {})
    with pytest.raises(ResultError, match=naming("bands.npz", "Bands")):
        Bands.read(tmp_path)


def _npy(header: str) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


BROKEN = {
    "no array": b"what",
    "empty": b"",
    "a zip": b"PK\3\4",
    "a header that is no Python": _npy("{'descr': '<f8', 'shape': ((("),
    "16 TiB": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 2)}"),
    "cut": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2)}") + b"12345678",
    "objects": _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}") + b"x" * 8,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_npy_file_is_one_sentence(tmp_path, kind):
    path = tmp_path / "keys.npy"
    path.write_bytes(BROKEN[kind])
    with pytest.raises(ResultError, match=naming("keys.npy")) as caught:
        read_array(path)
    assert "\n" not in str(caught.value)


def test_mutated_results_are_read_or_refused_in_a_sentence(tmp_path):
    """Three hundred mutants of an npz and of an npy: bytes changed, cut, and doubled."""
    rng = np.random.default_rng(0)
    arrays = {"names": np.array(["a"]), "n": np.arange(3), "value": np.zeros((3, 4))}
    Bands(**arrays, record={}).write(tmp_path)
    np.save(tmp_path / "keys.npy", rng.normal(size=(4, 3)))
    for name in ("bands.npz", "bands.json", "keys.npy"):
        path = tmp_path / name
        whole = path.read_bytes()
        for _ in range(100):
            changed = bytearray(whole)
            for place in rng.integers(len(whole), size=rng.integers(1, 4)):
                changed[place] = rng.integers(256)
            path.write_bytes(bytes(changed[: rng.integers(1, len(whole) + 1)]))
            with contextlib.suppress(ResultError):
                read_array(path) if name == "keys.npy" else Bands.read(tmp_path)
        path.write_bytes(whole)
    assert zipfile.is_zipfile(tmp_path / "bands.npz")


def test_a_record_says_which_versions_made_it():
    """Of what numbers rest on, as they are installed; what is not is named as absent."""
    record = provenance(model="tiny", seed=3)
    versions = record["versions"]
    assert versions.pop("python") == platform.python_version()
    assert versions == {
        name: metadata.version(name)
        for name in ("lnattn", "torch", "transformers", "numpy", "numba")
    }
    assert (record["model"], record["seed"]) == ("tiny", 3)
    assert package_versions("numpy", "no such thing")["no such thing"] == "absent"


def test_a_record_is_written_so_that_a_difference_is_a_line(tmp_path):
    path = write_json(tmp_path / "record.json", {"b": [1], "a": "σ"})
    assert path.read_text("utf-8") == '{\n  "b": [\n    1\n  ],\n  "a": "σ"\n}\n'
