"""The rules of the slides on made-up results that hold, hold in part and fail."""

from __future__ import annotations

import numpy as np

from lnattn_book.claims import residual
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED

M = "book-gpt2"


def test_circuits_are_exact_or_not():
    assert residual.r1(1e-15, 0.0, model=M).verdict == HOLDS
    assert residual.r1(1e-15, 0.4, model=M).verdict == HOLDS_IN_PART
    assert residual.r1(1e-6, 0.4, model=M).verdict == FAILS
    for rule, good, bad in (
        (residual.r2, (1e-15,), (1e-6,)),
        (residual.r3, (40, 1e-15, 1e-6), (40, 1e-15, 1e-3)),
        (residual.r4, (1e-15, 1e-14), (1e-15, 1e-6)),
        (residual.r5, (64, 1e-14), (64, 1e-6)),
    ):
        assert rule(*good, model=M).verdict == HOLDS
        assert rule(*bad, model=M).verdict == FAILS
    assert residual.r3(40, 1e-6, 1e-6, model=M).verdict == FAILS


def test_composition_must_beat_impossible_pairs_too():
    def asked(z: float, ratio: float) -> str:
        both = {"Q": ratio, "K": 3.0}
        return residual.r6({"Q": z, "K": z - 1}, both, both, model="gpt2").verdict

    assert asked(30.0, 2.0) == HOLDS
    assert asked(30.0, 1.2) == HOLDS_IN_PART
    assert asked(4.5, 2.0) == HOLDS  # K's is below 4
    assert asked(3.0, 2.0) == NOT_SEEN


def test_paths_through_one_head_against_two():
    tokens = np.full(30, 100.0)
    noise = np.random.default_rng(0).normal(size=30)

    def asked(one: float, two: float) -> str:
        rises = (100 * one + noise, 100 * two - noise, tokens)
        return residual.r7(*rises, model=M).verdict

    assert asked(2.0, 0.5) == HOLDS
    assert asked(2.0, 0.0) == HOLDS
    assert asked(0.5, 2.0) == FAILS
    assert asked(1.0, 1.0) == UNDECIDED
    small = (100 * 0.001 + 1e-3 * noise, 1e-3 * noise, tokens)
    assert residual.r7(*small, model=M).verdict == HOLDS  # however small: the rule asks no size
