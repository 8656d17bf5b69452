"""Two editions of the book in one site, and what is published when GPT-2 cannot be had."""

from __future__ import annotations

import os
from pathlib import Path

import browser
import pytest
from site_pages import ROOT

from booksite import editions, publish
from booksite.editions import Edition, assemble
from booksite.settings import Folders
from lnattn.errors import ResultError
from lnattn.models.choice import Choice

PAGE = """<html><body><div class="article-header-buttons"></div>
<article class="bd-article"><section id="{name}"><h1>{name} on {model}</h1></section></article>
</body></html>"""


def site(folder: Path, model: str, *pages: str) -> Path:
    for page in (*pages, "book/index.html"):
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.format(name=path.stem, model=model))
    (folder / "index.html").write_text('<meta http-equiv="refresh" content="book/index.html">')
    (folder / "_static").mkdir(exist_ok=True)
    (folder / "_static" / "style.css").write_text(model)
    return folder


@pytest.fixture
def two(tmp_path):
    one = site(tmp_path / "one", "GPT-2", "notebooks/06-heads.html", "only-here.html")
    other = site(tmp_path / "two", "book-gpt2", "notebooks/06-heads.html")
    return [Edition("GPT-2", one), Edition("book-gpt2", other, "embedded")]


def link_of(path: Path) -> Path:
    """The file that a page's link to the other edition leads to."""
    text = path.read_text()
    assert text.count('class="btn btn-sm edition-switch"') == 1
    address = text.split('edition-switch" href="')[1].split('"')[0]
    return Path(os.path.normpath(path.parent / address))


def test_each_page_leads_to_the_same_page_of_the_other_edition(two, tmp_path):
    root = assemble(tmp_path / "site", two)
    for page in ("notebooks/06-heads.html", "book/index.html"):
        assert link_of(root / page) == root / "embedded" / page
        assert link_of(root / "embedded" / page) == root / page
    assert ">on book-gpt2</a>" in (root / "book/index.html").read_text()
    assert ">on GPT-2</a>" in (root / "embedded/book/index.html").read_text()
    assert (root / "_static/style.css").read_text() == "GPT-2"
    assert (root / "embedded/_static/style.css").read_text() == "book-gpt2"


def test_a_page_that_the_other_edition_lacks_leads_to_its_front(two, tmp_path):
    root = assemble(tmp_path / "site", two)
    assert link_of(root / "only-here.html") == root / "embedded/book/index.html"


def test_the_built_sites_stay_as_they_are_and_the_old_one_goes(two, tmp_path):
    before = (two[0].site / "book/index.html").read_text()
    site(tmp_path / "site", "old", "renamed.html")
    for _ in range(2):
        root = assemble(tmp_path / "site", two)
    assert not (root / "renamed.html").exists()
    assert (two[0].site / "book/index.html").read_text() == before
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "site"}


def test_one_edition_has_its_note_and_no_link(two, tmp_path):
    root = assemble(tmp_path / "site", [Edition("book-gpt2", two[1].site)], "no <hub> today")
    text = (root / "book/index.html").read_text()
    assert "edition-switch" not in text
    assert "no &lt;hub&gt; today" in text
    assert "no &lt;hub&gt;" not in (root / "notebooks/06-heads.html").read_text()


def test_a_site_that_is_not_built_replaces_nothing(two, tmp_path):
    site(tmp_path / "site", "old")
    with pytest.raises(ResultError, match="holds no built book"):
        assemble(tmp_path / "site", [two[0], Edition("x", tmp_path / "none", "x")])
    (two[1].site / "book/index.html").write_text("a page of another theme")
    (two[1].site / "notebooks/06-heads.html").write_text("a page of another theme")
    with pytest.raises(ResultError, match=r"no page of .* has a header"):
        assemble(tmp_path / "site", two)
    with pytest.raises(ResultError, match="no place for a note"):
        assemble(tmp_path / "site", [Edition("book-gpt2", two[1].site)], "a note")
    assert "on old" in (tmp_path / "site/book/index.html").read_text()


