"""The front page: minutes of the chapters, links of this build, and what it says.

Skipped, by name, where Sphinx (the extra `book`) is not installed.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from small_site import build

from booksite.explorer.publishing import sentences
from booksite.front_page import HEADLINE, waiting
from booksite.opening import WORDS
from lnattn import fold, load_first_layer, six_terms
from lnattn.text.tokenizers import encode_documents
from lnattn_book.claims.listed import claims
from lnattn_book.claims.verdicts import Record
from lnattn_book.page import places

ROOT = places.repository()
#: The parts of the site that the front page needs.
PARTS = ("front_page", "opening", "explorer.page")
INDEX = """# Start

Takes {minutes}`index notebooks/03-six-terms` minutes.

```{papers-tally}
```

{try-this}`text=A <cat>&head=1`

```{toctree}
notebooks/03-six-terms
```
"""
CHAPTER = f"""# 3 · Six terms

{"word " * 3 * WORDS}
"""


def page_of(folder: Path, index: str = INDEX, **settings: object) -> tuple[str, str]:
    """The front page of a book of two pages, and the warnings."""
    out, warnings, _ = build(
        folder,
        {"index.md": index, "notebooks/03-six-terms.md": CHAPTER},
        extensions=[
            "myst_parser",
            "booksite.front_page",
            "booksite.opening",
            "booksite.explorer.page",
        ],
        author="Some & one",
        **settings,
    )
    return (out / "index.html").read_text(encoding="utf-8"), warnings


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, str, str]:
    folder = tmp_path_factory.mktemp("book")
    return folder, *page_of(folder)


def test_minutes_of_pages_are_summed(built) -> None:
    _, page, warnings = built
    assert "Takes 4 minutes." in page
    assert not warnings


def test_what_came_of_the_claims_is_counted(built) -> None:
    _, page, _ = built
    assert re.search(r"<p>Of the \d+ claims of the two papers \d+ are identities", page)


def test_what_is_not_there_is_a_warning(tmp_path) -> None:
    index = "# Start\n\nTakes {minutes}`index nowhere elsewhere` minutes.\n\n"
    page, warnings = page_of(tmp_path, index)
    assert "nowhere is no page of the book; name another" in warnings
    assert "Takes ? minutes." in page


def test_try_this_is_a_safe_link_to_a_view(built) -> None:
    _, page, _ = built
    link = 'href="book/token-explorer.html#text=A+%3Ccat%3E&head=1"'
    assert f'<a class="try-this" {link}>' in page


def test_the_books_front_page_says_what_chapters_assert() -> None:
    text = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    held = re.findall(r"^% held: (\S+): (.*)$", text, re.MULTILINE)
    assert len(held) >= 4
    assertions = [*(ROOT / "notebooks").glob("*.md")]
    assertions += (ROOT / "src" / "lnattn_book" / "chapters").glob("*.py")
    code = "".join(path.read_text(encoding="utf-8") for path in assertions)
    asserted = re.sub(r"(says|holds)\(\s+", r"\1(", code)
    for chapter, statement in held:
        assert (ROOT / "notebooks" / f"{chapter}.md").is_file()
        assert re.search(rf'(says|holds)\("{re.escape(statement)}"', asserted), statement


def attention_of(terms, head: int, query: int, without: str) -> np.ndarray:
    return (terms.attention(without=without) if without else terms.attention())[head, query].numpy()


@pytest.mark.parametrize(
    ("name", "head", "query", "key", "left"),
    [  # of three heads: attention on the key with all terms, and without one; see widget.js
        ("minilm", 2, 5, 4, {"": (0.99, 1), "pp": (0, 0.01)}),
        ("minilm", 5, 5, 4, {"": (0.6, 0.7), "ee": (0, 0.05), "pp": (0, 0.2), "e": (0.9, 1)}),
        ("book-gpt2", 0, 8, 0, {"": (0.2, 0.3), "p": (0, 1 / 9)}),
    ],
)
def test_the_widgets_heads_do_what_it_says_of_them(name, head, query, key, left) -> None:
    model = load_first_layer(name)
    ids = next(iter(encode_documents([sentences()[0]], model.tokenizer, 64)))
    words = [model.tokenizer.decode([token]).strip().lower() for token in ids]
    assert (words[query], words[key]) in {("york", "new"), ("largest", "<|endoftext|>")}
    terms = six_terms(fold(model.attention), model.embeddings, torch.as_tensor(ids))
    for without, (low, high) in left.items():
        assert low <= attention_of(terms, head, query, without)[key] <= high, without
    if name != "book-gpt2" and head == 2:  # every token, not this one alone
        before = terms.attention()[head].diagonal(-1)[1:]
        assert before.min() > 0.9
    if name == "book-gpt2":
        assert attention_of(terms, head, query, "").argmax() == key


def test_a_page_describes_itself_with_whole_addresses_and_escaped_titles(tmp_path):
    pages = {"index.md": '# Six \\<terms\\>\n\nWords of a "chapter" & more.\n'}
    settings = {"extensions": ["myst_parser", "booksite.head"], "project": "Tiny book"}
    out, _, _ = build(tmp_path, pages, html_baseurl="https://example.org/b&c/", **settings)
    page = (out / "index.html").read_text("utf-8")
    found = dict(re.findall(r'<meta (?:name|property)="([^"]+)" content="([^"]*)" />', page))
    assert found["og:title"] == "Six &lt;terms&gt;"
    assert "chapter" in found["description"] == found["og:description"]
    assert found["og:url"] == "https://example.org/b&amp;c/index.html"
    assert found["og:image"] == "https://example.org/b&amp;c/_static/preview.png"


def test_the_front_page_counts_the_claims_that_wait_for_gpt2() -> None:
    about = [one.id for one in claims().values() if one.needs_checkpoint and one.could_fail]
    small = waiting([])
    assert small.startswith(f"{len(about)} of the {len(about)} falsifiable claims about GPT-2 wait")
    on_gpt2 = [Record("holds", "", claim=name, model="gpt2") for name in about]
    on_another = [Record("holds", "", claim=name, model="book-gpt2") for name in about]
    rest = f"{len(about) - 2} of the {len(about)} "
    assert waiting([*on_gpt2[:2], *on_another]).startswith(rest)
    assert all(f"{words}" in small for words in HEADLINE.values())
    some = [Record("holds", "", claim=name, model="gpt2") for name in ("K3", "K5", "K10")]
    assert "headline: what goes with frequency." in waiting(some)
    assert "headline" not in waiting([*some, Record("fails", "", claim="K11", model="gpt2")])
    no_answer = Record("not computable", "", claim=about[1], model="gpt2")
    assert waiting([on_gpt2[0], no_answer]).startswith(f"{len(about) - 1} of")
    medium = [Record("holds", "", claim=name, model="gpt2-medium") for name in about]
    assert waiting([*on_gpt2, *medium]).startswith(f"All {len(about)} falsifiable claims")
