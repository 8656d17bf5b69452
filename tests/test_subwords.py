"""Pieces and their predecessors by an obvious loop; AUROC of classes by its definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lnattn import plain
from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.affinity.subwords import (
    TOPS,
    PieceRule,
    Pieces,
    Subwords,
    TokenClasses,
    continuation_pieces,
    cycle,
    subword_ranks,
    token_classes,
)
from lnattn.attention.vectors import TokenVectors
from lnattn.errors import CorpusError, TokenError
from lnattn.text.counts import Counts
from lnattn_book.claims import ours
from lnattn_book.claims.verdicts import Record
from lnattn_book.studies.query_classes import CLASSES, KEYS, MEASURES, class_auroc


class WordPiece:
    words = ("[CLS]", "##s", "sap", "##iens", "##1", "19", ".", "é", "[unused1]")
    all_special_ids = (0,)

    def get_vocab(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}


class Bytes:
    """Byte-level pieces: a space is Ġ, a letter outside ASCII is several bytes."""

    words = ("<|endoftext|>", "iens", "Ġsap", "Ġ19", "Ã©", "Ã", "Ġ", ".", "Ġ(")
    all_special_ids = (0,)

    def get_vocab(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    def convert_tokens_to_string(self, pieces: list[str]) -> str:
        return {"Ã©": "é", "Ã": "\ufffd"}.get(pieces[0], pieces[0].replace("Ġ", " "))


def test_classes_by_spelling() -> None:
    classes = token_classes(WordPiece(), 8)  # one id short: a vocabulary may be cut
    assert classes.wordpiece
    assert np.flatnonzero(classes.continuation).tolist() == [1, 3]
    assert np.flatnonzero(classes.word).tolist() == [2, 7]
    classes = token_classes(Bytes(), 12)  # and padded
    assert not classes.wordpiece
    assert np.flatnonzero(classes.continuation).tolist() == [1, 4]
    assert np.flatnonzero(classes.word).tolist() == [2]
    assert np.flatnonzero(classes.letters).tolist() == [1, 2, 4]
    assert not classes.capital.any()


def counts_of(dense: np.ndarray) -> Counts:
    return Counts(dense.sum(axis=0), sparse.csr_array(dense.astype(np.int64)))


def slow_pieces(dense, classes, rule) -> list[tuple[int, int, float, int]]:
    found = []
    for b in range(len(dense)):
        column = dense[:, b].tolist()
        total = sum(column)
        if not classes.continuation[b] or total < rule.min_count:
            continue
        a = column.index(max(column))
        if column[a] / total >= rule.min_share and (classes.word[a] or classes.continuation[a]):
            found.append((b, a, column[a] / total, total))
    return found


@st.composite
def small_counts(draw: st.DrawFn) -> tuple[np.ndarray, TokenClasses, PieceRule]:
    """Few tokens and small counts: ties, tokens without a predecessor, classes without tokens."""
    n = draw(st.integers(1, 9))
    cells = draw(st.lists(st.integers(0, 3), min_size=n * n, max_size=n * n))
    kinds = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    rule = PieceRule(draw(st.integers(1, 6)), draw(st.sampled_from([0.2, 0.25, 0.5, 1.0])))
    return (
        np.reshape(cells, (n, n)),
        TokenClasses(kinds == 1, kinds == 2, np.zeros(n, dtype=bool), wordpiece=True),
        rule,
    )


@settings(max_examples=80, deadline=None)
@given(small_counts())
def test_pieces_equal_a_loop(case) -> None:
    dense, classes, rule = case
    found = continuation_pieces(counts_of(dense), classes, rule)
    rows = zip(found.queries, found.keys, found.share, found.count, strict=True)
    expected = slow_pieces(dense, classes, rule)
    assert [(int(b), int(a), int(n)) for b, a, _, n in rows] == [
        (b, a, n) for b, a, _, n in expected
    ]
    np.testing.assert_allclose(found.share, [share for _, _, share, _ in expected])


def pieces_of(queries, keys) -> Pieces:
    n = len(queries)
    share = np.linspace(0.3, 0.9, n)
    return Pieces(np.array(queries), np.array(keys), share, np.full(n, 100))


@st.composite
def small_vectors(draw: st.DrawFn) -> tuple[TokenVectors, Pieces]:
    """Whole numbers, so that many scores are tied and every sum is exact."""
    heads, vocab, width = draw(st.integers(1, 3)), draw(st.integers(1, 8)), draw(st.integers(1, 3))
    size = heads * vocab * width
    number = st.integers(-2, 2)
    both = [
        torch.tensor(draw(st.lists(number, min_size=size, max_size=size))).double()
        for _ in range(2)
    ]
    n = draw(st.integers(0, vocab))
    queries = sorted(draw(st.permutations(range(vocab)))[:n])
    keys = draw(st.lists(st.integers(0, vocab - 1), min_size=n, max_size=n))
    shaped = [part.reshape(heads, vocab, width) for part in both]
    return TokenVectors(*shaped), pieces_of(np.array(queries, int), np.array(keys, int))


@settings(max_examples=60, deadline=None)
@given(small_vectors())
def test_ranks_equal_a_loop(case) -> None:
    vectors, pieces = case
    found = subword_ranks(vectors, pieces, draws=3)
    for head in range(vectors.n_heads):
        for place, (b, a) in enumerate(zip(pieces.queries, pieces.keys, strict=True)):
            row = (vectors.keys[head] @ vectors.queries[head, b]).numpy()
            assert found.ranks[head, place] == plain.rank(row, int(a))
    assert np.isnan(found.chance).all() == (len(pieces) < 2)
    if not len(pieces):
        with pytest.raises(CorpusError, match="piece"):
            found.table()


def test_chance_is_that_of_exchanged_queries() -> None:
    """Against exchanges made by hand: every draw gives each piece another piece's key."""
    generator = torch.Generator().manual_seed(0)
    vectors = TokenVectors(*torch.randn(2, 2, 40, 3, generator=generator).double())
    pieces = pieces_of(np.arange(12), np.arange(20, 32))
    found = subword_ranks(vectors, pieces, draws=400, seed=1)
    tables = (vectors.queries[:, :12] @ vectors.keys.mT).numpy()
    of_all = np.array(
        [[[plain.rank(row, int(a)) for a in pieces.keys] for row in table] for table in tables]
    )
    np.testing.assert_array_equal(found.ranks, of_all[:, range(12), range(12)])
    others = ~np.eye(12, dtype=bool)
    for t, top in enumerate(TOPS):
        for place, table in enumerate([*of_all, of_all.min(axis=0)]):
            exact = (table[others] <= top).mean()  # each other piece is equally likely
            assert found.chance[t, :, place].mean() == pytest.approx(exact, abs=0.02)
    again = subword_ranks(vectors, pieces, draws=400, seed=1)
    np.testing.assert_array_equal(found.chance, again.chance)
    assert not np.array_equal(found.chance, subword_ranks(vectors, pieces, draws=400).chance)


