"""What is read is what a model computes with: adapters, hooks, classes, settings in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from families import EACH, make
from naming import naming
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils import parametrize, prune
from transformers import CONFIG_MAPPING, AutoConfig

import lnattn
from conformance.cases import CASES
from lnattn.errors import CheckpointError, ShapeError, TokenError
from lnattn.position.measured import windows


def gpt2() -> Any:
    sizes = {"n_embd": 16, "n_head": 2, "n_layer": 2, "vocab_size": 50, "n_positions": 32}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).eval()


def llama(**settings: Any) -> Any:
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"num_hidden_layers": 2, "vocab_size": 50, "intermediate_size": 32}
    return hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, **settings)).eval()


def query_of(model: Any) -> nn.Linear:
    return model.model.layers[0].self_attn.q_proj


class Doubling(nn.Linear):
    """An adapter that has no tensor of its own."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


class LowRank(nn.Linear):
    """An adapter as loralib makes it: tensors beside the weight, whose names have no more parts."""

    def __init__(self, *sizes: int, bias: bool) -> None:
        super().__init__(*sizes, bias=bias)
        self.lora_A = nn.Parameter(torch.ones(1, sizes[0]))


def parametrised(model: Any) -> None:
    parametrize.register_parametrization(query_of(model), "weight", nn.Tanh())


def tied_and_parametrised(model: Any) -> None:
    model.lm_head.weight = model.model.embed_tokens.weight
    model.config.tie_word_embeddings = True
    parametrize.register_parametrization(model.model.embed_tokens, "weight", nn.Tanh())


def pruned(model: Any) -> None:
    prune.random_unstructured(query_of(model), "weight", 0.3)


def spectral(model: Any) -> None:
    nn.utils.parametrizations.spectral_norm(query_of(model))


def hooked(model: Any) -> None:
    query_of(model).register_forward_hook(lambda _module, _given, made: 2 * made)


def hooked_before(model: Any) -> None:
    model.model.layers[0].input_layernorm.register_forward_pre_hook(lambda _m, x: (2 * x[0],))


def of_another_class(model: Any) -> None:
    model.model.layers[0].self_attn.q_proj = Doubling(32, 32, bias=False)


def of_low_rank(model: Any) -> None:
    model.model.layers[0].self_attn.q_proj = LowRank(32, 32, bias=False)


def wrapped(model: Any) -> None:
    model.model.layers[0].self_attn.q_proj = nn.Sequential(query_of(model))


def replaced(model: Any) -> None:
    plain = query_of(model).forward
    query_of(model).forward = lambda x: 2 * plain(x)  # type: ignore[method-assign]


CHANGES: dict[Callable[[Any], None], str] = {
    parametrised: "q_proj.parametrizations.weight.original",
    tied_and_parametrised: "embed_tokens.parametrizations.weight.original",
    pruned: "q_proj.weight_orig",
    spectral: "q_proj.parametrizations.weight",
    hooked: "q_proj",
    hooked_before: "input_layernorm",
    of_another_class: "Doubling",
    of_low_rank: "lora_A",
    wrapped: "q_proj.0.weight",
    replaced: "q_proj",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_module_that_computes_more_than_its_weights_say_is_refused_by_all_alike(change):
    model = llama()
    change(model)
    for asked in (lnattn.first_layer, lnattn.verify, lnattn.report):
        with pytest.raises(CheckpointError, match=naming(CHANGES[change])) as refused:
            asked(model)
        assert "fetch" not in str(refused.value)


def test_a_hook_of_transformers_itself_changes_no_number():
    model = llama()
    model.enable_input_require_grads()
    assert lnattn.verify(model).attention.max() < 1e-6


ADAPTED = (
    "model.layers.0.self_attn.q_proj.lora_A.default.weight",
    "model.layers.1.mlp.up_proj.lora_B",
    "base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight",
    "model.layers.0.self_attn.k_proj.ia3_l",
    "prompt_encoder.default.embedding.weight",
    "model.layers.0.self_attn.q_proj.weight_mask",
    "model.layers.0.self_attn.q_proj.parametrizations.weight.0.base",
)


@pytest.fixture
def folder(tmp_path) -> Path:
    llama().save_pretrained(tmp_path / "one")
    return tmp_path / "one"


@pytest.mark.parametrize("name", ADAPTED)
def test_what_stands_beside_the_weights_in_a_file_is_refused_by_all_alike(folder, name):
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, name: torch.ones(2, 2)}, folder / "model.safetensors")
    for asked in (lnattn.load_first_layer, lnattn.verify, lnattn.report):
        with pytest.raises(CheckpointError, match=naming(name)):
            asked(str(folder))


