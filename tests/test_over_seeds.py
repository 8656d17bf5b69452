"""Answers over seeds, on made-up studies in halves, with numbers by hand and by scipy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up import constants, layers_alone
from made_up import layers_that_find as layers
from scipy.stats import t as student

from lnattn_book.chapters import switch as chapter
from lnattn_book.claims import by_seed
from lnattn_book.claims.over_seeds import (
    chosen,
    halved,
    halved_weights,
    in_most_seeds,
    kinds_apart,
    learned,
    over_seeds,
)
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED
from lnattn_book.studies.switch import ConstantsStudy, SwitchStudy


@pytest.fixture(autouse=True)
def _own_thresholds_alone(monkeypatch) -> None:
    """Verdicts by other thresholds, which take the time of dozens, are not asked for."""
    monkeypatch.setattr("lnattn_book.claims.rules._stands", lambda *_: None)


QUERIES = np.array([[10, 20], [40, 30]])  # [kind half]
TERMS = ["ee", "ed"]


def study(
    pieces: list[list[float]], words: list[list[float]], ee: float = 0.0, ed: float = 0.0
) -> SwitchStudy:
    """Means of heads by half; ee and ed make these shares of the difference, in every head."""
    means = np.array([pieces, words])  # [kind half head]
    attention = means * QUERIES[..., None]
    shares = np.zeros((2, *attention.shape))
    for place, share in enumerate((ee, ed)):
        shares[place, 0] = share * (means[0] - means[1]) * QUERIES[0][:, None]
    exchanged = np.stack([attention * 0, attention])
    return SwitchStudy(QUERIES, attention, shares, shares, exchanged, {"terms": TERMS})


def seeds(differences: list[float], **shares: float) -> list[SwitchStudy]:
    """Two heads a seed; the second has these differences on the odd texts."""
    return [
        study([[0.5, 0.9], [0.9, 0.2 + more]], [[0.4, 0.1], [0.1, 0.2]], **shares)
        for more in differences
    ]


def weights(chances: list[int], turned: float = 0.0) -> list[ConstantsStudy]:
    """Of two heads, of which the second has nats that so many of 999 turned constants reach."""
    made = []
    for reach in chances:
        nats = np.zeros((999, 2))
        nats[:reach, 1] = 9.0
        on_text = np.zeros((3, 2, 2, 2))
        on_text[:, 0, :, 1] = turned * QUERIES[0]
        made.append(
            constants(
                2,
                texts=2,
                queries=QUERIES,
                nats=np.array([0.0, 5.0]),
                matched=np.array([0.0, 4.0]),
                turned_nats=nats,
                turned_attention=on_text,
                turned_ed=on_text,
            )
        )
    return made


def test_intervals_are_students_and_hold_together() -> None:
    values = np.array([[1.0, 2.0], [2.0, 4.0], [4.0, 9.0]])
    interval = over_seeds(values)
    half = student.ppf(1 - 0.025 / 2, 2) * values.std(axis=0, ddof=1) / 3**0.5
    np.testing.assert_allclose(interval.value, values.mean(axis=0))
    np.testing.assert_allclose(interval.high - interval.value, half)
    alone = over_seeds(values[:, 0], level=0.975)
    expected = student.interval(0.975, 2, values[:, 0].mean(), values[:, 0].std(ddof=1) / 3**0.5)
    np.testing.assert_allclose([alone.low[0], alone.high[0]], expected)


def test_halves_are_sums_over_texts_of_even_and_of_odd_number() -> None:
    whole = SwitchStudy(
        np.array([[1, 2, 3], [4, 5, 6]]),
        np.arange(6.0).reshape(2, 3, 1),
        np.arange(6.0).reshape(1, 2, 3, 1),
        np.arange(6.0).reshape(1, 2, 3, 1),
        np.arange(6.0).reshape(1, 2, 3, 1),
        {"terms": ["ee"]},
    )
    half = halved(whole)
    assert half.queries.tolist() == [[4, 2], [10, 5]]
    assert half.attention[..., 0].tolist() == [[2, 1], [8, 4]]
    assert half.exchanged[0, ..., 0].tolist() == [[2, 1], [8, 4]]
    text = np.arange(12.0).reshape(1, 2, 3, 2)
    of_weights = constants(2, texts=3, turned_attention=text, turned_ed=2 * text)
    assert halved_weights(of_weights).turned_ed[0, :, :, 0].tolist() == [[8, 4], [32, 16]]
    assert halved_weights(of_weights).queries.tolist() == [[2, 1], [2, 1]]


def test_a_head_is_chosen_on_one_half_and_asked_on_the_other() -> None:
    """The second head is farther apart on the even texts; on the odd ones the first would be."""
    one = study([[0.5, 0.9], [0.9, 0.3]], [[0.4, 0.1], [0.1, 0.2]])
    assert chosen(one.attention, one.queries) == 1
    assert over_seeds([0.1]).value.tolist() == [0.1]
    record = by_seed.switch(seeds([0.3, 0.31, 0.32], ed=0.9), weights([0] * 3), model="twins")
    assert record.estimate == pytest.approx(0.31)
    half = student.ppf(0.975, 2) * 0.01 / 3**0.5
    assert record.interval == pytest.approx((0.31 - half, 0.31 + half))


@pytest.mark.parametrize(
    ("differences", "ed", "chances", "turned", "verdict"),
    [
        ([0.3, 0.31, 0.32, 0.33, 0.3], 0.9, [0, 0, 0, 0, 999], 0.0, HOLDS),
        ([0.3, 0.31, 0.32, 0.33, 0.3], 0.9, [0, 0, 0, 999, 999], 0.0, UNDECIDED),
        ([0.3, 0.31, 0.32, 0.33, 0.3], 0.1, [0] * 5, 0.0, HOLDS_IN_PART),
        ([0.3, 0.31, 0.32, 0.33, 0.3], 0.9, [0] * 5, 0.5, HOLDS),  # turned k₀ do 1 and 2, not 3
        ([0.01, 0.02, 0.01, 0.02, 0.01], 0.9, [0] * 5, 0.0, NOT_SEEN),
        ([0.0, 0.3, 0.0, 0.3, 0.1], 0.9, [0] * 5, 0.0, UNDECIDED),
    ],
)
def test_d9_over_seeds(differences, ed, chances, turned, verdict) -> None:
    """25 of 1,000 turned constants are 5 % of two heads: 24 and the head's own reach it."""
    record = by_seed.switch(seeds(differences, ed=ed), weights(chances, turned), model="twins")
    if verdict == UNDECIDED and len(set(chances)) > 1:
        assert [leaf.verdict for leaf in record.leaves] == [HOLDS, HOLDS, UNDECIDED]
    else:
        assert record.verdict == verdict
    met = [leaf.name for leaf in record.leaves if "null model meets" in leaf.words]
    assert len(met) == (2 if turned else 0)


