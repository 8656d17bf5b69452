"""`lnattn.report`: everything at once about a model's first layer, for reading and for keeping."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from lnattn.errors import CorpusError, LnattnError, ResultError, capitalised, one_line
from lnattn.inputs import shown, whole_number
from lnattn.json_files import read_json
from lnattn.models.checkpoints import load_first_layer
from lnattn.models.modules import first_layer
from lnattn.progress import progress_bar
from lnattn.reporting.about import about
from lnattn.reporting.every_text import every_text
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.fold_error import fold_error
from lnattn.reporting.heads import heads
from lnattn.reporting.joining import joining
from lnattn.reporting.keys import unselectable
from lnattn.reporting.page import fragment, page
from lnattn.reporting.part import Part
from lnattn.reporting.pieces import subwords
from lnattn.reporting.positions import positions
from lnattn.reporting.sigma import sigma
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn.storage import check_outputs, provenance, real_path, write_atomically, write_json
from lnattn.text.corpora import corpus_files
from lnattn.text.counts import Counts, check_count_files
from lnattn.weights import FirstLayer

#: The parts in their order: name → title where it has no data, and what makes it.
PARTS: dict[str, tuple[str, Callable[[Evidence], Part]]] = {
    "about": ("What the model is", about),
    "fold-error": ("Is the folding exact?", fold_error),
    "heads": ("Heads at a glance", heads),
    "joining": ("Heads that join tokens", joining),
    "positions": ("What heads prefer by position", positions),
    "sigma": ("σ and its spread", sigma),
    "keys": ("Keys that no query can select", unselectable),
    "subwords": ("Do heads join pieces of words?", subwords),
    "guarantees": ("What its heads guarantee", every_text),
}
#: What the record of a report calls itself, so that it is known again.
WHAT = "report on a first layer"


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What `lnattn.report` found. A notebook shows its parts; `write` makes a page of them.

    parts: in their order; record: the model, where it is from, versions, seconds.
    """

    name: str
    parts: Sequence[Part]
    record: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Report on {self.name}: {', '.join(part.name for part in self.parts)}>"

    def part(self, name: str) -> Part:
        """A part by its name; `ResultError` for one that was not asked for."""
        for part in self.parts:
            if part.name == name:
                return part
        names = ", ".join(part.name for part in self.parts)
        raise ResultError(f"this report has no part {name!r}, but {names}.")

    def html(self) -> str:
        """One page that holds all that it shows."""
        return page(self.name, self.parts, self.record)

    def to_json(self) -> dict[str, Any]:
        """Every number, by part."""
        return {**self.record, "parts": {part.name: part.record() for part in self.parts}}

    def write(self, path: Path | str, *, force: bool = False) -> Path:
        """Write the page, and beside it a JSON file with every number; returns the page's path.

        Both are written atomically. Raises `ResultError` where another file than an earlier report
        is there already, unless force is given.
        """
        page_path = Path(path)
        record_path = check_place(page_path, force=force)
        write_json(record_path, self.to_json())
        text = self.html()
        return write_atomically(page_path, lambda file: file.write(text.encode()))

    def _repr_html_(self) -> str:
        return fragment(self.name, self.parts)


def check_place(
    path: Path | str, inputs: Iterable[Path | str] = (), *, force: bool = False
) -> Path:
    """Refuse a page that must not be written; returns the path of its JSON file.

    Raises `ResultError` for a name that does not end in .html, a folder, one of the inputs, or a
    file that is no report, which force allows.
    """
    page_path = Path(path)
    if page_path.suffix.lower() not in (".html", ".htm"):
        raise ResultError(
            f"{page_path} must end in .html: a report is a page, with JSON beside it."
        )
    record_path = page_path.with_suffix(".json")
    there = [place for place in (page_path, record_path) if real_path(place).exists()]
    if force and not any(place.is_dir() for place in there):
        return record_path
    check_outputs([page_path, record_path], inputs)
    if there and read_json(record_path).get("what") != WHAT:
        raise ResultError(f"{record_path} is there and is no report; give another --out.")
    return record_path


