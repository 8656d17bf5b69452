"""Which claims hold where, on made verdicts."""

from __future__ import annotations

import pytest

from lnattn.paths import data_folder
from lnattn_book.chapters import carrying_over as chapter
from lnattn_book.claims import survey
from lnattn_book.claims.frozen import frozen_records
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    UNDECIDED,
    Record,
)

MODELS = ("one", "two")


def column(**verdicts: str) -> dict[str, Record]:
    """A model in which claims fail, but for those named."""
    return {name: Record(verdicts.get(name, FAILS), "") for name in survey.ASKED}


@pytest.fixture
def columns():
    return {
        "one": column(K3=HOLDS, K4=HOLDS_IN_PART, K5=HOLDS, K6=HOLDS, K7=HOLDS),
        "one, null": column(K6=HOLDS_IN_PART, K8=UNDECIDED),
        "two": column(K3=HOLDS, K4=HOLDS, K6=HOLDS, K7=NOT_COMPUTABLE, K8=UNDECIDED),
        "two, null": column(),
    }


def test_groups_are_disjoint_and_whole(columns):
    groups = chapter.groups(columns, MODELS)
    assert groups.everywhere == ["K3", "K4"]
    assert groups.met_by_a_null == ["K6"]
    assert groups.one_model == ["K5", "K7"]
    assert groups.others == []
    assert groups.in_full == ["K3", "K6", "K7"]  # K7 could be asked of one model only
    assert sorted(name for group in groups[1:] for name in group) == sorted(survey.ASKED)


def test_models_that_meet_a_claim_are_named_in_order(columns):
    met = chapter.models_that_meet(columns, MODELS)
    assert met["K3"] == list(MODELS)
    assert list(met) == list(survey.ASKED)
    columns[MODELS[0]]["K3"] = Record(UNDECIDED, "")
    assert chapter.models_that_meet(columns, MODELS)["K3"] == list(MODELS[1:])


def test_two_of_three_models_are_others(columns):
    groups = chapter.groups(
        {**columns, "three": column(), "three, null": column()}, (*MODELS, "three")
    )
    assert groups.others == ["K3", "K4"]
    assert groups.everywhere == []


def test_the_frozen_surveys_stand_beside_their_nulls():
    columns = chapter.frozen(data_folder() / "results", ("gpt2",))
    assert list(columns) == ["gpt2", "gpt2, null"]


def test_what_chapters_asked_stands_where_the_survey_could_not_ask():
    column = {"K3": Record(NOT_COMPUTABLE, "", claim="K3"), "K4": Record(FAILS, "", claim="K4")}
    records = [
        Record(UNDECIDED, "", claim="K3", model="gpt2 (by place alone)"),
        Record(HOLDS, "", claim="K4", model="gpt2 (frozen)"),
        Record(HOLDS, "", claim="K3", model="gpt2-medium"),
    ]
    together = chapter.with_records(column, records, "gpt2")
    assert {name: record.verdict for name, record in together.items()} == {
        "K3": UNDECIDED, "K4": FAILS,
    }  # fmt: skip


def test_the_page_says_what_the_frozen_surveys_give():
    results = data_folder() / "results"
    columns = chapter.frozen(results)
    _, records = frozen_records(results / "claims")
    columns["gpt2"] = chapter.with_records(columns["gpt2"], records, "gpt2")
    failing = [check.words for check in chapter.checks(columns) if not check.holds]
    assert failing == []
