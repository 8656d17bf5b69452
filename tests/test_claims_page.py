"""The claims page as Sphinx builds it, from records that a chapter left; nothing is executed.

Skipped, by name, where Sphinx (the extra `book`) is not installed.
"""

from __future__ import annotations

import argparse
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from docutils import nodes
from docutils.utils import new_document
from small_site import build

from booksite import downloads, head
from lnattn import paths
from lnattn.claims import frozen as frozen_claims
from lnattn.claims.ledger import Entry
from lnattn.claims.listed import claims
from lnattn.claims.seeds import Judged, Seeds, write_seeds
from lnattn.claims.verdicts import Verdict
from lnattn.commands import claims as command

ROOT = paths.repository()
PAGES = {
    "index": "# Start\n\nSummary: {claims-summary}`here`\n\n"
    "```{toctree}\nbook/claims\nbook/claim-tests\nnotebooks/05-six-terms\nnotebooks/03-folding\n```\n",
    "notebooks/05-six-terms": '# 05 · Six \\<terms\\>\n\nWords of a "chapter" & more.\n',
    "notebooks/03-folding": "# 03 · Folding\n\n(fig-x)=\n## Part\n\nText.\n",
}
#: Claims that a source makes: those of the book itself are counted apart.
REPORTED = [one for one in claims().values() if not one.is_ours]
#: Those among them that are about no published checkpoint.
GENERAL = [one for one in REPORTED if not one.needs_checkpoint]
RECORDS = [
    {"id": "K1", "verdict": "holds", "reproduced": "error 5e-15, 3 of 4", "cell": "fig-x"},
    {"id": "K2", "verdict": "fails", "reproduced": "$b_K$ < <i>3</i>", "note": "a $\\sigma$ & b"},
]


def entry(**facts) -> Entry:
    known = {"model": "tiny", "function": "json.loads", "note": "", "cell": "", "values": {}}
    return Entry(**(known | facts))


