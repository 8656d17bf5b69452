"""The explorer's data and scripts, as `_static/explorer` has them.

The data of this build's model, of the embedded ones, and of MiniLM where it is installed are
computed when the site is built, and again only if the package, its data, the lock, the model or the
sentences change; those of a model that is no longer shown are deleted.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sphinx.util import logging

from booksite.explorer.texts import script
from booksite.inputs import digest_of, execution_digest, files_below
from lnattn.book.style import (
    DISTANCE_COLOURS,
    DISTANCE_NAMES,
    TERM_COLOURS,
    TERM_NAMES,
    model_name,
)
from lnattn.errors import LnattnError
from lnattn.models.choice import Choice, default_model, rotary_models
from lnattn.storage import read_json, sha256_of_file, write_atomically, write_json

ASSETS = Path(__file__).parent / "assets"
STYLES = ("explorer.css",)
#: What computes the terms of any text.
_TYPED = ("explorer.js", "first-layer.js", "rotary-layer.js", "bpe.js", "terms.js", "typed.js")
#: Every part: what it needs JavaScript for, and the scripts that it loads, in this order.
PARTS = {
    "heads": (
        "The strongest partners of a token in every head",
        ("explorer.js", "first-layer.js", "tokens.js", "heads.js"),
    ),
    "pair": (
        "What every head thinks of a pair of tokens",
        ("explorer.js", "first-layer.js", "tokens.js", "pair.js"),
    ),
    "sentence": (
        "The terms of a sentence that you type",
        (*_TYPED, "sentence.js"),
    ),
    "compare": (
        "Two heads, or two models, side by side",
        (*_TYPED, "compare.js"),
    ),
    "distance": (
        "What every head of a rotary model thinks of a pair at a distance",
        (*_TYPED, "tokens.js", "distance.js"),
    ),
    "strongest": (
        "The strongest pairs of a head",
        ("explorer.js", "strongest.js"),
    ),
    "curves": (
        "What every head does by position alone",
        ("explorer.js", "first-layer.js", "curves.js"),
    ),
    "widget": (
        "Attention without some of its six terms",
        ("explorer.js", "first-layer.js", "terms.js", "widget.js"),
    ),
}
SCRIPTS = tuple(dict.fromkeys(name for _, names in PARTS.values() for name in names))
#: Tokens that a chapter's results name; those that its text names are found (`named_tokens`).
NAMED = (
    *("jackson", "michael", "york", "new", "obama", "michelle", "korea", "south", "chloride"),
    *("einstein", "albert", "##rim", "##dal", "##cle", "##ama", "##zal", "##ono", "##rang"),
)
#: How the book's text names one: *jackson*, `##rim`, ' York'.
_NAMES = re.compile(r"(?<![*\w])\*([^\W\d_]+)\*(?!\*)|`(##\w+)`|'( ?[^\W\d_]+)'")
_say = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """A model to explore: which one and why, and whether a browser gets its whole first layer.

    rotary: whether its positions are; then there are sentences and pairs at a distance, by four
    terms, and no lists of partners.
    """

    choice: Choice
    computed: bool = False
    rotary: bool = False

    @property
    def folder(self) -> str:
        """Its folder's name: short, and safe in an address."""
        return re.sub(r"[^a-z0-9.]+", "-", Path(self.choice.name).name.lower()).strip("-.")


def wanted_models() -> list[Wanted]:
    """MiniLM, on which the page opens, the model that the chapters run on, the embedded ones.

    Rotary models that LNATTN_ROTARY names come before the embedded one, and so are shown first.
    """
    from lnattn.models.checkpoints import BOOK_LLAMA, BOOK_MODEL, MINILM

    chosen = default_model()
    choices = {
        MINILM: Choice(MINILM, "a pretrained model that reads whole words and pieces of words"),
        BOOK_MODEL: Choice(BOOK_MODEL, "the model that comes with the book"),
        BOOK_LLAMA: Choice(BOOK_LLAMA, "its twin with rotary positions"),
    }
    choices[chosen.name] = chosen
    named = rotary_models() if "LNATTN_ROTARY" in os.environ else []
    choices |= {name: Choice(name, "named by LNATTN_ROTARY") for name in named}
    order = dict.fromkeys([MINILM, chosen.name, BOOK_MODEL, *named, BOOK_LLAMA])
    computed = {BOOK_MODEL: False, BOOK_LLAMA: True, **dict.fromkeys(named, True)}
    return [Wanted(choices[name], name in computed, computed.get(name, False)) for name in order]


