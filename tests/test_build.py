"""The book's build by `jupyter-book build`: what runs again, what stops it, what the kernel is."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import odd_models
import pytest
from naming import naming

pytest.importorskip("jupyter_book", reason="Jupyter Book is absent: pip install .[book]")


from booksite import build, execute, execution, inputs, model, settings
from lnattn.errors import ResultError
from lnattn.models.choice import Choice
from lnattn.storage import Result, write_json
from lnattn_book.page import places
from lnattn_book.studies.cache import cached_study
from lnattn_book.studies.twins import available_rotary_models

ROOT = places.repository()


@pytest.fixture
def tree(tmp_path):
    """A small repository with all kinds of inputs."""
    for name, text in {
        "src/lnattn/attention/terms.py": "terms = 6",
        "src/lnattn_book/claims/ledger.py": "ledger = 1",
        "src/booksite/build.py": "site = 1",
        "data/book-gpt2/model.safetensors": "weights",
        "constraints.txt": "torch==1",
        "notebooks/01-a.md": "# A",
        "book/index.md": "# Book",
        "_config.yml": "title: x",
        "_toc.yml": "root: book/index",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def digest(tree, model="m", **environment):
    return inputs.execution_digest(tree, model, environment)


@pytest.mark.parametrize(
    "name",
    [
        "src/lnattn/attention/terms.py",
        "src/lnattn_book/claims/ledger.py",
        "src/lnattn/new.py",
        "data/book-gpt2/model.safetensors",
        "constraints.txt",
    ],
)
def test_chapters_run_again_when_code_data_or_lock_change(tree, name):
    before = digest(tree)
    (tree / name).write_text("changed")
    assert digest(tree) != before


@pytest.mark.parametrize(
    "name",
    [
        "notebooks/01-a.md",
        "book/index.md",
        "_config.yml",
        "src/booksite/build.py",
        "src/booksite/head.py",
        "data/results/claims/book-gpt2.json",
        "tests/test_a.py",
    ],
)
def test_chapters_do_not_run_again_when_only_the_site_changes(tree, name):
    before = digest(tree)
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text("changed")
    assert digest(tree) == before


def test_model_and_settings_are_part_of_the_digest(tree):
    assert digest(tree) == digest(tree)
    assert digest(tree, model="other") != digest(tree)
    assert digest(tree, LNATTN_CORPORA="x") != digest(tree)
    assert digest(tree, HOME="x") == digest(tree)
    assert digest(tree, HF_HUB_OFFLINE="1") == digest(tree), "chapters always run without the hub"


def test_the_kernel_is_this_interpreter_whatever_the_user_has(tmp_path, monkeypatch):
    """A user's own kernel called python3 must not win over the build's."""
    user = tmp_path / "user" / "kernels" / "python3"
    user.mkdir(parents=True)
    (user / "kernel.json").write_text(json.dumps({"argv": ["wrong"], "display_name": "wrong"}))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "user"))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    folders = settings.Folders(tmp_path / "_build")
    chosen = settings.environment(tmp_path, folders, Choice("m", "a reason"))
    assert chosen["LNATTN_MODEL"] == "m"
    assert chosen["LNATTN_MODEL_WHY"] == "a reason"
    kernelspec = pytest.importorskip(
        "jupyter_client.kernelspec", reason="Jupyter is absent: pip install .[book]"
    )
    manager = kernelspec.KernelSpecManager
    assert manager().get_kernel_spec("python3").argv == ["wrong"]
    monkeypatch.setenv("JUPYTER_PATH", chosen["JUPYTER_PATH"])
    assert manager().get_kernel_spec("python3").argv[0] == sys.executable


def test_claims_count_for_chapters_but_their_tests_do_not(tree):
    """A chapter shows what claims.yml says of a claim, but not which test it names."""
    (tree / "book/claims.yml").write_text("- id: K1\n  statement: a\n  test: tests/a.py::test_a\n")
    before = digest(tree)
    (tree / "book/claims.yml").write_text("- id: K1\n  statement: a\n  test: tests/b.py::test_b\n")
    assert digest(tree) == before
    (tree / "book/claims.yml").write_text("- id: K1\n  statement: b\n  test: tests/b.py::test_b\n")
    assert digest(tree) != before


@pytest.mark.parametrize(
    "name",
    ["6", "06", "06-heads", "notebooks/06-heads.md", "./notebooks/06-heads.md", "06-heads.md"],
)
def test_a_chapter_is_found_by_number_name_or_path(tmp_path, name):
    (tmp_path / "notebooks").mkdir()
    for stem in ("01-layer", "06-heads", "60-x", "cli"):
        (tmp_path / "notebooks" / f"{stem}.md").write_text("")
    assert build.find_chapter(tmp_path, name).stem == "06-heads"
    assert build.find_chapter(tmp_path, "cli").stem == "cli"
    for wrong in ("7", "heads", "", "../book/index"):
        with pytest.raises(ResultError, match=naming("01-layer", "06-heads")):
            build.find_chapter(tmp_path, wrong)


def test_a_folder_that_is_no_book_is_one_sentence(tmp_path, capsys):
    with pytest.raises(ResultError, match=naming("_toc.yml")):
        build.build(tmp_path)
    assert build.main(["--root", str(tmp_path)]) == 2
    assert "has no _toc.yml" in capsys.readouterr().err


@pytest.fixture
def commands(monkeypatch):
    """What is started in processes of its own: the words, the environment; all ends with 3."""
    started = []

    def run(command, env=None, check=True):
        started.append((command, env))
        if check:
            raise subprocess.CalledProcessError(3, command)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(build.subprocess, "run", run)
    return started


def test_the_options_of_a_build_are_jupyter_books(tree, commands, monkeypatch):
    """And what is forgotten before: where it is asked for, and there alone."""
    forgotten = []
    monkeypatch.setattr(build, "forget", forgotten.append)
    monkeypatch.setattr(build, "repository", lambda: tree)
    monkeypatch.chdir(tree)
    assert build.main([]) == 3
    assert build.main(["--strict"]) == 3
    assert forgotten == []
    assert build.main(["--root", str(tree), "--force", "--output", "out"]) == 3
    assert forgotten == [tree]
    for (command, _), options in zip(
        commands,
        ([], [*build.STRICT], ["--all", "--path-output", str(tree / "out")]),
        strict=True,
    ):
        assert command[:2] == [sys.executable, "-c"]
        assert command[3:] == ["build", *options, str(tree)]


@pytest.fixture
def begun(tree, monkeypatch):
    """A run on a model of a hub, which says when it has finished."""
    finished = []
    folders = settings.Folders(tree / "_build")
    monkeypatch.setattr(build, "begun", lambda _root, _folders: run)
    run = SimpleNamespace(
        root=tree, folders=folders, choice=Choice("hub/tiny", "a test"),
        cache=folders.cache("0"), environment={"LNATTN_MODEL": "hub/tiny"}, finished=finished,
        finish=lambda: finished.append(True),
    )  # fmt: skip
    return run


def test_a_chapter_alone_is_run_in_its_builds_environment(tree, begun, commands, monkeypatch):
    monkeypatch.setenv("LNATTN_MODEL", "another")
    assert build.main(["--root", str(tree), "--chapter", "1"]) == 3
    ((command, environment),) = commands
    chapter = tree / "notebooks" / "01-a.md"
    target = tree / "_build" / "executed" / "tiny" / "01-a.ipynb"
    assert command == [
        *(sys.executable, "-m", "booksite.execute", "--cache", str(begun.cache)),
        *("--target", str(target), str(chapter)),
    ]
    assert environment["LNATTN_MODEL"] == "hub/tiny"
    assert environment["PATH"] == os.environ["PATH"]
    assert begun.finished == [True]
    with pytest.raises(ResultError, match=r"there are none\."):
        build.find_chapter(tree / "book", "1")
    assert build.main(["--root", str(tree), "--chapter", ""]) == 2


def test_what_is_forgotten_is_the_cache_of_this_state_if_there_is_one(tree, begun, monkeypatch):
    forgotten = []
    monkeypatch.setattr(build, "forget_studies", lambda: forgotten.append(True))
    begun.cache.mkdir(parents=True)
    other = begun.folders.cache("1")
    other.mkdir(parents=True)
    for _ in range(2):
        build.forget(tree)
        assert not begun.cache.exists()
    assert other.is_dir()
    assert begun.finished == forgotten == [True, True]


def test_files_of_programs_at_work_are_no_inputs(tree, monkeypatch):
    before = digest(tree)
    assert re.fullmatch("[0-9a-f]{16}", before)
    assert re.fullmatch("[0-9a-f]{16}", inputs.site_source_digest())
    for name in (".hidden/a.py", "__pycache__/a.py", "a.pyc", "checkpoint/a.py", ".a.py"):
        path = tree / "src" / "lnattn" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("litter")
    for place in (inputs.PUBLISHED, inputs.ATTESTATIONS / "a.json"):
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        (tree / place).write_text("made of results")
    assert digest(tree) == before
    monkeypatch.setenv("LNATTN_DATA", "x")
    assert digest(tree) == before
    assert inputs.execution_digest(tree, "m") == digest(tree, **os.environ)
    assert inputs.execution_digest(tree, "m") != digest(tree, **os.environ | {"LNATTN_DATA": ""})
    (tree / "src" / "lnattn" / "a").mkdir()
    (tree / "src" / "lnattn" / "a" / "b.py").write_text("input")
    assert digest(tree) != before


def test_a_digest_is_of_names_contents_and_facts(tmp_path):
    """Written out: name, a zero, the SHA-256 of the content; then each fact likewise."""
    for name in "ba":
        (tmp_path / name).write_text(name)
    lines = [f"{name}\0{hashlib.sha256(name.encode()).hexdigest()}\n" for name in "ab"]
    wanted = hashlib.sha256("".join([*lines, "f\0x\n", "g\0y\n"]).encode()).hexdigest()
    files = list(inputs.files_below(tmp_path / "b", tmp_path / "absent", tmp_path / "a"))
    assert [file.name for file in files] == ["b", "a"]
    assert inputs.digest_of(tmp_path, files, {"g": "y", "f": "x"}) == wanted


@pytest.mark.parametrize(("more", "is_small"), [(0, True), (1, False)])
def test_two_chapters_are_run_at_a_time_on_a_model_with_a_small_table(monkeypatch, more, is_small):
    family = SimpleNamespace(config={"vocab_size": 12_000_000 + more}, d_model=1)
    opened = SimpleNamespace(family=family)
    monkeypatch.setattr("lnattn.models.checkpoints.open_checkpoint", lambda _name: opened)
    assert model.is_small(Choice("tiny", "")) is is_small


CHAPTER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  name: python3
  display_name: Python 3
---

# A chapter

```{{code-cell}} ipython3
{code}
```
"""


