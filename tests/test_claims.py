"""Claims: their list, rules in general, records, counts, and frozen values."""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml

from booksite.executed import registered
from lnattn import paths
from lnattn.attention.forward import attention_pattern
from lnattn.attention.layernorm import standardise
from lnattn.errors import ResultError
from lnattn_book.claims import __main__ as command
from lnattn_book.claims import (
    ablation,
    brody,
    brody_keys,
    distance,
    frozen,
    kamoda,
    kamoda_position,
    kamoda_variance,
    ledger,
    listed,
    mathematics,
    normalisation,
    residual,
    subwords,
    unread,
    unselectable,
    verdicts,
)
from lnattn_book.claims.listed import SOURCES, Claim, claim, claims
from lnattn_book.claims.tally import DERIVED, NOT_ASKED, by_source, tally, two_verdicts
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    RULES,
    UNDECIDED,
    Record,
    heads_where,
    listed_words,
    of_heads,
    rule,
    rule_of,
    size,
    with_minus,
)

ROOT = paths.repository()
#: Importing them enters their rules.
MODULES = (ablation, brody, brody_keys, distance, kamoda, kamoda_position, kamoda_variance)
MODULES += (mathematics, normalisation, residual, subwords, unread, unselectable)

# --- three claims of the notes that no other test states as plainly --------------------------


def test_attention_weights_are_probabilities_and_outputs_means():
    """M1: weights are ≥ 0 and sum to 1, so outputs stay within the values' smallest box."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(3, 7, 4, dtype=torch.float64, generator=generator) for _ in range(3))
    alpha = attention_pattern(q, k, 2.0)
    assert (alpha >= 0).all()
    torch.testing.assert_close(alpha.sum(dim=-1), torch.ones(3, 7, dtype=torch.float64))
    out = alpha @ v
    assert (out <= v.amax(dim=1, keepdim=True)).all()
    assert (out >= v.amin(dim=1, keepdim=True)).all()


def test_one_shared_map_gives_symmetric_scores_and_two_do_not():
    """M2: with q = k the scores are symmetric; the weights, normalised by row, still are not."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, 6, 5, dtype=torch.float64, generator=generator)
    w, u = (torch.randn(5, 3, dtype=torch.float64, generator=generator) for _ in range(2))
    for other, symmetric in ((w, True), (u, False)):
        log_alpha = attention_pattern(x @ w, x @ other, 1.0).log()
        # Scores up to a constant for each query, which the softmax leaves open: compare what is
        # left when rows and columns are centred.
        scores = log_alpha - log_alpha.mean(-1, keepdim=True)
        scores = scores - scores.mean(-2, keepdim=True)
        assert torch.allclose(scores, scores.mT, atol=1e-10) is symmetric


def test_layer_norm_mixes_the_features():
    """M7: a change of one feature moves all others, so features are not treated one by one."""
    x = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    y = x.clone()
    y[0] += 1
    moved = (standardise(y, 1e-5) - standardise(x, 1e-5)).abs()
    assert (moved > 1e-3).all()


# --- the list -----------------------------------------------------------------------------------


@pytest.mark.parametrize("one", claims().values(), ids=claims())
def test_a_claim_names_a_rule_a_test_a_function_and_a_source_that_exist(one: Claim):
    assert one.id in RULES
    file, _, function = one.test.partition("::")
    assert (ROOT / file).read_text(encoding="utf-8").count(f"def {function}(") == 1
    pkgutil.resolve_name(one.function)
    assert f"{{{one.paper}," in (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    assert one.id[0] in SOURCES


GOOD = {
    "id": "K1",
    "paper": "p",
    "section": "s",
    "statement": "t",
    "reported": "r",
    "line": "l",
    "kind": "number",
    "rule": {},
    "words": "w",
    "tolerance": None,
    "function": "f.g",
    "model": "m",
    "chapter": "c",
    "test": "tests/test_a.py::test_b",
}


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ({"a": 1}, "must hold a list"),
        ([GOOD, GOOD], "twice"),
        ([GOOD | {"id": "Q1"}], "id must be a number after"),
        ([GOOD | {"extra": 1}], "unknown \\['extra'\\]"),
        ([{"id": "K1"}], "missing"),
        (["K1"], "missing"),
        ([GOOD | {"statement": ""}], "must be text"),
        ([GOOD | {"tolerance": -1}], "tolerance"),
        ([GOOD | {"tolerance": True}], "tolerance"),
        ([GOOD | {"kind": "guess"}], "kind must be one of derivation"),
        ([GOOD | {"changed": {"date": "today"}}], "a date and a why"),
        ([GOOD | {"test": "test_x"}], "test must be tests/FILE"),
        ([GOOD | {"test": None}], "test must be tests/FILE"),
    ],
)
def test_a_malformed_list_of_claims_is_refused(tmp_path, listed, message):
    path = tmp_path / "claims.yml"
    path.write_text(yaml.safe_dump(listed))
    with pytest.raises(ResultError, match=message):
        claims(path)


