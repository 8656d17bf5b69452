"""Pages agree: every number of claims and every verdict that any page states, with what counts.

Verdicts are compared with the frozen records, numbers with the functions that count. On a built
site the same is asked of what the pages show, against the data of its claims page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from bs4 import BeautifulSoup
from site_pages import ROOT, SITE, needs_site

from lnattn_book.chapters import carrying_over
from lnattn_book.claims import survey
from lnattn_book.claims.frozen import frozen_records
from lnattn_book.claims.ledger import as_record
from lnattn_book.claims.listed import claims
from lnattn_book.claims.tally import PAPERS, caveats, sentence, tally
from lnattn_book.claims.verdicts import NOT_COMPUTABLE, SIGNS, VERDICTS, Record, counts_as
from lnattn_book.page.names import model_name
from lnattn_book.page.places import FROZEN_CLAIMS

PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (
        *sorted((ROOT / "notebooks").glob("*.md")),
        *sorted((ROOT / "book").glob("*.md")),
        *(ROOT / name for name in ("README.md", "CLAIMS.md", "CHANGELOG.md")),
    )
}
#: CLAIMS.md and CHANGELOG.md tell what verdicts and rules were, with dates.
OF_TODAY = [name for name in PAGES if name not in {"CLAIMS.md", "CHANGELOG.md"}]
ID = r"\b[KBRMFSDUN]\d{1,2}\b"
ROLE = re.compile(
    rf"\{{claim\}}`(?P<claim>{ID})(?: (?P<verdict>{'|'.join(VERDICTS)}))?(?: on (?P<model>[^`]+))?`"
)
#: A verdict in the present tense, but for what is 'not seen to' do something.
SAID = re.compile(
    r"\b(holds?|fails?|undecided|(?:is|are|stays?|remains?) open|not computable|not seen(?! to))\b"
)
WORDS = [
    "none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
]  # fmt: skip
NUMBER = rf"(?:\d+|{'|'.join(WORDS[1:])})"
#: 'Thirteen claims', '8 of 14 claims', '11 identities', 'the 28 that could fail'.
COUNTED = re.compile(
    rf"\b(?:{NUMBER} of (?:the )?)?{NUMBER} (?-i:[a-z-]+ )?(?:claims|identities)\b"
    rf"|\b{NUMBER} (?:that )?could (?:not )?(?:fail|be asked)\b|\b{NUMBER} (?:are|is) fragile\b",
    re.IGNORECASE,
)


def number(word: str) -> int:
    return int(word) if word.isdigit() else WORDS.index(word.lower())


@cache
def frozen() -> tuple[str, tuple[Record, ...]]:
    """The model of the book's own edition, and its records."""
    model, records = frozen_records(ROOT / FROZEN_CLAIMS, "book-gpt2")
    return model, tuple(records)


def prose(text: str) -> str:
    """A page without its front matter and its code."""
    hidden = r"^---\n.*?^---\n|^```\{code-cell\}.*?^```$"
    return re.sub(hidden, "", text, flags=re.MULTILINE | re.DOTALL)


def sentences(text: str) -> list[str]:
    parts = re.split(r"(?<=[.!?])\s+|\n\s*\n|\n\s*(?=[|*-])", prose(text))
    return [" ".join(part.split()) for part in parts]


# ---- Verdicts ------------------------------------------------------------------------------------


def wrong_verdicts(text: str, records: tuple[Record, ...]) -> Iterator[str]:
    """Each verdict that a role cites and the frozen records do not have."""
    for cited in filter(lambda role: role["verdict"], ROLE.finditer(text)):
        mine = [one for one in records if one.claim == cited["claim"]]
        if cited["model"]:
            mine = [one for one in mine if one.model == cited["model"]]
        else:
            mine = [one for one in mine if one.counted]
        verdicts = {one.verdict for one in mine}
        if verdicts != {cited["verdict"]}:
            yield f"{cited[0]}: {sorted(verdicts) or 'no record'}"


def bare_verdicts(text: str) -> list[str]:
    """Sentences with a claim and a verdict in words, none of which a role holds."""
    told = []
    for said in sentences(text):
        named = [name for name in re.findall(ID, said) if name in claims()]
        held = any(role["verdict"] for role in ROLE.finditer(said))
        if named and not held and not said.startswith("|") and SAID.search(ROLE.sub("", said)):
            told.append(said)
    return told


@pytest.mark.parametrize("name", OF_TODAY)
def test_a_verdict_on_a_page_is_the_frozen_one(name):
    assert list(wrong_verdicts(PAGES[name], frozen()[1])) == []


@pytest.mark.parametrize("name", OF_TODAY)
def test_a_sentence_that_gives_a_verdict_cites_it(name):
    assert bare_verdicts(PAGES[name]) == []


