"""The studies of the switch, against plain loops over queries; its tables, on made-up studies."""

from __future__ import annotations

from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from made_up import constants

import lnattn
from lnattn.affinity.subwords import TokenClasses
from lnattn_book.chapters import switch as chapter
from lnattn_book.claims.ours import pieces_less_words, texts_drawn
from lnattn_book.figures import switch as figures
from lnattn_book.studies import switch
from lnattn_book.studies.switch import SwitchStudy, asked, chance_of, matched_difference
from lnattn_book.studies.wanted import turned_constants

mpl.use("Agg")


@pytest.fixture
def few_texts(monkeypatch):
    """Two short texts, whose queries are asked from the third token on."""
    llama = lnattn.load_first_layer("book-llama")
    texts = ["The kingfishers sat near rhododendrons.", "Trilobites and geologists, of course."]
    ids = [llama.tokenizer(text)["input_ids"] for text in texts]
    monkeypatch.setattr(switch, "texts_of", lambda _: ids)
    monkeypatch.setattr(switch, "FIRST", 2)
    monkeypatch.setattr(switch, "NULLS", 3)
    return llama, ids


def test_sums_over_texts_are_those_of_a_loop(few_texts) -> None:
    llama, texts = few_texts
    study = switch.switch_study(llama)
    terms_of = switch.split_of(llama)
    classes = switch.classes_of(llama)
    for place, ids in enumerate(texts):
        attention = terms_of(ids).attention().double().numpy()
        without = terms_of(ids).attention(without="ed").double().numpy()
        pieces = []
        words = []
        for i in range(2, len(ids)):
            if classes.continuation[ids[i]] and classes.letters[ids[i - 1]]:
                pieces.append(i)
            elif classes.word[ids[i]] and i + 1 < len(ids) and not classes.continuation[ids[i + 1]]:
                words.append(i)
        assert pieces
        assert words
        for kind, queries in enumerate((pieces, words)):
            assert study.queries[kind, place] == len(queries)
            expected = sum(attention[:, i, i - 1] for i in queries)
            np.testing.assert_allclose(study.attention[kind, place], expected, atol=1e-5)
            expected = sum(without[:, i, i - 1] for i in queries)
            np.testing.assert_allclose(study.without[1, kind, place], expected, atol=1e-5)
            even = sum(1 / (i + 1) for i in queries)
            added = even + study.shares[:, kind, place].sum(axis=0)
            np.testing.assert_allclose(added, study.attention[kind, place], atol=1e-9)
    both = study.attention.sum(axis=0)  # kinds are dealt within a text: their sum stays
    np.testing.assert_allclose(study.exchanged.sum(axis=1), np.stack([both] * 3), atol=1e-9)
    assert np.abs(study.exchanged[:, 0] - study.attention[0]).max() > 1e-3
    means = study.mean(study.attention)
    np.testing.assert_allclose(means, study.attention.sum(1) / study.queries.sum(1)[:, None])


def test_a_model_with_another_constant_is_another_model(few_texts) -> None:
    """Its terms are those of the model, but for the two that k₀ takes part in; so is no sum."""
    llama, (ids, _) = few_texts
    terms = switch.split_of(llama)(ids)
    turned = turned_constants(terms.folded, terms.constants, seed=0)
    other = switch.split_of(llama, turned.k0)(ids)
    for same in ("ee", "e"):
        torch.testing.assert_close(other[same], terms[same], atol=1e-4, rtol=1e-4)
    assert (other.attention() - terms.attention()).abs().max() > 0.1
    i, j = 5, 3
    query = terms.folded.rotated(terms.queries[:, i : i + 1], torch.tensor([i]))
    keys = terms.keys[:, j : j + 1] - terms.constants.k0[:, None] + turned.k0[:, None]
    key = terms.folded.per_head(terms.folded.rotated(keys, torch.tensor([j])))
    by_hand = (query * key).sum(dim=(1, 2))
    torch.testing.assert_close(other.scores()[:, i, j], by_hand, atol=1e-3, rtol=1e-4)


def test_intervals_of_pieces_less_words_leave_a_fortieth_on_either_side() -> None:
    """One head, so that nothing is stretched; both kinds are drawn from the same texts."""
    sums = np.array([[[3.0], [1.0], [4.0]], [[1.0], [5.0], [2.0]]])  # [kind text head]
    queries = np.array([[4, 2, 6], [3, 7, 9]])
    drawn = texts_drawn(3)
    differences = sorted(
        (times @ sums[0, :, 0]) / (times @ queries[0])
        - (times @ sums[1, :, 0]) / (times @ queries[1])
        for times in drawn
    )
    value, low, high = pieces_less_words(sums, queries)
    assert value.tolist() == pytest.approx([8 / 12 - 8 / 19], rel=1e-12)
    assert low.tolist() == pytest.approx([np.percentile(differences, 2.5)], rel=1e-9)
    assert high.tolist() == pytest.approx([np.percentile(differences, 97.5)], rel=1e-9)


def test_queries_behind_the_first_are_asked() -> None:
    letters = np.array([True, False, False])
    classes = TokenClasses(letters, np.array([False, True, False]), np.zeros(3, dtype=bool))
    kinds = asked(classes, [1] * 31 + [1, 0, 1, 1, 0])
    assert np.flatnonzero(kinds[0]).tolist() == [32, 35]
    assert np.flatnonzero(kinds[1]).tolist() == [33]


def test_the_share_of_turned_constants_counts_the_heads_own() -> None:
    turned = np.array([[1.0, -5.0], [-3.0, 0.0], [0.5, 1.0]])
    np.testing.assert_allclose(chance_of(np.array([2.0, -1.0]), turned), [2 / 4, 3 / 4])


