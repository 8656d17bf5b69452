"""Two questions beside it: a first layer with a constant σ, and rotary heads by frequency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import lnattn
from experiments.nobody_reads_one.frequencies import spectrum
from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.attention.folding import FoldedAttention, softmax_over_keys
from lnattn.attention.layernorm import sigma
from lnattn.attention.terms import input_rows
from lnattn.attention.vectors import mean_sigma
from lnattn.errors import CorpusError
from lnattn.rotary.fold import mean_vectors
from lnattn.weights import Embeddings
from lnattn_book.studies.samples import sample_framed, token_counts

#: Tokens of a text, query tokens of the AUROC (evenly spaced among those that follow any), and
#: distances among which a curve is asked for its highest.
LENGTH, QUERIES, NEAR = 256, 500, 64


class MeanSigma(NamedTuple):
    """What constant divisors do to attention. KL in nats, mean over queries that see two keys.

    sigma: σ̄, the mean over the inputs of all texts but the first of each; first: the mean of the
    first; kl: [head], one σ̄ for all; kl_but_first: [head], where the first input of each text
    has its own mean; total: [head], KL(α ‖ uniform over the keys seen), for comparison.
    """

    sigma: float
    first: float
    kl: Float[np.ndarray, "head"]
    kl_but_first: Float[np.ndarray, "head"]
    total: Float[np.ndarray, "head"]


def attention_with(
    folded: FoldedAttention, x: Float[Tensor, "n d_model"], divisor: Float[Tensor, "n"]
) -> Float[Tensor, "head n n"]:
    """Attention of a folded block with any divisors in the place of σ(x_i)."""
    u = x / divisor[:, None]
    scores = (u @ folded.W_Q + folded.b_Q[:, None]) @ (u @ folded.W_K).mT
    return softmax_over_keys(scores, folded.scale, folded.causal, window=folded.window)


def mean_sigma_study(
    folded: FoldedAttention, embeddings: Embeddings, texts: Sequence[Sequence[int]]
) -> MeanSigma:
    """KL(α ‖ α_σ̄) of a first layer over texts of token ids; `CorpusError` if all are too short."""
    inputs = [sum(input_rows(embeddings, list(ids))) for ids in texts if len(ids) > 1]
    if not inputs:
        raise CorpusError("no text of two tokens or more was given; attention needs two keys.")
    divisors = [sigma(x, folded.eps) for x in inputs]
    bar = float(torch.cat([of_text[1:] for of_text in divisors]).mean())
    first = float(torch.stack([of_text[0] for of_text in divisors]).mean())
    sums = np.zeros((3, folded.n_heads))
    queries = 0
    for x, true in zip(inputs, divisors, strict=True):
        alpha = attention_with(folded, x, true)
        flat = torch.full_like(true, bar)
        but_first = torch.cat([true.new_tensor([first]), flat[1:]])
        others = [attention_with(folded, x, given) for given in (flat, but_first)]
        zero = torch.zeros_like(alpha)
        others.append(softmax_over_keys(zero, 1.0, folded.causal, window=folded.window))
        for place, other in enumerate(others):
            ratio = alpha.clamp_min(1e-30).log() - other.clamp_min(1e-30).log()
            kl = torch.where(alpha > 0, alpha * ratio, 0.0).sum(-1)[:, int(folded.causal) :]
            sums[place] += kl.double().sum(-1).numpy()
        queries += kl.shape[1]
    return MeanSigma(bar, first, *(sums / queries))


def constant_sigma(name: str) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """KL by head with σ̄, AUROC of T^ee and ranks of true predecessors with each σ and with one.

    auroc: [σ or none, head]; rank: [σ or none, head], the median rank, among all keys, of the
    most counted token before each query token; kl, kl_but_first, total: `MeanSigma`.
    """
    model = lnattn.load_first_layer(name)
    folded = lnattn.fold(model.attention)
    counts = token_counts(model)
    texts = [ids[:LENGTH] for ids in sample_framed(model)]
    study = mean_sigma_study(folded, model.embeddings, texts)
    before = Neighbours.before(counts[0].bigrams)
    followed = np.flatnonzero(before.n_distinct)
    asked = followed[np.linspace(0, len(followed) - 1, min(QUERIES, len(followed))).astype(int)]
    most = [ids[number.argmax()] for ids, number in map(before.of, asked.tolist())]
    token_sigmas = mean_sigma(model.embeddings, folded.eps)
    areas = []
    ranks = []
    for divisors in (token_sigmas, torch.full_like(token_sigmas, study.sigma)):
        vectors = lnattn.token_vectors(folded, model.embeddings, divisors)
        areas.append(head_auroc(vectors, before, asked).mean())
        scores = vectors.scores(asked.tolist())  # [head query vocab]
        true = scores[:, torch.arange(len(asked)), torch.tensor(np.array(most))]
        above = (scores > true[..., None]).sum(-1) + 1
        ranks.append(above.double().quantile(0.5, dim=1).numpy())
    arrays = {
        **{"auroc": np.stack(areas), "rank": np.stack(ranks), "total": study.total},
        **{"kl": study.kl, "kl_but_first": study.kl_but_first},
    }
    facts = {"sigma": study.sigma, "first": study.first, "texts": len(texts), "length": LENGTH}
    spread = {
        "spread": float(token_sigmas.std() / token_sigmas.mean()),
        "queries": len(asked),
        "counts": counts[1],
    }
    return arrays, {**facts, **spread, "weights_sha256": model.provenance.get("weights_sha256")}


def frequencies(name: str) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """The spectrum of 'distance alone' in a rotary first layer, means weighted by token counts.

    theta [frequency], amplitude, phase [head frequency], constant, met, peak [head], curve
    [head distance]; met: the share of its amplitudes that a head reaches at distance 1; peak: where
    its curve is highest among the nearest distances.
    """
    model = lnattn.load_first_layer(name)
    folded = lnattn.fold_relative(model.attention)
    counts, source = token_counts(model)
    constants = mean_vectors(folded, model.embeddings, torch.as_tensor(counts.unigrams))
    waves = spectrum(folded, constants.q0, constants.k0)
    curve = waves.curve(torch.arange(NEAR)) / folded.scale
    arrays = {key: value.numpy() for key, value in vars(waves).items()}
    arrays |= {
        "met": waves.phase_coherence(1).numpy(),
        "curve": curve.numpy(),
        "peak": curve.argmax(1).numpy(),
    }
    return arrays, {
        "scale": folded.scale,
        "counts": source,
        "weights_sha256": model.provenance.get("weights_sha256"),
    }
