"""Every family with rotary or relative positions computes what Hugging Face computes."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import transformers as hf
from families import (
    RELATIVE,
    RELATIVE_EACH,
    ROPES,
    VOCAB,
    config_of,
    in_double_precision,
    make,
    randomise,
)
from families import run_relative as run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naming import naming
from safetensors.torch import save_file
from test_checkpoints import configure

from conformance.cases import CASES, settings_of
from lnattn import distance_terms, first_layer, fold_relative, load_first_layer
from lnattn.errors import CheckpointError, TokenError
from lnattn.models.checkpoints import open_checkpoint
from lnattn.models.position_tables import modeling_of, t5_bucket
from lnattn.models.refusals import MULTIMODAL
from lnattn.rotary.fold import MeanVectors
from lnattn.rotary.terms import DISTANCE_TERMS

#: Of models that are made here.
SIZES = {
    "vocab_size": VOCAB, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 20, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 0,
    "pad_token_id": 0,
}  # fmt: skip


def token_ids(length: int = 14) -> torch.Tensor:
    generator = torch.Generator().manual_seed(9)
    return torch.randint(1, VOCAB, (length,), generator=generator)


def random_constants(folded, seed: int = 4) -> MeanVectors:
    """Any constants will do: these are nobody's means."""
    generator = torch.Generator().manual_seed(seed)
    return MeanVectors(
        *(
            torch.randn(b.shape, generator=generator, dtype=b.dtype)
            for b in (folded.b_Q, folded.b_K)
        )
    )


def assert_identity(config, folder, monkeypatch, length=14):
    """Scores, attention and the four terms, in double precision throughout."""
    in_double_precision(config, monkeypatch)
    model = make(config)
    model.save_pretrained(folder)
    ids = token_ids(length)
    there = run(model, ids, monkeypatch)
    first = load_first_layer(folder)
    assert first.attention.W_Q.dtype == torch.float64
    folded = fold_relative(first.attention)
    terms = distance_terms(folded, first.embeddings, ids, constants=random_constants(folded))
    scores = terms.scores()
    if folded.bias is not None:
        places = torch.arange(length)
        scores = scores - folded.bias(places[:, None] - places[None, :])
    assert there.scores.abs().max() > 0.1
    assert (scores - there.scores).abs().max() < 1e-10 * max(1, there.scores.abs().max())
    assert (terms.attention() - there.attention).abs().max() < 1e-10
    for name in DISTANCE_TERMS:
        assert terms[name].std() > 1e-6, name  # the sum is not made of zeros
    return first


@pytest.mark.parametrize("name", RELATIVE)
def test_scores_and_attention_equal_hugging_face(name, tmp_path, monkeypatch):
    assert_identity(config_of(name), tmp_path, monkeypatch)


@pytest.mark.parametrize("name", RELATIVE)
def test_attention_as_hugging_face_runs_it(name, tmp_path, monkeypatch):
    """In single precision, nothing patched: the tables are those of the running model."""
    model = make(name, torch.float32)
    model.save_pretrained(tmp_path)
    first = load_first_layer(tmp_path)
    there = run(model, token_ids(), monkeypatch)
    terms = distance_terms(fold_relative(first.attention), first.embeddings, token_ids())
    assert (terms.attention() - there.attention).abs().max() < 2e-5
    wide = first.to(torch.float64)
    terms = distance_terms(fold_relative(wide.attention), wide.embeddings, token_ids())
    assert (terms.attention() - there.attention).abs().max() < 2e-5


def rope_of_width(name, d_head):
    """One of `ROPES`, with a factor for each pair of a head's coordinates where it has a list."""
    kind = ROPES[name]["rope_parameters"]
    lists = {key: (some * d_head)[: d_head // 2] for key, some in kind.items() if key in _LISTS}
    return {**ROPES[name], "rope_parameters": {**kind, **lists}}


_LISTS = ("short_factor", "long_factor")


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    groups=st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 2), (6, 3)]),
    d_head=st.sampled_from([8, 16]),
    rope=st.sampled_from(sorted(ROPES)),
    bias=st.booleans(),
    length=st.integers(1, 24),
    seed=st.integers(0, 99),
)
def test_grouped_heads_and_rotary_types(tmp_path_factory, groups, d_head, rope, bias, length, seed):
    heads, key_heads = groups
    sizes = {
        **SIZES, "num_attention_heads": heads, "num_key_value_heads": key_heads,
        "head_dim": d_head, "attention_bias": bias, **rope_of_width(rope, d_head),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        config = hf.LlamaConfig(**sizes)
        loose_identity(config, seed, tmp_path_factory.mktemp("llama"), patch, length)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    share=st.sampled_from([0.25, 0.5, 0.75, 1.0]),
    length=st.integers(1, 24),
    seed=st.integers(0, 99),
)
def test_partial_rotary_shares(tmp_path_factory, share, length, seed):
    sizes = {**SIZES, "hidden_size": 32, "rotary_pct": share}
    with pytest.MonkeyPatch.context() as patch:
        config = hf.GPTNeoXConfig(**sizes)
        loose_identity(config, seed, tmp_path_factory.mktemp("neox"), patch, length)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(window=st.integers(1, 30), length=st.integers(1, 24), seed=st.integers(0, 99))
