"""Claims: their list, rules in general, records, and frozen values."""

from __future__ import annotations

import json
import pkgutil
import re
from dataclasses import asdict, replace

import jsonschema
import numpy as np
import pytest
import yaml
from naming import naming
from trials import RULES, TRIALS

from booksite.executed import registered
from lnattn.errors import ResultError
from lnattn.storage import write_json
from lnattn_book.claims import __main__ as command
from lnattn_book.claims import frozen, kamoda, ledger, rules
from lnattn_book.claims.conditions import (
    Truths,
    above,
    any_of,
    at,
    at_least,
    at_least_n,
    below,
    equal,
    every,
    most,
)
from lnattn_book.claims.found import how_many, in_words
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import KINDS, SOURCES, Claim, claim, claims
from lnattn_book.claims.rules import At, Effect, Rule
from lnattn_book.claims.tally import Caveats, caveats, sentence, tally
from lnattn_book.claims.verdicts import (
    ABSENT,
    DERIVED,
    NOT_ASKED,
    VERDICTS,
    Leaf,
    Record,
    format_measure,
    robustness,
)
from lnattn_book.page import places

ROOT = places.repository()
HOLDS, HOLDS_IN_PART, FAILS, NOT_SEEN, UNDECIDED, NOT_COMPUTABLE = VERDICTS


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
    assert not one.second or function_exists(one.second["test"])
    pkgutil.resolve_name(one.function)
    assert f"{{{one.paper}," in (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    assert one.id[0] in SOURCES
    assert one.kind in KINDS
    assert len(one.line.split()) <= 12
    assert set(re.findall(r"{(\w+)", one.words)) <= set(one.rule)
    assert set(one.rule) <= thresholds_of(one.id) | set(re.findall(r"{(\w+)", one.words))
    for name, values in one.grid.items():
        assert one.rule[name] in values
        assert min(values) < max(values)
    assert "{" not in in_words(one).replace("{QK}", "")


def thresholds_of(claim_id: str) -> set[str]:
    """The names of the thresholds that a rule asks for in its trials."""
    asked = set()
    for trial in TRIALS[claim_id]:
        place = At(claim(claim_id).rule, trial.own)
        rule = RULES[claim_id]
        measures = trial.measures or rule.measure(place, *trial.results, **trial.named)
        rule.judge(measures, place)
        asked |= set(place.asked)
    return asked


def test_the_list_is_as_its_schema_says():
    schema = json.loads((ROOT / "book" / "claims.schema.json").read_text(encoding="utf-8"))
    listed = yaml.safe_load((ROOT / "book" / "claims.yml").read_text(encoding="utf-8"))
    jsonschema.validate(listed, schema)
    assert set(schema["items"]["properties"]) == set(Claim.__dataclass_fields__)
    with pytest.raises(jsonschema.ValidationError, match="treshold"):
        jsonschema.validate([listed[0] | {"treshold": 1}], schema)


TWICE = yaml.safe_dump([asdict(claim("K1"))] * 2)


@pytest.mark.parametrize("text", ["- {id: K1}", "{", TWICE])
def test_a_malformed_list_of_claims_is_one_sentence(tmp_path, text):
    path = tmp_path / "claims.yml"
    path.write_text(text)
    with pytest.raises(ResultError, match="twice" if text is TWICE else "no list"):
        claims(path)


# --- rules --------------------------------------------------------------------------------------


def test_words_and_verdicts_follow_the_thresholds_and_say_how_many_give_the_same(monkeypatch):
    grid = {"spearman": [0.7, 0.75, 0.9, 0.95]}
    rule = {"rising": 0.75, "spearman": 0.75, "named": [1, 7]}
    with_parts(monkeypatch, "K6", rule=rule, grid=grid)
    for value, verdict, stands in ((0.99, HOLDS, 4), (0.8, HOLDS, 2), (0.72, NOT_SEEN, 3)):
        curves = np.array([value] * 2)
        found = kamoda.k6(curves, [curves] * 3, model="tiny")
        assert "exceeds 0.75 (4) in these heads" in found.rule
        assert (found.verdict, found.stands) == (verdict, (stands, 4))


def test_what_is_measured_with_another_threshold_is_measured_anew(monkeypatch):
    """`near` bounds what is counted, `least` what the count must reach: 3 × 2 combinations."""
    near_one: list[float] = []

    def measure(at, values):
        near_one.append(at.near)
        return {"found": int((abs(values - 1) < at.near).sum())}

    rule = Rule("K6", lambda m, at: at_least(m.found, at.least), measure)
    grid = {"near": [0.1, 0.3, 0.5], "least": [1, 3]}
    parts = {"grid": grid, "words": "-", "texts": {"found": "{found}"}}
    with_parts(monkeypatch, "K6", rule={"near": 0.3, "least": 2}, **parts)
    found = rule(np.array([1.0, 1.2, 1.4, 5.0]), model="tiny")
    # 1, 2 and 3 of the values are near: at least one always, at least three only once.
    assert (found.verdict, found.stands) == (HOLDS, (4, 6))
    assert sorted(near_one) == [0.1, 0.3, 0.5], "not again for the same"


Z = np.array([3.0, np.nan, 1.0])
OPEN = Interval([3, 1], [1, -1], [5, 3.0])
CONDITIONS = [
    pytest.param(every(above(Z, 2)), 0, id="every"),
    pytest.param(any_of(above(Z, 2)), 1, id="any"),
    pytest.param(at([0], above(Z, 2) & equal(4, 4)), 1, id="and"),
    pytest.param(at([0, 2], above(Z, 2)), 0, id="at two places"),
    pytest.param(at([1], above(Z, 2)), np.nan, id="not asked"),
    pytest.param(most(above(Z, 2)), 0, id="one half is not most"),
    pytest.param(most(above([3, 3, 1], 2)), 1, id="two of three are most"),
    pytest.param(at_least_n(1, above(Z, 2)), 1, id="one"),
    pytest.param(at_least_n(3, above(Z, 0)), 0, id="three of two"),
    pytest.param(any_of(above(Z, 4)), 0, id="none"),
    # An interval that holds the limit leaves it open, where that decides.
    pytest.param(any_of(above(OPEN, 0)), 1, id="any of one open"),
    pytest.param(every(above(OPEN, 0)), 0.5, id="every of one open"),
    pytest.param(any_of(above(OPEN, 4)), 0.5, id="any of open ones"),
    pytest.param(every(above(OPEN, 0) & below(4, 3)), 0, id="open and false"),
    pytest.param(at_least_n(2, above(OPEN, -2)), 1, id="two"),
    pytest.param(every(above(2.0, Interval(1, 0, 9))), 1, id="a measure as limit"),
]


@pytest.mark.parametrize(("condition", "known"), CONDITIONS)
def test_conditions(condition, known):
    np.testing.assert_equal(condition.truth, known)


def test_an_effect_is_of_the_head_that_is_picked():
    measures = {"z": Interval.rows([[1, 0, 2], [5, 4, 6], [3, 2, 4]]), "chance": 7}
    largest = Effect("z", "σ", null="chance", pick="largest").fields(measures)
    shown = largest["estimate"], largest["interval"], largest["null"], largest["n"]
    assert shown == (5, (4, 6), 7, 3)
    assert Effect("z", pick="least").fields(measures)["estimate"] == 1
    assert Effect("z").fields(measures)["estimate"] == 3
    assert Effect("z").fields(measures)["interval"] is None


def test_four_fifths_of_the_thresholds_are_not_fragile():
    assert not robustness(Record(HOLDS, "w", stands=(4, 5))).endswith("fragile")
    assert robustness(Record(HOLDS, "w", stands=(3, 4))).endswith("(75%): fragile")


def test_intervals_of_a_family_are_wider_and_of_one_are_its_own():
    one, four = (Interval.rows([[1.0, 0.0, 2.0]] * n).bonferroni() for n in (1, 4))
    assert (one.low, one.high) == (pytest.approx([0]), pytest.approx([2]))
    assert four.low == pytest.approx([1 - 2.4977 / 1.96] * 4, abs=1e-3)


def test_a_measure_has_its_ends_where_it_has_any():
    assert format_measure(0.5) == "0.5"
    assert format_measure(Interval(0.5, 0.5, 0.5), ".2f") == "0.50"
    assert format_measure(Interval(0.5, 0.25, 1.0), ".2f") == "0.50 [0.25, 1.00]"
    assert format_measure(np.array([2.0, np.nan, -1.0]), ".1f") == "-1.0 to 2.0"
    assert format_measure(np.array([np.nan])) == "none"
    assert (format_measure(True), format_measure(np.bool_(False))) == ("yes", "no")


@pytest.mark.parametrize(
    ("truths", "words"),
    [
        ([1.0, 1.0], "2 of 2 heads (0 and 1)"),
        ([1.0, 1.0, 1.0], "3 of 3 heads"),
        ([0.0, 1.0, 1.0], "2 of 3 heads (1 and 2)"),
        ([0.0, np.nan, 0.0], "0 of 2 heads"),
        ([0.5, 1.0], "1 for sure, at most 2 of 2 heads (1)"),
        ([1.0], "yes"),
        ([np.nan, 0.5], "open"),
        ([np.nan], "not asked"),
        ([1.0] * 8 + [0.0] * 3, "8 of 11 heads (0, 1, 2, 3, 4, 5, 6 and 7)"),
        ([1.0] * 9 + [0.0] * 3, "9 of 12 heads"),
    ],
)
def test_few_heads_are_named(truths, words):
    assert how_many(every(Truths(np.array(truths))), "heads") == words


def test_absence_is_evidence_on_the_claims_own_model_only():
    flat = np.zeros(8)
    for own, other in (("gpt2", "gpt2-medium"), ("openai-community/gpt2 (frozen)", "book-gpt2")):
        assert kamoda.k6(flat, [flat] * 3, model=own).verdict == FAILS
        assert kamoda.k6(flat, [flat] * 3, model=other).verdict == NOT_SEEN


def test_what_is_undecided_says_what_would_decide(monkeypatch):
    open_, texts = np.array([[0.95, 0.95], [0.95, 0.5]]), claim("K6").texts
    assert "the token embeddings" in kamoda.k6(open_, [open_] * 3, model="tiny").note
    with_parts(monkeypatch, "K6", texts={**texts, "unsure": ""})
    with pytest.raises(ResultError, match=naming("K6", "undecided")):
        kamoda.k6(open_, [open_] * 3, model="tiny")


def test_a_compound_claim_has_the_sum_of_its_leaves():
    for *leaves, verdict in (
        (HOLDS, HOLDS, NOT_COMPUTABLE, HOLDS),
        (HOLDS, NOT_SEEN, UNDECIDED, HOLDS_IN_PART),
        (FAILS, UNDECIDED, UNDECIDED),
        (FAILS, NOT_SEEN, FAILS),
        (NOT_COMPUTABLE, NOT_COMPUTABLE),
    ):
        found = Record.of([Leaf(f"{n}", one, "w") for n, one in enumerate(leaves)])
        assert (found.verdict, found.words[:4]) == (verdict, "0: w")


def test_a_changed_rule_gives_both_verdicts():
    found = kamoda.k6(np.array([0.95, 0.1]), [np.array([0.95, 0.1])] * 3, model="book-gpt2")
    assert found.verdict == found.before == HOLDS_IN_PART
    assert "rule changed after the numbers on 28 Nov 2026" in found.note
    assert "by the rule before it: holds in part" in found.note


# --- records ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _empty_ledger(monkeypatch):
    monkeypatch.setattr(ledger, "_registered", {})


def record(claim_id: str = "K1", model: str = "m", verdict: str = HOLDS, **more) -> Record:
    given = {"words": "1", "claim": claim_id, "model": model} | more
    return Record(verdict, **given)


def test_the_last_verdict_of_each_model_is_in_the_table_as_text():
    for verdict in (FAILS, HOLDS):
        ledger.register(record(verdict=verdict, model="<i> | model"))
    ledger.register(record(verdict=FAILS, model="zebra"))
    rows = ledger.table(["K1", "K2"]).data.splitlines()
    assert len(rows) == 5
    assert rows[2].startswith("| {claim}`K1` ")
    assert rows[2].endswith("| &lt;i&gt; \\| model | ✓ holds |")
    assert rows[3] == "|  | zebra | ✗ fails |", "the claim is said once"
    assert rows[4].startswith("| {claim}`K2` ")
    assert rows[4].endswith("|  | not computed in this build |")


def test_a_record_without_model_or_words_is_refused():
    for given in ({"model": " "}, {"words": ""}):
        with pytest.raises(ResultError, match=naming("K1", "words", "model")):
            ledger.register(record(**given))


def test_a_record_goes_through_the_output_of_its_cell_to_the_page(tmp_path, monkeypatch):
    """In a notebook, `register` also displays the record under a type that nothing shows."""
    glued = {}

    def display(data, metadata, raw):
        about = metadata["scrapbook"]
        glued[about["name"]] = {"data": {"text/plain": data[about["mime_prefix"] + "text/plain"]}}

    shell = type("Shell", (), {"user_ns": {"In": [""] * 8}})
    monkeypatch.setattr(ledger, "display", display)
    monkeypatch.setattr(ledger, "get_ipython", lambda: shell)
    leaf = Leaf("first", HOLDS, "w")
    ledger.register(record("K2", words="old"))
    given = ledger.register(
        record("K2", words="new", leaves=(leaf,), stands=(3, 4)), function=json.loads
    )
    assert (given.execution, given.function) == (7, "json.loads")
    glued["number"] = {"data": {"text/plain": "'3'"}}
    (tmp_path / "b.glue.json").write_text(json.dumps(glued))
    assert registered(tmp_path, ["b", "silent"]) == [replace(given, chapter="b")]


@pytest.mark.parametrize("output", [{}, {"data": {"text/plain": '{"claim": "K1"}'}}])
def test_a_damaged_record_is_one_sentence(tmp_path, output):
    (tmp_path / "a.glue.json").write_text(json.dumps({"claim:K1:m:1": output}))
    with pytest.raises(ResultError, match="ledger record"):
        registered(tmp_path, ["a"])


# --- counting and freezing ----------------------------------------------------------------------


def test_each_claim_counts_once_and_derivations_apart():
    found = [
        *(record("K14", "tiny", NOT_SEEN), record("K14", "gpt2 (frozen)"), record("B1", "none")),
        record("K10", "gpt2", FAILS, chapter="book/claims"),
        record("K10", "gpt2", HOLDS_IN_PART, chapter=f"notebooks/{claims()['K10'].chapter}"),
        *(record("K15", "tiny", UNDECIDED), record("B2", "none", FAILS)),
        *(record("B4", "b", FAILS, counted=False), record("B4", "a")),
    ]
    asked = [claim(name) for name in ("K10", "K14", "K15", "B1", "B2", "B4", "M3")]
    counts = tally(asked, found, "tiny")
    some = {letter: {what: n for what, n in row.items() if n} for letter, row in counts.items()}
    assert some == {
        **{"K": {HOLDS_IN_PART: 1, HOLDS: 1, ABSENT: 1}, "M": {DERIVED: 1}},
        "B": {HOLDS: 1, DERIVED: 2},
    }
    assert sentence(counts).endswith("2 ✓ holds, 1 ◐ holds in part, 1 – needs its checkpoint.")


def test_a_derivation_counts_as_one_without_its_checkpoint_too():
    (about,) = (one for one in claims().values() if one.id == "K18")
    assert about.needs_checkpoint
    assert not about.could_fail
    assert {what for what, n in tally([about], [], "tiny")["K"].items() if n} == {DERIVED}


def test_a_verdict_that_counts_is_fragile_below_four_fifths_of_its_thresholds():
    asked = [claim("K14"), claim("B4")]
    weak = record("K14", "gpt2", stands=(3, 4))
    elsewhere = record("K14", "tiny", stands=(1, 4))
    firm = record("B4", "a", stands=(4, 5))
    assert caveats(asked, [elsewhere, weak, firm], "tiny").fragile == ["K14"]
    assert caveats(asked, [elsewhere, firm], "tiny").fragile == []


def test_caveats_are_of_what_could_fail_and_of_the_records_that_count():
    """B1 is a derivation, B13 a question; K14's record is of a model that it is not about."""
    asked = [claim(name) for name in ("B1", "B13", "B15", "B4", "K14")]
    records = [
        record("B1", "no model", stands=(1, 4)),
        record("B13", "a", null_model="no null: interval only", stands=(1, 4)),
        record("B15", "a", null_model="no null: interval only"),
        record("B4", "a", null_model="the two arms exchanged", stands=(1, 4)),
        record("K14", "tiny", null_model="no null: interval only"),
    ]
    found = caveats(asked, records, "tiny")
    changed = [name for name in ("B15", "B4", "K14") if claim(name).changed]
    assert found == Caveats(["B15", "B4", "K14"], ["B15"], ["B4"], changed)
    assert found.sentence == (
        "Of 3 that could fail, 1 (B15) has no null model but an interval only; the verdicts of "
        f"1 (B4) are fragile; the rules of {len(changed)} were changed after the numbers."
    )


def test_every_count_of_what_could_fail_is_the_one_of_the_tally():
    of_papers = [one for one in claims().values() if one.id[0] in "KB" and one.kind != "question"]
    said = sentence(tally(of_papers, [], "tiny"))
    could_fail = len(caveats(of_papers, [], "tiny").could_fail)
    derived = sum(one.kind == "derivation" for one in of_papers)
    assert f"Of the {len(of_papers)} claims of the two papers {derived} are identities" in said
    assert f"of the {could_fail} that could fail" in said
    assert could_fail + derived == len(of_papers)


def test_what_has_no_answer_is_counted_under_one_sign_with_its_causes():
    both = {"K": {HOLDS: 3, NOT_COMPUTABLE: 4, ABSENT: 7}, "B": {ABSENT: 1, NOT_ASKED: 2}}
    said = "could fail: 3 ✓ holds, 12 – (4 not computable, 8 needs its checkpoint), 2 · not asked."
    assert sentence(both).endswith(said)


@pytest.mark.parametrize(
    ("was", "now", "tolerance", "same"),
    [
        (3, 4, None, False), (0.5, 0.5004, None, True), (0.5, 0.501, None, False),
        (0.5, 0.501, 0.01, True), (5e-15, 3e-13, None, True), (5e-15, 6e-13, None, False),
        (0, 1e-9, None, False), ("a", "b", None, False), (True, False, None, False),
        (0.5, None, None, False),
    ],
)  # fmt: skip
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
    failed = record("K1", "m", FAILS, chapter="x")
    (said,) = frozen.differences(was[:1], [failed], ["x"])
    assert "verdict was 'holds', now it is 'fails'" in said
    (said,) = frozen.two_verdicts([*was, failed])
    assert said == "claim K1 has two verdicts on m: holds, fails"


def test_a_build_is_frozen_printed_and_read_again(tmp_path, monkeypatch, capsys):
    found = [record("K1", "tiny", words="error 5e-15", values={"error": 5e-15}, chapter="x")]
    html = tmp_path / "_build" / "html"
    data = {"model": "path/tiny", "claims": [{"found": [asdict(one) for one in found]}]}
    write_json(html / "claims.json", data)
    monkeypatch.setattr(command, "repository", lambda: tmp_path)
    assert command.main(["--freeze"]) == 0
    folder = tmp_path / places.FROZEN_CLAIMS
    assert frozen.frozen_records(folder, "path/tiny") == ("path/tiny", found)
    assert frozen.frozen_records(folder, "another") == ("", [])
    for _ in ("as it was built", "as it was frozen"):
        capsys.readouterr()
        assert command.main(["K1", "K2"]) == 0
        shown = capsys.readouterr().out
        assert "✓ K1 holds (tiny): error 5e-15" in shown
        assert "not computed yet" in shown
        (html / "claims.json").unlink(missing_ok=True)
    assert command.main(["Z9"]) == 1


def test_a_record_keeps_its_kind_its_cell_and_both_notes():
    found = kamoda.k6(np.array([0.95, 0.1]), [np.array([0.95, 0.1])] * 3, model="tiny")
    assert (found.claim, found.model, found.kind) == ("K6", "tiny", claim("K6").kind)
    kept = ledger.register(record(note="of the rule"), cell="fig-x", note="of the chapter")
    assert (kept.cell, kept.note) == ("fig-x", "of the rule; of the chapter")
    assert (kept.function, kept.counted) == (claim("K1").function, True)
    assert ledger.register(record(), counted=False).note == ""
    assert not ledger.register(record(), counted=False).counted
