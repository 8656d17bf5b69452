"""What every chapter does first and last: name its model, and ask what its sentences say."""

from __future__ import annotations

import html
import inspect
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from IPython.display import display

from lnattn.models.choice import Choice, default_model
from lnattn.storage import package_versions
from lnattn_book import drawings, guards
from lnattn_book.chosen import with_six_terms
from lnattn_book.guards import asking
from lnattn_book.style import use_style

__all__ = [
    "Banner",
    "asking",
    "choose",
    "describe",
    "holds",
    "start",
]

_SHOWN_VERSIONS = ("lnattn", "torch", "transformers", "numpy", "numba")


@dataclass(frozen=True)
class Banner:
    """The facts at the head of a chapter: which model, why, its weights, versions and date."""

    model: str
    why: str
    weights: str
    versions: Mapping[str, str]
    date: str

    def _repr_html_(self) -> str:
        versions = html.escape(", ".join(f"{name} {no}" for name, no in self.versions.items()))
        weights = f" Weights: <code>sha256 {self.weights}…</code>" if self.weights else ""
        return (
            '<p class="lnattn-banner">'
            f"Model: <strong>{html.escape(self.model)}</strong> ({html.escape(self.why)})."
            f"{weights} Run with {versions} on {self.date}.</p>"
        )


def choose(name: str | None = None) -> Choice:
    """The model of a chapter's panels: the one that its first cell names, or the book's choice.

    name: as for `lnattn.load_first_layer`; None: what LNATTN_MODEL names, else GPT-2 where it can
    be had, else book-gpt2 (`lnattn.default_model`). papermill's `-p MODEL` sets it. A model without
    six terms goes to chapter 12 (`with_six_terms`).
    """
    choice = Choice(name, "named in this page's first cell") if name else default_model()
    return with_six_terms(choice)


def start(model: Any = None, *, why: str | None = None) -> None:
    """Set the figure style and show the chapter's banner.

    `model` is a `FirstLayer` (or anything with a `provenance` mapping), a name, or None for a
    chapter that needs no trained model. `why` says why this model was taken; without it, the
    provenance's own reason is shown, else whether LNATTN_MODEL chose it.
    """
    use_style()
    drawings.install_formatter()
    display(describe(model, why=why))


def describe(model: Any = None, *, why: str | None = None) -> Banner:
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
    )


def holds(sentence: str, condition: Any) -> None:
    """Ask of the numbers what a sentence of the page says, in a hidden cell beside it.

    sentence: the words of the page, as they stand there. condition: one truth value; None where
    the reader's model has nothing to ask; or a function without arguments that gives either, in
    which an error stays. Never raises: where the sentence does not hold, one line says so, with
    what was found and what was asked, and the run goes on. A build of the book makes a warning of
    it (see `lnattn_book.guards`).
    """
    guards.ask(sentence, condition, inspect.currentframe()).show()


def _date() -> str:
    """Today (UTC), or the day that SOURCE_DATE_EPOCH names, for reproducible builds."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    return moment.strftime("%Y-%m-%d")
