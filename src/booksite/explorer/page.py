"""A small Sphinx extension: the token explorer, a page that shows what each head does with a token.

`{token-explorer} heads` and `{token-explorer} sentence` mark where its two parts appear. The data
of this build's model (and of MiniLM, where it is installed) are computed when the site is built
and lie in `_static/explorer`, beside the scripts of `assets`. They are computed again only
if the package, its data, the lock, the model or the sentences change; those of a model that is no
longer shown are deleted. Only pages with such a part load the scripts.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from booksite.explorer.texts import script
from booksite.inputs import digest_of, execution_digest, files_below
from lnattn.errors import LnattnError
from lnattn.models.choice import Choice, default_model
from lnattn.paths import repository
from lnattn.storage import read_json, sha256_of_file, write_atomically, write_json

ASSETS = Path(__file__).parent / "assets"
#: Loaded by pages with a part of the explorer, in this order.
SCRIPTS, STYLES = ("explorer.js", "heads.js", "sentence.js"), ("explorer.css",)
PARTS = {
    "heads": "The strongest partners of a token in every head",
    "sentence": "The six terms of a sentence",
}
#: Tokens with a view of their own: the chapters' model, and MiniLM (whose vocabulary is larger).
LIMIT, LIMIT_MINILM = 8192, 800
_MARK = "token_explorer"
_say = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """A model to explore: which one and why, and how many of its tokens get a view."""

    choice: Choice
    limit: int

    @property
    def folder(self) -> str:
        """Its folder's name: short, and safe in an address."""
        return re.sub(r"[^a-z0-9.]+", "-", Path(self.choice.name).name.lower()).strip("-.")


def wanted_models() -> list[Wanted]:
    """The model that the chapters run on, and MiniLM."""
    from lnattn.models.checkpoints import MINILM

    chosen = default_model()
    models = [Wanted(chosen, LIMIT)]
    if chosen.name != MINILM:
        why = "a pretrained model with a vocabulary of whole words"
        models.append(Wanted(Choice(MINILM, why), LIMIT_MINILM))
    return models


def publish(root: Path, folder: Path, models: Sequence[Wanted]) -> None:
    """Put the explorer's scripts and the data of the models into `folder`; computes what changed.

    root: the repository, whose contents decide what has changed. A model that cannot be shown (a
    partial checkpoint, an extra that is not installed) is left out, and the page says why.
    """
    for name in (*SCRIPTS, *STYLES):
        source = (ASSETS / name).read_bytes()
        write_atomically(folder / name, lambda file, source=source: file.write(source))
    listed, absent = [], []
    for wanted in models:
        key = _key(root, wanted)
        try:
            if not is_current(folder / wanted.folder, key):
                _compute(wanted, folder / wanted.folder, key)
        except LnattnError as error:
            absent.append({"name": wanted.choice.name, "why": str(error)})
            _say.info("token explorer: without %s: %s", wanted.choice.name, error)
            continue
        facts = {"name": wanted.choice.name, "why": wanted.choice.why}
        listed.append({**facts, "folder": wanted.folder, "version": key[:8]})
    text = script("models", {"models": listed, "absent": absent})
    write_atomically(folder / "models.js", lambda file: file.write(text.encode("ascii")))
    _clear(folder, {*SCRIPTS, *STYLES, "models.js", *(model["folder"] for model in listed)})


def _clear(folder: Path, kept: set[str]) -> None:
    """Delete what this build did not put there: other models, and half of a build that was cut."""
    for path in folder.iterdir():
        if path.name in kept:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def is_current(folder: Path, key: str) -> bool:
    """Whether a model's folder holds all the scripts that were made from the inputs of this key."""
    if not (folder / "manifest.json").is_file():
        return False
    manifest = read_json(folder / "manifest.json")
    whole = all((folder / name).is_file() for name in manifest["files"])
    return whole and manifest["inputs"] == key


def _key(root: Path, wanted: Wanted) -> str:
    """Digest of all that a model's data depend on; of a local model, its files too."""
    here, local = Path(__file__).parent, Path(wanted.choice.name)
    own = [path for path in files_below(here) if path.suffix in (".py", ".txt")]
    facts = {
        "execution": execution_digest(root, wanted.choice.name),
        "limit": str(wanted.limit),
        "local": digest_of(local, files_below(local), {}) if local.is_dir() else "",
    }
    return digest_of(here, own, facts)


def _compute(wanted: Wanted, folder: Path, key: str) -> None:
    """Write a model's scripts and their manifest to `folder`, all or nothing."""
    # Here and not at the top: reading cached data needs neither PyTorch nor the studies.
    from booksite.explorer.data import explore
    from booksite.explorer.scripts import scripts
    from lnattn.book.freezing import affinity_study
    from lnattn.models.checkpoints import load_first_layer

    begun = time.monotonic()
    model = load_first_layer(wanted.choice)
    study, counts, _ = affinity_study(model)
    sentences = (ASSETS / "sentences.txt").read_text("utf-8").splitlines()
    explored = explore(model, counts, study, sentences, limit=wanted.limit)
    about = {
        "name": model.name,
        "weights": str(model.provenance.get("weights_sha256") or "")[:12],
        "counts": str(study.record["counts"]),
        "counted": counts.tokens,
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        fresh.chmod(0o755)
        for name, text in scripts(explored, wanted.folder, about):
            (fresh / name).write_text(text, encoding="ascii")
        files = {path.name: sha256_of_file(path) for path in sorted(fresh.iterdir())}
        write_json(fresh / "manifest.json", {"inputs": key, "files": files})
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    seconds = time.monotonic() - begun
    _say.info("token explorer: %s computed in %.1f s", wanted.choice.name, seconds)


class TokenExplorer(SphinxDirective):
    """`{token-explorer} PART`: where a part of the explorer appears, `heads` or `sentence`."""

    required_arguments = 1
    has_content = False

    def run(self) -> list[nodes.Node]:
        """An empty place, which the scripts fill."""
        part = self.arguments[0]
        if part not in PARTS:
            raise self.error(f"there is no part {part!r}; there are {', '.join(PARTS)}.")
        self.env.metadata[self.env.docname][_MARK] = "yes"
        html = (
            f'<div class="token-explorer" data-part="{part}">'
            f"<noscript><p>{PARTS[part]} needs JavaScript.</p></noscript></div>"
        )
        return [nodes.raw("", html, format="html")]


def _is_used(env: BuildEnvironment) -> bool:
    return any(_MARK in facts for facts in env.metadata.values())


def publish_if_used(app: Sphinx, env: BuildEnvironment) -> None:
    """Sphinx's event `env-updated`: the data of a site that has an explorer."""
    if app.builder.format != "html" or not _is_used(env):
        return
    root = repository()
    try:
        publish(root, Path(app.outdir) / "_static" / "explorer", wanted_models())
    except OSError as error:
        raise ExtensionError(f"the token explorer cannot be written: {error}") from error


def load_scripts(app: Sphinx, page: str, *_: Any) -> None:
    """Sphinx's event `html-page-context`: scripts and styles, on pages with a part only."""
    if _MARK in app.env.metadata.get(page, {}):
        for name in STYLES:
            app.add_css_file(f"explorer/{name}")
        for name in SCRIPTS:
            app.add_js_file(f"explorer/{name}", loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and the events above."""
    app.add_directive("token-explorer", TokenExplorer)
    app.connect("env-updated", publish_if_used)
    app.connect("html-page-context", load_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
