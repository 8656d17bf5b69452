"""Every claim that can fail, on its null model and on a planted effect, by the same code.

A null model learnt nothing and keeps what the claim takes as given. Those that need weights are
frozen; what they get is pinned here, so that a claim which noise meets cannot be ✓ unnoticed.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from made_up import array
from scipy.stats import spearmanr
from trials import RULES, TRIALS, Trial

from lnattn import fold, load_first_layer
from lnattn.attention.nulls import permuted_weights
from lnattn_book.claims.frozen import frozen_records
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import claim
from lnattn_book.claims.nulls import LEVEL, NONE, NullModel, frozen_nulls, read_nulls, write_nulls
from lnattn_book.claims.rules import NULL_NOT_ASKED, At, Rule
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_COMPUTABLE, UNDECIDED
from lnattn_book.frozen import null_draws as null_models
from lnattn_book.page.places import FROZEN_CLAIMS, repository

#: What only a mistake can break has no null model.
FALSIFIABLE = {name: rule for name, rule in RULES.items() if claim(name).kind != "derivation"}
#: Of these nothing is kept that a null model could be drawn from; the page says so.
WITHOUT = ["B13", "B15", "N11", "S7", "U4"]
MADE = [name for name, rule in FALSIFIABLE.items() if rule.null.draw or rule.null.deal]
FROZEN = [name for name in FALSIFIABLE if name not in (*MADE, *WITHOUT)]


def holding(rule: Rule) -> tuple[Trial, At]:
    """A trial in which a claim holds, if there is one of a model that it is not about."""
    trials = [trial for trial in TRIALS[rule.claim] if trial.verdict == HOLDS]
    trial = min(trials, key=lambda one: one.own)
    return trial, At(claim(rule.claim).rule, trial.own)


def measures_of(rule: Rule, trial: Trial, place: At):
    """What is measured of a trial."""
    return trial.measures or rule.measure(place, *trial.results, **trial.named)


def test_a_claim_has_a_null_model_unless_only_a_mistake_can_break_it():
    without = {name for name, rule in RULES.items() if rule.null is None}
    assert without == set(RULES) - set(FALSIFIABLE)
    assert sorted(name for name, rule in RULES.items() if rule.null is NONE) == WITHOUT


@pytest.mark.parametrize("claim_id", MADE)
def test_a_planted_effect_holds_and_its_null_model_does_not(claim_id: str):
    rule = RULES[claim_id]
    trial, place = holding(rule)
    measures = measures_of(rule, trial, place)
    results = () if trial.measures else trial.results
    nulls = rule.null_measures(measures, "a model", place, *results, **trial.named)
    assert nulls
    assert rule.judge(measures, place, nulls).verdict == HOLDS
    verdicts = rule.of_null(nulls, place).verdicts
    assert verdicts.count(HOLDS) <= LEVEL * len(verdicts)


@pytest.mark.parametrize("claim_id", FROZEN)
def test_a_planted_effect_is_set_beside_what_shuffled_or_untrained_weights_get(claim_id: str):
    """What those meet as well is undecided, however large the effect."""
    rule = RULES[claim_id]
    trial, place = holding(rule)
    measures = measures_of(rule, trial, place)
    by_model = frozen_nulls(claim_id)
    assert by_model, f"{claim_id} names a null model, and none is frozen for it"
    for model, draws in by_model.items():
        nulls = [{**measures, **drawn} for drawn in draws]
        record = rule.judge(measures, place, nulls)
        met = rule.of_null(nulls, place)
        parts = [leaf.name for leaf in record.leaves] or [""]
        names = {part: part.replace("some head", "the heads named") for part in parts}
        if all(met.meets(part) or met.meets(name) for part, name in names.items()):
            assert record.verdict == UNDECIDED, model
        else:
            assert record.verdict == HOLDS, model
            assert met.verdicts.count(HOLDS) <= LEVEL * len(nulls), model


def test_a_part_that_two_of_twenty_draws_meet_is_met_and_one_is_not():
    rule = RULES["K14"]
    place = At(claim("K14").rule)
    flat, usual = {"ratio": array(0.01, 0.01)}, {"ratio": array(1.0, 1.0)}
    assert rule.judge(flat, place, [flat] * 2 + [usual] * 18).verdict == UNDECIDED
    assert rule.judge(flat, place, [flat] + [usual] * 19).verdict == HOLDS


def test_null_measures_are_kept_as_numbers_with_what_was_not_asked(tmp_path):
    drawn = {"share": array(0.5, np.nan), "rho": Interval(0.5, 0.4, 0.6), "said": "words"}
    path = write_nulls("K8", "tiny", [drawn, drawn], "command", tmp_path)
    write_nulls("K8", "other", [drawn], "command", tmp_path)
    kept = read_nulls(path)
    assert {model: len(draws) for model, draws in kept.items()} == {"tiny": 2, "other": 1}
    share, rho = kept["tiny"][0]["share"], kept["tiny"][0]["rho"]
    np.testing.assert_array_equal(share.value, [0.5, np.nan])
    assert [float(end) for end in rho] == [0.5, 0.4, 0.6]
    assert set(kept["tiny"][0]) == {"share", "rho"}


def test_a_null_model_that_was_not_computed_says_so():
    rule = RULES["K14"]
    assert NullModel("words").measures("K14", "a model that nobody asked", {}) == []
    record = rule(ratio=array(0.01, 0.02), model="a model that nobody asked")
    assert record.null_verdict == "not asked of this model"
    assert record.note.endswith(NULL_NOT_ASKED)
    nothing_held = rule(ratio=array(1.0, 2.0), model="a model that nobody asked")
    assert NULL_NOT_ASKED not in nothing_held.note


def test_the_null_of_weights_alone_is_also_that_of_the_whole_model():
    """K14 holds in GPT-2's own edition, too, where its name has no ' (frozen)'."""
    whole, weights = (
        RULES["K14"](ratio=array(*[0.01] * 12), model=name) for name in ("gpt2", "gpt2 (frozen)")
    )
    assert whole.null_draws == weights.null_draws == (20, 20)
    assert [leaf.verdict for leaf in whole.leaves] == [leaf.verdict for leaf in weights.leaves]