def test_the_share_of_turned_constants_is_divided_by_the_heads() -> None:
    apart = seeds([0.3, 0.31, 0.32, 0.33, 0.3], ed=0.9)
    for reach, verdict in ((23, HOLDS), (24, NOT_SEEN)):  # (1 + 24) / 1000 is .05 / 2
        leaf = by_seed.switch(apart, weights([reach] * 5), model="twins").leaves[2]
        assert leaf.verdict == verdict, reach


def test_most_seeds_are_four_of_five_or_all_of_fewer() -> None:
    assert [end.item() for end in in_most_seeds(np.array([5.0, 1, 2, 4, 3]))] == [3, 2, 4]
    assert [end.item() for end in in_most_seeds(np.array([3.0, 1, 2]))] == [2, 1, 3]


@pytest.mark.parametrize(
    ("differences", "ee", "outcome"),
    [
        ([0.3, 0.31, 0.32, 0.33, 0.3], 0.9, "through T^ee"),
        ([0.3, 0.31, 0.32, 0.33, 0.3], 0.1, "by other terms"),
        ([0.3, 0.31, 0.32, 0.33, 0.3], 0.5, "undecided"),
        ([0.01, 0.02, 0.01, 0.02, 0.01], 0.0, "neither"),
        ([0.0, 0.3, 0.0, 0.3, 0.1], 0.9, "undecided"),
    ],
)
def test_what_learned_positions_do(differences, ee, outcome) -> None:
    studies = seeds(differences, ee=ee)
    # A hair of difference between seeds, so that an interval at the limit has a width.
    studies[0] = replace(studies[0], shares=studies[0].shares * (1.01 if ee == 0.5 else 1))
    studies[1] = replace(studies[1], shares=studies[1].shares * (0.99 if ee == 0.5 else 1))
    found = learned(studies)
    assert found.outcome == outcome
    assert found.heads == (1,) * 5
    assert found.apart.value == pytest.approx(np.mean(differences))
    # Of the two draws the first has no attention at all, the second that of the model.
    assert found.null == (int(outcome != "neither" and min(differences) > 0), 2)


