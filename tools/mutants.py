"""Break the package on purpose, and see which mistakes no test notices.

    python tools/mutants.py attention --sample 40          (make mutants MODULE=attention)

    python tools/mutants.py stats --sample 12 --tests stats,plain

cosmic-ray finds the places of a module where one operator, number or comparison can be another, and
puts a mistake there. Each is tried alone: first on the tests that run its line (by coverage's
contexts, kept below `_build/mutants` while a test file and the module stay the same), and, where
they pass, on the whole files of those tests; or, given `--tests`, on those files alone, which takes
no measurement of what reaches what. A survivor is looked up in `tests/survivors.toml`,
which says why it cannot be seen, or which test is missing; one that is not listed fails the run.

Rooms of `tests/mistakes.toml`, such as `explorer`, `commands` or `report`, are gone through by that
list (tools/mistakes.py).

All of it happens in a copy of the repository. A mutant's tests run in a fork of a process that has
imported torch and the like already, and not the package: a tenth of the time of a new process.
numba keeps machine code on disk, where it would outlive a mistake in a loop that another file's
loop calls: a mutant of a file with compiled loops begins with an empty cache.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mistakes

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "_build" / "mutants"
TREE = WORK / "tree"
LISTED = ROOT / "tests" / "survivors.toml"
#: What numbers rest on; `--all` samples each of them.
SCIENCE = (
    "attention", "rotary", "affinity", "position", "contribution", "composition",
    "selectability", "stats", "text", "storage", "studies", "claims",
)  # fmt: skip
#: Test files that build books, start browsers or run chapters: minutes for each mutant.
SLOW = (
    "browser", "browser_explorer", "build", "chapters", "front_page", "new_chapter", "publish",
    "reader_changes", "reader_models", "search", "setup", "site", "wheel",
)  # fmt: skip
#: Mistakes that stop at import, or that Python's own `__future__` annotations never run.
LEFT_OUT = ("core/RemoveDecorator", "core/ExceptionReplacer", "core/Variable")
SECONDS = 240
#: By source file, by line: the tests that run it.
Reach = dict[str, dict[str, list[str]]]


@dataclass(frozen=True)
class Mutant:
    """One mistake: where it is put, and the line before and after."""

    path: str
    operator: str
    occurrence: int
    line: int
    old: str
    new: str

    @property
    def text(self) -> str:
        return f"{self.path}: {self.old} -> {self.new}"


def sources(module: str) -> list[Path]:
    """The files of a room of the package (`attention`, `stats`) or book (`claims`), or of the site.

    The site, `booksite`, has no rooms.
    """
    for package in ("lnattn", "lnattn_book", "booksite"):
        place = Path("src") / package / ("" if module == package else module)
        if (ROOT / place).is_dir():
            return [path.relative_to(ROOT) for path in sorted((ROOT / place).rglob("*.py"))]
        if (ROOT / place).with_suffix(".py").is_file():
            return [place.with_suffix(".py")]
    raise SystemExit(f"there is no module {module} in the package or the book; name another.")


def copy_tree() -> None:
    """A copy of what git does not ignore; only what has changed is copied again."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in names.stdout.splitlines():
        source = ROOT / name
        target = TREE / name
        if not source.is_file():
            target.unlink(missing_ok=True)
        elif not target.is_file() or source.read_bytes() != target.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


# ---- Which tests run which lines -----------------------------------------------------------------


