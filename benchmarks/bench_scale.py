"""How time and memory grow with the sizes of a model and of a text, each point by itself.

Each point has a process of its own, so that its peak of memory is no other's. Its time is that of
the processor in the fastest round: what others do on the machine only adds to it. Beside the fitted
exponent stands that of the operations which the algorithm has to make at those sizes.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil, log2
from typing import Any

import numpy as np
import torch
from bench_affinity import zipf_bigrams
from bench_contribution import random_documents
from bench_selectability import half_inside
from common import fitted_slope, process_peak_mib, random_first_layer

from lnattn import fold, six_terms
from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.attention.vectors import TokenVectors, ranks, token_vectors
from lnattn.contribution.study import contributions
from lnattn.selectability.decide import selectability
from lnattn.text.counts import Counts

Shape = Mapping[str, int]

#: The sizes of a point, but for the one that its curve runs over.
SHAPE = {"V": 8192, "d": 256, "P": 1024, "n": 1024, "width": 64, "documents": 1}
#: The sizes of the small call before the clock runs, which loads what is compiled.
TINY = {"V": 64, "d": 64, "P": 8, "n": 16, "width": 4, "documents": 1}
HEAD_WIDTH = 64
#: Query tokens whose AUROCs and ranks are taken, and bigrams that are drawn.
QUERIES, BIGRAMS = 1000, 1_000_000
#: Tokens of a document: to be counted, and of many to be studied.
COUNTED, STUDIED = 1000, 64
#: Documents that are counted where their number is not what varies.
DOCUMENTS = 1000
#: A point that takes more seconds, or more bytes, is ended and has no place in its curve.
MOST_SECONDS, MOST_BYTES = 60, 8 << 30
#: Seconds of a round at least, and of all rounds.
_ROUND, _ROUNDS = 0.2, 0.6


def model_of(shape: Shape) -> Any:
    """Random weights of a first layer with heads of 64."""
    return random_first_layer(shape["V"], shape["d"], shape["d"] // HEAD_WIDTH, shape["P"])


def document_of(shape: Shape) -> torch.Tensor:
    """One document as long as the context."""
    return random_documents(shape["V"], shape["P"])[0]


def attention_from_terms(shape: Shape) -> Callable[[], Any]:
    """All six terms of a document, and attention from their sum."""
    model = model_of(shape)
    folded = fold(model.attention)
    ids = document_of(shape)
    return lambda: six_terms(folded, model.embeddings, ids).attention()


def vectors_of_tokens(shape: Shape) -> Callable[[], Any]:
    """Queries and keys of the whole vocabulary, divided by their mean σ over all positions."""
    model = model_of(shape)
    return partial(token_vectors, fold(model.attention), model.embeddings)


def random_vectors(shape: Shape) -> TokenVectors:
    """Queries and keys of all tokens, made of noise."""
    heads = shape["d"] // HEAD_WIDTH
    generator = torch.Generator().manual_seed(0)
    return TokenVectors(*torch.randn(2, heads, shape["V"], HEAD_WIDTH, generator=generator))


def areas(shape: Shape) -> Callable[[], Any]:
    """AUROCs of all heads for a thousand query tokens that have a bigram."""
    vectors = random_vectors(shape)
    before = Neighbours.before(zipf_bigrams(shape["V"], min(BIGRAMS, 50 * shape["V"])))
    having = np.flatnonzero(before.n_distinct)
    return partial(head_auroc, vectors, before, having[:QUERIES])


def ranks_of_keys(shape: Shape) -> Callable[[], Any]:
    """Ranks of a thousand keys in all heads."""
    vectors = random_vectors(shape)
    pairs = np.random.default_rng(0).integers(shape["V"], size=(2, QUERIES))
    return partial(ranks, vectors, *torch.from_numpy(pairs))


def contributions_of(shape: Shape) -> Callable[[], Any]:
    """Contributions of the six terms: one document as long as the context, or many short ones."""
    model = model_of(shape)
    length = shape["P"] if shape["documents"] == 1 else STUDIED
    documents = random_documents(shape["V"], length, shape["documents"])
    ids = [document.tolist() for document in documents]
    return partial(contributions, fold(model.attention), model.embeddings, ids)


def verdicts(shape: Shape) -> Callable[[], Any]:
    """Which keys are unselectable, with proofs; half of them are mixtures of others."""
    return partial(selectability, half_inside(shape["n"], shape["width"]))


def tokens_counted(shape: Shape) -> int:
    """Tokens of all documents, of which there are many wherever they are counted."""
    return COUNTED * (DOCUMENTS if shape["documents"] == 1 else shape["documents"])


def counts(shape: Shape) -> Callable[[], Any]:
    """Pairs of tokens in documents of a thousand."""
    rng = np.random.default_rng(0)
    share = 1 / (np.arange(shape["V"]) + 2.7)
    edges = np.cumsum(share / share.sum())
    drawn = np.searchsorted(edges, rng.random(tokens_counted(shape)))
    stream = drawn.clip(max=shape["V"] - 1).astype(np.int32)
    documents = stream.reshape(-1, COUNTED)
    return lambda: Counts.from_documents(list(documents), shape["V"])


def operations_on_a_document(shape: Shape) -> float:
    """Projections of tokens and positions to queries and keys, and the four terms of pairs."""
    length = shape["P"] if shape["documents"] == 1 else STUDIED
    return shape["documents"] * (8 * length * shape["d"] ** 2 + 8 * length**2 * shape["d"])


def operations_on_tokens(shape: Shape) -> float:
    """Projections to queries and keys, and products with all positions for the mean σ."""
    return shape["V"] * (4 * shape["d"] ** 2 + 2 * shape["P"] * shape["d"])


def operations_on_scores(shape: Shape) -> float:
    """Scores of a thousand query tokens with all keys."""
    return 2 * QUERIES * shape["V"] * shape["d"]


def operations_on_keys(shape: Shape) -> float:
    """For each key products with all keys, in as many steps at every size."""
    return shape["n"] ** 2 * shape["width"]


def operations_on_pairs(shape: Shape) -> float:
    """Comparisons that sort the pairs of all documents."""
    return tokens_counted(shape) * log2(tokens_counted(shape))


@dataclass(frozen=True)
class Method:
    """What is measured: made ready for a shape, and the operations that it has to make there."""

    make: Callable[[Shape], Callable[[], Any]]
    operations: Callable[[Shape], float]


METHODS = {
    "six terms, attention": Method(attention_from_terms, operations_on_a_document),
    "contributions": Method(contributions_of, operations_on_a_document),
    "queries and keys of all tokens": Method(vectors_of_tokens, operations_on_tokens),
    "AUROC": Method(areas, operations_on_scores),
    "ranks": Method(ranks_of_keys, operations_on_scores),
    "selectability": Method(verdicts, operations_on_keys),
    "counting": Method(counts, operations_on_pairs),
}
SIX, KL, VECTORS, AUROC, RANKS, KEYS, COUNTING = METHODS


@dataclass(frozen=True)
class Axis:
    """A size that some methods are measured over."""

    symbol: str
    label: str
    sizes: tuple[int, ...]
    methods: tuple[str, ...]


AXES = (
    Axis(
        "V",
        "tokens in the vocabulary",
        (8192, 32_768, 131_072, 262_144),
        (SIX, KL, VECTORS, AUROC, RANKS, COUNTING),
    ),
    Axis("d", "width of the model", (256, 1024, 4096), (SIX, KL, VECTORS, AUROC, RANKS)),
    Axis("P", "positions of the context", (256, 1024, 4096, 8192), (SIX, KL, VECTORS)),
    Axis("n", "keys", (256, 1024, 4096, 16_384), (KEYS,)),
    Axis("width", "width of a key", (4, 16, 64, 256), (KEYS,)),
    Axis("documents", "documents", (100, 400, 1600), (KL, COUNTING)),
)


def measure(method: str, shape: Shape) -> dict[str, float]:
    """CPU seconds (the fastest of some rounds) and the peak of this process, in MiB."""
    make = METHODS[method].make
    make(TINY)()
    call = make(shape)
    begin = time.perf_counter()
    call()
    # A processor's clock has ticks of milliseconds: a round of many calls is long beside them.
    number = max(1, ceil(_ROUND / (time.perf_counter() - begin)))
    rounds: list[float] = []
    while number * sum(rounds) < _ROUNDS and len(rounds) < 20:
        begin = time.process_time()
        for _ in range(number):
            call()
        rounds.append((time.process_time() - begin) / number)
    return {"seconds": min(rounds), "peak_mib": process_peak_mib()}


def point(method: str, shape: Shape) -> dict[str, float | None]:
    """`measure` in a process of its own; None twice where it took more than is allowed."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (2 * MOST_SECONDS, 2 * MOST_SECONDS))
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))

    command = [sys.executable, __file__, method, json.dumps(shape)]
    done = subprocess.run(command, stdout=subprocess.PIPE, preexec_fn=limited, check=False)
    measured = json.loads(done.stdout) if done.returncode == 0 else {}
    if not measured or measured["seconds"] > MOST_SECONDS:
        return {"seconds": None, "peak_mib": None}
    return measured


