"""Null models: what learnt nothing, but keeps what a claim takes as given.

A claim names one. Its rule is asked of it by the same code, and a part of the claim that the null
model meets as well says nothing of training. There are two sorts. Some are made of the measures
themselves: no difference, with the noise that was measured. Others need weights, such as heads in
random order under the trained embeddings: they are computed once, by
`lnattn_book.frozen.null_draws`, and their measures are frozen, so that the rule can be asked of
them again with other thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from lnattn.errors import ResultError
from lnattn.paths import data_folder
from lnattn.storage import read_json, write_json
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.measures import Detail, Measures

#: How often a null model is drawn that is made of measures.
DRAWS = 200
#: A null model meets what holds in more than this share of its draws.
LEVEL = 0.05


@dataclass(frozen=True)
class NullModel:
    """What learnt nothing.

    words: what it is, for readers; draw: makes its measures of those of the results, anew in each
    draw; None: they are frozen, by claim and model; draws: how many.
    """

    words: str
    draw: Callable[[Measures, np.random.Generator], dict[str, Any]] | None = None
    draws: int = DRAWS

    def measures(
        self, claim_id: str, model: str, measures: Mapping[str, Any]
    ) -> list[Mapping[str, Any]]:
        """The measures of each draw; [] where none were computed for this model.

        What was asked of a model's weights without its token embeddings, 'gpt2 (frozen)', is also
        that of the whole model.
        """
        if self.draw is not None:
            generator = np.random.default_rng(0)
            given = Measures(measures)
            return [{**measures, **self.draw(given, generator)} for _ in range(self.draws)]
        by_model = frozen_nulls(claim_id)
        draws = by_model.get(model) or by_model.get(f"{model} (frozen)", [])
        return [{**measures, **drawn} for drawn in draws]


def noise_around(words: str, centres: Mapping[str, float], *, joint: bool = False) -> NullModel:
    """No effect: these measures lie around these numbers, with the noise that was measured.

    A measure above 0 whose number is not 0, such as a ratio, is drawn by its logarithm. joint: see
    `around`.

    >>> null = noise_around("no difference", {"more": 0.0})
    >>> measures = Measures({"more": Interval(9.0, 8.0, 10.0)})
    >>> drawn = null.draw(measures, np.random.default_rng(0))
    >>> abs(drawn["more"].value) < 3 and drawn["more"].high - drawn["more"].low
    2.0
    """

    def draw(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
        return {
            name: around(Interval.of(measures[name]), centre, generator, joint=joint)
            for name, centre in centres.items()
        }

    return NullModel(words, draw)


def around(
    interval: Interval, centre: float, generator: np.random.Generator, *, joint: bool = False
) -> Interval:
    """An interval of the same width about a number near a centre, as far as its noise goes.

    joint: whether intervals are stretched so that all of them hold together. What has no finite
    interval lies at the centre, and reaches everywhere.
    """
    value = np.asarray(interval.value, dtype=np.float64)
    low = np.asarray(interval.low, dtype=np.float64)
    high = np.asarray(interval.high, dtype=np.float64)
    in_logs = centre > 0 and bool((low > 0).all())
    if in_logs:
        value = np.log(value)
        low = np.log(low)
        high = np.log(high)
        centre = np.log(centre)
    known = np.isfinite(value) & np.isfinite(low) & np.isfinite(high)
    beneath = np.subtract(value, low, out=np.full(value.shape, np.inf), where=known)
    above = np.subtract(high, value, out=np.full(value.shape, np.inf), where=known)
    errors = ndtri(1 - 0.025 / (value.size if joint else 1))
    error = np.divide(beneath + above, 2 * errors, out=np.zeros(value.shape), where=known)
    drawn = centre + error * generator.standard_normal(value.shape)
    ends = (drawn, drawn - beneath, drawn + above)
    return Interval(*(np.exp(end) if in_logs else end for end in ends))


#: The null model of claims on the embeddings themselves.
EMBEDDINGS_IN_RANDOM_ORDER = NullModel("the entries of each embedding matrix in random order")
#: The null model of claims on keys of trained language models.
UNTRAINED = NullModel("the same model before its training, on text")
#: The null model of most claims on a first layer, which take its embeddings as given.
HEADS_IN_RANDOM_ORDER = NullModel(
    "the same embeddings; the entries of each head's weights in random order"
)


# --- frozen measures ----------------------------------------------------------------------------


def path_of(claim_id: str, results: Path | None = None) -> Path:
    """Where the measures of a claim's null model are frozen."""
    folder = results or data_folder() / "results"
    return folder / "nulls" / f"{claim_id.lower()}.json"


@lru_cache
def frozen_nulls(claim_id: str) -> dict[str, list[dict[str, Interval]]]:
    """By model, the measures of each draw of a claim's null model; {} where none are frozen."""
    path = path_of(claim_id)
    return read_nulls(path) if path.is_file() else {}


def read_nulls(path: Path) -> dict[str, list[dict[str, Interval]]]:
    """What `write_nulls` wrote; a damaged file is one `ResultError`."""
    try:
        return {
            model: [
                {name: Interval(*map(_numbers, ends)) for name, ends in drawn.items()}
                for drawn in draws
            ]
            for model, draws in read_json(path)["models"].items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"{path} holds no null model ({error!r}); compute it again.") from error


def write_nulls(
    claim_id: str,
    model: str,
    draws: list[Mapping[str, Any]],
    command: str,
    results: Path | None = None,
) -> Path:
    """Freeze the measures of each draw beside those of other models; returns the file."""
    path = path_of(claim_id, results)
    models = read_json(path)["models"] if path.is_file() else {}
    models[model] = [
        {
            name: [_in_json(end) for end in Interval.of(measure)]
            for name, measure in drawn.items()
            if not isinstance(measure, str | Detail)
        }
        for drawn in draws
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    frozen_nulls.cache_clear()
    return write_json(
        path, {"claim": claim_id, "models": models, "command": command, "kind": "nulls"}
    )


def _in_json(values: Any) -> Any:
    """Numbers as JSON has them, with null for what was not asked."""
    listed = np.asarray(values, dtype=np.float64)
    as_objects = listed.astype(object)
    as_objects[~np.isfinite(listed)] = None
    return as_objects.tolist()


def _numbers(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=np.float64)
