"""Shared fixtures. Shapes in signatures are checked while tests run (jaxtyping + beartype)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import browsing
import checked
import pytest
import shapes
from checked import pytest_assertion_pass, pytest_runtest_call  # noqa: F401  hooks of pytest
from jaxtyping import config as jaxtyping_config
from no_network import connections, reaches_no_host  # noqa: F401  fixtures of all tests
from playwright.sync_api import Browser

checked.forget_silent_modules(Path(__file__).parent)

# Must come before the first import of the package.
shapes.check_in(["lnattn", "lnattn_book", "booksite", "experiments"])

import torch  # noqa: E402
from random_models import random_gpt2  # noqa: E402
from transformers import GPT2LMHeadModel  # noqa: E402

from lnattn_book.frozen.making import enter_studies  # noqa: E402

enter_studies()

# `make test` gives each core a process of tests; then one thread each, or they would queue.
_THREADS = 1 if "PYTEST_XDIST_WORKER" in os.environ else min(2, os.cpu_count() or 1)
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or _THREADS))


#: Files that take longest, by their names without `test_`. They come first, so that no process is
#: left with one of them when all others are done.
LONGEST = (
    "browser",
    "build",
    "browser_explorer",
    "hub",
    "wheel",
    "search",
)


@pytest.hookimpl(tryfirst=True)  # before `-m not(whole)` is asked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that look at pages are of whole books; files that take longest come first.

    `make test` gives files to processes in this order (--no-loadscope-reorder).
    """
    order = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))
    for item in items:
        if "chromium" in item.fixturenames:
            item.add_marker(pytest.mark.whole)


@pytest.fixture(scope="session", autouse=True)
def no_kept_studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests compute their studies: none is read from the user's cache, none is left there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LNATTN_STUDIES", str(tmp_path_factory.mktemp("studies")))
        yield


@pytest.fixture
def shapes_unchecked() -> Iterator[None]:
    """Switch the shape checker off, to see the package's own error for a wrong shape."""
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def gpt2() -> GPT2LMHeadModel:
    """A small random GPT-2 in float64 whose gains, biases and LayerNorm shifts are not 1 and 0."""
    return random_gpt2(seed=7, layers=2, d_model=24, heads=3, vocab=40, context=32)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One headless browser for all tests that look at pages."""
    # What is asked of a page is what a browser makes of it; pip installs none.
    if browsing.executable() is None:
        pytest.skip("no Chromium is installed here; apt-get install chromium")
    with browsing.chromium() as browser:
        yield browser