def curves(axis: Axis, sizes: tuple[int, ...]) -> dict[str, Any]:
    """An entry of `growth`: also the exponents that operations have, and the peaks of memory."""
    shapes = [{**SHAPE, axis.symbol: size} for size in sizes]
    seconds: dict[str, list[float | None]] = {}
    peaks: dict[str, list[float | None]] = {}
    slopes: dict[str, float] = {}
    expected: dict[str, float] = {}
    for method in axis.methods:
        points = [point(method, shape) for shape in shapes]
        seconds[method] = [measured["seconds"] for measured in points]
        peaks[method] = [measured["peak_mib"] for measured in points]
        print(method, axis.symbol, seconds[method], peaks[method], file=sys.stderr)
        operations = [METHODS[method].operations(shape) for shape in shapes]
        known = [k for k, value in enumerate(seconds[method]) if value is not None]
        if len(known) >= 2:
            x = [sizes[k] for k in known]
            slopes[method] = fitted_slope(x, [seconds[method][k] for k in known])
            expected[method] = fitted_slope(x, [operations[k] for k in known])
    return {
        "against": axis.symbol,
        "label": axis.label,
        "sizes": list(sizes),
        "seconds": seconds,
        "slopes": slopes,
        "expected": expected,
        "peak_mib": peaks,
    }


def run(quick: bool = False) -> dict[str, Any]:
    """See benchmarks/README.md."""
    axes = AXES[3:4] if quick else AXES
    return {
        "title": "How time and memory grow",
        "what": (
            "CPU seconds (the fastest round) and peak memory of the studies' parts on random "
            "weights, one size varied at a time, each point in a process of its own on one thread."
        ),
        "workload": {
            **SHAPE,
            "heads": "d / 64",
            "query tokens of AUROC and ranks": QUERIES,
            "bigrams drawn": BIGRAMS,
            "tokens of a counted document": COUNTED,
            "tokens of each of many documents for contributions": STUDIED,
        },
        "rows": [],
        "ratios": [],
        "growth": [curves(axis, axis.sizes[:2] if quick else axis.sizes) for axis in axes],
        "notes": [
            "Peaks are those of whole processes: Python with its libraries, the random weights and "
            "what the computation adds.",
            f"A point of more than {MOST_SECONDS} CPU seconds or {MOST_BYTES >> 30} GiB is ended, "
            "and None stands in its place.",
            "Expected exponents are fitted to counts of operations at the same sizes, for "
            "selectability as if each key took as many steps at every size: how many it takes "
            "depends on the keys.",
        ],
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], json.loads(sys.argv[2]))))
