"""Models in memory: the same first layer as from disk, unwrapped or refused; and `verify`."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import torch
import transformers as hf
from families import (
    EACH,
    LEARNED,
    LEARNED_EACH,
    RELATIVE,
    RELATIVE_EACH,
    VOCAB,
    config_of,
    make,
    save,
    save_tokenizer,
)
from safetensors.torch import save_file

from lnattn import first_layer, load_first_layer, verify
from lnattn.errors import CheckpointError
from lnattn.models import verification
from lnattn.models.attending import implementation_of
from lnattn.models.checkpoints import open_checkpoint
from lnattn.models.modules import unwrapped
from lnattn.models.one_layer import first_layer_module
from lnattn.storage import sha256_of_arrays
from lnattn.weights import Weights


def model_of(kind: str, dtype: torch.dtype = torch.float32):
    return make(kind, dtype)


def tensors_of(weights: Weights, at: str = "") -> dict[str, torch.Tensor]:
    """All tensors of a container and of those inside it."""
    found = {}
    for name, value in vars(weights).items():
        if isinstance(value, torch.Tensor):
            found[f"{at}{name}"] = value
        elif isinstance(value, Weights):
            found |= tensors_of(value, f"{at}{name}.")
    return found


def assert_same(one, other):
    left, right = tensors_of(one), tensors_of(other)
    assert left.keys() == right.keys()
    assert len(left) > 5
    for name, tensor in left.items():
        assert tensor.dtype == right[name].dtype
        assert torch.equal(tensor, right[name]), name
    for name in ("causal", "scale", "window"):
        assert getattr(one.attention, name) == getattr(other.attention, name)


@pytest.mark.parametrize("kind", [*LEARNED, *RELATIVE])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_same_as_from_disk(kind, dtype, tmp_path):
    model = model_of(kind, dtype)
    model.save_pretrained(tmp_path)
    there, here = load_first_layer(tmp_path), first_layer(model, tokenizer="any")
    assert_same(here, there)
    assert here.tokenizer == "any"
    assert here.provenance["source"] == f"a {type(model).__name__} in memory"
    assert next(model.parameters()).dtype == dtype  # left as it was


def test_another_layer_of_a_model_with_absolute_positions():
    model = model_of("gpt2")
    assert first_layer(model, layer=1).layer == 1
    with pytest.raises(CheckpointError, match="layer 2"):
        first_layer(model, layer=2)


def test_later_changes_of_the_model_change_nothing():
    model = model_of("gpt2")
    first = first_layer(model)
    before = sha256_of_arrays({"W": first.embeddings.W_E.numpy()})
    with torch.no_grad():
        model.transformer.wte.weight.zero_()
    assert sha256_of_arrays({"W": first.embeddings.W_E.numpy()}) == before


# ---- wrappers --------------------------------------------------------------------------------


class PeftModel(torch.nn.Module):
    """As peft's: the base model inside, with or without layers of adapters."""

    def __init__(self, model):
        super().__init__()
        self.base_model, self.peft_config = model, {}

    def get_base_model(self):
        return self.base_model


