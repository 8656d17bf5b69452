"""Two questions beside it: a first layer with a constant σ, and rotary heads by frequency."""

from __future__ import annotations

import numpy as np
import torch

import lnattn
from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.affinity.vectors import mean_sigma
from lnattn.contribution.mean_sigma import mean_sigma_study
from lnattn.rotary.fold import mean_vectors
from lnattn.rotary.frequencies import spectrum
from lnattn_book.samples import sample_framed, token_counts

#: Tokens of a text, query tokens of the AUROC (evenly spaced among those that follow any), and
#: distances among which a curve is asked for its highest.
LENGTH, QUERIES, NEAR = 256, 500, 64


def constant_sigma(name: str) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """KL by head with σ̄, AUROC of T^ee and ranks of true predecessors with each σ and with one.

    auroc: [σ or none, head]; rank: [σ or none, head], the median rank, among all keys, of the
    most counted token before each query token; kl, kl_but_first, total: `MeanSigma`.
    """
    model = lnattn.load_first_layer(name)
    folded, counts = lnattn.fold(model.attention), token_counts(model)
    texts = [ids[:LENGTH] for ids in sample_framed(model)]
    found = mean_sigma_study(folded, model.embeddings, texts)
    before = Neighbours.before(counts[0].bigrams)
    followed = np.flatnonzero(before.n_distinct)
    asked = followed[np.linspace(0, len(followed) - 1, min(QUERIES, len(followed))).astype(int)]
    most = [ids[number.argmax()] for ids, number in map(before.of, asked)]
    own = mean_sigma(model.embeddings, folded.eps)
    areas, ranks = [], []
    for divisors in (own, torch.full_like(own, found.sigma)):
        vectors = lnattn.token_vectors(folded, model.embeddings, divisors)
        areas.append(head_auroc(vectors, before, asked).mean())
        scores = vectors.scores(asked.tolist())  # [head query vocab]
        true = scores[:, torch.arange(len(asked)), torch.tensor(np.array(most))]
        above = (scores > true[..., None]).sum(-1) + 1
        ranks.append(above.double().quantile(0.5, dim=1).numpy())
    arrays = {
        **{"auroc": np.stack(areas), "rank": np.stack(ranks), "total": found.total},
        **{"kl": found.kl, "kl_but_first": found.kl_but_first},
    }
    facts = {"sigma": found.sigma, "first": found.first, "texts": len(texts), "length": LENGTH}
    spread = {"spread": float(own.std() / own.mean()), "queries": len(asked), "counts": counts[1]}
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
    found = spectrum(folded, constants.q0, constants.k0)
    curve = found.curve(torch.arange(NEAR)) / folded.scale
    arrays = {key: value.numpy() for key, value in vars(found).items()}
    arrays |= {"met": found.met(1).numpy(), "curve": curve.numpy(), "peak": curve.argmax(1).numpy()}
    return arrays, {
        "scale": folded.scale,
        "counts": source,
        "weights_sha256": model.provenance.get("weights_sha256"),
    }
