"""What the chapter on contributions states: losses without parts of a first layer's scores.

*Pairs* are token → token, T^ee, and *tokens* every term that knows a token; *places* are T^p +
T^pp, and *positions* every term that knows a position. The rules and their sentences are those that
`experiments/joining/README.md` fixed before its runs, where pairs are *what* and positions *where*.
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
from lnattn_book.studies.ablation.parts import PLACE, POSITIONS, TOKENS
from lnattn_book.studies.joining_runs import Joining
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.small_models import BEST, read_looks

#: Parts of the scores as the tables of `experiments.joining` name them.
PARTS = {"pairs": "ee", "places": "place", "positions": "position"}
DIFFERENCE = "position less ee"
#: Over which tokens losses are taken there, and in the words of the chapter.
MEASURES = {"everywhere": "all tokens", "after": "after a piece", "on": "on the piece"}
#: Of what is lost without pairs at its largest, the part below which rule A says *takes over*.
LEFT = 0.5
#: Below these nothing is asked: a training's snapshots, a plan's trainings, seeds that do not join.
FEWEST_SNAPSHOTS, FEWEST_TRAININGS, FEWEST_SEEDS = 4, 3, 2
#: Trainings that must agree: of five of two layers, of eight of four.
AGREEING = {2: 4, 4: 6}
#: Nats below which nothing is used yet; a clause that was added after the numbers.
USED = 0.005
#: Attention on one token that is most of it.
MOSTLY = 0.5

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


# ---- Trained models, and young ones that join ----------------------------------------------------


def losses_without(trained: Ablations, young: Joining, others: Snapshots) -> pd.DataFrame:
    """Nats lost a token without each part, over all tokens; a row a model, NaN: not asked.

    Columns: pairs, tokens, places, positions. trained: book-gpt2; young: models at their peaks;
    others: young models, of which those that do not join at last are added.
    """
    rows = {
        "book-gpt2": {
            part: float(trained.everywhere[0, trained.of(taken)])
            for part, taken in _OF_ABLATIONS.items()
        }
    }
    for seed in young.peaks().index:
        rows[f"joins, seed {seed}"] = {
            part: float(young.of("everywhere", taken).loc[seed, "value"])
            for part, taken in PARTS.items()
        }
    last = others.last()
    for (seed, _), lost in last.table[~last.joins()].iterrows():
        rows[f"does not, seed {seed}"] = lost[list(PARTS)].to_dict()
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(_OF_ABLATIONS))


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


def at_pieces(ablations: Ablations, part: str = PARTS["pairs"]) -> pd.DataFrame:
    """What a trained model loses without a part at second pieces, beyond matched tokens.

    A row after a piece, and on it; columns value, low, high: nats, 95 % over documents.
    """
    rows = {
        MEASURES[reading]: interval(ablations.excess(part, reading=reading))
        for reading in ("after", "on")
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"])


def over_seeds(
    young: Joining,
    measure: str,
    part: str = PARTS["pairs"],
    *,
    head: int | str = -1,
    at: str = "step",
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
    """Rule A of one seed, its end last: an outcome of `OF_TRAININGS`, 'else' or 'cannot be asked'.

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


def of_young_models(seeds: Snapshots) -> str:
    """Rule B: 'pairs', 'positions', 'not decided' or 'cannot be asked', of seeds that do not join.

    Asked of each such seed's last snapshot.
    """
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


def on_a_piece(low: float, high: float) -> str:
    """Rule C: what is said of the loss on second pieces, of its interval beyond matched tokens."""
    if high < 0:
        return "less than at matched tokens"
    return "more" if low > 0 else "no measurable difference"
