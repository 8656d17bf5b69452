"""Freeze what rules measure of null models that need weights.

    python -m lnattn_book.frozen.null_draws MODELS

For each model named, `DRAWS` times: its heads are put in random order under its own embeddings, and
its embeddings under its own heads. What the rules measure of each draw goes to data/results/nulls,
where they look it up. A folder that holds GPT-2's attention and positions alone is asked what
positions answer, exactly and by place alone. The untrained twins of B8 and B9 are made by
`experiments.unselectable_lm`, as their models were.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lnattn.affinity.auroc import Neighbours, wrong_queries
from lnattn.attention.folding import fold
from lnattn.attention.nulls import permuted_weights
from lnattn.attention.vectors import same_token_z, token_vectors
from lnattn.errors import LnattnError
from lnattn.models.checkpoints import load_first_layer
from lnattn.position import curves
from lnattn.position.measured import near_share
from lnattn.position.without_tokens import position_only
from lnattn.progress import say
from lnattn.stats import bootstrap_means
from lnattn.weights import FirstLayer, require_absolute
from lnattn_book.chapters.information_gain import gain_of_tokens, who_knows_the_gain
from lnattn_book.chapters.position import on_text, scores_of_wave
from lnattn_book.chapters.variance import Frequency, frequency, switch_on_text
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.kamoda import (
    k4,
    k5,
    k6,
    k7,
    k8,
    k9,
    k11,
    k12,
    k13,
    k14,
    k15,
    k17,
    k19,
    k20,
    k23,
    k24,
)  # fmt: skip
from lnattn_book.claims.nulls import write_nulls
from lnattn_book.claims.rules import Rule
from lnattn_book.claims.survey import amplified, mean_z
from lnattn_book.studies.by_place import by_place
from lnattn_book.studies.first_token import FirstTokenSwitch
from lnattn_book.studies.samples import token_counts
from lnattn_book.studies.variance import frequency_study, position_outliers, variance_of_inputs

COMMAND = "python -m lnattn_book.frozen.null_draws book-gpt2 minilm whisper-tiny.en GPT2_FOLDER"
#: How often entries are put in random order.
DRAWS = 20
#: Query tokens whose AUROC is taken.
QUERIES = 400
#: What the rows of GPT-2 are called: its weights alone, and with a published σ for its tokens.
EXACT, ALONE = "gpt2 (frozen)", "gpt2 (by place alone)"
#: The head and the query (of the paper's three, its second) of K24.
HEAD = 1
#: What one draw gives: a rule, the name of the row, and what the rule measures.
Drawn = tuple[Rule, str, Mapping[str, Any]]


# ---- Whole first layers --------------------------------------------------------------------------


def of_positions(first: FirstLayer) -> Iterator[tuple[Rule, Mapping[str, Any]]]:
    """K6 to K9, K14 and K23, as chapter 5 asks them."""
    folded = fold(first.attention)
    W_P = first.embeddings.W_P
    here = on_text(first)
    near = near_share(here.terms.attention(), here.terms.queries, here.terms.causal)[:, -1]
    around = curves.nearness(folded, W_P, here.terms.inverse_sigma)
    shape = curves.position_table(here.terms, around)
    steps = [curves.rising_steps(here.terms.term_p().mean, i) for i in here.terms.queries]
    yield k6, k6.measures(shape["T^p Spearman"].to_numpy(), steps)
    yield k7, k7.measures(shape)
    yield k8, k8.measures(near, curves.wave_recurrence(here.terms)[:, -1])
    yield k9, k9.measures(here.comparison)
    yield k14, k14.measures(ratio=curves.last_rows(folded, W_P).ratio)
    yield k23, k23.measures(here.terms.term_p().mean)


def of_the_first_token(switch: FirstTokenSwitch) -> Iterator[tuple[Rule, Mapping[str, Any]]]:
    """K15 and K20, as chapter 7 asks them of text."""
    yield k15, k15.measures(score=switch.score, amplification=amplified(switch))
    yield k20, k20.measures(switch.true)


def of_frequency(first: FirstLayer, known: Frequency) -> Iterator[tuple[Rule, Mapping[str, Any]]]:
    """K11, K17 and K19: what T^e knows of tokens. known: of the model as it was trained."""
    study = frequency_study(fold(first.attention), first.embeddings, known.inputs, known.counts)
    for rule in (k11, k17):
        yield rule, rule.measures(study.head_correlations, known.counted)
    knowing = who_knows_the_gain(first, known, gain_of_tokens(first))
    heads = [correlations for name, correlations in knowing.items() if name.startswith("T^e")]
    yield k19, k19.measures(knowing["norm"], heads)


def of_variances(first: FirstLayer, known: Frequency) -> Iterator[tuple[Rule, Mapping[str, Any]]]:
    """K12 and K13: what the embeddings vary by. known: of the model as it was trained."""
    folded = fold(first.attention)
    inputs = variance_of_inputs(first.embeddings, folded.eps)
    study = frequency_study(folded, first.embeddings, inputs, known.counts)
    yield k12, k12.measures(study.variance_correlation, inputs.ratio, known.counted)
    yield k13, of_outliers(first.embeddings.W_P)


def of_outliers(W_P: Tensor) -> Mapping[str, Any]:
    """What K13 measures of position embeddings."""
    ends = position_outliers(W_P)
    return k13.measures(first=ends.first, last=ends.last_log, spread=ends.interior_spread)


def embeddings_in_random_order(first: FirstLayer, seed: int) -> FirstLayer:
    """The same heads; the entries of each embedding matrix in random order."""
    return replace(first, embeddings=permuted_weights(first, seed).embeddings)


def of_a_model(
    first: FirstLayer, name: str, known: Frequency, wrong: WrongQueries, seed: int
) -> Iterator[Drawn]:
    """One draw of each null model of a whole first layer."""
    heads = permuted_weights(first, seed, heads_only=True)
    yield k4, name, of_same_tokens(heads)
    yield k5, name, wrong.draw(seed)
    yield from ((rule, name, results) for rule, results in of_positions(heads))
    yield from (
        (rule, name, results) for rule, results in of_the_first_token(switch_on_text(heads))
    )
    if fold(first.attention).b_QK.any():
        yield from ((rule, name, results) for rule, results in of_frequency(heads, known))
    embeddings = embeddings_in_random_order(first, seed)
    yield from ((rule, name, results) for rule, results in of_variances(embeddings, known))


# ---- Tokens with tokens --------------------------------------------------------------------------


def of_same_tokens(heads: FirstLayer) -> Mapping[str, Any]:
    """What K4 measures of heads."""
    vectors = token_vectors(fold(heads.attention), heads.embeddings)
    return k4.measures(mean_z(same_token_z(vectors).numpy()))


class WrongQueries:
    """What K5 measures where a wrong query is asked in the place of each, against wrong queries."""

    def __init__(self, first: FirstLayer) -> None:
        self.vectors = token_vectors(fold(first.attention), first.embeddings)
        self.before = Neighbours.before(token_counts(first)[0].bigrams)
        having = np.flatnonzero(self.before.n_distinct)
        number = min(QUERIES, len(having))
        self.queries = np.sort(np.random.default_rng(0).choice(having, number, replace=False))
        self.usual = wrong_queries(self.vectors, self.before, self.queries)

    def draw(self, seed: int) -> dict[str, Any]:
        """One wrong query for each; the heads of most pairs are those of the model itself."""
        wrong = wrong_queries(self.vectors, self.before, self.queries, draws=1, seed=1 + seed)
        skills = Interval.rows(bootstrap_means(wrong - self.usual)).bonferroni()
        return {
            "skills": skills,
            "head_by_skill": int(skills.value.argmax()),
            "head_by_auroc": int(wrong.mean(axis=1).argmax()),
        }


# ---- GPT-2 without its token embeddings ----------------------------------------------------------


def of_gpt2(first: FirstLayer, seed: int) -> Iterator[Drawn]:
    """One draw of each null model that needs GPT-2's attention and positions alone."""
    heads = permuted_weights(first, seed, heads_only=True)
    exact = position_only(heads)
    steps = [curves.rising_steps(exact.term_p(), i) for i in exact.bias.queries]
    yield k6, EXACT, k6.measures(exact.spearman, steps)
    yield k7, EXACT, k7.measures(exact.table())
    yield k14, EXACT, k14.measures(ratio=exact.last.ratio)
    yield k23, EXACT, k23.measures(exact.term_p())
    place = by_place(heads)
    bias = place.bias(exact)
    near = near_share(bias.attention(), bias.queries, bias.causal)[:, -1]
    yield k8, ALONE, k8.measures(near, curves.wave_recurrence(bias)[:, -1])
    yield k24, ALONE, k24.measures(scores_of_wave(bias, HEAD, row=1))
    switch = place.switch()
    yield k15, ALONE, k15.measures(score=place.score, amplification=switch.amplification())
    yield k20, ALONE, k20.measures(switch.true)
    W_P = first.embeddings.W_P
    order = torch.randperm(W_P.numel(), generator=torch.Generator().manual_seed(seed))
    yield k13, EXACT, of_outliers(W_P.flatten()[order].view_as(W_P))


# ---- The command ---------------------------------------------------------------------------------


def draws_of(model: str, draws: int = DRAWS) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """By claim and row, what is measured of each draw of a model's nulls."""
    first = require_absolute(load_first_layer(model))
    draw: Callable[[int], Iterator[Drawn]] = partial(of_gpt2, first)
    if not first.is_partial:
        draw = partial(of_a_model, first, model, frequency(first), WrongQueries(first))
    by_row: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for seed in range(draws):
        for rule, name, measures in draw(seed):
            by_row.setdefault((rule.claim, name), []).append(measures)
        say(f"{model}: {seed + 1} of {draws} draws")
    return by_row


def main(models: Sequence[str]) -> int:
    """Freeze the null models of these models; returns the exit status."""
    try:
        for model in models or ("book-gpt2",):
            for (claim_id, name), draws in draws_of(model).items():
                print(f"{name}: {write_nulls(claim_id, name, draws, COMMAND)}")
    except LnattnError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
