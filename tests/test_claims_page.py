"""The claims page as Sphinx builds it, from records that a chapter left, and in a real browser.

Nothing is executed. Skipped, by name, where Sphinx (the extra `book`) or Chromium is not installed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
import attest
from browsing import PHONE, tab_in
from bs4 import BeautifulSoup
from small_site import build

from booksite import claims_page, links
from booksite.claims_tables import changed_rules, column, machines
from lnattn_book.claims import frozen as frozen_claims
from lnattn_book.claims.listed import claims
from lnattn_book.claims.verdicts import Leaf, Record, effect_fields
from lnattn_book.page import places

ROOT = places.repository()
PAGES = {
    "index": "# Start\n\n```{toctree}\nbook/claims\nnotebooks/02-folding\n```\n",
    "notebooks/02-folding": "# 2 · Folding\n\n(fig-x)=\n## Part\n\nText.\n",
    # What the page refers to is in chapters that this book has not.
    # Nor does it run what the page runs.
    "book/claims": re.sub(
        r"^---\n.*?^---\n|^```\{code-cell\}.*?^```\n|\{(?:ref|doc|cite:t)\}`[^`]*`",
        "",
        (ROOT / "book" / "claims.md").read_text(),
        flags=re.MULTILINE | re.DOTALL,
    ),
}
#: The claims of the two papers, which are counted.
PAPERS = [one for one in claims().values() if one.id[0] in "KB" and one.kind != "question"]
#: Those that have a row; each of the others has a paragraph.
ROWS = [name for name, one in claims().items() if not one.aside]
FIRST = {"claim": "K1", "verdict": "holds", "words": "error 5e-15, 3 of 4", "cell": "fig-x"}
RECORDS = [
    FIRST | {"values": {"heads": 3}, **effect_fields((0.5, 0.25, 0.75), "nats", 0, 30)},
    {"claim": "K2", "verdict": "fails", "words": "$b_K$ < <i>3</i>", "note": "a $\\sigma$ & b"},
    {"claim": "F1", "verdict": "holds", "words": "the same outputs"},
    {"claim": "K22", "verdict": "holds in part", "words": "one of two"},
]


def entry(**facts) -> Record:
    return Record(**({"model": "tiny", "function": "json.loads"} | facts))


class Book:
    """A book of three pages below a folder, with the records that its chapter 2 left."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.source, self.out = folder, folder / "source", folder / "_build" / "html"

    def build(self, records: list[dict], **settings) -> str:
        """Build it with these records; returns the warnings."""
        path = self.out.parent / "jupyter_execute" / "notebooks" / "02-folding.glue.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = {f"claim:{n}": json.dumps(asdict(entry(**one))) for n, one in enumerate(records)}
        path.write_text(json.dumps({k: {"data": {"text/plain": v}} for k, v in texts.items()}))
        pages = {f"{name}.md": text for name, text in PAGES.items()}
        own = {"extensions": ["myst_parser", "booksite"], "myst_enable_extensions": ["dollarmath"]}
        own |= {"exclude_patterns": ["tests"], "project": "Tiny book", **settings}
        _, warnings, _ = build(self.folder, pages, **own)
        return warnings

    def page(self, name: str) -> str:
        return (self.out / f"{name}.html").read_text(encoding="utf-8")

    def rows(self) -> dict:
        """The rows of the matrix by the claim's id."""
        page = BeautifulSoup(self.page("book/claims"), "html.parser")
        return {row["id"].removeprefix("claim-").upper(): row for row in page.select(".claim")}


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LNATTN_MODEL", "tiny")
        made = Book(tmp_path_factory.mktemp("book"))
        other = {"claim": "K2", "model": "another", "verdict": "holds in part", "words": "7"}
        assert made.build([*RECORDS, other], mathjax_path="no-mathjax.js") == ""
        yield made


def text(node) -> str:
    return " ".join(node.get_text(" ").split())


