"""What a user has told NumPy to do of a number too small to be held changes nothing.

So `numpy.seterr(all="raise")` must not end what computes a softmax; tests/test_report.py makes its
report under it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lnattn
from lnattn import plain
from lnattn.contribution.kl import divergences
from lnattn.rotary.position import attention_of_curve
from lnattn.selectability.gaussian import effective_dimension, expected_share, inner_angle


def scores(*shape: int) -> np.ndarray:
    """Scores thousands of nats apart, of which all but the best have no share that can be held."""
    return 2000 * np.random.default_rng(3).normal(size=shape)


def of_text() -> np.ndarray:
    model = lnattn.load_first_layer("book-gpt2")
    folded = lnattn.fold(model.attention)
    return lnattn.contributions(folded, model.embeddings, [[*range(60)]]).mean


COMPUTED: dict[str, Callable[[], object]] = {
    "plain.attend": lambda: plain.attend(scores(2, 9, 9), 1.0),
    "plain.kl_shares": lambda: plain.kl_shares({"ee": scores(2, 9, 9)}, 1.0)["ee"],
    "plain.guarantee": lambda: plain.guarantee(scores(5, 9), 2, 4, 3, 1),
    "divergences": lambda: divergences(scores(6, 9, 4).astype(np.float32)),
    "attention_of_curve": lambda: attention_of_curve(scores(3, 50)),
    "expected_share": lambda: expected_share(1024, 32),
    "inner_angle": lambda: inner_angle.__wrapped__(12),
    "effective_dimension": lambda: effective_dimension(np.array([0.2, 0.4]), 300),
    "contributions": of_text,
}


@pytest.mark.parametrize("name", COMPUTED)
def test_numpys_settings_change_nothing(name):
    usual = COMPUTED[name]()
    with np.errstate(under="raise"), pytest.raises(FloatingPointError):
        np.exp(np.array([-1e4]))  # what is asked for here
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(COMPUTED[name](), usual)
