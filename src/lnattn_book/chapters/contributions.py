"""What the chapter on contributions states: losses without *what*, and without *where*.

*What* is token → token, T^ee. *Place* is T^p + T^pp; *where* is every term in which a position
takes part. The sentences are those that `experiments/joining/README.md` fixed before its runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from lnattn.attention.terms import TERMS
from lnattn.contribution.study import Contributions
from lnattn.errors import ResultError
from lnattn.stats import resampled_ratios
from lnattn_book.claims.kamoda import MIXED, PURE
from lnattn_book.claims.listed import claim
from lnattn_book.studies.ablation.losses import Ablations, interval
from lnattn_book.studies.joining_runs import Joining
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.small_models import BEST, read_looks

#: Parts of the scores as the tables of `experiments.joining` name them.
WHAT, WHERE, PLACE, DIFFERENCE = "ee", "position", "place", "position less ee"
#: Over which tokens losses are taken there, and in the words of the chapter.
MEASURES = {"everywhere": "all tokens", "after": "after a piece", "on": "on the piece"}
#: Of what is lost without *what* at its largest, the part below which place has taken over.
LEFT = 0.5
#: Below these nothing is asked: a training's snapshots, a plan's trainings, seeds that do not join.
FEWEST_SNAPSHOTS, FEWEST_TRAININGS, FEWEST_SEEDS = 4, 3, 2
#: Trainings that must agree: of five of two layers, of eight of four.
AGREEING = {2: 4, 4: 6}
#: Nats below which nothing is used yet; a clause that was added after the numbers.
USED = 0.005
#: Attention on one token that is most of it.
MOSTLY = 0.5
#: Nats without *where*, below which it is hardly used.
HARDLY = 0.05

#: Rules A and D: what is said of several trainings of one plan.
OF_TRAININGS: Mapping[str, str] = {
    "takes over": (
        "Position takes over: early in training small GPT-2s lose more without *what*, at the end "
        "more without *where*, and *what* is then worth less than half of what it was."
    ),
    "words first": (
        "Words first, then place: early in training small GPT-2s lose more without *what*, at the "
        "end more without *where*; *what* keeps most of its worth."
    ),
    "in this order": (
        "Words first, then place: early in training small GPT-2s lose more without *what*, at the "
        "end more without *where*; how much *what* keeps differs between trainings."
    ),
    "where throughout": (
        "From early on small GPT-2s lose more without *where* than without *what*."
    ),
    "differs": (
        "Whether *what* or *where* comes first differs between trainings of the same plan."
    ),
}
#: Rule B: what is said of young models, beside those that join.
OF_YOUNG_MODELS: Mapping[str, str] = {
    "what": "So do young models of four layers, whether they join pieces or not",
    "where": (
        "Young models of four layers that do not join pieces lose more without *where*, those that "
        "do lose more without *what*: here joining does make the difference."
    ),
    "not decided": (
        "In young models of four layers that join pieces *what* costs more; in those that do not, "
        "it is open."
    ),
    "cannot be asked": (
        "In young models of four layers that join pieces *what* costs more; those that do not "
        "could not be asked."
    ),
}


# ---- Trained models, and young ones that join ----------------------------------------------------


def losses_without(
    trained: Mapping[str, Ablations],
    young: Joining,
    run: Snapshots | None = None,
    others: Snapshots | None = None,
) -> pd.DataFrame:
    """Nats lost a token without *what* and without *where*, over all tokens; a row a model.

    Of trained models *where* is place, the part that their frozen studies took out; of young ones,
    each at its peak, all terms with a position. run: book-gpt2's training, whose end has the loss
    without all terms with a position for it, too. others: young models, of which those that do not
    join at last are added.
    """
    rows = {
        name: {
            part: float(ablations.everywhere[0, ablations.of(taken)])
            for part, taken in _TRAINED.items()
        }
        for name, ablations in trained.items()
    }
    if run is not None and "book-gpt2" in rows:
        rows["book-gpt2"] = run.table[list(_YOUNG)].iloc[-1].to_dict()
    for seed in young.peaks().index:
        rows[f"joins, seed {seed}"] = {
            part: float(young.of("everywhere", taken).loc[seed, "value"])
            for part, taken in _YOUNG.items()
        }
    if others is not None:
        last = others.last()
        for (seed, _), lost in last.table[~last.joins()].iterrows():
            rows[f"does not, seed {seed}"] = lost[list(_YOUNG)].to_dict()
    return pd.DataFrame.from_dict(rows, orient="index")


_TRAINED = {"what": WHAT, "where": PLACE}
_YOUNG = {"what": WHAT, "where": WHERE}


def at_pieces(ablations: Ablations, part: str = WHAT) -> pd.DataFrame:
    """What a trained model loses without a part at second pieces, beyond matched tokens.

    A row after a piece, and on it; columns value, low, high: nats, 95 % over documents.
    """
    rows = {
        MEASURES[reading]: interval(ablations.excess(part, reading=reading))
        for reading in ("after", "on")
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"])


def over_seeds(
    young: Joining, measure: str, part: str = WHAT, *, head: int | str = -1, at: str = "step"
) -> tuple[float, float, float]:
    """Mean over the seeds that join, with its 97.5 % interval by Student's t.

    97.5, since these seeds are the second set that the question was put to. Arguments as of
    `Joining.of`.
    """
    values = young.of(measure, part, head, at)["value"].to_numpy()
    return mean_and_interval(values, 0.975)


def shares_at_the_peak(young: Joining) -> pd.DataFrame:
    """A row a seed that joins: pieces found, and by chance, at the step of its peak."""
    shares = young.shares()
    peaks = young.peaks()["step"]
    return shares.loc[list(peaks.items())].droplevel("step")


def term_differences(contributions: Contributions, draws: int | None = None) -> pd.DataFrame:
    """Each other term's mean contribution less each mixed one's: a row a comparison of claim K10.

    Columns: term, less, and from, median, to: 95 % over documents drawn with replacement, nats.
    draws: by default as many as the claim's rule.
    """
    draws = claim("K10").rule["draws"] if draws is None else draws
    drawn = resampled_ratios(contributions.document_sums, contributions.document_rows, draws)
    means = pd.DataFrame(drawn, columns=TERMS)
    rows = []
    for mixed in MIXED:
        for term in PURE:
            low, median, high = np.quantile(means[term] - means[mixed], (0.025, 0.5, 0.975))
            rows.append({"term": term, "less": mixed, "from": low, "median": median, "to": high})
    return pd.DataFrame(rows)


def two_ways(left_out: Contributions, shares: Contributions) -> pd.DataFrame:
    """Mean over heads of each term's contribution: left out, and as its additive share; with ranks.

    left_out: by `lnattn.contribution.study.TEXT`; shares: by `ADDITIVE`, which add up. A row a term
    in the order of `TERMS`; columns 'left out', 'share' (nats) and 'rank left out', 'rank share'.
    """
    table = pd.DataFrame(
        {
            name: divergences.grand_mean()[:, -1]
            for name, divergences in (("left out", left_out), ("share", shares))
        },
        index=pd.Index(TERMS, name="term"),
    )
    for name in ("left out", "share"):
        table[f"rank {name}"] = table[name].rank(ascending=False).astype(int)
    return table


# ---- Early and late ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Snapshots:
    """Snapshots of trainings, each asked what it loses; a row a seed and step, in order.

    Columns: tokens; what, where, and for each measure but all tokens 'what after', …; difference,
    low, high: where less what over all tokens, 95 % over documents; found, chance, chance high:
    pieces within rank 10; previous: the largest attention on the token before by place alone.
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
            for name, part in {**_YOUNG, "difference": DIFFERENCE}.items():
                table[name + words] = whole.loc[(measure, part), "value"]
        for end in ("low", "high"):
            table[end] = whole.loc[("everywhere", DIFFERENCE), end]
            table[f"what on {end}"] = whole.loc[("on", WHAT), end]
            table[f"what after {end}"] = whole.loc[("after", WHAT), end]
        if table.isna().any(axis=None):
            raise ResultError("a snapshot was looked at, and not asked what it loses; ask it too.")
        return cls(table.sort_index())

    def says(self, used: float = -np.inf) -> pd.Series:
        """By snapshot, what costs more over all tokens: 'what', 'where', or 'neither'.

        used: nats; 'neither' where both cost less.
        """
        said = pd.Series("neither", index=self.table.index)
        said[self.table["low"] > 0] = "where"
        said[self.table["high"] < 0] = "what"
        said[self.table[["what", "where"]].max(axis=1) < used] = "neither"
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
    """Rule A of one seed, its end last: an outcome of `OF_TRAININGS`, 'else' or 'cannot be asked'.

    used: as for `Snapshots.says`.
    """
    said = run.says(used).tolist()
    if len(said) < FEWEST_SNAPSHOTS:
        return "cannot be asked"
    first_where = said.index("where") if "where" in said else len(said)
    if "what" in said[:first_where] and said[-1] == "where" and "what" not in said[first_where:]:
        what = run.table["what"]
        return "takes over" if what.iloc[-1] < LEFT * what.max() else "words first"
    if "what" not in said and said.count("where") >= len(said) / 2:
        return "where throughout"
    return "else"


