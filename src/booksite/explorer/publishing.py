"""The explorer's data and scripts, as `_static/explorer` has them.

The data of this build's model, of the embedded ones, and of MiniLM where it is installed are
written when the site is built, and again only if the package, its data, the lock, the model or the
sentences change; those of a model that is no longer shown are deleted.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from sphinx.util import logging

from booksite.explorer.texts import script
from booksite.inputs import digest_of, execution_digest, files_below
from lnattn.errors import LnattnError
from lnattn.models.choice import Choice, default_model, rotary_models
from lnattn.storage import read_json, sha256_of_file, write_atomically, write_json
from lnattn_book.style import (
    DISTANCE_COLOURS,
    DISTANCE_NAMES,
    TERM_COLOURS,
    TERM_NAMES,
    model_name,
)

ASSETS = Path(__file__).parent / "assets"
STYLES = ("explorer.css",)
#: What every part loads, and what those that choose tokens load besides.
_ALL = ("explorer.js", "first-layer.js", "checkpoint.js", "tokenizer.js", "models.js")
_TOKENS = (*_ALL, "tokens.js")
#: Every part: what it needs JavaScript for, and the scripts that it loads, in this order.
PARTS = {
    "open": ("Choosing a model, or opening your own,", (*_ALL, "open.js")),
    "sentence": ("Typing a sentence", (*_ALL, "terms.js", "sentence.js")),
    "heads": ("Showing a token's partners in every head", (*_TOKENS, "heads.js")),
    "strongest": ("Showing a head's strongest pairs", (*_TOKENS, "heads.js")),
    "pair": ("Asking every head about a pair", (*_TOKENS, "pair.js")),
    "curves": ("Showing what heads do by position alone", (*_ALL, "curves.js")),
    "widget": ("Taking terms out of attention", (*_ALL, "terms.js", "widget.js")),
}
SCRIPTS = tuple(dict.fromkeys(name for _, names in PARTS.values() for name in names))
_say = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """A model to explore: which one and why; opening: whether a sentence of it comes at once."""

    choice: Choice
    opening: bool = False

    @property
    def folder(self) -> str:
        """Its folder's name: short, and safe in an address."""
        return re.sub(r"[^a-z0-9.]+", "-", Path(self.choice.name).name.lower()).strip("-.")


def wanted_models() -> list[Wanted]:
    """The embedded model, on which the page opens, that of the chapters, MiniLM, rotary ones."""
    from lnattn.models.checkpoints import BOOK_LLAMA, BOOK_MODEL, MINILM

    chosen = default_model()
    named = rotary_models() if "LNATTN_ROTARY" in os.environ else []
    choices = {
        BOOK_MODEL: Choice(BOOK_MODEL, "the model that comes with the book"),
        chosen.name: chosen,
        MINILM: Choice(MINILM, "a pretrained model that reads whole words and pieces of words"),
        **{name: Choice(name, "named by LNATTN_ROTARY") for name in named},
        BOOK_LLAMA: Choice(BOOK_LLAMA, "book-gpt2's twin with rotary positions"),
    }
    return [Wanted(choice, name in (BOOK_MODEL, MINILM)) for name, choice in choices.items()]


def publish(root: Path, folder: Path, models: Sequence[Wanted]) -> None:
    """Put the explorer's scripts and the data of the models into `folder`; computes what changed.

    root: the repository, whose contents decide what has changed. A model that cannot be shown (a
    partial checkpoint, an extra that is not installed) is left out, and the page says why.
    """
    for name in (*SCRIPTS, *STYLES):
        with (ASSETS / name).open("rb") as source:
            write_atomically(folder / name, partial(shutil.copyfileobj, source))
    listed, absent = [], []
    for wanted in models:
        key = _key(root, wanted)
        name = model_name(wanted.choice.name)
        try:
            if not is_current(folder / wanted.folder, key):
                _compute(wanted, folder / wanted.folder, key)
        except LnattnError as error:
            absent.append({"name": name, "why": str(error)})
            _say.info("token explorer: without %s: %s", wanted.choice.name, error)
            continue
        facts = {"name": name, "why": wanted.choice.why, "opening": wanted.opening}
        listed.append({**facts, "folder": wanted.folder, "version": key[:8]})
    shared = {"models": listed, "absent": absent, **shared_facts()}
    made = {"shared.js": script("shared", shared), "gpt2.js": script("gpt2", gpt2_merges())}
    for name, text in made.items():
        payload = text.encode("ascii")
        write_atomically(folder / name, partial(_write, payload))
    _clear(folder, {*SCRIPTS, *STYLES, *made, *(str(model["folder"]) for model in listed)})


def _write(payload: bytes, file: BinaryIO) -> None:
    file.write(payload)


def shared_facts() -> dict[str, Any]:
    """What all parts know: the terms' names and colours, sentences, the longest sentence."""
    from booksite.explorer.layers import LONGEST

    names, colours = TERM_NAMES | DISTANCE_NAMES, TERM_COLOURS | DISTANCE_COLOURS
    terms = {name: {"name": names[name], "colour": colours[name]} for name in names}
    examples = sentences()
    return {"terms": terms, "examples": examples, "text": examples[0], "longest": LONGEST}


def gpt2_merges() -> str:
    """GPT-2's merges.txt (OpenAI, MIT licence), from which its whole vocabulary follows."""
    return gzip.decompress((ASSETS / "gpt2-merges.txt.gz").read_bytes()).decode("utf-8")


def sentences() -> list[str]:
    """The examples; the page opens with the first."""
    return (ASSETS / "sentences.txt").read_text("utf-8").splitlines()


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
        "opening": str(wanted.opening),
        "local": digest_of(local, files_below(local), {}) if local.is_dir() else "",
    }
    return digest_of(here, own, facts)


def _compute(wanted: Wanted, folder: Path, key: str) -> None:
    """Write a model's scripts and their manifest to `folder`, all or nothing."""
    # Here and not at the top: reading cached data needs neither PyTorch nor the studies.
    from booksite.explorer.layers import scripts_of
    from lnattn.models.checkpoints import load_first_layer

    begun = time.monotonic()
    model = load_first_layer(wanted.choice)
    written = dict(scripts_of(model, wanted.folder, sentences()[0] if wanted.opening else ""))
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        fresh.chmod(0o755)
        for name, text in written.items():
            (fresh / name).write_text(text, encoding="ascii")
        files = {path.name: sha256_of_file(path) for path in sorted(fresh.iterdir())}
        write_json(fresh / "manifest.json", {"inputs": key, "files": files})
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    seconds = time.monotonic() - begun
    _say.info("token explorer: %s written in %.1f s", wanted.choice.name, seconds)