DRAW = "import random\nprint('drawn', random.SystemRandom().random())"
DRAWN = re.compile(r"drawn 0\.\d+")
LONG = """
from lnattn.progress import progress_bar, say
say("looking at " + "heads")
for head in progress_bar(range(3), "heads", delay=0, mininterval=0):
    pass
print("looked")
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book with this repository's settings, of chapters that `write_chapters` gives it."""
    pytest.importorskip("jupyter_book", reason="Jupyter Book is absent: pip install .[book]")
    monkeypatch.setenv("LNATTN_MODEL", "book-gpt2")
    for name in ("_config.yml", "book/references.bib", "book/static", "book/images"):
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target)
        else:
            shutil.copyfile(ROOT / name, target)
    (tmp_path / "src" / "lnattn").mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def write_chapters(book: Path, **texts: str) -> None:
    """Chapters by name, in their order; a text that is no page is the code of its one cell."""
    for name, text in texts.items():
        page = text if text.startswith("#") else CHAPTER.format(code=text)
        (book / "notebooks" / f"{name}.md").write_text(page)
    root, *others = (f"notebooks/{name}" for name in texts)
    files = "".join(f"- file: {name}\n" for name in others)
    listed = f"chapters:\n{files}" if others else ""
    (book / "_toc.yml").write_text(f"format: jb-book\nroot: {root}\n{listed}")


