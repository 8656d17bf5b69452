"""A whole model whose first layer attends as told: losses and keys as transformers has them."""

from __future__ import annotations

import pytest
import torch
import transformers as hf
from families import randomise

from lnattn.models.attending import implementation_of, keys_of_layers, losses, patched

#: transformers takes a Llama's eager softmax in float32, whatever its type.
TOLERANCE = 5e-6
IDS = torch.tensor([7, 5, 9, 11, 3, 8])


@pytest.fixture
def model():
    """A Llama in which three heads share each key: 6 over 2 is no 6 less 2."""
    config = hf.LlamaConfig(
        vocab_size=50,
        hidden_size=24,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        attn_implementation="eager",
    )
    return randomise(hf.LlamaForCausalLM(config).double(), 3, 0.3).eval()


@torch.no_grad()
def losses_by_hand(model):
    """−log p of every token but the first, as the model gives them."""
    logs = model(IDS[None]).logits[0].log_softmax(-1)
    return torch.stack([-logs[i, IDS[i + 1]] for i in range(len(IDS) - 1)])


def test_losses_are_those_of_the_model_and_of_the_patterns_that_are_told(model):
    with torch.no_grad():
        own = model(IDS[None], output_attentions=True).attentions[0]
    even = (torch.ones(6, 6, dtype=torch.float64).tril() / torch.arange(1, 7)[:, None]).expand(
        6, 6, 6
    )
    expected = losses_by_hand(model)
    with patched(model):
        as_it_is = losses(model, IDS)
        told = losses(model, IDS, torch.stack([own[0], even]))
    assert as_it_is.shape == (1, 5)
    torch.testing.assert_close(as_it_is[0], expected, rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(told[0], expected, rtol=0, atol=TOLERANCE)
    # Queries of zeros look at all keys alike.
    model.model.layers[0].self_attn.q_proj.weight.data.zero_()
    torch.testing.assert_close(told[1], losses_by_hand(model), rtol=0, atol=TOLERANCE)
    assert (told[1] - told[0]).abs().max() > 1e-3


def test_keys_are_those_that_the_model_keeps_for_a_next_token(model):
    with torch.no_grad():
        kept = model(IDS[None], use_cache=True).past_key_values
    with patched(model):
        keys = keys_of_layers(model, IDS)
    assert len(keys) == 2
    for ours, layer in zip(keys, kept.layers, strict=True):
        torch.testing.assert_close(ours, layer.keys[0], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("before", ["eager", "sdpa"])
def test_afterwards_the_model_attends_as_before(model, before):
    """Else whoever goes on with the model finds no attention weights in it."""
    model.set_attn_implementation(before)
    with patched(model):
        assert implementation_of(model) not in ("eager", "sdpa")
    assert implementation_of(model) == before
    with pytest.raises(KeyboardInterrupt), patched(model):
        raise KeyboardInterrupt
    assert implementation_of(model) == before


def test_a_model_that_does_not_say_how_it_attends_runs_afterwards(model):
    expected = losses_by_hand(model)
    model.config._attn_implementation = None
    assert implementation_of(model) is None
    with patched(model):
        losses(model, IDS)
    assert implementation_of(model) in ("eager", "sdpa")
    torch.testing.assert_close(losses_by_hand(model), expected, rtol=0, atol=TOLERANCE)
