"""`place_alone`, `switch` and `waves` from their command lines to the files that they freeze."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from families import make, save

from experiments.command import place
from experiments.place_alone import __main__ as place_alone
from experiments.waves import __main__ as waves
from lnattn import load_first_layer
from lnattn.paths import data_folder
from lnattn_book.claims.nulls import read_nulls
from lnattn_book.frozen.kinds import read
from lnattn_book.studies.by_place import ByPlace
from lnattn_book.studies.waves import turns


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    model = make("gpt2", torch.float32, layer_norm_epsilon=1e-5)  # of a case of tests it is larger
    with torch.no_grad():
        model.transformer.wpe.weight.mul_(0.1)  # within the σ that is published for GPT-2
    return save(model, tmp_path_factory.mktemp("tiny"))


def test_a_folder_is_named_as_one_of_the_repository(tmp_path):
    assert place(tmp_path / "twins") == "data/results/twins"


def test_waves_freezes_distinct_nulls_beside_other_models(tmp_path, checkpoint, monkeypatch):
    monkeypatch.setattr(waves, "DRAWS", 3)
    before = (data_folder() / "results" / "nulls" / "waves.json").read_bytes()
    other = {"claim": "waves", "models": {"other": []}, "kind": "nulls", "command": "x"}
    (tmp_path / "nulls").mkdir()
    (tmp_path / "nulls" / "waves.json").write_text(json.dumps(other))
    waves.run(waves.parser().parse_args([str(checkpoint), "--out", str(tmp_path)]))
    path = tmp_path / "nulls" / "waves.json"
    read(path)
    frozen = read_nulls(path)
    name = load_first_layer(str(checkpoint)).name
    drawn = np.array([draw["turns"].value for draw in frozen[name]])
    assert set(frozen) == {"other", name}
    assert drawn.shape == (3, len(turns(load_first_layer(str(checkpoint)))))
    assert len(np.unique(drawn, axis=0)) == 3
    assert (data_folder() / "results" / "nulls" / "waves.json").read_bytes() == before


def test_place_alone_freezes_what_positions_say(tmp_path, checkpoint):
    out = tmp_path / "tiny"
    place_alone.run(place_alone.parser().parse_args([str(checkpoint), "--out", str(out)]))
    read(out / "by-place.json")
    frozen = ByPlace.read(out)
    first = load_first_layer(str(checkpoint))
    command = "python -m experiments.place_alone FOLDER --out data/results/tiny"
    assert frozen.own.shape[0] == first.attention.n_heads
    assert frozen.record["command"] == command
    assert frozen.record["weights_sha256"] == first.provenance["weights_sha256"]
