"""What other pages hold has changed where a value has, and not where its order has."""

from __future__ import annotations

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")

from booksite.unchanged import digest_of_facts


def test_a_value_counts_and_the_order_of_a_mapping_does_not():
    before = digest_of_facts([{"a": 1, "b": 2}, ["a", "b"]])
    assert digest_of_facts([{"b": 2, "a": 1}, ["a", "b"]]) == before
    assert digest_of_facts([{"a": 1, "b": 3}, ["a", "b"]]) != before
    assert digest_of_facts([{"a": 1, "b": 2}, ["b", "a"]]) != before
