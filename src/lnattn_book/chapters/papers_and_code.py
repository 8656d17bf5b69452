"""What changes where the papers' released code is followed instead of their text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.attention.folding import fold
from lnattn.attention.layernorm import standardise
from lnattn.attention.terms import TERMS
from lnattn.attention.vectors import mean_sigma, token_vectors
from lnattn.contribution.study import Contributions
from lnattn.position.measured import measured_attention, windows
from lnattn.selectability.decide import Selectability
from lnattn.weights import FirstLayer
from lnattn_book.chapters.unselectable import shares_by_layer, short_runs
from lnattn_book.page import Check, says
from lnattn_book.page.style import TERM_NAMES
from lnattn_book.studies import samples
from lnattn_book.studies.affinity_study import affinity_study, counts_and_source
from lnattn_book.studies.detokenization import AffinityResult
from lnattn_book.studies.language_models import KEYS, FrozenArm
from lnattn_book.studies.majority.long_runs import Experiment, slowdown
from lnattn_book.studies.majority.train import MajorityPlan
from lnattn_book.studies.papers_search import BoundedSearch, bounded_search
from lnattn_book.studies.variance import frequency_study, variance_of_inputs

#: Units in which keys are measured, to see whether the search depends on them.
SCALES = (1e-8, 1e-4, 1.0, 1e4)
#: Tokens of a window whose last query is asked with and without a first token in front.
WINDOW = 128

# ---- Contributions -------------------------------------------------------------------------------

#: The convention that the others are compared with.
BY_THE_TEXT = "text"


def shares_of_terms(counted: Mapping[str, Contributions]) -> pd.DataFrame:
    """Each term's part of the six mean contributions, by convention: rows add up to 1."""
    means = _means(counted).rename(columns=TERM_NAMES)
    return means.div(means.sum(axis=1), axis=0).rename_axis("share of six")


def beside_the_text(counted: Mapping[str, Contributions]) -> pd.DataFrame:
    """What each convention changes in the mean contributions that the text defines; a row each.

    'order': the terms, the largest first; 'moved': those that stand at another place than by the
    text; 'at most times': the largest ratio of a mean to the text's; 'changes at most': how far
    such a ratio is from 1, in either direction.
    """
    means = _means(counted)
    ratios = means / means.loc[BY_THE_TEXT]
    orders = {name: contributions.ranking() for name, contributions in counted.items()}
    columns = {
        "order": {name: " ".join(order) for name, order in orders.items()},
        "moved": {
            name: " ".join(_moved(order, orders[BY_THE_TEXT])) for name, order in orders.items()
        },
        "at most times": ratios.max(axis=1),
        "changes at most": (ratios - 1).abs().max(axis=1),
    }
    return pd.DataFrame(columns)


def _means(counted: Mapping[str, Contributions]) -> pd.DataFrame:
    """The mean contribution of each term over heads, documents and queries, by convention."""
    rows = {name: contributions.grand_mean()[:, -1] for name, contributions in counted.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(TERMS))


def _moved(order: Sequence[str], reference: Sequence[str]) -> list[str]:
    """The terms of an order that do not stand where they do in the other."""
    return [term for term, before in zip(order, reference, strict=True) if term != before]


# ---- The search for queries ----------------------------------------------------------------------


def searched_at_scales(
    keys: Float[np.ndarray, "n d"], scales: Sequence[float] = SCALES
) -> dict[float, float]:
    """Unselectable keys by the papers' search, as a share, by the unit of the keys."""
    return {scale: bounded_search(scale * keys).unselectable for scale in scales}


def ranks_after_layernorm(keys: Float[np.ndarray, "n d"]) -> dict[str, int]:
    """The rank of standardised keys, as numpy counts it, by the precision of the arithmetic."""
    rows = torch.from_numpy(keys)
    by_precision = {"double": standardise(rows), "single": standardise(rows.float())}
    return {
        name: int(np.linalg.matrix_rank(normed.double().numpy()))
        for name, normed in by_precision.items()
    }


class Unselectable(NamedTuple):
    """Shares of unselectable keys: all there are, and as the papers' search counts them."""

    exactly: float
    by_search: float


def of_trained_models(arms: Sequence[FrozenArm], arm: str, d: int = 8) -> Unselectable:
    """Keys of the layers of an arm's models of one width, over the windows that were searched."""
    exactly = []
    by_search = []
    for run in arms:
        searched = run.arrays["search"].shape[-1]  # windows; 0 where the search was not run
        if (run.arm, run.d) == (arm, d) and searched:
            exactly.append(run.arrays["exact"][:, KEYS, :searched].mean())
            by_search.append(run.searched(KEYS).mean())
    return Unselectable(float(np.mean(exactly)), float(np.mean(by_search)))


