"""The affinity study of all query tokens: read where it is frozen, else computed once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lnattn.attention.vectors import TokenVectors
from lnattn.errors import ResultError
from lnattn.freezing import results_folder
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.text.counts import Counts
from lnattn.weights import Embeddings
from lnattn_book.studies.cache import cached_study
from lnattn_book.studies.detokenization import AffinityResult, detokenization
from lnattn_book.studies.samples import token_counts


def affinity_study(
    vectors: TokenVectors, embeddings: Embeddings, counts: Counts, source: Mapping[str, Any]
) -> tuple[AffinityResult, str]:
    """The study of a model's token vectors and bigram counts, and in words where it came from.

    source: what the vectors and counts are of, as `counts_and_source` says it. A frozen study is
    taken if it was made from the same; otherwise it is computed (seconds for a small model, minutes
    for GPT-2), once for all chapters, and the words say so.
    """
    folder = results_folder(source["model"])
    if (folder / "detokenization.json").is_file():
        frozen = AffinityResult.read(folder)
        if all(frozen.record.get(key) == value for key, value in source.items()):
            return frozen, f"frozen on {frozen.record['date']}"
        reason = "the frozen study is of other weights or counts"
    else:
        reason = "no study of this model is frozen"
    return affinity_computed(vectors, embeddings, counts, source), f"computed here: {reason}"


def affinity_computed(
    vectors: TokenVectors, embeddings: Embeddings, counts: Counts, source: Mapping[str, Any]
) -> AffinityResult:
    """The study, computed for this book whatever is frozen; of `queries_asked` query tokens."""
    key = {"weights": source["weights_sha256"], "counts": counts.sha256, "source": source}
    queries = queries_asked()
    return cached_study(
        AffinityResult,
        source["model"],
        key | {"queries": queries or "all"},
        lambda: detokenization(vectors, embeddings, counts, queries=queries, source=source),
    )


def queries_asked() -> int | None:
    """Of how many query tokens AUROCs are taken where they are computed: LNATTN_QUERIES, or all."""
    asked = os.environ.get("LNATTN_QUERIES", "").strip()
    if asked and not (asked.isdecimal() and int(asked)):
        raise ResultError(f"LNATTN_QUERIES is {asked!r}; it must be a number, such as 2000.")
    return int(asked) if asked else None


def counts_and_source(model: AnyFirstLayer) -> tuple[Counts, dict[str, Any]]:
    """The counts for a model, and what a study of the two is made from."""
    counts, words = token_counts(model)
    return counts, {
        "model": model.name,
        "revision": model.provenance.get("revision"),
        "weights_sha256": model.provenance.get("weights_sha256"),
        "counts": words,
        "corpus": counts.record.get("corpus"),
        "tokens": counts.tokens,
    }
