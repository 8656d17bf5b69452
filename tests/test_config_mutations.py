"""Changed configurations: what loads attends as transformers does, the rest is one sentence.

Small and seeded; LNATTN_FUZZ multiplies the number of cases, for a long run now and then.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import time

import pytest
import torch
import transformers as hf
from families import EACH, make, part_of

from lnattn import distance_terms, fold, fold_relative, load_first_layer, six_terms
from lnattn.errors import LnattnError

CASES = 24 * int(os.environ.get("LNATTN_FUZZ", "1"))
IDS = [7, 5, 9, 11, 8, 13]
#: Values that a setting is replaced by.
VALUES = [
    *(None, True, False, 0, 1, 2, 3, 5, 7, 8, -1, -5, 2**31, 2**63, 1.5, 0.5, 1e-3, 1e30, -0.0),
    *(
        "",
        "x",
        "1",
        "eager",
        "flash_attention_2",
        "default",
        "sliding_attention",
        [],
        {},
        [1],
        [[]],
    ),
    *(float("inf"), float("nan"), {"a": 1}, ["full_attention"], "é\u2028", "x" * 5000),
]
#: Settings of other families, or of nobody.
STRAY = ["clip_qkv", "sliding_window", "attn_logit_softcapping", "num_labels", "is_decoder",
         "rope_scaling", "partial_rotary_factor", "head_dim", "layer_types", "quirk",
         "attn_implementation", "query_pre_attn_scalar", "pad_token_id", "alibi"]  # fmt: skip


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A small model of each family, saved once."""
    folders = {}
    for family in EACH:
        folder = tmp_path_factory.mktemp(family)
        make(family, torch.float32).save_pretrained(folder)
        folders[family] = folder
    return folders


def changed(config: dict, generator: random.Random) -> dict:
    """The configuration with one or two settings changed, added or left out."""
    config = json.loads(json.dumps(config))
    for _ in range(generator.choice([1, 1, 2])):
        place = config
        inner = [name for name, value in config.items() if isinstance(value, dict) and value]
        if inner and generator.random() < 0.2:
            place = config[generator.choice(inner)]
        name = generator.choice([*place, *(STRAY if place is config else [])])
        if generator.random() < 0.15:
            place.pop(name, None)
        else:
            place[name] = copy.deepcopy(generator.choice(VALUES))
    return config


def ours(folder) -> torch.Tensor | str:
    """The attention of the first layer, or the one sentence that refuses it."""
    try:
        first = load_first_layer(folder)
        if hasattr(first, "context"):
            folded = fold_relative(first.attention)
            return distance_terms(folded, first.embeddings, IDS).attention()
        return six_terms(fold(first.attention), first.embeddings, IDS).attention()
    except LnattnError as error:
        return str(error)


def theirs(folder) -> torch.Tensor | None:
    """Attention as transformers computes it, or None where it cannot."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            model = hf.AutoModel.from_pretrained(
                folder, attn_implementation="eager", torch_dtype=torch.float32
            )
        inputs = {"input_ids": torch.tensor([IDS]), "output_attentions": True}
        with torch.no_grad():
            return part_of(model).eval()(**inputs).attentions[0][0]
    except Exception:
        return None


#: Settings that say how a model is saved, run or trained, or that make tables of any length: what
#: transformers makes of them in a whole model is not asked.
_NOT_ASKED = (
    *("num_labels", "num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    *("num_decoder_layers", "dtype"),
)


@pytest.mark.parametrize("family", EACH)
def test_what_loads_attends_as_transformers_does(family, originals, tmp_path):
    source = originals[family]
    for file in source.glob("*.safetensors"):
        (tmp_path / file.name).symlink_to(file)
    original = json.loads((source / "config.json").read_text())
    generator = random.Random(f"{family} 7")
    compared = refused = 0
    for _ in range(CASES):
        config = changed(original, generator)
        (tmp_path / "config.json").write_text(json.dumps(config))
        begun = time.perf_counter()
        attention = ours(tmp_path)
        assert time.perf_counter() - begun < 20, config
        if isinstance(attention, str):
            assert "\n" not in attention, config
            assert len(attention) < 700 + len(str(tmp_path)), config
            refused += 1
            continue
        assert torch.isfinite(attention).all(), config
        if any(config.get(name) != original.get(name) for name in _NOT_ASKED):
            continue
        if config.get("pad_token_id") in IDS:  # RoBERTa gives padding no position of its own
            continue
        there = theirs(tmp_path)
        if there is not None:
            assert attention.shape == there.shape, config
            assert (attention - there).abs().max() < 1e-4, config
            compared += 1
    assert compared > 0.05 * CASES  # of Whisper most settings are those of sound
    assert refused > 0
