"""Null models: what learnt nothing, but keeps what a claim takes as given.

A claim that can fail names one, or says that it has none. Its rule is asked of it by the same code,
and a part of the claim that the null model meets as well says nothing of training. There are three
sorts. Some deal the results anew, such as arms exchanged seed by seed, and are measured as these
are. Some are made of measures, such as words lost by chance. Others need weights, such as heads in
random order under the trained embeddings: they are computed once, by
`lnattn_book.frozen.null_draws`, and their measures are frozen, so that the rule can be asked of
them again with other thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

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

    words: what it is, for readers; draw: makes measures of the measures, anew in each draw (None
    where there is nothing to draw from); deal: makes results of the results, likewise; neither:
    they are frozen, by claim and model; draws: how many.
    """

    words: str
    draw: Callable[[Measures, np.random.Generator], dict[str, Any] | None] | None = None
    deal: Callable[..., tuple[Any, ...]] | None = None
    draws: int = DRAWS

    def measures(
        self,
        claim_id: str,
        model: str,
        measures: Mapping[str, Any],
        again: Callable[..., Mapping[str, Any]] | None = None,
        results: Sequence[Any] = (),
    ) -> list[Mapping[str, Any]]:
        """The measures of each draw; [] where none were computed for this model.

        again: what measures results. What was asked of a model's weights without its token
        embeddings, 'gpt2 (frozen)', is also that of the whole model.
        """
        generator = np.random.default_rng(0)
        if self.deal is not None:
            if again is None or not results:
                return []
            dealt = (self.deal(generator, *results) for _ in range(self.draws))
            return [again(*of_draw) for of_draw in dealt]
        if self.draw is not None:
            given = Measures(measures)
            drawn = (self.draw(given, generator) for _ in range(self.draws))
            return [{**measures, **of_draw} for of_draw in drawn if of_draw is not None]
        by_model = frozen_nulls(claim_id)
        draws = by_model.get(model) or by_model.get(f"{model} (frozen)", [])
        return [{**measures, **drawn} for drawn in draws]


#: For claims of which no null model can be drawn from what is kept.
NONE = NullModel("no null: interval only", draws=0)


def flipped(generator: np.random.Generator, one: Any, other: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two sorts of values, exchanged with probability one half in each place of the first axis."""
    one = np.asarray(one)
    other = np.asarray(other)
    stay = generator.random(len(one)).reshape(-1, *[1] * (one.ndim - 1)) < 0.5
    return np.where(stay, one, other), np.where(stay, other, one)


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
