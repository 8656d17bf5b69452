"""The doors out of a page: the repository, an issue, an edit, and machines that run a chapter.

They lead to the repository's address: the setting LNATTN_REPOSITORY, else that of `_config.yml`,
else the clone's own `origin`, if that is the https address of a public host. Where none is known,
nothing is shown: a button that leads nowhere is worse than no button.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from sphinx.application import Sphinx
from sphinx.config import Config

#: Hosts that anybody can reach. Another host of an `origin` may be a private one, and is not named.
PUBLIC = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org")
BRANCH = "main"
#: Where the workflow `book` puts executed notebooks: Colab opens no other kind of file.
NOTEBOOKS_BRANCH = "notebooks"


def repository_address(root: Path, configured: str = "") -> str:
    """The address of the repository, without a slash at its end; '' where none may be told.

    root: the clone. configured: what `_config.yml` says.
    """
    told = os.environ.get("LNATTN_REPOSITORY", "").strip() or configured.strip()
    return (told or public_address(origin_of(root))).rstrip("/")


def site_address() -> str:
    """Where the site will be (LNATTN_SITE_URL), or ''."""
    return os.environ.get("LNATTN_SITE_URL", "").strip()


def origin_of(root: Path) -> str:
    """What git has as the `origin` of this clone; '' without git, a clone or an origin."""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():  # a folder above may be another clone
        return ""
    command = [git, "-C", str(root), "config", "--get", "remote.origin.url"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def public_address(origin: str) -> str:
    """An origin as everybody may see it: https://HOST/OWNER/NAME of a public host, else ''.

    A name or token that stands in it, to push with, is left out.
    """
    try:
        parts = urlsplit(origin)
        host = parts.hostname
        port = parts.port
    except ValueError:  # no address at all
        return ""
    path = parts.path.strip("/").removesuffix(".git")
    if parts.scheme != "https" or host not in PUBLIC or port not in (None, 443):
        return ""
    return f"https://{host}/{path}" if path.count("/") else ""


def use_addresses(config: Config, root: Path) -> None:
    """Links to the repository, and launch buttons, where its address is known."""
    options = config.html_theme_options
    address = repository_address(root, options.get("repository_url") or "")
    site = site_address()
    if site:
        config.html_baseurl = site
    if not address:
        return
    is_on_github = urlsplit(address).hostname == "github.com"
    launch = {"notebook_interface": "jupyterlab", "binderhub_url": "https://mybinder.org"}
    if is_on_github:  # of which alone Colab opens a notebook
        launch["colab_url"] = "https://colab.research.google.com"
    config.html_theme_options = {
        **options,
        "repository_url": address,
        "repository_branch": BRANCH,
        "use_repository_button": True,
        "use_edit_page_button": True,
        "use_issues_button": True,
        "launch_buttons": launch,
    }


def lead_on(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: object
) -> None:
    """Sphinx's event `html-page-context`: Colab opens the notebook, and Codespaces the clone.

    The theme's button for Colab leads to the page's source, which here is Markdown.
    """
    address = (app.config.html_theme_options or {}).get("repository_url") or ""
    if urlsplit(address).hostname != "github.com":
        return
    owned = urlsplit(address).path.strip("/")
    for group in context.get("header_buttons", ()):
        if group.get("label") != "launch-buttons":
            continue
        for button in group["buttons"]:
            if button["text"] == "Colab":
                notebook = f"{owned}/blob/{NOTEBOOKS_BRANCH}/{quote(page)}.ipynb"
                button["url"] = f"https://colab.research.google.com/github/{notebook}"
        codespaces = {
            "type": "link",
            "text": "Codespaces",
            "tooltip": "Open the clone in GitHub Codespaces",
            "icon": "fab fa-github",
            "url": f"https://codespaces.new/{owned}?quickstart=1",
        }
        group["buttons"].append(codespaces)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", lead_on, priority=900)  # after the theme's own
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
