"""The claims page as Sphinx builds it, from records that a chapter left; nothing is executed.

Skipped, by name, where Sphinx (the extra `book`) is not installed.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
import attest
from bs4 import BeautifulSoup
from small_site import build

from booksite.claims_tables import column, machines
from lnattn import paths
from lnattn_book.claims import __main__ as command
from lnattn_book.claims import frozen as frozen_claims
from lnattn_book.claims.listed import claims
from lnattn_book.claims.verdicts import Leaf, Record, size

ROOT = paths.repository()
PAGES = {
    "index": "# Start\n\n"
    "```{toctree}\nbook/claims\nnotebooks/05-six-terms\nnotebooks/03-folding\n```\n",
    "notebooks/05-six-terms": '# 05 · Six \\<terms\\>\n\nWords of a "chapter" & more.\n',
    "notebooks/03-folding": "# 03 · Folding\n\n(fig-x)=\n## Part\n\nText.\n",
}
#: The claims of the two papers, which are counted.
PAPERS = [one for one in claims().values() if one.id[0] in "KB" and one.kind != "question"]
RECORDS = [
    {
        "claim": "K1",
        "verdict": "holds",
        "words": "error 5e-15, 3 of 4",
        "values": {"heads": 3},
        "cell": "fig-x",
        **size((0.5, 0.25, 0.75), "nats", 0, 30),
    },
    {"claim": "K2", "verdict": "fails", "words": "$b_K$ < <i>3</i>", "note": "a $\\sigma$ & b"},
    {"claim": "F1", "verdict": "holds", "words": "the same outputs"},
]


def entry(**facts) -> Record:
    return Record(**({"model": "tiny", "function": "json.loads"} | facts))


class Book:
    """A book of four pages below a folder, with the records that its chapter 03 left."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.source, self.out = folder, folder / "source", folder / "_build" / "html"
        text = (ROOT / "book" / "claims.md").read_text()
        # What the page refers to is in chapters that this book has not.
        pages = PAGES | {"book/claims": re.sub(r"\{ref\}`[^`]*`", "there", text)}
        for name, text in pages.items():
            (self.source / name).parent.mkdir(exist_ok=True)
            (self.source / f"{name}.md").write_text(text)

    def leave(self, records: list[dict], chapter: str = "notebooks/03-folding") -> None:
        path = self.out.parent / "jupyter_execute" / f"{chapter}.glue.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = {f"claim:{n}": json.dumps(asdict(entry(**one))) for n, one in enumerate(records)}
        path.write_text(json.dumps({k: {"data": {"text/plain": v}} for k, v in texts.items()}))

    def build(self, **settings) -> str:
        """Build it; returns the warnings."""
        own = {
            "extensions": ["myst_parser", "booksite"],
            "myst_enable_extensions": ["dollarmath"],
            "exclude_patterns": ["tests"],
            "project": "Tiny book",
        }
        self.out, warnings, _ = build(self.folder, **(own | settings))
        return warnings

    def page(self, name: str) -> str:
        return (self.out / f"{name}.html").read_text(encoding="utf-8")

    def rows(self) -> dict:
        """The rows of the matrix by the claim's id."""
        page = BeautifulSoup(self.page("book/claims"), "html.parser")
        return {row["id"].removeprefix("claim-").upper(): row for row in page.select(".claim")}

    def data(self) -> dict:
        return json.loads((self.out / "claims.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LNATTN_MODEL", "tiny")
        made = Book(tmp_path_factory.mktemp("book"))
        made.leave(RECORDS)
        made.said = made.build()
        yield made


def text(node) -> str:
    return " ".join(node.get_text(" ").split())


def test_every_claim_is_one_line_with_a_sign_a_model_and_unfolds(book):
    rows = book.rows()
    assert sorted(rows) == sorted(claims())
    one, other, unasked = rows["K1"], rows["K2"], rows["K3"]
    assert text(one.summary).startswith(f"K1 {claims()['K1'].line}")
    (sign,) = one.select(".sign")
    assert (sign["aria-label"], text(sign)) == ("stand-ins: identity or arithmetic", "=")
    assert text(one.select_one(".found")).startswith("= holds · tiny error 5e-15, 3 of 4")
    assert "Effect: 0.5 nats [0.25, 0.75], chance 0, n = 30" in text(one.select_one(".found"))
    assert "Kind and tolerance: derivation; a later build may differ by 1e-10" in text(one)
    assert claims()["K1"].section in text(one)
    assert f"The source: “… {claims()['K3'].quote} …”" in text(unasked)
    assert "The source:" not in text(rows["S1"])  # the book's own, which no source states
    assert "\\(b_K\\) < <i>3</i>; a \\(\\sigma\\) & b" in text(other.select_one(".found"))
    assert "not yet registered" in text(unasked)
    assert not unasked.select(".sign")
    assert {row.find_parent("details") is None for row in map(rows.get, ("K3", "B1"))} == {True}
    notes = f"transformer notes: {sum(one[0] == 'M' for one in claims())} claims"
    assert notes in text(rows["M3"].find_parent("details").summary).lower()


def test_bars_count_each_claim_once_and_derivations_apart(book):
    page = BeautifulSoup(book.page("book/claims"), "html.parser")
    labels = [bar["aria-label"] for bar in page.select(".claims-bar [role=img]")]
    asked = sum(one.id[0] == "K" for one in PAPERS) - 2
    assert labels == [
        f"Kamoda et al. 2025: 1 fails, {asked} not asked, 1 identity or arithmetic",
        f"Brody et al. 2023: {len(PAPERS) - asked - 2} not asked",
    ]
    could = len(PAPERS) - 1
    said = f"of the {could} that could fail: 1 ✗ fails, {could - 1} · not asked."
    assert said in text(page)


def test_models_share_columns_by_what_they_are():
    names = [
        "gpt2 (frozen)",
        "majority, at its best",
        "no model",
        "random keys",
        "book-gpt2",
        "x/y",
    ]
    assert [column(one) for one in names] == [
        *("GPT-2", "trained here", "none", "none", "stand-ins", "stand-ins"),
    ]


def test_chapters_that_ask_the_same_model_share_a_sign(tmp_path):
    shared = Book(tmp_path)
    shared.leave(RECORDS[:1])
    again = {"words": "error 6e-15", "cell": ""}
    shared.leave([RECORDS[0] | again], chapter="index")
    shared.build()
    row = shared.rows()["K1"]
    assert len(row.select(".sign")) == len(row.select(".found")) == 1
    assert text(row).count("5e-15") == text(row).count("6e-15") == 1
    assert text(row).endswith("· also appendix")


def test_links_lead_to_the_cell_and_the_test(book):
    links = [link["href"] for link in book.rows()["K1"].select("a")]
    assert "../notebooks/03-folding.html#fig-x" in links
    assert claims()["K1"].test.partition("::")[0] in book.page("book/claims")


def test_mathematics_is_loaded_where_the_table_has_some(book):
    assert "MathJax" in book.page("book/claims")
    assert "lnattn/claims.js" in book.page("book/claims")
    assert "lnattn/claims.js" not in book.page("index")


def test_the_sentence_and_the_file_and_the_command_agree(book, monkeypatch, capsys):
    data = book.data()
    assert data["summary"].startswith(
        f"Of the {len(PAPERS)} claims of the two papers 1 are identities or arithmetic"
    )
    assert data["summary"] in book.page("book/claims")
    monkeypatch.setattr(command, "repository", lambda: book.folder)
    assert command.main(["K1"]) == 0
    assert "holds (tiny): error 5e-15, 3 of 4" in capsys.readouterr().out


def test_a_chapter_that_forgets_a_claim_is_a_warning(book, tmp_path):
    assert book.said == ""
    forgetful = Book(tmp_path)
    forgetful.leave(RECORDS[:1])
    assert "claim K2 belongs to chapter 03-folding, which does not register it" in forgetful.build()


def test_new_records_reach_the_page_though_no_source_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("LNATTN_MODEL", "tiny")
    one = Book(tmp_path)
    one.leave(RECORDS)
    one.build()
    one.leave([RECORDS[0] | {"words": "error 1e-14, 3 of 4"}, RECORDS[1] | {"verdict": "holds"}])
    one.build()
    assert "error 1e-14" in one.page("book/claims")
    assert "2 are identities or arithmetic" in one.page("book/claims")


def test_a_number_that_differs_from_the_frozen_one_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("LNATTN_MODEL", "tiny")
    one = Book(tmp_path)
    frozen = [entry(**record, chapter="notebooks/03-folding") for record in RECORDS]
    frozen_claims.write_frozen("tiny", frozen, one.source)
    one.leave(RECORDS)
    assert one.build() == ""
    one.leave([RECORDS[0] | {"values": {"heads": 4}}, RECORDS[1]])
    said = one.build()
    assert "heads was 3, now it is 4" in said
    assert "make freeze-claims" in said


# --- heads -----------------------------------------------------------------


def tags(page: str) -> dict[str, str]:
    return dict(re.findall(r'<meta (?:name|property)="([^"]+)" content="([^"]*)" />', page))


def test_a_page_describes_itself_and_titles_are_escaped(book):
    found = tags(book.page("notebooks/05-six-terms"))
    assert found["og:title"] == "05 · Six &lt;terms&gt;"
    assert found["description"] == found["og:description"]
    assert found["description"] in {
        "Words of a “chapter” &amp; more.",
        "Words of a &quot;chapter&quot; &amp; more.",
    }
    assert found["og:image"] == "../_static/preview.png"
    assert "og:url" not in found


def test_addresses_are_whole_where_the_site_knows_its_own(tmp_path):
    one = Book(tmp_path)
    one.leave(RECORDS)
    one.build(html_baseurl="https://example.org/b&c/")
    found = tags(one.page("book/claims"))
    assert found["og:url"] == "https://example.org/b&amp;c/book/claims.html"
    assert found["og:image"] == "https://example.org/b&amp;c/_static/preview.png"


# --- parts, and machines ---


def test_parts_of_a_claim_stand_below_its_line_and_a_fragile_verdict_is_marked(tmp_path):
    parts = Book(tmp_path)
    found = {"claim": "K12", "verdict": "fails", "words": "x", "stands": (1, 9)}
    parts.leave([found | {"leaves": (Leaf("a part", "fails", "3 of 9"),)}])
    parts.build()
    summary = parts.rows()["K12"].summary
    assert text(summary.select_one(".part")) == "a part"
    labels = [sign["aria-label"] for sign in summary.select(".sign")]
    assert labels == ["stand-ins: fails, fragile", "stand-ins: fails"]


def test_a_machine_that_finds_the_same_has_the_same_hash_and_another_verdict_another():
    found = [entry(**record) for record in RECORDS]
    one = attest.attestation("tiny", found, "0123456789")
    assert one["sha256"] == attest.attestation("tiny", found[::-1], "ffff")["sha256"]
    other = [replace(found[0], verdict="fails"), *found[1:]]
    changed = attest.attestation("tiny", other, "0123456789")
    assert changed["sha256"] != one["sha256"]
    table = machines([one, changed], one["verdicts"], one["sha256"]).astext()
    assert table.count(f"{len(found)} of {len(found)}") == 1
    assert table.count(f"{len(found) - 1} of {len(found)}") == 1
    assert (table.count(", the same"), table.count(", another")) == (1, 1)