def test_windows(tmp_path_factory, window, length, seed):
    sizes = {**SIZES, "num_key_value_heads": 2, "sliding_window": window}
    with pytest.MonkeyPatch.context() as patch:
        config = hf.MistralConfig(**sizes)
        loose_identity(config, seed, tmp_path_factory.mktemp("mistral"), patch, length)


def loose_identity(config, seed, folder, patch, length):
    """The identity where a text may be too short for every term to vary."""
    in_double_precision(config, patch)
    model = make(config, seed=seed)
    model.save_pretrained(folder)
    ids = token_ids(length)
    there = run(model, ids, patch)
    first = load_first_layer(folder)
    folded = fold_relative(first.attention)
    terms = distance_terms(folded, first.embeddings, ids, constants=random_constants(folded))
    size = max(1.0, float(there.scores.abs().max()))
    assert (terms.scores() - there.scores).abs().max() < 1e-10 * size
    assert (terms.attention() - there.attention).abs().max() < 1e-10


def test_half_precision_embeddings_stay_as_stored(tmp_path):
    make("gemma", torch.bfloat16).save_pretrained(tmp_path)
    first = load_first_layer(tmp_path)
    assert first.embeddings.W_E.dtype == torch.bfloat16
    assert first.attention.W_Q.dtype == torch.float32
    rows = first.embeddings.rows(torch.tensor([3]))
    assert torch.equal(rows, first.embeddings.W_E[3:4].float() * 16**0.5)


def test_only_the_first_layer_is_read(tmp_path):
    from lnattn import load_attention_layers

    make("qwen2").save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="layer 0"):
        load_first_layer(tmp_path, layer=1)
    with pytest.raises(CheckpointError, match="first block"):
        load_attention_layers(tmp_path)


def test_falcon_with_alibi_is_refused(tmp_path):
    make(hf.FalconConfig(**SIZES, alibi=True)).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="half precision"):
        load_first_layer(tmp_path)


@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 10), (16, 1000), (4, 2), (7, 9)])
def test_buckets_of_t5(buckets, farthest):
    """Against transformers' own, which newer versions may keep elsewhere."""
    from transformers.models.t5.modeling_t5 import T5Attention

    theirs = getattr(T5Attention, "_relative_position_bucket", None)
    if theirs is None:
        # The comparison is with a private function of transformers, which may move.
        pytest.skip("this version of transformers keeps it elsewhere")
    distances = torch.arange(-1500, 1500)
    expected = theirs(-distances, bidirectional=True, num_buckets=buckets, max_distance=farthest)
    assert torch.equal(t5_bucket(distances, buckets, farthest), expected)


def t5_of(buckets: int, farthest: int) -> hf.T5Config:
    changed = {
        "relative_attention_num_buckets": buckets,
        "relative_attention_max_distance": farthest,
    }
    return config_of("t5", **changed)


@pytest.mark.parametrize(("buckets", "farthest"), [(4, 2), (7, 2), (8, 3)])
def test_t5_with_few_buckets(buckets, farthest, tmp_path, monkeypatch):
    """As few as leave one distance, and a range beyond it, to either side."""
    assert_identity(t5_of(buckets, farthest), tmp_path, monkeypatch)


@pytest.mark.parametrize(("buckets", "farthest"), [(3, 10), (1, 10), (4, 1), (8, 2), (12, 3)])
def test_t5_without_a_range_for_its_later_buckets(buckets, farthest):
    model = make(t5_of(buckets, farthest), torch.float32)
    with pytest.raises(CheckpointError, match=f"{buckets} and {farthest}"):
        first_layer(model)


def test_gptj_turns_up_to_its_last_position(tmp_path):
    """64 positions: 0 alone, 63 alone, and no 64."""
    make("gptj", torch.float32).save_pretrained(tmp_path)
    tables = load_first_layer(tmp_path).attention.rotation.tables
    cos, sin = tables(torch.tensor([0]), torch.float64)
    assert (cos.tolist(), sin.tolist()) == ([[1.0] * 4], [[0.0] * 4])
    angles = torch.tensor([63.0, 63.0, 0.63, 0.63], dtype=torch.float64)  # 63 · 10,000^(−2 m / 4)
    cos, sin = tables(torch.tensor([63]), torch.float64)
    assert (cos[0] - angles.cos()).abs().max() < 1e-5
    assert (sin[0] - angles.sin()).abs().max() < 1e-5
    with pytest.raises(TokenError, match="position 64"):
        tables(torch.tensor([3, 64]), torch.float64)


#: By kind: how positions enter, by their name; and the longest text.
NOTED = {
    **{f"llama-{rope}": (f"rotary ({rope})", 64) for rope in ROPES},
    "llama-dynamic": ("rotary (dynamic)", 8),
    "gemma3": ("rotary (default)", 64),
    "gptj": ("rotary (interleaved)", 64),
    "bloom": ("ALiBi", None),
    "mpt": ("ALiBi", 64),
    "t5": ("learned bias for buckets of distances", None),
}


