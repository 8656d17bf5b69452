"""Which claims hold where, on made verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from random_models import random_layer

from lnattn.paths import data_folder
from lnattn_book.chapters import other_models as chapter
from lnattn_book.claims import survey
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


def test_the_table_has_sign_and_value_of_every_model(columns):
    columns["one"]["K3"] = Record(HOLDS, "", short="3 of 4")
    table = chapter.table(columns)
    assert table.index.tolist() == list(survey.ASKED)
    assert table.loc["K3", "one"] == "✓ 3 of 4"
    assert table.loc["K7", "two"] == "–"


def test_the_frozen_surveys_stand_beside_their_nulls():
    columns = chapter.frozen(data_folder() / "results", ("gpt2",))
    assert list(columns) == ["gpt2", "gpt2, null"]


def test_turns_are_counted_strictly_between_the_ends_beside_the_draws_that_meet_the_rule():
    turns = {"one": np.array([1.5, 1.6, 2.4, 2.5]), "two": np.array([7.0, 2.0, 1.0])}
    half, most = np.array([2.0, 7.0]), np.array([2.0, 2.0, 7.0])
    table = chapter.two_turns(turns, {"one": [most, most, half, most], "two": [half, half]})
    assert table.loc["one"].to_list() == [4, 2, 1.5, 2.0, 2.5, 0.75]
    assert table.loc["two"].to_list() == [3, 1, 1.0, 2.0, 7.0, 0.0]


def test_only_the_query_bias_is_taken_away():
    layer = random_layer(0, 8, 2, 4)
    bare = chapter.without_query_bias(layer)
    assert not bare.b_Q.any()
    assert layer.b_Q.any()
    assert bare.b_K.equal(layer.b_K)