def test_every_claim_is_one_line_with_a_sign_a_model_and_unfolds(book):
    rows = book.rows()
    assert sorted(rows) == sorted(ROWS)
    one, other, unasked = rows["K1"], rows["K2"], rows["K3"]
    assert text(one.summary).startswith(f"K1 {claims()['K1'].line}")
    (sign,) = one.select(".sign")
    assert (sign["aria-label"], text(sign)) == ("tiny: identity or arithmetic", "=")
    assert text(one.select_one(".found")).startswith("= holds · tiny error 5e-15, 3 of 4")
    assert "Effect: 0.5 nats [0.25, 0.75], chance 0, n = 30" in text(one.select_one(".found"))
    assert "Kind and tolerance: derivation; a later build may differ by 1e-10" in text(one)
    assert "../notebooks/02-folding.html#fig-x" in [link["href"] for link in one.select("a")]
    assert f"The source: “… {claims()['K3'].quote} …”" in text(unasked)
    assert "\\(b_K\\) < <i>3</i>; a \\(\\sigma\\) & b" in text(other.select_one(".found"))
    assert "needs its checkpoint: LNATTN_MODEL=gpt2 make book" in text(unasked)
    assert [text(sign) for sign in unasked.select(".sign")] == ["–"]


def test_a_claim_that_stays_open_has_a_paragraph_with_its_reason_and_no_row(book):
    page = BeautifulSoup(book.page("book/claims"), "html.parser")
    paragraphs = {one["id"]: text(one) for one in page.select(".claims-aside p")}
    aside = {name: one for name, one in claims().items() if one.aside}
    assert list(paragraphs) == [f"claim-{name.lower()}" for name in aside]
    for name, one in aside.items():
        said = paragraphs[f"claim-{name.lower()}"]
        assert said.startswith(f"{name}. {one.line}")
        assert said.endswith(one.aside)


def test_each_changed_rule_has_a_line_with_its_reason_and_both_verdicts(book):
    page = BeautifulSoup(book.page("book/claims"), "html.parser")
    (table,) = page.select(".changed-rules")
    lines = {
        text(row.td): [text(cell) for cell in row.select("td")] for row in table.select("tr")[1:]
    }
    changed = {name: one for name, one in claims().items() if one.changed}
    assert list(lines) == list(changed)
    assert text(table.summary).startswith(f"{len(changed)} of {len(claims())} claims")
    assert lines["K5"][1:] == [changed["K5"].changed["date"], changed["K5"].changed["why"], ""]
    asked = [entry(claim="K5", verdict="fails", before="holds", words="x") for _ in range(2)]
    cells = BeautifulSoup(changed_rules(asked).astext(), "html.parser").select("td")
    assert [text(cell) for cell in cells if "→" in cell.text] == ["tiny ✓ → ✗"]


def test_bars_and_the_sentence_count_each_claim_once_and_derivations_apart(book):
    page = BeautifulSoup(book.page("book/claims"), "html.parser")
    labels = [bar["aria-label"] for bar in page.select(".claims-bar [role=img]")]
    absent = sum(one.needs_checkpoint and one.could_fail for one in PAPERS)
    brody = sum(one.id[0] == "B" and one.could_fail for one in PAPERS)
    derived = Counter(one.id[0] for one in PAPERS if not one.could_fail)
    assert labels == [
        f"Kamoda et al. 2025: {absent} needs its checkpoint, {derived['K']} identity or arithmetic",
        f"Brody et al. 2023: {brody} not asked, {derived['B']} identity or arithmetic",
    ]
    said = f"{absent} – needs its checkpoint, {brody} · not asked."
    data = json.loads((book.out / "claims.json").read_text(encoding="utf-8"))
    assert said in data["summary"]
    assert data["summary"] in text(page)
    kept = {one["id"]: len(one["found"]) for one in data["claims"] if one["found"]}
    assert kept == {"K1": 1, "K2": 2, "F1": 1, "K22": 1}


def test_the_page_counts_second_ways_and_has_its_table_of_machines_and_its_filter(book):
    page = BeautifulSoup(book.page("book/claims"), "html.parser")
    second = sum(1 for one in claims().values() if one.second)
    assert f"For {second} of the {len(claims())} claims another program" in text(page)
    changed = sum(bool(one.changed) and one.could_fail for one in claims().values())
    could_fail = sum(one.could_fail for one in claims().values())
    assert f"Of {could_fail} that could fail, none have no null model" in text(page)
    assert f"the rules of {changed} were changed after the numbers" in text(page)
    heads = [[cell.text for cell in row.select("th")] for row in page.select("table tr")]
    assert ["Made", "Processor and system", "Versions", "Commit", "Verdicts as frozen", "Hash"] in (
        heads
    )
    assert "claims.js" in str(page.head)
    assert "claims.js" not in book.page("index")


