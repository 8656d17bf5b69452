"""The n-gram models beside which a language model's loss is read."""

from __future__ import annotations

import numpy as np

from lnattn.errors import CorpusError
from lnattn.text.counts import Counts


def unigram_loss(train: np.ndarray, held_out: np.ndarray, vocab_size: int) -> float:
    """Cross-entropy in nats of an add-one unigram model, over the predicted tokens of a stream."""
    counts = np.bincount(train, minlength=vocab_size) + 1
    return float(-np.log(counts / counts.sum())[held_out[1:]].mean())


def bigram_loss(train: np.ndarray, held_out: np.ndarray, vocab_size: int) -> float:
    """Cross-entropy in nats of an interpolated Kneser–Ney bigram model (a strong baseline).

    One absolute discount D = n1/(n1 + 2 n2); back-off to continuation counts, themselves
    smoothed by adding one.
    """
    if len(train) < 2:
        raise CorpusError(f"a stream of {len(train)} tokens holds no bigram; give more text.")
    bigrams = Counts.from_documents([train], vocab_size).bigrams
    data = bigrams.data
    n1 = int((data == 1).sum())
    n2 = int((data == 2).sum())
    discount = n1 / max(1, n1 + 2 * n2)
    continuation = np.bincount(bigrams.indices, minlength=vocab_size) + 1
    continuation = continuation / continuation.sum()
    totals = np.asarray(bigrams.sum(axis=1)).ravel()
    kinds = np.diff(bigrams.indptr)
    previous = held_out[:-1]
    following = held_out[1:]
    seen = np.asarray(bigrams[previous, following]).ravel()
    total = totals[previous]
    with_history = np.maximum(seen - discount, 0) / np.maximum(total, 1)
    weight = np.where(total > 0, discount * kinds[previous] / np.maximum(total, 1), 1.0)
    return float(-np.log(with_history + weight * continuation[following]).mean())