def of_young_models(seeds: Snapshots) -> str:
    """Rule B: the outcome, a key of `OF_YOUNG_MODELS`, of the seeds that do not join at last."""
    last = seeds.last()
    said = last.says()[~last.joins()].tolist()
    if len(said) < FEWEST_SEEDS:
        return "cannot be asked"
    return said[0] if len(set(said)) == 1 and said[0] != "neither" else "not decided"


def of_trainings(runs: Snapshots, agreeing: int, used: float = -np.inf) -> str:
    """Rules A and D: the outcome, a key of `OF_TRAININGS`, that `agreeing` of the seeds have.

    used: as for `Snapshots.says`. Raises `ResultError` for fewer than three trainings.
    """
    outcomes = outcomes_of(runs, used)
    if len(outcomes) < FEWEST_TRAININGS:
        raise ResultError(
            f"{len(outcomes)} trainings decide nothing; ask {FEWEST_TRAININGS} or more."
        )
    counts = outcomes.value_counts()
    if counts.iloc[0] >= agreeing and counts.index[0] in OF_TRAININGS:
        return str(counts.index[0])
    in_order = outcomes.isin(["takes over", "words first"]).all()
    return "in this order" if in_order else "differs"


def outcomes_of(runs: Snapshots, used: float = -np.inf) -> pd.Series:
    """By seed, what `of_a_training` says."""
    return pd.Series({
        seed: of_a_training(Snapshots(table), used) for seed, table in runs.table.groupby("seed")
    })  # fmt: skip


def headline(runs: Snapshots, seeds: Snapshots, used: float = -np.inf) -> str:
    """The sentences that rule A over trainings of two layers and rule B say, in that order."""
    training = of_trainings(runs, AGREEING[2], used)
    young = of_young_models(seeds)
    said = OF_YOUNG_MODELS[young]
    if young == "what":
        if training not in ("takes over", "words first", "in this order"):
            said = said.replace("So do young", "Young").replace(
                "four layers,", "four layers do lose more without *what*,"
            )
        last = seeds.last()
        hardly = (last.table["where"][~last.joins()] < HARDLY).all()
        said += ": *where* is hardly used yet." if hardly else "."
    return f"{OF_TRAININGS[training]} {said}"


def on_a_piece(low: float, high: float) -> str:
    """Rule C: what is said of the loss on second pieces, of its interval beyond matched tokens."""
    if high < 0:
        return "less than at matched tokens"
    return "more" if low > 0 else "no measurable difference"
