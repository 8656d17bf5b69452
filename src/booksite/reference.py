"""A small Sphinx extension: pages of the API reference that list a package's modules by themselves.

A page names the packages or modules that it documents:

    ```{api} lnattn.attention
    ```

The block becomes one section for each module, with all that is public in it, after what the package
says of itself. So a new module appears without being listed; only a new package needs its name on
some page. (Tried instead: `automodule` lines by hand are 1,440 for the 240 modules, and what
packages offer alone leaves out 1,260 of 1,387 public names; autosummary writes a page for each
module among the sources, with lists that sphinx-external-toc warns of.)
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from booksite.docstrings import as_restructured_text

_BLOCK = re.compile(r"^```\{api\} +([\w. ]+)\n```$", re.MULTILINE)


def modules_below(name: str) -> Iterator[str]:
    """The names of all modules of a package and its packages; of a module, its own name.

    Raises `ImportError` where there is no such module, or it cannot be imported.
    """
    module = importlib.import_module(name)
    if not hasattr(module, "__path__"):
        yield name
        return
    for info in pkgutil.iter_modules(module.__path__, f"{name}."):
        yield from modules_below(info.name)


def documented_by(page: str) -> dict[str, list[str]]:
    """The packages that a page's blocks name, each with its modules."""
    names = [name for match in _BLOCK.finditer(page) for name in match[1].split()]
    return {name: list(modules_below(name)) for name in names}


def opening(package: str) -> str:
    """The Markdown with the docstring of a package; '' for a module, whose section has it."""
    found = importlib.import_module(package)
    said = found.__doc__ if hasattr(found, "__path__") else None
    if not said:
        return ""
    lines = as_restructured_text(inspect.cleandoc(said).splitlines())
    return "\n".join(["```{eval-rst}", *lines, "```", ""])


def section(module: str) -> str:
    """The Markdown that documents one module: what is defined in it, not what it imports."""
    options = "".join(f"   :{name}:\n" for name in ("members", "ignore-module-all", "no-value"))
    return f"## {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n{options}```\n"


def expand(app: Sphinx, document: str, source: list[str]) -> None:
    """Sphinx's event `source-read`: replaces the blocks in `source[0]`."""
    try:
        modules = documented_by(source[0])
    except ImportError as error:
        raise ExtensionError(f"{document} documents what cannot be imported: {error}") from error
    if modules:
        app.env.metadata[document]["api"] = modules

        def sections(match: re.Match[str]) -> str:
            names = match[1].split()
            parts = ([opening(name), *map(section, modules[name])] for name in names)
            return "\n".join(part for some in parts for part in some)

        source[0] = _BLOCK.sub(sections, source[0])


def with_new_modules(_app: Sphinx, env: BuildEnvironment, *_: set[str]) -> list[str]:
    """Sphinx's event `env-get-outdated`: pages whose packages have gained or lost a module."""
    return [
        document
        for document, facts in env.metadata.items()
        if any(list(modules_below(name)) != old for name, old in facts.get("api", {}).items())
    ]


def keep_undocumented(
    _app: Sphinx, _what: str, name: str, thing: Any, skip: bool, _options: Any
) -> bool | None:
    """Sphinx's event `autodoc-skip-member`: what is public appears, with a docstring or without.

    Fields of dataclasses and plain constants are left to their comments.
    """
    code = inspect.isroutine(thing) or inspect.isclass(thing) or isinstance(thing, property)
    return False if skip and code and not name.startswith("_") else None


def process_docstring(
    _app: Sphinx, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]
) -> None:
    """Sphinx's event `autodoc-process-docstring`: changes `lines` in place."""
    lines[:] = as_restructured_text(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the events above."""
    app.connect("source-read", expand)
    app.connect("env-get-outdated", with_new_modules)
    app.connect("autodoc-skip-member", keep_undocumented)
    app.connect("autodoc-process-docstring", process_docstring)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