def test_a_head_that_joins_is_told_from_one_that_likes_its_keys_always() -> None:
    """Head 0 gives each piece its own key; head 1 likes all pieces' keys, whatever the query."""
    one_hot = torch.eye(60).double()
    pieces = pieces_of(np.arange(20), np.arange(30, 50))
    queries, keys = torch.zeros(2, 2, 60, 60).double()
    queries[0, :20], keys[0] = one_hot[30:50], one_hot
    queries[1, :, 0], keys[1, 30:50, 0] = 1, 1
    found = subword_ranks(TokenVectors(queries, keys), pieces, draws=50)
    table = found.table(top=1)
    assert table.loc[0, "found"] == table.loc["best", "found"] == 1
    assert table.loc[0, "chance high"] < table.loc[0, "low"]
    assert table.loc[1, "found"] == table.loc[1, "chance"] == 1  # popular, so chance says so
    assert found.excess(1) == 0  # and the best of both heads cannot tell
    alone = subword_ranks(TokenVectors(queries[:1], keys[:1]), pieces, draws=50)
    assert alone.excess(1) == pytest.approx(1, abs=0.1)
    assert found.heads_of(1).tolist() == [20, 0]


def test_the_rule_of_s1_finds_shares_above_chance() -> None:
    """Above chance, but not twice as many; twice chance, and too few pieces to be sure."""

    def record(found: int, n: int, chance: float) -> Record:
        """`found` of n pieces at rank 1 in head 1, the others at 500; chance around a mean."""
        ranks = np.full((2, n), 500, dtype=np.int32)
        ranks[1, :found] = 1
        drawn = np.linspace(chance - 0.01, chance + 0.01, 101)[None, :, None]
        made = Subwords(pieces_of([0] * n, [0] * n), ranks, np.broadcast_to(drawn, (2, 101, 3)))
        return ours.s1(made, model="any")

    one = record(80, 400, 0.04)
    assert one.verdict == "holds"
    assert "20.0% [16.4%, 24.2%] of 400 pieces, most of them in head 1 (chance 4.0%" in one.words
    assert (one.estimate, one.null, one.n) == (0.2, pytest.approx(0.04), 400)
    assert record(80, 400, 0.15).verdict == "holds in part"
    assert record(5, 40, 0.06).verdict == "undecided"
    assert record(16, 400, 0.04).verdict == "not seen in this model"
    assert record(29, 29, 0.04).verdict == "not computable"


