"""What a report says, on made results where the likely other reading says something else.

In none of them is the head that is meant the first, or the mean the median.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lnattn.affinity.subwords import Pieces, Subwords
from lnattn.reporting import every_text, heads, joining, keys, pieces, positions, sigma
from lnattn.reporting.fold_error import sentences_of
from lnattn.reporting.heads import HeadsOnText
from lnattn.reporting.joining import Joining, Skill
from lnattn.reporting.positions import DistanceCurves

NAMES = [f"t{i}" for i in range(60)]


def on_text(near: list[float], nats: list[float]) -> HeadsOnText:
    """Heads that look by place, compare, look by place, compare and read constants."""
    place, compares, constants = (
        [0.1, 0, 0, 0.5, 0.1, 0.3],
        [0.9, 0, 0, 0, 0.1, 0],
        [0, 0, 0, 0, 1, 0],
    )
    share = np.array([place, compares, place, compares, constants]).T
    terms = ("ee", "ep", "pe", "pp", "e", "p")
    first = np.zeros(5)
    return HeadsOnText(terms, share, np.array(nats), np.array(near), first, 0.3)


def test_heads_are_listed_by_their_kind_and_by_where_they_look() -> None:
    kinds, near = heads._sentences(on_text([0.1, 0.7, 0.5, 0.51, 0.2], [1, 1, 0.001, 1, 1]))
    assert kinds == (
        "Of 5 heads, head 2 attends evenly and prefers no key; heads 1 and 3 compare tokens "
        "(token → token has the largest share); head 4 reads constants of the key, the same for "
        "every query; head 0 looks by place."
    )
    assert near == "More than half of the attention of heads 1 and 3 is on the nearest ten keys."


# ---- Joining -------------------------------------------------------------------------------------


def skill(*rows: tuple[float, float, float], auroc: tuple[float, ...]) -> Skill:
    return Skill(np.array(auroc), np.full(len(auroc), 0.5), np.array(rows))


def test_the_most_skilled_head_is_named_and_not_the_first_or_the_widest() -> None:
    """Head 0 passes with less; head 3 has the largest mean, but not above 0 at its lower end."""
    of_model = skill(
        (0.02, 0.01, 0.03), (-0.2, -0.3, -0.1), (0.11, 0.08, 0.14), (0.12, -0.01, 0.25),
        auroc=(0.71, 0.90, 0.62, 0.69),
    )  # fmt: skip
    by_chance = skill(*[(0.0, -0.1, 0.1)] * 3, (0.2, 0.1, 0.3), auroc=(0.9, 0.9, 0.9, 0.9))
    told = joining._sentences(Joining(np.arange(9), of_model, by_chance, frequency=0.7))
    assert told == [
        "Heads 0 and 2 of 4 know more of what stands before a token than with a wrong query; most "
        "so head 2, by 0.110 [0.080, 0.140] of AUROC.",
        "With the heads' weights in random order, under the same embeddings, 1 of them does.",
        "A plain list of frequent tokens, the same for every query, has an AUROC of 0.70; 2 of the "
        "heads have more.",
    ]


def test_the_shown_pairs_are_of_the_most_skilled_head_first(monkeypatch) -> None:
    """In the page's figures, the query of a pair stands behind its key."""
    drawn = []
    monkeypatch.setattr(joining, "joined", lambda boxes: drawn.append(boxes) or "")
    pair = {"head": 2, "key": 7, "query": 9, "share": 0.25, "count": 30}
    made = SimpleNamespace(
        counted=lambda: (SimpleNamespace(bigrams=None, tokens=1), "a text"), token_names=NAMES
    )
    of_model = skill((0.1, 0.05, 0.2), auroc=(0.7,))
    measured = Joining(np.arange(9), of_model, of_model, frequency=0.7)
    for name, value in {
        "sampled_queries": np.arange(9), "vectors_of": None, "joining_of": measured,
        "best_pairs": pd.DataFrame([pair]),
    }.items():  # fmt: skip
        monkeypatch.setattr(joining, name, lambda *_arguments, value=value: value)
    monkeypatch.setattr(joining, "Neighbours", SimpleNamespace(before=lambda _pairs: None))
    part = joining.joining(made)
    assert drawn == [[("t7", "t9", "head 2, 25% of what stands before it")]]
    assert "intervals over 9 query tokens" in part.figures[0].caption


