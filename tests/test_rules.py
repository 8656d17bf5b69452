"""Rules of claims in general: thresholds from claims.yml, words made of them, verdicts by model."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lnattn.claims import (
    ablation,
    brody,
    distance,
    frames,
    kamoda,
    kamoda_variance,
    listed,
    normalisation,
    subwords,
    unselectable,
    verdicts,
)
from lnattn.claims.listed import claim, claims
from lnattn.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    RULES,
    UNDECIDED,
    Outcome,
    heads_where,
    listed_words,
    of_heads,
    rule,
    rule_of,
    with_minus,
)
from lnattn.errors import ResultError

MODULES = (
    kamoda,
    kamoda_variance,
    brody,
    frames,
    subwords,
    distance,
    ablation,
    unselectable,
    normalisation,
)


@pytest.fixture
def own_rules(monkeypatch):
    """Rules made in a test do not stay."""
    monkeypatch.setattr(verdicts, "RULES", dict(RULES))


def with_parameters(monkeypatch, claim_id: str, **parameters) -> None:
    known = dict(claims())
    known[claim_id] = replace(known[claim_id], rule=parameters)
    monkeypatch.setattr(verdicts, "claim", known.__getitem__)


def test_every_claim_has_a_rule_or_says_in_words_what_a_run_must_show():
    for one in claims().values():
        assert (one.id in RULES) is not bool(one.predicate), one.id


@pytest.mark.parametrize("claim_id", RULES)
def test_a_rule_states_every_parameter_and_uses_no_other(claim_id):
    stated = set(re.findall(r"{(\w+)", RULES[claim_id].words))
    parameters = set(claim(claim_id).rule)
    assert stated <= parameters
    source = inspect.getsource(inspect.getmodule(RULES[claim_id]))
    body = source[source.index(f"def {claim_id.lower()}(") :].split("\n@rule(")[0]
    used = set(re.findall(r"case\.(\w+)", body)) - {"own"}
    assert parameters == used | stated
    # A parameter that no reader sees would be a hidden threshold; the one exception is shown with
    # the result itself.
    assert used - stated <= {"sensitivity"}


@pytest.mark.parametrize("claim_id", RULES)
def test_rules_are_named_after_their_claims_and_read_as_sentences(claim_id):
    found = RULES[claim_id]
    assert found.__name__ == claim_id.lower()
    assert any(getattr(module, claim_id.lower(), None) is found for module in MODULES)
    words = rule_of(claim_id)
    assert words[0].isupper()
    assert words.endswith(".")
    assert "{" not in words.replace("{QK}", "")
    assert "model" in inspect.signature(found).parameters


def test_words_follow_the_parameters(monkeypatch):
    assert "exceeds 0.9 in every head" in rule_of("K6")
    with_parameters(monkeypatch, "K6", spearman=0.75)
    assert "exceeds 0.75 in every head" in rule_of("K6")
    assert kamoda.k6(np.array([0.8, 0.8]), model="tiny").verdict == HOLDS


def test_a_missing_parameter_is_one_sentence(monkeypatch):
    with_parameters(monkeypatch, "K6", other=1)
    with pytest.raises(ResultError, match="wants a parameter 'spearman'"):
        kamoda.k6(np.array([0.8, 0.8]), model="tiny")


def test_absence_is_evidence_on_the_claims_own_model_only():
    flat = np.zeros(3)
    assert kamoda.k6(flat, model="book-gpt2").verdict == NOT_SEEN
    for name in ("gpt2", "gpt2 (frozen)", "openai-community/gpt2"):
        assert kamoda.k6(flat, model=name).verdict == FAILS
    for name in ("gpt2-medium", "distilgpt2"):
        assert kamoda.k6(flat, model=name).verdict == NOT_SEEN


@pytest.mark.usefixtures("own_rules")
def test_rules_must_give_known_verdicts_and_say_what_would_decide():
    @rule("Never.")
    def k1(case):
        return Outcome("perhaps", "words")

    with pytest.raises(ResultError, match="not a verdict"):
        k1(model="m")

    @rule("Never.")
    def k2(case):
        return Outcome(UNDECIDED, "words")

    with pytest.raises(ResultError, match="must say what would decide"):
        k2(model="m")


def test_verdict_counts_heads():
    assert of_heads([True, True]) == (HOLDS, "2 of 2 heads")
    assert of_heads(np.array([True, False, True])) == (HOLDS_IN_PART, "2 of 3 heads")
    assert of_heads([False]) == (FAILS, "0 of 1 heads")
    assert of_heads([False], none=NOT_SEEN) == (NOT_SEEN, "0 of 1 heads")
    with pytest.raises(ResultError, match="at least one"):
        of_heads([])


def test_assumptions_that_disagree_leave_it_undecided():
    assert of_heads([[True, True], [True, False]]) == (UNDECIDED, "1 to 2 of 2 heads")
    assert of_heads([[True, False], [True, False]]) == (HOLDS_IN_PART, "1 of 2 heads")
    part = [[True, False, True], [True, False, False]]
    assert of_heads(part) == (HOLDS_IN_PART, "1 to 2 of 3 heads")


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=4))
def test_a_verdict_that_is_decided_is_that_of_every_assumption(cases):
    verdict, _ = of_heads(cases)
    each = {of_heads(case)[0] for case in cases}
    if verdict != UNDECIDED:
        assert each == {verdict}


def test_words():
    assert heads_where([True, False, True, True]) == "0, 2 and 3"
    assert heads_where([False, True]) == "1"
    assert heads_where([False, False]) == "none"
    assert [listed_words(list("abc")[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    text = with_minus("from -0.5 [-1, 2] to 5e-15, GPT-2 and book-gpt2, x-3")
    assert text == "from −0.5 [−1, 2] to 5e-15, GPT-2 and book-gpt2, x-3"


@pytest.mark.parametrize("parameters", [{"a": "text"}, {"a": [1, "b"]}, {"a": True}, [1]])
def test_parameters_are_numbers(parameters):
    item = {**vars(claim("K6")), "rule": parameters}
    item.pop("predicate")
    with pytest.raises(ResultError, match="rule must map names to numbers"):
        listed._claim(Path("f.yml"), 1, item)