def random_case() -> tuple[TokenVectors, Counts, TokenClasses]:
    generator = torch.Generator().manual_seed(3)
    vectors = TokenVectors(*torch.randn(2, 2, 50, 4, generator=generator).double())
    rng = np.random.default_rng(3)
    counts = Counts.from_documents([np.minimum(rng.zipf(1.3, 600) - 1, 46)], 50)
    kinds = rng.integers(0, 3, 50)
    return vectors, counts, TokenClasses(kinds == 1, kinds == 2, np.zeros(50, dtype=bool))


def test_class_auroc_equals_scikit_learn() -> None:
    vectors, counts, classes = random_case()
    found = class_auroc(vectors, counts, classes, draws=20)
    dense = counts.bigrams.toarray()
    table = found.table().set_index(["queries", "keys", "measure", "head"])
    for i, name in enumerate(CLASSES):
        members = np.flatnonzero(getattr(classes, name) & dense.any(axis=0))
        right = np.flatnonzero(dense[:, members].any(axis=1))
        assert (found.queries[i], found.right_keys[i]) == (len(members), len(right))
        assert len(right) < 50
        for keys, chosen in zip(KEYS, (np.arange(50), right), strict=True):
            for head in (0, 1):
                scores = (vectors.queries[head] @ vectors.keys[head].T).numpy()[:, chosen]
                areas = [plain.auroc(scores[b], dense[chosen, b]) for b in members]
                row = table.loc[(name, keys, "auroc", head)]
                assert row["mean"] == pytest.approx(np.mean(areas))
                assert row["low"] <= row["mean"] <= row["high"]
                rest = table.loc[(name, keys, "wrong query", head), "mean"]
                own = table.loc[(name, keys, "query-specific", head), "mean"]
                assert own == pytest.approx(row["mean"] - rest)
                assert rest != row["mean"]
            unigrams = counts.unigrams[chosen]
            areas = [plain.auroc(unigrams, dense[chosen, b]) for b in members]
            assert found.frequency[i, KEYS.index(keys), 0] == pytest.approx(np.mean(areas))
    np.testing.assert_array_equal(
        found.query_specific_auroc("word"), found.heads[1, 1, MEASURES.index("query-specific")]
    )


def test_a_class_of_one_token_has_no_auroc() -> None:
    vectors, counts, classes = random_case()
    few = replace(classes, continuation=classes.continuation & (np.arange(50) < 1))
    with pytest.raises(CorpusError, match="continuation"):
        class_auroc(vectors, counts, few)


