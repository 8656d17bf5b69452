"""Lone tokens beside text, in models where the answer is known; weights in random order."""

from __future__ import annotations

import numpy as np
import torch
import transformers as hf

from experiments.layers_above.measure import distance, in_text, lone, shuffled
from lnattn.models.alone import whole_model
from lnattn.models.verification import evaluating


def tiny():
    """A random GPT-2 of two layers."""
    torch.manual_seed(0)
    config = hf.GPT2Config(n_embd=24, n_head=3, n_layer=2, vocab_size=50, n_positions=40)
    model = hf.GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def far(model) -> np.ndarray:
    """How far the vectors of a text are from those of its tokens alone, by layer."""
    whole = whole_model(model)
    ids = torch.arange(3, 33)
    with evaluating(whole.model), torch.inference_mode():
        return distance(in_text(whole, ids)[None], lone(whole, ids)[None])[0]


def test_a_model_that_reads_nothing_else_is_its_lone_tokens():
    model = tiny()
    with torch.no_grad():
        model.transformer.h[0].attn.c_attn.weight[:, 48:] = 0  # values do not depend on the token
    np.testing.assert_allclose(far(model), 0, atol=1e-18)


def test_a_model_that_reads_is_not():
    first, second = far(tiny())
    assert first < 1e-18
    assert second > 1


def test_weights_in_random_order_keep_embeddings_and_values():
    model = tiny()
    dealt = shuffled(model, 0)
    before = dict(model.named_parameters())
    for name, parameter in dealt.named_parameters():
        same = torch.equal(parameter, before[name])
        assert same is (".h." not in name), name
        assert torch.equal(parameter.flatten().sort()[0], before[name].flatten().sort()[0])