@pytest.fixture
def press(tmp_path, monkeypatch):
    """`publish` with its long parts replaced; returns what was done, in order."""
    done = []

    def build(root, choice, output, folder=""):
        done.append(("build", choice.name, folder))
        site(Folders(output).html, choice.name, "notebooks/06-heads.html")
        return 0

    def command(*words):
        done.append(words[:2])
        return 0

    monkeypatch.setattr(publish, "build", build)
    monkeypatch.setattr(publish, "lnattn", command)
    monkeypatch.setattr(publish, "unlike_gpt2", lambda: "")
    monkeypatch.setattr(publish, "default_model", lambda: Choice("gpt2", "cached"))
    return done


def test_gpt2_is_verified_and_frozen_and_stands_at_the_root(press, tmp_path):
    assert publish.publish(tmp_path) == 0
    assert press == [
        ("verify", "gpt2"),
        ("freeze", "gpt2"),
        ("build", "gpt2", ""),
        ("build", "book-gpt2", "embedded"),
    ]
    root = tmp_path / "_build" / "site"
    assert "on gpt2" in (root / "notebooks/06-heads.html").read_text()
    assert "on book-gpt2" in (root / "embedded/notebooks/06-heads.html").read_text()


def test_the_second_edition_finds_the_explorers_data_of_the_first(press, tmp_path, monkeypatch):
    """What a build finds there it computes anew only where its inputs have changed."""
    data, build = Path("_static", "explorer", "book-gpt2"), publish.build

    def with_data(root, choice, output, folder=""):
        there = Folders(output).html / data
        if choice.name == "gpt2":
            there.mkdir(parents=True)
            (there / "manifest.json").write_text("made once")
            there.with_name("gpt2").mkdir()
        assert (there / "manifest.json").read_text() == "made once"
        assert not (there / "old.js").exists()
        assert there.with_name("gpt2").exists() is (choice.name == "gpt2")
        return build(root, choice, output, folder)

    monkeypatch.setattr(publish, "build", with_data)
    old = Folders(tmp_path).html / data / "old.js"
    old.parent.mkdir(parents=True)
    old.touch()
    assert publish.publish(tmp_path) == 0
    assert len(press) == 4


@pytest.mark.parametrize("failing", ["gpt2", "book-gpt2"])
def test_nothing_is_put_together_when_one_edition_fails(press, tmp_path, monkeypatch, failing):
    monkeypatch.setattr(publish, "build", lambda root, choice, *_: 3 * (choice.name == failing))
    assert publish.publish(tmp_path) == 3
    assert not (tmp_path / "_build" / "site").exists()


def test_without_a_hub_the_embedded_edition_is_published_and_says_so(press, tmp_path, monkeypatch):
    choice = Choice("book-gpt2", "the hub does not answer")
    monkeypatch.setattr(publish, "default_model", lambda: choice)
    assert publish.publish(tmp_path) == 0
    assert press == [("build", "book-gpt2", "")]
    root = tmp_path / "_build" / "site"
    assert "the hub does not answer" in (root / "book/index.html").read_text()
    assert not (root / "embedded").exists()


def test_weights_that_fail_the_printed_values_are_not_published(press, tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "lnattn", lambda *words: int(words[0] == "verify"))
    assert publish.publish(tmp_path) == 1
    assert press == []
    assert not (tmp_path / "_build").exists()


def test_a_stand_in_is_not_verified_and_its_front_page_says_so(press, tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "unlike_gpt2", lambda: "gpt2: these are not GPT-2's weights.")
    assert publish.publish(tmp_path) == 0
    assert ("verify", "gpt2") not in press
    front = tmp_path / "_build/site/book/index.html"
    assert "<p>gpt2: these are not GPT-2&#x27;s weights.</p>" in front.read_text()


@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:1"])
def test_other_weights_pass_only_from_another_hub(tmp_path, monkeypatch, endpoint):
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(publish.hub, "snapshot", lambda pin: tmp_path)
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    if endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        assert "are not GPT-2's" in publish.unlike_gpt2()
    else:
        with pytest.raises(ResultError, match="delete them from the cache"):
            publish.unlike_gpt2()
    monkeypatch.setattr(publish, "GPT2_SHA256", publish.sha256_of_file(next(tmp_path.iterdir())))
    assert publish.unlike_gpt2() == ""