class Adapted(torch.nn.Module):
    """As a layer of peft: the weights inside, and beside them what is added."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.lora_A = torch.nn.ModuleDict({"default": torch.nn.Linear(2, 2)})


WRAPPERS = {
    "DataParallel": torch.nn.DataParallel,
    "compiled": torch.compile,
    "PEFT, merged": PeftModel,
    "compiled in DataParallel": lambda model: torch.nn.DataParallel(torch.compile(model)),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrappers_are_taken_off(wrapper):
    model = model_of("gpt2")
    assert unwrapped(WRAPPERS[wrapper](model)) is model
    assert_same(first_layer(WRAPPERS[wrapper](model)), first_layer(model))


def complaint(model) -> str:
    with pytest.raises(CheckpointError) as error:
        first_layer(model)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_adapters_beside_the_weights_are_refused():
    model = model_of("gpt2")
    model.transformer.h[0].attn.c_attn = Adapted(model.transformer.h[0].attn.c_attn)
    assert "merge_and_unload" in complaint(PeftModel(model))


def test_virtual_tokens_are_refused():
    model = PeftModel(model_of("gpt2"))
    model.peft_config = {"default": SimpleNamespace(is_prompt_learning=True)}
    assert re.search("virtual tokens.*get_base_model", complaint(model))


def test_what_is_no_model_of_transformers():
    assert "str is no model in memory" in complaint("gpt2")
    assert "no configuration of transformers" in complaint(torch.nn.Linear(2, 2))
    with torch.device("meta"):
        empty = hf.AutoModel.from_config(config_of("llama-default"))
    assert "meta device" in complaint(empty)
    assert "no attention scores" in complaint(
        hf.MambaModel(hf.MambaConfig(hidden_size=16, num_hidden_layers=1, vocab_size=50))
    )
    pieces = type("FullyShardedDataParallel", (torch.nn.Module,), {})()
    assert "in pieces" in complaint(pieces)


def test_a_path_of_this_machine_is_no_name(tmp_path):
    folder = save(make("gpt2", torch.float32), tmp_path / "mine")
    model = hf.AutoModelForCausalLM.from_pretrained(folder)
    first = first_layer(model)
    assert first.name == "mine"
    assert str(tmp_path) not in str(first.provenance)


def test_a_model_is_called_by_its_name_or_by_its_class(tmp_path, monkeypatch):
    model = make("gpt2", torch.float32)
    assert first_layer(model).name == "GPT2LMHeadModel"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    for given, name in {
        "someone/tiny": "someone/tiny",
        "runs/mine": "mine",  # a folder here
        str(tmp_path / "deleted"): "deleted",
    }.items():
        model.name_or_path = given
        assert first_layer(model).name == name


def test_a_model_that_had_adapters_of_transformers_own(tmp_path):
    """Whose class has no base model to give: `load_adapter` leaves a peft_config behind."""
    model = make("gpt2", torch.float32)
    expected = first_layer(model)
    model.peft_config = {}
    assert_same(first_layer(model), expected)


# Other devices are tried with `meta` everywhere; a real one only where there is one.
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_on_a_gpu():
    model = model_of("llama-default", torch.bfloat16)
    here = first_layer(model)
    assert_same(first_layer(model.cuda()), here)
    table = verify(model)
    assert (table.attention[table.dtype != "bfloat16"] < 1e-4).all()


# ---- TransformerLens -------------------------------------------------------------------------


class Watched(torch.nn.Module):
    """As a component of TransformerLens' bridge: the module that it watches is inside."""

    def __init__(self, module):
        super().__init__()
        self.add_module("_original_component", module)

    def forward(self, *given, **options):
        return self._modules["_original_component"](*given, **options)


class TransformerBridge(torch.nn.Module):
    """As TransformerLens 4's, reduced to what is asked of it."""

    def __init__(self, model):
        super().__init__()
        for name in ("wte", "wpe"):
            setattr(model.transformer, name, Watched(getattr(model.transformer, name)))
        for block in model.transformer.h:
            block.attn, block.ln_1 = Watched(block.attn), Watched(block.ln_1)
        self.__dict__["original_model"] = model
        self.compatibility_mode = False


def test_a_bridge_of_transformer_lens_like():
    expected = first_layer(model_of("gpt2"))
    bridge = TransformerBridge(model_of("gpt2"))
    assert_same(first_layer(bridge), expected)
    bridge.compatibility_mode = True
    assert "enable_compatibility_mode" in complaint(bridge)


def test_a_bridge_of_transformer_lens(tmp_path):
    lens = pytest.importorskip("transformer_lens.model_bridge")
    config = hf.GPT2Config(
        n_embd=24, n_head=3, n_layer=2, vocab_size=VOCAB, n_positions=20, bos_token_id=0,
        eos_token_id=0, architectures=["GPT2LMHeadModel"],
    )  # fmt: skip
    model = hf.GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path, VOCAB)
    bridge = lens.TransformerBridge.boot_transformers(str(tmp_path), device="cpu")
    assert_same(first_layer(bridge), first_layer(model))
    ids = torch.tensor([[7, 5, 9, 11, 3]])
    _, cache = bridge.run_with_cache(ids)
    first = first_layer(bridge)
    ours = verification._formulas(first, ids[0])["folded"][0]
    assert (cache["blocks.0.attn.hook_pattern"][0] - ours).abs().max() < 1e-6


