"""Contributions of the six terms (Kamoda et al. 2025, §6.1): the papers' algorithm beside ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch
from common import GPT2_SMALL, growth, peak_memory, random_first_layer, ratio, time_side_by_side

from lnattn import FirstLayer, fold
from lnattn.attention.terms import TERMS
from lnattn.contribution import kl
from lnattn.contribution.kl import SixTermKL
from lnattn.contribution.study import contributions
from lnattn.errors import ResultError

PAPERS = "papers' algorithm"
OURS = "lnattn"
PRODUCTS = "matrix products only"


class PapersAlgorithm:
    """As the released code goes about it, in our words: dense W_QK, then a loop over queries.

    Every head's d × d matrix is multiplied out beforehand (not timed). A document's six terms are
    computed as whole [head query key] tensors; then, for each head and query, attention with and
    without each term is taken with softmax and compared with torch's `kl_div`, and one record per
    head, query and term goes into a list.
    """

    def __init__(self, model: FirstLayer) -> None:
        self.folded = fold(model.attention)
        self.embeddings = model.embeddings
        self.W_QK = torch.stack([self.folded.dense_W_QK(h) for h in range(self.folded.n_heads)])
        self.b_QK = self.folded.b_QK

    def __call__(self, ids: torch.Tensor) -> list[dict[str, Any]]:
        e = self.embeddings.W_E[ids]
        p = self.embeddings.W_P[: len(ids)]
        sigma = ((e + p).var(dim=-1, keepdim=True, unbiased=False) + self.folded.eps).sqrt()
        e = e / sigma
        p = p / sigma
        terms = {
            "ee": self._compare(e, e),
            "ep": self._compare(e, p),
            "pe": self._compare(p, e),
            "pp": self._compare(p, p),
            "e": torch.einsum("hd,td->ht", self.b_QK, e),
            "p": torch.einsum("hd,td->ht", self.b_QK, p),
        }
        records = []
        for head in range(len(self.W_QK)):
            for i in range(len(ids)):
                rows = {
                    name: term[head, : i + 1] if term.ndim == 2 else term[head, i, : i + 1]
                    for name, term in terms.items()
                }
                scores = sum(rows.values())
                weights = scores.softmax(dim=-1)
                for name, row in rows.items():
                    without = (scores - row).log_softmax(dim=-1)
                    kl = torch.nn.functional.kl_div(without, weights, reduction="none").mean()
                    records.append({"head": head, "i": i, "term": name, "kl": kl.item()})
        return records

    def _compare(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return torch.einsum("shd,td->hst", torch.einsum("sd,hdi->shi", query, self.W_QK), key)


def check_agreement(model: FirstLayer, ids: torch.Tensor) -> float:
    """Largest difference between the two, in the papers' convention; both in single precision."""
    ours = SixTermKL(fold(model.attention), model.embeddings, scale=1.0)(ids)
    ours = ours / np.arange(1, len(ids) + 1)
    theirs = np.zeros(ours.shape)
    for record in PapersAlgorithm(model)(ids):
        theirs[TERMS.index(record["term"]), record["head"], record["i"]] = record["kl"]
    difference = float(np.abs(ours - theirs).max())
    if not np.allclose(ours, theirs, rtol=2e-3, atol=2e-7):
        raise ResultError(f"the two algorithms differ by up to {difference:.2g}; not timed.")
    return difference


def methods(model: FirstLayer, documents: list[torch.Tensor]) -> dict[str, Callable[[], Any]]:
    """Both algorithms on some documents; what can be prepared once for a model is prepared."""
    papers = PapersAlgorithm(model)
    ours = SixTermKL(fold(model.attention), model.embeddings)
    return {
        PAPERS: lambda: [papers(ids) for ids in documents],
        OURS: lambda: [ours(ids) for ids in documents],
    }


