"""Whatever stands in place of a JSON object is refused at once, in one sentence."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn import json_files
from lnattn.errors import CheckpointError, ResultError
from lnattn.json_files import read_json
from lnattn.storage import write_json

#: Contents that are no object of use, and a word of what is said of each.
BAD = {
    "list": (b"[]", "list"),
    "null": (b"null", "NoneType"),
    "number": (b"5", "int"),
    "nothing": (b"", "no valid JSON"),
    "cut short": (b'{"a": 1', "no valid JSON"),
    "no UTF-8": (b'{"a": "\xff"}', "no valid JSON"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "deep object": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    "long number": (b'{"a": ' + b"1" * 5_000 + b"}", "no valid JSON"),
    "long message": (b'{"a": 1 ' + b"\n" * 5_000 + b"x}", "no valid JSON"),
}


def complaint(path, raises=ResultError) -> str:
    with pytest.raises(raises) as error:
        read_json(path, raises)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500 + len(str(path))
    return str(error.value)


@pytest.mark.parametrize("case", BAD)
def test_contents(case, tmp_path):
    content, words = BAD[case]
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert words in complaint(path)
    assert words in complaint(path, CheckpointError)


def test_a_file_that_is_too_long(tmp_path, monkeypatch):
    path = write_json(tmp_path / "a.json", {"a": "x" * 100})
    monkeypatch.setattr(json_files, "LONGEST", 50)
    assert "at most 50" in complaint(path)


def test_what_is_no_regular_file(tmp_path):
    pipe, loop, folder = (tmp_path / name for name in ("pipe", "loop", "folder"))
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    folder.mkdir()
    assert "no regular file" in complaint(pipe)  # and does not wait for a writer
    assert "no regular file" in complaint(folder)
    assert "cannot be read" in complaint(loop)
    assert "compute it first" in complaint(tmp_path / "nowhere")
    assert "cannot be read" in complaint(tmp_path / ("long" * 100))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(st.text(), json_values))
def test_objects_come_back(tmp_path_factory, record):
    path = tmp_path_factory.getbasetemp() / "objects.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    assert read_json(path) == record


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_one_sentence(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "bytes.json"
    path.write_bytes(content)
    try:
        result = read_json(path)
    except ResultError as error:
        result = str(error)
    assert isinstance(result, dict) or "\n" not in result
