"""What the pages load lies beside them: scripts, templates, and a part of MathJax."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from bs4 import BeautifulSoup
from small_site import build
from sphinx.errors import ExtensionError

from booksite import assets


@pytest.fixture
def carrier(tmp_path, monkeypatch):
    """A package that carries MathJax, of which every part is one small file."""
    mathjax = tmp_path / "packages" / "sphinx-mathjax-offline" / "static" / "mathjax"
    for part in (*assets.MATHJAX_PARTS, "unasked"):
        path = mathjax / part if "." in part else mathjax / part / "part.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"it is {part}")
    package = SimpleNamespace(version="1", locate_file=lambda name: tmp_path / "packages" / name)
    monkeypatch.setattr(assets, "distribution", lambda _name: package)
    return mathjax


def test_pages_find_their_scripts_and_mathjax_and_this_books_templates(carrier, tmp_path):
    pages = {"index.rst": "A page\n======\n\nWords.\n", "_other/search.html": "not this one"}
    for _ in range(2):
        settings = {"extensions": ["booksite.assets"], "templates_path": ["_other"]}
        site, warnings, app = build(tmp_path, pages, **settings)
        assert warnings == ""
    assert app.config.templates_path == [str(assets.TEMPLATES), "_other"]
    assert (site / "_static" / "lnattn" / "reading.js").is_file()
    (script,) = BeautifulSoup((site / "index.html").read_text(), "html.parser").select(
        'script[src*="reading.js"]'
    )
    assert script.has_attr("defer")
    copied = {
        path.relative_to(site / "_static" / "mathjax").as_posix(): path.read_text()
        for path in (site / "_static" / "mathjax").rglob("*.js*")
    }
    parts = {name if "." in name else f"{name}/part.js": name for name in assets.MATHJAX_PARTS}
    assert copied == {file: f"it is {part}" for file, part in parts.items()}


def test_other_builders_get_no_files(carrier, tmp_path):
    app = SimpleNamespace(builder=SimpleNamespace(format="latex"), outdir=tmp_path / "out")
    assets.copy_files(app)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("moves", [True, False])
def test_searching_and_pages_that_moved_are_this_books_own(moves):
    class Config(SimpleNamespace):
        def __contains__(self, name: str) -> bool:
            return hasattr(self, name)

    old = {"redirect_html_template_file": "theirs"} if moves else {}
    config = Config(templates_path=["theirs"], html_search_scorer="", **old)
    assets.use_templates(None, config)
    assert config.templates_path == [str(assets.TEMPLATES), "theirs"]
    assert config.html_search_scorer == str(assets.FOLDER / "search.js")
    moved = getattr(config, "redirect_html_template_file", None)
    assert moved == (str(assets.TEMPLATES / "redirect.html") if moves else None)


def test_a_package_that_is_absent_or_has_no_mathjax_is_one_sentence(carrier, monkeypatch):
    assert assets.mathjax_folder() == carrier
    (carrier / "tex-chtml.js").unlink()
    with pytest.raises(ExtensionError, match=r"sphinx-mathjax-offline 1 .*tex-chtml\.js"):
        assets.mathjax_folder()

    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(assets, "distribution", absent)
    with pytest.raises(ExtensionError, match="pip install"):
        assets.mathjax_folder()
