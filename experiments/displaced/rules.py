"""The rules of README.md: what arms that differ in one thing say about pairs and positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from lnattn.errors import ResultError
from lnattn_book.chapters.pairs_first import Snapshots
from lnattn_book.studies.language_models import mean_and_interval

#: Below so much of its attention on the token before, by place alone, no head looks back.
LOOKING_BACK = 0.2
#: Tokens of training up to which pairs may lead.
EARLY = 4_194_304
#: Nats by which pairs must cost more, to come first.
LEAD = 0.005
#: Seeds of each arm, below which nothing is decided.
FEWEST = 3

SENTENCES = {
    "stays": "Where position embeddings are frozen no head comes to look back by place, and "
    "joining stays.",
    "fades less": "Where position embeddings are frozen no head comes to look back by place, and "
    "joining fades less.",
    "fades as well": "Joining fades where no head looks back by place as well: that heads look "
    "back is not what ends it.",
    "undecided, frozen": "Whether frozen positions keep joining alive, {seeds} seeds do not "
    "decide.",
    "cannot be asked": "Frozen positions did not do what they were to do: nothing follows.",
    "without it too": "Pairs come first without the tie of embedding and unembedding, too.",
    "by the tie": "Pairs come first by the tie: with an unembedding of its own no model loses "
    "more without them early on.",
    "less without it": "Pairs come first by less without the tie.",
    "undecided, untied": "Whether pairs come first by the tie, {seeds} seeds do not decide.",
}


class Answer(NamedTuple):
    """What a rule says: the name of a sentence, the number behind it, and of how many seeds.

    value, low, high: a mean over seeds with its 95 % interval.
    """

    outcome: str
    value: float
    low: float
    high: float
    seeds: int

    @property
    def sentence(self) -> str:
        """The sentence that README.md fixed for this outcome."""
        return SENTENCES[self.outcome].format(seeds=self.seeds)


def of_seeds(runs: Snapshots) -> pd.DataFrame:
    """A row a seed: whether it joins and is displaced, what is left, its lead, and `previous`."""
    table = runs.table
    early = table[table["tokens"] <= EARLY].groupby("seed")["difference"].min()
    last = runs.last()
    return pd.DataFrame(
        {
            "joins": runs.joins().groupby("seed").any(),
            "displaced": runs.displaced(),
            "left": last.excess().droplevel("step"),
            "lead": (-early).clip(lower=0),
            "previous": last.table["previous"].droplevel("step"),
        }
    )


def same_seeds(arms: Mapping[str, Snapshots], *names: str) -> dict[str, pd.DataFrame]:
    """`of_seeds` of these arms, of the seeds that all of them have; too few are a `ResultError`."""
    tables = {name: of_seeds(arms[name]) for name in names}
    shared = sorted(set.intersection(*(set(table.index) for table in tables.values())))
    if len(shared) < FEWEST:
        raise ResultError(
            f"{len(shared)} seeds are finished in {' and '.join(names)}; the rules need {FEWEST}."
        )
    return {name: table.loc[shared] for name, table in tables.items()}


def staying(arms: Mapping[str, Snapshots]) -> Answer:
    """Rule 1: does joining stay where positions are frozen?"""
    tables = same_seeds(arms, "control", "frozen")
    control = tables["control"]
    frozen = tables["frozen"]
    mean, low, high = mean_and_interval((frozen["left"] - control["left"]).to_numpy())
    displaced = frozen["displaced"][frozen["joins"]]
    few_join = min(control["joins"].sum(), frozen["joins"].sum()) < 2
    looks_back = (frozen["previous"] >= LOOKING_BACK).any()
    nothing_to_keep = (control["previous"] < LOOKING_BACK).any()
    if few_join or looks_back or nothing_to_keep:
        outcome = "cannot be asked"
    elif low > 0:
        outcome = "fades less" if displaced.any() else "stays"
    else:
        outcome = "fades as well" if displaced.all() else "undecided, frozen"
    return Answer(outcome, mean, low, high, len(frozen))


def coming_first(arms: Mapping[str, Snapshots]) -> Answer:
    """Rule 2: do pairs come first without the tie?"""
    tables = same_seeds(arms, "control", "untied")
    control = tables["control"]
    untied = tables["untied"]
    mean, low, high = mean_and_interval(untied["lead"].to_numpy())
    _, least_of_control, _ = mean_and_interval(control["lead"].to_numpy())
    _, least_apart, _ = mean_and_interval((control["lead"] - untied["lead"]).to_numpy())
    if low > LEAD:
        outcome = "without it too"
    elif least_of_control > LEAD and least_apart > 0:
        outcome = "by the tie" if mean < LEAD else "less without it"
    else:
        outcome = "undecided, untied"
    return Answer(outcome, mean, low, high, len(untied))


#: By the arm that differs from the control, the rule that is asked of it.
RULES = {"frozen": staying, "untied": coming_first}
