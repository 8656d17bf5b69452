"""A page that was read with a warning warns again, until it is mended."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from docutils import nodes
from small_site import build

from booksite import warned
from lnattn.storage import read_json

WRONG = "A page\n======\n\nSee :doc:`nowhere` and *this.\n"


def test_an_unchanged_page_warns_in_the_next_build_too(tmp_path):
    pages = {"index.rst": "Start\n=====\n\n.. toctree::\n\n   one\n   two\n", "one.rst": WRONG}
    pages["two.rst"] = "Two\n===\n\nWords.\n"
    said = [build(tmp_path, pages, extensions=["booksite.warned"])[1] for _ in range(1)]
    (tmp_path / "source" / "one.rst").touch()
    said += [build(tmp_path, extensions=["booksite.warned"])[1] for _ in range(2)]
    for warnings in said:
        assert "nowhere" in warnings
        assert "Inline emphasis" in warnings
    kept = tmp_path / "_build" / "doctrees" / warned.FILE
    assert read_json(kept) == {"pages": ["one"]}
    _, warnings, _ = build(tmp_path, {"one.rst": "One\n===\n"}, extensions=["booksite.warned"])
    assert warnings == ""
    assert read_json(kept) == {"pages": []}


def listened(*records: dict, suppressed=()) -> set[str]:
    """The places that a build's listener keeps of its warnings."""
    app = SimpleNamespace(config=SimpleNamespace(suppress_warnings=list(suppressed)))
    listener = warned._Listener(app)
    for record in records:
        listener.handle(logging.makeLogRecord({"levelno": logging.WARNING, **record}))
    return listener.places


def test_a_warning_names_its_place_in_several_ways():
    node = nodes.paragraph("", "x")
    node.source = "book/e.md"
    places = ["book/a.md:3", ("book/b", 4), "book/c.md:docstring of f:1", "book/d", node]
    found = listened(*({"location": place} for place in places))
    assert found == {"book/a.md", "book/b", "book/c.md", "book/d", "book/e.md"}
    assert listened({"location": None}, {}) == set()


def test_what_is_suppressed_is_no_warning():
    about = {"location": "book/a", "type": "ref", "subtype": "any"}
    assert listened(about, suppressed=["ref.any"]) == set()
    assert listened(about, suppressed=["ref.other"]) == {"book/a"}
    assert listened({"location": "book/a", "type": "ref"}, suppressed=["ref"]) == set()


def test_a_place_is_a_page_by_itself_or_by_its_file():
    files = {"book/a.md": "book/a"}
    env = SimpleNamespace(found_docs={"book/a", "odd.md"}, path2doc=files.get)
    places = ("book/a", "book/a.md", "odd.md", "src/x.py")
    assert [warned.page_of(env, one) for one in places] == ["book/a", "book/a", "odd.md", ""]
