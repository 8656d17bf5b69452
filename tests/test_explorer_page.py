"""The parts of the explorer on pages: their places, and the scripts that each page loads."""

from __future__ import annotations

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from bs4 import BeautifulSoup
from small_site import build
from sphinx.errors import ExtensionError

from booksite.explorer import page
from booksite.explorer.publishing import PARTS, SHARED_SCRIPTS, STYLE

PAGES = {
    "index.md": "# Start\n\n```{token-explorer} widget\nA *picture*.\n```\n\n"
    "```{toctree}\nbook/token-explorer\nplain\n```\n",
    "book/token-explorer.md": "# Explorer\n\n```{token-explorer} sentence\n```\n\n"
    "```{token-explorer} heads\n```\n",
    "plain.md": "# Plain\n\n{try-this}`text=&head=1`\n",
}
OPENING = ["shared.js", "one/opening.js?v=1"]


@pytest.fixture
def published(monkeypatch):
    """The folders to which data were written, in place of data."""
    folders = []

    def publish(folder, models):
        folder.mkdir(parents=True, exist_ok=True)
        folders.append((folder, models))

    monkeypatch.setattr(page, "publish", publish)
    monkeypatch.setattr(page, "wanted_models", lambda: ["models"])
    monkeypatch.setattr(page, "opening_scripts", lambda _folder: OPENING)
    return folders


def built(folder, pages=None, **settings):
    settings = {"extensions": ["myst_parser", "booksite.explorer.page"], **settings}
    return build(folder, PAGES if pages is None else pages, **settings)


def soup(site, name) -> BeautifulSoup:
    return BeautifulSoup((site / name).read_text("utf-8"), "html.parser")


def scripts_of(shown: BeautifulSoup) -> list[str]:
    """The explorer's scripts of a page in order; all wait for it, and stand before others."""
    every = [script["src"].partition("?")[0] for script in shown.select("script[src]")]
    own = [name for name in every if "explorer/" in name]
    assert every[: len(own)] == own
    assert all(script.has_attr("defer") for script in shown.select('script[src*="explorer/"]'))
    return [name.rpartition("/")[2] for name in own]


def test_a_page_has_the_places_and_scripts_of_its_parts(published, tmp_path):
    site, warnings, _ = built(tmp_path)
    assert warnings == ""
    assert published == [(site / "_static" / "explorer", ["models"])]
    front, explorer = soup(site, "index.html"), soup(site, "book/token-explorer.html")
    (widget,) = front.select(".token-explorer")
    assert widget["data-part"] == "widget"
    still = " ".join(widget.noscript.text.split())
    assert still == f"{PARTS['widget'][0]} needs JavaScript. A picture."
    assert [part["data-part"] for part in explorer.select(".token-explorer")] == [
        "sentence",
        "heads",
    ]
    assert scripts_of(front) == [*SHARED_SCRIPTS, "terms.js", "pulls.js", "widget.js"]
    assert scripts_of(explorer) == [
        *SHARED_SCRIPTS, "terms.js", "sentence.js", "tokens.js", "heads.js"
    ]  # fmt: skip
    assert scripts_of(soup(site, "plain.html")) == []
    assert STYLE in str(front.head)
    assert STYLE not in str(soup(site, "plain.html").head)


def test_a_view_that_is_no_view_is_an_error(published, tmp_path):
    with pytest.raises(ValueError, match="bad query field"):
        built(tmp_path, {"index.md": "# Start\n\n{try-this}`head`\n"})


def test_a_part_that_is_none_is_an_error(published, tmp_path):
    _, warnings, _ = built(tmp_path, {"index.md": "# Start\n\n```{token-explorer} x\n```\n"})
    assert "there is no part 'x'; there are model, open" in warnings
    assert published == [], "no page has a part"


@pytest.mark.parametrize("place", ["pair\n", "widget\n:figure: fig-one\n"])
def test_a_widget_of_a_chapter_names_its_figure_and_no_other_does(published, tmp_path, place):
    _, warnings, _ = built(tmp_path, {"index.md": f"# Start\n\n```{{token-explorer}} {place}```\n"})
    assert ": `:figure: NAME` is for pair" in warnings
    assert published == []


def test_data_are_written_again_where_models_or_the_cache_have_changed(
    published, tmp_path, monkeypatch
):
    """And where the explorer's own code has, where no cache says so, or their folder is gone."""
    config = {"nb_execution_cache_path": "one"}

    def times(**settings) -> int:
        published.clear()
        built(tmp_path, **settings)
        return len(published)

    monkeypatch.setattr(page, "setup", _with_cache(page.setup))
    assert times(**config) == 1
    assert times(**config) == 0
    for memory in tmp_path.rglob("environment.pickle"):  # as where other code of the site changed
        memory.unlink()
    assert times(**config) == 0
    assert times(nb_execution_cache_path="two") == 1
    monkeypatch.setattr(page, "digest_of", lambda *_: "another state")
    assert times(nb_execution_cache_path="two") == 1
    monkeypatch.setattr(page, "wanted_models", lambda: ["others"])
    assert times(nb_execution_cache_path="two") == 1
    (tmp_path / "_build" / "html" / "_static" / "explorer").rmdir()
    assert times(nb_execution_cache_path="two") == 1
    assert times(nb_execution_cache_path="") == 1
    assert times(nb_execution_cache_path="") == 1


def _with_cache(setup):
    """The extension in a book that has an execution cache."""

    def both(app):
        app.add_config_value("nb_execution_cache_path", "", "")
        setup(app)

    return both


def test_the_front_page_asks_early_for_what_it_opens_with(published, tmp_path, monkeypatch):
    asked = {}

    class App:
        outdir = tmp_path
        env = type("Env", (), {"metadata": {"a": {"token_explorer": "widget"}, "b": {}}})

        def add_css_file(self, name): ...

        def add_js_file(self, name, **kind): ...

    for name in ("a", "b", "c"):
        context = {"pathto": lambda path, is_file: f"../{path}" if is_file else "a page"}
        context["metatags"] = "<meta>"
        page.load_scripts(App(), name, "", context, None)
        asked[name] = context["metatags"].splitlines()
    assert asked["b"] == asked["c"] == ["<meta>"]
    first, *links = asked["a"]
    assert first == "<meta>"
    assert [BeautifulSoup(link, "html.parser").link["href"] for link in links] == [
        f"../_static/explorer/{name}" for name in OPENING
    ]


def test_data_that_cannot_be_written_end_the_build_in_a_sentence(tmp_path, monkeypatch, published):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(page, "publish", full)
    with pytest.raises(ExtensionError, match="cannot be written: no space left"):
        built(tmp_path)