def test_a_missing_list_of_claims_is_one_sentence(tmp_path):
    with pytest.raises(ResultError, match="is no list of claims"):
        claims(tmp_path / "claims.yml")


@pytest.mark.parametrize("parameters", [{"a": "text"}, {"a": [1, "b"]}, {"a": True}, [1]])
def test_parameters_are_numbers(parameters):
    item = {**vars(claim("K6")), "rule": parameters}
    with pytest.raises(ResultError, match="rule must be a map from names"):
        listed._claim("f.yml", item)


@pytest.mark.parametrize("one", claims().values(), ids=claims())
def test_a_grid_lies_around_the_rules_own_thresholds(one: Claim):
    for name, values in one.grid.items():
        assert one.rule[name] in values
        assert min(values) < max(values)


# --- rules --------------------------------------------------------------------------------------


def with_parameters(monkeypatch, claim_id: str, **parameters) -> None:
    known = dict(claims())
    known[claim_id] = replace(known[claim_id], rule=parameters)
    monkeypatch.setattr(verdicts, "claim", known.__getitem__)


@pytest.mark.parametrize("claim_id", RULES)
def test_a_rule_states_every_parameter(claim_id):
    """A parameter that no reader sees would be a hidden threshold."""
    stated = set(re.findall(r"{(\w+)", claim(claim_id).words))
    source = "".join(map(inspect.getsource, MODULES))
    used = set(re.findall(r"case\.(\w+)", source))
    assert stated <= set(claim(claim_id).rule) <= used | stated
    changed = RULES[claim_id].before is not None  # thresholds of the rule before, too
    assert changed or set(claim(claim_id).rule) - stated <= {"sensitivity"}
    words = rule_of(claim_id)
    assert words[0].isupper()
    assert words.endswith(".")
    assert "{" not in words.replace("{QK}", "")


def test_words_follow_the_parameters(monkeypatch):
    assert "exceeds 0.9 in every head" in rule_of("K6")
    with_parameters(monkeypatch, "K6", spearman=0.75)
    assert "exceeds 0.75 in every head" in rule_of("K6")
    assert kamoda_position.k6(np.array([0.8, 0.8]), model="tiny").verdict == HOLDS
    with_parameters(monkeypatch, "K6", other=1)
    with pytest.raises(KeyError):
        rule_of("K6")


def test_an_effect_is_said_with_its_interval_chance_and_number():
    one = Record(HOLDS, "w", **size((-0.5, -0.75, -0.25), "ρ", null=0, n=1234))
    assert one.effect() == "−0.5 ρ [−0.75, −0.25], chance 0, n = 1,234"
    assert Record(HOLDS, "w", **size(np.array([1.0, 0.5, np.inf]))).effect() == "1"
    assert Record(HOLDS, "w", **size(np.inf)).effect() == Record(HOLDS, "w").effect() == ""


def test_an_identity_wants_its_results_by_name():
    with pytest.raises(ResultError, match="judges key query, not key"):
        kamoda.k2(0.0, model="m")


@pytest.mark.parametrize("one", claims().values(), ids=claims())
def test_a_line_is_short(one: Claim):
    assert len(one.line.split()) <= 12


def test_absence_is_evidence_on_the_claims_own_model_only():
    flat = np.zeros(3)
    assert kamoda_position.k6(flat, model="book-gpt2").verdict == NOT_SEEN
    for name in ("gpt2", "gpt2 (frozen)", "openai-community/gpt2"):
        assert kamoda_position.k6(flat, model=name).verdict == FAILS
    for name in ("gpt2-medium", "distilgpt2"):
        assert kamoda_position.k6(flat, model=name).verdict == NOT_SEEN


