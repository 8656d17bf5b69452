"""`lnattn report`: numbers by other ways, models of all kinds, and what it must not write over."""

from __future__ import annotations

import errno
import html.parser
import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import families
import numpy as np
import odd_models
import pandas as pd
import pytest
import torch
from families import LEARNED_EACH, RELATIVE_EACH, VOCAB, config_of, make
from filelock import FileLock
from naming import naming
from random_models import (
    attention_layer,
    embeddings_of,
    plain_layer,
    plain_rows,
    random_gpt2,
)
from scipy import sparse
from scipy.spatial import ConvexHull
from scipy.special import comb, ndtr, softmax
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from transformers import GPT2Config, GPT2LMHeadModel

import lnattn
from lnattn import paths
from lnattn import plain as by_plain
from lnattn.affinity.auroc import Neighbours
from lnattn.affinity.subwords import PIECE_RULES, continuation_pieces, token_classes
from lnattn.attention.folding import fold
from lnattn.attention.nulls import permuted_weights
from lnattn.attention.vectors import TokenVectors, token_vectors
from lnattn.cli.main import main
from lnattn.errors import CorpusError, LnattnError, ResultError
from lnattn.reporting import drawing, fold_error, keys, pieces, positions, sigma
from lnattn.reporting.about import facts
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.heads import HeadsOnText, heads_on_text, listed
from lnattn.reporting.part import Part, Table, plain
from lnattn.reporting.report import PARTS, Report
from lnattn.rotary.fold import MeanVectors, fold_relative
from lnattn.text import counting
from lnattn.text.counts import Counts
from lnattn_book.claims.listed import claim


@pytest.fixture(scope="module")
def book() -> Report:
    """The report, whatever the user has told NumPy to do of a number that is too small."""
    with np.errstate(all="raise"):
        return lnattn.report("book-gpt2", seed=1)


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return Evidence(lnattn.load_first_layer("book-gpt2"), seed=1)


def texts_of(report: Report) -> dict[str, str]:
    return {part.name: " ".join(part.sentences) for part in report.parts}


# ---- numbers, another way ------------------------------------------------------------------------


def test_every_part_of_the_book_model_has_its_data(book):
    assert [part.name for part in book.parts] == list(PARTS)
    assert not [part.name for part in book.parts if part.is_missing]
    for part in book.parts:
        assert part.numbers, part.name
        assert part.figures or part.tables


def test_what_the_model_is(book):
    assert dict(facts(lnattn.load_first_layer("book-llama"))) == {
        "Model": "book-llama",
        "Family": "llama",
        "Heads": "8 of width 32, which share 2 key heads",
        "Width": "256",
        "Vocabulary": "8,192 tokens",
        "Positions": "rotary",
        "Norm": "RMSNorm, ε = 1e-05",
        "Biases": "none",
        "Attention": "a query sees itself and earlier keys",
        "Scores are divided by": "5.657",
        "Exact here": "the sum of four terms at every distance, from folded weights",
    }
    numbers = book.part("about").numbers
    assert numbers["Positions"] == "256 learned, added to the input"
    assert numbers["Biases"] == "queries, keys, values, output, norm"


def test_kinds_are_sums_of_terms():
    one = np.ones(3)
    found = HeadsOnText(
        terms=("ee", "ep", "pe", "pp", "e", "p"),
        share=np.array(
            [
                [0.4, 0.1, 0.1, 0.1, 0.2, 0.1],
                [0.3, 0.2, 0.1, 0.1, 0.2, 0.1],
                [0.3, 0.0, 0.0, 0.1, 0.3, 0.3],
            ]
        ).T,
        divergence=one,
        near=one,
        first=one,
        even_near=0.1,
    )
    assert found.kinds == ["compares tokens", "looks by place", "reads constants"]


def test_joining_by_scikit_learn(book, evidence):
    counts, _ = evidence.counted()
    vectors = token_vectors(evidence.folded, evidence.model.embeddings)
    before = Neighbours.before(counts.bigrams)
    numbers = book.part("joining").numbers
    from lnattn.reporting.joining import sampled_queries

    queries = sampled_queries(Evidence(evidence.model, seed=1))
    assert len(queries) == numbers["queries"]
    by_hand, frequent, best = [], [], []
    for query in queries:
        positive, weight = before.labels(int(query))
        scores = vectors.scores([int(query)])[:, 0].numpy()
        by_hand.append(roc_auc_score(positive, scores[5], sample_weight=weight))
        frequent.append(roc_auc_score(positive, counts.unigrams, sample_weight=weight))
        best.append(scores.argmax(axis=1))
    assert numbers["auroc"][5] == pytest.approx(np.mean(by_hand), abs=1e-5)
    assert numbers["frequency"] == pytest.approx(np.mean(frequent), abs=1e-10)
    _check_pairs(numbers, counts, queries, np.array(best))
    skill = numbers["auroc"] - numbers["wrong_query"]
    assert np.allclose(numbers["skill"][:, 0], skill)
    _check_random_heads(evidence, before, queries, numbers["random_heads"])
    for pair in numbers["pairs"].itertuples():
        scores = vectors.scores([pair.query])[pair.head, 0]
        assert int(scores.argmax()) == pair.key
        assert counts.bigrams[pair.key, pair.query] == pair.count >= 20
        assert pair.share == pytest.approx(pair.count / counts.bigrams[:, [pair.query]].sum())