# ---- Pieces --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "says"), [(0.5, "joins pieces"), (0.4, "within chance"), (0.2, "within chance")]
)
def test_pieces_are_compared_with_the_upper_end_of_chance(found, says, monkeypatch) -> None:
    """Chance: mean 0.26, upper end 0.45; between the two is no finding. Head 1 finds them."""
    n = 20
    ranks = np.full((2, n), 99, dtype=np.int32)
    ranks[1, : round(found * n)] = np.arange(round(found * n)) % 10 + 1
    chance = np.zeros((3, 41, 3)) + np.linspace(0.05, 0.4743, 41)[None, :, None]
    of = Pieces(np.arange(n), np.arange(n) + 20, np.full(n, 0.9), np.full(n, 30))
    ranked = Subwords(of, ranks, chance)
    monkeypatch.setattr(pieces, "subwords_of", lambda _evidence: (ranked, 47))
    drawn: list[Any] = []
    monkeypatch.setattr(pieces, "joined", lambda boxes: drawn.extend(boxes) or "")
    made = SimpleNamespace(counted=lambda: (None, "a text"), token_names=NAMES)
    sentence, verdict = pieces.subwords(made).sentences
    high = np.quantile(chance[0, :, 0], 0.975)
    assert 0.45 < high < 0.47
    assert sentence == (
        f"Of {pieces.MOST:,} of 47 pieces that continue a word, {found:.1%} find what they "
        f"continue among the ten best keys of some head; pieces that change places do in "
        f"{chance[0, :, 0].mean():.1%}, and in 97.5 % of draws in no more than {high:.1%}."
    )
    assert says in verdict
    key, query, where = drawn[0]
    assert (int(key[1:]) - int(query[1:]), where) == (20, "head 1, rank 1")


# ---- Positions and distances ---------------------------------------------------------------------


def test_a_wave_has_cycles_and_a_sine_that_explains_it(monkeypatch) -> None:
    """Heads 1 and 2 fail one of the two each; looking near is asked of the last query."""
    table = pd.DataFrame(
        {"T^pp cycles": [2, 1.4, 3, 1.5], "T^pp wave share": [0.9, 0.9, 0.8, 0.81]}
    )
    bias = SimpleNamespace(attention=lambda: None, queries=(2, 9), causal=True)
    near = np.array([[0.9, 0.2], [0.1, 0.6], [0.9, 0.5], [0.2, 0.9]])
    monkeypatch.setattr(positions, "near_share", lambda *_arguments: near)
    looks, waves = positions._told(bias, table, is_scaled=True)
    assert looks == (
        "Heads 1 and 3 put more than half of attention on the nearest ten keys by position alone."
    )
    assert waves.startswith("T^pp is a wave in heads 0 and 3: 1.5 cycles or more")
    assert positions._told(bias, table, is_scaled=False)[0] == waves
    wavy = table.assign(**{"T^pp wave share": 0.7})
    assert positions._told(bias, wavy, is_scaled=False)[0].startswith("T^pp is a wave in no head")