def test_an_adapter_in_a_file_beside_the_weights_is_refused_by_all_alike(folder):
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    for asked in (lnattn.load_first_layer, lnattn.verify, lnattn.report):
        with pytest.raises(CheckpointError, match=naming("adapter_config.json", "merge")):
            asked(str(folder))


# ---- A module in memory goes before its configuration --------------------------------------------


def other_epsilon(model: Any) -> None:
    model.model.layers[0].input_layernorm.variance_epsilon = 0.5


def other_frequencies(model: Any) -> None:
    model.model.rotary_emb.inv_freq.mul_(3.0)


def other_scale(model: Any) -> None:
    model.model.layers[0].self_attn.scaling = 1.0


@pytest.mark.parametrize("change", [other_epsilon, other_frequencies, other_scale])
def test_what_a_rotary_module_is_goes_before_its_configuration(change):
    model = llama()
    model.model.layers[0].self_attn.q_proj.weight.data.mul_(20)
    before = lnattn.first_layer(model)
    change(model)
    after = lnattn.first_layer(model)
    ids = list(range(1, 20))
    one, other = (
        lnattn.distance_terms(lnattn.fold_relative(first.attention), first.embeddings, ids)
        for first in (before, after)
    )
    assert (one.attention() - other.attention()).abs().max() > 1e-3
    assert lnattn.verify(model).attention.max() < 1e-6


@pytest.mark.parametrize("rope", ["dynamic", "longrope"])
def test_frequencies_that_follow_the_text_are_read_or_refused(rope):
    scaling = {"rope_type": rope, "factor": 2.0, "rope_theta": 1e4}
    if rope == "longrope":
        scaling |= {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
        scaling |= {"original_max_position_embeddings": 16}
    model = llama(max_position_embeddings=32, rope_parameters=scaling)
    with torch.no_grad():
        model(torch.arange(40)[None])  # longer than the context: its frequencies follow
    lnattn.first_layer(model)
    model.model.rotary_emb.original_inv_freq.mul_(3.0)
    with pytest.raises(CheckpointError, match=naming("original_inv_freq", "configuration")):
        lnattn.first_layer(model)


def test_a_table_of_sines_in_memory_goes_before_the_configuration():
    sizes = {"n_embd": 32, "n_head": 2, "n_layer": 1, "vocab_size": 50, "n_positions": 64}
    config = hf.GPTJConfig(**sizes, rotary_dim=8, bos_token_id=0, eos_token_id=0)
    model = hf.GPTJModel(config).eval()
    for name, table in model.named_buffers():
        if name.endswith("embed_positions"):  # transformers before 5.24 has it in each layer
            table.mul_(0.5)
    assert lnattn.verify(model).attention.max() < 1e-6


def test_what_a_module_with_learned_positions_is_goes_before_its_configuration():
    model = gpt2()
    model.transformer.h[0].ln_1.eps = 0.5
    model.transformer.h[0].attn.scaling = 2.0
    first = lnattn.first_layer(model)
    assert (first.attention.ln.eps, first.attention.scale) == (0.5, 0.5)
    assert lnattn.verify(model).attention.max() < 1e-6
    model.transformer.h[0].attn.num_heads = 4
    with pytest.raises(CheckpointError, match=naming("4 heads", "says 2")):
        lnattn.first_layer(model)


def test_nothing_of_a_module_is_to_be_fetched_again():
    model = gpt2()
    model.transformer.h[0].ln_1.bias = None
    with pytest.raises(CheckpointError, match=naming("h.0.ln_1.bias")) as refused:
        lnattn.first_layer(model)
    assert "fetch" not in str(refused.value)
    model = gpt2()
    model.transformer.wpe.weight.data[3, 3] = torch.nan
    with pytest.raises(CheckpointError, match=naming("wpe.weight", "NaN")) as refused:
        lnattn.first_layer(model)
    assert "fetch" not in str(refused.value)


# ---- Two names for one size, and heads that do not divide ----------------------------------------

#: Kind, two names of one size, and another size. Experts are not in the first attention.
TWICE = [
    (kind, alias, own, other)
    for kind in EACH
    for alias, own in CONFIG_MAPPING[CASES[kind].model_type].attribute_map.items()
    if own in CASES[kind].settings and "layers" not in alias and "experts" not in alias
    for other in (2 * CASES[kind].settings[own], CASES[kind].settings[own] // 2)
]


@pytest.mark.parametrize("alias_first", [True, False])
@pytest.mark.parametrize(("kind", "alias", "own", "other"), TWICE)
def test_of_two_names_for_one_size_transformers_decides(
    kind, alias, own, other, alias_first, tmp_path
):
    """Either is read as there, or refused where the weights are of another size."""
    make(kind, torch.float32).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    both = {alias: other} | config if alias_first else config | {alias: other}
    (tmp_path / "config.json").write_text(json.dumps(both))
    theirs = getattr(AutoConfig.from_pretrained(tmp_path), own)
    assert theirs == other
    try:
        first = lnattn.load_first_layer(str(tmp_path))
    except CheckpointError:  # the weights of T5's heads have a width of their own
        assert "d_kv" in config or own not in ("n_head", "num_heads", "n_heads")
        return
    if "head" in alias and alias != "head_dim" and kind != "whisper":
        assert first.attention.n_heads == theirs
        assert lnattn.verify(str(tmp_path)).attention.max() < 1e-5  # of single precision


@pytest.mark.parametrize("heads", [3, 5, 6, 7, 64])
def test_heads_that_do_not_divide_the_width_are_refused(heads, tmp_path):
    sizes = {"d_model": 32, "n_heads": 4, "n_layers": 1, "vocab_size": 50, "max_seq_len": 64}
    hf.MptModel(hf.MptConfig(**sizes)).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "n_heads": heads}))
    with pytest.raises(CheckpointError, match=naming(f"{heads} heads", "divided evenly")) as said:
        lnattn.load_first_layer(str(tmp_path))
    assert "frame #" not in str(said.value)