class Contexts:
    """A plugin of pytest: what runs is written down under the test that it runs for."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage

    def pytest_runtest_protocol(self, item: Any) -> None:
        self.coverage.switch_context(item.nodeid.partition("[")[0])


def reached_by(test: Path, module: str) -> Reach:
    """By source file, by line: the tests of one file that run it."""
    hashed = hashlib.sha256((ROOT / test).read_bytes())
    for path in sources(module):
        hashed.update((ROOT / path).read_bytes())
    cached = WORK / "reach" / f"{module}-{test.stem}-{hashed.hexdigest()[:16]}.json"
    if cached.is_file():
        return json.loads(cached.read_text("utf-8"))
    out = WORK / "reach" / f"{test.stem}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    if status := in_fork(lambda: _measure(test, module, out), 4 * SECONDS):
        said = (WORK / "output.txt").read_text("utf-8", "replace")
        raise SystemExit(f"{said}\n{test} does not pass as it is (status {status}); mend it first.")
    out.replace(cached)
    return json.loads(cached.read_text("utf-8"))


def _measure(test: Path, module: str, out: Path) -> int:
    import coverage
    import pytest

    sys.dont_write_bytecode = False  # of the tree without a mistake, as in `passes`
    use_cache(anew=False)
    measured = coverage.Coverage(data_file=None, include=[str(p) for p in sources(module)])
    measured.start()
    status = pytest.main([str(test), *QUIET], plugins=[Contexts(measured)])
    measured.stop()
    data = measured.get_data()
    reach = {
        str(Path(file).relative_to(TREE)): {
            str(line): [context for context in contexts if context]
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    out.write_text(json.dumps(reach))
    return int(status)


def candidates(module: str) -> list[Path]:
    """Test files that name the room, or import from the package what lives in it."""
    package = sources(module)[0].parts[1]
    room = package if module == package else f"{package}.{module}"
    homes = importlib.import_module("lnattn")._HOME_OF if package == "lnattn" else {}
    public = {name for name, home in homes.items() if f"{home}.".startswith(f"{room}.")}
    test_files = []
    for folder in ("tests", "experiments/tests"):
        for path in sorted((ROOT / folder).glob("test_*.py")):
            text = path.read_text("utf-8")
            lines = re.findall(rf"^ *from {package} import (.*)", text, re.MULTILINE)
            taken = set(re.findall(r"\w+", " ".join(lines)))
            named = re.search(rf"\b{room}\b|from {package} import [^#\n]*\b{module}\b", text)
            if (named or taken & public) and path.stem.removeprefix("test_") not in SLOW:
                test_files.append(path.relative_to(ROOT))
    return test_files


# ---- Mutants -------------------------------------------------------------------------------------


def annotated_lines(source: str) -> set[tuple[int, int]]:
    """Places (line, column) inside annotations, which no run ever evaluates."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if part is not None:
                spans.append(part)
    return {
        (line, column)
        for span in spans
        for line in range(span.lineno, span.end_lineno + 1)
        for column in range(
            span.col_offset if line == span.lineno else 0,
            (span.end_col_offset if line == span.end_lineno else 200) + 1,
        )
    }


def mutants(module: str, sample: int, seed: int) -> list[Mutant]:
    """A seeded sample of places, and one of the mistakes that can be made at each."""
    from cosmic_ray.commands import init
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator
    from cosmic_ray.work_db import WorkDB, use_db

    session = WORK / f"{module}.sqlite"
    session.unlink(missing_ok=True)
    places: dict[tuple[str, int, int], list[Any]] = {}
    with use_db(str(session), WorkDB.Mode.create) as db:
        init(sources(module), db, {})
        for item in db.work_items:
            (spec,) = item.mutations
            if not spec.operator_name.startswith(LEFT_OUT):
                places.setdefault((str(spec.module_path), *spec.start_pos), []).append(spec)
    texts = {str(path): (TREE / path).read_text("utf-8") for path in sources(module)}
    skipped = {path: annotated_lines(text) for path, text in texts.items()}
    evaluated = sorted(place for place in places if place[1:] not in skipped[place[0]])
    draw = random.Random(seed)
    drawn = []
    for place in draw.sample(evaluated, min(sample, len(evaluated))) if sample else evaluated:
        spec = draw.choice(sorted(places[place], key=lambda mutation: mutation.operator_name))
        before = texts[place[0]]
        after = mutate_code(before, get_operator(spec.operator_name)(), spec.occurrence)
        old, new = changed(before, after or before)
        drawn.append(Mutant(place[0], spec.operator_name, spec.occurrence, place[1], old, new))
    print(f"{module}: {len(evaluated)} places, {len(drawn)} tried", flush=True)
    return drawn