def _check_pairs(numbers, counts, queries, best):
    """The six largest shares of each skilled head, of four heads at most, the most skilled first.

    best: [query head], the key with the highest score.
    """
    mean, low, _ = numbers["skill"].T
    skilled = [head for head in np.argsort(mean)[::-1] if low[head] > 0][:4]
    expected = []
    for head in skilled:
        rows = []
        for query, key in zip(queries, best[:, head], strict=True):
            column = counts.bigrams[:, [query]]
            if counts.bigrams[key, query] >= 20:
                rows.append((counts.bigrams[key, query] / column.sum(), head, key, query))
        expected += sorted(rows, reverse=True)[:6]
    found = numbers["pairs"][["share", "head", "key", "query"]]
    np.testing.assert_allclose(found.to_numpy(float), np.array(expected, float))


def _check_random_heads(evidence, before, queries, numbers):
    """The AUROC of one head, from its permuted weights, by scikit-learn."""
    model = permuted_weights(evidence.model, evidence.seed, heads_only=True)
    assert torch.equal(model.embeddings.W_E, evidence.model.embeddings.W_E)
    vectors = token_vectors(fold(model.attention), model.embeddings)
    by_hand = []
    for query in queries:
        positive, weight = before.labels(int(query))
        scores = vectors.scores([int(query)])[2, 0].numpy()
        by_hand.append(roc_auc_score(positive, scores, sample_weight=weight))
    assert numbers["auroc"][2] == pytest.approx(np.mean(by_hand), abs=1e-5)
    assert np.allclose(numbers["skill"][:, 0], numbers["auroc"] - numbers["wrong_query"])


def test_a_text_without_pairs_asks_about_no_token(evidence):
    from lnattn.reporting.joining import joining

    alone = Evidence(evidence.model, corpus=[[464]] * 12)
    with pytest.raises(CorpusError, match="two tokens"):
        joining(alone)


def test_no_head_of_shuffled_tokens_joins(evidence):
    """The same vectors, given to other tokens: what is left is chance."""
    from lnattn.reporting import joining

    counts, _ = evidence.counted()
    vectors = token_vectors(evidence.folded, evidence.model.embeddings).shuffled(3)
    found = joining.joining_of(evidence, vectors, Neighbours.before(counts.bigrams))
    assert found.of_model.heads == []
    assert "No head knows more" in joining._sentences(found)[0]


def test_joining_is_told_beside_random_heads(book, evidence):
    """With the embeddings kept, heads that learnt nothing have no skill; where one had, it says."""
    from lnattn.reporting import joining

    part = book.part("joining")
    random_heads = part.numbers["random_heads"]
    assert np.abs(random_heads["skill"][:, 0]).max() < 0.01 < part.numbers["skill"][:, 0].max()
    assert part.sentences[1].endswith("under the same embeddings, no head does.")
    table = part.tables[0].rows
    assert np.allclose(table[joining.RANDOM_SKILL], random_heads["skill"][:, 0])
    assert joining.RANDOM_SKILL in part.tables[0].html()
    skill = joining.Skill(random_heads["auroc"], random_heads["wrong_query"], part.numbers["skill"])
    passing = joining.Joining(np.arange(3), skill, skill, frequency=0.5)
    assert joining._sentences(passing)[1].endswith(f"{len(skill.heads)} of them do.")


def test_norms_of_a_rotary_model_by_hand():
    model = lnattn.load_first_layer("book-llama")
    part = lnattn.report(model, only="sigma").part("sigma")
    rho = (model.embeddings.W_E.double().square().mean(dim=1) + 1e-5).sqrt().numpy()
    found = part.numbers["quantiles"]
    assert found["low"] == pytest.approx(np.quantile(rho, 0.025), rel=1e-5)
    assert found["median"] == pytest.approx(np.median(rho), rel=1e-5)
    assert found["high"] == pytest.approx(np.quantile(rho, 0.975), rel=1e-5)
    assert "ρ" in part.title
    counts, _ = Evidence(model).counted()
    often = counts.unigrams >= 10
    assert 100 < often.sum() < len(often)
    correlation = spearmanr(rho[often], counts.unigrams[often]).statistic
    half = 1.959964 * np.sqrt((1 + correlation**2 / 2) / (often.sum() - 3))
    ends = np.tanh(np.arctanh(correlation) + half * np.array([-1, 1]))
    told = part.numbers["frequency"]
    assert [told["rho"], told["low"], told["high"]] == pytest.approx([correlation, *ends], abs=1e-4)