def test_keys_that_take_part() -> None:
    vectors, counts, _ = random_case()
    before = Neighbours.before(counts.bigrams)
    kept = before.among(np.array([0, 2, 7]))
    for token in range(50):
        tokens, how_often = before.of(token)
        mask = np.isin(tokens, [0, 2, 7])
        assert kept.of(token)[1].tolist() == how_often[mask].tolist()
        assert np.array([0, 2, 7])[kept.of(token)[0]].tolist() == tokens[mask].tolist()
    with pytest.raises(TokenError, match="key token 50"):
        head_auroc(vectors, before, None, [50])
    assert np.isnan(head_auroc(vectors, before, None, []).values).all()


def test_bands_of_chance_end_at_their_quantiles() -> None:
    """The table's six columns, from ranks written here; Wilson's interval by its formula."""
    pieces = Pieces(np.arange(4), np.arange(4), np.ones(4), np.ones(4, int))
    ranks = np.array([[1, 5, 11, 40], [2, 30, 10, 41]], dtype=np.int32)
    chance = np.random.default_rng(0).random((2, 60, 3))
    table = Subwords(pieces, ranks, chance).table(top=10)
    assert table["found"].tolist() == [0.5, 0.5, 0.75]
    z, share, n = 1.959963985, 0.75, 4
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    assert table.loc["best", "low"] == pytest.approx(centre - half, abs=1e-8)
    assert table.loc["best", "high"] == pytest.approx(centre + half, abs=1e-8)
    np.testing.assert_allclose(table["chance"], chance[1].mean(axis=0))
    np.testing.assert_allclose(table["chance low"], np.quantile(chance[1], 0.025, axis=0))
    np.testing.assert_allclose(table["chance high"], np.quantile(chance[1], 0.975, axis=0))
    first = Subwords(pieces, ranks, chance).table(top=1)
    assert first["found"].tolist() == [0.25, 0.0, 0.25]
    np.testing.assert_allclose(first["chance"], chance[0].mean(axis=0))
    assert Subwords(pieces, ranks, chance).excess(10) == pytest.approx(
        0.75 - chance[1, :, 2].mean()
    )


def test_examples_come_by_rank_one_for_each_predecessor() -> None:
    pieces = Pieces(
        queries=np.arange(6),
        keys=np.array([7, 8, 7, 9, 6, 5]),
        share=np.array([0.5, 0.6, 0.9, 0.7, 0.8, 0.9]),
        count=np.ones(6, int),
    )
    ranks = np.array([[9, 4, 3, 8, 2, 2], [9, 9, 9, 1, 9, 9]], dtype=np.int32)
    found = Subwords(pieces, ranks, np.full((2, 1, 3), np.nan))
    # Best ranks 9 4 3 1 2 2: place 3, then 5 before 4 by its share, then 2, then 1; 0 has 2's key.
    assert found.examples().tolist() == [3, 5, 4, 2, 1]
    assert found.examples(2).tolist() == [3, 5]
    assert found.heads_of(3).tolist() == [3, 1]


def test_query_tokens_of_a_class_are_drawn() -> None:
    """Two seeds ask different tokens, none of them twice, and their interval is that of 95 %."""
    vectors, counts, classes = random_case()
    before = Neighbours.before(counts.bigrams)
    asked = []
    for seed in (0, 1):
        found = class_auroc(vectors, counts, classes, queries=5, draws=50, seed=seed)
        members = np.flatnonzero(classes.continuation & (before.n_distinct > 0))
        drawn = np.sort(np.random.default_rng(seed).choice(members, 5, replace=False))
        asked.append(drawn.tolist())
        areas = head_auroc(vectors, before, drawn).values[:, drawn]
        np.testing.assert_allclose(found.heads[0, 0, 0, :, 0], areas.mean(axis=1))
        means = []
        rng = np.random.default_rng(seed)
        for _ in range(50):
            means.append(areas[:, rng.integers(5, size=5)].mean(axis=1))
        np.testing.assert_allclose(found.heads[0, 0, 0, :, 1], np.quantile(means, 0.025, axis=0))
        np.testing.assert_allclose(found.heads[0, 0, 0, :, 2], np.quantile(means, 0.975, axis=0))
    assert asked[0] != asked[1]
    assert len(set(asked[0])) == 5


