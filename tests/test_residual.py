"""The prediction as a sum: every summand by itself, and the sum against Hugging Face."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from random_models import random_gpt2, transformer_of

import lnattn
from lnattn import plain
from lnattn.attention.residual import decompose
from lnattn.transformer import Block
from lnattn_book.studies.head_paths import two_layer_paths

CONFIGURATIONS = [
    # layers, d_model, heads, length
    (1, 8, 1, 1),
    (1, 8, 8, 5),
    (2, 24, 3, 17),
    (4, 32, 2, 32),
]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


def tokens(length, vocab=40):
    generator = torch.Generator().manual_seed(length)
    return torch.randint(vocab, (length,), generator=generator)


def read(model):
    return transformer_of(model.state_dict(), model.config.to_dict())


def hugging_face(model, ids):
    with torch.no_grad():
        out = model(ids[None], output_attentions=True, output_hidden_states=True)
    return out.logits[0], torch.stack(out.attentions)[:, 0], out.hidden_states


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("layers", "d_model", "heads", "length"), CONFIGURATIONS)
def test_summands_add_up_to_hugging_faces_logits(layers, d_model, heads, length, dtype):
    model = random_gpt2(21, layers, d_model, heads, dtype=dtype)
    ids = tokens(length)
    exact, attention, _ = hugging_face(model, ids)
    ours = decompose(read(model), ids)
    size = exact.abs().max()
    assert (ours.logits() - exact).abs().max() / size < TOLERANCE[dtype]
    # Part by part: the logits of each summand, then the sum, then the final bias.
    parts = ours.readout.logits(ours.stream())
    assert parts.shape == (1 + layers * heads + 2 * layers, length, 40)
    assert (parts.sum(0) + ours.readout.bias - exact).abs().max() / size < TOLERANCE[dtype]
    assert (ours.attention - attention).abs().max() < TOLERANCE[dtype]


def outputs_of_last_block(model, ids):
    """What attention and FFN of the last block return while the whole model runs."""
    caught = {}
    block = model.transformer.h[-1]
    hooks = [
        block.attn.register_forward_hook(lambda *call: caught.update(attention=call[2][0][0])),
        block.mlp.register_forward_hook(lambda *call: caught.update(mlp=call[2][0])),
    ]
    hugging_face(model, ids)
    for hook in hooks:
        hook.remove()
    return caught["attention"], caught["mlp"]


def test_every_head_and_ffn_is_the_one_it_is_called():
    """Switch one head off inside Hugging Face: exactly its own row must go missing."""
    model = random_gpt2(5, 2, 24, 3)
    ids = tokens(9)
    ours = decompose(read(model), ids)
    stream = dict(zip(ours.names(), ours.stream(), strict=True))
    assert list(stream)[:4] == ["direct path", "head 0.0", "head 0.1", "head 0.2"]
    whole, ffn = outputs_of_last_block(model, ids)
    assert (stream["FFN 1"] - ffn).abs().max() < 1e-10
    layer = read(model).blocks[1].attention
    output = model.transformer.h[1].attn.c_proj.weight
    for head in range(3):
        saved = output.detach().clone()
        # A head's constant, (β W_V + b_V) W_O, is in 'attention bias', so it goes missing as well.
        constant = (layer.ln.beta @ layer.W_V[head] + layer.b_V[head]) @ layer.W_O[head]
        with torch.no_grad():
            output[8 * head : 8 * (head + 1)] = 0
        without, _ = outputs_of_last_block(model, ids)
        with torch.no_grad():
            output.copy_(saved)
        assert (whole - without - constant - stream[f"head 1.{head}"]).abs().max() < 1e-10


def test_logit_of_one_token_and_of_a_difference():
    model = random_gpt2(5, 2, 24, 3)
    ids = tokens(6)
    ours = decompose(read(model), ids)
    exact, _, _ = hugging_face(model, ids)
    targets, others = tokens(6).roll(1), (tokens(6) + 1) % 40
    table = ours.logit_of(targets)
    rows = torch.arange(6)
    assert list(table.index) == [*ours.names(), "final bias"]
    assert np.abs(table.sum().to_numpy() - exact[rows, targets].numpy()).max() < 1e-9
    parts = ours.readout.logits(ours.stream())
    assert np.abs(table.to_numpy()[:-1] - parts[:, rows, targets].numpy()).max() < 1e-10
    difference = ours.logit_of(targets, against=others.tolist())
    gap = (exact[rows, targets] - exact[rows, others]).numpy()
    assert np.abs(difference.sum().to_numpy() - gap).max() < 1e-9


# --- two layers, every path ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("ffn", [True, False], ids=["with FFNs", "attention only"])
@pytest.mark.parametrize(("heads", "length"), [(1, 1), (3, 12)])
def test_all_paths_add_up_to_the_logits(heads, length, ffn, dtype):
    model = random_gpt2(8, 2, 24, heads, dtype=dtype)
    whole = read(model)
    if not ffn:
        whole = replace(whole, blocks=tuple(Block(block.attention) for block in whole.blocks))
        with torch.no_grad():
            for block in model.transformer.h:
                block.mlp.c_proj.weight.zero_()
                block.mlp.c_proj.bias.zero_()
    exact, _, _ = hugging_face(model, tokens(length))
    paths = two_layer_paths(whole, tokens(length))
    assert (paths.logits() - exact).abs().max() / exact.abs().max() < TOLERANCE[dtype]
    if not ffn:
        assert not paths.mlp.any()
        assert not paths.mlp_second.any()


def test_each_path_equals_dense_matrices_with_hugging_faces_attention():
    model = random_gpt2(8, 2, 24, 3)
    ids = tokens(10)
    whole = read(model)
    _, attention, states = hugging_face(model, ids)
    paths = two_layer_paths(whole, ids)
    x = states[0][0]

    def divided(layer):
        state = states[layer][0]
        return attention[layer] / (state.var(-1, unbiased=False) + 1e-5).sqrt()

    def ov(layer, head):
        block = whole.blocks[layer].attention
        gain = torch.from_numpy(plain.centring(24)) @ torch.diag(block.ln.gamma)
        return gain @ block.W_V[head] @ block.W_O[head]

    one, two = divided(0), divided(1)
    for a in range(3):
        assert (paths.first[a] - one[a] @ x @ ov(0, a)).abs().max() < 1e-10
        assert (paths.second[a] - two[a] @ x @ ov(1, a)).abs().max() < 1e-10
        for b in range(3):
            exact = two[b] @ one[a] @ x @ ov(0, a) @ ov(1, b)
            assert (paths.virtual[a, b] - exact).abs().max() < 1e-10
            assert (paths.moves[1][b] @ paths.moves[0][a] - two[b] @ one[a]).abs().max() < 1e-10


def test_ffns_and_biases_go_their_own_paths():
    """By dense matrices: the first FFN and the first bias through the heads of layer 1."""
    model = random_gpt2(8, 2, 24, 3)
    ids = tokens(10)
    whole = read(model)
    _, attention, states = hugging_face(model, ids)
    first_ffn = {}
    hook = model.transformer.h[0].mlp.register_forward_hook(
        lambda *call: first_ffn.update(written=call[2][0])
    )
    _, last_ffn = outputs_of_last_block(model, ids)
    hook.remove()
    paths = two_layer_paths(whole, ids)
    state = states[1][0]
    move = attention[1] / (state.var(-1, unbiased=False) + 1e-5).sqrt()
    centring = torch.from_numpy(plain.centring(24))
    blocks = [block.attention for block in whole.blocks]
    constants = []
    for block in blocks:
        values = block.ln.beta @ block.W_V + block.b_V
        constants.append(torch.einsum("hk,hkd->d", values, block.W_O) + block.b_O)
    through = torch.zeros(10, 24, dtype=torch.float64)
    for head in range(3):
        ov = centring @ torch.diag(blocks[1].ln.gamma) @ blocks[1].W_V[head] @ blocks[1].W_O[head]
        of_ffn = move[head] @ first_ffn["written"] @ ov
        assert (paths.mlp_second[head] - of_ffn).abs().max() < 1e-10
        through += move[head] @ constants[0].expand(10, -1) @ ov
    assert (paths.mlp - first_ffn["written"] - last_ffn).abs().max() < 1e-10
    assert (paths.bias - sum(constants) - through).abs().max() < 1e-10
    assert (paths.direct - states[0][0]).abs().max() < 1e-12
    groups = paths.groups()
    assert (groups["attention biases"] - paths.bias).abs().max() == 0
    assert (groups["FFN 0 through layer 1"] - paths.mlp_second.sum(0)).abs().max() == 0
    assert (groups["full OV circuits, layer 1"] - paths.second.sum(0)).abs().max() == 0


def test_loss_without_paths():
    """All groups: Hugging Face's loss. Fewer: that of the logits without these groups' part."""
    model = random_gpt2(3, 2, 24, 3)
    ids = tokens(9)
    paths = two_layer_paths(read(model), ids)
    with torch.no_grad():
        logits = model(ids[None]).logits[0]
    exact = torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")
    assert (paths.loss_without(ids) - exact).abs().max() < 1e-10
    part = paths.readout.logits(paths.virtual.sum((0, 1)) + paths.direct)
    less = torch.nn.functional.cross_entropy((logits - part)[:-1], ids[1:], reduction="none")
    found = paths.loss_without(ids, "virtual heads", "direct path")
    assert (found - less).abs().max() < 1e-10
    assert (found - exact).abs().max() > 1e-3


def test_another_dtype_keeps_a_tied_unembedding_tied() -> None:
    """Untied, GPT-2 in double precision would need 300 MB more."""
    tied = lnattn.load_transformer("book-gpt2").to(torch.float64)
    assert tied.W_U.data_ptr() == tied.embeddings.W_E.data_ptr()
    torch.testing.assert_close(tied.W_U, tied.embeddings.W_E.T)
    separate = replace(tied, W_U=2 * tied.W_U).to(torch.float32)
    torch.testing.assert_close(separate.W_U, 2 * tied.embeddings.W_E.T.float())
