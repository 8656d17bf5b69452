"""How much a study takes by default is what the frozen studies of the book were made with."""

from __future__ import annotations

import inspect

import numpy as np

from lnattn.affinity.subwords import subword_ranks
from lnattn.paths import data_folder
from lnattn.position.without_tokens import ASSUMED, PositionOnly
from lnattn.rotary import position
from lnattn_book.studies.detokenization import SKILL_QUERIES, AffinityResult, detokenization
from lnattn_book.studies.distance_terms import FAR, QUERIES, RotaryStudy, rotary_study
from lnattn_book.studies.query_classes import class_auroc

RESULTS = data_folder() / "results"


def default(function, name: str) -> object:
    return inspect.signature(function).parameters[name].default


def test_of_rotary_models() -> None:
    for name in ("book-llama", "smollm2-135m-q4"):
        study = RotaryStudy.read(RESULTS / name)
        assert study.own.shape[:2] == 2 * (len(RotaryStudy.COUNTED),)
        assert study.own.shape[-1] == QUERIES == default(rotary_study, "queries")
        assert study.pair_curves.shape[-1] == FAR
        assert study.by_distance.curve.shape[-1] == position.CONTEXT == study.record["context"]
        assert len(study.null_rho) == len(study.by_distance.null_share) == position.NULLS


def test_of_models_with_learned_positions() -> None:
    for name in ("minilm", "book-gpt2"):
        study = AffinityResult.read(RESULTS / name)
        assert study.heat.shape[-1] == default(detokenization, "heat_tokens")
        assert study.pair_keys.shape[-1] == default(detokenization, "pairs")
        assert study.record["bootstrap_draws"] == default(detokenization, "draws")
        assert study.record["seed"] == default(detokenization, "seed")
        assert study.record["queries"] == study.auroc.shape[1]
    assert default(detokenization, "queries") is None
    found = PositionOnly.read(RESULTS / "gpt2")
    np.testing.assert_allclose(found.assumed, np.median(found.variance) * np.array(ASSUMED))
    assert found.last.queries == (1019, 1020, 1021, 1022, 1023)


def test_how_much_is_drawn_where_no_frozen_array_tells() -> None:
    """Another number would draw another sample: the frozen studies could not be made again."""
    assert SKILL_QUERIES == 2**13
    assert default(class_auroc, "queries") == default(class_auroc, "draws") == 1000
    assert default(subword_ranks, "draws") == 1000
    assert {default(made, "seed") for made in (class_auroc, subword_ranks, rotary_study)} == {0}
