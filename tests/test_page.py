"""The book's helpers: page banner, the model of a chapter, what a model lacks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from lnattn.errors import ResultError
from lnattn_book.page.checks import METADATA

page = pytest.importorskip("lnattn_book.page", reason="MyST-NB is absent: pip install .[book]")
asking = pytest.importorskip("lnattn_book.page.asking")

# --- page -------------------------------------------------------------------------------------


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


def test_the_first_cell_of_a_chapter_may_name_its_model(monkeypatch):
    monkeypatch.setenv("LNATTN_ROTARY", "")
    monkeypatch.setenv("LNATTN_MODEL", "book-llama")
    chosen = page.choose(None)
    assert chosen.name == "book-gpt2", "a model without six terms goes to chapter 12"
    assert "book-llama has rotary or relative positions" in chosen.why
    named = page.choose("minilm")
    assert (named.name, named.why) == ("minilm", "named in this page's first cell")


# --- a block about the reader's model ------------------------------------------------------------


def test_what_a_model_lacks_ends_a_block_and_not_the_chapter(monkeypatch, capsys):
    with page.asking("heads of a second layer"):
        raise ResultError("tiny has one layer.")
    said = "Heads of a second layer cannot be asked of this model: tiny has one layer."
    assert capsys.readouterr().out.splitlines() == [said]

    outputs = []
    monkeypatch.setattr(asking, "display", lambda shown: outputs.append(shown._repr_mimebundle_()))
    for error in (ResultError("no <head>."), IndexError("3")):
        with page.asking("anything"):
            raise error
    (lack, about_the_lack), (fault, about_the_fault) = outputs
    assert "no &lt;head&gt;." in lack["text/html"]
    assert about_the_lack == {}, "a lack is no fault"
    assert about_the_fault == {METADATA: {"fault": fault["text/plain"]}}
    assert fault["text/plain"].endswith("IndexError: 3.")
    with pytest.raises(KeyboardInterrupt), page.asking("anything"):
        raise KeyboardInterrupt
