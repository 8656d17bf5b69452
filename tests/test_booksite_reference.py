"""The API reference: all that is public has a place on its pages, and the pages build unmarred.

Skipped, by name, where Sphinx (the extra `book`) is not installed.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
import yaml

import lnattn.studies

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from small_site import build

from booksite.reference import documented_by, modules_below

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "book").glob("api*.md"))


def public_names() -> list[str]:
    """Every module of the package, and its public classes, functions and their methods."""
    names = []
    for info in pkgutil.walk_packages(lnattn.__path__, "lnattn."):
        if info.ispkg:
            continue
        names.append(info.name)
        for name, thing in vars(importlib.import_module(info.name)).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != info.name:
                continue
            if inspect.isclass(thing) or inspect.isfunction(thing):
                names.append(f"{info.name}.{name}")
            if inspect.isclass(thing):
                names += [
                    f"{info.name}.{name}.{key}"
                    for key, value in vars(thing).items()
                    if not key.startswith("_")
                    and (inspect.isroutine(value) or isinstance(value, property))
                ]
    return names


def test_every_module_is_on_a_page_once() -> None:
    everything = set(modules_below("lnattn"))
    listed = [
        module
        for page in PAGES
        for modules in documented_by(page.read_text(encoding="utf-8")).values()
        for module in modules
    ]
    assert len(listed) == len(set(listed)), "modules on two pages"
    missing = sorted(everything - set(listed))
    assert not missing, f"name their packages in an {{api}} block of a page of book/: {missing}"


def test_every_page_is_in_the_book() -> None:
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    absent = [page.stem for page in PAGES if f"file: book/{page.stem}\n" not in contents]
    assert not absent, "pages that _toc.yml forgets"


#: Pages of one study each: chapter -> page.
STUDIES = {
    "06": "affinity", "07": "position", "08": "contribution", "10": "majority",
    "11": "selectability", "04": "circuits",
}  # fmt: skip
_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("chapter", STUDIES)
def test_the_page_of_a_study_has_an_example_that_runs(chapter, capsys) -> None:
    page = (ROOT / "book" / f"api-{STUDIES[chapter]}.md").read_text(encoding="utf-8")
    assert f"</notebooks/{chapter}-" in page
    (example,) = _CODE.findall(page)
    exec(compile(example, f"api-{STUDIES[chapter]}.md", "exec"), {})  # trusted: our own file
    assert capsys.readouterr().out.strip()


def test_every_study_has_a_page_of_its_own() -> None:
    named = [
        name
        for page in PAGES
        for name in documented_by(page.read_text(encoding="utf-8"))
        if name.startswith("lnattn.studies")
    ]
    below = {info.name for info in pkgutil.iter_modules(lnattn.studies.__path__, "lnattn.studies.")}
    assert set(named) == below


def build_pages(folder: Path, pages: list[Path], *more: str) -> tuple:
    """Pages built alone, with the book's own settings: the site, warnings, and application."""
    texts = {}
    for page in pages:
        # In the book, _toc.yml ties the pages together; here the first one does.
        tree = "\n```{toctree}\n:glob:\n*-*\n```\n" if page == pages[0] and pages[1:] else ""
        # The chapters are not here to be linked to.
        text = re.sub(r"\{doc\}`([^<`]+?) </notebooks/[^`]+`", r"\1", page.read_text("utf-8"))
        texts[page.name] = text + tree
    book = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    settings = book["sphinx"]["config"]
    chosen = ("autodoc", "nitpick", "python_", "maximum_", "toc_object", "myst_heading")
    wanted = (".autodoc", *more)
    extensions = [e for e in settings["extensions"] if e.endswith(wanted)]
    return build(
        folder,
        texts,
        **{key: value for key, value in settings.items() if key.startswith(chosen)},
        extensions=["myst_parser", *extensions, "booksite.reference"],
        root_doc=pages[0].stem,
        nitpicky=True,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple:
    """All pages, without those of the source, which take longest."""
    first = ROOT / "book" / "api.md"
    pages = [first, *(page for page in PAGES if page != first)]
    return build_pages(tmp_path_factory.mktemp("reference"), pages)


def test_the_pages_build_without_a_warning(built) -> None:
    _, warnings, _ = built
    assert warnings == ""


def test_everything_public_has_an_anchor(built) -> None:
    out, _, app = built
    assert len(public_names()) > 300
    text = {page.stem: (out / f"{page.stem}.html").read_text(encoding="utf-8") for page in PAGES}
    home = app.env.get_domain("py").objects
    lost = [
        name
        for name in public_names()
        if name not in home
        or f'id="{home[name].node_id}"' not in text[home[name].docname]
        or home[name].node_id not in (name, f"module-{name}")
    ]
    assert not lost


def test_functions_lead_to_their_source(built, tmp_path) -> None:
    study = (built[0] / "api-affinity.html").read_text(encoding="utf-8")
    assert "are the factors of T^ee" in study, "what the package says of itself"
    out, _, _ = build_pages(tmp_path, [ROOT / "book" / "api-attention.md"], ".viewcode")
    page = (out / "api-attention.html").read_text(encoding="utf-8")
    assert 'href="_modules/lnattn/attention/folding.html#fold"' in page
    source = (out / "_modules" / "lnattn" / "attention" / "folding.html").read_text("utf-8")
    assert 'id="fold"' in source
    index = (out / "_modules" / "index.html").read_text("utf-8")
    listed = re.findall(r'<li><a href="([^"]+)"', index)
    assert len(listed) > 10
    assert not [name for name in listed if not (out / "_modules" / name).is_file()]


def test_what_can_be_imported_from_lnattn_is_explained() -> None:
    page = (ROOT / "book" / "api.md").read_text(encoding="utf-8")
    assert not [name for name in lnattn.__all__ if f"`{name} <lnattn." not in page]
