"""Freezing every study of a model into data/results, and verifying frozen studies anew.

A frozen study lets the book show results of a model whose weights are not at hand. `verify`
computes it again from the weights and lists what differs by more than the stated tolerances.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lnattn.attention.folding import fold
from lnattn.book.printed import differences_from_printed
from lnattn.book.rotary import RotaryStudy, rotary_study
from lnattn.book.samples import (
    sample_file,
    sample_framed,
    sample_tokens,
    sample_windows,
    token_counts,
    tokenizer_of,
)
from lnattn.claims import survey
from lnattn.claims.verdicts import NOT_COMPUTABLE
from lnattn.errors import LnattnError, ResultError
from lnattn.kept import computing_anew, kept
from lnattn.models.checkpoints import load_first_layer
from lnattn.paths import data_folder
from lnattn.relative import RelativeFirstLayer
from lnattn.storage import read_json, read_result, sha256_of_file
from lnattn.studies import composition
from lnattn.studies.affinity.study import Detokenization, detokenization
from lnattn.studies.contribution.study import contributions
from lnattn.studies.position.without_tokens import position_only
from lnattn.studies.selectability import first_layers
from lnattn.text.corpora import describe_corpus
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer

#: Largest difference of two runs, as a share of the largest value in the array (float32 rounding
#: in other orders of summation), and of integers, the share of entries that may differ (ties).
TOLERANCE = 1e-4
TIES = 1e-3


@dataclass(frozen=True)
class Study:
    """A study that can be frozen.

    name: of its two files; about: one line for people; write: computes it for a model (anything
    that `load_first_layer` takes) and writes it to a folder; tolerance: by how much two runs may
    differ, as a share of the largest value in an array; relative: whether it is about models with
    rotary or relative positions, and not about those that add them to their input.
    """

    name: str
    about: str
    write: Callable[..., Path]
    tolerance: float = TOLERANCE
    relative: bool = False


def _position(model: str, folder: Path) -> Path:
    return position_only(load_first_layer(model)).write(folder)


def _composition(model: str, folder: Path) -> Path:
    return composition.study_checkpoint(model).write(folder)


def _detokenization(model: str, folder: Path) -> Path:
    return affinity_computed(load_first_layer(model)).write(folder)


def _contribution(model: str, folder: Path) -> Path:
    first, texts = load_first_layer(model), sample_file()
    documents = sample_framed(first)
    source = {**first.provenance, "corpus": describe_corpus([texts])}
    found = contributions(fold(first.attention), first.embeddings, documents, source=source)
    return found.write(folder)


def _survey(model: str, folder: Path) -> Path:
    begun = time.perf_counter()
    first = load_first_layer(model)
    seen = evidence(first, name=f"{folder.name} (frozen)" if first.is_partial else "")
    found = survey.survey(seen)
    return survey.write_survey(folder, found, seen.model, **_facts(begun))


def _survey_of_null(model: str, folder: Path) -> Path:
    begun, seeds = time.perf_counter(), list(range(5))
    seen = evidence(load_first_layer(model), with_study=False)
    found = survey.survey_of_null(seen, seeds)
    facts = _facts(begun) | {"null": "entries of every tensor dealt anew", "seeds": seeds}
    return survey.write_survey(folder, found, seen.model, "survey-null", **facts)


def _selectable_positions(model: str, folder: Path) -> Path:
    return first_layers.positions_of(load_first_layer(model)).write(folder, first_layers.POSITIONS)


def _selectable_text(model: str, folder: Path) -> Path:
    first = load_first_layer(model)
    tokenizer_of(first)  # without one, the error says so
    return first_layers.text_of(first, sample_file()).write(folder, first_layers.TEXT)


def _rotary(model: str, folder: Path, files: Sequence[Path | str] = ()) -> Path:
    """files: counts of pairs 1, 2, … apart, as `lnattn count --skip` writes them."""
    if len(files) != len(RotaryStudy.COUNTED):
        raise ResultError(
            "the study of a rotary model needs counts of pairs that stand 1, 2 and 3 tokens apart; "
            "make them with `lnattn count --skip` and name them in this order with --counts."
        )
    first = load_first_layer(model)
    if not isinstance(first, RelativeFirstLayer):
        raise ResultError(f"{first.name} adds its positions to its input; it has no such study.")
    counts = {apart: Counts.load(path) for apart, path in enumerate(files, start=1)}
    for apart, one in counts.items():
        if one.vocab_size != first.embeddings.vocab_size or one.record.get("skip", 1) != apart:
            raise ResultError(
                f"{files[apart - 1]} holds no counts of pairs {apart} apart in the tokens of "
                f"{first.name}; name the files of skip 1, 2 and 3 in this order."
            )
    source = {
        "revision": first.provenance.get("revision"),
        "metadata": first.provenance.get("metadata"),
        "counts": [one.record for one in counts.values()],
        "counts_sha256": [sha256_of_file(path) for path in files],
        "sample_sha256": sha256_of_file(sample_file()),
    }
    return rotary_study(first, counts, sample_tokens(first), source=source).write(folder)


def _facts(begun: float) -> dict[str, Any]:
    return {
        "texts": "data/text/sample.jsonl",
        "texts_sha256": sha256_of_file(sample_file()),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def evidence(model: FirstLayer, *, with_study: bool = True, name: str = "") -> survey.Evidence:
    """What the claims about a first layer are asked with: the shipped texts, counts, its study.

    with_study: take the affinity study of all query tokens (frozen, or computed: minutes for
    GPT-2); without, a sample of query tokens must do. name: what verdicts call the model.
    """
    if model.is_partial:
        return survey.Evidence(model, name=name)
    counts, _ = token_counts(model)
    return survey.Evidence(
        model,
        cut=lambda length: sample_windows(model, length)[0],
        framed=sample_framed(model),
        counts=counts,
        study=affinity_study(model)[0] if with_study else None,
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

    only: some studies, each of which must succeed; by default all, and one that this model does
    not support (a partial checkpoint has no tokens) is passed over, with the reason. counts: files
    of pairs 1, 2 and 3 tokens apart, for the study of a rotary model.
    Raises `ResultError` for an unknown study, and what the loaders raise for a bad model.
    """
    # A model that cannot be read is an error, and no reason to pass over.
    relative = isinstance(load_first_layer(model), RelativeFirstLayer)
    for name in _known(only or list(STUDIES)):
        try:
            if STUDIES[name].relative != relative:
                kind = "not added to its input" if relative else "added to its input"
                raise ResultError(f"this model's positions are {kind}.")
            yield Frozen(name, _writer(name, counts)(model, Path(folder)))
        except LnattnError as error:
            if only:
                raise
            yield Frozen(name, None, str(error))


