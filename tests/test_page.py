"""The book's helpers: figure style, page banner, glued numbers, claims ledger."""

from __future__ import annotations

import json
import pkgutil
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
import torch
import yaml
from matplotlib.figure import Figure

from lnattn import paths
from lnattn.book import page, style
from lnattn.claims import ledger
from lnattn.claims.verdicts import Verdict
from lnattn.errors import ResultError

# --- style ------------------------------------------------------------------------------------


def luminance(rgb):
    """Relative luminance (WCAG) of an sRGB colour."""
    rgb = np.asarray(rgb, dtype=float)[..., :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def test_figures_have_an_opaque_white_ground():
    with mpl.rc_context():
        style.use_style()
        figure = Figure()
        assert mpl.colors.to_rgba(figure.get_facecolor()) == (1, 1, 1, 1)
        assert mpl.colors.to_rgba(mpl.rcParams["savefig.facecolor"]) == (1, 1, 1, 1)
        assert not mpl.rcParams["savefig.transparent"]


def test_text_is_legible_on_a_phone():
    """At 330 px wide, the smallest text of a figure is at least 7.5 px high."""
    pixels_per_inch = 330 / style.WIDTH
    assert style.SMALL / 72 * pixels_per_inch >= 7.5


def test_the_sequential_map_grows_lighter_all_the_way():
    levels = luminance(mpl.colormaps[style.SEQUENTIAL](np.linspace(0, 1, 64)))
    assert (np.diff(levels) > 0).all()


def test_the_diverging_map_is_white_in_the_middle_and_darker_to_both_ends():
    levels = luminance(mpl.colormaps[style.DIVERGING](np.linspace(0, 1, 65)))
    assert levels[32] > 0.99
    assert (np.diff(levels[:33]) > 0).all()
    assert (np.diff(levels[32:]) < 0).all()


# --- page -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (0.12345, ".2f", "0.12"),
        (np.float64(0.5), "", "0.5"),
        (np.float32(2.0), ".1e", "2.0e+00"),
        (np.int64(7), "", "7"),
        (torch.tensor(3.25), ".2f", "3.25"),
        (torch.tensor([3.25]), ".2f", "3.25"),
        (np.array([[4]]), "d", "4"),
        ("head 7", "", "head 7"),
        (12345, ",", "12,345"),
        (True, "", "True"),
    ],
)
def test_numbers_become_plain_text(value, spec, text):
    assert page.formatted(value, spec) == text


@pytest.mark.parametrize(
    "value",
    [float("nan"), np.float64("inf"), np.zeros(2), torch.zeros(3), None, [1.0], np.zeros(0)],
)
def test_what_prose_cannot_say_is_refused(value):
    with pytest.raises(ResultError, match="my number"):
        page.formatted(value, "", "my number")


def test_a_wrong_format_is_refused():
    with pytest.raises(ResultError, match="cannot be formatted"):
        page.formatted("text", ".2f")


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (np.float64(0.987), ".0%", "99%"),
        (0.5, ".2f", "0.50"),
        (8192, ",", "8,192"),
        ("'iens'", "", "'iens'"),
        (1e-12, ".0e", "1e-12"),
    ],
)
def test_glued_text_arrives_in_the_prose_unchanged(monkeypatch, value, spec, text):
    """The role evaluates what was glued as a Python literal; the text must survive that."""
    myst_nb = pytest.importorskip("myst_nb", reason="MyST-NB is absent: pip install .[book]")
    from myst_nb.core.variables import format_plain_text

    kept = {}
    monkeypatch.setattr(
        myst_nb, "glue", lambda name, value, display: kept.update({name: (value, display)})
    )
    assert page.glue("name", value, spec) == text
    glued, shown = kept["name"]
    assert format_plain_text(repr(glued), "s") == text
    assert shown is False


