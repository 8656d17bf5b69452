"""Claims: their list, rules in general, records, counts, and frozen values."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
import yaml

import lnattn_book.claims
from booksite.executed import registered
from lnattn import paths
from lnattn.errors import ResultError
from lnattn_book.claims import __main__ as command
from lnattn_book.claims import frozen, kamoda, ledger, rules
from lnattn_book.claims.listed import KINDS, SOURCES, Claim, claim, claims
from lnattn_book.claims.rules import RULES, truth
from lnattn_book.claims.tally import sentence, tally
from lnattn_book.claims.verdicts import (
    DERIVED,
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_ASKED,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    Between,
    Leaf,
    Record,
    effect,
    listed_words,
    robustness,
    size,
    total,
    with_minus,
)

ROOT = paths.repository()
#: Importing them enters their rules.
MODULES = [
    importlib.import_module(f"lnattn_book.claims.{one.name}")
    for one in pkgutil.iter_modules(lnattn_book.claims.__path__)
    if one.name != "__main__"
]


def with_parts(monkeypatch, claim_id: str, **parts) -> None:
    known = dict(claims())
    known[claim_id] = replace(known[claim_id], **parts)
    monkeypatch.setattr(rules, "claim", known.__getitem__)


# --- the list -----------------------------------------------------------------------------------


def function_exists(test: str) -> bool:
    file, _, function = test.partition("::")
    return (ROOT / file).read_text(encoding="utf-8").count(f"def {function}(") == 1


@pytest.mark.parametrize("one", claims().values(), ids=claims())
def test_what_a_claim_names_exists_and_its_numbers_are_stated(one: Claim):
    """A parameter that no reader sees would be a hidden threshold."""
    assert function_exists(one.test)
    assert not one.second or (
        set(one.second) == {"by", "test"} and function_exists(one.second["test"])
    )
    pkgutil.resolve_name(one.function)
    assert f"{{{one.paper}," in (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    assert one.id[0] in SOURCES
    assert one.kind in KINDS
    assert len(one.line.split()) <= 12
    assert one.tolerance is None or one.tolerance >= 0
    assert {"date", "why"} <= set(one.changed) or not one.changed
    said = set(re.findall(r"{(\w+)", one.words))
    used = set(re.findall(r"case\.(\w+)", "".join(map(inspect.getsource, MODULES))))
    judged = set(re.findall(r"{(\w+)}", str(one.judged.get("leaves", one.judged.get("holds")))))
    assert said | judged <= set(one.rule) <= used | said | judged
    assert ("holds" in one.judged) != ("leaves" in one.judged)
    for name, values in one.grid.items():
        assert one.rule[name] in values
        assert min(values) < max(values)
    words = RULES[one.id].in_words()
    assert words[0].isupper()
    assert words.endswith(".")
    assert "{" not in words.replace("{QK}", "")


TWICE = yaml.safe_dump([asdict(claim("K1"))] * 2)


@pytest.mark.parametrize("text", ["- {id: K1}", "{", "3", TWICE])
def test_a_malformed_list_of_claims_is_one_sentence(tmp_path, text):
    path = tmp_path / "claims.yml"
    path.write_text(text)
    with pytest.raises(ResultError, match="lists a claim twice" if text is TWICE else "no list"):
        claims(path)


# --- rules --------------------------------------------------------------------------------------


def test_words_follow_the_parameters(monkeypatch):
    assert "exceeds 0.9 (1) in the heads" in RULES["K6"].in_words()
    with_parts(monkeypatch, "K6", rule={"spearman": 0.75, "named": [1, 7]}, grid={})
    assert "exceeds 0.75 (1) in the heads" in RULES["K6"].in_words()
    assert kamoda.k6(np.array([0.8, 0.8]), model="tiny").verdict == HOLDS


def test_a_verdict_says_with_how_many_other_thresholds_it_stands(monkeypatch):
    with_parts(monkeypatch, "K6", grid={"spearman": [0.7, 0.8, 0.9, 0.95]})
    for values, stands, fragile in (([0.99, 0.99], 4, False), ([0.92, 0.92], 3, True)):
        found = kamoda.k6(np.array(values), model="tiny")
        assert (found.verdict, found.stands) == (HOLDS, (stands, 4))
        assert ("fragile" in robustness(found)) is fragile
    assert "3 of 4 choices of thresholds (75%): fragile" in robustness(found)
    with_parts(monkeypatch, "K6", grid={})
    assert robustness(kamoda.k6(np.array([0.9]), model="tiny")) == ""


HEADS = {"z": np.array([3.0, np.nan, 1.0]), "open": Between([3, 1], [1, -1], [5, 3.0]), "n": 4}


@pytest.mark.parametrize(
    ("condition", "known"),
    [
        ("z > 2", 0),
        ("any z > 2", 1),
        ("at [0] z > 2 and n == 4", 1),
        ("at [0, 2] z > 2", 0),
        ("at [1] z > 2", np.nan),
        ("most z > 2", 0),
        ("1 of z > 2", 1),
        ("3 of z > 0", 0),
        ("any z > n", 0),
        # An interval that holds the limit leaves it open, where that decides.
        ("any open > 0", 1),
        ("all open > 0", 0.5),
        ("all open > 0 and n < 3", 0),
        ("2 of open > -2", 1),
        ("any open > 4", 0.5),
    ],
)
def test_conditions(condition, known):
    np.testing.assert_equal(truth(condition, HEADS), known)


def test_a_condition_that_nothing_measures_is_refused():
    with pytest.raises(ResultError, match="asks for y, which is not measured"):
        truth("y > 2", HEADS)


def test_intervals_of_a_family_are_wider_and_of_one_are_its_own():
    one, four = (Between.rows([[1.0, 0.0, 2.0]] * n).family() for n in (1, 4))
    assert (one.low, one.high) == (pytest.approx([0]), pytest.approx([2]))
    assert four.low == pytest.approx([1 - 2.4977 / 1.96] * 4, abs=1e-3)


def test_an_effect_is_said_with_its_interval_chance_and_number():
    one = Record(HOLDS, "w", **size((-0.5, -0.75, -0.25), "ρ", null=0, n=1234))
    assert effect(one) == "−0.5 ρ [−0.75, −0.25], chance 0, n = 1,234"
    assert effect(Record(HOLDS, "w", **size(np.array([1.0, 0.5, np.inf])))) == "1"
    assert effect(Record(HOLDS, "w", **size(np.inf))) == effect(Record(HOLDS, "w")) == ""


def test_absence_is_evidence_on_the_claims_own_model_only():
    flat = np.zeros(8)
    for name in ("gpt2", "gpt2 (frozen)", "openai-community/gpt2"):
        assert kamoda.k6(flat, model=name).verdict == FAILS
    for name in ("gpt2-medium", "distilgpt2", "book-gpt2"):
        assert kamoda.k6(flat, model=name).verdict == NOT_SEEN


def test_what_is_undecided_says_what_would_decide(monkeypatch):
    open_, judged = np.array([[0.95, 0.95], [0.95, 0.5]]), claim("K6").judged
    assert "the token embeddings" in kamoda.k6(open_, model="tiny").note
    with_parts(monkeypatch, "K6", judged={**judged, "unsure": ""})
    with pytest.raises(ResultError, match="must say what would decide"):
        kamoda.k6(open_, model="tiny")


@pytest.mark.parametrize(
    ("leaves", "verdict"),
    [
        ([HOLDS, HOLDS, NOT_COMPUTABLE], HOLDS),
        ([HOLDS, FAILS], HOLDS_IN_PART),
        ([HOLDS, NOT_SEEN, UNDECIDED], HOLDS_IN_PART),
        ([HOLDS, UNDECIDED], UNDECIDED),
        ([FAILS, UNDECIDED], UNDECIDED),
        ([FAILS, NOT_SEEN], FAILS),
        ([NOT_SEEN, NOT_SEEN], NOT_SEEN),
        ([NOT_COMPUTABLE], NOT_COMPUTABLE),
    ],
)
def test_a_compound_claim_has_the_sum_of_its_leaves(leaves, verdict):
    found = Record.of([Leaf(f"{n}", one, "w") for n, one in enumerate(leaves)])
    assert (found.verdict, found.words[:4]) == (verdict, "0: w")
    assert total(found.leaves) == verdict


def test_a_changed_rule_gives_both_verdicts():
    found = kamoda.k6(np.array([0.95, 0.1]), model="book-gpt2")
    assert found.verdict == found.before == HOLDS_IN_PART
    assert "rule changed after the numbers on 24 Nov 2026" in found.note
    assert "by the rule before it: holds in part" in found.note


def test_words():
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


def test_the_last_record_of_a_model_is_in_the_table_as_text():
    for words in ("0.2", "0.25"):
        ledger.register(record(words=words, model="<i> | model"), note="float64 | exact")
    shown = ledger.table(["K1", "K2"])._repr_markdown_()
    assert "| 0.25<br>*&lt;i&gt; \\| model* | ✓ holds: float64 \\| exact |" in shown
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert "not registered" in rows[-1]


def test_a_record_without_model_or_words_is_refused():
    for given in ({"model": " "}, {"words": ""}):
        with pytest.raises(ResultError, match="needs words and a model"):
            ledger.register(record(**given))


def test_records_come_from_the_pages_of_the_book_with_their_page(tmp_path):
    old, new = record("K2", words="old"), record("K2", words="new")
    for page, content in {"b": [old, new], "a": [record("B1")], "gone": [record("K1")]}.items():
        glued = {
            f"claim:{n}": {"data": {"text/plain": json.dumps(asdict(one))}}
            for n, one in enumerate(content)
        }
        number = {"number": {"data": {"text/plain": "'3'"}}}
        (tmp_path / f"{page}.glue.json").write_text(json.dumps(glued | number))
    found = registered(tmp_path, ["a", "b", "silent"])
    assert [(x.claim, x.chapter, x.words) for x in found] == [("K2", "b", "new"), ("B1", "a", "1")]


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
    leaf = Leaf("first", HOLDS, "w")
    given = ledger.register(record(leaves=(leaf,), stands=(3, 4)), function=json.loads)
    ((data, rest),) = shown
    ((kind, text),) = data.items()
    assert kind == rest["metadata"]["scrapbook"]["mime_prefix"] + "text/plain"
    assert rest["metadata"]["scrapbook"]["name"].startswith("claim:K1:m:")
    assert ledger.as_record(json.loads(text), "here") == given
    assert (given.execution, given.function) == (7, "json.loads")


# --- counting and freezing ----------------------------------------------------------------------


def test_each_claim_counts_once_and_derivations_apart():
    own = f"notebooks/{claims()['K10'].chapter}"
    found = [
        record("K14", "tiny", NOT_SEEN),
        record("K14", "gpt2 (frozen)", HOLDS),
        record("K10", "gpt2", FAILS, chapter="notebooks/12-other-models"),
        record("K10", "gpt2", HOLDS_IN_PART, chapter=own),
        record("K15", "tiny", UNDECIDED),
        record("B4", "b", FAILS, counted=False),
        record("B4", "a"),
        record("B1", "no model"),
        record("B2", "no model", FAILS),
    ]
    asked = [claim(name) for name in ("K10", "K14", "K15", "B1", "B2", "B4", "M3")]
    counts = tally(asked, found, "tiny")
    some = {letter: {what: n for what, n in row.items() if n} for letter, row in counts.items()}
    assert some["K"] == {HOLDS_IN_PART: 1, HOLDS: 1, NOT_ASKED: 1}
    assert some["B"] == {HOLDS: 1, FAILS: 1, DERIVED: 1}
    assert some["M"] == {NOT_ASKED: 1}
    assert sentence(counts) == (
        "Of the 6 claims of the two papers 1 are identities or arithmetic, which only a mistake "
        "could break; of the 5 that could fail, 2 hold, 1 holds in part, 1 fails and 1 was not "
        "asked."
    )


@pytest.mark.parametrize(
    ("was", "now", "tolerance", "same"),
    [
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
    failed = [record("K1", "m", FAILS, chapter="x")]
    assert list(frozen.two_verdicts([*was, *failed])) == [
        "claim K1 has two verdicts on m: holds, fails"
    ]
    (said,) = frozen.differences(was[:1], failed, ["x"])
    assert "verdict was 'holds', now it is 'fails'" in said
    assert not list(frozen.differences(was[1:], [], ["y"]))


def test_a_build_is_frozen_printed_and_read_again(tmp_path, monkeypatch, capsys):
    found = [record("K1", "tiny", words="error 5e-15", values={"error": 5e-15}, chapter="x")]
    html = tmp_path / "_build" / "html"
    html.mkdir(parents=True)
    data = {"model": "path/tiny", "claims": ledger.report(claims().values(), found)}
    (html / "claims.json").write_text(json.dumps(data))
    monkeypatch.setattr(command, "repository", lambda: tmp_path)
    assert command.main(["--freeze"]) == 0
    folder = tmp_path / "data" / "results" / "claims"
    assert frozen.frozen_records(folder, "path/tiny") == ("path/tiny", found)
    assert frozen.frozen_records(folder, "another") == ("", [])
    capsys.readouterr()
    assert command.main(["K1", "K2"]) == 0
    shown = capsys.readouterr().out
    assert "✓ tiny: holds: error 5e-15" in shown
    assert "not computed yet" in shown
    assert command.main(["K1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["found"][0]["words"] == "error 5e-15"
    assert command.main(["Z9"]) == 1


def test_what_is_frozen_can_be_read():
    model, found = frozen.frozen_records(ROOT / paths.FROZEN_CLAIMS)
    assert model
    assert len(found) > 100