def test_rules_must_give_known_verdicts_and_say_what_would_decide(monkeypatch):
    monkeypatch.setattr(verdicts, "RULES", dict(RULES))
    for verdict, message in (("perhaps", "not a verdict"), (UNDECIDED, "what would decide")):

        @rule
        def k1(case, verdict=verdict):
            return Record(verdict, "words")

        with pytest.raises(ResultError, match=message):
            k1(model="m")


def test_a_changed_rule_gives_both_verdicts():
    found = RULES["M9"](0.977, 0.6, model="random weights")
    assert (found.verdict, found.before) == (UNDECIDED, HOLDS)
    assert "rule changed after the numbers on 23 Nov 2026" in found.note


def test_verdict_counts_heads():
    assert of_heads([True, True]) == (HOLDS, "2 of 2 heads")
    assert of_heads(np.array([True, False, True])) == (HOLDS_IN_PART, "2 of 3 heads")
    assert of_heads([False], none=NOT_SEEN) == (NOT_SEEN, "0 of 1 heads")
    assert of_heads([[True, True], [True, False]]) == (UNDECIDED, "1 to 2 of 2 heads")
    part = [[True, False, True], [True, False, False]]
    assert of_heads(part) == (HOLDS_IN_PART, "1 to 2 of 3 heads")
    with pytest.raises(ResultError, match="at least one"):
        of_heads([])


