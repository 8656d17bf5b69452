"""A test that ends without having checked anything fails: an `assert` under an `if` that is never
true, a loop over nothing, a call of which nobody asks what came out.

Checks are asserts that pass (pytest tells of each, `enable_assertion_pass_hook`), and calls of what
raises where something does not hold: `pytest.raises`, `numpy.testing`, `torch.testing`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

#: Functions that check, where tests look them up.
CHECKING = (
    (pytest, ("raises", "warns", "fail")),
    (np.testing, ("assert_allclose", "assert_array_equal", "assert_equal")),
    (torch.testing, ("assert_close",)),
    (pd.testing, ("assert_frame_equal",)),
)
#: What a rewritten module calls where an assert passes.
TOLD = b"_call_assertion_pass"

_checks = 0


def _count(*_: object) -> None:
    global _checks
    _checks += 1


def checks() -> int:
    """How many checks there were in this process until now."""
    return _checks


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def checking(*args: object, **kwargs: object) -> Any:
        _count()
        return function(*args, **kwargs)

    return checking


for _module, _names in CHECKING:
    for _name in _names:
        setattr(_module, _name, _counted(getattr(_module, _name)))


def forget_silent_modules(folder: Path) -> None:
    """Remove what an earlier pytest kept of these tests, if it does not tell of passing asserts."""
    for kept in (folder / "__pycache__").glob("*-pytest-*.pyc"):
        if TOLD not in kept.read_bytes():
            kept.unlink(missing_ok=True)


def pytest_assertion_pass(item: pytest.Item) -> None:
    """pytest's hook: an assert of this test has passed."""
    _count(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """pytest's hook: run the test, and ask whether it has checked anything."""
    before = _checks
    result = yield
    if _checks == before:
        raise AssertionError(
            f"{item.name} ended without having checked anything: no assert ran, and nothing of "
            "pytest.raises, numpy.testing or torch.testing. Let it assert what it is about."
        )
    return result
