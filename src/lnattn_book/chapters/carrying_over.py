"""What the claims page states first: which findings carry over to other models, and to none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lnattn_book.claims import survey
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_COMPUTABLE, Record
from lnattn_book.page.checks import Check, says

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


def with_records(column: Verdicts, records: Iterable[Record], model: str) -> dict[str, Record]:
    """A survey in which the records of a model, by any of its names, stand for what it left open.

    Of a checkpoint without tokens a survey asks what positions alone decide; chapters ask more of
    it, with what the source prints.
    """
    judged = {
        record.claim: record
        for record in records
        if record.model.split(" (")[0] == model and record.verdict != NOT_COMPUTABLE
    }
    return {
        name: judged.get(name, record) if record.verdict == NOT_COMPUTABLE else record
        for name, record in column.items()
    }


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


def checks(columns: Mapping[str, Verdicts]) -> Iterator[Check]:
    """What the page says of the surveys."""
    met = models_that_meet(columns)
    by_group = groups(columns)
    open_ = [name for name in survey.ASKED if columns["gpt2"][name].verdict == NOT_COMPUTABLE]
    yield says("Thirteen claims on attention heads", len(survey.ASKED) == 13)
    yield says("No claim holds in full wherever it could be asked", not by_group.in_full)
    yield says(f"{SPELLED[len(open_)]} could not be asked of GPT-2", len(open_) in SPELLED)
    yield says("*In all four models and in no null*, in part", by_group.everywhere == ["K13"])
    yield says("*In shuffled weights as well*", set(by_group.met_by_a_null) == {"K8", "K12"})
    of_one = {name: met[name] for name in by_group.one_model}
    asked = {"K14": ["gpt2"], "K3": ["minilm"], "K11": ["whisper-tiny.en"]}
    yield says("*In one model*: the flat last row in GPT-2", of_one == asked)
    yield says("*In two or three*: five", len(by_group.others) == 5)
    yield says("*In none*", set(by_group.nowhere) == {"K5", "K15"})


#: Numbers as the page writes them.
SPELLED = {7: "Seven", 8: "Eight"}
