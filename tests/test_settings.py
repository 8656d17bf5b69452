"""Settings of a config.json: which are taken, and what is said of the others, word by word."""

from __future__ import annotations

import math

import pytest

from lnattn.errors import CheckpointError
from lnattn.models.settings import LARGEST, Settings, checked_number, checked_whole


def said(check, *args, **options) -> str:
    with pytest.raises(CheckpointError) as error:
        check(*args, **options)
    return str(error.value)


@pytest.mark.parametrize(
    ("value", "lowest", "wanted"),
    [
        (0, 1, "> 0"),
        (-3, 1, "> 0"),
        ("x", 1, "> 0"),
        (2.0, 1, "> 0"),
        (True, 1, "> 0"),
        (-1, 0, "≥ 0"),
        (1, 2, "≥ 2"),
        (10_000_001, 1, "from 1 to 10,000,000"),
        (10_000_001, 0, "from 0 to 10,000,000"),
    ],
)
def test_what_is_no_size_is_told_with_the_range_that_it_misses(value, lowest, wanted):
    """Whoever mends a config.json needs to read which numbers would do."""
    assert said(checked_whole, value, "n_head", "mine", lowest=lowest) == (
        f"mine: n_head in config.json must be a whole number {wanted}, not {value!r}."
    )


def test_sizes_at_the_ends_of_their_range_are_taken():
    assert checked_whole(1, "n", "") == 1
    assert checked_whole(LARGEST, "n", "") == LARGEST == 10_000_000
    assert checked_whole(0, "n", "", lowest=0) == 0
    assert checked_whole(7, "n", "", highest=7) == 7
    assert "from 1 to 7" in said(checked_whole, 8, "n", "", highest=7)


@pytest.mark.parametrize(
    "value", [-1e-9, -1, math.inf, -math.inf, math.nan, 10**400, "1", None, True, [1.0]]
)
@pytest.mark.parametrize(("above", "sign"), [(False, "≥"), (True, ">")])
def test_what_is_no_number_is_told_with_its_bound(value, above, sign):
    assert said(checked_number, value, "eps", "mine", above=above).startswith(
        f"mine: eps in config.json must be a number {sign} 0, not "
    )


def test_numbers_at_their_bound():
    assert checked_number(0, "eps", "") == 0.0
    assert checked_number(1e-300, "eps", "", above=True) == 1e-300
    assert checked_number(1e299, "eps", "") == 1e299
    assert "> 0" in said(checked_number, 0.0, "scale", "", above=True)


def test_settings_by_name_and_by_default():
    settings = Settings({"a": 3, "on": True, "unset": None, "eps": 1e-6}, "mine")
    assert settings.whole("absent", "a") == 3
    assert settings.flag("on", False) is True
    assert settings.flag("unset", True) is True
    assert settings.flag("absent", False) is False
    assert settings.number("eps", 1.0) == 1e-6
    assert settings.number("absent", 0.25) == 0.25
    assert said(settings.whole, "first", "second") == (
        "mine: config.json does not give first; take the one of these weights."
    )
    assert "true or false, not 3" in said(settings.flag, "a", True)
