"""Two editions of the book in one site, and what is published when GPT-2 cannot be had."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from booksite import publish
from booksite.editions import Edition, assemble
from booksite.inputs import PUBLISHED
from booksite.settings import BUILD, Folders
from lnattn.errors import ResultError
from lnattn.models.choice import Choice
from lnattn.storage import write_json
from lnattn_book.page.names import ROTARY

PAGE = """<html><body><div class="article-header-buttons"></div>
<article class="bd-article"><section id="{name}"><h1>{name} on {model}</h1></section></article>
</body></html>"""


def site(folder: Path, model: str, *pages: str) -> Path:
    for page in (*pages, "book/index.html"):
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.format(name=path.stem, model=model))
    (folder / "index.html").write_text('<meta http-equiv="refresh" content="book/index.html">')
    (folder / "_static" / "lnattn").mkdir(parents=True, exist_ok=True)
    (folder / "_static" / "style.css").write_text(model)
    write_json(folder / "claims.json", {"claims": []})
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


def test_a_folder_that_is_no_site_of_this_book_is_not_replaced(two, tmp_path):
    own = tmp_path / "site"
    own.mkdir()
    (own / "index.html").write_text("my own pages")
    with pytest.raises(ResultError, match="no site of this book"):
        assemble(own, two)
    assert (own / "index.html").read_text() == "my own pages"
    (own / "index.html").unlink()
    assert assemble(own, two) == own
    (tmp_path / "a-file").write_text("my own")
    with pytest.raises(ResultError, match="no site of this book"):
        assemble(tmp_path / "a-file", two)


def test_a_site_that_is_not_built_replaces_nothing(two, tmp_path):
    site(tmp_path / "site", "old")
    with pytest.raises(ResultError, match="make book"):
        assemble(tmp_path / "site", [two[0], Edition("x", tmp_path / "none", "x")])
    (two[1].site / "book/index.html").write_text("a page of another theme")
    (two[1].site / "notebooks/06-heads.html").write_text("a page of another theme")
    with pytest.raises(ResultError, match="header"):
        assemble(tmp_path / "site", two)
    with pytest.raises(ResultError, match="note"):
        assemble(tmp_path / "site", [Edition("book-gpt2", two[1].site)], "a note")
    assert "on old" in (tmp_path / "site/book/index.html").read_text()


@pytest.fixture
def press(tmp_path, monkeypatch):
    """`publish` with its long parts replaced; returns what was done, in order."""
    done = []

    def build(root, choice, output, folder=""):
        done.append(("build", choice.name, folder))
        site(Folders(output / BUILD).html, choice.name, "notebooks/06-heads.html")
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


@pytest.mark.parametrize("failing", ["gpt2", "book-gpt2"])
def test_nothing_is_put_together_when_one_edition_fails(press, tmp_path, monkeypatch, failing):
    monkeypatch.setattr(publish, "build", lambda root, choice, *_: 3 * (choice.name == failing))
    assert publish.publish(tmp_path) == 3
    assert not (tmp_path / "_build" / "site").exists()


def test_an_edition_that_has_lost_pages_replaces_nothing(press, tmp_path):
    write_json(tmp_path / PUBLISHED, {"book-gpt2": {"pages": 3, "claims": 0}})
    assert publish.publish(tmp_path) == 1
    assert len(press) == 4
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
        with pytest.raises(ResultError, match="cache"):
            publish.unlike_gpt2()
    monkeypatch.setattr(publish, "GPT2_SHA256", publish.sha256_of_file(next(tmp_path.iterdir())))
    assert publish.unlike_gpt2() == ""


# ---- Editions ------------------------------------------------------------------------------------


def test_a_page_without_a_header_is_passed_over_and_a_link_is_put_in_once(tmp_path):
    """Also where one page of an edition has a header, and that page quotes it."""
    one, other = site(tmp_path / "one", "A & B"), site(tmp_path / "two", "C")
    (one / "404.html").write_text("<p>not here</p>")
    (one / "book/index.html").write_text(2 * PAGE.format(name="index", model="A & B"))
    target = tmp_path / "deep" / "er" / "site"
    editions = [Edition("A & B", one), Edition("C", other, "embedded")]
    assert assemble(target, editions, "a note") == target
    assert link_of(target / "book/index.html") == target / "embedded/book/index.html"
    assert (target / "book/index.html").read_text().count("edition-note") == 1
    assert "edition-note" not in (target / "embedded/book/index.html").read_text()
    assert ">on A &amp; B</a>" in (target / "embedded/book/index.html").read_text()
    assert (target / "404.html").read_text() == "<p>not here</p>"
    assert target.stat().st_mode & 0o777 == 0o755, "a server of another user may read it"


# ---- Commands ------------------------------------------------------------------------------------


@pytest.fixture
def commands(monkeypatch):
    """What is started, with its environment; all of it ends with `status`."""
    state = SimpleNamespace(started=[], status=0)

    def run(command, env=None, check=True):
        state.started.append((command, env))
        if check and state.status:
            raise subprocess.CalledProcessError(state.status, command)
        return subprocess.CompletedProcess(command, state.status)

    monkeypatch.setattr(publish.subprocess, "run", run)
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr(publish, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    return state


def test_a_command_says_what_it_is_and_how_long_it_took(commands, capsys):
    commands.status = 4
    assert publish.lnattn("freeze", "gpt2", "--out", "x") == 4
    ((command, _),) = commands.started
    assert command == [sys.executable, "-m", "lnattn_book", "freeze", "gpt2", "--out", "x"]
    said = capsys.readouterr().out.splitlines()
    assert said == ["[book] lnattn_book freeze gpt2", "[book] lnattn_book freeze gpt2: 5 s"]


@pytest.mark.parametrize(
    ("address", "folder", "told"),
    [
        ("", "x", ""),
        (" https://e.org/b/ ", "", "https://e.org/b"),
        ("https://e.org", "x", "https://e.org/x"),
    ],
)
def test_an_edition_is_built_strictly_for_its_own_address(
    commands, monkeypatch, tmp_path, address, folder, told
):
    monkeypatch.setenv("LNATTN_SITE_URL", address)
    monkeypatch.setenv("LNATTN_MODEL", "another")
    commands.status = 3
    assert publish.build(tmp_path, Choice("tiny", "why"), tmp_path / "out", folder) == 3
    ((command, env),) = commands.started
    assert command == [
        *(sys.executable, "-m", "booksite.build", "--strict"),
        *("--root", str(tmp_path), "--output", str(tmp_path / "out")),
    ]
    assert (env["LNATTN_MODEL"], env["LNATTN_MODEL_WHY"]) == ("tiny", "why")
    assert env["LNATTN_SITE_URL"] == told
    assert env["PATH"] == os.environ["PATH"]


def test_all_goes_below_the_folder_that_is_named(press, tmp_path, monkeypatch, capsys):
    """And what cannot be frozen or built ends it."""
    told, failing = [], []

    def command(*words):
        told.append(words)
        return 6 if words[0] in failing else 0

    monkeypatch.setattr(publish, "lnattn", command)
    monkeypatch.setattr(publish, "freeze_rotary", lambda folder: told.append(folder))
    clock = iter((100.0, 107.0))
    monkeypatch.setattr(publish, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    out = tmp_path / "out"
    assert publish.publish(tmp_path / "root", out) == 0
    assert told == [
        ("verify", "gpt2"),
        ("freeze", "gpt2", "--out", str(out / "frozen" / "gpt2")),
        out / "frozen",
    ]
    assert f"published in 7 s: GPT-2 and book-gpt2, in {out / 'site'}" in capsys.readouterr().out
    assert (out / "gpt2" / "_build" / "html" / "book" / "index.html").is_file()
    assert (tmp_path / "root" / "_build" / "html" / "book" / "index.html").is_file()
    monkeypatch.setattr(publish, "time", SimpleNamespace(monotonic=lambda: 0.0))
    failing.append("freeze")
    assert publish.publish(tmp_path / "root", out) == 6
    assert "is left out" not in capsys.readouterr().out, "GPT-2 was verified"


def test_rotary_models_that_are_at_hand_are_frozen(monkeypatch, tmp_path, capsys):
    absent, fails = ROTARY[0], ROTARY[1]
    told = []

    def freeze(*words):
        told.append(words)
        return int(words[1] == fails)

    monkeypatch.setattr(publish, "lnattn", freeze)
    lacking = {publish.hub.PINNED[absent]: ["model.safetensors"]}
    monkeypatch.setattr(publish.hub, "missing_files", lambda pin: lacking.get(pin, []))
    publish.freeze_rotary(tmp_path)
    assert told == [("freeze", fails, "--only", "rotary", "--out", str(tmp_path / fails))]
    said = capsys.readouterr().out
    assert f"{absent} is not frozen: neither the cache nor the hub has it" in said
    assert f"{fails} is not frozen: the reason is above" in said
    lacking.clear()
    monkeypatch.setattr(publish, "lnattn", lambda *_: 0)
    publish.freeze_rotary(tmp_path)
    assert capsys.readouterr().out == ""


def test_a_digest_is_told_by_its_first_twelve_signs(tmp_path, monkeypatch):
    monkeypatch.setattr(publish.hub, "snapshot", lambda pin: tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    digest = publish.sha256_of_file(tmp_path / "model.safetensors")
    shown = re.compile(r"SHA-256 ([0-9a-f]*)…")
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    with pytest.raises(ResultError) as refused:
        publish.unlike_gpt2()
    assert shown.findall(str(refused.value)) == [digest[:12]]
    assert f"GPT-2's have {publish.GPT2_SHA256[:12]}…" in str(refused.value)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert shown.findall(publish.unlike_gpt2()) == [digest[:12]]
    monkeypatch.setattr(publish.hub, "snapshot", lambda pin: None)
    assert "SHA-256 none…" in publish.unlike_gpt2()


def test_the_command_publishes_this_repository_and_an_error_is_one_line(
    monkeypatch, tmp_path, capsys
):
    asked = []

    def refuse(root, output):
        asked.append(output)
        raise ResultError("there is no hub.")

    monkeypatch.setattr(publish, "publish", refuse)
    monkeypatch.chdir(tmp_path)
    assert publish.main([]) == publish.main(["--output", "out"]) == 2
    assert asked == [None, tmp_path / "out"]
    assert capsys.readouterr().err == 2 * "[book] there is no hub.\n"
