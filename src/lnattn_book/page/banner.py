"""What every chapter does first: choose its model, set the style of figures, name the model."""

from __future__ import annotations

import html
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from IPython.display import display

from lnattn.errors import CheckpointError
from lnattn.models.choice import Choice, default_model
from lnattn.storage import package_versions
from lnattn_book.page.checks import METADATA
from lnattn_book.page.first_cell import find_model, read_given, refuse, where_looked

_SHOWN_VERSIONS = ("lnattn", "torch", "transformers", "numpy", "numba")


@dataclass(frozen=True, repr=False)
class Banner:
    """The facts at the head of a chapter: which model, why, its weights, versions and date."""

    model: str
    why: str
    weights: str
    versions: Mapping[str, str]
    date: str
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return " ".join([f"Model: {self.model} ({self.why}).", *self.notes])

    def _repr_html_(self) -> str:
        versions = html.escape(", ".join(f"{name} {no}" for name, no in self.versions.items()))
        weights = f" Weights: <code>sha256 {self.weights}…</code>" if self.weights else ""
        return (
            '<p class="lnattn-banner">'
            f"Model: <strong>{html.escape(self.model)}</strong> ({html.escape(self.why)})."
            f"{weights} Run with {versions} on {self.date}."
            f"{''.join(f'<br>{html.escape(note)}' for note in self.notes)}</p>"
        )

    def _repr_mimebundle_(self, **_kinds: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """What is shown, and the model's name for a build, as the output's metadata."""
        shown = {"text/plain": repr(self), "text/html": self._repr_html_()}
        return shown, {METADATA: {"model": self.model}}


def choose(name: str | None = None) -> Choice:
    """The model of a chapter's panels: the one that its first cell names, or the book's choice.

    name: as for `lnattn.load_first_layer`; None: what LNATTN_MODEL names, else GPT-2 where it can
    be had, else book-gpt2 (`lnattn.default_model`). papermill's `-p MODEL` sets it. A model without
    six terms goes to chapter 12 (`with_six_terms`).
    """
    from lnattn_book.page.chosen import with_six_terms  # loads PyTorch, as the chapter does anyway

    if name is None or name == "":
        return with_six_terms(default_model())
    opened = find_model(name)
    try:
        return with_six_terms(Choice(opened, "named in this page's first cell"))
    except CheckpointError as error:
        raise refuse("MODEL", name, where_looked(opened, str(error))) from None


def start(model: Any = None, *, why: str | None = None, of: Any = None, **given: Any) -> str | None:
    """Check the first cell, set the style of figures, show the banner; the text that is read.

    model: a first layer (or anything with a `provenance` mapping), a name, or None for a page that
    needs no trained model. why: why this model was taken; without it, the provenance's own reason
    is shown, else whether LNATTN_MODEL chose it. of: the model that the first cell's values are
    about, where it is another. given: these values, by their names in small letters. `text` is
    cut to what the page can read, and comes back; `head`, `query`, `key` and `queries` are checked
    against model and text; any other is a pair of the value and what is allowed: a range, `str`, or
    a list of names. Raises `FirstCellError`, one sentence, before anything is computed.
    """
    from lnattn_book.page import drawings
    from lnattn_book.page.style import use_style

    text, notes = read_given(model if of is None else of, given)
    if text is not None and getattr(model, "tokenizer", "") is None:
        notes.append("It has no tokenizer: what it would make of a text is left out.")
    use_style()
    drawings.install_formatter()
    display(describe(model, why=why, notes=tuple(notes)))
    return text


def describe(model: Any = None, *, why: str | None = None, notes: tuple[str, ...] = ()) -> Banner:
    """The banner that `start` shows, as data."""
    provenance: Mapping[str, Any] = getattr(model, "provenance", None) or {}
    if model is None:
        name = "none"
        reason = "this page needs no trained weights"
    else:
        name = str(model if isinstance(model, str) else provenance.get("name", "unnamed model"))
        chosen = os.environ.get("LNATTN_MODEL") == name
        by_whom = "chosen by LNATTN_MODEL" if chosen else "named by this chapter"
        reason = str(provenance.get("why") or by_whom)
    digest = str(provenance.get("weights_sha256") or provenance.get("sha256") or "")
    return Banner(
        model=name,
        why=why or reason,
        weights=digest[:12],
        versions={"Python": platform.python_version(), **package_versions(*_SHOWN_VERSIONS)},
        date=_date(),
        notes=notes,
    )


def _date() -> str:
    """Today (UTC), or the day that SOURCE_DATE_EPOCH names, for reproducible builds."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    return moment.strftime("%Y-%m-%d")