#: Claims whose null model was never drawn on a model: they say so, and do not hold.
NOT_DRAWN = {("K4", "whisper-tiny.en"), ("K5", "whisper-tiny.en")}


def test_no_frozen_verdict_says_that_a_claim_holds_which_its_null_model_meets():
    _, records = frozen_records(repository() / FROZEN_CLAIMS)
    judged = [
        record
        for record in records
        if record.claim in FALSIFIABLE and record.verdict != NOT_COMPUTABLE
    ]
    assert len({record.claim for record in judged}) == len(FALSIFIABLE)
    for record in judged:
        name = f"{record.claim} on {record.model}"
        if record.claim in WITHOUT:
            assert record.null_model == NONE.words
            continue
        if (record.claim, record.model.partition(" (")[0]) in NOT_DRAWN:
            assert record.null_draws is None
            assert record.verdict != HOLDS
            continue
        assert record.null_draws, f"{name}: its null model was not asked"
        if record.null_verdict == HOLDS:
            assert record.verdict not in (HOLDS, HOLDS_IN_PART), name
        if record.verdict == HOLDS_IN_PART:
            assert any(leaf.verdict == HOLDS for leaf in record.leaves), name


def test_a_draw_puts_heads_or_embeddings_in_random_order_and_asks_the_rest_as_it_is():
    """K6 of chance heads by hand: the trend of T^p with σ left out is that of b^QK · p."""
    first = load_first_layer("book-gpt2")
    embeddings = null_models.embeddings_in_random_order(first, seed=3)
    assert embeddings.attention is first.attention
    for name in ("W_E", "W_P"):
        before = getattr(first.embeddings, name)
        after = getattr(embeddings.embeddings, name)
        assert not torch.equal(before, after)
        assert torch.equal(before.flatten().sort().values, after.flatten().sort().values)
    heads = permuted_weights(first, 3, heads_only=True)
    drawn = dict(null_models.of_positions(heads))
    folded = fold(heads.attention)
    scores = (folded.b_QK @ heads.embeddings.W_P.T).numpy()
    by_hand = [spearmanr(row, np.arange(len(row))).statistic for row in scores]
    asked = next(measures["spearman"] for rule, measures in drawn.items() if rule.claim == "K6")
    assert np.abs(asked - by_hand).max() < 0.1, "σ bends the curves, and turns none"
    trained = dict(null_models.of_positions(first))
    learnt = next(measures["spearman"] for rule, measures in trained.items() if rule.claim == "K6")
    assert np.abs(learnt - by_hand).max() > 0.5, "it is not the trained model that was asked"


def test_pieces_that_changed_places_are_found_as_often_as_in_one_of_the_draws():
    """Of 500 pieces 15 or 25, by Wilson's interval; chance 0.04."""
    measures = {"pieces": 500, "chance": 0.04, "by_chance": np.array([0.03, 0.05])}
    drawn = NullModel("", RULES["S1"].null.draw, draws=50).measures("S1", "any", measures)
    assert {one["found"] for one in drawn} == {0.03, 0.05}
    times = next(one["times"] for one in drawn if one["found"] == 0.05)
    assert times.value == pytest.approx(1.25)
    z = 1.959964
    middle, half = 25 + z**2 / 2, z * (25 * (1 - 0.05) + z**2 / 4) ** 0.5
    wanted = np.array([middle - half, middle + half]) / (500 + z**2) / 0.04
    assert (times.low, times.high) == pytest.approx(tuple(wanted), rel=1e-6)


def test_what_deals_results_leaves_what_the_claim_takes_as_given():
    generator = np.random.default_rng(0)
    sums = np.arange(24.0).reshape(4, 6)
    dealt, rows = RULES["K10"].null.deal(generator, sums, sums + 100)
    assert (np.sort(dealt, axis=1) == sums).all()
    assert (rows == dealt + 100).all()
    assert not (dealt == sums).all()
    tenth = np.arange(12).reshape(2, 2, 3)
    for _ in range(5):
        one, other = RULES["R6"].null.deal(generator, tenth, 10 * tenth)
        assert (np.sort(one, axis=1) == tenth).all()
        assert (other == 10 * one).all(), "the two tails are exchanged together"
    lengths = [np.arange(10.0).reshape(2, 5)]
    (moved,) = RULES["K21"].null.deal(generator, lengths)
    assert moved[0][0, 0] != 0
    assert sorted(moved[0][0]) == [0, 1, 2, 3, 4]


def test_chance_of_an_effect_can_be_what_the_null_model_has():
    nulls = [{"ratio": array(0.2, 0.4)}, {"ratio": array(0.1, 0.1)}, {"ratio": array(0.6, 0.8)}]
    measures = {"ratio": array(0.01, 0.01)}
    record = RULES["K14"].judge(measures, At(claim("K14").rule), nulls)
    assert record.null == pytest.approx(0.3)
    assert RULES["K14"].judge(measures, At(claim("K14").rule)).null is None
