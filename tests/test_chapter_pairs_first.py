"""What the chapter on five trainings states: its rules on planted curves, its tables by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from naming import naming

from lnattn import paths
from lnattn.errors import ResultError
from lnattn_book.chapters import pairs_first as chapter
from lnattn_book.chapters.pairs_first import Snapshots
from lnattn_book.studies.ablation.losses import Ablations
from lnattn_book.studies.joining_runs import JoiningRuns

RESULTS = paths.data_folder() / "results"


def snapshots(
    *losses: tuple[float, float], seed: int = 0, half: float = 0.001, found: float = 0.05
):
    """Looks and losses of one run whose snapshots lose (what, where) nats, half-width `half`."""
    looks, lost = [], []
    for number, (what, where) in enumerate(losses):
        key = {"seed": seed, "step": 64 << number, "tokens trained": 1000 << number}
        share = {"found": found, "chance": 0.04, "chance high": 0.06}
        looks += [{**key, **share, "head": head, "previous": 0.1 * head} for head in (-1, 0, 1)]
        for measure in chapter.MEASURES:
            parts = {
                "ee": what,
                "place": where,
                "position": where,
                "position less ee": where - what,
            }
            lost += [
                {**key, "measure": measure, "removed": part, "head": -1, "value": value,
                 "low": value - half, "high": value + half}
                for part, value in parts.items()
            ]  # fmt: skip
    return pd.DataFrame(looks), pd.DataFrame(lost)


def run(*losses, **about) -> Snapshots:
    return Snapshots.of(*snapshots(*losses, **about))


PAIRS, POSITIONS, SAME = (0.04, 0.01), (0.03, 0.9), (0.02, 0.02)


@pytest.mark.parametrize(
    ("losses", "outcome"),
    [
        ([PAIRS, PAIRS, POSITIONS, (0.019, 0.9)], "takes over"),  # 0.019 of 0.040 is less than half
        ([PAIRS, PAIRS, POSITIONS, (0.021, 0.9)], "words first"),
        ([SAME, PAIRS, SAME, POSITIONS], "words first"),
        ([PAIRS, POSITIONS, PAIRS, POSITIONS], "else"),  # what again, after where
        ([PAIRS, PAIRS, POSITIONS, SAME], "else"),  # the end does not say
        ([POSITIONS, POSITIONS, POSITIONS, POSITIONS], "where throughout"),
        ([SAME, SAME, POSITIONS, POSITIONS], "where throughout"),
        ([SAME, SAME, SAME, POSITIONS], "else"),
        ([PAIRS, POSITIONS, POSITIONS], "cannot be asked"),
    ],
)
def test_the_rule_of_a_training(losses, outcome) -> None:
    assert chapter.of_a_training(run(*losses)) == outcome


def trainings(*losses) -> Snapshots:
    """Several trainings of one plan, each given by the losses of its snapshots."""
    tables = [snapshots(*one, seed=seed) for seed, one in enumerate(losses)]
    return Snapshots.of(*map(pd.concat, zip(*tables, strict=True)))


TAKES_OVER = [PAIRS, PAIRS, POSITIONS, (0.019, 0.9)]
WORDS_FIRST = [PAIRS, PAIRS, POSITIONS, (0.021, 0.9)]
ELSE = [PAIRS, POSITIONS, PAIRS, POSITIONS]


@pytest.mark.parametrize(
    ("several", "agreeing", "outcome"),
    [
        ([TAKES_OVER] * 4 + [ELSE], 4, "takes over"),
        ([TAKES_OVER] * 3 + [ELSE] * 2, 4, "differs"),
        ([TAKES_OVER] * 3 + [WORDS_FIRST] * 2, 4, "in this order"),
        ([WORDS_FIRST] * 4 + [TAKES_OVER], 4, "words first"),
        ([ELSE] * 5, 4, "differs"),
        ([[POSITIONS] * 4] * 3, 3, "where throughout"),
    ],
)
def test_the_rule_over_trainings_counts_those_that_agree(several, agreeing, outcome) -> None:
    assert chapter.of_trainings(trainings(*several), agreeing) == outcome


def test_two_trainings_decide_nothing() -> None:
    with pytest.raises(ResultError, match=naming("2 trainings", 3)):
        chapter.of_trainings(trainings(TAKES_OVER, TAKES_OVER), 2)


def test_a_snapshot_that_uses_nothing_yet_says_neither() -> None:
    """By less than 5 thousandths both ways: *where* by 2, and *what* by 4; at 6 it counts."""
    early = [(0.001, 0.004), PAIRS, POSITIONS, (0.019, 0.9)]
    assert chapter.of_a_training(run(*early)) == "else"
    assert chapter.of_a_training(run(*early), 0.005) == "takes over"
    assert run(*early).says(0.005).tolist() == ["neither", "pairs", "positions", "positions"]
    assert run((0.001, 0.006), PAIRS).says(0.005).tolist() == ["positions", "pairs"]
    assert run((-0.004, -0.001), PAIRS).says().tolist() == ["positions", "pairs"]


def test_fullest_and_displaced_by_hand() -> None:
    """Excess 0.10 at its largest: an end of 0.04 is displaced, one of 0.06 is not."""
    tables = []
    for seed, end in enumerate((0.04, 0.06)):
        looks, lost = snapshots(PAIRS, PAIRS, POSITIONS, seed=seed)
        looks["found"] = np.repeat([0.05, 0.14, 0.04 + end], 3)
        tables.append((looks, lost))
    several = Snapshots.of(*map(pd.concat, zip(*tables, strict=True)))
    assert several.excess().round(3).tolist() == [0.01, 0.1, 0.04, 0.01, 0.1, 0.06]
    assert several.fullest().table.index.tolist() == [(0, 128), (1, 128)]
    assert several.displaced().to_dict() == {0: True, 1: False}
    # The largest excess of seed 1 in a snapshot that joins nothing: 0.06 is then compared with it.
    table = several.table.copy()
    table.loc[(1, 64), ["found", "chance", "chance high"]] = [0.3, 0.1, 0.31]
    assert Snapshots(table).excess()[1, 64] == pytest.approx(0.2)
    assert Snapshots(table).displaced().to_dict() == {0: True, 1: False}


def test_a_snapshot_that_was_not_asked_is_an_error() -> None:
    looks, lost = snapshots(PAIRS, POSITIONS)
    with pytest.raises(ResultError, match="snapshot"):
        Snapshots.of(looks, lost[lost["step"] == 64])


def test_snapshots_are_read_by_hand() -> None:
    table = run(PAIRS, POSITIONS).table
    last = table.loc[(0, 128)]
    assert last[["tokens", "found", "previous"]].tolist() == [2000, 0.05, 0.1]
    assert last[["pairs", "positions", "difference", "pairs on"]].tolist() == pytest.approx(
        [0.03, 0.9, 0.87, 0.03]
    )
    assert last[["low", "high", "pairs after high"]].tolist() == pytest.approx(
        [0.869, 0.871, 0.031]
    )


def test_the_training_was_asked_and_ends_with_the_embedded_model() -> None:
    run = Snapshots.read(RESULTS / "early-and-late")
    assert run.table.index.tolist() == [(0, step) for step in (64, 128, 256, 512, 1024, 12288)]
    assert run.says().tolist() == ["neither", "pairs", "pairs", "pairs", "positions", "positions"]
    assert chapter.of_a_training(run) == "takes over"
    # The next rule's half, by hand: 0.0275 at the end, 0.0658 at the largest.
    assert run.table["pairs"].iloc[-1] / run.table["pairs"].max() == pytest.approx(0.417, abs=1e-3)


def test_sixteen_trainings_were_asked_to_their_ends() -> None:
    two, four, reduced = (
        Snapshots.read(RESULTS / name)
        for name in ("early-and-late-2-layers", "early-and-late-4-layers", "joining-without")
    )
    steps = [2**power for power in range(6, 14)]
    assert two.table.index.tolist() == [(s, n) for s in range(5) for n in (*steps, 12288)]
    assert four.table.index.tolist() == [(s, n) for s in range(8) for n in (*steps[:-1], 4896)]
    assert reduced.table.index.tolist() == [(s, n) for s in (0, 3, 4) for n in steps[:-2]]
    assert four.displaced().to_dict() == {
        seed: seed in (1, 3, 6) for seed in range(8)
    }  # those of README.md
    assert two.displaced().all()
    last = four.last()
    assert last.looking_back().tolist() == [value > 0.5 for value in last.table["previous"]]
    assert last.table.index[last.looking_back()].tolist() == [(1, 4896), (6, 4896)]


def test_the_end_of_the_training_and_the_ablation_agree_on_all_positions() -> None:
    """Two programs, one question: `experiments.joining` and `studies.ablation`, of book-gpt2."""
    table = chapter.without_each_part(Ablations.read(RESULTS / "book-gpt2"))
    end = Snapshots.read(RESULTS / "early-and-late").table.iloc[-1]
    for part in ("pairs", "places", "positions"):
        assert table.loc[part, "value"] == pytest.approx(end[part], abs=1e-4)
    assert (table["low"] < table["value"]).all()
    assert (table["value"] < table["high"]).all()
    assert table.loc["pairs"].tolist() == table.loc["T^ee"].tolist()


def test_means_over_seeds_have_intervals_of_97_5_percent() -> None:
    young = JoiningRuns.read(RESULTS / "joining-batch-32")
    values = young.of("on", "ee")["value"].to_numpy()
    mean, low, high = chapter.over_seeds(young, "on")
    assert mean == pytest.approx(values.mean())
    half = 6.205347 * values.std(ddof=1) / np.sqrt(3)  # Student's t of two degrees, 0.9875
    assert [low, high] == pytest.approx([mean - half, mean + half], abs=1e-6)


def test_what_is_lost_at_pieces_is_read_from_both_experiments() -> None:
    young = JoiningRuns.read(RESULTS / "joining-batch-32")
    one = Ablations.read(RESULTS / "book-gpt2")
    table = chapter.lost_at_pieces({"book-gpt2": one}, young)
    assert [reading for _, reading in table.index] == ["after a piece"] * 2 + ["on the piece"] * 2
    values = young.of("after", "ee")["value"]
    assert table.loc[("three young models", "after a piece"), "value"] == pytest.approx(
        values.mean()
    )
    assert len(values) == 3
    on = one.excess("ee", reading="on")
    assert table.loc[("book-gpt2", "on the piece"), "value"] == pytest.approx(on[0])


def test_ends_are_the_last_snapshots_by_seed() -> None:
    several = trainings([PAIRS, POSITIONS], [POSITIONS, PAIRS])
    table = chapter.ends(several)
    assert table.index.tolist() == [0, 1]
    assert table["positions"].tolist() == [0.9, 0.01]
