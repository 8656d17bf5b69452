"""Studies that are kept for all chapters: when they are read, and what a bad cache costs."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from filelock import FileLock

from lnattn.freezing import recomputing
from lnattn.storage import Result
from lnattn_book.studies import cache
from lnattn_book.studies.cache import cached_study, forget_studies


@dataclass(frozen=True)
class Sums(Result):
    NAME: ClassVar[str] = "sums"
    total: np.ndarray
    record: dict[str, Any] = field(default_factory=dict)


def ask(value: int, **key: Any) -> int:
    study = cached_study(Sums, "owner/model", key, lambda: Sums(np.array([value]), {"about": "1"}))
    return int(study.total[0])


@pytest.fixture
def studies(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "studies"
    monkeypatch.setenv("LNATTN_STUDIES", str(folder))
    return folder


def test_a_study_is_computed_once_and_read_from_then_on(studies, monkeypatch):
    assert ask(1, weights="a") == ask(2, weights="a") == 1
    assert Sums.read(studies / "model").record["about"] == "1"
    assert ask(3, weights="b") == 3  # other weights, computed again
    assert ask(4, weights=None) == ask(5, weights=None) - 1 == 4  # what is unknown is not kept
    with recomputing():
        assert ask(6, weights="b") == 6
    assert ask(7, weights="b") == 3
    monkeypatch.setattr(cache, "_code_digest", lambda: "other code")
    assert ask(8, weights="b") == 8
    forget_studies()
    assert not list(studies.rglob("sums.*"))


def test_another_version_of_a_library_is_other_code(studies, monkeypatch):
    """Of tokenizers, too: the counts that a study reads are made of its tokens."""
    assert ask(1) == 1
    real = cache.package_versions
    for name in ("torch", "tokenizers", "transformers"):
        cache._code_digest.cache_clear()
        changed = {name: "99"}
        monkeypatch.setattr(cache, "package_versions", lambda *n, c=changed: {**real(*n), **c})
        assert ask(hash(name)) == hash(name)
    cache._code_digest.cache_clear()


def in_place_of(name: str, put: Callable[[Path], object]) -> Callable[[Path], None]:
    """Put something else where the cache has a file."""

    def damage(studies: Path) -> None:
        path = studies / name
        path.unlink(missing_ok=True)
        put(path)

    return damage


def model_as_a_file(studies: Path) -> None:
    for path in (studies / "model").iterdir():
        path.unlink()
    (studies / "model").rmdir()
    (studies / "model").write_text("a file")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "arrays cut": in_place_of("model/sums.npz", lambda path: path.write_bytes(b"PK\3\4")),
    "arrays gone": in_place_of("model/sums.npz", lambda path: None),
    "record a list": in_place_of("model/sums.json", lambda path: path.write_text("[]")),
    "record null": in_place_of("model/sums.json", lambda path: path.write_text("null")),
    "record deep": in_place_of("model/sums.json", lambda path: path.write_text("[" * 10**5)),
    "record a folder": in_place_of("model/sums.json", Path.mkdir),
    "record a loop": in_place_of("model/sums.json", lambda path: path.symlink_to(path)),
    "record a pipe": in_place_of("model/sums.json", os.mkfifo),
    "lock a folder": in_place_of(".model.lock", Path.mkdir),
    "lock a loop": in_place_of(".model.lock", lambda path: path.symlink_to(path)),
    "model a file": model_as_a_file,
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_cache_costs_a_line_and_never_the_result(kind, studies, capsys):
    assert ask(1) == 1
    DAMAGES[kind](studies)
    assert ask(2) in (1, 2)  # a lock in the way does not spoil what is kept
    said = capsys.readouterr().err
    assert said.count("\n") in (1, 2)
    assert "[lnattn]" in said
    forget_studies()
    assert ask(3) == 3


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/studies"])
def test_a_cache_that_cannot_be_written_costs_a_line(place, monkeypatch, capsys):
    monkeypatch.setenv("LNATTN_STUDIES", place)
    assert ask(1) == 1
    assert "not kept for other chapters" in capsys.readouterr().err
    forget_studies()


def test_what_a_user_froze_there_is_not_deleted(studies):
    Sums(np.array([1]), {"own": "yes"}).write(studies / "mine")
    forget_studies()
    assert Sums.read(studies / "mine").total == 1


#: What users' own files beside the kept studies may hold, and whether they use the study's name.
STRANGERS = {
    "a list": "[1, 2, 3]",
    "half a file": '{"draft": ',
    "a key of music": '{"key": "c-minor"}',
    "a digest of another's": json.dumps({"key": "0" * 64}),
    "arrays of another's": json.dumps({"key": "0" * 64, "arrays_sha256": "1" * 64}),
}


@pytest.mark.parametrize("name", ["sums", "survey", "notes"])
@pytest.mark.parametrize("text", STRANGERS.values(), ids=STRANGERS)
def test_files_of_others_are_neither_deleted_nor_written_over(studies, capsys, text, name):
    assert ask(1) == 1
    ours = {path for path in studies.rglob("*") if path.is_file()}
    theirs = {}
    for folder in ("other", "survey"):
        (studies / folder).mkdir()
        for ending, content in ((".json", text.encode()), (".npz", b"a song")):
            theirs[studies / folder / f"{name}{ending}"] = content
    for path, content in theirs.items():
        path.write_bytes(content)
    forget_studies()
    assert {path for path in ours if path.exists()} <= {studies / ".model.lock"}
    study = cached_study(Sums, "a/other", {}, lambda: Sums(np.array([2]), {}))
    assert int(study.total[0]) == 2
    assert {path: path.read_bytes() for path in theirs} == theirs
    assert ("move it elsewhere" in capsys.readouterr().err) is (name == "sums")


def test_arrays_alone_are_somebodys(studies, capsys):
    (studies / "model").mkdir(parents=True)
    (studies / "model" / "sums.npz").write_bytes(b"mine")
    assert ask(1) == 1
    assert "move it elsewhere" in capsys.readouterr().err
    forget_studies()
    assert (studies / "model" / "sums.npz").read_bytes() == b"mine"


def test_what_a_user_froze_is_not_written_over_by_what_is_kept(studies, capsys):
    Sums(np.array([1]), {"own": "yes"}).write(studies / "model")
    assert ask(2) == 2
    assert Sums.read(studies / "model").total == 1
    assert "no study that was kept here" in capsys.readouterr().err


def test_in_the_packages_own_cache_a_damaged_study_is_made_anew(studies, monkeypatch, capsys):
    monkeypatch.delenv("LNATTN_STUDIES")
    monkeypatch.setenv("LNATTN_CACHE", str(studies))
    assert ask(1) == 1
    kept = studies / "studies" / "model" / "sums.json"
    kept.write_text("{")
    assert ask(2) == 2
    assert "computed again" in capsys.readouterr().err
    assert ask(3) == 2


def test_waiting_for_another_process_is_announced(studies, capsys):
    studies.mkdir()
    begun = threading.Event()

    def hold() -> None:  # as another process would
        with FileLock(studies / ".model.lock"):
            begun.set()
            time.sleep(0.3)

    threading.Thread(target=hold).start()
    begun.wait()
    assert ask(3) == 3
    said = "".join(capsys.readouterr())
    assert "another process is computing sums of model; waiting" in said
