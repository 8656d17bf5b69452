"""The book's helpers: figure style, page banner, glued numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lnattn.errors import ResultError

page = pytest.importorskip("lnattn_book.page", reason="MyST-NB is absent: pip install .[book]")

# --- page -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (0.12345, ".2f", "0.12"),
        (np.float64(0.5), "", "0.5"),
        (np.int64(7), "", "7"),
        (torch.tensor([3.25]), ".2f", "3.25"),
        (np.array([[4]]), "d", "4"),
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


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (0.5, ".2f", "0.50"),
        (8192, ",", "8,192"),
        ("'iens'", "", "'iens'"),
    ],
)
def test_glued_text_arrives_in_the_prose_unchanged(monkeypatch, value, spec, text):
    """The role evaluates what was glued as a Python literal; the text must survive that."""
    import myst_nb
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
    shown = banner._repr_html_()
    assert "1970-01-01" in shown
    assert "torch " + torch.__version__.split("+")[0] in shown  # a build may add +cu130
    assert "sha256 0123456789ab…" in shown
    assert "a test" in shown
    assert "&lt;tiny&gt;" in shown
    assert "<tiny>" not in shown


def test_a_sentence_that_no_longer_holds_stops_the_page():
    page.holds("about one in six", 0.14 < np.float64(0.17) < 0.20)
    page.holds("true of one", np.array([True]))
    with pytest.raises(ResultError, match="'about one in six', but its numbers no longer do"):
        page.holds("about one in six", np.bool_(False))
    with pytest.raises(ResultError, match="one truth value"):
        page.holds("of each", np.array([True, True]))