def test_the_rule_for_pieces_is_that_of_the_claim():
    given = claim("S1").rule
    for name, kind in (("wordpiece", "wordpiece"), ("byte_level", "byte-level")):
        least, share = given[name]
        assert PIECE_RULES[kind].min_count == least
        assert PIECE_RULES[kind].min_share == share


def test_distances_of_a_rotary_model():
    made = lnattn.report("book-llama", only="positions").part("positions")
    table = made.numbers["by_head"]
    shares = table[["token → token", "token → distance", "any → token", "any → distance"]]
    assert np.allclose(shares.sum(axis=1), 1)
    curve = made.numbers["curve"][2]
    alone = np.exp(curve - curve.max())
    alone /= alone.sum()
    assert table["on the key before"][2] == pytest.approx(alone[1])
    assert table["on the nearest ten"][2] == pytest.approx(alone[:10].sum())
    assert table["on itself"][2] == pytest.approx(alone[0])
    # The mean query and key by the counts, turned by every distance, over √32.
    model = lnattn.load_first_layer("book-llama").to(torch.float64)
    counts, _ = Evidence(model).counted()
    weights = torch.from_numpy(counts.unigrams / counts.unigrams.sum())
    for name, layer in (
        ("curve", model.attention),
        ("permuted", permuted_weights(model, 0, heads_only=True).attention),
    ):
        folded = lnattn.fold_relative(layer)
        rows = model.embeddings.W_E
        means = [weights @ project(rows) for project in (folded.queries, folded.keys)]
        terms = lnattn.distance_terms(
            folded, model.embeddings, [0] * 256, constants=MeanVectors(*means)
        )
        by_distance = terms.d[:, -1].flip(-1) / 32**0.5
        np.testing.assert_allclose(made.numbers[name], by_distance, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("single", "double", "words"),
    [
        pytest.param(1e-6, 1e-15, "what is left is rounding", id="rounding"),
        pytest.param(1e-6, 5e-8, "does not fall further", id="a softmax in float32"),
        pytest.param(1e-2, 1e-2, "something more than rounding", id="a wrong formula"),
    ],
)
def test_what_is_said_of_errors(single, double, words):
    import pandas as pd

    table = pd.DataFrame({"dtype": ["float32", "float64"], "attention": [single, double]})
    assert words in fold_error.sentences_of(table)[1]


# ---- numbers of a small random model, by the plain lines ----------------------------------------


@pytest.fixture(scope="module")
def small() -> lnattn.FirstLayer:
    """Six heads of width 2, 32 positions and 40 tokens; gains and biases are random."""
    gpt2 = random_gpt2(seed=5, d_model=12, heads=6, vocab=40, context=32)
    return lnattn.FirstLayer(embeddings_of(gpt2), attention_layer(gpt2))


def of_ids(*lengths: int) -> list[list[int]]:
    rng = np.random.default_rng(2)
    return [rng.integers(40, size=n).tolist() for n in lengths]


def test_heads_are_means_over_the_queries_of_all_texts(small):
    """Of 29 queries and of 19; what each term adds to the divergence, as a share of their sum."""
    texts = of_ids(30, 20)
    found = heads_on_text(Evidence(small, corpus=texts))
    W_E, W_P = plain_rows(small.embeddings)
    folded = by_plain.fold(plain_layer(small.attention))
    shares = dict.fromkeys(found.terms, 0.0)
    divergence, near, first, even, queries = 0.0, 0.0, 0.0, 0.0, 0
    for ids in texts:
        terms = by_plain.six_terms(W_E[ids], W_P[: len(ids)], folded)
        alpha = by_plain.attend(sum(terms.values()), folded.scale)
        for name, of_text in by_plain.kl_shares(terms, folded.scale).items():
            shares[name] = shares[name] + of_text[:, 1:].sum(axis=1)
        for i in range(1, len(ids)):
            row = alpha[:, i, : i + 1]
            divergence = divergence + (row * np.log(row * (i + 1))).sum(axis=1)
            near = near + row[:, max(0, i - 9) :].sum(axis=1)
            first = first + row[:, 0]
            even += min(10, i + 1) / (i + 1)
            queries += 1
    assert queries == 29 + 19
    np.testing.assert_allclose(found.divergence, divergence / queries, atol=1e-9)
    for row, name in enumerate(found.terms):
        np.testing.assert_allclose(found.share[row], shares[name] / divergence, atol=1e-9)
    for mine, theirs in ((found.near, near), (found.first, first)):
        np.testing.assert_allclose(mine, theirs / queries, atol=1e-9)
    assert found.even_near == pytest.approx(even / queries)
    table = found.table()
    assert table["nats"].tolist() == found.divergence.tolist()
    assert table["pe"].tolist() == found.share[found.terms.index("pe")].tolist()
    for name, title in (("near", "nearest ten"), ("first", "first key")):
        assert table[title].tolist() == getattr(found, name).tolist()


