"""Fixtures of the experiments' tests. Shapes in signatures are checked while they run."""

from __future__ import annotations

import os
from pathlib import Path

import checked
import pytest
import shapes
from checked import pytest_assertion_pass, pytest_runtest_call  # noqa: F401  hooks of pytest
from no_network import connections, reaches_no_host  # noqa: F401  fixtures of all tests

checked.forget_silent_modules(Path(__file__).parent)

# Must come before the first import of the packages.
shapes.check_in(["lnattn", "lnattn_book", "experiments"])

import torch  # noqa: E402

torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else min(2, os.cpu_count() or 1))


@pytest.fixture(scope="session")
def corpora_folder() -> Path:
    """The development corpora, where the user has them."""
    value = os.environ.get("LNATTN_CORPORA")
    if not value or not Path(value).is_dir():
        # Tens of megabytes of text that the repository does not ship; made-up text tests the rest.
        pytest.skip("the development corpora are absent: set LNATTN_CORPORA to their folder")
    return Path(value)