def page(book: Path, name: str) -> str:
    return (book / "_build" / "html" / "notebooks" / f"{name}.html").read_text()


@pytest.mark.whole
def test_what_runs_again_is_what_changed(book, capfd):
    """One book through its life; numbers that are new in every run show what was run."""
    write_chapters(book, heads=DRAW, long=LONG)
    # One chapter alone: the next build shows that run.
    assert build.main(["--root", str(book), "--chapter", "heads"]) == 0
    executed = book / "_build" / "executed" / "book-gpt2" / "heads.ipynb"
    (drawn,) = DRAWN.findall(executed.read_text())
    capfd.readouterr()
    assert build.build(book, *build.STRICT) == 0
    assert drawn in page(book, "heads")
    assert (book / "_build" / "html" / "_static" / "mathjax" / "tex-chtml.js").is_file()
    # A long job is shown on the terminal, and not in the page.
    said = capfd.readouterr().out
    assert "[book] [lnattn] looking at heads" in said
    assert re.search(r"\[book\] heads: +\d+%", said)
    assert "looked" in page(book, "long")
    assert "looking at heads" not in page(book, "long")
    assert "stderr" not in page(book, "long")
    assert "memory: the largest process of this build took" in said
    # Without a change no page is read.
    assert build.build(book) == 0
    assert "0 added, 0 changed, 0 removed" in capfd.readouterr().out
    # A chapter that fails ends the build with its traceback, and no later one passes in silence.
    whole = (book / "notebooks" / "heads.md").read_text()
    (book / "notebooks" / "heads.md").write_text(whole + "\n```{code-cell} ipython3\n1 / 0\n```\n")
    for _ in range(2):
        assert build.build(book) == 1
        assert "ZeroDivisionError" in capfd.readouterr().err
    report = book / "_build" / "html" / "reports" / "heads.err.log"
    assert "ZeroDivisionError" in report.read_text()
    # Put right, the chapter is read again, and its run from before is still there.
    (book / "notebooks" / "heads.md").write_text(whole)
    assert build.build(book) == 0
    assert drawn in page(book, "heads")
    # A page by itself takes its run from there, too.
    assert jupyter_book("build", str(book / "notebooks" / "heads.md")) == 0
    alone = book / "_build" / "_page" / "notebooks-heads" / "html" / "heads.html"
    assert drawn in alone.read_text()
    # What Jupyter Book calls cleaning leaves what was run.
    assert jupyter_book("clean", str(book)) == 0
    assert not (book / "_build" / "html").exists()
    assert drawn in "".join(
        path.read_text() for path in (book / "_build" / ".jupyter_cache").rglob("*.ipynb")
    )