def _writer(name: str, counts: Sequence[Path | str]) -> Callable[[str, Path], Path]:
    study = STUDIES[name]
    return partial(study.write, files=counts) if study.relative else study.write


@dataclass(frozen=True)
class Comparison:
    """One frozen study beside a new computation; `differences` is empty where they agree.

    not_compared: why there was no comparison, or ''.
    """

    study: str
    differences: tuple[str, ...]
    not_compared: str = ""

    @property
    def agrees(self) -> bool:
        return not self.differences


def verify(
    model: str,
    folder: Path | str,
    only: Sequence[str] | None = None,
    counts: Sequence[Path | str] = (),
) -> Iterator[Comparison]:
    """Compute again what is frozen in a folder, and compare; yields as each study is done.

    counts: as for `freeze`; without them the study of a rotary model is read and not computed.
    Raises `ResultError` where nothing is frozen there, or a file is damaged.
    """
    folder = Path(folder)
    present = [name for name in STUDIES if (folder / f"{name}.json").is_file()]
    names = _known(only or present)
    if not names:
        raise ResultError(f"{folder} holds no frozen study; make one with `lnattn freeze`.")
    whole = not load_first_layer(model).is_partial
    for name in names:
        frozen = read_result(folder, name)
        if whole and _of_a_part(frozen[1]):
            yield Comparison(
                name, (), "frozen from weights without tokens, which gave fewer claims"
            )
            continue
        if STUDIES[name].relative and not counts:
            why = "read, but not computed again: its counts were not given (--counts)"
            yield Comparison(name, (), why)
            continue
        with tempfile.TemporaryDirectory() as place, computing_anew():
            _writer(name, counts)(model, Path(place))
            anew = read_result(place, name)
        yield Comparison(name, tuple(_differences(frozen, anew, STUDIES[name].tolerance)))


def verify_printed(model: str) -> Iterator[Comparison]:
    """The scores that the paper's authors printed; nothing for a model without embeddings."""
    first = load_first_layer(model)
    if not first.is_partial:
        yield Comparison("printed by the authors", tuple(differences_from_printed(first)))


