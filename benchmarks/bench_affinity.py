"""Token affinity at full size: AUROC of every head over every query token, and best partners."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from common import growth, peak_memory, random_first_layer, ratio, time_side_by_side
from scipy import sparse
from sklearn.metrics import roc_auc_score

from lnattn import FirstLayer, fold
from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.affinity.topk import partners
from lnattn.attention.folding import FoldedAttention
from lnattn.attention.vectors import TokenVectors, mean_sigma, token_vectors
from lnattn.products import one_thread_a_call


def zipf_bigrams(vocab: int, draws: int, seed: int = 0) -> sparse.csr_array:
    """Counts of pairs drawn by a Zipf law: few tokens have many neighbours, many have few."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, vocab + 1) ** 0.9
    edges = np.cumsum(share / share.sum())
    order = rng.permutation(vocab)  # which ids are the frequent ones must not matter
    pairs = order[np.minimum(np.searchsorted(edges, rng.random((2, draws))), vocab - 1)]
    keys, counts = np.unique(pairs[0] * np.int64(vocab) + pairs[1], return_counts=True)
    return sparse.csr_array((counts, (keys // vocab, keys % vocab)), shape=(vocab, vocab))


def papers_auroc(
    model: FirstLayer,
    folded: FoldedAttention,
    sigma: torch.Tensor,
    before: Neighbours,
    queries: np.ndarray,
) -> np.ndarray:
    """The authors' way: a dense W_QK for each head, a row of scores for each query, sort it.

    Kinder than their code in three respects: the dense matrices are given, positives are weighted
    and not repeated, and counts are read from arrays and not from a Python dictionary.
    """
    rows = model.embeddings.W_E / sigma[:, None]
    dense = _dense(folded)
    values = np.full((folded.n_heads, len(queries)), np.nan)
    for n, query in enumerate(queries.tolist()):
        scores = torch.einsum("hd,vd->hv", rows[query] @ dense, rows).numpy()
        tokens, counts = before.of(query)
        positive = np.zeros(scores.shape[1], dtype=bool)
        weight = np.ones(scores.shape[1])
        positive[tokens] = True
        weight[tokens] = counts
        for head, row in enumerate(scores):
            values[head, n] = roc_auc_score(positive, row, sample_weight=weight)
    return values


_DENSE: dict[int, torch.Tensor] = {}


def _dense(folded: FoldedAttention) -> torch.Tensor:
    """W_QK of all heads, [head d_model d_model]; made once, since it is not what is timed."""
    if id(folded) not in _DENSE:
        _DENSE.clear()
        _DENSE[id(folded)] = torch.stack([folded.dense_W_QK(h) for h in range(folded.n_heads)])
    return _DENSE[id(folded)]


def products_only(vectors: TokenVectors) -> None:
    """The floor: all scores of all heads, by NumPy in tiles that a core's cache holds.

    Each thread writes its tile over and over; nobody reads the scores.
    """
    height = 512
    width = 384
    queries = vectors.queries.numpy()
    keys = vectors.keys.numpy()
    tasks = [(h, r) for h in range(len(queries)) for r in range(0, queries.shape[1], height)]

    def tile(task: tuple[int, int]) -> None:
        head, row = task
        block = queries[head, row : row + height]
        out = np.empty((height, width), np.float32)
        for column in range(0, keys.shape[1], width):
            part = keys[head, column : column + width].T
            np.matmul(block, part, out=out[: len(block), : part.shape[1]])

    with one_thread_a_call(), ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(tile, tasks))


def torch_topk(vectors: TokenVectors, queries: np.ndarray, k: int) -> list[torch.Tensor]:
    """Best keys by torch.topk of whole rows, for some query tokens."""
    rows = torch.from_numpy(queries)
    pairs = zip(vectors.queries, vectors.keys, strict=True)
    return [(query[rows] @ key.T).topk(k, dim=1).indices for query, key in pairs]


def run(quick: bool = False) -> dict[str, Any]:
    """See benchmarks/README.md."""
    vocab, d_model, heads = (600, 32, 2) if quick else (50_257, 768, 12)
    draws, sample, repeats, k = (5_000, 4, 1, 5) if quick else (24_500_000, 8, 3, 10)
    model = random_first_layer(vocab, d_model, heads)
    folded = fold(model.attention)
    sigma = mean_sigma(model.embeddings, folded.eps)
    vectors = token_vectors(folded, model.embeddings, sigma)
    before = Neighbours.before(zipf_bigrams(vocab, draws))
    having = np.flatnonzero((before.n_distinct > 0) & (before.n_distinct < vocab))
    sampled = np.sort(np.random.default_rng(1).choice(having, sample, replace=False))

    slow = papers_auroc(model, folded, sigma, before, sampled)
    fast = head_auroc(vectors, before, sampled).values[:, sampled]
    # The dense products round otherwise than the factored ones; equality on *one* set of scores,
    # to 1e-9, is what the tests check.
    apart = float(np.abs(slow - fast).max())
    if apart > 1e-4:
        raise RuntimeError(f"the two methods differ by {apart}: not worth timing")

    papers = f"papers' algorithm, {sample} query tokens"
    ours = "AUROC without sorting, all query tokens"
    block = np.arange(min(vocab, 512))
    floor = "matrix products only"
    best = f"best {k} keys, all query tokens"
    plain = f"torch.topk, {len(block)} query tokens"
    methods: dict[str, Callable[[], Any]] = {
        papers: lambda: papers_auroc(model, folded, sigma, before, sampled),
        floor: lambda: products_only(vectors),
        ours: lambda: head_auroc(vectors, before),
        best: lambda: partners(vectors, k=k),
        plain: lambda: torch_topk(vectors, block, k),
    }
    partners(vectors, sampled, k)  # compiled before the clock runs, as head_auroc is
    times = time_side_by_side(methods, repeats=repeats, warm_up=0)
    times[ours] = replace(times[ours], peak_mib=peak_memory(methods[ours]))
    times[best] = replace(times[best], peak_mib=peak_memory(methods[best]))
    return {
        "title": "Token affinity: AUROC of all heads, and best partners",
        "what": (
            "AUROC of T^ee against bigram counts for every query token and head. The slow method "
            f"takes a dense row of scores and sorts it (scikit-learn's weighted roc_auc_score); "
            f"it was timed on {sample} random query tokens with all heads, and the ratio scales "
            "it to all query tokens that have a bigram. Then the best keys of every token."
        ),
        "workload": {
            "V": vocab,
            "d": d_model,
            "heads": heads,
            "distinct bigrams": len(before.tokens),
            "query tokens with a bigram": len(having),
            "k": k,
        },
        "rows": [timing.as_row() for timing in times.values()],
        "ratios": [
            ratio(times[papers], times[ours], floor=150, work=len(having) / sample),
            ratio(times[floor], times[ours], floor=1 / 3.2),
            ratio(times[floor], times[best], floor=1 / 2.2),
            ratio(times[plain], times[best], work=vocab / len(block)),
        ],
        "growth": [_growth(quick)],
        "notes": [
            "Weights and counts are random; their sizes are GPT-2 small's and OpenWebText-like.",
            f"Largest difference of AUROC between the two methods on the sample: {apart:.0e}.",
            "'Matrix products only' is a lower bound of the time: 1 would be perfect. AUROCs may "
            "take 3.2 times as long, the search for the best keys 2.2 times.",
        ],
    }


def _growth(quick: bool) -> dict[str, Any]:
    """One head of width 64, all query tokens, vocabularies that double."""

    def make(vocab: int) -> dict[str, Callable[[], Any]]:
        generator = torch.Generator().manual_seed(vocab)
        both = torch.randn(2, 1, vocab, 64, generator=generator)
        vectors = TokenVectors(both[0], both[1])
        before = Neighbours.before(zipf_bigrams(vocab, 50 * vocab))
        return {
            "matrix products only": lambda: products_only(vectors),
            "AUROC without sorting": lambda: head_auroc(vectors, before),
            "best 10 keys": lambda: partners(vectors, k=10),
        }

    sizes = (200, 400) if quick else (4_000, 8_000, 16_000, 32_000)
    return growth("V", "tokens in the vocabulary", sizes, make, repeats=1 if quick else 3)
