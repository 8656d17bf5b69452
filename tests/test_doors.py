"""Where the doors out of a page lead, and that none is there without an address."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from sphinx.config import Config

from booksite import doors


@pytest.fixture(autouse=True)
def no_addresses(monkeypatch):
    for name in ("LNATTN_REPOSITORY", "LNATTN_SITE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def clone(tmp_path):
    """clone(ORIGIN): a clone of a repository there; clone(): one without an origin."""

    def made(origin: str = ""):
        subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
        if origin:
            named = ["git", "-C", str(tmp_path), "remote", "add", "origin", origin]
            subprocess.run(named, check=True)
        return tmp_path

    return made


def config_of_book(address: str = "", site: str = "") -> Config:
    config = Config({}, {})
    options = {"path_to_docs": "", "repository_url": address}
    for name, value in {"html_theme_options": options, "html_baseurl": site}.items():
        config.add(name, value, "html", ())
    return config


@pytest.mark.parametrize(
    ("origin", "seen"),
    [
        ("https://github.com/owner/book.git", "https://github.com/owner/book"),
        ("https://github.com/owner/book/", "https://github.com/owner/book"),
        ("https://gitlab.com/group/inner/book", "https://gitlab.com/group/inner/book"),
        ("https://name:secret@github.com/owner/book.git", "https://github.com/owner/book"),
        ("https://secret@github.com:443/owner/book", "https://github.com/owner/book"),
        ("https://git.company.internal/owner/book", ""),
        ("https://github.com.evil.example/owner/book", ""),
        ("https://10.0.0.3/owner/book", ""),
        ("https://github.com:8443/owner/book", ""),
        ("https://github.com/owner", ""),
        ("http://github.com/owner/book", ""),
        ("git@github.com:owner/book.git", ""),
        ("ssh://git@github.com/owner/book", ""),
        ("/home/somebody/book", ""),
        ("https://[github.com/owner/book", ""),
        ("", ""),
    ],
)
def test_an_origin_is_shown_where_it_is_public_and_without_its_secret(clone, origin, seen):
    assert doors.public_address(origin) == seen
    assert doors.repository_address(clone(origin)) == seen


def test_the_setting_decides_then_the_configuration_then_the_origin(clone, monkeypatch):
    root = clone("https://github.com/owner/book")
    assert doors.repository_address(root, "https://example.org/configured/") == (
        "https://example.org/configured"
    )
    monkeypatch.setenv("LNATTN_REPOSITORY", " https://example.org/set ")
    assert doors.repository_address(root, "https://example.org/configured") == (
        "https://example.org/set"
    )


def test_a_folder_within_another_clone_has_no_origin_of_its_own(clone):
    inner = clone("https://github.com/owner/other") / "book"
    inner.mkdir()
    assert doors.origin_of(inner) == ""


def test_without_git_there_is_no_origin(clone, monkeypatch):
    root = clone("https://github.com/owner/book")
    monkeypatch.setattr(doors.shutil, "which", lambda _name: None)
    assert doors.origin_of(root) == ""


def test_nothing_is_shown_without_an_address(clone):
    config = config_of_book(site="as it was")
    doors.use_addresses(config, clone())
    assert config.html_theme_options == {"path_to_docs": "", "repository_url": ""}
    assert config.html_baseurl == "as it was"


def test_every_page_has_three_links_where_the_address_is_known(clone, monkeypatch):
    monkeypatch.setenv("LNATTN_SITE_URL", "https://example.org/site")
    config = config_of_book()
    doors.use_addresses(config, clone("https://github.com/owner/book"))
    options = config.html_theme_options
    assert options["repository_url"] == "https://github.com/owner/book"
    assert options["repository_branch"] == "main"
    for button in ("repository", "edit_page", "issues"):
        assert options[f"use_{button}_button"] is True
    assert set(options["launch_buttons"]) == {"notebook_interface", "binderhub_url", "colab_url"}
    assert options["path_to_docs"] == ""
    assert config.html_baseurl == "https://example.org/site"


def test_colab_is_offered_for_github_alone(clone):
    config = config_of_book("https://gitlab.com/owner/book")
    doors.use_addresses(config, clone())
    assert "colab_url" not in config.html_theme_options["launch_buttons"]


def launched(address: str) -> dict[str, str]:
    """What the theme's three kinds of buttons lead to, by their words."""
    app = SimpleNamespace(config=SimpleNamespace(html_theme_options={"repository_url": address}))
    buttons = [{"text": "Binder", "url": "b"}, {"text": "Colab", "url": "…/notebooks/05-a.md"}]
    groups = [{"label": "source-buttons", "buttons": []}]
    groups.append({"label": "launch-buttons", "buttons": buttons})
    doors.lead_on(app, "notebooks/05-a", "page.html", {"header_buttons": groups}, None)
    assert groups[0]["buttons"] == []
    return {button["text"]: button["url"] for button in buttons}


def test_colab_opens_the_executed_notebook_and_codespaces_the_clone():
    """Colab cannot open the Markdown that the theme's button leads to."""
    assert launched("https://github.com/owner/book") == {
        "Binder": "b",
        "Colab": "https://colab.research.google.com/github/owner/book/blob/notebooks/"
        "notebooks/05-a.ipynb",
        "Codespaces": "https://codespaces.new/owner/book?quickstart=1",
    }


def test_elsewhere_the_themes_buttons_stay_as_they_are():
    assert launched("https://gitlab.com/owner/book") == {
        "Binder": "b",
        "Colab": "…/notebooks/05-a.md",
    }