def of_inputs(arms: Sequence[FrozenArm], names: Sequence[str], d: int = 8) -> dict[str, float]:
    """Unselectable inputs of LayerNorm, as a share, by arm: the mean over seeds and layers.

    Longer runs of a seed are left out.
    """
    runs = short_runs(arms)
    return {arm: float(shares_by_layer(runs, arm, "before LayerNorm", d).mean()) for arm in names}


# ---- Tokens and their neighbours -----------------------------------------------------------------


def auroc_study(first: FirstLayer) -> AffinityResult:
    """AUROCs of all heads of a model, by the bigram counts that come with the book."""
    vectors = token_vectors(fold(first.attention), first.embeddings)
    study, _ = affinity_study(vectors, first.embeddings, *counts_and_source(first))
    return study


def auroc_lost_to_zeros(study: AffinityResult) -> float:
    """By how much a head's mean AUROC falls, at most, where tokens without a bigram count as 0.

    The text has no AUROC for them. A head's mean shrinks by the share of tokens that have one,
    which is the same for all heads, so that their order stays.
    """
    return float((study.mean_auroc() * (1 - study.share_defined)).max())


def rho_moved_by_zeros(first: FirstLayer) -> float:
    """How far Spearman's ρ of a table with the count moves, where tokens of count 0 stay in."""
    folded = fold(first.attention)
    inputs = variance_of_inputs(first.embeddings, folded.eps)
    unigrams = samples.token_counts(first)[0].unigrams

    def correlations(least: int) -> pd.Series:
        study = frequency_study(folded, first.embeddings, inputs, unigrams, least)
        return study.table()["Spearman"]

    with_zeros = correlations(least=0)
    without = correlations(least=1)
    return float((with_zeros - without).abs().max())


class Rounded(NamedTuple):
    """What σ in half precision changes at most: σ itself, relatively, and a head's mean AUROC."""

    sigma: float
    auroc: float


def in_half_precision(first: FirstLayer, tokens: int = 200) -> Rounded:
    """How far σ and mean AUROCs of some tokens, drawn by chance, move where σ is rounded."""
    before = Neighbours.before(samples.token_counts(first)[0].bigrams)
    known = np.flatnonzero(before.n_distinct)
    drawn = np.random.default_rng(0).choice(known, tokens, replace=False)
    sigma = mean_sigma(first.embeddings, first.attention.ln.eps)
    exact = _mean_auroc(first, before, drawn, sigma)
    rounded = _mean_auroc(first, before, drawn, sigma.half().float())
    change = (sigma.half() / sigma - 1).abs().max()
    return Rounded(float(change), float(np.abs(rounded - exact).max()))


def _mean_auroc(
    first: FirstLayer,
    before: Neighbours,
    tokens: Int[np.ndarray, "token"],
    divisor: Float[torch.Tensor, "vocab"],
) -> Float[np.ndarray, "head"]:
    """Mean AUROC of each head over some query tokens, by a given σ of each token."""
    vectors = token_vectors(fold(first.attention), first.embeddings, divisor)
    return np.nanmean(head_auroc(vectors, before, tokens).values[:, tokens], axis=1)


# ---- Attention in documents ----------------------------------------------------------------------


class MovedAttention(NamedTuple):
    """What a first token in front of windows changes at most, over the heads.

    at_start: attention on position 0; in_all: total variation between mean attentions.
    """

    at_start: float
    in_all: float


def moved_by_first_token(first: FirstLayer) -> MovedAttention:
    """Attention of the last query of windows, with the token that begins texts and without."""
    folded = fold(first.attention)
    text = samples.sample_tokens(first)
    begins = samples.sample_framed(first)[0][0]

    def last_query(token: int | None) -> np.ndarray:
        asked = windows(text, WINDOW, token)
        return measured_attention(folded, first.embeddings, asked, [WINDOW - 1]).mean[:, 0]

    return moved(last_query(begins), last_query(None))


def moved(
    before: Float[np.ndarray, "head key"], after: Float[np.ndarray, "head key"]
) -> MovedAttention:
    """How far two attentions of each head differ at most: on key 0, and in total variation."""
    change = np.abs(before - after)
    return MovedAttention(float(change[:, 0].max()), float(0.5 * change.sum(axis=1).max()))


