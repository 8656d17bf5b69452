"""Where a build puts things, and what the chapters' kernels are told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from lnattn.models.choice import Choice

#: The folder of all that is built, in the repository or where `--path-output` says.
BUILD = "_build"


class Folders:
    """Where a build puts things: all below a folder `_build`."""

    def __init__(self, build: Path) -> None:
        self.build = build
        self.html = build / "html"
        self.caches = build / ".jupyter_cache"
        self.doctrees = build / ".doctrees"
        self.progress = build / "progress.log"

    @classmethod
    def of(cls, html: Path) -> Folders:
        """Those of a build whose pages go to `html`; a page that is built alone shares them.

        Beside pages that go elsewhere (`sphinx-build . ~/site`) a folder `_build` is made: what
        lies there is somebody's, and may have the same names.
        """
        return cls(next((path for path in html.parents if path.name == BUILD), html.parent / BUILD))

    def cache(self, digest: str) -> Path:
        """The execution cache of one state of source, data, lock and model."""
        return self.caches / digest / "cells"


def environment(root: Path, folders: Folders, choice: Choice) -> Mapping[str, str]:
    """What the chapters' kernels find in their environment: this interpreter, one model.

    A user's own kernel called 'python3', IPython profile, startup files or matplotlibrc would
    otherwise decide what a chapter runs on and what its figures look like.
    """
    kernel = folders.build / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True, exist_ok=True)
    # ipykernel warns at every start that TCP is not encrypted. The connection never leaves
    # loopback, and nbclient offers no way to ask for another kind; errors are still logged.
    quiet = "--IPKernelApp.log_level=40"
    specification = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", quiet],
        "display_name": "Python 3",
        "language": "python",
    }
    (kernel / "kernel.json").write_text(json.dumps(specification), encoding="utf-8")
    matplotlibrc = folders.build / "matplotlibrc"
    matplotlibrc.write_text("# Empty: lnattn_book.page.style has the style.\n", encoding="ascii")
    # `experiments`, which claims name as what made a frozen result, lies at the root.
    paths = (str(root), os.environ.get("PYTHONPATH"))
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HF_HUB_OFFLINE": "1",  # what is needed was fetched before (`model`)
        "JUPYTER_PATH": str(folders.build / "jupyter"),
        "IPYTHONDIR": str(folders.build / "ipython"),
        "LNATTN_DRAWINGS": "yes",
        "LNATTN_MODEL": choice.name,
        "LNATTN_MODEL_WHY": choice.why,
        "LNATTN_PROGRESS": str(folders.progress),
        "MATPLOTLIBRC": str(matplotlibrc),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
