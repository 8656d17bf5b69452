"""What the chapter on other models states: which claims hold where, and all verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from lnattn.weights import AttentionLayer
from lnattn_book.claims import survey
from lnattn_book.claims.listed import claim
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_COMPUTABLE, Record

#: Verdicts by claim of one model; and of several, by the model's name.
Verdicts = Mapping[str, Record]
#: Models whose surveys are frozen.
TRAINED = ("gpt2", "minilm", "book-gpt2", "whisper-tiny.en")


def null_of(model: str) -> str:
    """What the column of a model's nulls is called."""
    return f"{model}, null"


def frozen(results: Path, models: Sequence[str] = TRAINED) -> dict[str, Verdicts]:
    """The frozen surveys: a model, and beside it the best verdict of five shuffled ones."""
    columns: dict[str, Verdicts] = {}
    for model in models:
        columns[model], _ = survey.read_survey(results / model, "survey")
        columns[null_of(model)], _ = survey.read_survey(results / model, "survey-null")
    return columns


class Groups(NamedTuple):
    """Claims by where they hold, at least in part.

    in_full: in full in every model that could be asked; everywhere: in every model, and in no null;
    met_by_a_null: in the shuffled weights of some model; one_model: in one model and in no null;
    nowhere: in no model; others: in some models and in no null.
    """

    in_full: list[str]
    everywhere: list[str]
    met_by_a_null: list[str]
    one_model: list[str]
    nowhere: list[str]
    others: list[str]


def is_met(record: Record) -> bool:
    """Whether a claim holds, at least in part."""
    return record.verdict in (HOLDS, HOLDS_IN_PART)


def models_that_meet(
    columns: Mapping[str, Verdicts], models: Sequence[str] = TRAINED
) -> dict[str, list[str]]:
    """By claim of `survey.ASKED`, the models of which it holds, at least in part."""
    return {
        name: [model for model in models if is_met(columns[model][name])] for name in survey.ASKED
    }


def groups(columns: Mapping[str, Verdicts], models: Sequence[str] = TRAINED) -> Groups:
    """The claims of `survey.ASKED` by where they hold; all but `in_full` are disjoint."""
    met_in = models_that_meet(columns, models)
    null_met = [
        name
        for name in survey.ASKED
        if any(is_met(columns[null_of(model)][name]) for model in models)
    ]
    rest = [name for name in survey.ASKED if name not in null_met]
    return Groups(
        in_full=[name for name in survey.ASKED if _in_full(name, columns, models)],
        everywhere=[name for name in rest if len(met_in[name]) == len(models)],
        met_by_a_null=null_met,
        one_model=[name for name in rest if len(met_in[name]) == 1],
        nowhere=[name for name in rest if not met_in[name]],
        others=[name for name in rest if 1 < len(met_in[name]) < len(models)],
    )


def _in_full(name: str, columns: Mapping[str, Verdicts], models: Sequence[str]) -> bool:
    verdicts = {columns[model][name].verdict for model in models} - {NOT_COMPUTABLE}
    return verdicts == {HOLDS}


def table(columns: Mapping[str, Verdicts]) -> pd.DataFrame:
    """A row a claim: its measure, and for every model sign and value."""
    cells = {
        model: {
            name: f"{records[name].mark} {records[name].short}".strip() for name in survey.ASKED
        }
        for model, records in columns.items()
    }
    measures = {name: claim(name).measure for name in survey.ASKED}
    return pd.DataFrame({"measure": measures, **cells}).rename_axis(columns="claim")


def two_turns(
    turns: Mapping[str, np.ndarray], drawn: Mapping[str, Sequence[np.ndarray]]
) -> pd.DataFrame:
    """A row a model: heads, how many turn about twice, least, median and most turns, and draws.

    turns: [head], by model; drawn: the same of each draw of smooth random positions. draws: the
    share of these in which more than half of the heads turn about twice.
    """
    rows = {}
    for model, of_heads in turns.items():
        meets = [about_twice(of_draw).mean() > 0.5 for of_draw in drawn[model]]
        spread = (of_heads.min(), np.median(of_heads), of_heads.max())
        rows[model] = (len(of_heads), about_twice(of_heads).sum(), *spread, np.mean(meets))
    columns = ["heads", "about two", "least", "median", "most", "draws"]
    return pd.DataFrame(rows.values(), index=pd.Index(rows, name="model"), columns=columns)


def about_twice(turns: np.ndarray) -> np.ndarray:
    """Which waves turn more than 1.5 and less than 2.5 times."""
    return (turns > 1.5) & (turns < 2.5)


def without_query_bias(layer: AttentionLayer) -> AttentionLayer:
    """The same layer with a query bias of 0."""
    return replace(layer, b_Q=torch.zeros_like(layer.b_Q))