def jupyter_book(*arguments: str) -> int:
    return subprocess.run([Path(sys.executable).with_name("jupyter-book"), *arguments]).returncode


@pytest.mark.whole
def test_a_warning_is_said_again_until_it_is_mended(book, capfd):
    write_chapters(book, text="# Text\n\n[nowhere](missing.md)")  # no kernel: a page's affair
    for options, status in (((), 0), (build.STRICT, 1), (build.STRICT, 1)):
        assert build.build(book, *options) == status
        assert "missing.md" in capfd.readouterr().err
    write_chapters(book, text="# Text")
    assert build.build(book, *build.STRICT) == 0


@pytest.mark.whole
def test_a_second_run_in_the_same_folder_says_so(book, capfd):
    write_chapters(book, heads="print('never')")
    with execution.locked(settings.Folders(book / "_build")):
        for arguments in ([], ["--chapter", "heads"]):
            with pytest.raises(SystemExit, match="2") if arguments else nullcontext():
                assert build.main(["--root", str(book), *arguments]) == 2
            said = capfd.readouterr().err
            assert f"another run is at work in {book / '_build'}" in said
            assert "Traceback" not in said
    assert not (book / "_build" / "executed").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    (tmp_path / "_toc.yml").touch()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "heads.md").touch()
    (tmp_path / "_build").write_text("a file where the folder would be, and as good as read-only")
    assert build.main(["--root", str(tmp_path)]) == 2
    for arguments in (["--chapter", "heads"], ["--force"]):
        with pytest.raises(SystemExit, match="2"):
            build.main(["--root", str(tmp_path), *arguments])
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    for line in said:
        assert f"{tmp_path / '_build'} cannot be written" in line
        assert "--path-output FOLDER" in line


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOLCK, "No locks available"), NotImplementedError("flock")]
)
def test_a_folder_without_file_locks_is_one_sentence(tmp_path, monkeypatch, capsys, error):
    def no_lock(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(execution.FileLock, "acquire", no_lock)
    with pytest.raises(SystemExit, match="2"):
        execution.locked(settings.Folders(tmp_path / "_build"))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "lock" in said


@pytest.mark.parametrize("name", ["feature%2Fx", "what?"])
def test_a_path_that_the_cache_cannot_have_is_one_sentence(tmp_path, capsys, name):
    with pytest.raises(SystemExit, match="2"):
        execution.locked(settings.Folders(tmp_path / name / "_build"))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert name in said
    assert "rename that folder" in said


def test_a_build_that_runs_nothing_loads_none_of_the_large_libraries():
    """They take seconds at each start, and an author starts a build after every sentence."""
    command = (
        "import sys, booksite; from importlib import import_module;"
        "[import_module(f'booksite.{name}') for name in (*booksite.PARTS, 'reference', 'execute')];"
        "from booksite.model import resolve_model; print(resolve_model().name);"
        "print({'torch', 'scipy', 'matplotlib', 'numba', 'transformers'} & set(sys.modules))"
    )
    told = {**os.environ, "LNATTN_MODEL": "book-gpt2"}
    done = subprocess.run([sys.executable, "-c", command], env=told, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("book-gpt2\nset()\n", "")


def test_an_ascii_terminal_gets_what_it_can_show():
    command = "from booksite.terminal import say, end; say('café → 5'); end('naïve', 3)"
    told = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", command], env=told, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "[book] caf? ? 5\n", "[book] na?ve\n")


def test_caches_are_pruned_by_age_but_for_the_present_one(tmp_path):
    """And for what another book keeps in the same place."""
    present, b, c, d, e, other = (letter * 16 for letter in "abcdef")
    for age, name in enumerate((present, b, c, d, e)):
        (tmp_path / name / "cells").mkdir(parents=True)
        os.utime(tmp_path / name, (1e9 + age, 1e9 + age))
    (tmp_path / ".lock").touch()
    for name in ("executed", other):
        (tmp_path / name / "somebodys").mkdir(parents=True)
        os.utime(tmp_path / name, (1e9, 1e9))
    assert execution.prune(tmp_path, keep=present) == [c, b]
    left = {present, d, e, ".lock", "executed", other}
    assert {path.name for path in tmp_path.iterdir()} == left


@dataclass(frozen=True)
class Kept(Result):
    """A study of the book that has no arrays."""

    NAME: ClassVar[str] = "kept"
    record: dict[str, Any]


@pytest.mark.whole
def test_running_everything_again_forgets_kept_studies(book, monkeypatch):
    monkeypatch.setenv("LNATTN_STUDIES", str(book / "studies"))
    cached_study(Kept, "gpt2", {}, lambda: Kept({"of": "the book"}))
    write_json(book / "studies" / "gpt2" / "own.json", {"of": "the reader", "key": "c-minor"})
    digest = inputs.execution_digest(book, "book-gpt2")
    cache = settings.Folders(book / "_build").cache(digest)
    cache.mkdir(parents=True)
    build.forget(book)
    assert [path.name for path in (book / "studies" / "gpt2").iterdir()] == ["own.json"]
    assert not cache.exists()


@pytest.mark.whole
def test_a_model_that_was_named_and_cannot_be_had_stops_the_build_at_once(book, monkeypatch, capfd):
    write_chapters(book, heads=DRAW)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("LNATTN_MODEL", "nobody/nothing")
    assert build.main(["--root", str(book)]) == 2
    said = capfd.readouterr().err
    assert "[book] the cache lacks the configuration and the tokenizer" in said
    assert "Traceback" not in said
    assert not (book / "_build" / "html" / "notebooks").exists()


MEETING = """
import pathlib, time
pathlib.Path("{me}.txt").touch()
until = time.monotonic() + 60
while not pathlib.Path("{other}.txt").exists():
    assert time.monotonic() < until, "the other chapter does not run at the same time"
    time.sleep(0.05)
print("{me} met {other}")
"""


@pytest.mark.whole
def test_two_chapters_run_at_a_time_and_one_that_fails_ends_the_run(book, capfd):
    write_chapters(
        book,
        a=MEETING.format(me="a", other="b"),
        b=MEETING.format(me="b", other="a") + "tokens = 3\n1 / (tokens - 3)",
        c="---\ntags: [timed]\n---\nprint('its turn comes alone, after the others')",
    )
    chapters = [book / "notebooks" / f"{name}.md" for name in "cab"]
    assert execute.run_missing(chapters, book / "cells", jobs=2) == 1
    said = capfd.readouterr()
    # That b failed at its division says that both met; which of the two ends first is open.
    assert "1 of 3" in re.findall(r"\[book\] (\d of \d): [ab],", said.out)
    assert "c," not in said.out
    assert "ZeroDivisionError" in said.err
    assert "tokens - " in said.err
    assert "AssertionError" not in said.err


def test_a_model_whose_scores_have_four_terms_goes_to_those_who_read_it(tmp_path, monkeypatch):
    """Chapter 12 and the explorer; the other chapters take the embedded model and say why."""
    monkeypatch.setenv("LNATTN_MODEL", "book-llama")
    monkeypatch.setenv("LNATTN_ROTARY", "")
    choice = model.resolve_model()
    assert choice.name == "book-gpt2"
    assert choice.why.startswith("book-llama has rotary")
    (shown,) = available_rotary_models()
    assert shown.name == "book-llama"
    folder = odd_models.make("one-head", tmp_path / "one head")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LNATTN_MODEL", "one head")
    assert model.resolve_model().name == str(folder), "chapters run in a folder of their own"


# ---- A damaged execution cache -------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def fill(cache: Path, chapter: Path) -> None:
    notebook = execute.read(chapter)
    execute.keep(notebook, 1.0, chapter, cache)


@pytest.mark.parametrize("damage", ["database", "chapter", "gone", "nothing"])
def test_a_damaged_execution_cache_is_made_anew_with_a_word(tmp_path, capsys, damage):
    chapters = [tmp_path / f"{name}.md" for name in ("one", "two")]
    for number, chapter in enumerate(chapters):
        body = f"```{{code-cell}} ipython3\n{number}\n```\n"
        head = "---\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n"
        chapter.write_text(head + body)
        fill(tmp_path / "cells", chapter)
    assert execute.missing(chapters, tmp_path / "cells") == []
    kept = sorted((tmp_path / "cells").rglob("base.ipynb"))
    if damage == "database":
        cut(tmp_path / "cells" / "global.db")
    elif damage == "chapter":
        cut(kept[0])
    elif damage == "gone":
        kept[0].unlink()
    execute.mend(tmp_path / "cells")
    said = capsys.readouterr().out
    assert said.count("damaged") == (damage != "nothing")
    left = execute.missing(chapters, tmp_path / "cells")
    assert len(left) == {"database": 2, "nothing": 0}.get(damage, 1)
    for chapter in left:
        fill(tmp_path / "cells", chapter)
    execute.mend(tmp_path / "cells")
    assert capsys.readouterr().out == ""
    assert execute.missing(chapters, tmp_path / "cells") == []
