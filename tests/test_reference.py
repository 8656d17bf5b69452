"""The reference model is the same checkpoint that the first layer is read from, run whole."""

from __future__ import annotations

import pytest
import torch
from families import LEARNED, make
from naming import naming
from random_models import random_gpt2

import lnattn
from lnattn.errors import CheckpointError
from lnattn.models.reference import load_reference_model
from lnattn_book.studies.identities import attention_error


@pytest.fixture
def folder(tmp_path):
    random_gpt2(4).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", LEARNED)
def test_reference_and_first_layer_agree(kind, tmp_path):
    make(kind).save_pretrained(tmp_path)
    model, first = load_reference_model(tmp_path), lnattn.load_first_layer(tmp_path)
    assert not model.training
    error = attention_error(model, first, torch.arange(5, 20), torch.float64)
    # GPT-Neo, OPT and BERT take a softmax in float32 whatever their type.
    assert error < (1e-10 if model.config.model_type == "gpt2" else 5e-6)


def test_partial_checkpoints_cannot_run(folder):
    (folder / "model.safetensors").rename(folder / "attention.safetensors")
    with pytest.raises(CheckpointError, match=naming("model.safetensors", "complete model")):
        load_reference_model(folder)
