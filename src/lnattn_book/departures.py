"""How much it changes that the papers' code differs from their text, one departure at a time.

The page 'Where papers and code differ' states the departures and shows these effects. An effect
that needs results which are not at hand says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.affinity.vectors import TokenVectors, mean_sigma, token_vectors
from lnattn.attention.folding import fold
from lnattn.attention.layernorm import standardise
from lnattn.attention.terms import sigma_of_pairs
from lnattn.contribution.study import PAPERS_CODE, TEXT, Convention
from lnattn.majority.results import Experiment, slowdown, words
from lnattn.position.measured import measured_attention, windows
from lnattn.selectability.decide import selectability
from lnattn.selectability.papers_search import bounded_search
from lnattn.text.counts import Counts
from lnattn.weights import Embeddings, FirstLayer
from lnattn_book.language_models import BEFORE, KEYS, frozen_arms, read_lengths

#: Ways to count a contribution (K10): the text's, each departure of the code alone, all together.
CONVENTIONS: Mapping[str, Convention] = {
    "text": TEXT,
    "unscaled": replace(TEXT, name="unscaled", scaled=False),
    "divided by i + 1": replace(TEXT, name="divided by i + 1", per_key=True),
    "floor": replace(TEXT, name="floor", floor=1e-10),
    "last position dropped": replace(TEXT, name="last position dropped", ends=False),
    "released code": PAPERS_CODE,
}
#: By which keys are multiplied; whether a query can select a key does not depend on it.
SCALES = (1e-8, 1e-4, 1.0, 1e4)

_ABSENT = "not measured here: data/results/{} does not hold it yet"
_NEVER = "no ratio (not reached)"
#: Test accuracies at which arms are compared: of chapter 10's verdict, and within the short runs.
_LEVEL, _EARLY = 0.85, 0.7


def half_precision_sigma(embeddings: Embeddings, eps: float) -> Float[Tensor, "vocab"]:
    """The mean of σ over positions, rounded to half precision before and after the mean."""
    places = torch.arange(embeddings.n_positions)
    tokens = torch.arange(embeddings.vocab_size)
    means = [
        sigma_of_pairs(embeddings, ids, places, eps).half().float().mean(dim=1)
        for ids in tokens.split(max(1, 1_000_000 // len(places)))
    ]
    return torch.cat(means).half().float()


@dataclass(frozen=True)
class HalfSigma:
    """What half precision changes: the largest relative change of σ, and AUROCs either way.

    full, half: [head], means over the same query tokens.
    """

    change: float
    full: Float[np.ndarray, "head"]
    half: Float[np.ndarray, "head"]


def effect_of_half_sigma(model: FirstLayer, counts: Counts, queries: int = 200) -> HalfSigma:
    """σ and mean AUROC with σ in full and in half precision, for some query tokens with bigrams."""
    folded, eps = fold(model.attention), model.attention.ln.eps
    before = Neighbours.before(counts.bigrams)
    known = np.flatnonzero(before.n_distinct)
    chosen = np.random.default_rng(0).choice(known, min(queries, len(known)), replace=False)
    full, half = mean_sigma(model.embeddings, eps), half_precision_sigma(model.embeddings, eps)
    areas = [
        _mean_auroc(token_vectors(folded, model.embeddings, s), before, chosen)
        for s in (full, half)
    ]
    return HalfSigma(float((half / full - 1).abs().max()), *areas)


def _mean_auroc(
    vectors: TokenVectors, before: Neighbours, chosen: np.ndarray
) -> Float[np.ndarray, "head"]:
    return np.nanmean(head_auroc(vectors, before, chosen).values[:, chosen], axis=1)


def attention_with_and_without(
    model: FirstLayer, documents: Iterable[Sequence[int]], first: int, length: int
) -> dict[str, Float[np.ndarray, "head position"]]:
    """Mean attention of the last query of windows, with the token `first` in front and without."""
    folded, documents = fold(model.attention), list(documents)
    return {
        name: measured_attention(
            folded, model.embeddings, windows(documents, length, token), [length - 1]
        ).mean[:, 0]
        for name, token in (("with", first), ("without", None))
    }


def exact_and_searched(
    keys: Float[np.ndarray, "n d"], scales: Sequence[float] = SCALES
) -> pd.DataFrame:
    """Share of unselectable keys, exact and by the authors' search, for scales and precisions.

    One row for normal keys and one for the same after LayerNorm, in double and single precision.
    The authors' solver is Gurobi; here the same linear program goes to HiGHS.
    """
    normed = standardise(torch.from_numpy(keys)).numpy()
    rows = {}
    for name, points in (("as drawn", keys), ("after LayerNorm", normed)):
        for dtype in (np.float64, np.float32):
            columns = {"exact": selectability(points).unselectable}
            for scale in scales:
                columns[f"× {scale:g}"] = bounded_search(
                    (points * scale).astype(dtype)
                ).unselectable
            rows[f"{name}, {np.dtype(dtype).name}"] = columns
    return pd.DataFrame(rows).T


def ranks_after_layer_norm(keys: Float[np.ndarray, "n d"], eps: float = 1e-5) -> tuple[int, int]:
    """Rank of the keys after LayerNorm: as it is, and as seen when they were computed in float32.

    The first is at most d − 1, so a check for full rank must fail. Single precision leaves rounding
    errors along the missing direction, which double precision then takes for a dimension.
    """
    exact = standardise(torch.from_numpy(keys), eps).numpy()
    rounded = standardise(torch.from_numpy(keys).float(), eps).double().numpy()
    return int(np.linalg.matrix_rank(exact)), int(np.linalg.matrix_rank(rounded))


# --- departures whose effect needs trained models: read from what chapters 10 and 11 froze ---


def effects_on_training(results: Path) -> dict[str, str]:
    """Effects of Brody et al.'s training code in words, from `data/results`.

    norm, schedule: on the majority task (B4, B5); samples, search, before: on the language models
    (B8, B9), of how samples are drawn, of the bounded search, and keys before LayerNorm.
    """
    majority, models = results / "majority", results / "selectability"
    norm = (majority / "main.json").is_file()
    schedule = all((majority / f"{name}.json").is_file() for name in ("sweep", "authors"))
    absent = _ABSENT.format("majority"), _ABSENT.format("selectability")
    search, before = absent[1], absent[1]
    if any(models.glob("lm-*.json")):
        search, before = _small_models(models)
    return {
        "norm": _effect_of_the_norm(majority) if norm else absent[0],
        "schedule": _effect_of_the_schedule(majority) if schedule else absent[0],
        "samples": (
            _effect_of_the_samples(models) if (models / "lengths.json").is_file() else absent[1]
        ),
        "search": search,
        "before": before,
    }


def _effect_of_the_norm(folder: Path) -> str:
    main = Experiment.read(folder, "main")
    code, text = (slowdown(main, arm, "layernorm", accuracy=_LEVEL) for arm in ("authors", "rms"))
    return (
        f"epochs to {_LEVEL:.0%} without projection, over those with it: "
        f"{code or _NEVER} by the code, {text or _NEVER} at equal norm"
    )


def _effect_of_the_schedule(folder: Path) -> str:
    # The short runs with the rate and the scale of the paper, beside as short ones of the authors'.
    paper = {"learning_rate": 1e-3, "initial_scale": 1.0}
    sweep = Experiment.read(folder, "sweep")
    ours = Experiment(tuple(sweep.of(arm, **paper) for arm in ("authors", "layernorm")), {})
    theirs = Experiment.read(folder, "authors")
    text, code = (
        slowdown(runs, "authors", "layernorm", accuracy=_EARLY) for runs in (ours, theirs)
    )
    shown = [words(found.value) if found else _NEVER for found in (text, code)]
    return (
        f"by the code's norms, epochs to {_EARLY:.0%} without projection over those with it: "
        f"{shown[0]} by the text, {shown[1]} by the code"
    )


def _effect_of_the_samples(folder: Path) -> str:
    lengths, shortest = read_lengths(folder)
    return f"long enough: {int((lengths >= shortest).sum())} of {len(lengths):,} contexts"


def _small_models(folder: Path) -> tuple[str, str]:
    """Exact shares beside those of the search, and shares before LayerNorm, by arm at d = 8."""
    arms: dict[str, list] = {}
    for one in frozen_arms(folder):
        if one.d == 8:
            arms.setdefault(one.arm, []).append(one)
    counted, before = [], []
    for arm, runs in arms.items():
        # The search was run on the first few windows of some runs: compare on these.
        tried = [(one, one.arrays["search"].shape[-1]) for one in runs]
        tried = [(one, windows) for one, windows in tried if windows]
        if tried:
            exact = np.mean([one.arrays["exact"][:, KEYS, :n].mean() for one, n in tried])
            search = np.mean([one.searched(KEYS).mean() for one, _ in tried])
            counted.append(f"{arm}: {exact:.1%} exactly, {search:.1%} by the search")
        before.append(f"{arm}: {np.mean([one.share(BEFORE).mean() for one in runs]):.1%}")
    return (
        f"mean over layers of {'; '.join(counted) or 'no run: the search was not run'}",
        f"unselectable before LayerNorm, mean over layers: {'; '.join(before)}",
    )
