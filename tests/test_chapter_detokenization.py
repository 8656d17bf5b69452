"""What the chapter on detokenization states: recall by hand, the list against scikit-learn."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from lnattn.affinity.auroc import Neighbours
from lnattn.affinity.subwords import Pieces, Subwords
from lnattn.attention.vectors import TokenVectors
from lnattn.errors import ShapeError
from lnattn.text.counts import Counts
from lnattn_book.chapters import detokenization as chapter
from lnattn_book.chapters.detokenization import HeadsOfAModel
from lnattn_book.studies import small_models
from lnattn_book.studies.detokenization import AffinityResult
from lnattn_book.studies.query_classes import CLASSES, MEASURES, ClassAuroc


@pytest.fixture
def heads() -> HeadsOfAModel:
    """Five tokens. Before token 4 stand 0 (seven times), 1 (twice) and 2 (once)."""
    bigrams = np.zeros((5, 5), dtype=np.int64)
    bigrams[[0, 1, 2], 4] = [7, 2, 1]
    bigrams[[0, 1], 3] = [1, 9]
    counts = Mock(
        spec=Counts, bigrams=sparse.csr_array(bigrams), unigrams=np.array([5, 9, 8, 7, 1])
    )
    pieces = Pieces(
        queries=np.array([4, 3]), keys=np.array([0, 1]),
        share=np.array([0.7, 0.9]), count=np.array([10, 10]),
    )  # fmt: skip
    ranks = np.array([[1, 5], [3, 1]])  # [head piece]: head 0 answers token 4, head 1 token 3
    found = Subwords(pieces, ranks, np.zeros((2, 1, 2)))
    study = Mock(
        spec=AffinityResult,
        auroc=np.arange(10.0).reshape(2, 5) / 10,
        mean_auroc=Mock(return_value=np.array([0.7, 0.6])),
        skill=np.array([[0.15, 0.1, 0.2], [-0.05, -0.1, 0.0]]),
    )
    return HeadsOfAModel(Mock(spec=TokenVectors), counts, list("abcde"), study, found)


def test_recall_walks_from_the_best_key_to_the_last() -> None:
    #                  ranks: 3rd        1st        2nd
    met = chapter.recall(np.array([0.1, 0.9, 0.5]), np.array([1.0, 3.0, 0.0]))
    assert met.tolist() == [0.75, 0.75, 1.0]


def test_recall_is_the_curve_whose_area_is_the_auroc() -> None:
    rng = np.random.default_rng(0)
    scores, weight = rng.normal(size=60), rng.integers(0, 5, 60) * (rng.random(60) < 0.3)
    wanted = weight > 0
    met, order = chapter.recall(scores, weight), np.argsort(-scores)
    area = met[~wanted[order]].mean()  # at each unwanted key, the share met before it
    assert area == pytest.approx(
        roc_auc_score(wanted, scores, sample_weight=np.where(wanted, weight, 1))
    )


@pytest.mark.parametrize(
    ("scores", "weight", "said"),
    [
        ([1.0, 2.0], [1.0], "equal length"),
        ([1.0, 2.0], [0.0, 0.0], "more than 0"),
        ([1.0, 2.0], [-1.0, 2.0], "0 or more"),
    ],
)
def test_recall_refuses_what_has_none(scores, weight, said) -> None:
    with pytest.raises(ShapeError, match=said):
        chapter.recall(np.array(scores), np.array(weight))


def test_weights_are_the_counts_before_a_token(heads) -> None:
    assert chapter.weight_of(heads, 4).tolist() == [7, 2, 1, 0, 0]
    assert isinstance(heads.before, Neighbours)


def test_the_lists_area_by_hand(heads) -> None:
    # Of token 4's neighbours key 0 (frequency 5) beats one negative of two, 1 and 2 beat both.
    assert chapter.list_area(heads, 4) == pytest.approx((7 * 0.5 + 2 + 1) / 10)


def test_pieces_that_named_heads_rank_first(heads) -> None:
    both = chapter.list_against_heads(heads, named=(0, 1))
    assert both[["query", "key", "head"]].to_numpy().tolist() == [[4, 0, 0], [3, 1, 1]]
    assert both["area"].tolist() == [0.4, 0.8]  # of each piece's own head
    assert both["list"].iloc[0] == chapter.list_area(heads, 4)
    assert chapter.list_against_heads(heads, named=(1,))["query"].tolist() == [3]


def test_wrong_queries_leave_what_is_about_the_query(heads) -> None:
    table = chapter.wrong_queries(heads.study)
    assert table.loc[0].tolist() == pytest.approx([0.7, 0.55, 0.15])
    assert table.loc[1].tolist() == pytest.approx([0.6, 0.65, -0.05])


def test_the_share_of_named_heads(heads) -> None:
    """Head 0 has piece 4 first and piece 3 fifth, head 1 has them third and first."""
    assert chapter.share_of_heads(heads.found, (0,), top=1) == 0.5
    assert chapter.share_of_heads(heads.found, (0, 1), top=1) == 1
    assert chapter.share_of_heads(heads.found, (0,)) == 1  # not only those that it finds best


def test_a_fixed_order_is_scored_as_any_list() -> None:
    """Before token 3 stand 0 (3 times) and 2 (once): 0 beats 1 and 3, 2 beats 3 alone."""
    before = Neighbours.before(sparse.csr_array(([3, 1], ([0, 2], [3, 3])), shape=(4, 4)))
    assert chapter.area_of_a_fixed_order(before, 4) == pytest.approx((3 * 1 + 1 * 0.5) / 4)


def test_the_table_by_class_has_the_means_of_the_shown_pairs() -> None:
    """heads: [class keys measure head value]; every digit of a mean says where it stands."""
    queries, keys, measure, head = np.ogrid[:2, :2, :3, :2]
    means = queries + keys / 10 + measure / 100 + head / 1000
    values = np.stack([means, means - 9, means + 9], axis=-1)
    found = ClassAuroc(values, np.zeros((2, 2, 3)), np.array([5, 5]), np.array([9, 9]))
    table = chapter.auroc_by_class(found)
    about = MEASURES.index("query-specific") / 100
    auroc = MEASURES.index("auroc") / 100
    first, second = CLASSES
    assert table.columns[:2].tolist() == [f"all keys: {first}", f"all keys: {second}"]
    assert table.loc[1, f"all keys: {second}"] == pytest.approx(1 + auroc + 0.001)
    assert table.loc[0, f"right keys: {first}"] == pytest.approx(0.1 + auroc)
    assert table.loc[1, f"about the query: {second}"] == pytest.approx(1.1 + about + 0.001)
    assert table.shape == (2, 6)


def looks(**columns: list[float]) -> pd.DataFrame:
    """The rows of two heads and of a piece's best head, twice."""
    return pd.DataFrame({"head": [-1, 0, 1] * 2, "tokens": [1e6] * 3 + [2e6] * 3} | columns)


