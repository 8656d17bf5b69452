"""Freezing every study of a model into data/results.

A frozen study lets the book show results of a model whose weights are not at hand; `verifying`
computes it again from the weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lnattn.attention.folding import fold
from lnattn.book import samples
from lnattn.book.affinity import affinity_computed, affinity_study, counts_and_source
from lnattn.book.composition import study_checkpoint
from lnattn.book.rotary import RotaryStudy, rotary_study
from lnattn.book.whole_models import ablation_study, layers_study
from lnattn.claims import survey
from lnattn.claims.evidence import Evidence
from lnattn.errors import LnattnError, ResultError
from lnattn.models.checkpoints import load_first_layer
from lnattn.paths import data_folder
from lnattn.relative import RelativeFirstLayer, with_positions
from lnattn.storage import read_json, sha256_of_file
from lnattn.studies.ablation.study import Ablations
from lnattn.studies.affinity.study import detokenization
from lnattn.studies.affinity.vectors import token_vectors
from lnattn.studies.contribution.study import contributions
from lnattn.studies.position.without_tokens import position_only
from lnattn.studies.selectability import first_layers
from lnattn.studies.selectability.layers import LayerVerdicts
from lnattn.text.corpora import describe_corpus
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer

#: Largest difference of two runs, as a share of the largest value in an array: float32 rounding in
#: other orders of summation.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Study:
    """A study that can be frozen.

    name: of its two files; about: one line for people; write: computes it for a model (anything
    that `load_first_layer` takes) and writes it to a folder; tolerance: by how much two runs may
    differ, as a share of the largest value in an array; relative: whether it is about models with
    rotary or relative positions, or about those that add them to their input; None: about both;
    long: whether it takes hours for a model of GPT-2's size, so that it is made only if named.
    """

    name: str
    about: str
    write: Callable[..., Path]
    tolerance: float = TOLERANCE
    relative: bool | None = False
    long: bool = False


def _learned(model: str) -> FirstLayer:
    return with_positions(load_first_layer(model))


def _position(model: str, folder: Path) -> Path:
    return position_only(_learned(model)).write(folder)


def _composition(model: str, folder: Path) -> Path:
    return study_checkpoint(model).write(folder)


def _detokenization(model: str, folder: Path) -> Path:
    first = _learned(model)
    vectors = token_vectors(fold(first.attention), first.embeddings)
    return affinity_computed(vectors, first.embeddings, *counts_and_source(first)).write(folder)


def _contribution(model: str, folder: Path) -> Path:
    first, texts = _learned(model), samples.sample_file()
    documents = samples.sample_framed(first)
    source = {**first.provenance, "corpus": describe_corpus([texts])}
    found = contributions(fold(first.attention), first.embeddings, documents, source=source)
    return found.write(folder)


def _survey(model: str, folder: Path) -> Path:
    begun = time.perf_counter()
    first = _learned(model)
    seen = evidence(first, name=f"{folder.name} (frozen)" if first.is_partial else "")
    found = survey.survey(seen)
    return survey.write_survey(folder, found, seen.model, **_facts(begun))


def _survey_of_null(model: str, folder: Path) -> Path:
    begun, seeds = time.perf_counter(), list(range(5))
    seen = evidence(_learned(model), with_study=False)
    found = survey.survey_of_null(seen, seeds)
    facts = _facts(begun) | {"null": "entries of every tensor dealt anew", "seeds": seeds}
    return survey.write_survey(folder, found, seen.model, "survey-null", **facts)


def _selectable_positions(model: str, folder: Path) -> Path:
    return first_layers.positions_of(_learned(model)).write(folder, first_layers.POSITIONS)


def _selectable_text(model: str, folder: Path) -> Path:
    first = _learned(model)
    samples.tokenizer_of(first)  # without one, the error says so
    return first_layers.text_of(first, samples.sample_file()).write(folder, first_layers.TEXT)


def _ablation(model: str, folder: Path) -> Path:
    return ablation_study(load_first_layer(model), model, folder).write(folder)


def _selectable_layers(model: str, folder: Path) -> Path:
    return layers_study(load_first_layer(model), model).write(folder)


def _rotary(model: str, folder: Path, files: Sequence[Path | str] = ()) -> Path:
    """files: counts of pairs 1, 2 and 3 apart, as `lnattn count --skip` writes them.

    Without any, the sample that ships with the book is counted: little text, and the record says
    how much.
    """
    first = load_first_layer(model)
    if not isinstance(first, RelativeFirstLayer):
        raise ResultError(f"{first.name} adds its positions to its input; it has no such study.")
    sample = samples.sample_tokens(first)
    source = {
        "revision": first.provenance.get("revision"),
        "metadata": first.provenance.get("metadata"),
        "sample_sha256": sha256_of_file(samples.sample_file()),
    }
    if files:
        counts = _counts_apart(first, files)
        source["counts"] = [one.record for one in counts.values()]
        source["counts_sha256"] = [sha256_of_file(path) for path in files]
    else:
        texts, vocab = [np.asarray(ids) for ids in sample], first.embeddings.vocab_size
        counts = {
            apart: Counts.from_documents(texts, vocab, skip=apart) for apart in RotaryStudy.COUNTED
        }
        source["counts"] = "the sample documents"
    return rotary_study(first, counts, sample, source=source).write(folder)


def _counts_apart(first: RelativeFirstLayer, files: Sequence[Path | str]) -> dict[int, Counts]:
    """The counts in files, by how far their pairs stand apart; refuses those of another model."""
    counts = {apart: Counts.load(path) for apart, path in enumerate(files, start=1)}
    for apart, one in counts.items():
        if one.vocab_size != first.embeddings.vocab_size or one.record.get("skip", 1) != apart:
            raise ResultError(
                f"{files[apart - 1]} holds no counts of pairs {apart} apart in the tokens of "
                f"{first.name}; name the files of skip 1, 2 and 3 in this order."
            )
    return counts


def _facts(begun: float) -> dict[str, Any]:
    return {
        "texts": "data/text/sample.jsonl",
        "texts_sha256": sha256_of_file(samples.sample_file()),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def evidence(
    model: FirstLayer, *, with_study: bool = True, name: str = "", counts: Counts | None = None
) -> Evidence:
    """What the claims about a first layer are asked with: the shipped texts, counts, its study.

    with_study: take the affinity study of all query tokens (frozen, or computed: minutes for
    GPT-2); without, a sample of query tokens must do. name: what verdicts call the model. counts:
    in its tokens, in place of those that ship with the book; the study is then computed here.
    """
    if model.is_partial:
        return Evidence(model, name=name)
    source = study = None
    if counts is None:
        counts, source = counts_and_source(model)
    if with_study:
        vectors = token_vectors(fold(model.attention), model.embeddings)
        if source is None:
            study = detokenization(vectors, model.embeddings, counts)
        else:
            study, _ = affinity_study(vectors, model.embeddings, counts, source)
    return Evidence(
        model,
        cut=lambda length: samples.sample_windows(model, length)[0],
        framed=samples.sample_framed(model),
        counts=counts,
        study=study,
        name=name,
    )


#: Every study that can be frozen, quick ones first.
STUDIES = {
    study.name: study
    for study in (
        Study("position", "position-only terms of the first layer (K6–K8, K13, K14)", _position),
        Study("composition", "composition scores of all layers, raw and folded", _composition),
        Study("detokenization", "affinity of tokens and its AUROC (K3–K5)", _detokenization),
        # Its quantiles come from a histogram: rounding can move one by a bin, which is 4 %.
        Study("contribution", "what each of the six terms does (K10)", _contribution, 0.05),
        Study(first_layers.POSITIONS, "positions that no query selects", _selectable_positions),
        Study(first_layers.TEXT, "keys of texts that no query selects", _selectable_text),
        Study("survey", "which of K3–K15 hold", _survey),
        Study("survey-null", "the same for the model's weights dealt anew", _survey_of_null),
        Study(
            LayerVerdicts.NAME,
            "keys of all layers (U1–U3)",
            _selectable_layers,
            relative=None,
            long=True,
        ),
        Study(
            Ablations.NAME,
            "losses without parts of scores (S7–S10)",
            _ablation,
            tolerance=0.01,
            relative=None,
            long=True,
        ),
        Study(RotaryStudy.NAME, "four terms by distance (D1–D7)", _rotary, 1e-3, relative=True),
    )
}


def results_folder(name: str) -> Path:
    """Where the frozen results of a model are, by its short name."""
    return data_folder() / "results" / Path(name).name


@dataclass(frozen=True)
class Frozen:
    """A study that was written to `path`, or, where that is None, why the model has none."""

    study: str
    path: Path | None
    why: str = ""


def freeze(
    model: str,
    folder: Path | str,
    only: Sequence[str] | None = None,
    counts: Sequence[Path | str] = (),
) -> Iterator[Frozen]:
    """Compute studies of a model and write them; yields as each is done.

    only: some studies, each of which must succeed; by default all but the long ones, and one that
    this model does not support (a partial checkpoint has no tokens) is passed over, with the
    reason. counts: files of pairs 1, 2 and 3 tokens apart, for the study of a rotary model;
    without them it counts the sample that ships with the book.
    Raises `ResultError` for an unknown study, and what the loaders raise for a bad model.
    """
    # A model that cannot be read is an error, and no reason to pass over.
    relative = isinstance(load_first_layer(model), RelativeFirstLayer)
    for name in known(only or [study.name for study in STUDIES.values() if not study.long]):
        try:
            if STUDIES[name].relative not in (None, relative):
                kind = "not added to its input" if relative else "added to its input"
                raise ResultError(f"this model's positions are {kind}.")
            yield Frozen(name, writer(name, counts)(model, Path(folder)))
        except LnattnError as error:
            if only:
                raise
            yield Frozen(name, None, str(error))


def writer(name: str, counts: Sequence[Path | str]) -> Callable[[str, Path], Path]:
    """What computes a study for a model, the first argument, and writes it to a folder."""
    study = STUDIES[name]
    return partial(study.write, files=counts) if study.relative else study.write


def known(names: Sequence[str]) -> list[str]:
    """The same names. Raises `ResultError` for one that no study has."""
    for name in names:
        if name not in STUDIES:
            raise ResultError(f"there is no study {name!r}; there are {', '.join(STUDIES)}.")
    return list(names)


def summary(folder: Path | str) -> dict[str, str]:
    """Names and dates of the studies frozen in a folder."""
    return {
        name: read_json(Path(folder) / f"{name}.json").get("date", "no date")
        for name in STUDIES
        if (Path(folder) / f"{name}.json").is_file()
    }
