"""What is said of several models that are alike but for their seed: the seed is the unit.

`experiments/switch` has the rules. The head of a seed that is asked is chosen on half of the texts,
and asked on the other half, so that the choice of the largest does not make it larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from lnattn.paths import data_folder
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import claim
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.switch import ConstantsStudy, SwitchStudy

#: The seeds of the twins, and their two kinds: learned positions ("causal") and rotary ones.
SEEDS = range(5)
KINDS = ("causal", "rotary")
#: Attention to the token before above which a head looks back whatever the query is.
ALWAYS = 0.5

#: Sums over the queries of each half of the texts: those of even number, and those of odd number.
Halves = Float[np.ndarray, "kind half head"]
Queries = Int[np.ndarray, "kind half"]


def over_seeds(values: Any, level: float = 0.95) -> Interval:
    """Means over seeds with their intervals by Student's t; values: [seed] or [seed what].

    Several intervals hold together, with `level` for all of them.
    """
    table = np.asarray(values, dtype=np.float64)
    columns = table.reshape(len(table), -1).T
    each = 1 - (1 - level) / len(columns)
    return Interval.rows([mean_and_interval(column, each) for column in columns])


def halves(sums: Any) -> Any:
    """Sums over the texts of even number and over those of odd number, of sums by text.

    sums: [… text head].
    """
    return np.stack([sums[..., ::2, :].sum(axis=-2), sums[..., 1::2, :].sum(axis=-2)], axis=-2)


def halved(study: SwitchStudy) -> SwitchStudy:
    """The same study, two halves of the texts in the place of texts."""
    named = ("attention", "shares", "without", "exchanged")
    sums = {name: halves(getattr(study, name)) for name in named}
    return replace(study, queries=halves(study.queries[..., None])[..., 0], **sums)


def halved_weights(study: ConstantsStudy) -> ConstantsStudy:
    """The same study, two halves of the texts in the place of texts, turned nats in float32."""
    sums = {name: halves(getattr(study, name)) for name in ("turned_attention", "turned_ed")}
    queries = halves(study.queries[..., None])[..., 0]
    return replace(study, queries=queries, turned_nats=study.turned_nats.astype("f4"), **sums)


def apart(sums: Halves, queries: Queries, half: int) -> Float[np.ndarray, "head"]:
    """Mean over the pieces of a half less mean over its whole words."""
    pieces, words = sums[:, half] / queries[:, half, None]
    return pieces - words


def chosen(attention: Halves, queries: Queries) -> int:
    """The head whose attention from pieces exceeds that from words most, on the first half."""
    return int(apart(attention, queries, 0).argmax())


def in_most_seeds(values: Float[np.ndarray, "seed"]) -> Interval:
    """An interval that lies below a limit where four seeds of five do, and above where one does.

    Of fewer than five seeds: where all do, and where none does.
    """
    ordered = np.sort(values)
    spare = 1 if len(ordered) >= 5 else 0
    ends = ordered[spare], ordered[-1 - spare]
    return Interval(*(np.array([end]) for end in (np.median(ordered), *ends)))


@dataclass(frozen=True, eq=False)
class Learned:
    """What models with learned positions do: the second table of `experiments/switch`.

    apart: attention to the token before from pieces less that from words, in the head chosen;
    by_ee: what T^ee makes of it; beyond: that less half of `apart`; always: from the lesser kind,
    in the head chosen for that; heads: those of `apart`, by seed; null: draws of exchanged kinds
    that are apart, too, and how many there are.
    """

    apart: Interval
    by_ee: Interval
    beyond: Interval
    always: Interval
    heads: tuple[int, ...]
    null: tuple[int, int]

    @property
    def outcome(self) -> str:
        """One of 'always', 'through T^ee', 'by other terms', 'neither' and 'undecided'."""
        more = claim("D9").rule["more"]
        if self.apart.low > more:
            return _side(self.beyond, 0.0, "through T^ee", "by other terms")
        if self.apart.high < more:
            return _side(self.always, ALWAYS, "always", "neither")
        return "undecided"


def _side(interval: Interval, limit: float, above: str, below: str) -> str:
    if interval.low > limit:
        return above
    return below if interval.high < limit else "undecided"


def learned(studies: Sequence[SwitchStudy]) -> Learned:
    """What seeds with learned positions do, by studies in halves."""
    share = claim("D9").rule["share"]
    more = claim("D9").rule["more"]
    rows = []
    for study in studies:
        head = chosen(study.attention, study.queries)
        of_ee = study.shares[study.of("ee")]
        asked = [
            float(apart(sums, study.queries, 1)[head])
            for sums in (study.attention, of_ee, of_ee - share * study.attention)
        ]
        rows.append((head, *asked, _lesser(study)))
    heads, *columns = np.array(rows).T
    draws = [
        one(over_seeds([_in_chosen_head(study, draw) for study in studies])).low > more
        for draw in range(len(studies[0].exchanged))
    ]
    names = ("apart", "by_ee", "beyond", "always")
    intervals = [one(over_seeds(column)) for column in columns]
    return Learned(
        **dict(zip(names, intervals, strict=True)),
        heads=tuple(heads.astype(int).tolist()),
        null=(sum(draws), len(draws)),
    )


def one(interval: Interval) -> Interval:
    """The only interval of an array of one."""
    return Interval(*(float(np.asarray(end).item()) for end in interval))


def rounded(interval: Any) -> tuple[float, ...]:
    """A mean and the ends of its interval, to two places: as pages say them.

    >>> rounded(Interval(0.123, -0.004, 0.25))
    (0.12, -0.0, 0.25)
    """
    return tuple(round(float(end), 2) for end in interval)


def _in_chosen_head(study: SwitchStudy, draw: int) -> float:
    """Pieces less words where kinds are exchanged, in the head that this draw chooses."""
    exchanged = study.exchanged[draw]
    return float(apart(exchanged, study.queries, 1)[chosen(exchanged, study.queries)])


def _lesser(study: SwitchStudy) -> float:
    """Attention from the lesser kind, in the head where that is largest on the first half."""
    by_half = (study.attention / study.queries[..., None]).min(axis=0)
    return float(by_half[1, by_half[0].argmax()])


def kinds_apart(learned: Sequence[SwitchStudy], rotary: Sequence[SwitchStudy]) -> Interval:
    """Pieces less words in the head chosen: rotary less learned, within pairs of one seed."""
    of_kind = [
        np.array(
            [
                apart(study.attention, study.queries, 1)[chosen(study.attention, study.queries)]
                for study in studies
            ]
        )
        for studies in (learned, rotary)
    ]
    return one(over_seeds(of_kind[1] - of_kind[0]))


def frozen_twins(
    folder: Path | None = None,
) -> tuple[Mapping[str, list[SwitchStudy]], list[ConstantsStudy]]:
    """What `experiments/switch` froze of the twins: studies by kind, and those of weights."""
    folder = folder or data_folder() / "results" / "switch"
    texts = {
        kind: [SwitchStudy.read(folder / f"{kind}-{seed}") for seed in SEEDS] for kind in KINDS
    }
    return texts, [ConstantsStudy.read(folder / f"rotary-{seed}") for seed in SEEDS]
