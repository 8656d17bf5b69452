"""One whole layer against Hugging Face (pre-LN) and torch's own encoder (post-LN)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from families import randomise
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_gpt2, random_layer, transformer_of

from lnattn import fold
from lnattn.attention.forward import (
    both_ln_layer,
    causal_mask,
    multi_head_attention,
    post_ln_layer,
    pre_ln_layer,
    project,
)
from lnattn.attention.layernorm import layer_norm
from lnattn.errors import CheckpointError, ShapeError, TokenError
from lnattn.models.whole_gpt2 import load_transformer
from lnattn.weights import LayerNorm
from lnattn_book.studies import identities
from lnattn_book.studies.torch_blocks import block_of_encoder_layer

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


def noise(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def ours(model):
    return transformer_of(model.state_dict(), model.config.to_dict())


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("layers", "d_model", "heads", "length"), [(1, 8, 1, 1), (3, 24, 3, 17)])
def test_pre_ln_layers_equal_hugging_face(layers, d_model, heads, length, dtype):
    model = random_gpt2(3, layers, d_model, heads, dtype=dtype)
    ids = torch.arange(length)[None] * 7 % 40
    with torch.no_grad():
        states = model.transformer(ids, output_hidden_states=True).hidden_states
    x = states[0][0]
    for layer, block in enumerate(ours(model).blocks[:-1]):
        x, _ = pre_ln_layer(x, block)
        exact = states[layer + 1][0]
        assert (x - exact).abs().max() / exact.abs().max() < TOLERANCE[dtype]
    # Hugging Face hands the last state out after the final LayerNorm.
    x, _ = pre_ln_layer(x, ours(model).blocks[-1])
    ln_f = model.transformer.ln_f
    exact = states[-1][0]
    assert (ln_f(x) - exact).abs().max() / exact.abs().max() < TOLERANCE[dtype]


@settings(max_examples=15, deadline=None)
@given(total=st.integers(1, 9), cut=st.integers(0, 9), heads=st.integers(1, 3))
def test_decoding_with_a_cache_equals_prefill(total, cut, heads):
    layer = random_layer(1, 6, heads, 2)
    x = noise(total, 6)
    exact, _ = multi_head_attention(x, layer)
    cut = min(cut, total - 1)
    past, outputs = None, []
    if cut:
        out, past = multi_head_attention(x[:cut], layer)
        outputs.append(out)
    for token in range(cut, total):
        out, past = multi_head_attention(x[token : token + 1], layer, past)
        outputs.append(out)
    assert (torch.cat(outputs) - exact).abs().max() < 1e-10
    assert past.k.shape == (heads, total, 2)


def test_post_ln_layer_equals_torchs_encoder():
    d_model, heads, d_mlp = 12, 3, 20
    theirs = torch.nn.TransformerEncoderLayer(
        d_model, heads, d_mlp, dropout=0.0, activation="gelu", batch_first=True, norm_first=False
    ).double()
    randomise(theirs, 5).eval()
    block = block_of_encoder_layer(theirs)
    x = noise(7, d_model)
    # Without gradients torch would take a fused path; keep its written-out one as the oracle.
    exact = theirs(x[None].requires_grad_())[0].detach()
    assert (post_ln_layer(x.detach(), block) - exact).abs().max() < 1e-10


def test_layer_normalised_before_and_after_equals_torchs_modules():
    d_model, heads, d_mlp = 12, 3, 20
    theirs = torch.nn.TransformerEncoderLayer(
        d_model, heads, d_mlp, dropout=0.0, activation="gelu", batch_first=True
    ).double()
    after = [torch.nn.LayerNorm(d_model).double() for _ in range(2)]
    for number, module in enumerate((theirs, *after)):
        randomise(module, 5 + number)
    x = noise(7, d_model)
    with torch.no_grad():
        u = theirs.norm1(x)
        y = after[0](x + theirs.self_attn(u, u, u)[0])
        hidden = torch.nn.functional.gelu(theirs.linear1(theirs.norm2(y)))
        exact = after[1](y + theirs.linear2(hidden))
        norms = tuple(LayerNorm(one.weight, one.bias, one.eps) for one in after)
        found = both_ln_layer(x, block_of_encoder_layer(theirs), norms)
    assert (found - exact).abs().max() < 1e-10


@settings(max_examples=10, deadline=None)
@given(heads=st.integers(1, 3), seed=st.integers(0, 99))
def test_a_query_depends_on_its_own_token_alone(heads, seed):
    """Contracted over features, as `project` does; over the sequence it would not."""
    layer = random_layer(seed, 6, heads, 2)
    x = noise(5, 6)
    other = x.clone()
    other[1] += 1
    moved = project(other, layer.W_Q, layer.b_Q) - project(x, layer.W_Q, layer.b_Q)
    assert moved[:, [0, 2, 3, 4]].abs().max() < 1e-12
    assert moved[:, 1].abs().max() > 1e-3
    over_seq = noise(5, 5) @ (other - x)
    assert over_seq[0].abs().max() > 1e-3


def test_causal_mask_lines_queries_up_with_the_last_keys():
    assert causal_mask(2, 4).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert causal_mask(1, 3).all()
    for queries, keys in ((0, 3), (4, 3)):
        with pytest.raises(ShapeError, match="queries ≤ keys"):
            causal_mask(queries, keys)


def test_a_window_hides_keys_too_far_back():
    layer = replace(random_layer(1, 6, 2, 3), window=2)
    x = noise(5, 6)
    exact = fold(layer).output(x)
    ours_, cache = multi_head_attention(layer_norm(x, layer.ln), layer)
    assert (ours_ - exact).abs().max() < 1e-10
    assert causal_mask(2, 4, 2).int().tolist() == [[0, 1, 1, 0], [0, 0, 1, 1]]
    # Decoding: the last token with the cache of the first four sees the same two keys.
    _, past = multi_head_attention(layer_norm(x[:4], layer.ln), layer)
    last, _ = multi_head_attention(layer_norm(x[4:], layer.ln), layer, past)
    assert (last - exact[4:]).abs().max() < 1e-10
    assert cache.k.shape == (2, 5, 3)


# --- reading a whole GPT-2 ----------------------------------------------------------------------


def test_untied_unembedding_and_scale_settings_are_read():
    model = random_gpt2(3, 2, 24, 3)
    weights = {**model.state_dict(), "lm_head.weight": noise(40, 24)}
    config = {**model.config.to_dict(), "scale_attn_by_inverse_layer_idx": True}
    read = transformer_of(weights, config)
    assert torch.equal(read.W_U, noise(40, 24).T)
    assert read.blocks[0].attention.scale == pytest.approx(8**0.5)
    assert read.blocks[1].attention.scale == pytest.approx(2 * 8**0.5)
    assert read.to(torch.float32).blocks[1].mlp.W_in.dtype == torch.float32
    bare = transformer_of(model.state_dict(), {**config, "scale_attn_weights": False})
    assert bare.blocks[0].attention.scale == 1.0


def test_what_a_config_leaves_out_is_as_in_gpt2():
    """Scores are divided by √d_head, in every layer alike, and ε is 1e-5."""
    model = random_gpt2(3, 2, 24, 3)
    config = model.config.to_dict()
    for name in (
        *("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "layer_norm_epsilon"),
        *("add_cross_attention", "tie_word_embeddings", "activation_function", "n_inner"),
    ):
        config.pop(name, None)
    weights = {name: rows for name, rows in model.state_dict().items() if "lm_head" not in name}
    read = transformer_of(weights, config)
    for block in read.blocks:
        assert block.attention.scale == pytest.approx(8**0.5)
        assert block.attention.ln.eps == block.mlp.ln.eps == read.ln_f.eps == 1e-5
        assert block.mlp.W_in.shape == (24, 96)
    assert torch.equal(read.W_U, model.transformer.wte.weight.T)


def test_an_ffn_of_another_width_is_read():
    sizes = {"n_layer": 2, "vocab_size": 40, "n_positions": 32}
    model = randomise(identities.random_gpt2(3, 24, 3, torch.float64, n_inner=40, **sizes), 3)
    with torch.no_grad():
        x, exact, _ = model.transformer(torch.arange(5)[None], output_hidden_states=True)[2]
    assert (pre_ln_layer(x[0], ours(model).blocks[0])[0] - exact[0]).abs().max() < 1e-10


def test_incomplete_or_unsupported_checkpoints_are_refused():
    model = random_gpt2(3, 1, 8, 1)
    weights, config = model.state_dict(), model.config.to_dict()
    partial = {name: value for name, value in weights.items() if "mlp" not in name}
    with pytest.raises(CheckpointError, match=r"h\.0\.mlp\.c_fc\.weight"):
        transformer_of(partial, config)
    with pytest.raises(CheckpointError, match="hidden_size"):
        transformer_of(weights, {})
    tied = ("wte", "lm_head")  # either of a tied pair would do
    attention_only = {
        name: value for name, value in weights.items() if not any(end in name for end in tied)
    }
    with pytest.raises(TokenError, match="token embeddings"):
        transformer_of(attention_only, config)
    headless = {name: value for name, value in weights.items() if name != "lm_head.weight"}
    with pytest.raises(CheckpointError, match=r"lm_head\.weight"):
        transformer_of(headless, {**config, "tie_word_embeddings": False})
    with pytest.raises(CheckpointError, match="'silu'"):
        transformer_of(weights, {**config, "activation_function": "silu"})


def test_loading_from_a_folder_gives_the_same_model(tmp_path):
    model = random_gpt2(3, 2, 24, 3)
    model.save_pretrained(tmp_path)
    loaded, exact = load_transformer(tmp_path), ours(model)
    assert torch.equal(loaded.W_U, exact.W_U)
    assert torch.equal(loaded.blocks[1].mlp.W_out, exact.blocks[1].mlp.W_out)
    assert torch.equal(loaded.blocks[1].attention.W_O, exact.blocks[1].attention.W_O)
