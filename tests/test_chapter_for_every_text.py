"""What chapter 13 states: ends without a term, attention inside, the rules G1 to G4."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import lnattn
from lnattn_book.chapters import for_every_text as chapter
from lnattn_book.figures import for_every_text as figures
from lnattn_book.studies import guaranteed
from lnattn_book.studies.guaranteed import Guaranteed

TOKENS, DRAWS = 40, 20


def made(pieces: float, words: float, wrong: float, random: float = 0.0) -> Guaranteed:
    """Of two heads, the second of which promises these shares of its tokens more than half."""

    def promised(share: float) -> np.ndarray:
        return np.where(np.arange(TOKENS) < share * TOKENS, 0.9, 0.1)

    least = np.full((2, 2, 2, TOKENS), 0.1)
    least[:, 0, 1], least[:, 1, 1] = promised(pieces), promised(words)
    of_wrong = np.full((2, 2, TOKENS), 0.1)
    of_wrong[:, 1] = promised(wrong)
    of_null = np.full((DRAWS, 2, 2, TOKENS), 0.1)
    of_null[:, 0, 1] = promised(random)
    tokens = np.arange(2 * TOKENS).reshape(2, TOKENS)
    greatest = least + 0.05
    return Guaranteed(
        queries=tokens,
        keys=tokens,
        least=least,
        greatest=greatest,
        wrong=of_wrong,
        near=least,
        null_least=of_null,
        null_greatest=of_null + 0.05,
        null_near=of_null,
        never=np.full((2, 2), 0.3),
        null_never=np.full((3, 2, 2), 0.1),
        record={},
    )


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ((0.8, 0.1, 0.2), "joins most"),
        ((0.3, 0.1, 0.1), "joins some"),
        ((0.8, 0.1, 0.75), "looks back at whatever stands there"),
        ((0.8, 0.75, 0.2), "no more than its nulls"),
        ((0.8, 0.1, 0.2, 0.75), "no more than its nulls"),
        ((0.05, 0.0, 0.0), "no head joins"),
    ],
)
def test_joining_by_planted_shares(shares, says):
    outcome = guaranteed.joining(made(*shares))
    assert (outcome.says, outcome.head) == (says, 1 if says != "no head joins" else outcome.head)
    assert outcome.share == pytest.approx(shares[0])


def test_pairs_apart_are_counted_one_by_one():
    study = made(0.8, 0.1, 0.2)
    low, high = study.least[0, 0, 1], study.greatest[0, 1, 1]
    by_hand = np.mean([[one > other for other in high] for one in low])
    outcome = guaranteed.apart(study)
    assert outcome.share == pytest.approx(by_hand)
    assert outcome.says == "most pairs apart"
    assert guaranteed.apart(made(0.5, 0.5, 0.0)).says == "no more than its nulls"
    assert guaranteed.apart(made(0.0, 0.0, 0.0)).says == "intervals meet"


def test_near_and_never():
    assert guaranteed.near(made(0.8, 0.1, 0.2)).says == "no head looks near in every text"
    everywhere = made(1.0, 1.0, 0.0)
    assert guaranteed.near(everywhere).share == 1
    assert guaranteed.near(everywhere).says == "heads look near in every text"
    found = guaranteed.never(everywhere)
    assert (found.says, found.share) == ("more than by chance", pytest.approx(0.3))


def test_what_is_never_looked_at_stands_beside_the_most_of_the_random_heads():
    """Two heads; two draws of two heads, of which the first loses more."""
    asked = replace(
        made(0.8, 0.1, 0.2),
        never=np.array([[0.1, 0.3], [0.8, 1.0]]),
        null_never=np.array([[[0.2, 0.4], [0.6, 0.8]], [[0.0, 0.2], [0.4, 0.6]]]),
    )
    assert guaranteed.never(asked, 0).says == "as many as by chance"
    assert guaranteed.never(asked, 1).says == "more than by chance"
    assert guaranteed.never(replace(asked, never=asked.never - 0.15), 0).says == (
        "fewer than by chance"
    )
    unasked = replace(asked, never=np.empty((2, 0)), null_never=np.empty((0, 2, 0)))
    table = chapter.never_table({"book-llama": asked, "minilm": unasked})
    assert table.index.tolist() == ["book-llama"]
    assert table.iloc[0].tolist() == pytest.approx([0.2, 0.3, 0.9, 0.7])


def test_a_term_of_nothing_changes_no_end():
    model = lnattn.load_first_layer("book-llama")
    found = lnattn.guarantee(model, head=3, query=290, key=464, length=64)
    ends = chapter.ends_without(model, 290, 464, 3, torch.zeros(64, dtype=torch.float64))
    assert ends == pytest.approx((found.least, found.greatest), abs=1e-6)
    moved = torch.zeros(64, dtype=torch.float64)
    moved[1] = 2.0  # at distance 1 alone
    lower = chapter.ends_without(model, 290, 464, 3, moved)
    odds = found.least / (1 - found.least) / np.exp(2)
    assert lower[0] == pytest.approx(odds / (1 + odds), abs=1e-6)


def test_what_the_query_wishes_is_its_term_by_distance():
    model = lnattn.load_first_layer("book-llama")
    means = chapter.constants(model)
    folded = lnattn.fold_relative(model.attention)
    ids = [5, 9, 290]
    terms = lnattn.distance_terms(folded, model.embeddings, ids, constants=means)
    wish = chapter.wish(model, means, 290, 3)
    expected = (terms.ed[3, 2] / folded.scale).flip(0)
    torch.testing.assert_close(wish[:3].float(), expected, atol=1e-4, rtol=1e-4)


def test_a_measured_window_outside_is_seen():
    inside = chapter.Measured(np.array([0.5]), np.array([0.4]), np.array([0.6]))
    assert inside.inside
    assert not inside._replace(attention=np.array([0.7])).inside
    assert not inside._replace(attention=np.array([0.3])).inside


def test_tables_and_figure():
    studies = {"book-llama": made(0.8, 0.1, 0.2)}
    table = chapter.table(studies)
    assert table["pieces"].tolist() == pytest.approx([0.8, 0.8])
    assert table["wrong predecessors"].tolist() == pytest.approx([0.2, 0.2])
    assert chapter.medians(studies["book-llama"], 1)["pieces, least"] == pytest.approx(0.9)
    figure = figures.intervals(np.full((2, 100), 0.2), np.full((2, 100), 0.7))
    assert [len(ax.collections[0].get_segments()) for ax in figure.axes] == [60, 60]


def test_nulls_lie_as_the_trained_head_does():
    """A draw, a vocabulary, a kind, a head, a token; G4's one draw is of all tokens."""
    study = made(0.3, 0.1, 0.1, 0.2)
    assert study.null_least.shape == study.null_greatest.shape == study.null_near.shape
    assert study.null_least.shape[1:] == study.least[0].shape
    assert (study.null_greatest > study.null_least).all()
    best = (study.null_least[:, 0] >= 0.5).mean(axis=-1).max(axis=-1)  # of each draw
    highest = guaranteed.joining(study).nulls["heads in random order"]
    assert best.min() <= highest <= best.max()
    assert study.null_never.shape[1:] == study.never.shape
