"""Small models that join pieces, without parts of their first layers' scores (chapter 6).

`experiments/joining` makes the two frozen tables, and says what the words below mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lnattn_book.studies.small_models import BEST, read_looks

#: A peak's excess that is left at the end, below which joining counts as displaced.
_LEFT = 0.5


@dataclass(frozen=True, eq=False)
class JoiningRuns:
    """What snapshots of several seeds found and lost.

    looks: `look`'s rows; lost: a row a seed, step, part that is left out and measure, with value,
    low and high (over texts, nats).
    """

    looks: pd.DataFrame
    lost: pd.DataFrame
    record: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path | str) -> JoiningRuns:
        looks, record = read_looks(folder, "looks")
        return cls(looks, read_looks(folder, "lost", "measure")[0], record)

    def shares(self) -> pd.DataFrame:
        """A row a seed and step: found, chance, chance high, tokens trained, excess, head.

        head: the one that finds most.
        """
        rows = self.looks.set_index(["seed", "step"])
        best = rows[rows["head"] == BEST][["found", "chance", "chance high", "tokens trained"]]
        heads = rows[rows["head"] != BEST].pivot(columns="head", values="found")
        return best.assign(excess=best["found"] - best["chance"], head=heads.idxmax(axis=1))

    def peaks(self) -> pd.DataFrame:
        """A row a seed that joins: the step of its peak, a quarter of it, its last, and the head.

        displaced: whether the last has less than half of the peak's excess.
        """
        shares = self.shares()
        rows = {}
        for seed, of_seed in shares.groupby("seed"):
            joins = of_seed[of_seed["found"] > of_seed["chance high"]]
            if len(joins):
                step = joins["excess"].idxmax()[1]
                last = of_seed.index[-1][1]
                top = of_seed.loc[(seed, step)]
                displaced = of_seed.loc[(seed, last), "excess"] < _LEFT * top["excess"]
                steps = {"step": step, "before": step // 4, "last": last}
                rows[seed] = {**steps, "head": int(top["head"]), "displaced": bool(displaced)}
        return pd.DataFrame.from_dict(rows, orient="index")

    def of(self, measure: str, removed: str, head: Any = -1, at: str = "step") -> pd.DataFrame:
        """value, low and high of each seed that joins, at a step that `peaks` names.

        head: −1 for all heads, or 'joining'.
        """
        table = self.lost.set_index(["measure", "removed", "head", "seed", "step"]).sort_index()
        keys = [
            (measure, removed, peak["head"] if head == "joining" else head, seed, peak[at])
            for seed, peak in self.peaks().iterrows()
        ]
        return table.loc[keys, ["value", "low", "high"]].droplevel([0, 1, 2, 4])