def test_words():
    assert heads_where([True, False, True, True]) == "0, 2 and 3"
    assert heads_where([False, False]) == "none"
    assert [listed_words(list("abc")[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    text = with_minus("from -0.5 [-1, 2] to 5e-15, GPT-2 and book-gpt2, x-3")
    assert text == "from −0.5 [−1, 2] to 5e-15, GPT-2 and book-gpt2, x-3"


# --- records ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _empty_ledger(monkeypatch):
    monkeypatch.setattr(ledger, "_registered", {})


def record(claim_id: str = "K1", model: str = "m", verdict: str = HOLDS, **more) -> Record:
    given = {"words": "1", "claim": claim_id, "model": model} | more
    return Record(verdict, **given)


def test_a_registered_claim_appears_in_its_table():
    ledger.register(record(words="0.25", model="tiny | model"), note="float64 | exact")
    shown = ledger.table(["K1", "K2"])._repr_markdown_()
    assert "✓ holds: float64 \\| exact" in shown
    assert "0.25<br>*tiny \\| model*" in shown
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert "not registered" in rows[-1]
    assert {line.count("|") - line.count("\\|") for line in rows} == {5}


def test_a_folder_named_like_html_stays_text():
    name = "<img src=x onerror=alert(1)> *a* [b](c)"
    ledger.register(record(model=name, words="x <b>", note="y <i>"))
    shown = ledger.table("K1")._repr_markdown_()
    assert not re.search(r"<(img|b|i)\b(?!r)", shown)
    assert "*&lt;img src=x onerror=alert(1)&gt; \\*a\\* \\[b\\](c)*" in shown


def test_registering_again_replaces_and_another_model_adds():
    for model, words in [("b", "3"), ("a", "1"), ("a", "2")]:
        ledger.register(record("B1", model, words=words))
    assert [(one.model, one.words) for _, one in ledger.table("B1").rows] == [
        ("a", "2"),
        ("b", "3"),
    ]
    assert [one.claim for one in ledger.in_order(map(record, ("M1", "B1", "K10", "K2")))] == [
        *("K2", "K10", "B1", "M1")
    ]


@pytest.mark.parametrize(
    ("given", "function", "message"),
    [
        ({"claim_id": "K99"}, None, "not in book/claims.yml"),
        ({"model": " "}, None, "needs words and a model"),
        ({"words": ""}, None, "needs words and a model"),
        ({}, "lnattn.nothing.here", "cannot be imported"),
        ({}, "nothing", "cannot be imported"),
    ],
)
def test_a_bad_record_is_refused(given, function, message):
    with pytest.raises(ResultError, match=message):
        ledger.register(record(**given), function=function)
    assert not ledger._registered


def glued(*found: Record) -> dict:
    return {
        f"claim:{one.claim}:{one.model}:{n}": {"data": {"text/plain": json.dumps(vars(one))}}
        for n, one in enumerate(found)
    }


def test_records_come_from_the_pages_of_the_book_with_their_page(tmp_path):
    for page, content in {
        "notebooks/b": glued(record("K2", words="old"), record("K2", words="new")),
        "notebooks/a": glued(record("B1"), record("K2"))
        | {"number": {"data": {"text/plain": "'3'"}}},
        "notebooks/gone": glued(record("K1")),
    }.items():
        path = tmp_path / f"{page}.glue.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    found = registered(tmp_path, ["notebooks/a", "notebooks/b", "notebooks/silent"])
    assert [(one.claim, one.chapter, one.words) for one in found] == [
        ("K2", "notebooks/a", "1"),
        ("K2", "notebooks/b", "new"),
        ("B1", "notebooks/a", "1"),
    ]


@pytest.mark.parametrize(
    "output",
    [{}, {"data": {}}, {"data": {"text/plain": "{"}}, {"data": {"text/plain": '{"claim": "K1"}'}}],
)
def test_a_damaged_record_is_one_sentence(tmp_path, output):
    (tmp_path / "a.glue.json").write_text(json.dumps({"claim:K1:m:1": output}))
    with pytest.raises(ResultError, match="ledger record"):
        registered(tmp_path, ["a"])


def test_a_record_reaches_the_output_of_its_cell(monkeypatch):
    """In a notebook, `register` also displays the record under a type that nothing shows."""
    display = pytest.importorskip(
        "IPython.display", reason="IPython is absent: pip install .[book]"
    )
    shown = []
    monkeypatch.setattr(display, "display", lambda data, **rest: shown.append((data, rest)))
    monkeypatch.setattr(ledger, "_shell", lambda: type("Shell", (), {"user_ns": {"In": [""] * 8}}))
    given = ledger.register(record(words="3 of 4"), function="json.loads")
    ((data, rest),) = shown
    ((kind, text),) = data.items()
    assert kind == rest["metadata"]["scrapbook"]["mime_prefix"] + "text/plain"
    assert rest["metadata"]["scrapbook"]["name"].startswith("claim:K1:m:")
    assert ledger.as_record(json.loads(text), "here") == given
    assert (given.execution, given.function) == (7, "json.loads")


# --- counting ----------------------------------------------------------------------------------


def some(*ids: str) -> list[Claim]:
    return [claims()[claim_id] for claim_id in ids]


def test_each_claim_counts_once_by_its_own_chapter():
    own = f"notebooks/{claims()['K10'].chapter}"
    found = [
        record("K10", "tiny", FAILS, chapter="notebooks/12-other-models"),
        record("K10", "tiny", HOLDS_IN_PART, chapter=own),
        record("K10", "other", HOLDS, chapter=own),
        record("K14", "gpt2 (frozen)", HOLDS),
        record("K14", "tiny", NOT_SEEN),
        record("K15", "tiny", UNDECIDED),
        record("K15", "gpt2 (frozen)", NOT_COMPUTABLE),
        record("R5", "gpt2"),
        record("B1", "no model"),
    ]
    count = tally(some("K10", "K14", "K15", "K9", "B1", "R5", "M1"), found, "tiny")
    assert dict(count.general) == {HOLDS: 2, NOT_ASKED: 1}
    assert dict(count.of["gpt2"]["gpt2"]) == {HOLDS: 1, NOT_COMPUTABLE: 1, NOT_ASKED: 2}
    assert dict(count.of["gpt2"]["tiny"]) == {
        HOLDS_IN_PART: 1,
        NOT_SEEN: 1,
        UNDECIDED: 1,
        NOT_ASKED: 1,
    }
    assert count.sentence() == (
        "Of 7 claims, 3 need no given checkpoint: 2 hold and 1 was not asked. 4 are about GPT-2. "
        "Asked of GPT-2 itself, 1 holds, 1 cannot be computed and 2 were not asked. Asked of tiny, "
        "which stands in for it, 0 hold, 1 holds in part, 1 is not seen there, 1 is undecided and "
        "1 was not asked."
    )


def test_derivations_that_hold_are_counted_apart():
    found = [record("B1", "no model"), record("B2", "no model", FAILS), record("K6", "gpt2")]
    counts = by_source(some("B1", "B2", "K6", "K7"), [*found, record("K7", "tiny")], "tiny")
    assert {name: n for name, n in counts["B"].items() if n} == {FAILS: 1, DERIVED: 1}
    assert {name: n for name, n in counts["K"].items() if n} == {HOLDS: 1, NOT_ASKED: 1}


def test_a_claim_has_one_verdict_on_a_model_and_uncounted_records_do_not_speak():
    found = [record("B4", "a"), record("B4", "b", FAILS, counted=False), record("B4", "a", FAILS)]
    assert two_verdicts(found) == ["claim B4 has 2 verdicts on a: fails, holds"]
    assert dict(tally(some("B4"), found[:2], "tiny").general) == {HOLDS: 1}
    assert tally(some("B4"), found[:2], "tiny").sentence() == (
        "Of 1 claims, 1 needs no given checkpoint: 1 holds."
    )


def test_a_claim_of_the_books_own_is_not_counted_as_a_papers():
    (own,) = some("N9")
    assert own.needs_checkpoint
    count = tally([own], [record("N9", "gpt2")], "tiny")
    assert (dict(count.ours), dict(count.of), count.general.total()) == ({HOLDS: 1}, {}, 0)


# --- frozen --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("was", "now", "tolerance", "same"),
    [
        (3, 3, None, True),
        (3, 4, None, False),
        (0.5, 0.5004, None, True),
        (0.5, 0.501, None, False),
        (0.5, 0.501, 0.01, True),
        (5e-15, 3e-13, None, True),
        (5e-15, 6e-13, None, False),
        (0, 1e-9, None, False),
        ("a", "a", None, True),
        ("a", "b", None, False),
        (True, False, None, False),
        (0.5, None, None, False),
        (None, 0.5, None, False),
    ],
)
def test_what_counts_as_the_same(was, now, tolerance, same):
    assert frozen.alike(was, now, tolerance) is same


def test_differences_are_sentences():
    was = [record("K1", values={"a": 1.0}, chapter="x"), record("K2", chapter="x")]
    assert not list(frozen.differences(was, was, ["x"]))
    found = [record("K1", values={"a": 2.0}, chapter="x"), record("K3", chapter="x")]
    assert list(frozen.differences(was, found, ["x"])) == [
        "K1 on m (x): a was 1.0, now it is 2.0",
        "K2 on m (x) is frozen, but this build did not register it",
    ]
    assert frozen.not_frozen(was, found) == found[1:]
    failed = [record("K1", "m", FAILS, values={"a": 1.0}, chapter="x")]
    assert "verdict was 'holds', now it is 'fails'" in next(
        iter(frozen.differences(was[:1], failed, ["x"]))
    )
    assert not list(frozen.differences(was[1:], [], ["y"]))


def test_a_build_is_frozen_printed_and_read_again(tmp_path, monkeypatch, capsys):
    found = [record("K1", "tiny", words="error 5e-15", values={"error": 5e-15}, chapter="x")]
    html = tmp_path / "_build" / "html"
    html.mkdir(parents=True)
    data = {"model": "path/tiny", "claims": ledger.report(claims().values(), found)}
    (html / "claims.json").write_text(json.dumps(data))
    monkeypatch.setattr(command, "repository", lambda: tmp_path)
    assert command.main(["--freeze"]) == 0
    back = frozen.read_frozen("path/tiny", tmp_path)
    assert back == found
    assert frozen.read_frozen("another", tmp_path) is None
    with pytest.raises(ResultError, match="not a file of frozen claims of other/tiny"):
        frozen.read_frozen("other/tiny", tmp_path)
    capsys.readouterr()
    assert command.main(["K1", "K2"]) == 0
    shown = capsys.readouterr().out
    assert "✓ tiny: holds: error 5e-15" in shown
    assert "not computed yet" in shown
    assert command.main(["K1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["found"][0]["words"] == "error 5e-15"
    assert command.main(["Z9"]) == 1


def test_what_is_frozen_can_be_read():
    model, found = frozen.frozen_records(paths.data_folder() / "results" / "claims")
    assert model
    assert len(found) > 100
