"""A small Sphinx extension: the API reference lists the package's modules by itself.

    ```{api} lnattn.affinity
    ```

documents a package and the modules that lie right in it, with all that is public in them; each name
has a link to its source where the repository's address is known. The packages below it have pages
of their own.

    ```{api-index} lnattn
    ```

names every module of the package and of those below it, each with its first line and its public
names. Until November 2026 all of them stood on that page: its anchors are those of that time, and a
script leads on from them.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from booksite.inputs import digest_of, files_below

#: Where a page keeps, in Sphinx's metadata, that it is the index.
INDEX = "api_index"
#: Where a page keeps, in Sphinx's metadata, of which package it tells and in which state.
STATE = "api"
_BLOCK = re.compile(r"^```\{api\} +([\w.]+)\n```$", re.MULTILINE)


# ---- Modules, by their files ---------------------------------------------------------------------


def modules_below(name: str) -> Iterator[str]:
    """The names of a package and of all modules below it, but of those that are run.

    They are found by their files: to import them all would take seconds in every build. Raises
    `ImportError` where there is no such module.
    """
    yield name
    for info in _entries(name):
        module = f"{name}.{info.name}"
        if info.ispkg:
            yield from modules_below(module)
        else:
            yield module


def modules_in(name: str) -> list[str]:
    """The names of a package and of the modules right in it; `ImportError` where there is none."""
    return [name, *(f"{name}.{info.name}" for info in _entries(name) if not info.ispkg)]


def _entries(package: str) -> Iterator[pkgutil.ModuleInfo]:
    folders = _spec(package).submodule_search_locations or ()
    for info in pkgutil.iter_modules(list(folders)):  # by name
        if info.name != "__main__":
            yield info


def _spec(name: str) -> Any:
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ImportError(f"there is no module {name}")
    return spec


def folder_of(module: str) -> Path:
    """The folder of the outermost package."""
    return Path(_spec(module.partition(".")[0]).submodule_search_locations[0])


def source_of(module: str) -> Path:
    """A module's file. To ask Python for it would import the packages above it, and PyTorch."""
    path = folder_of(module).joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@dataclass(frozen=True)
class Summary:
    """A module as the index shows it: its file, its first line, and its public names in order."""

    module: str
    file: str
    line: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, module: str) -> Summary:
        """Read from the module's source, which is not run."""
        file = source_of(module)
        tree = ast.parse(file.read_text(encoding="utf-8"))
        line = (ast.get_docstring(tree) or "").partition("\n")[0]
        names = (node.name for node in tree.body if isinstance(node, _NAMED))
        return cls(module, str(file), line, tuple(name for name in names if name[0] != "_"))


_NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


# ---- Pages ---------------------------------------------------------------------------------------


def markdown(modules: Iterable[str]) -> str:
    """The Markdown that documents a package, the first of them, and its modules, a section each."""
    package, *others = modules
    return "\n".join(
        [automodule(package), *(f"## {name}\n\n{automodule(name)}" for name in others)]
    )


def automodule(module: str) -> str:
    """The Markdown that documents what is defined in a module, not what it imports."""
    options = "".join(f"   :{name}:\n" for name in ("members", "ignore-module-all", "no-value"))
    return f"```{{eval-rst}}\n.. automodule:: {module}\n{options}```\n"


def keep_undocumented(
    _app: Sphinx, _what: str, name: str, thing: Any, skip: bool, _options: Any
) -> bool | None:
    """Sphinx's event `autodoc-skip-member`: what is public appears, with a docstring or without.

    Fields of dataclasses and plain constants are left to their comments.
    """
    code = inspect.isroutine(thing) or inspect.isclass(thing) or isinstance(thing, property)
    return False if skip and code and not name.startswith("_") else None


def expand(app: Sphinx, document: str, source: list[str]) -> None:
    """Sphinx's event `source-read`: replaces the block in `source[0]`."""
    for block in list(_BLOCK.finditer(source[0])):
        try:
            modules = modules_in(block[1])
        except ImportError as error:
            raise ExtensionError(f"{document}: {block[1]} cannot be imported: {error}") from error
        note_state(app, document, block[1])
        source[0] = source[0].replace(block[0], markdown(modules))


