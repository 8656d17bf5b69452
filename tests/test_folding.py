"""K1, K2, W_VO: the folded block equals Hugging Face's eager attention on random models."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from naming import naming
from random_models import attention_layer, plain_layer, random_gpt2

from lnattn import fold, plain
from lnattn.attention.folding import softmax_over_keys
from lnattn.errors import ShapeError

CONFIGURATIONS = [
    # layers, d_model, heads, length
    (1, 8, 1, 1),
    (1, 8, 8, 5),
    (2, 24, 3, 17),
    (1, 64, 4, 32),
]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


def hugging_face(model, x, layer=0, mask=None):
    """Output and attention of one block, computed by the Hugging Face module itself."""
    block = model.transformer.h[layer]
    n = x.shape[1]
    visible = torch.ones(n, n, dtype=torch.bool).tril()[None, None]
    if mask is not None:
        visible = visible & mask[:, None, None, :]
    bias = torch.zeros(visible.shape, dtype=x.dtype).masked_fill(~visible, torch.finfo(x.dtype).min)
    with torch.no_grad():
        output, attention = block.attn(block.ln_1(x), attention_mask=bias, output_attentions=True)[
            :2
        ]
    return output, attention


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("layers", "d_model", "heads", "length"), CONFIGURATIONS)
def test_folded_block_equals_hugging_face(layers, d_model, heads, length, dtype):
    model = random_gpt2(11, layers, d_model, heads, dtype=dtype)
    generator = torch.Generator().manual_seed(5)
    for layer in range(layers):
        folded = fold(attention_layer(model, layer))
        # Inputs with a common offset: centring must be done by the folded weights.
        x = 3 + 2 * torch.randn(2, length, d_model, generator=generator, dtype=torch.float64)
        x = x.to(dtype)
        output, attention = hugging_face(model, x, layer)
        scale = output.abs().max()
        assert (folded.attention(x) - attention).abs().max() < TOLERANCE[dtype]
        assert (folded.output(x) - output).abs().max() / scale < TOLERANCE[dtype]


def test_padding_mask_agrees_with_hugging_face(gpt2):
    folded = fold(attention_layer(gpt2))
    x = torch.randn(3, 9, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(3, 9, dtype=torch.bool)
    mask[0, 6:] = False  # padded on the right
    mask[1, 4] = False  # a hole
    output, attention = hugging_face(gpt2, x, mask=mask)
    torch.testing.assert_close(folded.attention(x, mask), attention, atol=1e-10, rtol=0)
    torch.testing.assert_close(folded.output(x, mask), output, atol=1e-9, rtol=1e-10)


def test_query_without_any_visible_key_attends_to_nothing(gpt2):
    folded = fold(attention_layer(gpt2))
    x = torch.randn(1, 4, 24, dtype=torch.float64)
    mask = torch.tensor([[False, True, True, True]])
    attention = folded.attention(x, mask)
    assert attention[0, :, 0].abs().max() == 0
    torch.testing.assert_close(attention[0, :, 1:].sum(-1), torch.ones(3, 3, dtype=torch.float64))


def test_key_bias_changes_nothing(gpt2):
    """K2: another b_K gives the same attention, although it does change the raw scores."""
    layer = attention_layer(gpt2)
    changed = replace(layer, b_K=layer.b_K + 10)
    x = torch.randn(7, 24, dtype=torch.float64)

    (scores, attention), (other_scores, other_attention) = (
        (
            torch.from_numpy(plain.scores(x.numpy(), plain_layer(block))),
            torch.from_numpy(plain.attention(x.numpy(), plain_layer(block))[0]),
        )
        for block in (layer, changed)
    )
    assert (scores - other_scores).abs().max() > 1
    torch.testing.assert_close(attention, other_attention, atol=1e-10, rtol=0)
    torch.testing.assert_close(fold(layer).attention(x), attention, atol=1e-10, rtol=0)
    # The folded scores differ from the original ones by one number per query and head.
    difference = fold(layer).scores(x) - scores
    assert (difference - difference[:, :, :1]).abs().max() < 1e-10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W_K": torch.zeros(3, 24, 7)}, "W_K"),
        ({"b_O": torch.full((24,), torch.nan)}, naming("b_O", "NaN")),
        ({"b_Q": torch.zeros(3, 8, dtype=torch.int64)}, "floating-point"),
        ({"scale": 0.0}, naming("scale", "positive")),
        ({"W_Q": torch.zeros(24, 8)}, naming("W_Q", "axes")),
    ],
)
def test_damaged_layers_are_refused(gpt2, shapes_unchecked, change, message):
    with pytest.raises(ShapeError, match=message):
        replace(attention_layer(gpt2), **change)


def test_of_scores_that_are_not_finite_the_head_is_named():
    """Two texts, three heads, four queries, five keys: in one text head 1 has one such score."""
    scores = torch.zeros(2, 3, 4, 5)
    scores[1, 1, 2, 0] = torch.inf
    with pytest.raises(ShapeError, match="head 1"):
        softmax_over_keys(scores, 1.0, causal=False)