def report(
    model: Any,
    *,
    tokenizer: Any = None,
    corpus: Any = (),
    only: str | Sequence[str] | None = None,
    seed: int = 0,
) -> Report:
    """What can be said of a model's first layer: parts with sentences, figures, tables, numbers.

    model: a name or folder as for `load_first_layer`, a module as for `first_layer`, or what either
    gives (then nothing is compared with the whole model). tokenizer: of a module. corpus: own
    texts, counts, or both: files of documents, .npz files of `lnattn count`, `Counts`, or lists of
    token ids; otherwise the text and the counts that ship. only: names of `PARTS`. seed: of all
    draws.

    A part that the model has no data for says so in one sentence, and the others go on. Raises
    `ResultError` for an unknown part, and as the loaders do for a model that cannot be read.

    >>> import lnattn
    >>> made = lnattn.report("book-gpt2", only=["about", "keys"])
    >>> [part.name for part in made.parts]
    ['about', 'keys']
    >>> made.part("about").numbers["Heads"]
    '8 of width 32'
    """
    begun = time.perf_counter()
    names = chosen_parts(only)
    whole_number(seed, "seed", least=0)
    given = given_corpus(corpus)
    first, whole = _opened(model, tokenizer)
    evidence = Evidence(first, whole, given, seed)
    parts = []
    with progress_bar(names, f"report on {first.name}", unit=" parts") as bar:
        for name in bar:
            bar.set_postfix_str(name)
            parts.append(_made(name, evidence))
    facts = {key: first.provenance.get(key) for key in ("source", "revision", "weights_sha256")}
    record = provenance(
        what=WHAT,
        model=first.name,
        **facts,
        seed=seed,
        seconds=round(time.perf_counter() - begun, 1),
    )
    return Report(first.name, parts, record)


def given_corpus(corpus: Any) -> list[Any]:
    """What was given as a corpus, as a list; `CorpusError` for a file that is not there."""
    if corpus is None:
        return []
    if isinstance(corpus, str | Path | Counts):
        given = [corpus]
    elif isinstance(corpus, Iterable):
        given = list(corpus)
    else:
        raise CorpusError(
            f"corpus must be files, counts or lists of token ids, not {shown(corpus)}; leave it "
            "out for those that ship."
        )
    named = [str(source) for source in given if isinstance(source, str | Path)]
    check_count_files(path for path in named if path.endswith(".npz"))
    texts = [path for path in named if not path.endswith(".npz")]
    if texts:
        corpus_files(texts)
    return given


def chosen_parts(only: str | Sequence[str] | None) -> list[str]:
    """The names of the parts that are asked for, in their order; `ResultError` for another."""
    if only is None:
        return list(PARTS)
    is_list = isinstance(only, Iterable) and not isinstance(only, str)
    names: list[Any] = list(only) if is_list else [only]
    for name in names:
        if name not in PARTS:
            raise ResultError(
                f"there is no part {one_line(repr(name), 60)} of a report; the parts are "
                f"{', '.join(PARTS)}."
            )
    if not names:
        raise ResultError(f"no part is asked for; the parts are {', '.join(PARTS)}.")
    return [name for name in PARTS if name in names]


def _opened(model: Any, tokenizer: Any) -> tuple[FirstLayer | RelativeFirstLayer, Any]:
    """The first layer, and what the whole model can be had from, or None."""
    if isinstance(model, FirstLayer | RelativeFirstLayer):
        return (replace(model, tokenizer=tokenizer) if tokenizer else model), None
    if isinstance(model, nn.Module):
        return first_layer(model, tokenizer), model
    first = load_first_layer(model)
    return (replace(first, tokenizer=tokenizer) if tokenizer else first), model


def _is_lost(error: BaseException) -> bool:
    """Whether texts are there and could not be read, rather than that there are none."""
    return isinstance(error, CorpusError) and error.__cause__ is not None


def _made(name: str, evidence: Evidence) -> Part:
    """A part, or, where its data are missing, the sentence that says so."""
    title, make = PARTS[name]
    begun = time.perf_counter()
    try:
        part = make(evidence)
    except LnattnError as error:
        words = str(error)
        is_name = words.startswith(f"{evidence.model.name} ")  # which keeps its letters
        return Part(
            name,
            title,
            [one_line(words if is_name else capitalised(words))],
            is_missing=True,
            is_lost=_is_lost(error),
        )
    return replace(part, seconds=time.perf_counter() - begun)