def test_terms_of_positions_are_those_of_the_last_query(small):
    """50, 500 and 1000 of 1,024 are 2, 16 and 31 of 32; 1/σ is its mean over the 40 tokens."""
    numbers = positions.by_place(Evidence(small)).numbers
    W_E, W_P = plain_rows(small.embeddings)
    folded = by_plain.fold(plain_layer(small.attention))
    inverse = (1 / by_plain.sigma_of_pairs(W_E, W_P, folded.eps)).mean(axis=0)
    T_pp = W_P[31] @ folded.W_QK @ W_P.T * inverse[31] * inverse
    T_p = folded.b_QK @ W_P.T * inverse
    assert numbers["queries"] == [2, 16, 31]
    np.testing.assert_allclose(numbers["T^pp"], T_pp, atol=1e-9)
    np.testing.assert_allclose(numbers["T^p"], T_p, atol=1e-9)
    alone = softmax((T_pp + T_p) / 2**0.5, axis=1)
    np.testing.assert_allclose(numbers["attention"], alone, atol=1e-9)
    without = replace(small, embeddings=replace(small.embeddings, W_E=None))
    bare = positions.by_place(Evidence(without)).numbers
    np.testing.assert_allclose(bare["T^pp"], W_P[31] @ folded.W_QK @ W_P.T, atol=1e-9)
    np.testing.assert_allclose(bare["T^p"], folded.b_QK @ W_P.T, atol=1e-9)
    assert "attention" not in bare


def test_the_spread_of_sigma_leaves_position_0_out(small):
    numbers = sigma.sigma(Evidence(small)).numbers
    W_E, W_P = plain_rows(small.embeddings)
    mean, lower, upper = by_plain.inverse_sigma_band(W_E, W_P, small.attention.ln.eps)
    np.testing.assert_allclose(numbers["mean"], 1 / mean, rtol=1e-9)
    np.testing.assert_allclose(numbers["low"], 1 / upper, rtol=1e-9)
    np.testing.assert_allclose(numbers["high"], 1 / lower, rtol=1e-9)
    assert numbers["spread"] == pytest.approx(np.median((upper / lower)[1:]))
    assert numbers["spread"] != pytest.approx(np.median(upper / lower))


def test_keys_of_the_longest_text_are_corners_of_their_hull_or_lost(small):
    """Six heads of width 2: corners by Qhull; as many Gaussian keys by facets of a polygon."""
    texts = of_ids(20, 30)
    table = keys.unselectable_table(Evidence(small, corpus=texts))
    W_E, W_P = plain_rows(small.embeddings)
    layer = plain_layer(small.attention)
    y = by_plain.layer_norm(W_E[texts[1]] + W_P[:30], layer.gamma, layer.beta, layer.eps)
    h = np.linspace(-9, 9, 20_001)
    corners = 60 * 29 / 2 * np.sqrt(1 / np.pi) * np.trapezoid(np.exp(-h * h) * ndtr(h) ** 28, h)
    assert comb(30, 2) * 2 == 60 * 29 / 2
    assert list(table.index) == [0, 1, 2, 3, 4, 5]
    for head, row in table.iterrows():
        of_head = ConvexHull(y @ layer.W_K[head] + layer.b_K[head]).vertices
        assert (row["keys"], row["rank"]) == (30, 2)
        assert row["unselectable"] == pytest.approx(1 - len(of_head) / 30)
        assert row["Gaussian keys"] == pytest.approx(1 - corners / 30, rel=1e-6)
    assert table["unselectable"].nunique() > 1


def test_intervals_of_skill_hold_for_all_heads_together():
    """Of two heads each at 97.5 %: 1.25 % and 98.75 % of 1,000 means that are drawn here."""
    from lnattn.affinity.auroc import head_auroc, wrong_queries
    from lnattn.reporting import joining

    generator = torch.Generator().manual_seed(0)
    queries, keys_of = (torch.randn(2, 40, 3, generator=generator).double() for _ in range(2))
    vectors = TokenVectors(queries, keys_of)
    rng = np.random.default_rng(4)
    before = Neighbours.before(
        sparse.csr_array(rng.integers(4, size=(40, 40)) * (rng.random((40, 40)) < 0.2))
    )
    asked = np.arange(3, 33)
    found = joining.skill_of(vectors, before, asked, seed=6)
    own = head_auroc(vectors, before, asked).values[:, asked]
    wrong = wrong_queries(vectors, before, asked, draws=5, seed=6)
    np.testing.assert_allclose(found.auroc, own.mean(axis=1))
    np.testing.assert_allclose(found.wrong, wrong.mean(axis=1))
    rng = np.random.default_rng(6)
    means = [(own - wrong)[:, rng.integers(30, size=30)].mean(axis=1) for _ in range(1000)]
    np.testing.assert_allclose(found.interval[:, 0], (own - wrong).mean(axis=1))
    np.testing.assert_allclose(found.interval[:, 1], np.quantile(means, 0.0125, axis=0))
    np.testing.assert_allclose(found.interval[:, 2], np.quantile(means, 0.9875, axis=0))


