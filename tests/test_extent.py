"""What a site holds is counted, and an edition that lost a part of itself is noticed."""

from __future__ import annotations

import pytest

from booksite import extent
from booksite.inputs import PUBLISHED
from booksite.settings import BUILD, Folders
from lnattn.storage import read_json, write_json

PAGE = '<article class="bd-article"><figure id="a"></figure><figure></figure>{}</article>'


@pytest.fixture
def built(tmp_path):
    """A repository with a built edition: twenty pages, forty figures, three verdicts."""
    html = Folders(tmp_path / BUILD).html
    (html / "_static").mkdir(parents=True)
    (html / "_static" / "theme.html").write_text("no page")
    for n in range(20):
        (html / f"{n}.html").write_text(PAGE.format("text" * 50))
    write_json(html / "claims.json", {"claims": [{"found": [1, 2]}, {"found": [3]}, {"found": []}]})
    return tmp_path


def test_an_edition_is_counted_and_compared_with_the_record(built, capsys):
    html = Folders(built / BUILD).html
    assert extent.is_whole(built, "book-gpt2", html), "nothing is recorded yet"
    extent.freeze(built, built / "none")
    recorded = read_json(built / PUBLISHED)
    assert list(recorded) == ["book-gpt2"]
    found = recorded["book-gpt2"]
    assert (found["pages"], found["claims"], found["figures"]) == (20, 3, 40)
    assert 5_000 < found["bytes"] < 9_000
    (html / "0.html").unlink()
    assert extent.is_whole(built, "book-gpt2", html), "a twentieth less"
    for n in range(1, 6):
        (html / f"{n}.html").write_text(PAGE.replace("<figure", "<div").format("text" * 60))
    capsys.readouterr()
    assert not extent.is_whole(built, "book-gpt2", html)
    said = capsys.readouterr().out
    assert "figures: 28 where there were 40" in said
    assert "pages" not in said


@pytest.mark.parametrize(("pages", "lost"), [(18, False), (17, True)])
def test_more_than_a_tenth_is_a_loss(pages, lost):
    """Of twenty pages two may go, and a third may not."""
    said = ["pages: 17 where there were 20"] if lost else []
    assert extent.shrunk({"pages": 20}, {"pages": pages}) == said


def test_what_is_gone_altogether_is_none():
    assert extent.shrunk({"figures": 1200, "claims": 1}, {}) == [
        "figures: 0 where there were 1,200",
        "claims: 0 where there were 1",
    ]


def test_an_edition_that_is_not_built_keeps_its_record(built, tmp_path, capsys):
    write_json(built / PUBLISHED, {"book-gpt2": {"pages": 3}, "GPT-2": {"pages": 4}})
    extent.freeze(built, built / "out")
    recorded = read_json(built / PUBLISHED)
    assert (recorded["book-gpt2"]["pages"], recorded["GPT-2"]) == (20, {"pages": 4})
    assert capsys.readouterr().out.startswith("[book] book-gpt2: {'pages': 20, ")
    html = Folders(built / "out" / "gpt2" / BUILD).html
    html.mkdir(parents=True)
    write_json(html / "claims.json", {"claims": []})
    extent.freeze(built, built / "out")
    assert read_json(built / PUBLISHED)["GPT-2"]["pages"] == 0
