"""A small Sphinx extension: the API reference lists the package's modules by itself.

    ```{api} lnattn
    ```

becomes one section for each module of the package, with all that is public in it; each name has a
link to its source where the repository's address is known.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

_BLOCK = re.compile(r"^```\{api\} +([\w.]+)\n```$", re.MULTILINE)


def modules_below(name: str) -> Iterator[str]:
    """The names of a package and of all modules below it, but of those that are run.

    They are found by their files: to import them all would take seconds in every build. Raises
    `ImportError` where there is no such module.
    """
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ImportError(f"there is no module {name}")
    yield name
    for folder in spec.submodule_search_locations or ():
        yield from _modules_in(Path(folder), name)


def _modules_in(folder: Path, package: str) -> Iterator[str]:
    for info in sorted(pkgutil.iter_modules([str(folder)])):
        if info.name != "__main__":
            yield f"{package}.{info.name}"
            if info.ispkg:
                yield from _modules_in(folder / info.name, f"{package}.{info.name}")


def section(module: str) -> str:
    """The Markdown that documents one module: what is defined in it, not what it imports."""
    options = "".join(f"   :{name}:\n" for name in ("members", "ignore-module-all", "no-value"))
    return f"## {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n{options}```\n"


def expand(app: Sphinx, document: str, source: list[str]) -> None:
    """Sphinx's event `source-read`: replaces the block in `source[0]`."""
    for block in list(_BLOCK.finditer(source[0])):
        try:
            modules = list(modules_below(block[1]))
        except ImportError as error:
            raise ExtensionError(f"{document}: {block[1]} cannot be imported: {error}") from error
        app.env.metadata[document]["api"] = [block[1], modules]
        source[0] = source[0].replace(block[0], "\n".join(map(section, modules)))


def with_new_modules(_app: Sphinx, env: BuildEnvironment, *_: set[str]) -> list[str]:
    """Sphinx's event `env-get-outdated`: pages whose package has gained or lost a module."""
    pages = {page: facts["api"] for page, facts in env.metadata.items() if "api" in facts}
    return [page for page, (name, old) in pages.items() if list(modules_below(name)) != old]


def keep_undocumented(
    _app: Sphinx, _what: str, name: str, thing: Any, skip: bool, _options: Any
) -> bool | None:
    """Sphinx's event `autodoc-skip-member`: what is public appears, with a docstring or without.

    Fields of dataclasses and plain constants are left to their comments.
    """
    code = inspect.isroutine(thing) or inspect.isclass(thing) or isinstance(thing, property)
    return False if skip and code and not name.startswith("_") else None


@dataclass(frozen=True)
class SourceLinks:
    """The address of a name's source, as `sphinx.ext.linkcode` asks for it; None where unknown."""

    repository: str

    def __call__(self, _domain: str, info: dict[str, str]) -> str | None:
        try:
            module = importlib.import_module(info["module"])
            thing = reduce(getattr, info["fullname"].split("."), module)
            line = inspect.getsourcelines(getattr(thing, "fget", thing))[1]
        except (AttributeError, ImportError, OSError, TypeError):
            return None
        path = info["module"].replace(".", "/") + (
            "/__init__" if hasattr(module, "__path__") else ""
        )
        return f"{self.repository}/blob/main/src/{path}.py#L{line}" if self.repository else None


def use_links(_app: Sphinx, config: Any) -> None:
    """Sphinx's event `config-inited`."""
    address = (config.html_theme_options or {}).get("repository_url") or ""
    config.linkcode_resolve = SourceLinks(address.rstrip("/"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the events above."""
    app.setup_extension("sphinx.ext.linkcode")
    app.connect("config-inited", use_links)
    app.connect("source-read", expand)
    app.connect("env-get-outdated", with_new_modules)
    app.connect("autodoc-skip-member", keep_undocumented)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
