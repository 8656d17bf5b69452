"""The matrix of claims, on claims and records that are made up, so that each cell is known."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from bs4 import BeautifulSoup
from docutils import nodes

from booksite import claims_tables, links
from lnattn.models.choice import Choice
from lnattn_book.claims.listed import Claim
from lnattn_book.claims.verdicts import Leaf, Record


def claim(name: str, **facts) -> Claim:
    given = {"paper": "p", "section": f"§{name}", "line": f"line of {name}", "kind": "number"}
    given |= {"statement": f"Statement of {name}.", "reported": "", "rule": {}, "words": ""}
    given |= {"tolerance": None, "function": "f", "model": "any", "chapter": "c", "test": "t"}
    return Claim(name, **(given | facts))


CLAIMS = {
    one.id: one
    for one in (
        claim("K1", kind="derivation", tolerance=1e-10, quote="as said", reported="7 heads"),
        claim("K2", model="gpt2", grid={"ρ": (0.1, 0.25), "n": (3,)}),
        claim("S1", second={"by": "scipy", "test": "test_x"}, changed={"date": "d1", "why": "<w>"}),
        claim("S2"),
        claim("D1", aside="Nobody can know."),
        claim("U9", line="is it so?", aside="It takes a year."),
    )
}


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """The claims above; links are their words."""
    monkeypatch.setattr(claims_tables, "claims", lambda: CLAIMS)
    monkeypatch.setattr(claims_tables, "default_model", lambda: Choice("tiny", ""))
    monkeypatch.setattr(links, "to_cell", lambda _app, _page, record: nodes.Text(record.cell))
    monkeypatch.setattr(
        links, "of_claim", lambda _app, _page, one, record: [nodes.Text(f"{one.id}:{record.cell}")]
    )


def record(name: str, verdict: str = "holds", words: str = "w", **facts) -> Record:
    return Record(verdict, words, claim=name, **({"model": "tiny", "cell": "x"} | facts))


def soup(node: nodes.Node) -> BeautifulSoup:
    """What a page shows of nodes: raw HTML as it is, mathematics and text as their words."""
    html = "".join(text.astext() for text in node.findall(nodes.Text))
    return BeautifulSoup(html, "html.parser")


def matrix(*records: Record) -> BeautifulSoup:
    return soup(claims_tables.matrix(None, "book/claims", list(records)))


def behind(page: BeautifulSoup, name: str) -> str:
    """What a click on a claim opens, as text."""
    row = page.find(id=f"claim-{name.lower()}")
    row.summary.decompose()
    return " ".join(row.get_text(" ").split())


def signs(page: BeautifulSoup, name: str) -> list[list[str]]:
    """Of each line of a claim, the labels of its signs."""
    summary = page.find(id=f"claim-{name.lower()}").summary
    lines: list[list[str]] = []
    for part in summary.find_all("span", recursive=False):
        if "said" in part.get("class", []):
            lines.append([])
        lines[-1] += [sign["aria-label"] for sign in part.select(".sign")]
    return lines


def test_columns_are_the_models_that_were_asked_most_asked_first_and_absent_ones_count():
    records = [record("S1", model=name) for name in ("a", "b", "random keys", "majority, x")]
    records.append(record("S2", model="b"))
    columns_of = claims_tables.columns_of
    sub_words = [CLAIMS["S1"], CLAIMS["S2"]]
    assert columns_of(sub_words, records) == ("b", "a", "trained here", "none")
    assert columns_of([CLAIMS["S2"]], records) == ("b",)
    assert columns_of([CLAIMS["K2"]], records) == ("GPT-2",), "it waits for its checkpoint"
    assert columns_of([CLAIMS["K1"]], records) == ()
    many = [claim(f"K{n}", model="gpt2-medium") for n in range(3, 6)]
    asked = [record("K3", model="gpt2-medium (frozen)"), record("K4", model="c")]
    assert columns_of(many, asked) == ("gpt2-medium", "c")
    assert columns_of(many, [record("K3", model="c"), record("K4", model="c")]) == (
        *("gpt2-medium", "c"),  # absent of all three; the other was asked twice
    )


def test_each_source_shows_the_models_that_it_was_asked_of_and_no_other():
    page = matrix(record("K1", model="minilm"), record("S1"), record("S2", model="random keys"))
    heads = [[name.text for name in head.select("span")] for head in page.select(".claims-head")]
    assert heads == [["", "GPT-2", "MiniLM"], ["", "tiny", "none"]]
    styles = [table["style"] for table in page.select(".claims-matrix")]
    assert styles == ["--columns: 2", "--columns: 2"]
    for head, table in zip(heads, page.select(".claims-matrix"), strict=True):
        for summary in table.select(".claim > summary"):
            assert len(summary.find_all("span", recursive=False)) % len(head) == 0


def test_claims_of_the_papers_stand_open_and_others_in_folded_groups():
    page = matrix(record("K1"), record("S1", "fails"), record("S1"), record("S2", "undecided"))
    ids = [row["id"] for row in page.select(".claim")]
    assert ids == ["claim-k1", "claim-k2", "claim-s1", "claim-s2"], "none for what stays open"
    (group,) = page.select(".claims-group")
    assert [row["id"] for row in group.select(".claim")] == ["claim-s1", "claim-s2"]
    # By the first record of each claim.
    assert group.summary.text == "This book, on sub-words: 2 claims ✗ 1 ? 1"
    assert [row["data-source"] for row in page.select(".claim")][::3] == [
        "Kamoda et al. 2025",
        "this book, on sub-words",
    ]
    assert page.find(id="claim-s1")["class"] == ["claim", "from-S"]


def test_a_group_of_one_says_so(monkeypatch):
    monkeypatch.setattr(claims_tables, "claims", lambda: {"S1": CLAIMS["S1"]})
    assert matrix().select_one(".claims-group > summary").text == "This book, on sub-words: 1 claim"


def test_a_line_has_each_sign_once_and_those_that_count_first():
    page = matrix(
        record("S1", "fails", counted=False),
        record("S1", "holds", stands=(7, 9)),
        record("S1", "holds", stands=(6, 9)),
        record("S1", "undecided", model="other", leaves=(Leaf("one", "fails", "5"),)),
        record("S1", "undecided", model="third", leaves=(Leaf("one", "holds", "6"),)),
        record("K1", "holds", leaves=(Leaf("two", "fails", "5"), Leaf("one", "holds", "6"))),
    )
    assert signs(page, "S1") == [
        ["tiny: holds, fragile", "tiny: fails", "other: undecided", "third: undecided"],
        ["other: fails", "third: holds"],
    ]
    assert signs(page, "K1") == [["tiny: identity or arithmetic"], ["tiny: fails"], ["tiny: holds"]]
    assert signs(page, "K2") == [["GPT-2: needs its checkpoint"]]
    fragile = page.select(".fragile")
    assert [sign["aria-label"] for sign in fragile] == ["tiny: holds, fragile"]
    asked = matrix(record("K2", "fails", model="gpt2 (frozen)"))
    assert signs(asked, "K2") == [["GPT-2: fails"]]


def test_behind_a_claim_stands_all_that_is_known_of_it():
    said = behind(
        matrix(record("K1", rule="r > 1", null_model="noise", null_verdict="fails")), "K1"
    )
    assert said.startswith("Statement of K1. (Kamoda et al. 2025, §K1)")
    for part in (
        "The source: “… as said …”",
        "Reported: 7 heads",
        "Rule: r > 1",
        "Kind and tolerance: derivation; a later build may differ by 1e-10",
        "Null model: noise. It gets, by the same rule: tiny: fails",
    ):
        assert said.count(part) == 1, part
    for part in ("Thresholds", "second way", "LNATTN_MODEL"):
        assert part not in said
    said = behind(matrix(), "K2")
    assert "Thresholds tried: ρ 0.1, 0.25; n 3" in said
    assert "may differ by a thousandth" in said
    assert said.endswith("needs its checkpoint: LNATTN_MODEL=gpt2 make book")
    for part in ("The source", "Reported", "Rule: ", "Null model"):
        assert part not in said
    assert "A second way: scipy, held by test_x" in behind(matrix(), "S1")


def test_records_of_one_model_and_verdict_are_together_those_of_this_build_first():
    found = [
        record("S1", "holds", "first", model="other", cell="a"),
        record("S1", "fails", "second", cell="b", rule="r1", note="a note"),
        record("S1", "fails", "third", cell="c", rule="r2", stands=(6, 9)),
        record("S1", "fails", "third", cell="d", rule="r2", stands=(6, 9)),
    ]
    page = matrix(*found)
    blocks = page.select("#claim-s1 .found")
    assert [(block["data-model"], block["data-verdict"]) for block in blocks] == [
        ("tiny", "fails"),
        ("other", "holds"),
    ]
    own = " ".join(blocks[0].get_text().split())
    assert own.startswith("✗ fails · tiny")
    assert own.endswith("S1:b · also c · also d")
    assert "second; a note Rule: r1" in own
    assert own.count("third. Robustness: the verdict stands with 6 of 9") == 1
    assert "Rule: r2" in own
    assert "Robustness" not in blocks[1].text
    assert "Rule:" not in blocks[1].text, "it names none"
    assert behind(page, "S1").count("Rule: r1") == 1, "with its record, and not of the claim"
    alone = matrix(found[1]).select_one("#claim-s1 .found").text
    assert "Rule:" not in alone, "it is said above"


def test_what_is_about_gpt2_comes_before_this_builds_model():
    page = matrix(record("K2"), record("K2", "fails", model="z/gpt2"), record("K2", model="a"))
    models = [block["data-model"] for block in page.select("#claim-k2 .found")]
    assert models == ["z/gpt2", "tiny", "a"]


def test_parts_are_said_with_their_signs_and_an_effect_behind_them():
    leaves = (Leaf("one", "fails", "5 of $n$"), Leaf("two", "holds", "6"))
    effect = {"estimate": 0.5, "unit": "nats", "n": 30}
    shown = matrix(record("S1", "fails", "never shown", leaves=leaves, **effect))
    said = shown.select_one("#claim-s1 .found").text
    assert "✗ one: 5 of n; ✓ two: 6. Effect: 0.5 nats, n = 30" in said
    assert "never shown" not in said
    plain = matrix(record("S1", "fails", "shown")).select_one("#claim-s1 .found").text
    assert "Effect" not in plain


def test_a_claim_that_stays_open_says_what_was_found_by_model_and_where():
    records = [
        record("D1", "holds", "0.5 of all", cell="one"),
        record("D1", "undecided", "a third", model="other", cell="two"),
        record("K1", "fails", "no part of it"),
    ]
    container = claims_tables.paragraphs(None, "book/claims", records)
    about, unasked = container.children
    assert (about["ids"], unasked["ids"]) == (["claim-d1"], ["claim-u9"])
    assert about.astext() == (
        "D1. line of D1. Tiny, holds: 0.5 of all. Other, undecided: a third. Nobody can know."
        " (one.)"
    )
    assert unasked.astext() == "U9. is it so? It takes a year."


def test_a_changed_rule_shows_what_it_was_by_the_records_that_had_another():
    records = [
        record("S1", "fails", before="holds"),
        record("S1", "holds", model="other"),
        record("S2", "holds", model="third", before="fails"),
    ]
    page = soup(claims_tables.changed_rules(records))
    assert page.summary.text.startswith("1 of 6 claims")
    (row,) = page.tbody("tr")
    cells = [cell.text.replace("\xa0", " ") for cell in row("td")]
    assert cells == ["S1", "d1", "<w>", "tiny ✓ → ✗"]
    assert [cell.text for cell in page.thead("th")] == ["Claim", "Changed", "Why", "Before → now"]


def test_a_null_model_is_said_once_with_what_it_gets_in_each_model():
    records = [
        record("S1", null_model="noise", null_verdict="fails"),
        record("S1", null_model="noise", null_verdict="holds", null_draws=(19, 20), model="other"),
        record("S1", model="third"),
    ]
    assert claims_tables.null_in_words(records) == (
        "noise. It gets, by the same rule: tiny: fails; other: holds (19 of 20)"
    )
    assert claims_tables.null_in_words(records[2:]) == ""


def test_a_machine_has_a_line_with_what_its_build_gave():
    frozen = {"K1 on tiny": "holds", "K2 on tiny": "fails", "K3 on tiny": "holds"}
    build = {
        "date": "2026-11-26", "processor": "A & B", "platform": "Linux", "commit": "0123456789",
        "versions": {"torch": "2.6", "numpy": "2.1"}, "sha256": "fedcba9876543210",
        "verdicts": {"K1 on tiny": "holds", "K2 on tiny": "holds"},
    }  # fmt: skip
    same = build | {"verdicts": frozen, "sha256": "0" * 64}
    page = soup(claims_tables.machines([build, same], frozen, "0" * 64))
    heads, first, second = page("tr")
    assert len(heads("th")) == len(first("td")) == 6
    assert [cell.text for cell in first("td")] == [
        "2026-11-26", "A & B; Linux", "torch 2.6, numpy 2.1", "01234567", "1 of 3",
        "fedcba98, another",
    ]  # fmt: skip
    assert [cell.text for cell in second("td")][4:] == ["3 of 3", "00000000, the same"]


def test_what_stands_between_dollars_is_mathematics():
    parts = claims_tables.inline("$a$ is\n  $b$, as said")
    assert [(type(part), part.astext()) for part in parts] == [
        (nodes.math, "a"), (nodes.Text, " is "), (nodes.math, "b"), (nodes.Text, ", as said"),
    ]  # fmt: skip
    assert claims_tables.inline("") == []


def test_a_bar_is_as_long_as_its_counts():
    page = soup(claims_tables.bar("A paper", {"holds": 3, "fails": 0, "undecided": 1}))
    assert page.select_one("[role=img]")["aria-label"] == "A paper: 3 holds, 1 undecided"
    spans = [(span["style"], span.text, span["class"]) for span in page("span")]
    assert spans == [
        ("flex: 3", "✓ 3", ["verdict-holds"]),
        ("flex: 1", "? 1", ["verdict-undecided"]),
    ]


# ---- Links ---------------------------------------------------------------------------------------


def site(**options) -> SimpleNamespace:
    """Sphinx as links ask it: a reference with one function and one module."""
    known = {
        "objects": {"a.f": SimpleNamespace(docname="api", node_id="a.f")},
        "modules": {"a.m": SimpleNamespace(docname="api", node_id="module-a.m")},
    }
    return SimpleNamespace(
        env=SimpleNamespace(
            get_domain=lambda _name: SimpleNamespace(data=known), metadata={"p": {}}
        ),
        builder=SimpleNamespace(get_relative_uri=lambda _page, target: f"../{target}.html"),
        config=SimpleNamespace(html_theme_options=options),
    )


def test_a_function_is_linked_where_the_reference_has_it():
    for name, address in {"a.f": "../api.html#a.f", "a.m": "../api.html#module-a.m"}.items():
        link = links.to_function(site(), "p", name)
        assert (link["refuri"], link.astext()) == (address, name[-1])
        assert link["internal"] is True
    bare = links.to_function(site(), "p", "a.b.g")
    assert isinstance(bare, nodes.literal)
    assert bare.astext() == "g"


def test_a_test_is_linked_where_the_repository_is_known():
    name = "tests/test_a.py::test_b"
    assert links.to_test(site(repository_url=None).config, name).astext() == "tests/test_a.py"
    known = {"repository_url": "https://example.org/b/"}
    for branch, shown in (("", "main"), ("other", "other")):
        link = links.to_test(site(**known, repository_branch=branch).config, name)
        assert link["refuri"] == f"https://example.org/b/blob/{shown}/tests/test_a.py"


def test_a_page_by_itself_is_linked_to_its_top():
    link = links.link(site(), "p", "other", "", "words")
    assert (link["refuri"], link.astext()) == ("../other.html", "words")


def test_cells_that_are_shown_are_named_by_their_count():
    def cell(**facts) -> nodes.container:
        return nodes.container("", **facts)

    counted = cell(nb_element="cell_code", exec_count=3)
    others = [cell(nb_element="cell_code"), cell(nb_element="cell_output", exec_count=4), cell()]
    last = cell(nb_element="cell_code", exec_count=12)
    for parts, shown in (([counted, *others, last], "3 12"), (others, None)):
        app = site()
        app.env.docname = "p"
        links.name_cells(app, nodes.section("", *parts))
        assert app.env.metadata["p"].get(links.CELLS) == shown
    assert (counted["ids"], last["ids"]) == (["cell-3"], ["cell-12"])
    assert not any(other["ids"] for other in others)
    assert re.fullmatch(r"cell-\d+", counted["ids"][0])