def test_pieces_are_looked_up_in_every_head(book, evidence):
    """The ranks of one head's keys, counted here; fewer pieces fit than would be drawn."""
    numbers = book.part("subwords").numbers
    counts, _ = evidence.counted()
    classes = token_classes(evidence.model.tokenizer, 8192)
    fitting = continuation_pieces(counts, classes, PIECE_RULES["byte-level"])
    assert numbers["pieces"] == numbers["pieces_that_fit"] == len(fitting) < 1000
    vectors = token_vectors(evidence.folded, evidence.model.embeddings)
    found = []
    for query, key in zip(fitting.queries, fitting.keys, strict=True):
        scores = vectors.scores([int(query)])[:, 0].numpy()
        found.append((scores > scores[:, [key]]).sum(axis=1) < 10)
    table = numbers["by_head"]
    np.testing.assert_allclose(table["found"][:-1], np.mean(found, axis=0))
    assert table.loc["best", "found"] == pytest.approx(np.any(found, axis=1).mean())
    assert numbers["above_chance"] == (table["found"]["best"] > table["chance high"]["best"])


def test_of_many_pieces_some_are_drawn(evidence, monkeypatch):
    """50 of them without replacement, in their order, with all that is known of each."""
    counts, _ = evidence.counted()
    classes = token_classes(evidence.model.tokenizer, 8192)
    fitting = continuation_pieces(counts, classes, PIECE_RULES["byte-level"])
    monkeypatch.setattr(pieces, "MOST", 50)
    ranked, number = pieces.subwords_of(evidence)
    chosen = np.sort(np.random.default_rng(1).choice(len(fitting), 50, replace=False))
    assert number == len(fitting)
    for name in ("queries", "keys", "share", "count"):
        drawn = getattr(ranked.pieces, name)
        np.testing.assert_array_equal(drawn, getattr(fitting, name)[chosen])


# ---- the page ------------------------------------------------------------------------------------


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "path", "rect", "circle"):
            self.opened.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        if tag not in ("path", "rect", "circle"):
            assert self.opened.pop() == tag