def test_learned_positions_that_look_back_always() -> None:
    """The head for that is chosen apart: the one whose lesser kind pays most on the first half."""
    always = [study([[0.8, 0.1], [0.7 + n, 0.1]], [[0.7, 0.0], [0.65, 0.1]]) for n in (0, 0.01, 0)]
    found = learned(always)
    assert found.outcome == "always"
    assert found.always.value == pytest.approx(0.65)


def test_kinds_of_positions_are_compared_within_pairs() -> None:
    interval = kinds_apart(seeds([0.1, 0.2, 0.1]), seeds([0.3, 0.5, 0.4]))
    expected = student.interval(0.95, 2, 0.8 / 3, np.std([0.2, 0.3, 0.3], ddof=1) / 3**0.5)
    np.testing.assert_allclose([interval.low, interval.high], expected)
    record = by_seed.switch(seeds([0.1] * 3), weights([0] * 3), model="twins")
    assert (record.values["nats"], record.values["matched"]) == (5, 4)


def test_layers_above_over_seeds() -> None:
    """Excess over the first layer, by hand; three seeds in which layer 2 joins."""
    found = [layers(0.05, 0.05, share) for share in (0.40, 0.42, 0.44)]
    record = by_seed.joins_above(found, model="nobody")
    assert record.verdict == HOLDS
    assert record.estimate == pytest.approx(0.42 - 0.05)
    expected = student.ppf(1 - 0.025 / 2, 2) * 0.02 / 3**0.5
    assert record.interval[1] - record.estimate == pytest.approx(expected)
    below = [layers(0.5 + n, 0.2, 0.05) for n in (0, 0.01, 0.02)]
    assert by_seed.joins_above(below, model="nobody").verdict == HOLDS_IN_PART
    shares = [layers_alone(1.0, 0.9 + n, 0.7) for n in (0, 0.01, 0.02)]
    assert by_seed.alone(shares, model="nobody").verdict == HOLDS
    low = [layers_alone(1.0, 0.3 + n, 0.1) for n in (0, 0.01, 0.02)]
    record = by_seed.alone(low, model="nobody")
    assert record.verdict == FAILS
    assert record.estimate == pytest.approx(0.1)


def test_the_table_of_twins_has_the_terms_of_both_kinds() -> None:
    rotary = [replace(one, record={"terms": ["e", "ed"]}) for one in seeds([0.3] * 3, ed=0.5)]
    table = chapter.over_twins({"causal": seeds([0.1, 0.2, 0.3], ee=1.0), "rotary": rotary})
    learned, turned = table["learned positions"], table["rotary positions"]
    assert learned["pieces less words"] == learned["token → token"] == "0.200 [-0.048, 0.448]"
    assert turned["from pieces"] == "0.500 [0.500, 0.500]"
    assert turned["token → distance"] == "0.150 [0.150, 0.150]"
    assert turned["token → token"] == ""
    by_seed_of = chapter.apart_by_seed({"causal": seeds([0.1, 0.2, 0.3])})
    np.testing.assert_allclose(by_seed_of["learned positions"], [0.1, 0.2, 0.3])
    assert chapter.means_of(rotary) == (0.5, 0.2, 0.3)
