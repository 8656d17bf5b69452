"""The page on the robustness of unselectable keys: planted runs and words, sizes by formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from scipy.stats import ttest_1samp

from experiments.sentiment.run import TABLE_4
from lnattn.paths import data_folder
from lnattn.storage import read_result
from lnattn_book.chapters import unselectable_robustness as chapter
from lnattn_book.studies.keys_by_layer import LayerVerdicts
from lnattn_book.studies.language_models import (
    FrozenArm,
    LongRuns,
    frozen_arms,
    read_table_1,
)
from lnattn_book.studies.unselectable_words import MarkedSentence, Sentiment, frozen_words

# ---- Sizes ---------------------------------------------------------------------------------------


def test_parameters_are_counted_without_those_of_layernorms():
    model = torch.nn.ModuleDict(
        {"linear": torch.nn.Linear(3, 2), "LayerNorm": torch.nn.LayerNorm(7)}
    )
    assert chapter.parameters(model) == 3 * 2 + 2


def test_the_models_of_the_paper_have_as_many_as_formulas_say():
    """BERT: tokens, 512 places, 2 kinds; layers of QKVO and an FFN; a pooler and two labels."""
    counts = chapter.counted_parameters()
    layer = 4 * (8 * 8 + 8) + 2 * 8 * 3072 + 3072 + 8
    bert = 8 * (28_996 + 512 + 2) + 4 * layer + (8 * 8 + 8) + 2 * (8 + 1)
    assert counts["sentiment, BERT's cased vocabulary"] == bert
    uncased = counts["sentiment, BERT's uncased vocabulary"]
    assert uncased - bert == 8 * (30_522 - 28_996)
    # GPT-2 calls its norms ln_1, ln_2 and ln_f, so theirs are counted.
    layer = 4 * (8 * 8 + 8) + 2 * 8 * 32 + 32 + 8 + 4 * 8
    assert counts["language model, GPT-2's vocabulary"] == 8 * (50_257 + 1024) + 4 * layer + 16
    table = chapter.parameter_table(counts)
    assert table.loc["majority"].tolist() == [584, "584"]


def test_tokens_are_those_of_the_short_runs_of_width_8():
    def run(d: int, steps: int, seen: int) -> FrozenArm:
        plan: dict[str, Any] = {"d_model": d, "seed": 0, "steps": steps}
        return FrozenArm("any", {}, {"arm": "full", "plan": plan, "tokens_seen": seen})

    assert (
        chapter.tokens_seen([run(8, 320, 7), run(8, 320, 7), run(8, 600, 9), run(16, 320, 3)]) == 7
    )


# ---- Table 1 -------------------------------------------------------------------------------------


def test_drawn_windows_by_hand():
    """Two seeds, four layers, three windows, in which the search misses a tenth everywhere."""
    seed, layer, window = np.ogrid[:2, :4, :3]
    searched = 0.2 + 0.1 * seed + layer / 100 + window / 10
    found = chapter.drawn_windows({"search": searched, "exact": searched + 0.1})
    np.testing.assert_allclose(found.searched, 0.35 + np.arange(4) / 100)
    np.testing.assert_allclose(found.exact, 0.45 + np.arange(4) / 100)
    assert found.between_seeds == pytest.approx(10)
    assert found.of_a_seed == pytest.approx(10 / 3**0.5)  # windows 0, 0.1, 0.2 deviate by 0.1
    table = found.table()
    assert table["layer 2"].tolist() == pytest.approx([32.2, 36.0, 46.0])
    assert table.index.tolist() == ["Table 1", "as searched", "exact"]


# ---- Long runs -----------------------------------------------------------------------------------


@pytest.fixture
def runs() -> LongRuns:
    """Three arms, three seeds, four evaluations; held-out losses are planted."""
    held_out = np.array(
        [
            [[4.0, 3.0, 3.1, 2.0], [4.0, 3.0, 3.0, 2.1], [4.0, 3.0, 3.0, 2.3]],
            [[4.0, 3.0, 3.7, 2.1], [4.0, 3.5, 3.9, 2.4], [4.0, 3.0, 3.0, 2.2]],
            [[4.0, 3.0, 3.0, 2.5], [4.0, 3.0, 3.0, 2.0], [4.0, 3.0, 3.0, np.nan]],
        ]
    )
    sweep = np.array([[3.0, 2.9, 2.8], [2.5, 2.6, 2.7], [3.0, 2.0, 2.5]])  # [arm rate]
    arm, seed, snapshot, layer, place, window = np.ogrid[:3, :3, :2, :4, :6, :5]
    shares = arm / 10 + place / 100 + snapshot / 5 + 0 * (seed + layer + window)
    return LongRuns(
        rates=np.array([0.003, 0.01, 0.03]),
        sweep=np.stack([sweep[:, ::-1], sweep], axis=-1),
        tokens=np.array([10.0, 20.0, 30.0, 40.96]),
        losses=np.stack([held_out + 1 + np.arange(4), held_out], axis=-1),
        kept=np.array([10.0, 40.96]),
        unselectable=shares,
        record={},
    )


def test_losses_are_compared_in_pairs_of_seeds(runs):
    found = chapter.loss_above(runs, "no-scaling", "full")
    differences = np.array([0.1, 0.3, -0.1])
    expected = ttest_1samp(differences, 0).confidence_interval(0.95)
    assert found == pytest.approx((0.1, expected.low, expected.high))
    assert chapter.loss_above(runs, "full", "no-projection").value == pytest.approx(-0.2)


def test_the_ends_of_arms(runs):
    ends = chapter.ends_of_arms(runs)
    assert ends["largest rise"].tolist() == pytest.approx([0.1, 0.7])
    assert ends["in layers"].tolist() == pytest.approx([0.2 + 0.01, 0.2 + 0.1 + 0.01])
    assert ends.loc["full", "in heads"] == pytest.approx(0.2 + 0.035)  # places 2 to 5


def test_the_best_rates_and_the_length(runs):
    assert chapter.best_rates(runs) == {0.03, 0.003, 0.01}
    assert chapter.share_of_the_papers_length(runs) == pytest.approx(0.05)


# ---- Words ---------------------------------------------------------------------------------------


def test_only_words_both_marked_and_lost_count_each_time():
    one = MarkedSentence(("a", "b", "c"), (True, True, False), (), (True, False, True))
    assert chapter.marked_and_lost([one, one]) == ["a", "a"]


@pytest.fixture
def sentiment() -> Sentiment:
    """Two arms, two seeds, four sentences; the second has two words, both marked in the paper."""
    right = np.array([[[1, 1, 1, 1], [1, 1, 0, 0]], [[1, 1, 1, 0], [1, 1, 1, 0]]], dtype=bool)
    lost = np.zeros((2, 2, 5), dtype=bool)
    lost[1, 0, [0, 1]] = True  # the second word of the page's sentence is at place 2
    lost[1, 1, [1, 2]] = True
    example = {"sentence": 1, "words": ["fun", "power"], "bold": ["fun", "power"]}
    return Sentiment(
        right=right,
        unselectable=lost,
        by_layer=np.stack([np.zeros((2, 4)), [[0.2, 0, 0, 0.8], [0, 0, 0, 0]]]),
        held_back=np.zeros(2),
        sentence=np.array([0, 1, 1, 2, 3]),
        type=np.arange(5),
        count=np.ones(5, dtype=int),
        positive=np.ones(5, dtype=int),
        record={"arms": ["full", "none"], "positive_share": 0.4, "examples": [example]},
    )


def test_bold_words_beside_chance():
    one = MarkedSentence(("a", "b", "c"), (True, True, False), (), (True, False, True))
    bold = chapter.bold_words([one, one], share_of_words=0.1)
    assert bold == (4, 2, pytest.approx(1 - 0.9**4))


def test_classifiers_in_a_table(sentiment):
    table = chapter.classifier_table(sentiment, {"full": "LayerNorm", "none": "nothing"})
    assert table["right"].tolist() == [0.75, 0.75]
    assert table.loc["nothing", ["in layer 1", "in layer 4"]].tolist() == [0.1, 0.4]
    assert table["in some layer"].tolist() == [0.0, 0.4]  # of ten words four


def test_table_4_counts_the_models_that_lose_a_word(sentiment):
    """Of two models with nothing in LayerNorm's place, 'fun' is lost in both, 'power' in one."""
    table = chapter.table_4(sentiment, {"full": "LayerNorm", "none": "nothing"})
    assert table["nothing"].tolist() == [2, 1, 1.5]
    assert table["LayerNorm"].tolist() == [0, 0, 0]
    assert table.index.get_level_values("bold there").tolist()[:2] == ["fun", "power"]
    assert table.index[0][0] == "fun power …"