def test_each_edition_knows_its_own_address(tmp_path, monkeypatch):
    seen = []

    def run(command, env, check):
        seen.append((env["LNATTN_MODEL"], env["LNATTN_MODEL_WHY"], env["LNATTN_SITE_URL"]))
        return type("Done", (), {"returncode": 0})

    monkeypatch.setattr(publish.subprocess, "run", run)
    monkeypatch.setenv("LNATTN_SITE_URL", "https://example.org/book/")
    publish.build(tmp_path, Choice("gpt2", "cached"), tmp_path)
    publish.build(tmp_path, Choice("book-gpt2", "embedded"), tmp_path, "embedded")
    monkeypatch.delenv("LNATTN_SITE_URL")
    publish.build(tmp_path, Choice("gpt2", "cached"), tmp_path)
    assert seen == [
        ("gpt2", "cached", "https://example.org/book"),
        ("book-gpt2", "embedded", "https://example.org/book/embedded"),
        ("gpt2", "cached", ""),
    ]


def test_an_edition_whose_pdf_fails_is_published_without_it(monkeypatch, tmp_path):
    asked, said = [], []
    monkeypatch.setattr(publish, "say", said.append)

    def run(command, env, check):
        asked.append("--pdf" in command)
        return type("Done", (), {"returncode": 2 if "--pdf" in command else 0})

    monkeypatch.setattr(publish.subprocess, "run", run)
    monkeypatch.setattr(publish, "find_chromium", lambda: "chromium")
    assert publish.build(tmp_path, Choice("gpt2", "cached"), tmp_path) == 0
    assert asked == [True, False]
    assert "without it" in said[0]
    asked.clear()
    monkeypatch.setattr(publish, "find_chromium", lambda: None)
    assert publish.build(tmp_path, Choice("gpt2", "cached"), tmp_path) == 0
    assert asked == [False]


def test_the_place_for_the_link_is_in_the_themes_pages():
    """The marks that `editions` looks for are those of the theme that is installed."""
    theme = pytest.importorskip(
        "sphinx_book_theme", reason="the book's theme is absent: pip install .[book]"
    )
    folder = Path(theme.__file__).parent / "theme" / "sphinx_book_theme"
    text = "".join(path.read_text() for path in folder.rglob("*.html"))
    assert 'class="article-header-buttons"' in text
    assert editions.FRONT == "book/index.html"


LONG_PAGE = """<html><body><header>{buttons}</header><main id="main-content">
<article class="bd-article"><section id="one" style="height: 3000px"><h1>1</h1>
<section id="two" style="margin-top: 1500px"><h2>2</h2></section></section></article></main>
<script src="{script}"></script></body></html>"""


@pytest.mark.skipif(browser.find() is None, reason="no Chromium; apt-get install chromium")
def test_the_link_leads_to_the_place_that_is_being_read(tmp_path, chromium):
    script = ROOT / "src" / "booksite" / "assets" / "reading.js"
    both = []
    for name in ("one", "two"):
        front = tmp_path / name / editions.FRONT
        front.parent.mkdir(parents=True)
        page = LONG_PAGE.format(
            buttons='<div class="article-header-buttons"></div>', script="../reading.js"
        )
        front.write_text(page)
        (tmp_path / name / "reading.js").write_text(script.read_text())
        both.append(Edition(name, tmp_path / name, "" if name == "one" else "embedded"))
    root = assemble(tmp_path / "site", both)
    follow = """(() => {
      const link = document.querySelector('a.edition-switch');
      link.addEventListener('click', (event) => event.preventDefault());  // see where, but stay
      link.click();
      return link.href;
    })()"""
    for scroll, place in ((0, ""), (1600, "#two")):
        tab = chromium.open(800, 600)
        try:
            tab.go((root / editions.FRONT).as_uri())
            tab.evaluate(f"window.scrollTo(0, {scroll})")
            expected = (root / "embedded" / editions.FRONT).as_uri() + place
            assert tab.evaluate(follow) == expected
        finally:
            tab.close()