def test_distance_alone_and_what_has_the_largest_share(monkeypatch) -> None:
    """Head 0: on itself; head 1: the key before; head 2: by tokens; head 3: far away."""
    curve = np.zeros((4, 40))
    curve[0, 0], curve[1, 1], curve[3, 30] = 9, 9, 9
    share = np.array(
        [[0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6], [0.4, 0.3, 0.3, 0], [0, 0.1, 0.8, 0.1]]
    )
    curves = DistanceCurves(curve, curve[::-1], share.T)
    monkeypatch.setattr(positions, "curves_of", lambda _evidence: curves)
    drawn = []
    monkeypatch.setattr(
        positions, "small_multiples", lambda panels, *_words: drawn.extend(panels) or ""
    )
    part = positions.by_distance(SimpleNamespace(counts=None))
    assert part.sentences == [
        "Heads 0 and 1 would put more than half of attention on the nearest ten keys by distance "
        "alone; head 1 on the key just before.",
        "In heads 0 and 1 the largest share of the variance of scores is the distance's.",
    ]
    grey, shown = (line.values for line in drawn[1].lines)
    np.testing.assert_allclose(grey, curve[2] - curve[2].mean())
    np.testing.assert_allclose(shown, curve[1] - curve[1].mean())
    assert drawn[1].title == "head 1: 100% near"
    assert drawn[3].title == "head 3: 0% near"
    table = part.tables[0].rows
    assert table["token → distance"].tolist() == [0.6, 0.1, 0.3, 0.1]
    assert "one each: no counts fit" in part.figures[0].caption


# ---- σ, keys, every text, rounding ---------------------------------------------------------------


def test_sigma_is_told_without_position_0_and_its_largest_by_place() -> None:
    mean = np.array([1 / 4, 1, 1 / 2, 1, 1 / 9])
    inverse = SimpleNamespace(mean=mean, lower=mean / 1.5, upper=mean * 2)
    told = sigma._by_position(SimpleNamespace(inverse_sigma=inverse)).sentences
    assert told == [
        "At most positions σ is about 1.5, and from the smallest to the largest of 95 % of tokens "
        "it grows by a factor of 3.",
        "At position 0 it is 4, 2.7 times as much; the largest, 9, is at position 4.",
    ]


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ([0.3, 0.0, 0.1], "Of 30 keys of one text, 0.0% to 30.0% cannot be selected by any query, "
         "by head; 2 of 3 heads have such keys."),
        ([0.1, 0.1, 0.1], "Of 30 keys of one text, 10.0% cannot be selected by any query, by head; "
         "3 of 3 heads have such keys."),
        ([0.0, 0.0], "Every one of 30 keys of one text can be selected by some query, in every "
         "head."),
    ],
)  # fmt: skip
def test_keys_that_no_query_selects(shares, said, monkeypatch) -> None:
    table = pd.DataFrame({"keys": 30, "unselectable": shares, "Gaussian keys": 0.2})
    monkeypatch.setattr(keys, "unselectable_table", lambda _evidence: table)
    assert keys.unselectable(None).sentences[0] == said


def test_the_head_that_guarantees_half_and_the_piece_that_is_promised_most(monkeypatch) -> None:
    """Of head 2 most pieces, of head 1 the one piece with the largest least; ends differ."""
    least = np.array([[0.1] * 4, [0.1, 0.2, 0.97, 0.1], [0.5, 0.8, 0.1, 0.6]])
    of = Pieces(np.arange(4), np.arange(4) + 20, np.full(4, 0.9), np.full(4, 30))
    promised = every_text.Promised(of, least, 1 - least / 9)
    monkeypatch.setattr(every_text, "promised", lambda _evidence: promised)
    made = SimpleNamespace(token_names=NAMES, context=12, counted=lambda: (None, "a text"))
    part = every_text.every_text(made)
    assert part.sentences == [
        "Of 4 pieces that continue a word, 75% give their main predecessor half or more of the "
        "attention of head 2 in every text of 12 tokens, whatever the others are.",
        "The most is promised by ‘t2’ behind ‘t22’: 97% at least, in head 1.",
    ]
    rows = part.tables[0].rows
    assert rows["least (median)"].tolist() == pytest.approx([0.1, 0.15, 0.55])
    assert rows["greatest (median)"].tolist() == pytest.approx(1 - np.array([0.1, 0.15, 0.55]) / 9)


def test_the_largest_error_of_each_type() -> None:
    rows = [("float32", 1e-7), ("float32", 3e-6), ("float64", 2e-16), ("float64", 1e-16)]
    told = sentences_of(pd.DataFrame(rows, columns=["dtype", "attention"]))
    assert told[0] == (
        "The largest difference of an attention weight: 3e-06 in float32, 2e-16 in float64."
    )
