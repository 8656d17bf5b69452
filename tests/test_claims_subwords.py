"""The rules of the sub-word claims on made-up results: that hold, hold in part, and do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lnattn.affinity.query_classes import ClassAuroc
from lnattn.affinity.subwords import PieceRule, Pieces, Subwords, TokenClasses
from lnattn_book.claims.subwords import piece_rule, s1, s2, s3, s4, s5, s6
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
)
from lnattn_book.small_models import BEST


def subwords(found: int, n: int, chance: float, spread: float = 0.01) -> Subwords:
    """`found` of n pieces at rank 1 in head 1, the others at 500; chance around a mean."""
    ranks = np.full((2, n), 500, dtype=np.int32)
    ranks[1, :found] = 1
    drawn = chance + spread * np.linspace(-1, 1, 101)
    pieces = Pieces(*np.zeros((2, n), dtype=np.int64), np.full(n, 0.5), np.full(n, 100))
    return Subwords(pieces, ranks, np.broadcast_to(drawn[None, :, None], (2, 101, 3)))


@pytest.mark.parametrize(
    ("found", "n", "chance", "verdict"),
    [
        (80, 400, 0.04, HOLDS),
        (80, 400, 0.15, HOLDS_IN_PART),  # above chance, but not twice as many
        (8, 40, 0.06, HOLDS),
        (5, 40, 0.06, HOLDS_IN_PART),  # twice chance, and too few pieces to be sure
        (16, 400, 0.04, NOT_SEEN),
        (0, 400, 0.0, NOT_SEEN),
        (29, 29, 0.04, NOT_COMPUTABLE),
    ],
)
def test_s1(found, n, chance, verdict) -> None:
    given = s1(subwords(found, n, chance), model="m")
    assert given.verdict == verdict
    assert str(n) in given.words


def test_s1_of_one_piece_is_in_the_singular() -> None:
    assert s1(subwords(1, 1, 0.04), model="m").words == "1 piece fits the rule"
    assert s1(subwords(1, 2, 0.04), model="m").words == "2 pieces fit the rule"


def test_s1_names_the_head_and_the_rule_its_parameters() -> None:
    given = s1(subwords(80, 400, 0.04), model="m")
    assert given.words == "20.0% of 400 pieces up to rank 10 (chance 4.0%), most of them in head 1"
    assert "at least 20 times ('##' pieces) or 100 times" in given.rule
    nothing = np.zeros(3, dtype=bool)
    assert piece_rule(TokenClasses(nothing, nothing, True)) == PieceRule(20, 0.25)
    assert piece_rule(TokenClasses(nothing, nothing, False)) == PieceRule(100, 0.3)


def class_auroc(own, frequency=(0.9, 0.9), best=0.8) -> ClassAuroc:
    """own: for each head (continuation, word), every interval ± 0.01; the AUROC is `best`."""
    own = np.asarray(own, dtype=float)
    heads = np.broadcast_to(np.array(best)[..., None], (2, 2, 3, len(own), 3)).copy()
    heads[:, 1, 2] = own.T[:, :, None] + np.array([0, -0.01, 0.01])
    of_frequency = np.broadcast_to(np.array(frequency)[:, None, None], (2, 2, 3))
    return ClassAuroc(heads, of_frequency, np.array([9, 9]), np.array([9, 9]))


@pytest.mark.parametrize(
    ("own", "verdict", "words"),
    [
        (
            [(0.2, 0.1)] * 2 + [(0.1, 0.1)],
            HOLDS,
            "above in 2 of 3 heads (head 0 and 1), below in 0",
        ),
        ([(0.2, 0.1)] * 2 + [(0.1, 0.2)] * 2, HOLDS_IN_PART, "above in 2 of 4 heads"),
        ([(0.2, 0.1)] + [(0.1, 0.1)] * 3, FAILS, "above in 1 of 4 heads (head 0)"),
        ([(0.115, 0.1)] * 4, FAILS, "above in 0 of 4 heads, below in 0"),  # the intervals meet
    ],
)
def test_s2(own, verdict, words) -> None:
    given = s2(class_auroc(own), model="m")
    assert given.verdict == verdict
    assert given.words.startswith(words)


@pytest.mark.parametrize(
    ("frequency", "verdict"),
    [((0.9, 0.9), HOLDS), ((0.9, 0.7), HOLDS_IN_PART), ((0.7, 0.7), FAILS), ((0.8, 0.8), FAILS)],
)
def test_s3(frequency, verdict) -> None:
    given = s3(class_auroc([(0.1, 0.1)] * 2, frequency), model="m")
    assert given.verdict == verdict
    assert "best head up to 0.800" in given.words
    one = class_auroc([(0.1, 0.1)] * 2, frequency, best=[0.8, 0.95])
    assert s3(one, model="m").verdict == FAILS  # frequency must beat every head


def looks(found, previous, chance=0.05, **columns) -> pd.DataFrame:
    """One checkpoint for each number: two heads, of which the second looks back by position."""
    tables = []
    for number, (share, back) in enumerate(zip(found, previous, strict=True)):
        table = pd.DataFrame({"head": [0, 1, BEST], "found": [0, share, share]})
        table = table.assign(chance=chance, previous=[0.1, back, np.nan])
        table["chance high"] = chance + 0.02
        tables.append(table.assign(step=2**number, tokens=2**number * 10_000_000))
    return pd.concat(tables).assign(**columns)


@pytest.mark.parametrize(
    ("found", "previous", "verdict"),
    [
        ([0.05, 0.2, 0.1], [0.1, 0.2, 0.6], HOLDS),
        ([0.05, 0.2, 0.15], [0.1, 0.2, 0.6], HOLDS_IN_PART),  # displaced by a third only
        ([0.05, 0.2, 0.1], [0.1, 0.5, 0.6], HOLDS_IN_PART),  # the positional head was there before
        ([0.05, 0.2, 0.1], [0.1, 0.1, 0.2], HOLDS_IN_PART),  # and never came
        ([0.05, 0.2, 0.15], [0.1, 0.1, 0.2], FAILS),
        ([0.05, 0.1, 0.2], [0.1, 0.2, 0.6], NOT_SEEN),  # the last has the most
        ([0.05, 0.06, 0.05], [0.1, 0.2, 0.6], NOT_SEEN),  # never above chance
    ],
)
def test_s4(found, previous, verdict) -> None:
    assert s4(looks(found, previous), model="m").verdict == verdict


def test_s4_of_a_short_run_is_undecided() -> None:
    short = looks([0.05, 0.2, 0.1], [0.1, 0.2, 0.6])
    given = s4(short.assign(tokens=short["tokens"] / 10), model="m")
    assert (given.verdict, given.note) == (UNDECIDED, "a longer run would decide")
    assert "largest excess +15.0% after 2.0 million tokens, +5.0% after 4.0" in given.words


def grid(n: int, falling: bool = True, back: float = 0.5) -> pd.DataFrame:
    """n models of several contexts, sharper positions with fewer pieces, or the other way."""
    cells = []
    for i in range(n):
        previous = back - 0.05 * i if falling else back + 0.05 * i
        shape = {"context": 64 * (1 + i // 2), "layers": 2, "heads": 8 * (1 + i % 2)}
        # An early look, which the rules do not read, says the opposite.
        table = looks([0.3 - 0.02 * i, 0.1 + 0.02 * i], [0, previous], **shape)
        cells.append(table.assign(tokens=2**23 * table["step"], positions="learned"))
    return pd.concat(cells) if cells else grid(1)[:0]


@pytest.mark.parametrize(
    ("previous", "n", "falling", "verdict"),
    [
        (0.2, 8, True, HOLDS),
        (0.2, 8, False, HOLDS_IN_PART),
        (0.4, 8, True, HOLDS_IN_PART),
        (0.4, 8, False, FAILS),
        (0.2, 5, True, UNDECIDED),
        (0.2, 0, True, UNDECIDED),
    ],
)
def test_s5(previous, n, falling, verdict) -> None:
    given = s5(np.full((2, 3), previous), np.full((2, 3), 0.3), grid(n, falling), model="m")
    assert given.verdict == verdict
    assert f"at most {previous:.2f}" in given.words
    assert ("more than on itself in head 0, 1 and 2" in given.words) is (previous > 0.3)


@pytest.mark.parametrize(
    ("previous", "words"),
    [
        ([[0.2, 0.28], [0.1, 0.1]], "at most 0.28 on the previous token by position, more than on"),
        ([[0.2, 0.4], [0.1, 0.1]], "at most 0.40 on the previous token by position; over"),
    ],
)
def test_s5_is_about_every_head_and_every_assumption(previous, words) -> None:
    """One head under one assumption is enough: beyond its own token, or beyond the limit."""
    itself = np.array([[0.25, 0.25], [0.25, 0.25]]) + 0.3 * ("; over" in words)
    given = s5(np.array(previous), itself, grid(8), model="m")
    assert given.verdict == HOLDS_IN_PART
    assert words in given.words
    assert given.values["largest"] == np.max(previous)


def test_a_model_that_has_not_come_so_far_is_not_counted() -> None:
    cells = grid(8)
    short = cells[(cells["heads"] == 8) | (cells["step"] == 1)]
    given = s5(np.full((2, 3), 0.2), np.full((2, 3), 0.3), short, model="m")
    assert (given.verdict, given.note[:21]) == (UNDECIDED, "4 models of the grid ")
    assert "each after 16,777,216 tokens" in given.rule
    rotary = grid(1).assign(positions="rotary", heads=16)
    assert s6(pd.concat([grid(3), rotary]), model="m").verdict == UNDECIDED  # no pair with it


def test_s6() -> None:
    assert s6(grid(4), model="m").verdict == HOLDS
    few = grid(4)
    few.loc[(few["heads"] == 16) & (few["context"] == 64), "found"] = 0
    assert s6(few, model="m").verdict == HOLDS_IN_PART
    assert s6(grid(4, back=0.3), model="m").verdict == FAILS  # none is sharp enough
    assert s6(grid(3), model="m").verdict == UNDECIDED
    assert s6(grid(0), model="m").verdict == UNDECIDED
