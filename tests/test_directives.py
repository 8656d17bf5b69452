"""Theorems, proofs, exercises and solutions: numbered, linked, each with an id of its own."""

from __future__ import annotations

import re
from collections import Counter

import pytest

pytest.importorskip("sphinx_exercise", reason="the book's tools are absent: pip install .[book]")

from bs4 import BeautifulSoup
from small_site import build

PAGE = """
# Chapter

:::{prf:theorem} Half-space
:label: thm-half

A key inside the hull is never the first.
:::

:::{prf:proof}
It is a mean of others.
:::

:::{prf:proof}
:class: dropdown

It is *also* a mean of itself.
:::

By {prf:ref}`thm-half`, {ref}`ex-terms` has an answer.

:::{exercise}
:label: ex-terms

How many terms?
:::

:::{solution} ex-terms
:class: dropdown

Six.
:::

:::{exercise}
:label: ex-heads

How many heads?
:::

:::{solution} ex-heads
:class: dropdown

Twelve.
:::
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out, warnings, _ = build(
        tmp_path_factory.mktemp("book"),
        {"index.md": PAGE},
        extensions=["myst_parser", "sphinx_proof", "sphinx_exercise", "booksite.directives"],
        myst_enable_extensions=["colon_fence"],
        numfig=True,
        exercise_style="solution_follow_exercise",
    )
    assert warnings == ""
    return BeautifulSoup((out / "index.html").read_text(encoding="utf-8"), "html.parser")


def test_every_id_is_there_once(page):
    ids = Counter(tag["id"] for tag in page.find_all(id=True))
    assert {"thm-half", "ex-terms", "ex-heads"} <= set(ids)
    assert [name for name, count in ids.items() if count > 1] == []


def test_theorems_and_exercises_are_numbered_and_linked(page):
    titles = [" ".join(title.text.split()) for title in page.select(".admonition-title")]
    assert titles == [
        "Theorem 1 (Half-space)", "Proof", "Exercise 1", "Solution", "Exercise 2", "Solution"
    ]  # fmt: skip
    links = {link["href"]: link.text for link in page.select("p a.reference")}
    assert links["#thm-half"] == "Theorem 1"
    assert links["#ex-terms"] == "Exercise 1"


def test_a_folded_proof_keeps_its_words(page):
    plain, folded = page.select("div.proof.proof, div.admonition.proof:not(.theorem)")[-2:]
    assert re.sub(r"\s+", " ", plain.text.strip()) == "Proof. It is a mean of others."
    assert "dropdown" in folded["class"]
    assert [part.text for part in folded.find_all("p")] == ["Proof", "It is also a mean of itself."]