def test_a_training_is_read_by_step() -> None:
    training = small_models.along_training(
        looks(
            step=[64, 64, 64, 32, 32, 32],
            found=[0.3, 0, 0, 0.1, 0, 0],
            chance=[0.05, 0, 0, 0.02, 0, 0],
            **{"chance high": [0.06, 0, 0, 0.03, 0, 0]},
            previous=[0, 0.2, 0.7, 0, 0.4, 0.1],
        )
    )
    assert training.index.tolist() == [32, 64]
    assert training["above chance"].tolist() == pytest.approx([0.08, 0.25])
    assert training["previous"].tolist() == [0.4, 0.7]


def second_looks(**other) -> list[str]:
    """What of the appendix does not hold of numbers as they are printed there, but for some."""
    heads = np.zeros((2, 2, 2, 12, 3))
    heads[0, 0, 0, :, 0], heads[1, 0, 0, :, 0] = other.get("area", (0.7, 0.6))
    about = np.zeros((12, 3))
    about[[4, 5]] = 0.2, 0.1, 0.3
    by_class = Mock(
        spec=ClassAuroc,
        heads=heads,
        frequency=np.full((2, 2, 2), 0.9),
        query_specific_auroc=lambda which: (
            about if which == other.get("more", CLASSES[0]) else 0 * about
        ),
    )
    names = [("_Jackson", "_Michael"), ("_Obama", "_Michelle")] + [
        ("_x", f"_{n}") for n in range(18)
    ]
    known = pd.DataFrame(names, columns=["query", "key"])
    known["best rank"] = np.array([1, 1, 4, 4] + [80] * 16) * other.get("times", 1)
    known["chance"] = 1600
    heat = np.zeros((12, 100, 100))
    heat[4, 0, 0], heat[8, 0, 0] = 50, 30
    z = np.zeros((12, 3))
    z[8], z[:4] = 3.4, -1.5
    study = Mock(spec=AffinityResult, heat=heat, same_token=z * other.get("z", 1))
    own = np.full(12, 0.01)
    own[8] = other.get("own", 0.88)
    training = pd.DataFrame(
        {
            "tokens": [8.4e6, 68e6],
            "found": [0.27, 0.06],
            "chance": [0.05, 0.05],
            "chance high": [0.06, 0.06],
            "above chance": [0.22, 0.01],
            "previous": [0.08, other.get("previous", 0.59)],
        }
    )
    asked = chapter.checks_of_second_looks(study, by_class, known, own, training)
    return [check.words for check in asked if not check.holds]


def test_what_the_appendix_says_needs_its_numbers() -> None:
    assert second_looks() == []
    assert len(second_looks(area=(0.6, 0.7))) == 1
    assert len(second_looks(area=(0.95, 0.6))) == 1
    assert len(second_looks(more=CLASSES[1])) == 1
    assert len(second_looks(times=11)) == 4
    assert len(second_looks(z=0.5)) == 2
    assert len(second_looks(own=0.8)) == 1
    assert len(second_looks(previous=0.4)) == 1