@pytest.mark.parametrize("name", NOTED)
def test_what_is_noted_of_positions(name):
    first = first_layer(make(name, torch.float32))
    assert (first.provenance["positions"], first.context) == NOTED[name]


def test_gemma_3_notes_the_rotation_of_its_local_layers():
    """Its first layer is local, and turns otherwise than the global ones."""
    kinds = {"sliding_attention": "linear", "full_attention": "default"}
    ropes = {
        layer: {"rope_type": rope, "rope_theta": 100.0, "factor": 2.0}
        for layer, rope in kinds.items()
    }
    model = make("gemma3", torch.float32, rope_parameters=ropes)
    assert first_layer(model).provenance["positions"] == "rotary (linear)"


@pytest.mark.parametrize("name", RELATIVE_EACH)
def test_how_many_layers_there_are(name, tmp_path):
    """Under whatever name; where no config.json says, as many as transformers would make."""
    case = CASES[name]
    config = hf.AutoConfig.for_model(case.model_type, **settings_of(case, layers=1))
    make(config, torch.float32).save_pretrained(tmp_path)
    assert open_checkpoint(tmp_path).family.n_layers == 1
    with pytest.raises(CheckpointError, match="layer 1"):
        load_first_layer(tmp_path, layer=1)
    configure(tmp_path, **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers",
                                         "num_decoder_layers"), "absent"))  # fmt: skip
    usual = type(config)().num_hidden_layers
    assert open_checkpoint(tmp_path).family.n_layers == usual
    assert usual > 1


def test_what_is_no_checkpoint_of_a_family_is_told_by_its_token_embeddings(tmp_path):
    make("llama-default", torch.float32).save_pretrained(tmp_path)
    save_file({"other": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"holds no tensor 'embed_tokens\.weight'"):
        load_first_layer(tmp_path)


def test_a_version_of_transformers_without_a_function_is_named(tmp_path, monkeypatch):
    model = make("bloom", torch.float32)
    model.save_pretrained(tmp_path)
    monkeypatch.delattr(modeling_of(model), "build_alibi_tensor")
    with pytest.raises(CheckpointError, match=naming("build_alibi_tensor", "install")):
        load_first_layer(tmp_path)


@pytest.mark.parametrize("name", RELATIVE)
def test_a_first_layer_is_pickled_and_copied(name, tmp_path):
    """As a pool of processes does with what it is given."""
    make(name, torch.float32).save_pretrained(tmp_path)
    first = load_first_layer(tmp_path)

    def attention(layer):
        terms = distance_terms(fold_relative(layer.attention), layer.embeddings, token_ids())
        return terms.attention()

    for other in (pickle.loads(pickle.dumps(first)), copy.deepcopy(first)):
        assert torch.equal(attention(other), attention(first))


#: A vision tower of next to nothing.
_TOWER = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "image_size": 8}
_TOWER |= {"num_attention_heads": 1, "patch_size": 4}
_SQUARE = {**_TOWER, "image_size": [8, 8], "patch_size": [4, 4]}
#: Of a model of images and text: its tower, and the family of the language model inside.
TOWERS = {
    "gemma3": (hf.SiglipVisionConfig(**_TOWER), "gemma3_text"),
    "mistral3": (hf.CLIPVisionConfig(**_TOWER), "mistral"),
    "llava": (hf.CLIPVisionConfig(**_TOWER), "qwen2"),
    "llava_next": (hf.CLIPVisionConfig(**_TOWER), "qwen2"),
    "internvl": (hf.InternVLVisionConfig(**_SQUARE), "qwen2"),
    "idefics3": (hf.Idefics3VisionConfig(**_TOWER), "llama"),
    "smolvlm": (hf.SmolVLMVisionConfig(**_TOWER), "llama"),
}


@pytest.mark.parametrize("kind", MULTIMODAL)
@torch.no_grad()
def test_a_model_of_images_and_text_is_read_as_its_language_model(kind, tmp_path):
    """As a folder and as a module: attention is that of the whole model on a text.

    To single precision, in which its eager attention takes the softmax and turns keys.
    """
    tower, inside = TOWERS[kind]
    language = hf.AutoConfig.for_model(
        inside,
        **{"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2},
        **{"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32},
        **{"head_dim": 8, "pad_token_id": 0},
    )
    about = {"image_token_index": 39, "image_token_id": 39}  # by either name
    config = hf.AutoConfig.for_model(kind, vision_config=tower, text_config=language, **about)
    build = hf.AutoModelForImageTextToText
    whole = randomise(build.from_config(config, attn_implementation="eager"), 3, scale=0.4)
    whole = whole.double().eval()
    ids = torch.tensor([1, 5, 7, 9, 2, 4])
    expected = whole(input_ids=ids[None], output_attentions=True).attentions[0][0]
    assert expected.std() > 0.01
    whole.save_pretrained(tmp_path)
    for first in (load_first_layer(tmp_path), first_layer(whole)):
        double = first.to(torch.float64)
        terms = distance_terms(fold_relative(double.attention), double.embeddings, ids)
        torch.testing.assert_close(terms.attention(), expected, rtol=0, atol=1e-6)
