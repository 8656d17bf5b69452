"""The claims page as Sphinx builds it, from records that a chapter left; nothing is executed.

Skipped, by name, where Sphinx (the extra `book`) is not installed.
"""

from __future__ import annotations

import argparse
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from small_site import build

from booksite import links
from lnattn import paths
from lnattn_book.claims import __main__ as command
from lnattn_book.claims import frozen as frozen_claims
from lnattn_book.claims.listed import claims
from lnattn_book.claims.verdicts import Record

ROOT = paths.repository()
PAGES = {
    "index": "# Start\n\nSummary: {claims-summary}`here`\n\n"
    "```{toctree}\nbook/claims\nnotebooks/05-six-terms\nnotebooks/03-folding\n```\n",
    "notebooks/05-six-terms": '# 05 · Six \\<terms\\>\n\nWords of a "chapter" & more.\n',
    "notebooks/03-folding": "# 03 · Folding\n\n(fig-x)=\n## Part\n\nText.\n",
}
#: Claims that a source makes: those of the book itself are counted apart.
REPORTED = [one for one in claims().values() if not one.is_ours]
#: Those among them that are about no published checkpoint.
GENERAL = [one for one in REPORTED if not one.needs_checkpoint]
RECORDS = [
    {
        "claim": "K1",
        "verdict": "holds",
        "words": "error 5e-15, 3 of 4",
        "values": {"heads": 3},
        "cell": "fig-x",
    },
    {"claim": "K2", "verdict": "fails", "words": "$b_K$ < <i>3</i>", "note": "a $\\sigma$ & b"},
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
        texts = {f"claim:{n}": json.dumps(vars(entry(**one))) for n, one in enumerate(records)}
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

    def table(self) -> str:
        """The table of all claims."""
        return self.page("book/claims").partition("claims-all")[2].partition("</table>")[0]

    def data(self) -> dict:
        return json.loads((self.out / "claims.json").read_text(encoding="utf-8"))


class Rows(HTMLParser):
    """Text and links of the rows of the page's tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")
        elif tag == "a" and self.rows:
            self.links.append(dict(attributes).get("href", ""))

    def handle_data(self, text):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += text.strip("\n")


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LNATTN_MODEL", "tiny")
        made = Book(tmp_path_factory.mktemp("book"))
        made.leave(RECORDS)
        made.said = made.build()
        yield made


def test_every_claim_has_one_row_with_a_chip_a_model(book):
    rows = [row for row in Rows(book.table()).rows if len(row) == 4]
    found = {row[0].split()[0]: row for row in rows[1:]}
    assert list(found) == list(claims())
    assert len(rows) == len(claims()) + 1
    assert found["K1"][3].startswith("✓ holds · tinyerror 5e-15, 3 of 4")
    assert found["K2"][3].startswith("✗ fails · tiny\\(b_K\\) < <i>3</i> a \\(\\sigma\\) & b")
    assert found["K3"][2:] == [
        "–",
        "not yet registered · " + claims()["K3"].test.partition("::")[0],
    ]


def test_rules_stand_once_where_they_are_one_and_beside_each_verdict_where_not(book, tmp_path):
    several = Book(tmp_path)
    two = [RECORDS[0] | {"model": model, "rule": "less than 1e-9"} for model in ("tiny", '<a "b">')]
    other = [RECORDS[1] | {"model": m, "rule": f"over {m}"} for m in ("tiny", "else")]
    several.leave([*two, *other])
    several.build()
    page = several.page("book/claims")
    found = {row[0].split()[0]: row for row in Rows(several.table()).rows if len(row) == 4}
    assert found["K1"][2] == "less than 1e-9"
    assert "Rule" not in found["K1"][3]
    assert found["K2"][2] == "beside each"
    assert "Rule: over tiny" in found["K2"][3]
    assert "Rule: over else" in found["K2"][3]
    assert 'data-model="&lt;a &quot;b&quot;&gt;"' in page
    assert page.count('<details class="chip') == 4


def test_chapters_that_ask_the_same_model_share_a_chip(tmp_path):
    shared = Book(tmp_path)
    shared.leave(RECORDS[:1])
    again = {"words": "error 6e-15", "cell": "", "function": "json.dumps"}
    shared.leave([RECORDS[0] | again], chapter="index")
    shared.build()
    page = shared.page("book/claims")
    assert page.count('<details class="chip') == 1
    [cell] = [row[3] for row in Rows(shared.table()).rows if row and row[0].startswith("K1 ")]
    assert cell.count("holds · tiny") == 1
    assert cell.count("5e-15") == cell.count("6e-15") == 1
    assert cell.endswith(" · also appendix · dumps")
    [row] = [row for row in Rows(page).rows if row and row[0] == "tiny"]
    assert row[1:5] == [*"1000"]


def test_links_lead_to_the_cell_and_the_test(book):
    links = Rows(book.page("book/claims")).links
    assert "../notebooks/03-folding.html#fig-x" in links
    assert claims()["K1"].test.partition("::")[0] in book.page("book/claims")


def test_a_test_is_a_link_where_the_repositorys_address_is_known():
    options = {"repository_url": "https://example.org/a/b/"}
    config = argparse.Namespace(html_theme_options=options)
    link = links.to_test(config, "tests/test_a.py::test_b")
    assert link["refuri"] == "https://example.org/a/b/blob/main/tests/test_a.py"


def test_mathematics_is_loaded_where_the_table_has_some(book):
    assert "MathJax" in book.page("book/claims")
    assert "lnattn/claims.js" in book.page("book/claims")
    assert "lnattn/claims.js" not in book.page("index")


def test_the_sentence_and_the_file_and_the_command_agree(book, monkeypatch, capsys):
    data = book.data()
    assert data["summary"].startswith(
        f"Of {len(REPORTED)} claims, {len(GENERAL)} need no given checkpoint: 1 holds, 1 "
    )
    assert data["summary"] in book.page("index")
    monkeypatch.setattr(command, "repository", lambda: book.folder)
    assert command.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out) == data["claims"]
    assert command.main([]) == 0
    assert capsys.readouterr().out.rstrip().endswith(data["summary"])


def test_a_second_build_writes_the_same_bytes(book, tmp_path):
    again = Book(tmp_path)
    again.leave(RECORDS)
    again.build()
    name = "claims.json"
    assert (again.out / name).read_bytes() == (book.out / name).read_bytes()


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
    assert f"2 hold and {len(GENERAL) - 2} were not asked" in one.page("index")


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
    assert f"Of {len(REPORTED)} claims" in tags(book.page("index"))["description"]


def test_addresses_are_whole_where_the_site_knows_its_own(tmp_path):
    one = Book(tmp_path)
    one.leave(RECORDS)
    one.build(html_baseurl="https://example.org/b&c/")
    found = tags(one.page("book/claims"))
    assert found["og:url"] == "https://example.org/b&amp;c/book/claims.html"
    assert found["og:image"] == "https://example.org/b&amp;c/_static/preview.png"