class Index(SphinxDirective):
    """`{api-index}`: every module with a line and its names, each of them a link."""

    required_arguments = 1
    has_content = False

    def run(self) -> list[nodes.Node]:
        package = self.arguments[0]
        self.env.metadata[self.env.docname][INDEX] = True
        note_state(self.env.app, self.env.docname, package)
        items = map(self._item, map(Summary.of, modules_below(package)))
        return [nodes.definition_list("", *items, classes=["api-index"])]

    def _item(self, summary: Summary) -> nodes.definition_list_item:
        module = summary.module
        term = nodes.term("", "", self._link("mod", module, module, f"module-{module}"))
        about = nodes.definition("", nodes.paragraph("", *self._inline(summary.line)))
        links = [self._link("obj", f"{module}.{name}", name) for name in summary.names]
        if links:
            separated = [part for link in links for part in (nodes.Text(" · "), link)][1:]
            about += nodes.paragraph("", "", *separated)
        return nodes.definition_list_item("", term, about)

    def _link(self, role: str, target: str, shown: str, anchor: str = "") -> nodes.Node:
        """A link to a name's own page, where its old anchor stands."""
        link = addnodes.pending_xref(
            "",
            nodes.literal("", shown, classes=["xref", "py"]),
            refdomain="py",
            reftype=role,
            reftarget=target,
            refexplicit=True,
            refwarn=True,
            refdoc=self.env.docname,
        )
        return nodes.inline("", "", link, ids=[anchor or target])

    def _inline(self, text: str) -> list[nodes.Node]:
        nodes_and_messages = self.state.inline_text(text, self.lineno)
        return nodes_and_messages[0]


def note_state(app: Sphinx, page: str, package: str) -> None:
    """Keep of which package a page tells, and in which state, for `of_another_state`."""
    app.env.metadata[page][STATE] = (package, state_of(folder_of(package)))


def state_of(package: Path) -> str:
    """Digest of a package's files."""
    return digest_of(package, files_below(package), {})


def of_another_state(_app: Sphinx, env: BuildEnvironment, *_: set[str]) -> list[str]:
    """Sphinx's event `env-get-outdated`: pages of a package that has changed since, anywhere.

    A module's own file is not all that its page shows: signatures come from base classes, too.
    """
    state = functools.cache(state_of)
    told = ((page, facts[STATE]) for page, facts in env.metadata.items() if STATE in facts)
    return [page for page, (package, then) in told if state(folder_of(package)) != then]


def lead_on(app: Sphinx, page: str, _template: str, _context: Any, _doctree: Any) -> None:
    """Sphinx's event `html-page-context`: the index leads on from its old anchors."""
    if INDEX in app.env.metadata.get(page, {}):
        app.add_js_file("lnattn/api-index.js", loading_method="defer")


@dataclass(frozen=True)
class SourceLinks:
    """The address of a name's source, as `sphinx.ext.linkcode` asks for it; None where unknown."""

    repository: str

    def __call__(self, _domain: str, info: dict[str, str]) -> str | None:
        if not self.repository:
            return None
        try:
            module = importlib.import_module(info["module"])
            thing = functools.reduce(getattr, info["fullname"].split("."), module)
            line = inspect.getsourcelines(getattr(thing, "fget", thing))[1]
        except (AttributeError, ImportError, OSError, TypeError):
            return None
        path = info["module"].replace(".", "/") + (
            "/__init__" if hasattr(module, "__path__") else ""
        )
        return f"{self.repository}/blob/main/src/{path}.py#L{line}"


def use_links(_app: Sphinx, config: Any) -> None:
    """Sphinx's event `config-inited`."""
    address = (config.html_theme_options or {}).get("repository_url") or ""
    config.linkcode_resolve = SourceLinks(address.rstrip("/"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the events above."""
    app.setup_extension("sphinx.ext.linkcode")
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", keep_undocumented)
    app.connect("config-inited", use_links)
    app.connect("source-read", expand)
    app.add_directive("api-index", Index)
    app.connect("env-get-outdated", of_another_state)
    app.connect("html-page-context", lead_on)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
