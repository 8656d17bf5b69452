"""The rules of the slides and the notes on made-up results that hold, hold in part and fail."""

from __future__ import annotations

import numpy as np

from lnattn.claims import frames
from lnattn.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED

M = "book-gpt2"


def test_circuits_are_exact_or_not():
    assert frames.r1(1e-15, 0.0, model=M).verdict == HOLDS
    assert frames.r1(1e-15, 0.4, model=M).verdict == HOLDS_IN_PART
    assert frames.r1(1e-6, 0.4, model=M).verdict == FAILS
    for rule, good, bad in (
        (frames.r2, (1e-15,), (1e-6,)),
        (frames.r3, (40, 1e-15, 1e-6), (40, 1e-15, 1e-3)),
        (frames.r4, (1e-15, 1e-14), (1e-15, 1e-6)),
        (frames.r5, (64, 1e-14), (64, 1e-6)),
    ):
        assert rule(*good, model=M).verdict == HOLDS
        assert rule(*bad, model=M).verdict == FAILS
    assert frames.r3(40, 1e-6, 1e-6, model=M).verdict == FAILS


def test_composition_must_beat_impossible_pairs_too():
    def asked(z: float, ratio: float) -> str:
        both = {"Q": ratio, "K": 3.0}
        return frames.r6({"Q": z, "K": z - 1}, both, both, model="gpt2").verdict

    assert asked(30.0, 2.0) == HOLDS
    assert asked(30.0, 1.2) == HOLDS_IN_PART
    assert asked(3.0, 2.0) == NOT_SEEN


def test_notes():
    for rule, good, bad in (
        (frames.m1, (0.0, 1e-9, 1e-9), (-0.1, 1e-9, 1e-9)),
        (frames.m2, (1e-9, 0.5), (1e-9, 1e-4)),
        (frames.m5, (1.0, 2.0), (1.0, 1.9)),
        (frames.m6, (1e-9, 1e-9, 1e-9), (1e-9, 1e-9, 1e-2)),
        (frames.m11, (0.5, 0.0, 0.3), (0.5, 0.5, 0.3)),
        (frames.m12, (0.0, 0.0), (0.5, 0.0)),
        (frames.m7, (0.0,), (0.1,)),
    ):
        assert rule(*good, model=M).verdict == HOLDS, rule
        assert rule(*bad, model=M).verdict == FAILS, rule
    assert frames.m1(0.0, 1e-2, 1e-9, model=M).verdict == FAILS
    assert frames.m1(0.0, 1e-9, 1e-2, model=M).verdict == FAILS


def test_a_mask_may_be_right_by_one_reading_and_a_bound_loose():
    assert frames.m3(True, True, model=M).verdict == HOLDS
    assert frames.m3(False, True, model=M).verdict == HOLDS_IN_PART
    assert frames.m3(False, False, model=M).verdict == FAILS
    assert frames.m4(2.0, 1.0, 1.0, model=M).verdict == HOLDS
    assert frames.m4(2.0, 1.0, 0.0, model=M).verdict == HOLDS_IN_PART
    assert frames.m4(2.5, 1.0, 0.0, model=M).verdict == FAILS


def test_paths_through_one_head_against_two():
    tokens = np.full(30, 100.0)
    noise = np.random.default_rng(0).normal(size=30)

    def asked(one: float, two: float) -> str:
        rises = (100 * one + noise, 100 * two - noise, tokens)
        return frames.r7(*rises, model=M).verdict

    assert asked(2.0, 0.5) == HOLDS
    assert asked(0.5, 2.0) == FAILS
    assert asked(1.0, 1.0) == UNDECIDED
    assert frames.r7(0.001 * tokens, 0 * tokens, tokens, model=M).verdict == NOT_SEEN


def test_depth():
    assert frames.m8(2.0, 50.0, model=M).verdict == HOLDS
    assert frames.m8(2.0, 5.0, model=M).verdict == NOT_SEEN
    assert frames.m8(20.0, 5.0, model=M).verdict == FAILS
    assert frames.m8(20.0, 50.0, model=M).verdict == FAILS
    assert frames.m9(0.99, 0.9, model=M).verdict == HOLDS
    assert frames.m9(0.99, 0.96, model=M).verdict == HOLDS_IN_PART
    assert frames.m9(0.9, 0.8, model=M).verdict == HOLDS_IN_PART
    assert frames.m9(0.8, 0.9, model=M).verdict == FAILS
    assert frames.m9(0.9, 0.99, model=M).verdict == FAILS


def test_counts_of_parameters_and_sums_of_weights():
    assert frames.m10({"base": 0.55, "big": 0.4}, model=M).verdict == HOLDS
    assert frames.m10({"base": 0.55, "big": 0.2}, model=M).verdict == HOLDS_IN_PART
    assert frames.m10({"base": 0.7, "big": 0.2}, model=M).verdict == FAILS
    ones, others = [1.0, 1.0], [0.4, 2.1]
    assert frames.m13(ones, others, model=M).verdict == HOLDS
    assert frames.m13(others, ones, model=M).verdict == HOLDS_IN_PART
    assert frames.m13(others, others, model=M).verdict == FAILS