def test_an_error_leaves_no_data(tmp_path):
    html = SimpleNamespace(format="html")
    claims_page.write_data(SimpleNamespace(builder=html, outdir=tmp_path), ValueError())
    assert not list(tmp_path.iterdir())


def test_what_to_do_about_numbers_that_changed_is_said_once_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setenv("LNATTN_MODEL", "tiny")
    changed = ["one.", "two.", "three."]
    monkeypatch.setattr(frozen_claims, "differences", lambda *_: changed)
    pages = ["index", "notebooks/02-folding"]
    recorded = [entry(**record) for record in RECORDS[1:]]
    (forgotten, *said, last) = claims_page.problems(recorded, pages, tmp_path)
    assert forgotten == "claim K1 belongs to chapter 02-folding, which does not register it"
    assert said == ["one.", "two."]
    assert last.startswith("three.; where the change is meant")
    monkeypatch.setattr(frozen_claims, "differences", lambda *_: [])
    recorded = [entry(**record) for record in RECORDS]
    assert claims_page.problems(recorded, pages, tmp_path) == []


def test_models_share_columns_by_what_they_are():
    columns = {"gpt2 (frozen)": "GPT-2", "majority, at its best": "trained here"}
    columns |= {"no model": "none", "random keys": "none", "x/y": "x/y"}
    columns |= {"minilm (frozen)": "MiniLM", "heads without scaling": "none"}
    assert {name: column(name) for name in columns} == columns


def test_each_source_has_columns_for_its_models_and_the_filter_names_each_once(book, chromium):
    page = BeautifulSoup(book.page("book/claims"), "html.parser")
    of_source = {}
    for table in page.select(".claims-matrix"):
        heads = [text(name) for name in table.select_one(".claims-head").select("span")]
        lines = [one.find_all("span", recursive=False) for one in table.select("summary:has(b)")]
        assert {len(line) for line in lines} == {len(heads)}
        of_source[table.select_one("b").text[0]] = heads[1:]
    assert of_source["K"] == ["GPT-2", "tiny", "another"]
    assert of_source["B"] == []
    assert of_source["F"] == ["tiny"]
    titles = [text(one.summary) for one in page.select(".claims-group")]
    alone = [bool(re.search(r"\b1 claim\b", title)) for title in titles]
    assert any(alone)
    assert alone == [" claims" not in title for title in titles]
    with tab_in(chromium) as tab:
        tab.go((book.out / "book" / "claims.html").as_uri())
        names = "[...document.querySelectorAll('[name=model] option')].map(e => e.textContent)"
        assert tab.evaluate(names) == ["all", "another", "tiny"]


def test_a_claim_that_is_opened_is_in_the_address(book, chromium):
    with tab_in(chromium) as tab:
        tab.go((book.out / "book" / "claims.html").as_uri() + "?from=K")
        tab.evaluate("document.querySelector('#claim-k2 > summary').click()")
        tab.until("location.hash === '#claim-k2'")
        assert tab.evaluate("location.search") == "?from=K"
        tab.evaluate("document.querySelector('#claim-k2 > summary').click()")
        tab.until("location.hash === ''")
        assert tab.evaluate("location.search") == "?from=K"
        tab.evaluate("document.querySelector('#claim-k1 > summary').click()")
        tab.until("location.hash === '#claim-k1'")
        shared = tab.evaluate("location.href")
        tab.go("about:blank")
        tab.go(shared)
        assert tab.evaluate("document.querySelector('#claim-k1').open")


def test_what_a_build_forgets_or_finds_otherwise_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("LNATTN_MODEL", "tiny")
    one = Book(tmp_path)
    frozen = [entry(**record, chapter="notebooks/02-folding") for record in RECORDS]
    frozen_claims.write_frozen("tiny", frozen, one.source)
    said = one.build([RECORDS[0] | {"values": {"heads": 4}, "words": "4 of 4"}, RECORDS[2]])
    assert "claim K2 belongs to chapter 02-folding, which does not register it" in said
    assert "heads was 3, now it is 4" in said
    assert "make freeze-claims" in said
    assert "4 of 4" in one.page("book/claims")
    # New records reach the page though no source changed.
    assert one.build(RECORDS) == ""
    assert "4 of 4" not in one.page("book/claims")


