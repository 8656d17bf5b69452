"""A test that has checked nothing fails: tests that are tried by a pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import checked
import torch

from lnattn.attention.layernorm import center

HERE = Path(__file__).parent
CHECKS_NOTHING = """
def test_under_a_condition_that_is_never_true():
    for value in (1, 2):
        if value > 2:
            assert value == 3

def test_a_loop_over_nothing():
    for value in ():
        assert value

def test_what_comes_out_is_not_asked():
    sum([1, 2])
"""
CHECKS = """
import numpy as np
import pandas as pd
import pytest
import torch

def test_an_assert():
    assert 1 + 1 == 2

def test_numpys_check():
    np.testing.assert_allclose(1.0, 1.0)

def test_torchs_check():
    torch.testing.assert_close(torch.ones(1), torch.ones(1))

def test_a_refusal():
    with pytest.raises(ZeroDivisionError):
        1 / 0

def test_skipped():
    pytest.skip("the inner run needs a test that checks nothing and does not fail")
"""


def test_tests_that_check_nothing_fail(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from checked import pytest_assertion_pass, pytest_runtest_call\n"
    )
    (tmp_path / "test_nothing.py").write_text(CHECKS_NOTHING)
    (tmp_path / "test_something.py").write_text(CHECKS)
    options = ["-q", "-p", "no:cacheprovider", "-o", "enable_assertion_pass_hook=true"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-o", f"pythonpath={HERE}", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert "3 failed, 4 passed, 1 skipped" in done.stdout, done.stdout
    assert "test_something.py::" not in done.stdout, "none of these is among the failures"


def test_a_typed_call_is_no_check():
    """The asserts of jaxtyping, which looks at shapes in each call, are none of the test's own."""
    before = checked.checks()
    center(torch.ones(3))
    assert checked.checks() == before
