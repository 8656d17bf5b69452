"""The explorer's data and scripts, as `_static/explorer` has them.

The data of this build's model, of the embedded ones, and of MiniLM where it is installed are
written whenever the site is built.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from sphinx.util import logging

from booksite.explorer.texts import json_in, script
from lnattn.errors import LnattnError
from lnattn.models.choice import BOOK_LLAMA, FALLBACK, MINILM, Choice, default_model
from lnattn.reporting.words import (
    DISTANCE_COLOURS,
    DISTANCE_NAMES,
    KINDS,
    TERM_COLOURS,
    TERM_NAMES,
)
from lnattn_book.page.names import model_name, rotary_models

ASSETS = Path(__file__).parent / "assets"
STYLE = "explorer.css"
#: What every part loads, in this order.
SHARED_SCRIPTS = (
    "explorer.js",
    "first-layer.js",
    "safetensors.js",
    "embeddings.js",
    "settings.js",
    "checkpoint.js",
    "about.js",
    "patterns.js",
    "tokenizer.js",
    "models.js",
)
#: Every part: what it needs JavaScript for, and the scripts that it loads, in this order.
PARTS = {
    "model": ("Choosing a model", (*SHARED_SCRIPTS, "open.js")),
    "open": ("Opening your own checkpoint", (*SHARED_SCRIPTS, "open.js")),
    "sentence": ("Typing a sentence", (*SHARED_SCRIPTS, "terms.js", "sentence.js")),
    "heads": (
        "Showing a token's partners in every head",
        (*SHARED_SCRIPTS, "tokens.js", "heads.js"),
    ),
    "every-text": (
        "Showing what a head guarantees",
        (*SHARED_SCRIPTS, "terms.js", "tokens.js", "every-text.js"),
    ),
    "widget": (
        "Taking terms out of attention",
        (*SHARED_SCRIPTS, "terms.js", "pulls.js", "widget.js"),
    ),
}
#: What a page with a widget in place of a figure loads; the rest follows when the figure is near.
LOADER = "in-chapter.js"
#: The widgets that stand in for a chapter's figure, and their scripts in this order.
IN_CHAPTERS = {
    "pair": (*SHARED_SCRIPTS, "terms.js", "pulls.js", "pair.js"),
    "place": ("explorer.js", "first-layer.js", "drawn.js", "place.js"),
    "first-place": ("explorer.js", "drawn.js", "first-place.js"),
    "training": ("explorer.js", "drawn.js", "training.js"),
    "norm": ("explorer.js", "drawn.js", "norm.js"),
}
SCRIPTS = tuple(
    dict.fromkeys(
        name
        for names in (*(names for _, names in PARTS.values()), (LOADER,), *IN_CHAPTERS.values())
        for name in names
    )
)
#: The sentence of chapter 3.
PAIR = "The Libertarian candidate from New York visited Michelle Obama in Washington."
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
    """MiniLM, on which the page opens where it is installed, the embedded model and others."""
    chosen = default_model()
    named = rotary_models() if "LNATTN_ROTARY" in os.environ else []
    choices = {
        MINILM: Choice(MINILM, "a pretrained model that reads whole words and pieces of words"),
        FALLBACK: Choice(FALLBACK, "the model that comes with the book"),
    }
    # Why the chapters run on it is said in the chapters.
    choices.setdefault(chosen.name, Choice(chosen.name, "the model of the chapters"))
    choices |= {
        **{name: Choice(name, "named by LNATTN_ROTARY") for name in named},
        BOOK_LLAMA: Choice(BOOK_LLAMA, "book-gpt2's twin with rotary positions"),
    }
    return [Wanted(choice, name in (FALLBACK, MINILM)) for name, choice in choices.items()]


def publish(folder: Path, models: Sequence[Wanted]) -> None:
    """Put the explorer's scripts and the data of the models into `folder`, replacing what is there.

    A model that cannot be shown (a partial checkpoint, an extra that is not installed) is left out,
    and the page says why. `OSError` where the folder holds other things.
    """
    if folder.exists() and not (folder / STYLE).is_file():
        raise FileExistsError(f"{folder} is there and is no explorer's; move it elsewhere")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copyfile(ASSETS / STYLE, folder / STYLE)  # the first file tells whose folder it is
    for name in SCRIPTS:
        shutil.copyfile(ASSETS / name, folder / name)
    listed = []
    absent = []
    for wanted in models:
        name = model_name(wanted.choice.name)
        try:
            facts, written = data_of(wanted)
        except LnattnError as error:
            absent.append({"name": name, "why": str(error)})
            _say.info("token explorer: without %s: %s", wanted.choice.name, error)
            continue
        (folder / wanted.folder).mkdir()
        for file, text in written.items():
            (folder / wanted.folder / file).write_text(text, encoding="ascii")
        version = hashlib.sha256("".join(written.values()).encode()).hexdigest()[:8]
        said = {"name": name, "why": wanted.choice.why, "opening": wanted.opening}
        listed.append({**said, "folder": wanted.folder, "version": version, **facts})
    shared = {"models": listed, "absent": absent, **shared_facts()}
    values = {"shared": shared, "gpt2": gpt2_merges(), **of_chapters()}
    for name, value in values.items():
        (folder / f"{name}.js").write_text(script(name, value), encoding="ascii")


def opening_scripts(folder: Path) -> list[str]:
    """The scripts in `folder` that the first view loads: of all models, and of the first sentence.

    Their addresses are those that explorer.js makes; empty where no model could be shown.
    """
    listed = json_in((folder / "shared.js").read_text("ascii"))["models"]
    for first in filter(itemgetter("opening"), listed):
        return ["shared.js", f"{first['folder']}/opening.js?v={first['version']}"]
    return []


def data_of(wanted: Wanted) -> tuple[dict[str, Any], dict[str, str]]:
    """What the page's list says of a model, and its scripts by their names.

    An error of the package where it cannot be shown.
    """
    # Here and not at the top: the page's directives need neither PyTorch nor the studies.
    from booksite.explorer.layers import facts_of, scripts_of
    from lnattn.models.checkpoints import load_first_layer

    model = load_first_layer(wanted.choice)
    sentence = sentences()[0] if wanted.opening else ""
    pair = PAIR if wanted.choice.name == MINILM else ""
    written = dict(scripts_of(model, wanted.folder, sentence, pair))
    return facts_of(model, written), written


def of_chapters() -> dict[str, Any]:
    """What the widgets in chapters draw, by the names of their scripts."""
    from booksite.explorer.in_chapters import DATA

    return {name: numbers() for name, numbers in DATA.items()}


def shared_facts() -> dict[str, Any]:
    """What all parts know: the terms' names, colours and kinds, sentences, the longest of them."""
    from booksite.explorer.layers import LONGEST

    names = TERM_NAMES | DISTANCE_NAMES
    colours = TERM_COLOURS | DISTANCE_COLOURS
    terms = {name: {"name": names[name], "colour": colours[name]} for name in names}
    kinds = {kind: sorted(of) for kind, of in KINDS.items()}
    examples = sentences()
    return {
        "terms": terms,
        "kinds": kinds,
        "examples": examples,
        "text": examples[0],
        "longest": LONGEST,
    }


def gpt2_merges() -> str:
    """GPT-2's merges.txt (OpenAI, MIT licence), from which its whole vocabulary follows."""
    return gzip.decompress((ASSETS / "gpt2-merges.txt.gz").read_bytes()).decode("utf-8")


def sentences() -> list[str]:
    """The examples; the page opens with the first."""
    return (ASSETS / "sentences.txt").read_text("utf-8").splitlines()
