"""The list of claims and the page that shows them: tests, records, counts, frozen numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from booksite.executed import registered
from booksite.sources import source_of
from lnattn import paths
from lnattn.attention.forward import attention_pattern
from lnattn.attention.layernorm import standardise
from lnattn.claims import frozen as frozen_claims
from lnattn.claims.ledger import Entry, report
from lnattn.claims.listed import SOURCES, Claim, claims
from lnattn.claims.tally import NOT_ASKED, by_model, tally, two_verdicts
from lnattn.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    Verdict,
)
from lnattn.errors import ResultError

ROOT = paths.repository()

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


@pytest.mark.parametrize("claim", claims().values(), ids=claims())
def test_a_claim_names_a_test_that_exists(claim: Claim):
    found = source_of(claim.test, ROOT)
    assert found.text.count(f"def {claim.test.split('::')[1]}(") == 1
    assert "assert" in found.text or "raises" in found.text


def test_every_source_has_a_name():
    assert {claim.id[0] for claim in claims().values()} == set(SOURCES)


def test_a_test_that_is_missing_is_one_sentence(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(
        "import x\n\n@x.y\n@x.z\ndef test_b():\n    pass\n"
    )
    found = source_of("tests/test_a.py::test_b", tmp_path)
    assert (found.line, found.text) == (5, "@x.y\n@x.z\ndef test_b():\n    pass")
    with pytest.raises(ResultError, match="no such function"):
        source_of("tests/test_a.py::test_c", tmp_path)
    with pytest.raises(ResultError, match="is missing"):
        source_of("tests/test_d.py::test_c", tmp_path)


# --- records of executed notebooks ----------------------------------------------------------------


def entry(claim_id: str, model: str = "m", verdict: str = HOLDS, **more) -> Entry:
    known = {"reproduced": "1", "function": "json.loads", "note": "", "cell": "", "values": {}}
    return Entry(id=claim_id, model=model, verdict=verdict, **(known | more))


def glued(*entries: Entry) -> dict:
    return {
        f"claim:{one.id}:{one.model}:{number}": {"data": {"text/plain": json.dumps(vars(one))}}
        for number, one in enumerate(entries)
    }


def test_records_come_from_the_pages_of_the_book_with_their_page(tmp_path):
    for page, content in {
        "notebooks/b": glued(entry("K2", reproduced="old"), entry("K2", reproduced="new")),
        "notebooks/a": glued(entry("B1"), entry("K2"))
        | {"number": {"data": {"text/plain": "'3'"}}},
        "notebooks/gone": glued(entry("K1")),
    }.items():
        path = tmp_path / f"{page}.glue.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    found = registered(tmp_path, ["notebooks/a", "notebooks/b", "notebooks/silent"])
    assert [(one.id, one.chapter, one.reproduced) for one in found] == [
        ("K2", "notebooks/a", "1"),
        ("K2", "notebooks/b", "new"),
        ("B1", "notebooks/a", "1"),
    ]


@pytest.mark.parametrize(
    "output",
    [{}, {"data": {}}, {"data": {"text/plain": "{"}}, {"data": {"text/plain": '{"id": "K1"}'}}],
)
def test_a_damaged_record_is_one_sentence(tmp_path, output):
    (tmp_path / "a.glue.json").write_text(json.dumps({"claim:K1:m:1": output}))
    with pytest.raises(ResultError, match="ledger record"):
        registered(tmp_path, ["a"])


def test_a_record_reaches_the_output_of_its_cell(monkeypatch, tmp_path):
    """In a notebook, `register` also displays the record under a type that nothing shows."""
    display = pytest.importorskip(
        "IPython.display", reason="IPython is absent: pip install .[book]"
    )
    from lnattn.claims import ledger

    shown = []
    monkeypatch.setattr(display, "display", lambda data, **rest: shown.append((data, rest)))
    monkeypatch.setattr(ledger, "_shell", lambda: type("Shell", (), {"user_ns": {"In": [""] * 8}}))
    monkeypatch.setenv("LNATTN_LEDGER", str(tmp_path))
    ledger.register(Verdict("K1", "m", HOLDS, "3 of 4", rule=""), function="json.loads")
    ((data, rest),) = shown
    ((kind, text),) = data.items()
    assert kind == rest["metadata"]["scrapbook"]["mime_prefix"] + "text/plain"
    assert rest["metadata"]["scrapbook"]["name"].startswith("claim:K1:m:")
    assert Entry(**json.loads(text)) == entry("K1", reproduced="3 of 4", execution=7)


# --- counting ----------------------------------------------------------------------------------


def some(*ids: str) -> list[Claim]:
    return [claims()[claim_id] for claim_id in ids]


def test_each_claim_counts_once_by_its_own_chapter():
    own = f"notebooks/{claims()['K10'].chapter}"
    found = [
        entry("K10", "tiny", FAILS, chapter="notebooks/12-other-models"),
        entry("K10", "tiny", HOLDS_IN_PART, chapter=own),
        entry("K10", "other", HOLDS, chapter=own),
        entry("K14", "gpt2 (frozen)", HOLDS),
        entry("K14", "tiny", NOT_SEEN),
        entry("K15", "tiny", UNDECIDED),
        entry("K15", "gpt2 (frozen)", NOT_COMPUTABLE),
        entry("R5", "gpt2"),
        entry("B1", "no model"),
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
    assert by_model(found)["tiny"][FAILS] == 1


def test_claims_of_the_books_own_are_counted_apart():
    found = [entry("S1", "tiny", NOT_SEEN), entry("S1", "minilm"), entry("B1", "no model")]
    count = tally(some("B1", "S1", "S2"), found, "tiny")
    assert (dict(count.general), dict(count.ours)) == ({HOLDS: 1}, {NOT_SEEN: 1, NOT_ASKED: 1})
    assert count.sentence() == (
        "Of 1 claims, 1 needs no given checkpoint: 1 holds. Of 2 of the book's own, 0 hold, 1 is "
        "not seen there and 1 was not asked."
    )


def test_on_gpt2_itself_there_is_no_stand_in():
    found = [entry("K14", "gpt2", HOLDS), entry("K15", "gpt2", FAILS)]
    count = tally(some("K14", "K15"), found, "gpt2")
    assert count.sentence() == "2 are about GPT-2. Asked of GPT-2 itself, 1 holds and 1 fails."


@pytest.mark.parametrize("first", [True, False])
def test_of_several_settings_the_counted_one_speaks_for_the_claim(first):
    """B4–B6: the arms at equal norms count, not the one whose norm differs too, in any order."""
    both = [entry("B4", "norm 1/√d", HOLDS, counted=False), entry("B4", "norm √d", FAILS)]
    count = tally(some("B4"), both if first else both[::-1], "tiny")
    assert dict(count.general) == {FAILS: 1}


def test_claims_that_need_no_checkpoint_do_whatever_their_record_calls_the_model():
    named = {one.id for one in claims().values() if one.needs_checkpoint}
    assert named == {f"K{n}" for n in range(3, 17)}
    for one in claims().values():
        if one.id not in named:
            count = tally([one], [entry(one.id, "some name of its own")], "tiny")
            assert dict(count.ours if one.is_ours else count.general) == {HOLDS: 1}, one.id


def test_two_verdicts_on_one_claim_and_model_are_found():
    found = [entry("K5", "m", HOLDS), entry("K5", "m", FAILS), entry("K5", "n", FAILS)]
    assert two_verdicts(found) == ["claim K5 has 2 verdicts on m: fails, holds"]
    assert two_verdicts(found[1:]) == []


# --- frozen numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("3 of 12 heads", [(3, 0), (12, 0)]),
        ("error 5e-15 in float64", [(5e-15, 1e-15)]),
        ("−0.571 [−0.587, -0.55]", [(-0.571, 1e-3), (-0.587, 1e-3), (-0.55, 1e-2)]),
        ("1,234 pairs, 71%, 2.0e+03", [(1234, 0), (71, 0), (2000, 100)]),
        ("$T^{ee}$ of W2 and b_1; K3", []),
    ],
)
def test_numbers_are_found_in_a_text(text, numbers):
    found = frozen_claims.numbers_in(text)
    assert [number for number, _ in found] == [number for number, _ in numbers]
    assert [unit for _, unit in found] == pytest.approx([unit for _, unit in numbers], rel=1e-12)


@pytest.mark.parametrize(
    ("before", "now", "tolerance", "same"),
    [
        ("3 of 8 heads", "3 of 8 heads", None, True),
        ("3 of 8 heads", "4 of 8 heads", None, False),
        ("area 0.571", "area 0.572", None, True),
        ("area 0.571", "area 0.573", None, False),
        ("12,345 pairs", "12,350 pairs", None, True),
        ("12,345 pairs", "12,445 pairs", None, False),
        ("error 5e-15", "error 2e-13", None, True),
        ("error 5e-15", "error 2e-12", None, False),
        ("error 5e-15", "error 2e-12", 1e-10, True),
        ("51.0 %", "58.2 %", 10.0, True),
        ("51.0 %", "62.0 %", 10.0, False),
        ("3 heads", "3 heads of 8", None, False),
        ("exact", "exact, we say", None, True),
    ],
)
def test_a_number_may_move_within_its_limits(before, now, tolerance, same):
    known = {"K1": replace(claims()["K1"], tolerance=tolerance)}
    old, new = entry("K1", reproduced=before), entry("K1", reproduced=now)
    frozen = frozen_claims.freeze([old], known)
    said = list(frozen_claims.differences(frozen, [new], [""]))
    assert (not said) is same
    assert list(frozen_claims.differences(frozen, [old], [""])) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"verdict": FAILS}, "the verdict was 'holds', now it is 'fails'"),
        ({"values": {"ratio": 2.0}}, "ratio was 1, now it is 2"),
        ({"values": {"ratio": True}}, "ratio was 1.0, now it is True"),
        ({"values": {}}, "ratio was 1.0, now it is None"),
        ({"values": {"ratio": 1.0, "more": "x"}}, "more was None, now it is 'x'"),
        ({"values": {"ratio": 1.0005}}, None),
    ],
)
def test_verdicts_and_the_numbers_behind_count_too(change, message):
    old = entry("K4", values={"ratio": 1.0})
    frozen = frozen_claims.freeze([old], claims())
    said = list(frozen_claims.differences(frozen, [replace(old, **change)], []))
    assert [text.split("): ")[1] for text in said] == ([message] if message else [])


def test_a_frozen_record_must_come_again_if_its_chapter_is_in_the_build():
    frozen = frozen_claims.freeze([entry("K1", chapter="a"), entry("K2", chapter="b")], claims())
    (said,) = frozen_claims.differences(frozen, [], ["a"])
    assert "K1 on m (a) is frozen, but this build did not register it" in said
    assert frozen_claims.not_frozen(frozen, [entry("K1", chapter="c")])


@given(st.floats(allow_nan=False, allow_infinity=False), st.one_of(st.none(), st.floats(0, 1e6)))
def test_a_number_is_always_within_its_own_limits(number, tolerance):
    low, high = frozen_claims.limits(number, 0.0, tolerance)
    assert low <= number <= high


def test_freezing_writes_what_the_site_shows(tmp_path, capsys):
    assert frozen_claims.main(["--root", str(tmp_path)]) == 1
    assert "make book" in capsys.readouterr().err
    found = [entry("K1", "path/tiny", reproduced="2 of 3", chapter="notebooks/a")]
    site = tmp_path / "_build" / "html" / "claims.json"
    site.parent.mkdir(parents=True)
    site.write_text(json.dumps({"model": "path/tiny", "claims": report(claims().values(), found)}))
    assert frozen_claims.main(["--root", str(tmp_path)]) == 0
    path = frozen_claims.path_of("path/tiny", tmp_path)
    first = path.read_bytes()
    assert frozen_claims.main(["--root", str(tmp_path)]) == 0
    assert path.read_bytes() == first
    frozen = frozen_claims.read_frozen("path/tiny", tmp_path)
    assert not list(frozen_claims.differences(frozen, found, ["notebooks/a"]))
    assert frozen_claims.read_frozen("another", tmp_path) is None
    with pytest.raises(ResultError, match="not a file of frozen claims of other/tiny"):
        frozen_claims.read_frozen("other/tiny", tmp_path)