class Book:
    """A book of four pages below a folder, with the records that its chapter 03 left."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.source, self.out = folder, folder / "source", folder / "_build" / "html"
        (self.source / "tests").mkdir(parents=True)
        for path in (ROOT / "tests").glob("test_*.py"):
            (self.source / "tests" / path.name).symlink_to(path)
        pages = PAGES | {
            name: (ROOT / f"{name}.md").read_text() for name in ("book/claims", "book/claim-tests")
        }
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
    rows = [row for row in Rows(book.page("book/claims")).rows if len(row) == 4]
    found = {row[0].split()[0]: row for row in rows[1:]}
    assert list(found) == list(claims())
    assert len(rows) == len(claims()) + 1
    assert found["K1"][3].startswith("✓ holds · tinyerror 5e−15, 3 of 4")
    assert found["K2"][3].startswith("✗ fails · tiny\\(b_K\\) < <i>3</i> a \\(\\sigma\\) & b")
    assert found["K3"][2:] == ["–", "not yet registered · test"]


def test_rules_stand_once_where_they_are_one_and_beside_each_verdict_where_not(book, tmp_path):
    several = Book(tmp_path)
    two = [RECORDS[0] | {"model": model, "rule": "less than 1e-9"} for model in ("tiny", '<a "b">')]
    other = [RECORDS[1] | {"model": m, "rule": f"over {m}"} for m in ("tiny", "else")]
    several.leave([*two, *other])
    several.build()
    page = several.page("book/claims")
    found = {row[0].split()[0]: row for row in Rows(page).rows if len(row) == 4}
    assert found["K1"][2] == "less than 1e-9"
    assert "Rule" not in found["K1"][3]
    assert found["K2"][2] == "beside each"
    assert "Rule: over tiny" in found["K2"][3]
    assert "Rule: over else" in found["K2"][3]
    assert 'data-model="&lt;a &quot;b&quot;&gt;"' in page
    assert page.count('<details class="chip') == 4
    # One chip a claim is unfolded at once.
    assert len(re.findall('<details class="chip[^>]* open>', page)) == 2


def test_chapters_that_ask_the_same_model_share_a_chip(tmp_path):
    shared = Book(tmp_path)
    shared.leave(RECORDS[:1])
    again = {"reproduced": "error 6e-15", "cell": "", "function": "json.dumps"}
    shared.leave([RECORDS[0] | again], chapter="index")
    shared.build()
    page = shared.page("book/claims")
    assert page.count('<details class="chip') == 1
    [cell] = [row[3] for row in Rows(page).rows if len(row) == 4 and row[0].startswith("K1 ")]
    assert cell.count("holds · tiny") == 1
    assert cell.count("5e−15") == cell.count("6e−15") == 1
    assert cell.endswith("chapter 03 · loads · test · also chapter index · dumps")
    [row] = [row for row in Rows(page).rows if row and row[0] == "tiny"]
    assert row[1:5] == [*"1000"]


def test_links_lead_to_the_cell_and_the_test(book):
    links = Rows(book.page("book/claims")).links
    assert "../notebooks/03-folding.html#fig-x" in links
    shown = book.page("book/claim-tests")
    for claim in claims().values():
        anchor = f"test-{claim.id.lower()}"
        assert (f"claim-tests.html#{anchor}" in links) is bool(claim.test)
        assert shown.count(f'id="{anchor}"') == bool(claim.test)


def test_mathematics_is_loaded_where_the_table_has_some(book):
    assert "MathJax" in book.page("book/claims")
    assert "lnattn/claims.js" in book.page("book/claims")
    assert "lnattn/claims.js" not in book.page("index")


def test_the_sentence_and_the_file_and_the_command_agree(book, monkeypatch, tmp_path, capsys):
    data = book.data()
    assert data["summary"].startswith(
        f"Of {len(REPORTED)} claims, {len(GENERAL)} need no given checkpoint: 1 holds, 1 "
    )
    assert data["summary"] in book.page("index")
    from booksite.build import publish_ledger

    publish_ledger(book.out / "claims.json", tmp_path / "ledger")
    monkeypatch.setenv("LNATTN_LEDGER", str(tmp_path / "ledger"))
    arguments = argparse.Namespace(id=[], json=True, csv=False)
    command.run(arguments)
    assert json.loads(capsys.readouterr().out) == data["claims"]
    arguments.json = False
    command.run(arguments)
    assert capsys.readouterr().out.rstrip().endswith(data["summary"])


def test_the_page_says_what_shorter_trainings_were_asked(book, tmp_path, monkeypatch):
    assert "shorter trainings" not in book.page("book/claims")
    given = {"K2": Verdict("K2", "tiny", "fails", "words", "rule")}
    trainings = [Judged(seed, 2, 64, 5.0, "0", given) for seed in (0, 3, 4)]
    monkeypatch.setenv("LNATTN_MODEL", "tiny")
    monkeypatch.setenv("LNATTN_DATA", str(tmp_path / "data"))
    write_seeds(tmp_path / "data" / "results" / "tiny", Seeds(trainings[0], trainings[1:]))
    other = Book(tmp_path / "book")
    other.leave(RECORDS)
    folding = other.source / "notebooks" / "03-folding.md"
    folding.write_text(folding.read_text() + "\n(sec-seeds)=\n## Seeds\n\nText.\n")
    other.build()
    page = other.page("book/claims")
    assert "Asked of shorter trainings of tiny too, with seeds 3 and 4: K2. What" in page
    assert "Not asked of them: K1. Of these" in page
    assert '<a class="reference internal" href="../notebooks/03-folding.html#sec-seeds">' in page


def test_a_second_build_writes_the_same_bytes(book, tmp_path):
    again = Book(tmp_path)
    again.leave(RECORDS)
    again.build()
    for name in ("claims.json", "sitemap.xml"):
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
    one.leave(
        [RECORDS[0] | {"reproduced": "error 1e-14, 3 of 4"}, RECORDS[1] | {"verdict": "holds"}]
    )
    one.build()
    assert "error 1e−14" in one.page("book/claims")
    assert f"2 hold and {len(GENERAL) - 2} were not asked" in one.page("index")


def test_a_number_that_differs_from_the_frozen_one_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("LNATTN_MODEL", "tiny")
    one = Book(tmp_path)
    frozen = [entry(**record, chapter="notebooks/03-folding") for record in RECORDS]
    path = frozen_claims.path_of("tiny", one.source)
    path.parent.mkdir(parents=True)
    path.write_text(
        json.dumps({"model": "tiny", "records": frozen_claims.freeze(frozen, claims())})
    )
    one.leave(RECORDS)
    assert one.build() == ""
    one.leave([RECORDS[0] | {"reproduced": "error 5e-15, 4 of 4"}, RECORDS[1]])
    said = one.build()
    assert "4 in 'error 5e-15, 4 of 4' was 3 in 'error 5e-15, 3 of 4'" in said
    assert "make freeze-claims" in said


# --- heads, sitemap, downloads -----------------------------------------------------------------


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
    locations = [
        node.text for node in ET.parse(one.out / "sitemap.xml").iter() if node.tag[-3:] == "loc"
    ]
    assert locations == sorted(f"https://example.org/b&c/{name}.html" for name in [
        *PAGES, "book/claims", "book/claim-tests"])  # fmt: skip


@pytest.mark.parametrize("text", ["", "short", "word " * 100, "x" * 300])
def test_descriptions_are_short(text):
    assert len(head.shortened(text)) <= head.LONGEST + 1
    assert head.shortened("a b", 3) == "a b"
    assert head.shortened("one, two", 6) == "one…"


def test_a_page_without_prose_has_no_description():
    document = new_document("")
    document += nodes.container("", nodes.paragraph("", "a banner"))
    assert head.description_of(document) == ""
    assert head.description_of(None) == ""


def test_the_data_that_pages_offer_are_there():
    known = set((ROOT / "_toc.yml").read_text(encoding="utf-8").split())
    for page in downloads.DATA:
        if page in known and page != "book/claims":
            files = downloads.files_of(page, ROOT)
            assert files, f"{page} offers no file"
            assert sum(path.stat().st_size for path in files) < 2e6


def test_data_are_copied_and_offered(tmp_path):
    (tmp_path / "data" / "text").mkdir(parents=True)
    (tmp_path / "data" / "text" / "sample.jsonl").write_text("{}\n" * 600)
    app = type("App", (), {"srcdir": tmp_path, "outdir": tmp_path / "out"})
    group = {"label": "download-buttons", "buttons": []}
    context = {
        "header_buttons": [{"label": "other"}, group],
        "pathto": lambda name, _: f"../{name}",
    }
    downloads.offer_data(app, "notebooks/08-contributions", "", context, None)
    (button,) = group["buttons"]
    assert button["url"] == "../_downloads/text/sample.jsonl"
    assert "2 kB" in button["tooltip"]
    assert (tmp_path / "out" / "_downloads" / "text" / "sample.jsonl").is_file()


def test_a_notebook_that_was_executed_is_offered_with_its_outputs(tmp_path):
    executed = tmp_path / "jupyter_execute" / "notebooks" / "a.ipynb"
    executed.parent.mkdir(parents=True)
    executed.write_text("{}")
    environment = type(
        "Environment", (), {"metadata": {"notebooks/a": {"kernelspec": {}}, "b": {}}}
    )
    app = type("App", (), {"outdir": str(tmp_path / "html"), "env": environment})
    for page, offered in (("notebooks/a", True), ("b", False)):
        context: dict = {}
        downloads.offer_notebook(app, page, "", context, object())
        assert ("ipynb_source" in context) is offered
    assert (tmp_path / "html" / "_sources" / "notebooks" / "a.ipynb").read_text() == "{}"
    executed.unlink()
    with pytest.raises(Exception, match="is missing; run: make clean"):
        downloads.offer_notebook(app, "notebooks/a", "", {}, object())