def test_another_verdict_on_a_page_is_seen():
    records = frozen()[1]
    assert list(wrong_verdicts("So ({claim}`F1 holds`).", records))
    assert list(wrong_verdicts("So ({claim}`K11 holds on nobody`).", records))
    assert not list(wrong_verdicts("So ({claim}`F1 holds in part`).", records))
    assert bare_verdicts("Now B14 fails. And {claim}`K2` holds.") == [
        *("Now B14 fails.", "And {claim}`K2` holds."),
    ]
    assert bare_verdicts("Q3 fails. ({claim}`K2 holds`) holds. {claim}`K2` is old.") == []


#: Columns of signs on pages: the model whose verdicts they are today, or why they are none.
COLUMNS = {
    "the model, now": "book-gpt2",
    "the model, then": "dated",
    **{f"seed {seed}": "another training, dated" for seed in range(3)},
}


def test_signs_in_a_table_are_the_frozen_verdicts():
    marks = {mark: verdict for verdict, mark in VERDICTS.items()}
    seen = 0
    for name in OF_TODAY:
        heads: list[str] = []
        for line in PAGES[name].splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not line.startswith("|"):
                heads = []
            elif not heads:
                heads = cells
            elif ROLE.fullmatch(cells[0]) and set(cells[1:]) <= set(marks):
                about = ROLE.fullmatch(cells[0])["claim"]
                for model, mark in zip(map(COLUMNS.__getitem__, heads[1:]), cells[1:], strict=True):
                    verdicts = {
                        one.verdict
                        for one in frozen()[1]
                        if (one.claim, one.model) == (about, model)
                    }
                    if model == "book-gpt2":
                        assert {marks[mark]} == verdicts, f"{name}: {about} of {model}"
                        seen += 1
    assert seen == 14


def test_each_verdict_of_the_figure_stands_in_the_table_of_claims():
    results = ROOT / "data" / "results"
    columns = carrying_over.frozen(results)
    records = frozen()[1]
    columns["gpt2"] = carrying_over.with_records(columns["gpt2"], records, "gpt2")
    for model in carrying_over.TRAINED:
        for name, shown in columns[model].items():
            verdicts = {
                one.verdict
                for one in records
                if one.claim == name and one.model.partition(" (")[0] == model
            }
            assert verdicts in ({shown.verdict}, set()), f"{name} of {model}"
            assert verdicts or shown.verdict == NOT_COMPUTABLE, f"{name} of {model} has no row"


# ---- Numbers -------------------------------------------------------------------------------------


def of_gpt2(verdict: str) -> int:
    columns = carrying_over.frozen(ROOT / "data" / "results")
    column = carrying_over.with_records(columns["gpt2"], frozen()[1], "gpt2")
    return sum(record.verdict == verdict for record in column.values())


