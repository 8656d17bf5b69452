"""Which build of torch `make` installs: one without CUDA where there is no NVIDIA driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lnattn_book import places

# What is tried is the choice of torch where no GPU is; elsewhere make asks nothing.
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or Path("/proc/driver/nvidia").exists() or not shutil.which("make"),
    reason="needs make, and Linux without an NVIDIA driver",
)
#: In place of the environment's Python: notes what it was asked, and has the answers of a case.
PYTHON = """#!/bin/sh
echo "$*" >> "{log}"
case "$*" in
  *"import torch"*) exit {no_torch} ;;
  *--index-url*) exit {no_index} ;;
esac
"""


def installed(folder: Path, *, torch: bool = False, index: bool = True, gpu: bool = False, **more):
    """What pip was asked to install, one line for each call, and what `make` said."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "data-packages.txt"):
        shutil.copy(places.repository() / name, folder)
    programs = {
        "bin/python": PYTHON.format(log=folder / "log", no_torch=not torch, no_index=not index)
    }
    if gpu:
        programs["nvidia-smi"] = "#!/bin/sh\n"
    for name, text in programs.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("True", "1").replace("False", "0"))
        path.chmod(0o755)
    settings = {"VIRTUAL_ENV": str(folder), "PATH": f"{folder}:{os.environ['PATH']}", **more}
    done = subprocess.run(
        ["make", str(folder / ".lnattn-installed")],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "CUDA"} | settings,
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [ln for ln in (folder / "log").read_text().splitlines() if "pip install" in ln]
    hashed = [line for line in lines if "--require-hashes" in line]
    assert len(hashed) == 1
    # Before the others, which find these two packages installed.
    assert lines.index(hashed[0]) == len(lines) - 2
    return [line for line in lines if line not in hashed], done.stdout


@pytest.mark.parametrize("index", [True, False])
def test_without_a_gpu_the_small_build_is_asked_for_first(tmp_path, index):
    (small, whole), said = installed(tmp_path, index=index)
    assert "--no-deps" in small
    assert "download.pytorch.org/whl/cpu torch" in small
    assert "--editable" in whole
    assert "pytorch.org" not in whole
    assert ("taking torch's default build" in said) is not index


@pytest.mark.parametrize("case", [{"torch": True}, {"gpu": True}, {"CUDA": "yes"}])
def test_otherwise_no_other_index_is_asked(tmp_path, case):
    (whole,), _ = installed(tmp_path, **case)
    assert "--editable" in whole