def products_only(ours: SixTermKL, documents: list[torch.Tensor]) -> None:
    """The floor: all our scores are computed, and nobody looks at them."""

    def look_away(*_: object) -> float:
        return 0.0

    with mock.patch.object(kl, "divergences", look_away):
        for ids in documents:
            ours(ids)


def random_documents(vocab: int, length: int, count: int = 1, seed: int = 1) -> list[torch.Tensor]:
    """Documents of tokens drawn uniformly: few repeat, so our method gains nothing from repeats."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, vocab, (length,), generator=generator) for _ in range(count)]


def run(quick: bool = False) -> dict[str, Any]:
    """See README.md."""
    size = {"vocab": 500, "d_model": 24, "heads": 2, "positions": 64} if quick else GPT2_SMALL
    vocab = size["vocab"]
    length = size["positions"]
    model = random_first_layer(**size)
    difference = check_agreement(model, random_documents(vocab, min(length, 128))[0])
    documents = random_documents(vocab, length)
    both = methods(model, documents)
    study = [ids.tolist() for ids in documents]
    folded = fold(model.attention)
    floor = SixTermKL(folded, model.embeddings)
    both[PRODUCTS] = lambda: products_only(floor, documents)
    both["lnattn, with statistics"] = lambda: contributions(folded, model.embeddings, study)
    # The papers' way by itself: it leaves torch's threads spinning for a fifth of a second, on the
    # core of whoever comes next. Ours and its floor take turns, many times, as in a study.
    timings = time_side_by_side({PAPERS: both[PAPERS]}, repeats=1 if quick else 5)
    ours = {name: method for name, method in both.items() if name != PAPERS}
    timings |= time_side_by_side(ours, repeats=1 if quick else 15, warm_up=3)
    for name, method in both.items():
        timings[name] = replace(timings[name], peak_mib=peak_memory(method))

    repeats = 1 if quick else 3
    lengths = [16, 32] if quick else [128, 256, 512, 1024]
    widths = [24, 48] if quick else [192, 384, 768, 1536]
    counts = [1, 2] if quick else [1, 2, 4, 8]
    fixed = 16 if quick else 128
    short = 16 if quick else 64

    def wider(d_model: int) -> dict[str, Callable[[], Any]]:
        other = random_first_layer(2000, d_model, size["heads"], fixed)
        return methods(other, random_documents(2000, fixed))

    return {
        "title": "Contributions of the six terms",
        "what": (
            "KL of removing each of six terms, at every query and head of one document. The papers'"
            " algorithm multiplies W_QK out for every head, then loops over heads and queries with"
            " torch's softmax and kl_div; timed whole, on the same document. 'With statistics' is"
            " the whole study: means, standard errors and quantiles, and what is set up."
        ),
        "workload": {
            "V": vocab,
            "d": size["d_model"],
            "heads": size["heads"],
            "P": length,
            "documents": 1,
            "terms": len(TERMS),
        },
        "rows": [timing.as_row() for timing in timings.values()],
        "ratios": [
            ratio(timings[PAPERS], timings[OURS], floor=None if quick else 20.0),
            ratio(timings[PRODUCTS], timings[OURS], floor=None if quick else 1 / 2),
        ],
        "growth": [
            growth(
                "P",
                "tokens per document",
                lengths,
                lambda n: methods(model, random_documents(vocab, n)),
                repeats,
            ),
            growth("d", f"model width (P = {fixed})", widths, wider, repeats),
            growth(
                "documents",
                f"number of documents (P = {short})",
                counts,
                lambda k: methods(model, random_documents(vocab, short, k)),
                repeats,
            ),
        ],
        "notes": [
            "Before timing, both were compared on one document in the papers' convention: the "
            f"largest difference is {difference:.1g} (single precision).",
            "Token ids are drawn uniformly at random; real text repeats its tokens, which makes "
            "our projections cheaper.",
            "'Matrix products only' is a lower bound of our time: everything but the function that "
            "takes scores to divergences.",
        ],
    }
