"""Checkpoints as others save them: tied, wrapped, adapted, with settings that mean nothing here."""

from __future__ import annotations

import json
import time

import pytest
import torch
from families import EACH, LEARNED, RELATIVE, RELATIVE_EACH, VOCAB, config_of, make, save
from safetensors.torch import load_file, save_file, save_model
from test_checkpoints import complaint, configure

from lnattn import distance_terms, fold, fold_relative, load_first_layer, six_terms
from lnattn.errors import CheckpointError
from lnattn.models.checkpoints import open_checkpoint
from lnattn.models.reference import load_reference_model

WEIGHTS = "model.safetensors"
IDS = [7, 5, 9, 11]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return save(make("gpt2", torch.float32), tmp_path_factory.mktemp("gpt2"))


def attention(folder):
    """The first layer's attention of a text, by the terms of its kind."""
    first = load_first_layer(folder)
    if hasattr(first, "context"):
        folded = fold_relative(first.attention)
        return distance_terms(folded, first.embeddings, IDS).attention()
    return six_terms(fold(first.attention), first.embeddings, IDS).attention()


# ---- tied weights under their other name -------------------------------------------------------


@pytest.mark.parametrize("kind", EACH)
def test_tied_weights_are_found_under_their_other_names(kind, tmp_path):
    """Whichever of its names a file keeps of a table that a model uses twice."""
    model = make(kind, torch.float32, head=True, tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    place = model.get_input_embeddings().weight.data_ptr()
    names = {n for n, tensor in model.state_dict().items() if tensor.data_ptr() == place}
    table = load_first_layer(tmp_path).embeddings.W_E
    tensors = load_file(tmp_path / WEIGHTS)
    (usual,) = names & tensors.keys()
    tied = tensors.pop(usual)
    for other in names - {usual}:
        save_file({**tensors, other: tied}, tmp_path / WEIGHTS)
        first = load_first_layer(tmp_path)
        assert torch.equal(first.embeddings.W_E, table), other
        assert not first.is_partial
    assert len(names) > 1


def test_what_save_model_leaves_of_a_tied_pair_is_enough(gpt2, tmp_path):
    model = make("gpt2", torch.float32)
    save_model(model, str(tmp_path / WEIGHTS))  # of both names the first in the alphabet
    model.config.save_pretrained(tmp_path)
    assert "transformer.wte.weight" not in load_file(tmp_path / WEIGHTS)
    assert torch.equal(attention(tmp_path), attention(gpt2))


def test_an_untied_head_is_no_embedding(tmp_path):
    make("llama-default", head=True, tie_word_embeddings=False).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    del tensors["model.embed_tokens.weight"]
    save_file(tensors, tmp_path / WEIGHTS)
    assert "lacks the tensor 'model.embed_tokens.weight'" in complaint(tmp_path)


# ---- which tensors the first layer needs -------------------------------------------------------


@pytest.mark.parametrize("kind", [*LEARNED, *RELATIVE])
def test_the_tensors_that_are_fetched_are_those_that_are_read(kind, tmp_path):
    """Of a sharded model nothing else is fetched, and of other layers nothing."""
    save(make(kind, torch.float32), tmp_path)
    read = set(load_first_layer(tmp_path).provenance["tensors"])
    needed = open_checkpoint(tmp_path).family.first_layer_tensors()
    assert read <= needed
    # Values and outputs are not read of relative families, nor types of BERT's second segment.
    beside = {name for name in needed - read if ".0." not in name}
    assert not any(".1." in name for name in beside), beside
    assert len(beside) == 0


# ---- wrappers --------------------------------------------------------------------------------


def renamed(source, folder, change):
    folder.mkdir()
    (folder / "config.json").write_text((source / "config.json").read_text())
    tensors = load_file(source / WEIGHTS)
    save_file({change(name): tensor for name, tensor in tensors.items()}, folder / WEIGHTS)
    return folder


@pytest.mark.parametrize(
    "wrapper",
    ["_orig_mod.", "module.", "base_model.model.", "pretrained_model.", "module._orig_mod."],
)
def test_known_wrappers_are_taken_off(wrapper, gpt2, tmp_path):
    folder = renamed(gpt2, tmp_path / "wrapped", lambda name: wrapper + name)
    assert torch.equal(attention(folder), attention(gpt2))


def test_an_unknown_wrapper_is_named(gpt2, tmp_path):
    folder = renamed(gpt2, tmp_path / "wrapped", lambda name: f"policy.net.{name}")
    text = complaint(folder)
    assert "'policy.net." in text
    assert "save the inner model" in text


def test_adapters_must_be_merged_first(gpt2, tmp_path):
    def adapted(name):
        inner = name.replace("c_attn.weight", "c_attn.base_layer.weight")
        return f"base_model.model.{inner}"

    assert "merge_and_unload" in complaint(renamed(gpt2, tmp_path / "adapted", adapted))


# ---- settings that say nothing about the first layer --------------------------------------------


#: Settings of some family or other that each of these has none of.
_OF_OTHERS = {"alibi": True, "use_bidirectional_attention": True, "num_experts": 0}
_KNOW_THEM = [kind for kind in EACH if any(hasattr(config_of(kind), name) for name in _OF_OTHERS)]


@pytest.mark.parametrize("kind", [kind for kind in EACH if kind not in _KNOW_THEM])
def test_settings_of_other_families_change_nothing(kind, tmp_path):
    make(kind, torch.float32).save_pretrained(tmp_path)
    before = attention(tmp_path)
    configure(tmp_path, **_OF_OTHERS)
    assert torch.equal(attention(tmp_path), before)


@pytest.mark.parametrize("kind", ["gemma", "gemma2", "gemma3"])
def test_a_gemma_that_looks_both_ways_is_refused(kind, tmp_path):
    make(kind, torch.float32).save_pretrained(tmp_path)
    configure(tmp_path, use_bidirectional_attention=True)
    assert "is bidirectional, which is not read here" in complaint(tmp_path)


@pytest.mark.parametrize("kind", RELATIVE_EACH)
def test_what_a_rotary_config_leaves_out_is_as_in_transformers(kind, tmp_path):
    config = config_of(kind)
    make(kind, torch.float32).save_pretrained(tmp_path)
    before = attention(tmp_path)
    usual = type(config)().to_dict()
    written = json.loads((tmp_path / "config.json").read_text())
    left_out = [name for name, value in written.items() if usual.get(name, "other") == value]
    assert len(left_out) > 5
    configure(tmp_path, **dict.fromkeys(set(left_out) - {"model_type"}, "absent"))
    assert torch.equal(attention(tmp_path), before)


@pytest.fixture
def llama(tmp_path):
    make("llama-default", torch.float32).save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


@pytest.mark.parametrize(
    "stray",
    [
        {"clip_qkv": 1.0},
        {"attn_logit_softcapping": 0.5},
        {"sliding_window": 2},
        {"use_bidirectional_attention": True},
        {"attn_implementation": "flash_attention_2"},
        {"_attn_implementation": "flash_attention_2"},
        {"num_labels": 2**31},
        {"id2label": {"0": "a"}},
        {"torch_dtype": "no-such-type"},
        {"num_hidden_layers": 10_000},
        {"auto_map": {"AutoModel": "evil.Model"}},
    ],
    ids=str,
)
def test_what_a_family_does_not_know_changes_nothing(llama, stray):
    before = attention(llama)
    configure(llama, **stray)
    begun = time.perf_counter()
    assert torch.equal(attention(llama), before)
    assert time.perf_counter() - begun < 20  # and not the minutes that a table of labels takes


def test_labels_of_a_gpt2_cost_nothing(gpt2, tmp_path):
    folder = renamed(gpt2, tmp_path / "labelled", str)
    (folder / "vocab.json").write_text(json.dumps({f"{i:02d}": i for i in range(VOCAB - 5)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    configure(folder, num_labels=2**31)
    begun = time.perf_counter()
    load_first_layer(folder)
    assert time.perf_counter() - begun < 20


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("gptj", {"rotary_dim": 2**31}, "rotary_dim"),
        ("gptj", {"rotary_dim": 100}, "rotary_dim"),
        ("gptj", {"n_positions": 2**40}, "n_positions"),
        ("gptj", {"n_head": float("inf")}, "n_head"),
        ("gptj", {"n_embd": {}}, "n_embd"),
        ("gptj", {"n_layer": 0}, "n_layer"),
        ("falcon", {"layer_norm_epsilon": None}, "ε"),
        ("falcon", {"layer_norm_epsilon": -1.0}, "ε"),
        ("gemma2", {"query_pre_attn_scalar": -256}, ""),
        ("gemma2", {"attn_logit_softcapping": "x"}, "attn_logit_softcapping"),
        ("mpt", {"d_model": "x"}, "d_model"),
        ("mpt", {"attn_config": {"clip_qkv": "1"}}, "clip_qkv"),
        ("olmo", {"clip_qkv": "1"}, "clip_qkv"),
        ("olmo", {"clip_qkv": -1}, "clip_qkv"),
        ("granite", {"embedding_multiplier": "x"}, "embedding_multiplier"),
        ("granite", {"embedding_multiplier": 0}, "embedding_multiplier in config.json must be"),
        ("granite", {"attention_multiplier": float("nan")}, "scale"),
        ("llama-default", {"num_experts": -1}, "num_experts in config.json must be"),
        ("mistral", {"sliding_window": -1}, "sliding_window"),
        ("mistral", {"sliding_window": 2.5}, "sliding_window"),
        ("llama-default", {"hidden_size": "x" * 15_000}, "hidden_size"),
        ("llama-default", {"rms_norm_eps": "x" * 15_000}, ""),
        ("llama-default", {"rope_parameters": [1]}, ""),
        ("t5", {"num_layers": {}}, "num_layers"),
        ("t5", {"relative_attention_max_distance": 2}, "relative_attention_max_distance"),
    ],
    ids=str,
)
def test_settings_that_make_no_model(kind, settings, words, tmp_path):
    make(kind, torch.float32).save_pretrained(tmp_path)
    configure(tmp_path, **settings)
    text = complaint(tmp_path)
    assert words in text
    assert len(text) < 600


def test_a_long_context_of_gptj_costs_nothing(tmp_path):
    make("gptj", torch.float32).save_pretrained(tmp_path)
    before = attention(tmp_path)
    configure(tmp_path, n_positions=10_000_000)
    assert torch.equal(attention(tmp_path), before)


def test_layers_of_gpt_neo_are_not_written_out(tmp_path):
    folder = save(make("gpt_neo", torch.float32), tmp_path)
    configure(folder, attention_types=[[["global", "local"], 10**9]], attention_layers="absent")
    assert load_first_layer(folder, 0).attention.window is None
    assert load_first_layer(folder, 1).attention.window == 4
    for broken in (5, {}, [1], [["local"]], [[5, "x"]]):
        configure(folder, attention_types=broken)
        if broken != {}:
            assert "attention_types" in complaint(folder)
    configure(folder, attention_types=[], attention_layers=["local", "global"])
    assert load_first_layer(folder, 0).attention.window == 4
    configure(folder, attention_layers=5)
    assert "attention_types" in complaint(folder)


@pytest.mark.parametrize("value", [-1, -5, "x", {}, 2.5, True])
def test_a_padding_token_that_is_no_id(value, tmp_path):
    folder = save(make("roberta", torch.float32), tmp_path)
    configure(folder, pad_token_id=value)
    assert "pad_token_id" in complaint(folder)


def test_where_roberta_counts_positions_from(tmp_path):
    folder = save(make("roberta", torch.float32), tmp_path)
    rows = load_first_layer(folder).embeddings.W_P
    configure(folder, pad_token_id=None)  # transformers' default is 1, as here
    assert torch.equal(load_first_layer(folder).embeddings.W_P, rows)
    configure(folder, pad_token_id=0)
    assert len(load_first_layer(folder).embeddings.W_P) == len(rows) + 1
    configure(folder, pad_token_id=20)
    assert len(load_first_layer(folder).embeddings.W_P) == 1
    for last in (21, 30):
        configure(folder, pad_token_id=last)
        assert f"is {last}, so the first position would be row {last + 1} of 22" in complaint(
            folder
        )


def test_flags_must_be_true_or_false(gpt2, tmp_path):
    folder = renamed(gpt2, tmp_path / "flags", str)
    configure(folder, scale_attn_weights="no")
    assert "scale_attn_weights in config.json must be true or false" in complaint(folder)


def test_a_reference_model_is_eager_whatever_its_config_says(llama):
    configure(llama, attn_implementation="flash_attention_2")
    model = load_reference_model(llama)
    there = model(torch.tensor([IDS]), output_attentions=True).attentions[0][0]
    assert (attention(llama) - there).abs().max() < 1e-5


def test_an_error_is_one_line_for_callers_too(llama):
    configure(llama, rope_parameters={"rope_type": "yarn\n" * 900})
    with pytest.raises(CheckpointError) as error:
        load_first_layer(llama)
    assert "\n" not in str(error.value)