def test_the_last_row_of_table_4_is_the_mean_over_all_words_not_over_the_bold():
    """Two models: of three words the bold one is lost in both, another in one of them."""
    losses = [(True, True, False), (True, False, False)]
    by_seed = [
        [MarkedSentence(("fun", "is", "here"), of, of, (True, False, False))] for of in losses
    ]
    sentiment = Mock(spec=Sentiment, right=np.zeros((1, 2)))
    sentiment.marked = lambda arm, seed=0: by_seed[seed]
    assert chapter.table_4(sentiment, {"none": "nothing"})["nothing"].tolist() == [2, 1]


def test_answers_of_the_classifiers_and_the_share_of_words_they_lose(sentiment):
    # The frequent label is right in 60 %; of the four means 1.00, 0.50, 0.75 and 0.75 three learn.
    assert chapter.seeds_that_learn(sentiment).tolist() == [1, 2]
    assert chapter.share_of_lost_words(sentiment, "none", seed=1) == 2 / 5
    assert chapter.share_of_lost_words(sentiment, "full") == 0


# ---- All layers ----------------------------------------------------------------------------------


def test_models_without_frozen_verdicts_are_left_out(tmp_path, monkeypatch):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "selectability-layers.json").write_text("{}", encoding="utf-8")
    verdicts = {tmp_path / "tiny": Mock(spec=LayerVerdicts)}
    monkeypatch.setattr(LayerVerdicts, "read", verdicts.__getitem__)
    found = chapter.layers_at_hand(tmp_path, ["tiny", "gpt2"])
    assert found == {"tiny": verdicts[tmp_path / "tiny"]}