def of_seeds() -> list[int]:
    """Of the table of shorter trainings: the claims on which all agree, and all claims."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGES["notebooks/book-model.md"].splitlines()
        if line.startswith("| {claim}")
    ]
    return [sum(len(set(row[2:])) == 1 for row in rows), len(rows)]


def that_left(day: str) -> int:
    """How many claims CLAIMS.md names of those that left the list on a day."""
    (told,) = re.findall(rf"^On {day} .*?(?=\n\n)", PAGES["CLAIMS.md"], re.MULTILINE | re.DOTALL)
    return len({name for name in re.findall(ID, told) if name not in claims()})


def of_slip() -> list[int]:
    """The null models of the slip of 28 November, as CLAIMS.md counts them."""
    (said,) = re.findall(rf"replaced the null of noise by ({NUMBER}) null models", CLAIMS_MD)
    return [number(said)]


CLAIMS_MD = PAGES["CLAIMS.md"]
#: Page, the words around a number of claims, and what the number must be.
NUMBERS: list[tuple[str, str, Callable[[], list[int]]]] = [
    ("book/claims.md", "Thirteen claims of {cite:t}", lambda: [len(survey.ASKED)]),
    ("book/claims.md", "thirteen claims by eight columns",
     lambda: [len(survey.ASKED), 2 * len(carrying_over.TRAINED)]),
    ("book/claims.md", "Thirteen claims on attention heads", lambda: [len(survey.ASKED)]),
    ("book/claims.md", "Seven could not be asked of GPT-2", lambda: [of_gpt2(NOT_COMPUTABLE)]),
    ("book/claims.md", "the null models of seventeen claims", of_slip),
    ("notebooks/book-model.md", "8 of 14 claims have", of_seeds),
    ("CLAIMS.md", "by seventeen null models", of_slip),
    ("CLAIMS.md", "On 28 November eleven claims of the book's own left",
     lambda: [28, that_left("28 November")]),
    ("CHANGELOG.md", "Eleven claims of the book's own have left",
     lambda: [that_left("28 November")]),
]  # fmt: skip


def counted_numbers(page: str) -> list[str]:
    """Every place where a page counts claims, with the words around it."""
    text = " ".join(
        re.sub(r"^```\{code-cell\}(?!.*?figure:).*?^```$", "", page, flags=re.M).split()
    )
    return [text[max(0, hit.start() - 60) : hit.end() + 60] for hit in COUNTED.finditer(text)]


@pytest.mark.parametrize(("page", "words", "counts"), NUMBERS)
def test_a_number_of_claims_is_the_one_that_is_counted(page, words, counts):
    text = " ".join(PAGES[page].split())
    assert words in text, "the page says it otherwise now"
    numbers = re.findall(rf"(?<!GPT-)\b{NUMBER}\b", words, re.IGNORECASE)
    assert list(map(number, numbers)) == counts()


@pytest.mark.parametrize("name", PAGES)
def test_no_page_counts_claims_that_nothing_compares(name):
    compared = [words for page, words, _ in NUMBERS if page == name]
    bare = [said for said in counted_numbers(PAGES[name]) if not any(w in said for w in compared)]
    assert bare == []


def test_another_count_on_a_page_is_seen():
    said = "Here 12 of 69 claims fail, 11 identities, the 29 that could fail, Ten are fragile."
    assert [hit[0] for hit in COUNTED.finditer(said)] == [
        *("12 of 69 claims", "11 identities", "29 that could fail", "Ten are fragile"),
    ]


# ---- The built site ------------------------------------------------------------------------------


@cache
def shown() -> tuple[str, tuple[Record, ...]]:
    """The model of the site, and the records that its claims page shows."""
    data = json.loads((SITE / "claims.json").read_text(encoding="utf-8"))
    found = [one for about in data["claims"] for one in about["found"]]
    return data["model"], tuple(as_record(one, "claims.json") for one in found)


def page_of(name: str) -> BeautifulSoup:
    return BeautifulSoup((SITE / name).read_text(encoding="utf-8"), "html.parser")


def text_of(name: str) -> str:
    return " ".join(page_of(name).select_one("article").get_text(" ").split())


@needs_site
def test_the_site_says_its_counts_as_the_tally_does_on_every_page():
    model, records = shown()
    of_papers = [one for one in claims().values() if one.id[0] in PAPERS]
    said = sentence(tally(claims().values(), records, model))
    assert said in text_of("book/index.html")
    assert said in text_of("book/claims.html")
    for asked in (of_papers, claims().values()):
        assert caveats(asked, records, model).sentence in text_of("book/claims.html")
    front_page = pytest.importorskip("booksite.front_page", reason="Sphinx is not installed")
    assert front_page.waiting(records) in text_of("book/index.html")
    changed = sum(bool(one.changed) for one in claims().values())
    assert f"{changed} of {len(claims())} claims: when, why" in text_of("book/claims.html")
    bars = page_of("book/claims.html").select(".claims-bar [role=img]")
    counts = tally(claims().values(), records, model)
    for letter, bar in zip(PAPERS, bars, strict=True):
        labels = [f"{n} {verdict}" for verdict, n in counts[letter].items() if n]
        assert bar["aria-label"].partition(": ")[2] == ", ".join(labels)


@needs_site
def test_each_line_of_the_table_of_claims_has_the_signs_of_its_records():
    model_of = {(one.claim, model_name(one.model.partition(" (")[0])) for one in shown()[1]}
    rows = page_of("book/claims.html").select(".claim")
    assert [row["id"] for row in rows if row.name == "details"] != []
    for row in rows:
        about = claims()[row["id"].removeprefix("claim-").upper()]
        records = [one for one in shown()[1] if one.claim == about.id]
        own = {model_name(part["data-model"]) for part in row.select(".found")}
        assert own == {model for name, model in model_of if name == about.id}
        signs = {SIGNS[counts_as(about, one.verdict)] for one in records}
        first_line = row.summary.select_one(".said").find_next_siblings("span")
        marks: set[str] = set()
        for cell in first_line:
            if "said" in cell.get("class", []):
                break
            marks |= {sign.text for sign in cell.select(".sign")}
        assert marks - {"–"} == signs - {"–"}, about.id


@needs_site
def test_a_chapters_table_of_claims_says_what_the_claims_page_says():
    verdicts = {(one.claim, model_name(one.model)): one.verdict for one in shown()[1]}
    seen = 0
    for path in sorted((SITE / "notebooks").glob("*.html")):
        for table in BeautifulSoup(path.read_text("utf-8"), "html.parser").select("table"):
            heads = [head.get_text(strip=True) for head in table.select("thead th")]
            if heads[:1] != ["Claim"] or "Holds?" not in heads:
                continue
            name = ""
            for row in table.select("tbody tr"):
                cells = [cell.get_text(" ", strip=True) for cell in row.select("td")]
                name = cells[0].partition(" ")[0] or name
                model, said = cells[heads.index("Holds?") - 1], cells[heads.index("Holds?")]
                if model:
                    shown_as = verdicts[name, model_name(model.replace("’", "'"))]
                    assert said.partition(" ")[2] == shown_as, f"{path.stem}: {name} of {model}"
                    seen += 1
    assert seen > 20