# ---- Masks and ids -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folded():
    return lnattn.fold(lnattn.load_first_layer("book-gpt2").attention)


@pytest.mark.parametrize(
    "mask",
    [
        torch.tensor([0.0, 0, 0, 0, -torch.inf]),
        torch.tensor([0.0, 0, 0, 0, 1]) * torch.finfo(torch.float32).min,
        torch.zeros(5),
        torch.ones(5, 5).tril(),
        torch.ones(5, 5, dtype=torch.bool),
        torch.ones(2, 5, dtype=torch.bool),
        torch.ones(4, dtype=torch.bool),
        torch.tensor(True),
        torch.tensor([1, 1, 1, 1, 2]),
        "all",
    ],
    ids=lambda mask: str(getattr(mask, "shape", mask)),
)
def test_what_is_no_mask_of_one_text_is_refused(folded, mask):
    x = torch.randn(5, 256, generator=torch.Generator().manual_seed(0))
    for asked in (folded.attention, folded.output, folded.head_outputs):
        with pytest.raises(ShapeError, match=naming("mask")):
            asked(x, mask)


def test_a_mask_of_zeros_and_ones_is_read_in_whatever_form(folded):
    x = torch.randn(2, 5, 256, generator=torch.Generator().manual_seed(0))
    kept = [[True, True, True, True, False], [True, True, False, False, False]]
    expected = folded.attention(x, torch.tensor(kept))
    assert (expected[0, :, :, 4] == 0).all()
    assert (expected[1, :, :, 2:] == 0).all()
    assert (expected[0, :, 0, 0] == 1).all()
    for mask in (kept, np.array(kept), torch.tensor(kept).int(), torch.tensor(kept).double()):
        assert torch.equal(folded.attention(x, mask), expected)
    for mask in (kept[1], [kept[1]]):  # of every text
        assert torch.equal(folded.attention(x, mask)[1], expected[1])
    with pytest.raises(ShapeError, match=naming("[text key] = [2, 5]", "[3, 5]")):
        folded.attention(x, [*kept, kept[0]])


def test_what_a_tokenizer_answers_is_taken_for_ids():
    first = lnattn.load_first_layer("book-gpt2")
    folded = lnattn.fold(first.attention)
    ids = first.tokenizer("New York")["input_ids"]
    expected = lnattn.six_terms(folded, first.embeddings, ids).ee
    answers = (
        first.tokenizer("New York"),
        first.tokenizer("New York", return_tensors="pt"),
        first.tokenizer("New York", return_tensors="np"),
        torch.tensor([ids]),
        [ids],
        first.tokenizer("New York").encodings[0],
    )
    for given in answers:
        assert torch.equal(lnattn.six_terms(folded, first.embeddings, given).ee, expected)
    with pytest.raises(TokenError, match=naming("one text at a time")):
        lnattn.six_terms(folded, first.embeddings, [ids, ids])


def test_ids_that_are_no_whole_numbers_are_cut_into_no_windows():
    assert windows([[1, 2, 3], []], 2, first=9).tolist() == [[9, 1], [9, 2], [9, 3]]
    for documents in ([[1.5, 2.7, 3.0]], [["a", "b"]], [np.array([1.0, 2.0])]):
        with pytest.raises(TokenError, match=naming("whole numbers")):
            windows(documents, 2)
