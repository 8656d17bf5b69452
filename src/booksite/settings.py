"""Where a build puts things, and what Jupyter Book and the chapters are told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from lnattn.models.choice import Choice
from lnattn_book import guards


class Folders:
    """Where a build puts things: all below `_build` in its output folder, the repository's own
    unless another is named.
    """

    def __init__(self, output: Path) -> None:
        self.output, self.build = output, output / "_build"
        self.html, self.caches = self.build / "html", self.build / ".jupyter_cache"
        self.doctrees, self.stamp = self.build / ".doctrees", self.build / ".built"
        self.progress = self.build / "progress.log"


def write_config(root: Path, folders: Folders, cache: Path) -> Path:
    """Complete `_config.yml` with this build's cache and, where it is known, the repository."""
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    settings["execute"]["cache"] = str(cache / "cells")
    address, site = addresses()
    if site:
        settings["html"]["baseurl"] = site
    if address:
        settings["repository"] = {"url": address, "branch": "main"}
        settings["html"] |= {"use_repository_button": True, "use_issues_button": True}
        settings["launch_buttons"] = {
            "notebook_interface": "jupyterlab",
            "binderhub_url": "https://mybinder.org",
            "colab_url": "https://colab.research.google.com",
        }
    path = folders.build / "_config.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(settings, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def addresses() -> tuple[str, str]:
    """Where the repository is (LNATTN_REPOSITORY) and where the site will be (LNATTN_SITE_URL)."""
    return (
        os.environ.get("LNATTN_REPOSITORY", "").strip(),
        os.environ.get("LNATTN_SITE_URL", "").strip(),
    )


def environment(root: Path, folders: Folders, cache: Path, choice: Choice) -> Mapping[str, str]:
    """The environment of the chapters: this interpreter's kernel, one model, one ledger.

    A user's own kernel called 'python3', IPython profile or startup files would otherwise decide
    what a chapter runs on.
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
    (kernel / "kernel.json").write_text(json.dumps(specification, indent=1))
    # `experiments`, which claims name as what made a frozen result, lies at the root.
    paths = (str(root), os.environ.get("PYTHONPATH"))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HF_HUB_OFFLINE": "1",  # what is needed was fetched before (`prepared`)
        "JUPYTER_PATH": str(folders.build / "jupyter"),
        "IPYTHONDIR": str(folders.build / "ipython"),
        "LNATTN_DRAWINGS": "yes",
        guards.RECORDING: "record",
        "LNATTN_MODEL": choice.name,
        "LNATTN_MODEL_WHY": choice.why,
        "LNATTN_PROGRESS": str(folders.progress),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