def test_the_banner_names_model_reason_weights_versions_and_date(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    layer = SimpleNamespace(
        provenance={"name": "<tiny>", "why": "a test", "weights_sha256": "0123456789abcdef"}
    )
    banner = page.describe(layer)
    assert "1970-01-01" in str(banner)
    assert "torch " + torch.__version__ in str(banner)
    assert "sha256 0123456789ab…" in str(banner)
    assert "a test" in str(banner)
    assert "&lt;tiny&gt;" in banner._repr_html_()
    assert "<tiny>" not in banner._repr_html_()


def test_the_banner_says_who_chose_the_model(monkeypatch):
    monkeypatch.setenv("LNATTN_MODEL", "gpt2")
    assert page.describe("gpt2").why == "chosen by LNATTN_MODEL"
    assert page.describe("book-gpt2").why == "named by this chapter"
    assert page.describe("gpt2", why="because").why == "because"
    assert page.describe().model == "none"


# --- ledger -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LNATTN_LEDGER", str(tmp_path))
    return tmp_path


def test_the_claims_are_complete():
    known = ledger.claims()
    assert {f"K{n}" for n in range(1, 16)} <= set(known)
    assert {f"B{n}" for n in range(1, 12)} <= set(known)
    assert {"R1", "M1"} <= set(known)


def test_every_claim_names_something_that_can_be_imported():
    for claim in ledger.claims().values():
        pkgutil.resolve_name(claim.function)


def test_every_claim_cites_a_source_of_the_bibliography():
    bibliography = paths.repository() / "book" / "references.bib"
    text = bibliography.read_text(encoding="utf-8")
    for key in {claim.paper for claim in ledger.claims().values()}:
        assert f"{{{key}," in text


def found(claim_id: str = "K1", model: str = "m", words: str = "one", **more) -> Verdict:
    return Verdict(claim_id, model, words=words, **({"verdict": "holds", "rule": ""} | more))


def test_a_registered_claim_appears_in_its_table(folder):
    ledger.register(
        found(model="tiny | model", words="0.25", values={"difference": 0.25}),
        note="float64 | exact",
    )
    (entry,) = ledger.entries()
    assert (entry.id, entry.reproduced, entry.verdict) == ("K1", "0.25", "holds")
    assert entry.values == {"difference": 0.25}
    assert entry.function == ledger.claim("K1").function
    shown = ledger.table(["K1", "K2"])._repr_markdown_()
    assert "✓ holds: float64 \\| exact" in shown
    assert "0.25<br>*tiny \\| model*" in shown
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert "not registered" in rows[-1]
    assert {line.count("|") - line.count("\\|") for line in rows} == {5}


def test_registering_again_replaces_and_another_model_adds(folder):
    for model, words in [("a", "1"), ("a", "2"), ("b", "3")]:
        ledger.register(found("B1", model, words))
    assert [(e.model, e.reproduced) for e in ledger.entries()] == [("a", "2"), ("b", "3")]


def test_the_same_run_writes_the_same_bytes(folder):
    written = []
    for _ in range(2):
        ledger.register(found("B2", words="two points"))
        (path,) = folder.glob("*.json")
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_entries_follow_the_order_of_the_claims(folder):
    for claim_id in ("M1", "B1", "K10", "K2"):
        ledger.register(found(claim_id), function=np.linalg.norm)
    assert [entry.id for entry in ledger.entries()] == ["K2", "K10", "B1", "M1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim_id": "K99"}, "not in book/claims.yml"),
        ({"model": " "}, "needs a reproduced value and a model"),
        ({"words": ""}, "needs a reproduced value and a model"),
        ({"function": "lnattn.nothing.here"}, "cannot be imported"),
        ({"function": "nothing"}, "cannot be imported"),
    ],
)
def test_a_bad_record_is_refused_and_nothing_is_written(folder, change, message):
    function = change.get("function")
    record = {name: value for name, value in change.items() if name != "function"}
    with pytest.raises(ResultError, match=message):
        ledger.register(found(**record), function=function)
    assert not list(folder.iterdir())


def test_a_damaged_record_is_one_sentence(folder):
    (folder / "K1--m.json").write_text('{"id": "K1"}')
    with pytest.raises(ResultError, match="not a ledger record"):
        ledger.entries()
    (folder / "K1--m.json").write_text("{")
    with pytest.raises(ResultError, match="valid JSON"):
        ledger.entries()


def test_a_record_with_an_unknown_verdict_is_refused(folder):
    ledger.register(found())
    (path,) = folder.glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"verdict": "perhaps"}))
    with pytest.raises(ResultError, match="unknown claim or verdict"):
        ledger.entries()


GOOD = {
    "id": "K1",
    "paper": "p",
    "section": "s",
    "statement": "t",
    "reported": "r",
    "rule": {},
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
        ([GOOD | {"id": "Q1"}], "not an id"),
        ([GOOD | {"extra": 1}], "unknown \\['extra'\\]"),
        ([{"id": "K1"}], "missing"),
        (["K1"], "missing"),
        ([GOOD | {"statement": ""}], "must be text"),
        ([GOOD | {"tolerance": -1}], "tolerance"),
        ([GOOD | {"tolerance": True}], "tolerance"),
        ([GOOD | {"test": "test_x"}], "test must be tests/FILE"),
        ([GOOD | {"test": None}], "test must be tests/FILE"),
    ],
)
def test_a_malformed_list_of_claims_is_refused(tmp_path, listed, message):
    path = tmp_path / "claims.yml"
    path.write_text(yaml.safe_dump(listed))
    with pytest.raises(ResultError, match=message):
        ledger.claims(path)


def test_a_missing_list_of_claims_is_one_sentence(tmp_path):
    with pytest.raises(ResultError, match="does not exist"):
        ledger.claims(tmp_path / "claims.yml")