def test_the_page_holds_all_that_it_shows(book, tmp_path):
    path = book.write(tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    tags = _Tags()
    tags.feed(text)
    assert tags.opened == []
    assert all(address.startswith("#") for address in tags.addresses)
    assert "<script" not in text
    assert "url(" not in text
    assert "prefers-color-scheme:dark" in text
    record = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert list(record["parts"]) == list(PARTS)
    assert record["model"] == "book-gpt2"
    assert len(record["parts"]["heads"]["numbers"]["share"]) == 6
    assert book.write(tmp_path / "report.html") == path  # its own


def test_names_and_tokens_are_text():
    """A name or a token that looks like markup is shown, and is none."""
    name = "<img src=x onerror=alert(1)>"
    part = Part("about", name, [name], numbers={})
    assert "<img" not in part.html()
    assert "<img" not in Report(name, [part], _record()).html()
    assert "<b>" not in drawing.joined([("<b>", "<b>", "<b>")])
    row = (name, 0.1, 0.0, 0.2)
    assert "<img" not in drawing.intervals([row], name, reference=0.0)


def _record():
    return {"versions": {"lnattn": "1"}, "date": "2026-11-26", "seconds": 1, "seed": 0}


def test_long_curves_keep_their_lows_and_highs():
    values = np.zeros(5000)
    values[1234] = 7
    values[4321] = -3
    places, kept = drawing.thinned(values)
    assert len(kept) <= 240
    assert (places[kept.argmax()], places[kept.argmin()]) == (1234, 4321)


def test_plain_values_for_json():
    value = {"a": np.array([1.0, np.nan]), "b": (np.int64(2), np.bool_(True)), "c": np.float32(0.1)}
    assert plain(value) == {"a": [1.0, None], "b": [2, True], "c": 0.1}


def test_what_rounds_to_zero_in_a_table_has_no_sign():
    small = pd.DataFrame({"share": [-1e-4, -0.5], "skill": [-1e-4, -0.25], "as it is": [-0.0, 1.0]})
    text = Table("Small", small, {"share": ".1%", "skill": ".2f"}).html()
    cells = re.findall("<td[^>]*>([^<]*)<", text)
    assert cells == ["0.0%", "0.00", "0.0", "-50.0%", "-0.25", "1.0"]


def test_heads_in_words():
    assert listed([3]) == "head 3"
    assert listed([1, 4]) == "heads 1 and 4"
    assert listed([0, 2, 7]) == "heads 0, 2 and 7"


# ---- models of all kinds -------------------------------------------------------------------------


@pytest.mark.parametrize("name", odd_models.ODD)
def test_odd_models(name, tmp_path):
    folder = odd_models.make(name, tmp_path / "model")
    made = lnattn.report(folder)
    assert [part.name for part in made.parts] == list(PARTS)
    for part in made.parts:
        for sentence in part.sentences:
            assert sentence.endswith(".")
            assert "\n" not in sentence
            assert "nan" not in sentence
    missing = {part.name for part in made.parts if part.is_missing}
    assert {"joining", "subwords", "guarantees"} <= missing  # no counts of these tokens ship
    assert "lnattn count" in " ".join(made.part("joining").sentences)
    assert not missing & {"about", "fold-error", "heads", "sigma", "keys"}
    made.write(tmp_path / "report.html")


def test_a_bare_module_without_tokenizer():
    model = random_gpt2(seed=3, vocab=40, context=32).float()
    made = lnattn.report(model)
    missing = {part.name for part in made.parts if part.is_missing}
    assert missing == {"heads", "joining", "keys", "subwords", "guarantees"}
    assert "no tokenizer" in texts_of(made)["heads"]
    assert "rounding" in texts_of(made)["fold-error"]
    ids = torch.randint(0, 40, (3, 30), generator=torch.Generator().manual_seed(0)).tolist()
    again = lnattn.report(model, corpus=ids, only=["heads", "keys", "subwords"])
    assert {part.name for part in again.parts if part.is_missing} == {"subwords"}


@pytest.mark.parametrize("kind", LEARNED_EACH)
def test_a_bare_module_in_half_precision(kind):
    made = lnattn.report(make(kind, torch.bfloat16), only=["about", "fold-error", "sigma"])
    assert "bfloat16" in texts_of(made)["fold-error"]
    assert not any(part.is_missing for part in made.parts)


@pytest.mark.parametrize("kind", RELATIVE_EACH)
def test_relative_positions(kind, tmp_path):
    model = make(kind, torch.float32)
    model.save_pretrained(tmp_path)
    ids = torch.randint(0, VOCAB, (2, 30), generator=torch.Generator().manual_seed(0)).tolist()
    made = lnattn.report(tmp_path, corpus=ids)
    missing = {part.name for part in made.parts if part.is_missing}
    without_norm = fold_relative(lnattn.load_first_layer(tmp_path).attention).divisor == "none"
    assert missing <= {"joining", "subwords", "guarantees"} | ({"sigma"} if without_norm else set())
    shares = made.part("heads").numbers["share"]
    assert shares.shape[0] == 4
    assert np.allclose(shares.sum(axis=0), 1, atol=1e-5)


def test_a_first_layer_alone_is_compared_with_nothing(evidence):
    made = lnattn.report(evidence.model, only="fold-error")
    assert made.part("fold-error").is_missing
    assert "give the model's name" in texts_of(made)["fold-error"]


def test_a_partial_checkpoint_shows_its_positions(evidence):
    model = evidence.model
    partial = replace(model, embeddings=replace(model.embeddings, W_E=None), tokenizer=None)
    made = lnattn.report(partial)
    shown = {part.name for part in made.parts if not part.is_missing}
    assert shown == {"about", "positions"}
    assert "σ is not known" in texts_of(made)["positions"]
    assert "no token embeddings" in texts_of(made)["sigma"]


def test_only_the_shards_of_the_first_layer(tmp_path):
    """A Llama of three layers in shards, of which those of later layers are absent."""
    config = config_of("llama-default")
    config.num_hidden_layers = 3
    make(config, torch.float32).save_pretrained(tmp_path, max_shard_size="12KB")
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    needed = ("embed_tokens.", "layers.0.self_attn.", "layers.0.input_layernorm.")
    where = index["weight_map"].items()
    wanted = {file for name, file in where if any(part in name for part in needed)}
    others = set(index["weight_map"].values()) - wanted
    assert others
    for file in others:
        (tmp_path / file).unlink()
    made = lnattn.report(tmp_path, only=["about", "fold-error", "sigma"])
    assert not any(part.is_missing for part in made.parts)


# ---- own texts and counts ------------------------------------------------------------------------


def test_own_counts_and_texts(tmp_path, evidence):
    counts, _ = evidence.counted()
    file = counts.save(tmp_path / "counts.npz")
    text = tmp_path / "mine.txt"
    text.write_text("A river runs through the old city, and nobody knows its name. " * 20)
    made = lnattn.report(evidence.model, corpus=[file, text], only=["heads", "joining"])
    assert "the 1 texts given" not in made.part("heads").figures[0].caption
    assert "the text given" in made.part("heads").figures[0].caption
    assert made.part("joining").numbers["counts"] == "the counts given"
    assert made.part("joining").numbers["tokens_counted"] == counts.tokens


def test_counts_of_another_vocabulary(evidence):
    other = Counts.from_documents([np.arange(9000) % 8999], 9000)
    made = lnattn.report(evidence.model, corpus=other, only="joining")
    assert made.part("joining").is_missing
    assert "over 9,000 tokens and the model has 8,192" in texts_of(made)["joining"]


def test_few_counts_are_too_few(evidence):
    made = lnattn.report(evidence.model, corpus=[[1, 2, 3, 4] * 20], only=["joining", "subwords"])
    assert "fewer than 30" in texts_of(made)["subwords"]


# ---- the door ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({"only": "nope"}, naming("'nope'", "about"), id="only"),
        pytest.param({"only": []}, naming("about", "heads"), id="none"),
        pytest.param({"seed": -1}, "seed", id="seed"),
    ],
)
def test_what_is_refused(given, words):
    with pytest.raises(LnattnError, match=words) as caught:
        lnattn.report("book-gpt2", **given)
    assert str(caught.value).endswith(".")