# ---- verify ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEARNED_EACH)
def test_verify_of_absolute_positions(kind):
    table = verify(model_of(kind))
    assert list(table.columns) == ["dtype", "tokens", "formula", "attention", "output"]
    assert set(table.formula) == {"normed", "folded", "terms"}
    assert set(table.dtype) == {"float32", "float64"}
    assert (table.attention < 1e-4).all()
    assert (table.output.dropna() < 1e-4).all()
    assert table.output.notna().sum() == 4
    double = table[table.dtype == "float64"]
    # GPT-Neo, OPT and BERT take a softmax in float32 whatever their type.
    assert (double.attention < (1e-10 if kind == "gpt2" else 5e-6)).all()


@pytest.mark.parametrize("kind", RELATIVE_EACH)
def test_verify_of_relative_positions(kind):
    table = verify(model_of(kind))
    assert set(table.formula) == {"folded", "terms"}
    assert (table.attention < 1e-4).all()
    assert table.output.isna().all()
    assert len(table) == 4


def test_verify_shows_what_half_precision_rounds():
    table = verify(model_of("gpt2", torch.bfloat16))
    largest = table.groupby("dtype").attention.max()
    assert set(largest.index) == {"bfloat16", "float32", "float64"}
    assert 1e-4 < largest["bfloat16"] < 0.5
    assert largest["float32"] < 1e-4
    assert largest["float64"] < 1e-10


def test_verify_leaves_the_model_as_it_was():
    model = hf.AutoModelForCausalLM.from_config(config_of("llama-default"))
    model.set_attn_implementation("sdpa")
    model.train()
    verify(torch.compile(model))
    assert model.training
    assert implementation_of(model) == "sdpa"


def test_verify_of_a_class_that_cannot_be_switched():
    """Falcon's reports of its fused attention are not what it uses."""
    table = verify(hf.AutoModelForCausalLM.from_config(config_of("falcon")))
    assert (table.attention < 1e-4).all()


def test_verify_by_name_reads_real_tokens():
    """book-gpt2 is stored in float16, in which its own model rounds."""
    table = verify("book-gpt2")
    assert set(table.tokens) == {"random", "real"}
    largest = table.groupby("dtype").attention.max()
    assert 1e-5 < largest["float16"] < 1e-2
    assert largest["float32"] < 1e-5
    assert largest["float64"] < 1e-12


@pytest.mark.parametrize("kind", EACH)
def test_verify_by_name_is_that_of_the_module(kind, tmp_path):
    """Of a folder one layer is run, with the weights of its first; on rows of its vocabulary."""
    model = model_of(kind)
    model.save_pretrained(tmp_path)
    table = verify(tmp_path)
    assert set(table.columns) == {"dtype", "tokens", "formula", "attention", "output"}
    assert set(table.formula) == set(verify(model).formula)
    assert (table.attention < 1e-4).all()
    assert (table.output.dropna() < 1e-4).all()


def test_verify_by_name_reads_the_weights(tmp_path):
    """What is run has the checkpoint's numbers, and not those that a new model draws."""
    model_of("gpt2").save_pretrained(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    ids = [7, 3, 11]
    made = first_layer_module(checkpoint, ids)
    first = load_first_layer(tmp_path)
    assert torch.equal(made.wte.weight[:3], first.embeddings.W_E[ids])
    assert torch.equal(made.wpe.weight, first.embeddings.W_P)
    queries = made.h[0].attn.c_attn.weight[:, : first.attention.d_model]
    assert torch.equal(queries, first.attention.W_Q.transpose(0, 1).flatten(1))


def test_verify_of_names_that_torch_compile_gave(tmp_path):
    model = model_of("gpt2")
    tensors = {f"_orig_mod.{n}": t.contiguous() for n, t in model.state_dict().items()}
    tensors.pop("_orig_mod.lm_head.weight")
    model.config.save_pretrained(tmp_path)
    save_file(tensors, tmp_path / "model.safetensors")
    assert (verify(tmp_path).attention < 1e-4).all()


def test_verify_sees_a_fold_that_is_wrong(monkeypatch):
    """Without β in its biases."""
    from dataclasses import replace

    true = verification.fold

    def without_beta(layer):
        folded = true(layer)
        return replace(folded, b_Q=torch.zeros_like(folded.b_Q))

    monkeypatch.setattr(verification, "fold", without_beta)
    table = verify(model_of("gpt2"))
    worst = table.groupby("formula").attention.max()
    assert worst["normed"] < 1e-4
    assert worst["folded"] > 1e-2
    assert worst["terms"] > 1e-2