# ---- Majority ------------------------------------------------------------------------------------


def times_slower(
    experiment: Experiment, arms: Sequence[str], accuracy: float, fast: str = "layernorm"
) -> list[float]:
    """How many times as many epochs each arm needs to an accuracy as `fast`, by median runs.

    NaN where the median run of `fast` never arrives.
    """
    estimates = [slowdown(experiment, arm, fast, accuracy=accuracy) for arm in arms]
    return [math.nan if estimate is None else estimate.value for estimate in estimates]


def at_default_setting(sweep: Experiment, arms: Sequence[str]) -> Experiment:
    """Those curves of a sweep that were made at a plan's own rate and initial scale."""
    plan = MajorityPlan()
    default = {"learning_rate": plan.learning_rate, "initial_scale": plan.initial_scale}
    return Experiment(tuple(sweep.of(arm, **default) for arm in arms), {})


def checks(
    beside: pd.DataFrame,
    zeros: Mapping[str, float],
    halved: Mapping[str, Rounded],
    first: MovedAttention,
    slower: Mapping[str, float],
    inputs: Mapping[str, float],
    lengths: Int[np.ndarray, "context"],
) -> Iterator[Check]:
    """What the page says of conventions and of what else differs.

    beside: what `beside_the_text` gives; zeros: what zeros move, of 'minilm', 'book-gpt2' and 'ρ';
    halved, first: by half precision and by a first token; slower: how many times, by the 'code', by
    'ours' and 'theirs'; inputs: shares of unselectable ones, an arm; lengths: tokens of contexts.
    """
    others = beside.loc[["divided by i + 1", "floor", "last position dropped"]]
    most = beside.loc["unscaled", "at most times"]
    floor = beside.loc["floor", "changes at most"]
    ends = beside.loc["last position dropped", "changes at most"]
    changed = beside.loc[["unscaled", "released code"], "moved"]
    code = slower["code"]
    yield says("makes it three times as slow to 85 % right", 0.85, 3 < code < 3.6, found=code)
    yield says("3.3 times as slow to 85 % by the code", code, 0.85)
    yield says("The missing scale makes", (changed == "p pp").to_numpy())
    yield says("some contributions twelve times as large", 10.5 < most < 13.5, found=most)
    yield says("the other three change no place", (others["moved"] == "").to_numpy(), floor < 1e-4)
    yield says("means change by less than half a per cent", ends < 0.005, found=ends)
    yield says("lower by 0.05 (MiniLM) and 0.006 (book-gpt2)", zeros["minilm"], zeros["book-gpt2"])
    yield says("by at most 0.02", zeros["ρ"])
    sigma = max(moved.sigma for moved in halved.values())
    auroc = max(moved.auroc for moved in halved.values())
    yield says("by 0.05 %, none on the AUROC", sigma, auroc < 1e-5)
    yield says("attention on position 0 by at most 0.01", 0, first.at_start)
    yield says("curves by a total variation of 0.04", first.in_all)
    both = slower["ours"], slower["theirs"]
    yield says("1.8 times as slow to 70 % by either schedule", both[0], 0.7, 1.75 <= both[1] < 1.85)
    is_long = lengths >= 768
    about = len(is_long)
    yield says("one of two thousand", is_long.sum() == 1, 1950 < about < 2100, found=about)
    shares = np.array([*inputs.values()])
    yield says("a third before LayerNorm in every arm", abs(shares - 1 / 3) < 0.035, found=shares)


def checks_of_search(
    searched: BoundedSearch,
    exact: Selectability,
    agree: Mapping[float, float],
    truly: float,
    trained: Unselectable,
    ranks: Mapping[str, int],
) -> Iterator[Check]:
    """What the page says of the papers' search.

    agree: its shares by scale, of keys of which `truly` so many are unselectable; ranks: of
    projected keys, by precision.
    """
    counted = searched.unselectable / exact.unselectable
    every = np.array([share == truly for share in agree.values()])
    percent = 100 * np.array([trained.by_search, trained.exactly])
    rank = searched.rank
    yield says("a dimension that is not there", rank == exact.rank + 1, found=rank)
    by_rounding = ranks["single"] == ranks["double"] + 1
    yield says("the assertion passes because of the", by_rounding, found=[*ranks.values()])
    yield says("the search counts a quarter too few", 0.7 < counted < 0.82, found=counted)
    yield says("it agrees with the proofs, at every scale", every)
    yield says("it finds 37 in a hundred where 47 are unselectable", percent, trained.by_search > 0)
