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

from lnattn.ablation.study import Ablations, interval
from lnattn.attention.terms import TERMS
from lnattn.contribution.study import Contributions
from lnattn.errors import ResultError
from lnattn.stats import resampled_ratios
from lnattn_book.claims.kamoda import MIXED, PURE
from lnattn_book.claims.listed import claim
from lnattn_book.joining import Joining
from lnattn_book.language_models import mean_and_interval
from lnattn_book.small_models import BEST, read_looks

#: Parts of the scores as the tables of `experiments.joining` name them.
WHAT, WHERE, PLACE, DIFFERENCE = "ee", "position", "place", "position less ee"
#: Over which tokens losses are taken there, and in the words of the chapter.
MEASURES = {"everywhere": "all tokens", "after": "after a piece", "on": "on the piece"}
#: Of what is lost without *what* at its largest, the part below which place has taken over.
LEFT = 0.5
#: Snapshots below which nothing is asked of a training; seeds, of models that do not join.
FEWEST_SNAPSHOTS, FEWEST_SEEDS = 4, 2
#: Nats without *where*, below which it is hardly used.
HARDLY = 0.05

#: Rule A: what is said of one training.
OF_A_TRAINING: Mapping[str, str] = {
    "takes over": (
        "Position takes over: early in training a small GPT-2 loses more without *what*, at the "
        "end more without *where*, and *what* is then worth less than half of what it was."
    ),
    "words first": (
        "Words first, then place: early in training a small GPT-2 loses more without *what*, at "
        "the end more without *where*; *what* keeps most of its worth."
    ),
    "where throughout": (
        "From early on a small GPT-2 loses more without *where* than without *what*."
    ),
    "else": "Whether *what* or *where* comes first, one training does not say.",
    "cannot be asked": (
        "A trained small GPT-2 loses more without *where*; of its training nothing could be asked."
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
    trained: Mapping[str, Ablations], young: Joining, run: Snapshots | None = None
) -> pd.DataFrame:
    """Nats lost a token without *what* and without *where*, over all tokens; a row a model.

    Of trained models *where* is place, the part that their frozen studies took out; of young ones,
    each at its peak, all terms with a position. run: book-gpt2's training, whose end has the loss
    without all terms with a position for it, too.
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
        rows[f"young, seed {seed}"] = {
            part: float(young.of("everywhere", taken).loc[seed, "value"])
            for part, taken in _YOUNG.items()
        }
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


def where_less_what(young: Joining, measure: str = "everywhere", at: str = "step") -> pd.Series:
    """Nats lost without *where* less nats lost without *what*, by seed."""
    where = young.of(measure, WHERE, at=at)["value"]
    what = young.of(measure, WHAT, at=at)["value"]
    return where - what


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
    def read_if_frozen(cls, folder: Path | str) -> Snapshots | None:
        """The same, or None where nothing of these runs was frozen yet."""
        return cls.read(folder) if (Path(folder) / "lost.json").is_file() else None

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

    def says(self) -> pd.Series:
        """By snapshot, what costs more over all tokens: 'what', 'where', or 'neither'."""
        said = pd.Series("neither", index=self.table.index)
        said[self.table["low"] > 0] = "where"
        said[self.table["high"] < 0] = "what"
        return said

    def joins(self) -> pd.Series:
        """By snapshot, whether more pieces are found than the band of chance reaches to."""
        return self.table["found"] > self.table["chance high"]

    def last(self) -> Snapshots:
        """The last snapshot of each seed."""
        return Snapshots(self.table.groupby("seed").tail(1))


def of_a_training(run: Snapshots) -> str:
    """Rule A: the outcome, a key of `OF_A_TRAINING`. run: one seed, its end last."""
    said = run.says().tolist()
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


def headline(run: Snapshots | None, seeds: Snapshots | None) -> str:
    """The sentences that rules A and B say, in that order. None: nothing was frozen."""
    training = of_a_training(run) if run is not None else "cannot be asked"
    young = of_young_models(seeds) if seeds is not None else "cannot be asked"
    said = OF_YOUNG_MODELS[young]
    if young == "what" and seeds is not None:
        if training not in ("takes over", "words first"):
            said = said.replace("So do young", "Young").replace(
                "four layers,", "four layers do lose more without *what*,"
            )
        last = seeds.last()
        hardly = (last.table["where"][~last.joins()] < HARDLY).all()
        said += ": *where* is hardly used yet." if hardly else "."
    return f"{OF_A_TRAINING[training]} {said}"


def on_a_piece(low: float, high: float) -> str:
    """Rule C: what is said of the loss on second pieces, of its interval beyond matched tokens."""
    if high < 0:
        return "less than at matched tokens"
    return "more" if low > 0 else "no measurable difference"
