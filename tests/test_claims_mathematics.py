"""The rules of the notes on made-up results that hold, hold in part and fail."""

from __future__ import annotations

from lnattn_book.claims import mathematics
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED

M = "book-gpt2"


def test_notes():
    for rule, good, bad in (
        (mathematics.m1, (0.0, 1e-9, 1e-9), (-0.1, 1e-9, 1e-9)),
        (mathematics.m2, (1e-9, 0.5), (1e-9, 1e-4)),
        (mathematics.m5, (1.0, 2.0), (1.0, 1.9)),
        (mathematics.m6, (1e-9, 1e-9, 1e-9), (1e-9, 1e-9, 1e-2)),
        (mathematics.m11, (0.5, 0.0, 0.3), (0.5, 0.5, 0.3)),
        (mathematics.m12, (0.0, 0.0), (0.5, 0.0)),
        (mathematics.m7, (0.0,), (0.1,)),
    ):
        assert rule(*good, model=M).verdict == HOLDS, rule
        assert rule(*bad, model=M).verdict == FAILS, rule
    assert mathematics.m1(0.0, 1e-2, 1e-9, model=M).verdict == FAILS
    assert mathematics.m1(0.0, 1e-9, 1e-2, model=M).verdict == FAILS


def test_a_mask_may_be_right_by_one_reading_and_a_bound_loose():
    assert mathematics.m3(True, True, model=M).verdict == HOLDS
    assert mathematics.m3(False, True, model=M).verdict == HOLDS_IN_PART
    assert mathematics.m3(False, False, model=M).verdict == FAILS
    assert mathematics.m4(2.0, 1.0, 1.0, model=M).verdict == HOLDS
    assert mathematics.m4(2.0, 1.0, 0.0, model=M).verdict == HOLDS_IN_PART
    assert mathematics.m4(2.5, 1.0, 0.0, model=M).verdict == FAILS


def test_depth():
    assert mathematics.m8(2.0, 50.0, model=M).verdict == HOLDS
    assert mathematics.m8(2.0, 5.0, model=M).verdict == HOLDS_IN_PART
    assert mathematics.m8(5.0, 2.0, model=M).verdict == FAILS
    assert mathematics.m8(20.0, 5.0, model=M).verdict == FAILS
    assert mathematics.m8(20.0, 50.0, model=M).verdict == FAILS
    assert mathematics.m9(0.99, 0.9, model=M).verdict == HOLDS
    assert mathematics.m9(0.99, 0.96, model=M).verdict == HOLDS_IN_PART
    assert mathematics.m9(0.9, 0.8, model=M).verdict == HOLDS_IN_PART
    assert mathematics.m9(0.8, 0.9, model=M).verdict == FAILS
    assert mathematics.m9(0.9, 0.99, model=M).verdict == FAILS
    expected = mathematics.m9(0.977, 0.6, model=M)  # √(1 − 1/24) = 0.979
    assert expected.verdict == UNDECIDED
    assert "by the rule before it: holds" in expected.note


def test_counts_of_parameters_and_sums_of_weights():
    assert mathematics.m10({"base": 0.55, "big": 0.4}, model=M).verdict == HOLDS
    assert mathematics.m10({"base": 0.55, "big": 0.2}, model=M).verdict == HOLDS_IN_PART
    assert mathematics.m10({"base": 0.7, "big": 0.2}, model=M).verdict == FAILS
    ones, others = [1.0, 1.0], [0.4, 2.1]
    assert mathematics.m13(ones, others, model=M).verdict == HOLDS
    assert mathematics.m13(others, ones, model=M).verdict == HOLDS_IN_PART
    some = mathematics.m13([1.0, 2.1], ones, model=M)
    assert some.verdict == HOLDS_IN_PART
    assert "sum to 1.00 to 2.10" in some.words
    assert mathematics.m13(others, others, model=M).verdict == FAILS