def changed(before: str, after: str) -> tuple[str, str]:
    """The first line that differs, before and after."""
    for old, new in zip(before.splitlines(), after.splitlines(), strict=False):
        if old != new:
            return old.strip(), new.strip()
    return "", ""


QUIET = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist")


def in_fork(work: Any, seconds: int = SECONDS) -> int:
    """The exit status of a function that runs in a child; 124 for one that is too slow."""
    child = os.fork()
    if not child:
        os.setsid()
        with (WORK / "output.txt").open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        status = 70
        with contextlib.suppress(BaseException):
            status = work()
        os._exit(status)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 124


def use_cache(*, anew: bool) -> None:
    """Where numba keeps machine code: that of the tree without a mistake, or an empty folder."""
    import numba

    folder = WORK / ("compiled anew" if anew else "compiled")
    if anew:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = str(folder)


def has_compiled_loops(path: str) -> bool:
    """Whether a source file of the copy has functions that numba compiles."""
    return "import compiled" in (TREE / path).read_text("utf-8")


def passes(tests: Iterable[str], *, keep_bytecode: bool = False, anew: bool = False) -> bool:
    """Whether these tests pass in a fork, as the tree is now. None to run: they do.

    keep_bytecode: of the tree without a mistake, so that a mutant compiles one file and not all.
    anew: compile numba's loops again.
    """
    import pytest

    asked = list(tests)

    def run_them() -> int:
        sys.dont_write_bytecode = not keep_bytecode
        use_cache(anew=anew)
        return int(pytest.main([*asked, *QUIET]))

    return not asked or in_fork(run_them) == 0


def survives(mutant: Mutant, rounds: Iterable[list[str]]) -> bool:
    """Whether no test notices, in any of the rounds of tests."""
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.plugins import get_operator

    with use_mutation(Path(mutant.path), get_operator(mutant.operator)(), mutant.occurrence):
        anew = has_compiled_loops(mutant.path)
        return all(passes(tests, anew=anew) for tests in rounds)


def rounds_for(mutant: Mutant, reach: Reach) -> list[list[str]]:
    """The tests that run the mutant's line, then the whole files of all that do.

    Where none is known to (coverage sees nothing of compiled loops): the files of all tests that
    run any line of its file, or else of its room.
    """
    lines = reach.get(mutant.path, {})
    near = list(dict.fromkeys(lines.get(str(mutant.line), [])))
    files = files_of([near]) or files_of(lines.values())
    files = files or files_of(tests for lines in reach.values() for tests in lines.values())
    return [near, sorted(files)]


def files_of(tests: Iterable[list[str]]) -> set[str]:
    """The files that tests are in."""
    return {test.partition("::")[0] for of_line in tests for test in of_line}


def reach_of(module: str) -> Reach:
    """Which tests run which line of a module, of all test files that may reach it."""
    reach: Reach = {}
    for test in candidates(module):
        for path, lines in reached_by(test, module).items():
            for line, tests in lines.items():
                reach.setdefault(path, {}).setdefault(line, []).extend(tests)
    return reach


def test_files(names: str) -> list[str]:
    """Test files by their names without `test_`, separated by commas; all of them pass."""
    files = [f"tests/test_{name}.py" for name in names.split(",") if name]
    absent = [file for file in files if not (ROOT / file).is_file()]
    if absent:
        raise SystemExit(
            f"there is no test file {absent[0]}; name files as in --tests stats,plain."
        )
    if files and not passes(files, keep_bytecode=True):
        said = (WORK / "output.txt").read_text("utf-8", "replace")
        raise SystemExit(f"{said}\nThese tests fail or take over {SECONDS} s as they are.")
    return files


