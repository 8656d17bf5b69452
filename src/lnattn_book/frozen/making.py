"""The studies and checks that the book adds to those of `lnattn.freezing`.

They read the book's texts and counts, which the installed package does not bring. `enter_studies`
enters them: `python -m lnattn_book freeze` and `verify` do, and then are the commands of the
package.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lnattn.attention.folding import fold
from lnattn.attention.vectors import token_vectors
from lnattn.contribution.study import contributions
from lnattn.errors import ResultError
from lnattn.freezing import Comparison, Study, register_studies
from lnattn.models.checkpoints import load_first_layer
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer
from lnattn.selectability import first_layers
from lnattn.storage import sha256_of_file
from lnattn.text.corpora import describe_corpus
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer, require_absolute
from lnattn_book.claims import survey
from lnattn_book.frozen.printed import differences_from_printed
from lnattn_book.studies import samples
from lnattn_book.studies.ablation.losses import Ablations
from lnattn_book.studies.affinity_study import affinity_computed, counts_and_source
from lnattn_book.studies.distance_terms import RotaryStudy, rotary_study
from lnattn_book.studies.keys_by_layer import LayerVerdicts
from lnattn_book.studies.whole_models import ablation_study, layers_study

#: By how much a few AUROCs may differ. One jumps by at most 1/negatives, 1.2e-4 of 8,192 tokens,
#: where a positive and a negative key change places whose scores differ by less than float32 rounds
#: (products are summed in another order on another processor, or in blocks of another height). Of
#: 65,536 AUROCs one was seen to jump, by 1.09e-4: the gap of its scores was 6.5e-7, their rounding
#: 8.1e-7. Two exchanges are allowed.
_EXCHANGES = 2 / 8192


def _learned(model: str) -> FirstLayer:
    return require_absolute(load_first_layer(model))


def _detokenization(model: str, folder: Path) -> Path:
    first = _learned(model)
    vectors = token_vectors(fold(first.attention), first.embeddings)
    return affinity_computed(vectors, first.embeddings, *counts_and_source(first)).write(folder)


def _contribution(model: str, folder: Path) -> Path:
    first = _learned(model)
    texts = samples.sample_file()
    documents = samples.sample_framed(first)
    source = {**first.provenance, "corpus": describe_corpus([texts])}
    result = contributions(fold(first.attention), first.embeddings, documents, source=source)
    return result.write(folder)


def _survey(model: str, folder: Path) -> Path:
    begun = time.perf_counter()
    first = _learned(model)
    seen = survey.evidence(first, name=f"{folder.name} (frozen)" if first.is_partial else "")
    records = survey.survey(seen)
    return survey.write_survey(
        folder, records, seen.model, **_facts(begun), **_asked(seen, folder.name)
    )


def _asked(seen: survey.Surveyed, name: str) -> dict[str, Any]:
    """Of how many query tokens AUROCs were taken, where not of all, and a command that says so."""
    if seen.study is None:
        return {}
    asked = int(seen.study.record["queries"])
    if asked >= seen.model.embeddings.vocab_size:
        return {}
    command = f"LNATTN_QUERIES={asked} {PROGRAM} freeze {name} --only survey"
    return {"queries": asked, "command": command}


def _survey_of_null(model: str, folder: Path) -> Path:
    begun = time.perf_counter()
    seeds = list(range(5))
    seen = survey.evidence(_learned(model), with_study=False)
    records = survey.survey_of_null(seen, seeds)
    facts = _facts(begun) | {"null": "entries of every tensor dealt anew", "seeds": seeds}
    return survey.write_survey(folder, records, seen.model, "survey-null", **facts)


def _selectable_text(model: str, folder: Path) -> Path:
    first = _learned(model)
    samples.tokenizer_of(first)  # without one, the error says so
    return first_layers.text_of(first, samples.sample_file()).write(folder, first_layers.TEXT)


def _ablation(model: str, folder: Path) -> Path:
    return ablation_study(load_first_layer(model), model).write(folder)


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
        source["counts"] = [of_distance.record for of_distance in counts.values()]
        source["counts_sha256"] = [sha256_of_file(path) for path in files]
    else:
        texts = [np.asarray(ids) for ids in sample]
        vocab = first.embeddings.vocab_size
        counts = {
            apart: Counts.from_documents(texts, vocab, skip=apart) for apart in RotaryStudy.COUNTED
        }
        source["counts"] = "the sample documents"
    return rotary_study(first, counts, sample, source=source).write(folder)


def _source(first: AnyFirstLayer) -> dict[str, Any]:
    """Which weights were asked, and with which texts."""
    named = ("weights_sha256", "revision", "metadata")
    facts = {name: first.provenance.get(name) for name in named}
    return {**facts, "sample_sha256": sha256_of_file(samples.sample_file())}


def _counts_apart(first: RelativeFirstLayer, files: Sequence[Path | str]) -> dict[int, Counts]:
    """The counts in files, by how far their pairs stand apart; refuses those of another model."""
    counts = {apart: Counts.load(path) for apart, path in enumerate(files, start=1)}
    for apart, of_distance in counts.items():
        is_of_model = of_distance.vocab_size == first.embeddings.vocab_size
        if not is_of_model or of_distance.record.get("skip", 1) != apart:
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


def verify_printed(model: str) -> Iterator[Comparison]:
    """The scores that the paper's authors printed; nothing for a model without embeddings."""
    first = load_first_layer(model)
    if not first.is_partial:
        yield Comparison("printed by the authors", tuple(differences_from_printed(first)))


#: Whose commands freeze these studies.
PROGRAM = "python -m lnattn_book"
#: The studies of the book.
STUDIES = (
    # Affinity and its AUROC (K3–K5).
    Study("detokenization", _detokenization, max_outlier=_EXCHANGES, program=PROGRAM),
    # What each of the six terms does (K10).
    Study("contribution", _contribution, program=PROGRAM),
    # Keys of texts that no query selects.
    Study(first_layers.TEXT, _selectable_text, program=PROGRAM),
    # Which of K3–K15 hold, and the same for the model's weights in random order.
    Study("survey", _survey, program=PROGRAM),
    Study("survey-null", _survey_of_null, program=PROGRAM),
    # Keys of all layers, and losses without parts of scores (S7).
    Study(LayerVerdicts.NAME, _selectable_layers, relative=None, long=True, program=PROGRAM),
    Study(Ablations.NAME, _ablation, tolerance=0.01, relative=None, long=True, program=PROGRAM),
    # Four terms by distance (D1, D3).
    Study(RotaryStudy.NAME, _rotary, tolerance=1e-3, relative=True, program=PROGRAM),
)


def enter_studies() -> None:
    """Enter them beside those of the package: its commands then freeze and verify both."""
    register_studies(*STUDIES, checks={"gpt2": verify_printed})
