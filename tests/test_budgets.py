"""What the project promised to stay: small, in layers, and short to follow. Read from the source.

No number here is ever raised.
"""

from __future__ import annotations

import ast
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest
import torch
from test_distance import random_relative

from lnattn import paths
from lnattn.rotary.study import rotary_study
from lnattn.rotary.weights import RelativeFirstLayer, TokenEmbeddings
from lnattn.text.counts import Counts
from lnattn_book.claims import kamoda, ledger

ROOT = paths.repository()
#: Lines of all files, with docstrings, comments and empty lines, by part.
PARTS = {
    "package": ["src/lnattn/**/*.py"],
    "plain": ["src/lnattn/plain.py"],
    "book": ["src/lnattn_book/**/*.py"],
    "claims": ["src/lnattn_book/claims/**/*.py"],
    "tests of claims": ["tests/test_claims*.py", "tests/test_verdicts.py", "tests/test_survey.py"],
    "site": ["src/booksite/**/*.py"],
    "scripts and styles": ["src/booksite/**/*.js", "src/booksite/**/*.css", "book/static/*.js",
                           "book/static/*.css"],
    "experiments": ["experiments/**/*.py"],
    "tests of experiments": ["experiments/tests/**/*.py"],
    "tests": ["tests/**/*.py"],
}  # fmt: skip
PROMISED = {
    "package": 13_000,
    "plain": 400,
    "book": 5_500,
    "claims": 1_600,
    "tests of claims": 1_000,
    "site": 2_800,
    "scripts and styles": 2_400,
    "experiments": 4_500,
    "tests of experiments": 2_000,
    "tests": 14_000,
    "rooms that chapter 13 walks through": 6,
    "modules from a result to its line on the claims page": 5,
}


def lines_of(part: str) -> int:
    found = {path for pattern in PARTS[part] for path in ROOT.glob(pattern)}
    if part == "experiments":  # their tests have a limit of their own
        found -= set(ROOT.glob("experiments/tests/**/*.py"))
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in found)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_within_its_limit(part):
    assert 0 < lines_of(part) <= PROMISED[part]


def imports_of(path: Path) -> Iterator[str]:
    """The dotted names that a module imports, wherever in it: 'package.module.name'."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def modules_of_the_package() -> Iterator[tuple[str, Path]]:
    """The room and the path of every module but the package's own `__init__`, which names all."""
    source = ROOT / "src" / "lnattn"
    for path in source.rglob("*.py"):
        room = path.relative_to(source).with_suffix("").parts[0]
        if room != "__init__":
            yield room, path


def test_the_package_knows_neither_book_nor_site_nor_experiments():
    above = {"lnattn_book", "booksite", "experiments", "matplotlib", "seaborn", "sklearn"}
    for _, path in modules_of_the_package():
        assert not above & {name.partition(".")[0] for name in imports_of(path)}, path


def test_rooms_of_the_package_lie_in_layers():
    """No circle of imports: `TopologicalSorter` raises where there is one."""
    below: dict[str, set[str]] = {}
    rooms = {room for room, _ in modules_of_the_package()}
    for room, path in modules_of_the_package():
        parts = [name.split(".") for name in imports_of(path)]
        own = {name[1] for name in parts if name[0] == "lnattn" and len(name) > 1}
        below.setdefault(room, set()).update(own & rooms - {room})
    order = list(TopologicalSorter(below).static_order())
    assert order.index("weights") < order.index("attention") < order.index("cli")


def files_entered(call) -> set[str]:
    """The files below src whose functions run during a call."""
    source, files = f"{ROOT / 'src'}/", set()

    def see(frame, event, _argument):
        if event == "call" and frame.f_code.co_filename.startswith(source):
            files.add(frame.f_code.co_filename.removeprefix(source))

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return files


def rooms_entered(call) -> set[str]:
    """The rooms whose functions run during a call: folders of the package, and the book's modules.

    A single module of the package, such as `weights`, is the ground that all rooms stand on.
    """
    rooms = {tuple(file.split("/")[:2]) for file in files_entered(call)}
    return {"/".join(room) for room in rooms if room[0] != "lnattn" or room[1][-3:] != ".py"}


class OneWord:
    """A tokenizer in which every word is token 3."""

    def __call__(self, text: str, **_: bool) -> dict[str, list[int]]:
        return {"input_ids": [3]}

    def get_vocab(self) -> dict[str, int]:
        return {" York": 3}


def test_chapter_13_walks_through_few_rooms():
    layer, _ = random_relative(40)
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(40, layer.d_model, generator=generator, dtype=torch.float64)
    model = RelativeFirstLayer(TokenEmbeddings(rows), layer, OneWord(), {"name": "tiny"})
    stream = np.random.default_rng(0).integers(0, 40, 1500)
    counts = {skip: Counts.from_documents([stream], 40, skip=skip) for skip in (1, 2, 3)}
    rooms = rooms_entered(lambda: rotary_study(model, counts, [stream[:30].tolist()], queries=20))
    part = "rooms that chapter 13 walks through"
    assert 2 < len(rooms) <= PROMISED[part], sorted(rooms)


def test_a_result_comes_to_the_claims_page_through_few_modules(monkeypatch):
    """From a rule to the line with its sign; what links are made of is the page's, not its way."""
    tables = pytest.importorskip("booksite.claims_tables", reason="Sphinx is not installed")
    monkeypatch.setattr(tables.links, "of_claim", lambda *_: [])
    monkeypatch.setattr(ledger, "_registered", {})
    monkeypatch.setenv("LNATTN_MODEL", "gpt2")  # which no hub need be asked for
    app = object.__new__(tables.Sphinx)

    def walk():
        found = kamoda.k6(np.full(12, 0.95), model="gpt2")
        data = json.loads(json.dumps(asdict(ledger.register(found))))
        record = ledger.as_record(data, "a build")
        assert "GPT-2: holds" in tables.matrix(app, "book/claims", [record], {}).astext()

    files = files_entered(walk)
    modules = {file for file in files if file.startswith(("booksite/", "lnattn_book/claims/"))}
    part = "modules from a result to its line on the claims page"
    assert 2 < len(modules) <= PROMISED[part], sorted(modules)


def test_nothing_of_this_machine_is_committed():
    """No path of a workplace: code takes paths by argument or environment variable."""
    places = ("/ro" + "ot/", "/wo" + "rk/", "../sha" + "red")
    for pattern in ("src/**/*.py", "tests/*.py", "experiments/**/*.py", "notebooks/*.md"):
        for path in ROOT.glob(pattern):
            text = path.read_text(encoding="utf-8")
            assert not [place for place in places if place in text], path
