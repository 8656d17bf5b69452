"""The command line: its forms, its errors in one sentence, and where it may write."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from filelock import FileLock
from random_models import random_gpt2

from lnattn import freezing, once
from lnattn.cli.main import main
from lnattn.paths import cache_folder
from lnattn.storage import Result, read_json


def test_freezing_and_verifying(tmp_path, capsys):
    def printed(*arguments: str) -> tuple[int, Any]:
        status = main([*arguments, "--json"])
        return status, json.loads(capsys.readouterr().out)

    folder = tmp_path / "model"
    random_gpt2(seed=3, vocab=20, context=16).float().save_pretrained(folder)
    out = str(tmp_path / "results")
    status, record = printed("freeze", str(folder), "--out", out, "--only", "position")
    assert (status, record) == (0, {"position": f"{out}/position.json"})
    assert printed("verify", str(folder), "--folder", out) == (0, {"position": []})
    (tmp_path / "results" / "stray.txt").write_text("?")
    status, record = printed("verify", "--folder", str(tmp_path))
    assert status == 1
    wrong = {name for name, differences in record.items() if differences}
    assert "results/stray.txt" in wrong
    assert "results/position.json" in record.keys() - wrong


def test_an_installed_package_writes_no_results_into_itself(tmp_path, monkeypatch, capsys):
    installed = Path(freezing.__file__).parent / "data"
    monkeypatch.setattr(freezing, "data_folder", lambda: installed)
    assert main(["freeze", "book-gpt2", "--only", "position"]) == 1
    assert "give --out FOLDER" in capsys.readouterr().err
    assert not (installed / "results").exists()


def test_freezing_writes_over_results_only(tmp_path, capsys):
    folder = tmp_path / "model"
    random_gpt2(seed=3, vocab=20, context=16).float().save_pretrained(folder)
    out = tmp_path / "out"
    out.mkdir()
    (out / "position.json").write_text('{"my": "own"}')
    assert main(["freeze", str(folder), "--out", str(out), "--only", "position"]) == 1
    assert "is there and is no result of lnattn" in capsys.readouterr().err
    assert (out / "position.json").read_text() == '{"my": "own"}'
    (out / "position.json").unlink()
    for _ in range(2):
        assert main(["freeze", str(folder), "--out", str(out), "--only", "position"]) == 0
    assert read_json(out / "position.json")["command"] == "lnattn freeze out --only position"


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_a_cache_folder_of_the_system_is_absolute(value, monkeypatch):
    monkeypatch.delenv("LNATTN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cache_folder() == Path.home() / ".cache" / "lnattn"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/caches")
    assert cache_folder() == Path("/var/caches/lnattn")


@dataclass(frozen=True)
class Sums(Result):
    NAME: ClassVar[str] = "sums"
    total: np.ndarray
    record: dict[str, Any] = field(default_factory=dict)


def test_a_study_is_computed_once_and_read_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LNATTN_STUDIES", str(tmp_path))
    made = []

    def compute(value: int) -> Sums:
        made.append(value)
        return Sums(np.array([value]), {"about": "a sum"})

    def ask(value: int, **key: Any) -> int:
        found = once.computed_once(Sums, "owner/model", key, lambda: compute(value))
        return int(found.total[0])

    assert ask(1, weights="a") == ask(2, weights="a") == 1
    assert Sums.read(tmp_path / "model").record["about"] == "a sum"
    assert ask(3, weights="b") == 3  # other weights, computed again
    assert ask(4, weights=None) == ask(5, weights=None) - 1 == 4  # what is unknown is not frozen
    with once.recomputing():
        assert ask(6, weights="b") == 6
    assert ask(7, weights="b") == 3
    (tmp_path / "model" / "sums.npz").write_bytes(b"damaged")
    assert ask(8, weights="b") == 8
    monkeypatch.setattr(once, "_code_digest", lambda: "other code")
    assert ask(9, weights="b") == 9
    assert made == [1, 3, 4, 5, 6, 8, 9]
    once.forget_studies()
    assert not list(tmp_path.rglob("*.npz"))
    monkeypatch.setenv("LNATTN_STUDIES", "/proc/nowhere")
    assert ask(10, weights="b") == 10


def test_waiting_for_another_process_is_announced(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LNATTN_STUDIES", str(tmp_path))
    begun = threading.Event()

    def hold() -> None:  # as another process would
        with FileLock(tmp_path / ".model.lock"):
            begun.set()
            time.sleep(0.3)

    threading.Thread(target=hold).start()
    begun.wait()
    found = once.computed_once(Sums, "owner/model", {}, lambda: Sums(np.array([3])))
    assert found.total[0] == 3
    assert "another process is computing sums of model; waiting" in "".join(capsys.readouterr())