def test_parts_of_a_claim_stand_below_its_line_and_a_fragile_verdict_is_marked(tmp_path):
    parts = Book(tmp_path)
    found = {"claim": "K12", "verdict": "fails", "words": "x", "stands": (1, 9)}
    parts.build([found | {"leaves": (Leaf("a part", "fails", "3 of 9"),)}])
    summary = parts.rows()["K12"].summary
    assert text(summary.select_one(".part")) == "a part"
    labels = [sign["aria-label"] for sign in summary.select(".sign")]
    own = "GPT-2: needs its checkpoint"
    assert labels == [own, "tiny: fails, fragile", "tiny: fails"]


def test_the_hash_of_verdicts_depends_on_them_alone():
    found = [entry(**record) for record in RECORDS]
    one = attest.attestation("tiny", found, "0123456789")
    assert one["sha256"] == attest.attestation("tiny", found[::-1], "ffff")["sha256"]
    other = [replace(found[0], verdict="fails"), *found[1:]]
    changed = attest.attestation("tiny", other, "0123456789")
    assert changed["sha256"] != one["sha256"]
    table = machines([one, changed], one["verdicts"], one["sha256"]).astext()
    assert table.count(f"{len(found)} of {len(found)}") == 1
    assert (table.count(", the same"), table.count(", another")) == (1, 1)


def test_the_filter_narrows_and_a_view_is_shared_by_its_address(book, chromium):
    shown = """[...document.querySelectorAll('.claims-all .claim')]
      .filter(row => !row.hidden).map(row => row.querySelector('b').textContent)"""

    def choose(name: str, value: str) -> list[str]:
        """Set one field as a reader would; what is shown then."""
        page.evaluate(
            f"(() => {{ const f = document.querySelector('.claims-filter [name={name}]');"
            f"f.value = {json.dumps(value)};"
            "f.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )
        return page.evaluate(shown)

    with tab_in(chromium, PHONE) as page:
        address = (book.out / "book" / "claims.html").as_uri()
        page.go(f"{address}#claim-m3")
        opened = "[...document.querySelectorAll('.claims-all details[open] > summary')]"
        assert page.evaluate(f"{opened}.map(one => one.textContent.slice(0, 5))") == [
            *("Trans", "M3 A "),  # the claim, and the group that it is folded in
        ]
        page.go(address)
        assert sorted(page.evaluate(shown)) == sorted(ROWS)
        assert choose("from", "K") == [name for name in ROWS if name[0] == "K"]
        assert choose("verdict", "fails") == choose("words", "KEY bias") == ["K2"]
        shared = page.evaluate("location.href")
        assert choose("model", "another") == []  # whose verdict is another one
        page.go(shared)
        assert page.evaluate(shown) == ["K2"]
        page.evaluate("document.querySelector('.claims-filter [type=reset]').click()")
        page.until(f"({shown}).length === {len(ROWS)}")
    # This small book is built without MathJax, and its page asks for it.
    absent = ("no-mathjax.js", "ERR_FILE_NOT_FOUND")
    assert not [line for line in page.problems if not any(name in line for name in absent)]


def test_a_link_names_its_chapter_and_leads_to_the_cell_or_the_next_that_is_shown(monkeypatch):
    """Cells 2, 5 and 9 are shown; a figure's label comes first; an appendix has no number."""
    monkeypatch.setattr(links, "link", lambda _app, _page, *where: where)
    chapter, appendix = "notebooks/09-unselectable-keys", "notebooks/book-model"
    labels = SimpleNamespace(data={"anonlabels": {"fig-a": ("notebooks/01-layernorm", "fig-a")}})
    metadata = {chapter: {links.CELLS: "2 5 9"}, appendix: {}}
    sphinx = SimpleNamespace(
        env=SimpleNamespace(get_domain=lambda _name: labels, metadata=metadata)
    )

    def leads_to(page: str, cell: str, execution: int) -> tuple[str, str, str]:
        entry = SimpleNamespace(chapter=page, cell=cell, execution=execution)
        return links.to_cell(sphinx, "claims", entry)

    for execution, shown in ((1, 2), (4, 5), (5, 5), (10, 9)):
        assert leads_to(chapter, "", execution) == (chapter, f"cell-{shown}", "chapter 09")
    assert leads_to(chapter, "fig-a", 1) == ("notebooks/01-layernorm", "fig-a", "chapter 09")
    assert leads_to(appendix, "", 3) == (appendix, "", "appendix")