def test_what_is_lost_in_a_quarter():
    found = Mock(spec=LayerVerdicts)
    shares = {0: np.array([[0.9]]), 1: np.array([[0.1, 0.26], [0.2, 0.0]])}
    common = {1: np.array([[0.5, 0.4, 0.6], [0.51, 0.45, 0.55], [0.1, 0.05, 0.15]])}
    found.by_head = shares.__getitem__
    found.common = common.__getitem__
    row = chapter.lost_in_a_quarter({"tiny": found}).loc["tiny"]
    assert row["of a head's keys"] == "up to 26%"
    assert row["more of: distance"] == "0.10 [0.05, 0.15]"


def test_the_frozen_classifiers_were_asked_for_all_of_the_papers_table_4():
    sentiment = Sentiment.read(data_folder() / "results" / "selectability", "sentiment")
    marked = {
        tuple(word for word, bold in zip(example.words, example.bold, strict=True) if bold)
        for example in sentiment.marked("no-scaling")
    }
    assert marked == set(TABLE_4.values())


# ---- Beside the law ------------------------------------------------------------------------------

LAW = {
    "asked": np.array([[True, False], [True, True]]),
    "ratio": np.array([[[1.5, 1.4, 1.6], [9, 9, 9]], [[0.5, 0.4, 0.6], [1.2, 1.1, 1.3]]]),
}
RECORD = {"sets": ["full", "gpt2"], "dims": [2, 4]}


def test_ratios_are_of_the_widths_that_were_asked():
    ratio = chapter.ratios(LAW, RECORD, "full")
    np.testing.assert_array_equal(ratio.value, [1.5, np.nan])
    assert chapter.furthest(chapter.ratios(LAW, RECORD, "gpt2")) == (0.5, 0.4, 0.6)
    table = chapter.ratio_table(LAW, RECORD)
    assert table.loc["GPT-2, positions", "d′ = 4"] == "1.20 [1.10, 1.30]"


# ---- The page ------------------------------------------------------------------------------------


def asked_of(drawn, judged, law, record):
    """What the page asks of the frozen experiments; drawn, law: may be others than those."""
    results = data_folder() / "results"
    folder = results / "selectability"
    shares, sentences, _ = frozen_words(folder)
    found = [
        chapter.tokens_seen(frozen_arms(folder)),
        drawn,
        LongRuns.read(folder),
        chapter.bold_words(sentences, float(shares["share_in_any_layer"])),
        Sentiment.read(folder, "sentiment"),
        chapter.layers_at_hand(results, ["minilm", "book-gpt2", "book-llama", "gpt2"]),
    ]
    checks = [*chapter.checks(*found, judged), *chapter.checks_beside_the_law(law, record, judged)]
    return [check.words for check in checks if not check.holds]


def test_the_pages_sentences_hold_and_fail_of_other_numbers():
    folder = data_folder() / "results" / "selectability"
    drawn = chapter.drawn_windows(read_table_1(folder)[0])
    law, record = read_result(folder, "law")
    judged = dict.fromkeys(record["sets"], "holds") | {"full": "fails", "gpt2": "fails"}
    assert asked_of(drawn, judged | {"B10": "undecided"}, law, record) == []
    swapped = replace(drawn, exact=drawn.searched, searched=drawn.exact)
    less = dict(law) | {"ratio": law["ratio"] - 1}
    assert asked_of(swapped, judged | {"B10": "holds", "minilm": "fails"}, less, record) == [
        "fewer unselectable keys than there are, in every layer",
        "So … is undecided",
        "fewer keys are lost, never more",
        "It holds without scaling",
    ]
