"""What autodoc writes of the package's modules, kept from one build to the next.

To read a thousand signatures and docstrings takes an import of PyTorch, and a third of a build that
reads all pages. What comes of it, lines of reStructuredText, depends on the package alone, on what
is installed, and on autodoc's settings. So each module's lines lie beside Sphinx's own memory, with
a digest of all that. It is one of the *whole* package: a signature may come from a base class in
another module; and where the package has changed, all chapters run again, which takes far longer.
"""

from __future__ import annotations

import inspect
import logging
import platform
import sysconfig
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.ext.autodoc import ModuleDocumenter
from sphinx.util.logging import LogCollector, getLogger

from booksite.inputs import digest_of, files_below
from lnattn.errors import ResultError
from lnattn.storage import read_json, sha256_of_file, write_json

#: Where a page keeps, in Sphinx's metadata, of which package it tells and in which state.
STATE = "api"
#: Where the lines are kept, beside Sphinx's own memory: a file a module.
FOLDER = "docstrings"
#: How the names begin of the settings that autodoc's lines depend on.
_SETTINGS = ("auto", "language")
_LOGGER = getLogger(__name__)


def automodule(module: str) -> str:
    """The Markdown that documents what is defined in a module, not what it imports."""
    options = "".join(f"   :{name}:\n" for name in ("members", "ignore-module-all", "no-value"))
    return f"```{{eval-rst}}\n.. auto{KeptModule.objtype}:: {module}\n{options}```\n"


def state_of(package: Path, config: Config) -> str:
    """Digest of all that autodoc's lines on a package depend on: its folder, versions, settings."""
    places = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    installed = sorted(path.name for place in places for path in place.glob("*.dist-info"))
    facts = {
        "package": str(package),  # the lines name its files
        "written by": sha256_of_file(Path(__file__)),
        "python": platform.python_version(),
        "installed": " ".join(installed),
        **{name: repr(value) for name, value, _ in config if name.startswith(_SETTINGS)},
    }
    return digest_of(package, files_below(package), facts)


class KeptModule(ModuleDocumenter):
    """`automodule` whose lines are those of an earlier build, if the state is that of then."""

    objtype = "keptmodule"
    directivetype = ModuleDocumenter.objtype

    def generate(self, *arguments: Any, **options: Any) -> None:
        """Write the lines into `self.directive.result`, as any documenter of autodoc does.

        What is written with a warning is not kept, so that the next build warns again.
        """
        _, state = self.env.metadata[self.env.docname][STATE]
        file = Path(self.env.app.doctreedir, FOLDER, f"{self.name}.json")
        if self._is_restored(file, state):
            return
        said = LogCollector()
        with said.collect():
            super().generate(*arguments, **options)
        for record in said.logs:
            _LOGGER.handle(record)
        if all(record.levelno < logging.WARNING for record in said.logs):
            written = [(line, *where) for *where, line in self.directive.result.xitems()]
            write_json(file, {"state": state, "lines": written})

    def _is_restored(self, file: Path, state: str) -> bool:
        """Whether the file holds the lines of this state, which are then written."""
        try:
            written = read_json(file)
        except ResultError:
            return False
        if written["state"] != state:
            return False
        for line, source, offset in written["lines"]:
            self.directive.result.append(line, source, offset)
        return True


def keep_undocumented(
    _app: Sphinx, _what: str, name: str, thing: Any, skip: bool, _options: Any
) -> bool | None:
    """Sphinx's event `autodoc-skip-member`: what is public appears, with a docstring or without.

    Fields of dataclasses and plain constants are left to their comments.
    """
    code = inspect.isroutine(thing) or inspect.isclass(thing) or isinstance(thing, property)
    return False if skip and code and not name.startswith("_") else None


def setup(app: Sphinx) -> None:
    """Register the documenter and the event above."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_autodocumenter(KeptModule)
    app.connect("autodoc-skip-member", keep_undocumented)