def test_an_unknown_part_of_a_report(book):
    with pytest.raises(ResultError, match="'x'"):
        book.part("x")


def test_what_must_not_be_written_over(book, tmp_path):
    with pytest.raises(ResultError, match=naming(".html")):
        book.write(tmp_path / "report.json")
    foreign = tmp_path / "mine.html"
    foreign.write_text("mine")
    with pytest.raises(ResultError, match=naming("mine.html", "lnattn")):
        book.write(foreign)
    assert foreign.read_text() == "mine"
    result = tmp_path / "counts.json"
    result.write_text('{"versions": {"lnattn": "1"}}')
    with pytest.raises(ResultError, match=naming("counts.json", "report")):
        book.write(tmp_path / "counts.html")
    assert book.write(foreign, force=True) == foreign
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ResultError):
        book.write(tmp_path / "folder.html", force=True)


def test_a_full_disk_leaves_the_old_page(book, tmp_path, monkeypatch):
    path = book.write(tmp_path / "report.html")
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lnattn.storage.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        book.write(path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_the_command(tmp_path, capsys):
    out = tmp_path / "r.html"
    words = ["report", "book-gpt2", "--out", str(out), "--only", "keys,about"]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(f"{out}: about, keys; ")
    assert main([*words, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["parts"]) == ["about", "keys"]
    assert main(["report", "book-gpt2", "--out", str(out), "--only", "kees"]) == 1
    assert "there is no part 'kees'" in capsys.readouterr().err
    assert main(["report", "book-gpt2", "--out", str(tmp_path / "r.txt")]) == 1
    assert "must end in .html" in capsys.readouterr().err


def test_the_command_says_what_is_missing(tmp_path, capsys):
    folder = odd_models.make("one-head", tmp_path / "model")
    out = tmp_path / "r.html"
    words = ["report", str(folder), "--out", str(out), "--only", "about,joining"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "joining: No counts of this vocabulary" in shown.err
    assert shown.out.startswith(f"{out}: about; ")


def test_the_input_is_not_written_over(tmp_path, capsys):
    page = tmp_path / "text.html"
    page.write_text("a text")
    assert main(["report", "book-gpt2", "--out", str(page), "--corpus", str(page)]) == 1
    assert "would be written over" in capsys.readouterr().err
    assert Path(page).read_text() == "a text"


def test_a_report_is_short_in_words(book):
    assert repr(book).startswith("<Report on book-gpt2: about, fold-error, heads")
    assert len(repr(book.part("heads"))) < 500


@pytest.mark.parametrize("name", ["nope.jsonl", "nope.npz", "no/such/*.txt"])
def test_a_corpus_that_is_named_and_not_there_ends_before_anything_is_computed(
    name, tmp_path, capsys, monkeypatch
):
    opened = "lnattn.reporting.report._opened"
    monkeypatch.setattr(opened, lambda *_: pytest.fail("a model was loaded"))
    page = tmp_path / "r.html"
    for only in ([], ["--only", "heads"]):
        command = ["report", "book-gpt2", "--out", str(page), "--corpus", name, *only]
        assert main(command) == 1
        assert f"there is no {'file of counts' if '.npz' in name else 'corpus file'} {name}" in (
            capsys.readouterr().err
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["freeze", "verify"])
def test_counts_that_are_named_and_not_there_end_before_anything_is_computed(
    command, tmp_path, capsys
):
    place = "--out" if command == "freeze" else "--folder"
    named = ["--counts", "a.npz", "b.npz", "c.npz"]
    assert main([command, "book-llama", place, str(tmp_path), *named]) == 1
    assert "there is no file of counts a.npz" in capsys.readouterr().err


def test_no_corpus_is_the_one_that_ships_and_a_number_is_none():
    assert lnattn.report("book-gpt2", corpus=None, only="about").parts
    with pytest.raises(CorpusError, match="corpus must be files"):
        lnattn.report("book-gpt2", corpus=3)
    with pytest.raises(ResultError, match="no part 3"):
        lnattn.report("book-gpt2", only=3)


def test_the_text_that_ships_is_read_without_a_cache(monkeypatch):
    monkeypatch.setattr("lnattn.text.corpora._library", lambda: pytest.fail("datasets was asked"))
    assert not lnattn.report("book-gpt2", only="heads").part("heads").is_missing


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOLCK, "No locks available"),
        PermissionError(errno.EACCES, "Permission denied", "/home/other/.cache"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/proc/nowhere"),
        NotImplementedError("FileSystem does not appear to support flock; use SoftFileLock"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_cache_that_cannot_be_used_is_named_and_a_part_that_is_lost_is_a_failed_exit(
    error, tmp_path, capsys, monkeypatch
):
    def fail(*_words, **_options):
        raise error

    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a cat " * 50}))
    monkeypatch.setattr("datasets.load_dataset", fail)
    page, text = tmp_path / "r.html", tmp_path / "a.jsonl"
    command = ["report", "book-gpt2", "--out", str(page), "--corpus", str(text), "--only"]
    assert main([*command, "heads"]) == 1
    said = capsys.readouterr().err
    assert "cannot keep or lock what it reads of a.jsonl" in said
    assert "set HF_HOME" in said
    assert main([*command, "about", "--force"]) == 0


def test_a_count_goes_on_where_files_cannot_be_locked_and_processes_not_started(
    tmp_path, capsys, monkeypatch
):
    def fail(*_words, **_options):
        raise OSError(errno.ENOSYS, "Function not implemented")

    (tmp_path / "a.jsonl").write_text("\n".join([json.dumps({"text": "a cat " * 50})] * 40))
    monkeypatch.setattr(counting, "FileLock", type("", (FileLock,), {"acquire": fail}))
    monkeypatch.setattr(counting, "ProcessPoolExecutor", fail)
    out = tmp_path / "out.npz"
    command = ["count", str(tmp_path / "a.jsonl"), "--tokenizer", "book-gpt2", "--out", str(out)]
    assert main([*command, "--workers", "2"]) == 0
    said = capsys.readouterr().err
    assert "cannot be locked" in said
    assert "counted in one process" in said
    assert Counts.load(out).tokens > 0


def test_a_user_without_a_home_has_a_cache_beside_temporary_files(monkeypatch):
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("LNATTN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(paths.Path, "home", nobody)
    assert paths.cache_folder().parent == Path(tempfile.gettempdir())


def test_heads_that_prefer_nothing_are_said_to_prefer_nothing():
    """An untrained model: what little its attention is uneven by is of no kind."""
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_head": 4, "n_layer": 1, "n_positions": 64}
    vocabulary = lnattn.load_first_layer("book-gpt2").embeddings.vocab_size
    config = GPT2Config(**sizes, vocab_size=vocabulary, bos_token_id=0, eos_token_id=0)
    generator = np.random.default_rng(0)
    texts = [generator.integers(0, vocabulary, 60).tolist() for _ in range(3)]
    part = lnattn.report(GPT2LMHeadModel(config), corpus=texts, only="heads").part("heads")
    assert part.numbers["divergence"].max() < 0.005
    assert set(part.numbers["kinds"]) == {"prefers no key"}
    assert part.sentences[0].startswith("No head prefers any key: the attention of all 4 is even")
    assert "compare" not in " ".join(part.sentences)


def test_heads_of_which_some_prefer_nothing_are_told_apart():
    rows = dict.fromkeys(("near", "first"), np.zeros(2))
    found = HeadsOnText(
        terms=("ee", "e", "pp"),
        share=np.array([[0.9, 0.9], [0.0, 0.0], [0.1, 0.1]]),
        divergence=np.array([0.3, 0.004]),
        even_near=0.5,
        **rows,
    )
    assert found.kinds == ["compares tokens", "prefers no key"]


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (-0.004, ".0%", "0%"),
        (-0.0, ".2f", "0.00"),
        (-0.006, ".0%", "−1%"),
        (-1e-9, ".1e", "−1.0e−09"),
    ],
)
def test_what_rounds_to_nothing_has_no_sign(value, spec, text):
    assert drawing.written(value, spec) == text


def test_a_models_name_keeps_its_letters(tmp_path):
    families.save(families.make("gpt2", torch.float32), tmp_path / "tiny")
    made = lnattn.report(tmp_path / "tiny", only="heads")
    assert made.part("heads").sentences[0].startswith("tiny has no tokenizer")


def test_guarantees_are_those_of_the_package(book) -> None:
    """The first piece that was drawn, in every head, by `lnattn.guarantee`."""
    numbers = book.part("guarantees").numbers
    model = lnattn.load_first_layer("book-gpt2")
    query, key = int(numbers["queries"][0]), int(numbers["keys"][0])
    for head in (0, 5):
        found = lnattn.guarantee(model, head=head, query=query, key=key, length=numbers["length"])
        ends = numbers["least"][head, 0], numbers["greatest"][head, 0]
        assert ends == pytest.approx((found.least, found.greatest), abs=1e-6)
    assert "pieces that continue a word" in book.part("guarantees").sentences[0]
