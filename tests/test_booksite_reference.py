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

import lnattn

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from small_site import build

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "book").glob("api*.md"))


def public_names() -> list[str]:
    """Every module of the package, and its public classes, functions and their methods."""
    names = []
    for info in pkgutil.walk_packages(lnattn.__path__, "lnattn."):
        if info.ispkg or info.name.endswith("__main__"):
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


_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = _CODE.findall((ROOT / "book" / "api.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", EXAMPLES, ids=["affinity", "position", "contribution", "keys"])
def test_the_examples_of_the_reference_run(example, capsys) -> None:
    exec(compile(example, "api.md", "exec"), {})  # trusted: our own file
    assert capsys.readouterr().out.strip()


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
