"""The role `{claim}`: links with the claim's line, and verdicts that sentences rely on."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from bs4 import BeautifulSoup
from small_site import build

from booksite.claims_roles import Citation, differences
from lnattn.errors import ResultError
from lnattn_book.claims.listed import claim
from lnattn_book.claims.verdicts import Record

RECORDS = [
    Record("fails", "w", claim="U4", model="gpt2", chapter="notebooks/09"),
    Record("holds", "w", claim="U4", model="minilm", chapter="notebooks/09"),
    Record("undecided", "w", claim="N1", model="majority", chapter="notebooks/08"),
    Record("holds", "w", claim="N1", model="beside", counted=False, chapter="notebooks/08"),
]


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("K11", Citation("K11")),
        ("N1 undecided", Citation("N1", "undecided")),
        ("S7 not seen in this model on tiny", Citation("S7", "not seen in this model", "tiny")),
        ("D1 holds in part on smollm2-135m-q4", Citation("D1", "holds in part", "smollm2-135m-q4")),
        ("U4 holds on heads without scaling", Citation("U4", "holds", "heads without scaling")),
    ],
)  # fmt: skip
def test_a_citation_is_read(text, cited):
    assert Citation.of(text) == cited


@pytest.mark.parametrize("text", ["", "U4 falls", "U4 on gpt2", "Z1", "chapter U4"])
def test_a_citation_of_nothing_is_one_sentence(text):
    with pytest.raises(ResultError):
        Citation.of(text)


def test_a_sentence_must_rely_on_the_verdict_that_was_found():
    assert not list(differences(Citation("U4"), RECORDS))
    assert not list(differences(Citation("U4", "fails", "gpt2"), RECORDS))
    assert not list(differences(Citation("U4", "holds", "no such model"), RECORDS))
    assert not list(differences(Citation("N1", "undecided"), RECORDS))
    (said,) = differences(Citation("U4", "holds", "gpt2"), RECORDS)
    assert said.startswith("a sentence relies on U4 'holds'; on gpt2 it is 'fails'")
    # Without a model, of all that count.
    (said,) = differences(Citation("U4", "holds"), RECORDS)
    assert "on gpt2" in said
    (said,) = differences(Citation("N1", "holds"), RECORDS)
    assert "on majority" in said


def test_a_page_has_links_and_the_build_a_warning(tmp_path):
    pages = {
        "index.md": "# Start\n\n```{toctree}\nbook/claims\nnotebooks/09\n```\n",
        "book/claims.md": "# Claims\n\n```{claims-table}\n```\n",
        "notebooks/09.md": "# Keys\n\nThey do ({claim}`U4 holds on gpt2`; {claim}`N1 undecided`, "
        "{claim}`K11`).\n",
    }
    notebook = tmp_path / "_build" / "jupyter_execute" / "notebooks" / "09.glue.json"
    notebook.parent.mkdir(parents=True)
    texts = {f"claim:{n}": json.dumps(asdict(one)) for n, one in enumerate(RECORDS)}
    notebook.write_text(
        json.dumps({key: {"data": {"text/plain": text}} for key, text in texts.items()})
    )
    out, warnings, _ = build(tmp_path, pages, extensions=["myst_parser", "booksite"])
    assert "a sentence relies on U4 'holds'; on gpt2 it is 'fails'" in warnings
    assert "relies on N1" not in warnings
    page = BeautifulSoup((out / "notebooks" / "09.html").read_text(encoding="utf-8"), "html.parser")
    links = {one.text: one for one in page.select('a[href*="#claim-"]')}
    assert set(links) == {"U4", "N1", "K11"}
    assert links["K11"]["href"] == "../book/claims.html#claim-k11"
    assert links["K11"]["title"] == f"K11: {claim('K11').line}"
