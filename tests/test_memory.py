"""What a build says of its memory: the largest resident set of each process, by its name."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from site_pages import SITE

from booksite import memory
from lnattn.storage import read_json

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="this system does not tell of other processes"
)
#: A process that holds 300 MB for a moment, and much less after it; its own child does so.
HOLD = "import time; a = bytearray(300 << 20); del a; time.sleep(1)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}, 'ipykernel'])"


@needs_proc
def test_what_a_grandchild_held_for_a_moment_is_found():
    with memory.measured() as peaks:
        environment = {**os.environ, memory.CHAPTER: "05-six-terms"}
        subprocess.run([sys.executable, "-c", PARENT], env=environment, check=True)
        time.sleep(0.1)
    sizes = {peaks.names[pid]: size for pid, size in peaks.gib.items()}
    assert 0.29 < sizes["the kernel of 05-six-terms"] < 0.4
    assert peaks.gib[os.getpid()] > 0


def test_a_process_above_the_limit_is_a_warning(tmp_path):
    peaks = memory.Peaks({1: 1.0, 2: 3.0, 3: 0.1}, {1: "Sphinx", 2: "a kernel", 3: "sh"})
    told, *warned = memory.report(peaks, 2.5, tmp_path / "memory.json")
    assert told.index("a kernel 3.00 GiB") < told.index("Sphinx 1.00 GiB")
    assert warned == [one for one in warned if one.startswith("WARNING: a kernel took 3.00")]
    assert len(warned) == 1
    assert read_json(tmp_path / "memory.json")["gib"] == {"a kernel": 3.0, "Sphinx": 1.0, "sh": 0.1}
    assert len(memory.report(peaks, 3.5, tmp_path / "memory.json")) == 1


BUILT = SITE.parent / "memory.json"


@pytest.mark.skipif(not BUILT.is_file(), reason="the site is not built here; run: make book")
def test_no_process_of_the_build_took_too_much():
    built = read_json(BUILT)
    assert built["gib"]
    assert {name: size for name, size in built["gib"].items() if size > built["limit"]} == {}
