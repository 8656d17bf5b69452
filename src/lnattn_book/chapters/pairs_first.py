"""What the chapter on five trainings states: losses without parts of a first layer's scores.

*Pairs* are token → token, T^ee, and *tokens* every term that knows a token; *places* are T^p +
T^pp, and *positions* every term that knows a position. The rules and their sentences are those that
`experiments/joining/README.md` fixed before its runs, where pairs are *what* and positions *where*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from lnattn.attention.terms import TERMS
from lnattn.errors import ResultError
from lnattn_book.page.checks import Check, says
from lnattn_book.studies.ablation.losses import Ablations, interval
from lnattn_book.studies.ablation.parts import PLACE, POSITIONS, TOKENS
from lnattn_book.studies.joining_runs import JoiningRuns
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.small_models import BEST, read_looks

#: Parts of the scores as the tables of `experiments.joining` name them.
PARTS = {"pairs": "ee", "places": "place", "positions": "position"}
DIFFERENCE = "position less ee"
#: Over which tokens losses are taken there, and in the words of the chapter.
MEASURES = {"everywhere": "all tokens", "after": "after a piece", "on": "on the piece"}
#: Of what is lost without pairs at its largest, the part below which rule A says *takes over*.
LEFT = 0.5
#: Below these nothing is asked: a training's snapshots, a plan's trainings.
FEWEST_SNAPSHOTS, FEWEST_TRAININGS = 4, 3
#: Trainings that must agree: of five of two layers, of eight of four.
AGREEING = {2: 4, 4: 6}
#: Nats below which nothing is used yet; a clause that was added after the numbers.
USED = 0.005
#: Attention on one token that is most of it.
MOSTLY = 0.5

#: Rules A and D: what several trainings of one plan may be said to do.
OUTCOMES = ("takes over", "words first", "in this order", "where throughout", "differs")


# ---- Trained models, and young ones that join ----------------------------------------------------


#: The same parts as `lnattn_book.studies.ablation` names them.
_OF_ABLATIONS = {"pairs": "ee", "tokens": TOKENS, "places": PLACE, "positions": POSITIONS}


def without_each_part(ablations: Ablations) -> pd.DataFrame:
    """What a trained model loses without each term, pairs, tokens, places, positions.

    A row a part; columns value, low, high: nats a token, 95 % over documents.
    """
    parts = {**{f"T^{term}": term for term in TERMS}, **_OF_ABLATIONS}
    rows = {
        name: interval(ablations.everywhere[:, ablations.of(taken)])
        for name, taken in parts.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"])


def apart(ablations: Ablations, more: str, less: str) -> tuple[float, float, float]:
    """How much more is lost without one part than without another, over all tokens: nats, 95 %."""
    of = ablations.of
    return interval(ablations.everywhere[:, of(more)] - ablations.everywhere[:, of(less)])


def lost_at_pieces(trained: Mapping[str, Ablations], young: JoiningRuns) -> pd.DataFrame:
    """Nats lost without pairs at second pieces, beyond matched tokens.

    A row a model and a reading, after a piece and on it; columns value, low, high: 95 % over
    documents for trained models; for the young ones, of which three join, 97.5 % over seeds.
    """
    rows = {}
    for reading in ("after", "on"):
        for name, ablations in trained.items():
            rows[name, MEASURES[reading]] = interval(ablations.excess("ee", reading=reading))
        rows["three young models", MEASURES[reading]] = over_seeds(young, reading)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"])
    return table.set_index(pd.MultiIndex.from_tuples(rows, names=["model", "reading"]))


def over_seeds(young: JoiningRuns, measure: str) -> tuple[float, float, float]:
    """Mean over the seeds that join, with its 97.5 % interval by Student's t.

    97.5, since these seeds are the second set that the question was put to.
    """
    return mean_and_interval(young.of(measure, "ee")["value"].to_numpy(), 0.975)


def checks_of_pieces(pieces: pd.DataFrame) -> Iterator[Check]:
    """What the appendix says of `lost_at_pieces`."""
    after = pieces.xs(MEASURES["after"], level="reading")
    on = pieces.xs(MEASURES["on"], level="reading")
    young = "three young models"
    yield says(
        "The young models lose more after a piece than after matched tokens",
        after.loc[young, "low"] > 0,
        found=after.loc[young, "value"],
    )
    yield says(
        "*On* the piece the sign is the other one",
        on.loc[young, "high"] < 0,
        found=on.loc[young, "value"],
    )
    trained = after.drop(young)
    yield says(
        "Of the trained models, after a piece, nothing is decided",
        ((trained["low"] < 0) & (trained["high"] > 0)).to_numpy(),
        found=trained["value"].to_numpy(),
    )


# ---- Early and late ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Snapshots:
    """Snapshots of trainings, each asked what it loses; a row a seed and step, in order.

    Columns: tokens (of training); pairs, places, positions (nats), and for each measure but all
    tokens 'pairs after', …; difference, low, high: positions less pairs over all tokens, 95 % over
    documents; found, chance, chance high: pieces of words within rank 10; previous: the largest
    attention on the token before by place alone.
    """

    table: pd.DataFrame

    @classmethod
    def read(cls, folder: Path | str) -> Snapshots:
        """What `experiments.joining --every` froze; `ResultError` where it is not there."""
        looks, _ = read_looks(folder, "looks")
        return cls.of(looks, read_looks(folder, "lost", "measure")[0])

    @classmethod
    def of(cls, looks: pd.DataFrame, lost: pd.DataFrame) -> Snapshots:
        """From rows of looks and of losses; `ResultError` where one snapshot lacks the other."""
        keys = ["seed", "step"]
        best = looks[looks["head"] == BEST].set_index(keys)
        heads = looks[looks["head"] != BEST].groupby(keys)
        table = best[["found", "chance", "chance high"]].assign(
            tokens=best["tokens trained"], previous=heads["previous"].max()
        )
        whole = lost[lost["head"] == -1].set_index(["measure", "removed", *keys]).sort_index()
        for measure in MEASURES:
            words = "" if measure == "everywhere" else f" {measure}"
            for name, part in {**PARTS, "difference": DIFFERENCE}.items():
                table[name + words] = whole.loc[(measure, part), "value"]
        for end in ("low", "high"):
            table[end] = whole.loc[("everywhere", DIFFERENCE), end]
            for measure in ("on", "after"):
                table[f"pairs {measure} {end}"] = whole.loc[(measure, PARTS["pairs"]), end]
        if table.isna().any(axis=None):
            raise ResultError("a snapshot was looked at, and not asked what it loses; ask it too.")
        return cls(table.sort_index())

    def says(self, used: float = -np.inf) -> pd.Series:
        """By snapshot, what costs more over all tokens: 'pairs', 'positions', or 'neither'.

        used: nats; 'neither' where both cost less.
        """
        said = pd.Series("neither", index=self.table.index)
        said[self.table["low"] > 0] = "positions"
        said[self.table["high"] < 0] = "pairs"
        said[self.table[["pairs", "positions"]].max(axis=1) < used] = "neither"
        return said

    def joins(self) -> pd.Series:
        """By snapshot, whether more pieces are found than the band of chance reaches to."""
        return self.table["found"] > self.table["chance high"]

    def last(self) -> Snapshots:
        """The last snapshot of each seed."""
        return Snapshots(self.table.groupby("seed").tail(1))

    def excess(self) -> pd.Series:
        """By snapshot, the share of pieces found above chance."""
        return self.table["found"] - self.table["chance"]

    def fullest(self) -> Snapshots:
        """Of each seed the snapshot with most pieces found above chance."""
        return Snapshots(self.table.loc[self.excess().groupby("seed").idxmax()])

    def looking_back(self) -> pd.Series:
        """By snapshot, whether by place alone a head mostly looks at the token before."""
        return self.table["previous"] > MOSTLY

    def displaced(self) -> pd.Series:
        """By seed, whether its end has less than half of the largest excess of those that join."""
        joining = self.excess().where(self.joins()).groupby("seed").max()
        return self.last().excess().droplevel("step") < LEFT * joining


def of_a_training(run: Snapshots, used: float = -np.inf) -> str:
    """Rule A of one seed, its end last: an outcome of `OUTCOMES`, 'else' or 'cannot be asked'.

    used: as for `Snapshots.says`.
    """
    said = run.says(used).tolist()
    if len(said) < FEWEST_SNAPSHOTS:
        return "cannot be asked"
    first = said.index("positions") if "positions" in said else len(said)
    if "pairs" in said[:first] and said[-1] == "positions" and "pairs" not in said[first:]:
        pairs = run.table["pairs"]
        return "takes over" if pairs.iloc[-1] < LEFT * pairs.max() else "words first"
    if "pairs" not in said and said.count("positions") >= len(said) / 2:
        return "where throughout"
    return "else"


def of_trainings(runs: Snapshots, agreeing: int, used: float = -np.inf) -> str:
    """Rules A and D: the outcome, one of `OUTCOMES`, that `agreeing` of the seeds have.

    used: as for `Snapshots.says`. Raises `ResultError` for fewer than three trainings.
    """
    outcomes = outcomes_of(runs, used)
    if len(outcomes) < FEWEST_TRAININGS:
        raise ResultError(
            f"{len(outcomes)} trainings decide nothing; ask {FEWEST_TRAININGS} or more."
        )
    counts = outcomes.value_counts()
    if counts.iloc[0] >= agreeing and counts.index[0] in OUTCOMES:
        return str(counts.index[0])
    in_order = outcomes.isin(["takes over", "words first"]).all()
    return "in this order" if in_order else "differs"


def outcomes_of(runs: Snapshots, used: float = -np.inf) -> pd.Series:
    """By seed, what `of_a_training` says."""
    return pd.Series({
        seed: of_a_training(Snapshots(table), used) for seed, table in runs.table.groupby("seed")
    })  # fmt: skip


def ends(several: Snapshots) -> pd.DataFrame:
    """The last snapshots, a row a seed: what is lost, found, and attention on the token before."""
    last = several.last().table.droplevel("step")
    return last[["pairs", "places", "positions", "found", "chance high", "previous"]]


def checks(runs: Snapshots, deeper: Snapshots, parts: pd.DataFrame) -> Iterator[Check]:
    """What the page says of its numbers.

    runs, deeper: the trainings of two and of four layers; parts: `without_each_part` of book-gpt2.
    """
    table = runs.table
    said = runs.says().unstack("step")
    means = table.groupby("tokens")[["pairs", "positions"]].mean()
    early = means.loc[2_097_152]
    last = means.iloc[-1]
    outcomes = outcomes_of(runs)
    yield says(
        "the order *differs* between trainings", of_trainings(runs, AGREEING[2]) == "differs"
    )
    yield says("Three do, so the answer is *differs*", (outcomes == "takes over").sum() == 3)
    others = table.loc[outcomes.index[outcomes != "takes over"]]
    against = others[(others["low"] > 0) & (others[["pairs", "positions"]].max(axis=1) < 0.001)]
    yield says(
        "helps a little: positions cost more than pairs, by 0.0021 and 0.0007 nats, when each "
        "costs less than 0.001",
        against["difference"].to_numpy(),
        against[["pairs", "positions"]].max(axis=None),
        (against["pairs"] < 0).to_numpy(),
        against.groupby("seed").size().to_numpy() == 1,
    )
    yield says(
        "that 0.005 nats or less count as nothing, all five count as *position takes over*",
        USED,
        (outcomes_of(runs, USED) == "takes over").to_numpy(),
    )
    yield says(
        "Without pairs of tokens all five lose little at any time",
        table["pairs"].max() < 0.12,
        found=table["pairs"].max(),
    )
    yield says(
        "without positions they lose nothing at first, and 0.94 nats a token at the end",
        last["positions"],
        table.loc[table["tokens"] <= 2_097_152, "positions"].to_numpy() < 0.001,
    )
    yield says(
        "At 2.1 million tokens, and at no other moment that we asked, all five lose more",
        256 * 32 * 256,
        said.columns[(said == "pairs").all()] == 256,
    )
    yield says("a hundredth of a nat", 0.005 < early["pairs"] < 0.015, found=early["pairs"])
    yield says(
        "From 8.4 million on all five lose more without positions",
        1024 * 32 * 256,
        (said.loc[:, 1024:] == "positions").to_numpy(),
    )
    times = last["positions"] / last["pairs"]
    yield says("at the end thirty times as much", 25 < times < 35, found=times)
    at_ends = runs.last().table["pairs"].droplevel("step")
    left = (at_ends / table["pairs"].groupby("seed").max()).to_numpy()
    yield says("a quarter to a half of what they cost at most", left > 0.25, left < 0.5, found=left)
    fullest = table.loc[table["tokens"] == 8_388_608, "found"]
    yield says("some head finds 14 to 37 % of the pieces", fullest.min(), fullest.max())
    ends_of = runs.last().table
    above = (ends_of["found"] - ends_of["chance high"]).sort_values().to_numpy()
    yield says(
        "at the end four of the five find no more than the band of chance, the fifth hardly more",
        above[:4] <= 0,
        0 < above[4] < 0.005,
        found=above,
    )
    yield says("with 0.52 to 0.70", ends_of["previous"].min(), ends_of["previous"].max())
    value = parts["value"]
    yield says("it loses 0.96 nats", value["positions"])
    tenth = value["tokens"] / value["positions"]
    yield says("Without tokens it loses a tenth of that", 0.08 < tenth < 0.12, found=tenth)
    yield says(
        "costs more than they do",
        value["T^e"] > value["pairs"],
        found=[value["T^e"], value["pairs"]],
    )
    deep = ends(deeper)
    yield says(
        "all still join, one of them barely",
        deeper.last().joins().to_numpy(),
        (deep["found"] - deep["chance high"] < 0.005).sum() == 1,
    )
    lead = deeper.last().table["difference"].droplevel("step")
    positions_lead = (deeper.last().says() == "positions").droplevel("step")
    yield says(
        "Seven lose more without positions at their ends, by 0.01 to 0.24 nats",
        lead[positions_lead].min(),
        lead[positions_lead].max(),
        positions_lead.sum() == 7,
    )
    yield says(
        "the rule's answer is *differs* again",
        of_trainings(deeper, AGREEING[4]) == "differs",
        of_trainings(deeper, AGREEING[4], USED) == "differs",
    )
    looking = deeper.last().looking_back().droplevel("step")
    share_left = deep["found"] / deeper.fullest().table["found"].droplevel("step")
    yield says(
        "In two a head mostly looks at the token before by place, and these find a third",
        looking.sum() == 2,
        (share_left[looking] > 0.28).to_numpy(),
        (share_left[looking] < 0.38).to_numpy(),
        found=share_left[looking].to_numpy(),
    )
    yield says("positions cost 0.94 nats a token, pairs 0.03", last["positions"], last["pairs"])
    yield says("all that knows a token costs 0.10", value["tokens"])