def publish(root: Path, folder: Path, models: Sequence[Wanted]) -> None:
    """Put the explorer's scripts and the data of the models into `folder`; computes what changed.

    root: the repository, whose contents decide what has changed. A model that cannot be shown (a
    partial checkpoint, an extra that is not installed) is left out, and the page says why.
    """
    for name in (*SCRIPTS, *STYLES):
        with (ASSETS / name).open("rb") as source:
            write_atomically(folder / name, partial(shutil.copyfileobj, source))
    listed, absent, named = [], [], named_tokens(root)
    for wanted in models:
        key = _key(root, wanted, named)
        try:
            if not is_current(folder / wanted.folder, key):
                _compute(wanted, folder / wanted.folder, key, named)
        except LnattnError as error:
            absent.append({"name": wanted.choice.name, "why": str(error)})
            _say.info("token explorer: without %s: %s", wanted.choice.name, error)
            continue
        manifest = read_json(folder / wanted.folder / "manifest.json")
        facts = {one: manifest[one] for one in ("heads", "tolerance")}
        facts |= {"name": model_name(wanted.choice.name), "why": wanted.choice.why}
        facts["computed"] = wanted.computed
        listed.append({**facts, "folder": wanted.folder, "version": key[:8]})
    rotary = {wanted.folder for wanted in models if wanted.rotary}
    value = {
        "models": [one for one in listed if one["folder"] not in rotary],
        "rotary": [one for one in listed if one["folder"] in rotary],
        "absent": absent,
        **shared_facts(),
    }
    text = script("models", value)
    write_atomically(folder / "models.js", lambda file: file.write(text.encode("ascii")))
    _clear(folder, {*SCRIPTS, *STYLES, "models.js", *(model["folder"] for model in listed)})


def shared_facts() -> dict[str, Any]:
    """What all parts know: the terms' names and colours, examples, the longest sentence."""
    from booksite.explorer.data import LONGEST

    names, colours = TERM_NAMES | DISTANCE_NAMES, TERM_COLOURS | DISTANCE_COLOURS
    terms = {name: {"name": names[name], "colour": colours[name]} for name in names}
    return {"terms": terms, "examples": sentences(), "longest": LONGEST}


def sentences() -> list[str]:
    """The examples, of which the strongest is shown first."""
    return (ASSETS / "sentences.txt").read_text("utf-8").splitlines()


def named_tokens(root: Path) -> list[str]:
    """Texts that may be tokens which the book names: shown in full however rare they are."""
    pages = [path for name in ("book", "notebooks") for path in (root / name).glob("*.md")]
    text = "\n".join(path.read_text("utf-8") for path in pages)
    return sorted({*NAMED, *("".join(one) for one in _NAMES.findall(text))})


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


def _key(root: Path, wanted: Wanted, named: Sequence[str]) -> str:
    """Digest of all that a model's data depend on; of a local model, its files too."""
    here, local = Path(__file__).parent, Path(wanted.choice.name)
    own = [path for path in files_below(here) if path.suffix in (".py", ".txt")]
    facts = {
        "execution": execution_digest(root, wanted.choice.name),
        "computed": str(wanted.computed),
        "named": repr(named),
        "local": digest_of(local, files_below(local), {}) if local.is_dir() else "",
    }
    return digest_of(here, own, facts)


def _compute(wanted: Wanted, folder: Path, key: str, named: Sequence[str]) -> None:
    """Write a model's scripts and their manifest to `folder`, all or nothing."""
    # Here and not at the top: reading cached data needs neither PyTorch nor the studies.
    from booksite.explorer.written import learned, rotary
    from lnattn.models.checkpoints import load_first_layer
    from lnattn.relative import with_positions

    begun = time.monotonic()
    model = load_first_layer(wanted.choice)
    if wanted.rotary:
        written, facts = rotary(model, wanted.folder)
    else:
        model = with_positions(model)
        written, facts = learned(model, wanted.folder, named, sentences(), wanted.computed)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        fresh.chmod(0o755)
        for name, text in written.items():
            (fresh / name).write_text(text, encoding="ascii")
        files = {path.name: sha256_of_file(path) for path in sorted(fresh.iterdir())}
        manifest = {"inputs": key, **facts, "files": files}
        write_json(fresh / "manifest.json", manifest)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    seconds = time.monotonic() - begun
    _say.info("token explorer: %s computed in %.1f s", wanted.choice.name, seconds)
