"""A large rotary model from disk to AUROCs: first layer, keys of the vocabulary, 2,000 queries."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_affinity import zipf_bigrams
from common import peak_memory, ratio, time_side_by_side
from safetensors.torch import save_file

from lnattn import fold_relative, load_first_layer
from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.affinity.by_distance import vectors_at_distance
from lnattn.affinity.scores import for_each_score_block
from lnattn.attention.vectors import TokenVectors
from lnattn.rotary.fold import FoldedRelative, mean_vectors
from lnattn.rotary.weights import TokenEmbeddings

#: Rows of embeddings that the bare products take at a time.
_ROWS = 8192


def write_checkpoint(folder: Path, vocab: int, d_model: int, heads: int, key_heads: int) -> None:
    """The first layer of a Llama with random weights in bfloat16, as a checkpoint holds it."""
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> torch.Tensor:
        return (0.02 * torch.randn(*shape, generator=generator)).to(torch.bfloat16)

    at = "model.layers.0."
    d_head = d_model // heads
    tensors = {
        "model.embed_tokens.weight": noise(vocab, d_model),
        f"{at}input_layernorm.weight": 1 + noise(d_model),
        f"{at}self_attn.q_proj.weight": noise(heads * d_head, d_model),
        f"{at}self_attn.k_proj.weight": noise(key_heads * d_head, d_model),
    }
    save_file(tensors, folder / "model.safetensors")
    config = {
        "model_type": "llama",
        "vocab_size": vocab,
        "hidden_size": d_model,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "head_dim": d_head,
        "intermediate_size": 4 * d_model,
        "max_position_embeddings": 131_072,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def from_disk(folder: Path, before: Neighbours, queries: np.ndarray) -> np.ndarray:
    """Everything: load the first layer, make the vectors at distance 1, score every head."""
    model = load_first_layer(folder)
    vectors = vectors_at_distance(
        fold_relative(model.attention), model.embeddings, 1, query_ids=queries
    )
    return head_auroc(vectors, before).values[:, queries]


def products_only(
    folded: FoldedRelative, embeddings: TokenEmbeddings, vectors: TokenVectors
) -> None:
    """The floor: keys of all tokens, queries of the sample, and all scores, by bare products."""
    d_model = folded.d_model
    W_K = folded.W_K.transpose(0, 1).reshape(d_model, -1)
    W_Q = folded.W_Q.transpose(0, 1).reshape(d_model, -1)
    for rows in embeddings.W_E.split(_ROWS):
        _ = rows.float() @ W_K
    _ = embeddings.rows(vectors.tokens) @ W_Q
    for head in range(vectors.n_heads):
        keys = vectors.keys_of(head)
        for_each_score_block(lambda *_: None, vectors.queries_of(head), keys)


def slow_auroc(
    folded: FoldedRelative, embeddings: TokenEmbeddings, before: Neighbours, query: int
) -> np.ndarray:
    """One query token by the definition: its row of scores in each head, sorted by scikit-learn."""
    from sklearn.metrics import roc_auc_score

    means = mean_vectors(folded, embeddings)
    rows = embeddings.rows(torch.arange(embeddings.vocab_size))
    keys = folded.keys(rows) - means.k0[:, None]
    still = torch.zeros(keys.shape[1], dtype=torch.long)
    keys = folded.per_head(folded.rotated(keys, still))
    q = folded.queries(rows[query : query + 1]) - means.q0[:, None]
    scores = (folded.rotated(q, torch.tensor([1])) @ keys.mT)[:, 0]
    tokens, counts = before.of(query)
    positive = np.zeros(len(rows), dtype=bool)
    weight = np.ones(len(rows))
    positive[tokens] = True
    weight[tokens] = counts
    return np.array([roc_auc_score(positive, row, sample_weight=weight) for row in scores.numpy()])


def run(quick: bool = False) -> dict[str, Any]:
    """See benchmarks/README.md."""
    vocab, d_model, heads, key_heads = (700, 32, 4, 2) if quick else (128_256, 2048, 32, 8)
    draws, sample, repeats = (5_000, 20, 1) if quick else (24_500_000, 2000, 3)
    before = Neighbours.before(zipf_bigrams(vocab, draws))
    having = np.flatnonzero((before.n_distinct > 0) & (before.n_distinct < vocab))
    queries = np.sort(np.random.default_rng(1).choice(having, sample, replace=False))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_checkpoint(folder, vocab, d_model, heads, key_heads)
        everything = partial(from_disk, folder, before, queries)
        areas = everything()
        model = load_first_layer(folder)
        folded = fold_relative(model.attention)
        embeddings = model.embeddings
        apart = np.abs(slow_auroc(folded, embeddings, before, queries[0]) - areas[:, 0]).max()
        if apart > 1e-4:
            raise RuntimeError(f"the two methods differ by {apart}: not worth timing")
        vectors = vectors_at_distance(folded, embeddings, 1, query_ids=queries)
        floor = "matrix products only"
        ours = f"from disk to AUROCs, {sample:,} query tokens"
        loading = "loading the first layer only"
        methods: dict[str, Callable[[], Any]] = {
            floor: lambda: products_only(folded, embeddings, vectors),
            ours: everything,
            loading: lambda: load_first_layer(folder),
        }
        times = time_side_by_side(methods, repeats=repeats, warm_up=0)
        model = folded = embeddings = vectors = None  # gives their memory back
        methods.clear()
        times[ours] = replace(times[ours], peak_mib=peak_memory(everything))
    return {
        "title": "A rotary model of Llama-3.2-1B's shape",
        "what": (
            "Random weights in bfloat16. Only the embeddings and the first layer's norm, queries "
            "and keys are read; keys of the whole vocabulary and queries of a sample are made, "
            "turned, and the AUROC of all heads at distance 1 taken against bigram counts."
        ),
        "workload": {
            "V": vocab,
            "d": d_model,
            "heads": heads,
            "key heads": key_heads,
            "query tokens": sample,
            "distinct bigrams": len(before.tokens),
        },
        "rows": [timing.as_row() for timing in times.values()],
        "ratios": [ratio(times[floor], times[ours], floor=0.5)],
        "growth": [],
        "notes": [
            "'Matrix products only' is a lower bound of the time: 1 would be perfect, and one half "
            "(twice the bound) is asked.",
            f"Largest difference from the definition, for one query token: {apart:.0e}.",
            "Embeddings stay in bfloat16 and are widened a block at a time.",
        ],
    }