def test_tokens_alike_are_compared_within_their_cells() -> None:
    """Frequency alone sets the kinds apart: within a cell they are one nat apart in head 1."""
    generator = np.random.default_rng(0)
    often = np.repeat(np.arange(10.0), 4)
    alike = {"piece": np.stack([often[8:], 0 * often[8:]]), "word": np.stack([often, 0 * often])}
    noise = generator.standard_normal(40) * 1e-9
    wanted = {
        "piece": np.stack([3 * often[8:], 3 * often[8:] + 1]),
        "word": np.stack([3 * often, 3 * often]) + noise,
    }
    assert wanted["piece"].mean() - wanted["word"].mean() > 3
    np.testing.assert_allclose(matched_difference(wanted, alike), [0, 1], atol=1e-6)
    apart = {"piece": alike["piece"] + 100, "word": alike["word"]}
    assert np.isnan(matched_difference(wanted, apart)).all()


def made_up() -> SwitchStudy:
    """Two texts, two heads; head 1 looks back from pieces, by its second term."""
    queries = np.array([[4, 6], [10, 10]])
    attention = np.zeros((2, 2, 2))
    shares = np.zeros((4, 2, 2, 2))
    attention[0, :, 1] = 0.8 * queries[0]
    attention[1, :, 1] = 0.2 * queries[1]
    attention[:, :, 0] = 0.3 * queries
    shares[1, 0, :, 1] = 0.7 * queries[0]
    shares[2, 1, :, 1] = 0.1 * queries[1]
    exchanged = attention[None]
    record = {"terms": ["ee", "ed", "e", "d"]}
    return SwitchStudy(queries, attention, shares, shares, exchanged, record)


def test_tables_say_which_head_and_which_term() -> None:
    study = made_up()
    table = chapter.by_term(study, 1)
    assert table.loc["the head"].round(6).tolist() == [0.8, 0.2, 0.6]
    assert table.loc["token → distance"].round(6).tolist() == [0.7, 0, 0.7]
    assert table.loc["even attention"].round(6).tolist() == [0.1, 0.1, 0]
    row = chapter.most_apart({"minilm": study}).loc["MiniLM"]
    assert (row["head"], row["most by"]) == (1, "token → distance")
    assert row["difference"] == pytest.approx(0.6)
    assert row["its part"] == pytest.approx(0.7)
    backwards = replace(study, attention=study.attention[::-1], queries=study.queries[::-1])
    backwards = replace(backwards, shares=study.shares[:, ::-1])
    row = chapter.most_apart({"a": backwards}).loc["a"]
    assert (row["difference"], row["most by"]) == (pytest.approx(-0.6), "token → distance")
    most = chapter.looking_back_most(study)
    assert (most["head"], round(most["from pieces"], 6)) == (1, 0.8)


def test_the_figure_writes_both_numbers_at_the_token_before() -> None:
    whole = np.array([[0.2, 0.8, 0.0], [0.1, 0.3, 0.6]])
    left = np.array([[0.6, 0.4, 0.0], [0.1, 0.5, 0.4]])
    figure = figures.two_queries([" to", " king", "f"], [1, 2], whole, left)
    first, second = figure.axes
    assert [one.get_text() for one in first.texts + second.texts] == [
        "20%, without 60%",
        "30%, without 50%",
    ]
    assert [ax.title.get_text() or ax.get_title(loc="left") for ax in (first, second)] == [
        "query “king”",
        "query “f”",
    ]
    bars = [bar.get_width() for bar in second.patches]
    assert bars == pytest.approx([0.1, 0.3, 0.6, 0.1, 0.5, 0.4])
    assert [label.get_text() for label in first.get_yticklabels()] == ["to", "king", "f"]
    plt.close(figure)


def test_a_difference_stands_beside_what_its_nulls_give() -> None:
    study = replace(made_up(), exchanged=np.stack([made_up().attention, made_up().attention / 2]))
    turned = np.zeros((2, 2, 2, 2))
    turned[1, 1, :, 0] = [1.0, 4.0]  # draw 1, whole words, head 0: five of twenty queries' all
    weights = constants(
        2,
        queries=study.queries,
        nats=np.array([2.0, -3.0]),
        matched=np.array([1.5, 0.5]),
        turned_nats=np.array([[-1.0, 1.0], [2.5, 2.0], [0.0, 0.0]]),
        turned_attention=turned,
        turned_ed=0 * turned,
    )
    first, second = (chapter.beside_chance(study, weights, head) for head in (0, 1))
    np.testing.assert_allclose(first, [0, 0, 5 / 20, 2, 1.5, 2.35, 2.5, 2 / 4], atol=1e-12)
    np.testing.assert_allclose(second, [0.6, 0.6, 0, -3, 0.5, 1.9, 2, 1 / 4], atol=1e-12)


def test_the_panel_asks_some_texts_of_any_model(few_texts, monkeypatch) -> None:
    llama, texts = few_texts
    monkeypatch.setattr(chapter, "texts_of", lambda _: texts)
    table = chapter.on_texts(llama)
    study = switch.switch_study(llama)
    means = study.mean(study.attention)
    np.testing.assert_allclose(table["from pieces"], means[0], atol=1e-9)
    np.testing.assert_allclose(table["from whole words"], means[1], atol=1e-9)
    rows = chapter.most_apart({"book-llama": study})
    head = rows["head"].iloc[0]
    assert table["most of the difference by"][head] == rows["most by"].iloc[0]