def _known(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in STUDIES:
            raise ResultError(f"there is no study {name!r}; there are {', '.join(STUDIES)}.")
    return list(names)


Result = tuple[Mapping[str, np.ndarray], Mapping[str, Any]]


def _differences(frozen: Result, anew: Result, tolerance: float) -> Iterator[str]:
    before, after = _weights(frozen[1]), _weights(anew[1])
    if before != after and _what_was_read(frozen[1]) == _what_was_read(anew[1]):
        yield f"made from other weights: {before}, now {after}"
    for name in sorted(frozen[0].keys() | anew[0].keys()):
        if name not in frozen[0] or name not in anew[0]:
            yield f"{name} is only in the {'frozen' if name in frozen[0] else 'new'} result"
        else:
            yield from compare_arrays(name, frozen[0][name], anew[0][name], tolerance)
    for old, new in zip(frozen[1].get("verdicts", []), anew[1].get("verdicts", []), strict=False):
        if old["verdict"] != new["verdict"]:
            yield f"{old['claim']}: {old['verdict']!r} when frozen, {new['verdict']!r} now"


def compare_arrays(
    name: str, frozen: np.ndarray, anew: np.ndarray, tolerance: float = TOLERANCE
) -> Iterator[str]:
    """What differs beyond the tolerances, in words; nothing where two arrays agree."""
    if frozen.shape != anew.shape:
        yield f"{name} has shape {list(frozen.shape)} when frozen, {list(anew.shape)} now"
    elif not frozen.size:
        return
    elif frozen.dtype.kind not in "fc":
        share = float((frozen != anew).mean())
        if share > TIES:
            yield f"{name}: {share:.2%} of its entries differ"
    elif not np.array_equal(np.isfinite(frozen), np.isfinite(anew)):
        yield f"{name} is undefined or infinite at other places than when it was frozen"
    else:
        finite = np.isfinite(frozen)
        gap = np.abs(frozen[finite] - anew[finite]).max(initial=0)
        scale = np.abs(frozen[finite]).max(initial=0)
        if gap > tolerance * scale:
            yield f"{name} differs by up to {gap:.3g}, where its largest value is {scale:.3g}"


def _weights(record: Mapping[str, Any]) -> Any:
    """The checksum of the weights a record names, wherever the study keeps it."""
    return _entry(record, "weights_sha256", "file_sha256")


def _what_was_read(record: Mapping[str, Any]) -> Any:
    """Names of the tensors, or of the files, that a checksum of weights is over.

    A checkpoint without token embeddings and a complete one have different checksums, whatever
    they share; then the arrays alone tell.
    """
    return _entry(record, "tensors") or sorted(_entry(record, "file_sha256") or ())


def _of_a_part(record: Mapping[str, Any]) -> bool:
    """Whether a survey was made of a checkpoint without token embeddings."""
    return any(one["verdict"] == NOT_COMPUTABLE for one in record.get("verdicts", ()))


def _entry(record: Mapping[str, Any], *keys: str) -> Any:
    places = (record, record.get("model"), record.get("source"))
    found = [p[key] for p in places if isinstance(p, Mapping) for key in keys if p.get(key)]
    return found[0] if found else None


def summary(folder: Path | str) -> dict[str, str]:
    """Names and dates of the studies frozen in a folder."""
    return {
        name: read_json(Path(folder) / f"{name}.json").get("date", "no date")
        for name in STUDIES
        if (Path(folder) / f"{name}.json").is_file()
    }


def affinity_study(model: FirstLayer) -> tuple[Detokenization, Counts, str]:
    """The study, the bigram counts it is about, and in words where it came from.

    A frozen study is taken if it was made from these weights and these counts; otherwise it is
    computed (seconds for a small model, minutes for GPT-2), once for all chapters, and the words
    say so.
    """
    counts, source = counts_and_source(model)
    folder = data_folder() / "results" / model.name.rsplit("/", 1)[-1]
    if (folder / "detokenization.json").is_file():
        frozen = Detokenization.read(folder)
        if all(frozen.record.get(key) == value for key, value in source.items()):
            return frozen, counts, f"frozen on {frozen.record['date']}"
        reason = "the frozen study is of other weights or counts"
    else:
        reason = "no study of this model is frozen"
    return affinity_computed(model), counts, f"computed here: {reason}"


def affinity_computed(model: FirstLayer) -> Detokenization:
    """The study, computed for this book whatever is frozen."""
    counts, source = counts_and_source(model)
    return kept(
        "affinity",
        {"weights": source["weights_sha256"], "counts": counts.sha256, "source": source},
        lambda: detokenization(model, counts, source=source),
        write=Detokenization.write,
        read=Detokenization.read,
    )


def counts_and_source(model: FirstLayer) -> tuple[Counts, dict[str, Any]]:
    """The counts for a model, and what a study of the two was made from."""
    counts, words = token_counts(model)
    return counts, {
        "model": model.name,
        "revision": model.provenance.get("revision"),
        "weights_sha256": model.provenance.get("weights_sha256"),
        "counts": words,
        "corpus": counts.record.get("corpus"),
        "tokens": counts.tokens,
    }
