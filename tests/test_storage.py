"""Frozen results survive interruptions and notice when their two files disagree."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from lnattn.errors import ResultError
from lnattn.storage import (
    read_json,
    read_result,
    sha256_of_arrays,
    sha256_of_file,
    write_atomically,
    write_json,
    write_result,
)

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "names": np.array(["x", "Ġy"])}


def test_round_trip(tmp_path):
    write_result(tmp_path, "study", ARRAYS, {"seed": 3})
    arrays, record = read_result(tmp_path, "study")
    assert record["seed"] == 3
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)


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
    with pytest.raises(ResultError, match="does not match the checksum"):
        read_result(tmp_path, "study")


def test_missing_and_damaged_files_are_one_sentence(tmp_path):
    with pytest.raises(ResultError, match="does not exist"):
        read_result(tmp_path, "study")
    write_result(tmp_path, "study", ARRAYS, {})
    whole = (tmp_path / "study.npz").read_bytes()
    (tmp_path / "study.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ResultError, match="cannot be read"):
        read_result(tmp_path, "study")
    (tmp_path / "study.npz").unlink()
    with pytest.raises(ResultError, match=r"study\.npz does not exist"):
        read_result(tmp_path, "study")
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(ResultError, match="no valid JSON"):
        read_result(tmp_path, "study")


def test_python_objects_are_never_stored(tmp_path):
    with pytest.raises(ResultError, match="Python objects"):
        write_result(tmp_path, "study", {"o": np.array([{}], dtype=object)}, {})
    assert not list(tmp_path.iterdir())


def test_checksums():
    assert sha256_of_arrays({"a": np.zeros(2), "b": np.ones(2)}) == sha256_of_arrays(
        {"b": np.ones(2), "a": np.zeros(2)}
    )
    assert sha256_of_arrays({"a": np.zeros(2)}) != sha256_of_arrays({"a": np.zeros((2, 1))})
    assert sha256_of_arrays({"a": np.zeros(2)}) != sha256_of_arrays({"a": np.zeros(2, np.float32)})


def test_file_checksum(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * (3 << 20))
    assert sha256_of_file(path) == hashlib.sha256(b"x" * (3 << 20)).hexdigest()


def test_nan_is_refused_in_json(tmp_path):
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "r.json", {"x": float("nan")})