def imported() -> None:
    """What takes long to import, and is none of ours."""
    import torch
    import transformers

    for name in ("hypothesis", "playwright.sync_api", "scipy.stats", "sklearn.metrics"):
        importlib.import_module(name)
    for name in ("AutoModelForCausalLM", "AutoTokenizer", "GPT2LMHeadModel", "LlamaForCausalLM"):
        getattr(transformers, name)
    torch.set_num_threads(1)


def reasons() -> dict[str, str]:
    """Why each listed survivor is one, by its text."""
    if not LISTED.is_file():
        return {}
    listed = tomllib.loads(LISTED.read_text("utf-8"))["survivor"]
    return {survivor["mutant"]: survivor["why"] for survivor in listed}


def run(module: str, sample: int, seed: int, names: str = "") -> tuple[Counter[str], list[str]]:
    """How many were killed, equivalent or listed, and what survives unlisted.

    By the test files that are named, or else by all that reach the module. A room of the list of
    mistakes is gone through by that list.
    """
    if by_hand := mistakes.listed(module):
        return run_list(by_hand)
    files = test_files(names)
    reach = {} if files else reach_of(module)
    tally: Counter[str] = Counter()
    unlisted = []
    for mutant in mutants(module, sample, seed):
        begun = time.monotonic()
        if not survives(mutant, [files] if files else rounds_for(mutant, reach)):
            fate = "killed"
        elif (why := reasons().get(mutant.text)) is not None:
            fate = "equivalent" if why.startswith("equivalent") else "listed"
        else:
            fate = "survives"
            unlisted.append(mutant.text)
        tally[fate] += 1
        seconds = time.monotonic() - begun
        print(f"  {fate} ({seconds:.0f} s) {mutant.line} {mutant.text}", flush=True)
    return tally, unlisted


def run_list(by_hand: list[mistakes.Mistake]) -> tuple[Counter[str], list[str]]:
    """The same for mistakes of the list, each by its own tests, which pass without it."""
    for file in sorted({file for mistake in by_hand for file in mistake.files}):
        if not passes([file], keep_bytecode=True):
            raise SystemExit((WORK / "output.txt").read_text("utf-8", "replace"))
    tally: Counter[str] = Counter()
    surviving = []
    for mistake, is_unnoticed in mistakes.tried(by_hand, TREE, passes):
        fate = "survives" if is_unnoticed else "killed"
        tally[fate] += 1
        surviving += [mistake.text] if is_unnoticed else []
        print(f"  {fate} {mistake.text}", flush=True)
    return tally, surviving


def table(rows: dict[str, Counter[str]]) -> Iterator[str]:
    """Mutants of each module, as Markdown."""
    yield "| Module | Mutants | Killed | Equivalent | Listed as missing | Surviving |"
    yield "|---|---|---|---|---|---|"
    for module, tally in rows.items():
        cells = [tally.total(), *(tally[k] for k in ("killed", "equivalent", "listed", "survives"))]
        yield f"| {module} | " + " | ".join(map(str, cells)) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", help="rooms, such as attention or stats")
    parser.add_argument("--all", action="store_true", help="every science module")
    parser.add_argument("--sample", type=int, default=0, help="so many places (0: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--tests", default="", help="only these test files, as in stats,plain; for one module"
    )
    given = parser.parse_args()
    modules = SCIENCE if given.all else given.modules
    if not modules:
        parser.error("name a module, such as attention, or give --all.")
    if given.tests and len(modules) > 1:
        parser.error("--tests is for one module; name one.")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    WORK.mkdir(parents=True, exist_ok=True)
    copy_tree()
    os.chdir(TREE)
    os.environ["PYTHONPATH"] = str(TREE / "src")
    sys.path[:0] = [str(TREE / "src"), str(TREE)]
    imported()
    rows = {}
    left = []
    for module in modules:
        rows[module], unlisted = run(module, given.sample, given.seed, given.tests)
        left += unlisted
    print("\n".join(table(rows)))
    for text in left:
        print(f"survives, and is not in {LISTED.relative_to(ROOT)}: {text}")
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