@pytest.mark.parametrize(
    ("words", "capital"),
    [(["Ġnew", "ĠNew", "York", "york", "Ġ9A", "."], [1, 2]), (["##s", "New", "##York", "a"], [1])],
)
def test_capitals(words: list[str], capital: list[int]) -> None:
    """A piece of letters that begins with one; a continuation in WordPiece never does."""
    tokenizer = Bytes() if words[0].startswith("Ġ") else WordPiece()
    tokenizer.words = words
    tokenizer.all_special_ids = ()
    assert np.flatnonzero(token_classes(tokenizer, len(words)).capital).tolist() == capital


def test_the_best_head_is_the_first_of_equal_ones() -> None:
    pieces = pieces_of(np.array([4, 1, 0]), np.array([2, 2, 3]))
    ranks = np.array([[7, 2, 5], [3, 2, 9], [3, 8, 1]], dtype=np.int32)
    found = Subwords(pieces, ranks, np.full((2, 1, 4), np.nan))
    assert found.best_rank.tolist() == [3, 2, 1]
    assert found.best_head.tolist() == [1, 0, 2]
    made = subword_ranks(TokenVectors(*torch.ones(2, 3, 5, 2).double()), pieces, draws=2)
    assert made.pieces is pieces
    assert made.best_rank.tolist() == [1, 1, 1]  # all scores tie, and ties share the better rank


@pytest.mark.parametrize("n", [2, 5, 40])
def test_a_cycle_is_one_round_through_all_places(n: int) -> None:
    """Two rounds side by side, or a place that stays, would come back to 0 too early."""
    for seed in range(5):
        sent = cycle(n, np.random.default_rng(seed))
        place = 0
        visited = []
        for _ in range(n):
            place = int(sent[place])
            visited.append(place)
        assert sorted(visited) == list(range(n))
        assert place == 0


def test_a_wrong_query_of_a_class_is_the_next_of_its_round() -> None:
    """By the definition of the AUROC; the right keys stand before any piece of the class."""
    vectors, counts, classes = random_case()
    dense = counts.bigrams.toarray()
    found = class_auroc(vectors, counts, classes, queries=6, draws=40, seed=4)
    for i, name in enumerate(CLASSES):
        members = np.flatnonzero(getattr(classes, name) & dense.any(axis=0))
        rng = np.random.default_rng(4)
        drawn = np.sort(rng.choice(members, 6, replace=False))
        sent = drawn[cycle(6, rng)]
        right = np.flatnonzero(dense[:, members].any(axis=1))
        for k, keys in enumerate((np.arange(50), right)):
            counted = dense[keys]
            for head in (0, 1):
                scores = (vectors.queries[head] @ vectors.keys[head].T).numpy()[:, keys]
                wrong = [
                    plain.auroc(scores[other], counted[:, b])
                    for b, other in zip(drawn, sent, strict=True)
                ]
                own = [plain.auroc(scores[b], counted[:, b]) for b in drawn]
                of_head = found.heads[i, k, :, head]
                np.testing.assert_allclose(of_head[1, 0], np.mean(wrong))
                np.testing.assert_allclose(of_head[2], band(np.subtract(own, wrong)))
            frequencies = [plain.auroc(counts.unigrams[keys], counted[:, b]) for b in drawn]
            np.testing.assert_allclose(found.frequency[i, k], band(np.array(frequencies)))


def band(areas: np.ndarray) -> list[float]:
    """Mean, and 95 % over 40 resamples of the query tokens by the seed 4."""
    rng = np.random.default_rng(4)
    means = [areas[rng.integers(len(areas), size=len(areas))].mean() for _ in range(40)]
    return [areas.mean(), *np.quantile(means, [0.025, 0.975])]
