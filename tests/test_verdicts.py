"""Rules of claims in general: thresholds from claims.yml, words made of them, verdicts by model."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lnattn.claims import (
    ablation,
    brody,
    brody_keys,
    distance,
    kamoda,
    kamoda_position,
    kamoda_variance,
    listed,
    mathematics,
    normalisation,
    residual,
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
    Verdict,
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
    kamoda_position,
    kamoda_variance,
    brody,
    brody_keys,
    residual,
    mathematics,
    subwords,
    distance,
    ablation,
    unselectable,
    normalisation,
)

#: Tests that try rules on made-up results.
TRIALS = (
    *(f"test_claims_{name}" for name in ("kamoda", "brody", "subwords", "distance")),
    *(f"test_claims_{name}" for name in ("residual", "mathematics", "normalisation")),
    *("test_ablation", "test_selectability_layers"),
)


@pytest.fixture
def own_rules(monkeypatch):
    """Rules made in a test do not stay."""
    monkeypatch.setattr(verdicts, "RULES", dict(RULES))


def with_parameters(monkeypatch, claim_id: str, **parameters) -> None:
    known = dict(claims())
    known[claim_id] = replace(known[claim_id], rule=parameters)
    monkeypatch.setattr(verdicts, "claim", known.__getitem__)


def test_every_claim_has_one_rule():
    assert set(RULES) == set(claims())


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
    assert not re.search(r"\[['\d]", words), "a list of Python's"
    assert "model" in inspect.signature(found).parameters


def test_words_follow_the_parameters(monkeypatch):
    assert "exceeds 0.9 in every head" in rule_of("K6")
    with_parameters(monkeypatch, "K6", spearman=0.75)
    assert "exceeds 0.75 in every head" in rule_of("K6")
    assert kamoda_position.k6(np.array([0.8, 0.8]), model="tiny").verdict == HOLDS
    with_parameters(monkeypatch, "N1", accuracies=[0.25, 0.5, 1], times=2, runs=3)
    assert "of right answers 0.25, 0.5 and 1, with" in rule_of("N1")


def test_a_missing_parameter_is_one_sentence(monkeypatch):
    with_parameters(monkeypatch, "K6", other=1)
    with pytest.raises(ResultError, match="wants a parameter 'spearman'"):
        kamoda_position.k6(np.array([0.8, 0.8]), model="tiny")


def test_absence_is_evidence_on_the_claims_own_model_only():
    flat = np.zeros(3)
    assert kamoda_position.k6(flat, model="book-gpt2").verdict == NOT_SEEN
    for name in ("gpt2", "gpt2 (frozen)", "openai-community/gpt2"):
        assert kamoda_position.k6(flat, model=name).verdict == FAILS
    for name in ("gpt2-medium", "distilgpt2"):
        assert kamoda_position.k6(flat, model=name).verdict == NOT_SEEN


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
    with pytest.raises(ResultError, match="rule must map names to numbers"):
        listed._claim(Path("f.yml"), 1, item)


# --- every rule is tried, with every verdict that it can give ------------------------------------


def can_give(claim_id: str) -> set[str]:
    """The verdicts that the source of a rule names, with those of the functions that it calls."""
    module = inspect.getmodule(RULES[claim_id])
    defined = {
        node.name: node
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.FunctionDef)
    }
    named, todo, seen = set(), [claim_id.lower()], set()
    while todo:
        seen.add(name := todo.pop())
        for node in ast.walk(defined[name]):
            if isinstance(node, ast.Name) and node.id in defined and node.id not in seen:
                todo.append(node.id)
            elif isinstance(node, ast.Name):
                named.add(getattr(verdicts, node.id, None) if node.id.isupper() else None)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "of_heads":
                named |= {HOLDS, HOLDS_IN_PART}
                named |= set() if any(word.arg == "none" for word in node.keywords) else {FAILS}
    if NOT_SEEN in named and claim(claim_id).needs_checkpoint:
        named.add(FAILS)
    return named & set(verdicts.VERDICTS)


_JUDGES = re.compile(r"\.verdict\b|\bverdict\(")


def trials(module_name: str):
    """The tests of a module that look at verdicts and need no fixture, with their parameters."""
    for name, test in vars(importlib.import_module(module_name)).items():
        if not name.startswith("test_") or not _JUDGES.search(inspect.getsource(test)):
            continue
        marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
        rows = [[_named(mark.args[0], values) for values in mark.args[1]] for mark in marks]
        for several in product(*rows):
            named = {key: value for one in several for key, value in one.items()}
            if named.keys() == inspect.signature(test).parameters.keys():
                yield test, named


def _named(names, values) -> dict:
    names = [one.strip() for one in names.split(",")] if isinstance(names, str) else names
    return dict(zip(names, values if len(names) > 1 else [values], strict=True))


@pytest.fixture(scope="module")
def given_in_trials():
    """The verdicts that the trials of rules were given, by claim."""
    found, make = defaultdict(set), Verdict.__init__

    def record(self, *values, **named) -> None:
        make(self, *values, **named)
        found[self.claim].add(self.verdict)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Verdict, "__init__", record)
        for module_name in TRIALS:
            for test, named in trials(module_name):
                test(**named)
    return found


@pytest.mark.parametrize("claim_id", RULES)
def test_a_rule_is_tried_on_results_for_every_verdict_that_it_can_give(claim_id, given_in_trials):
    possible = can_give(claim_id)
    assert HOLDS in possible
    assert possible & {FAILS, NOT_SEEN}, "a rule that nothing can fail says nothing"
    assert possible <= given_in_trials[claim_id]
