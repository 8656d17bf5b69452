"""Random models of every family, and what Hugging Face computes in them: the one registry of tests.

Kinds are the cases of `conformance.cases`, with two layers. A family that is added there is
compared, mutated, read as a module, run on a token alone and damaged by the tests that take
`LEARNED`, `RELATIVE` or `EACH`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import tokenizers
import torch
import transformers as hf
from torch import Tensor, nn

from conformance.cases import CASES, CONTEXT, D_MODEL, HEADS, ROPES, VOCAB, settings_of
from conformance.make import class_of
from lnattn.models.architectures import FAMILIES
from lnattn.models.position_tables import modeling_of
from lnattn.models.relative_families import RelativeFamily

__all__ = ["CONTEXT", "D_MODEL", "HEADS", "ROPES", "VOCAB"]

#: Kinds with positions that are added to tokens, and with positions between query and key.
LEARNED = [n for n, case in CASES.items() if FAMILIES[case.model_type] is not RelativeFamily]
RELATIVE = [n for n in CASES if n not in LEARNED]
#: One kind of each family: its first.
EACH = list({case.model_type: name for name, case in reversed(CASES.items())}.values())[::-1]
#: Of the kinds above those of one each.
LEARNED_EACH = [name for name in EACH if name in LEARNED]
RELATIVE_EACH = [name for name in EACH if name in RELATIVE]


def randomise(model: torch.nn.Module, seed: int, scale: float = 0.5) -> torch.nn.Module:
    """Replace every parameter by Gaussian noise; gains are spread around 1 and may be negative."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            is_gain = parameter.ndim == 1 and name.endswith("weight")
            value = 1 + noise if is_gain else scale * noise
            parameter.copy_(value.to(parameter.dtype))
    return model


def config_of(kind: str, **changes: Any) -> Any:
    """The configuration of a kind, of two layers."""
    case = CASES[kind]
    return hf.AutoConfig.for_model(case.model_type, **{**settings_of(case, 2), **changes})


def make(
    kind: str | Any,
    dtype: torch.dtype = torch.float64,
    seed: int = 3,
    *,
    head: bool | None = None,
    scale: float = 0.4,
    **changes: Any,
) -> nn.Module:
    """A model with random parameters and eager attention, in evaluation mode.

    kind: of `CASES`, or a configuration. head: with the head that its case is saved with; models of
    learned positions have it unless told otherwise. scale: of `randomise`. changes: of settings.
    """
    config = config_of(kind, **changes) if isinstance(kind, str) else kind
    with_head = kind in LEARNED if head is None else head
    build = class_of(CASES[kind]) if with_head else hf.AutoModel
    # Experts one by one: the fused ones know no double precision.
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    return randomise(build.from_config(config, **eager).to(dtype), seed, scale).eval()


def save(model: nn.Module, folder: Path) -> Path:
    """Save as a checkpoint folder, in the model's own dtype."""
    model.save_pretrained(folder)
    return folder


def part_of(model: nn.Module) -> nn.Module:
    """What attends: Whisper's decoder without any sound, T5's encoder, or the whole."""
    if model.config.model_type == "whisper":
        return model.get_decoder()
    return model.get_encoder() if model.config.is_encoder_decoder else model


def in_double_precision(kind: str | Any, patch: pytest.MonkeyPatch) -> None:
    """Let transformers' code of an architecture keep the double precision that it is given.

    It takes norms, angles and softmax in float32 whatever the dtype of the weights. To be called
    before the model is made, which computes its angles then.
    """
    config = config_of(kind) if isinstance(kind, str) else kind
    module = modeling_of(hf.MODEL_MAPPING[type(config)])
    lifted = {**vars(torch), "float32": torch.float64, "float": torch.float64}
    patch.setattr(module, "torch", SimpleNamespace(**lifted))
    patch.setattr(torch.Tensor, "float", torch.Tensor.double)


def save_tokenizer(folder: Path, size: int) -> Path:
    """A tokenizer that knows so many words."""
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({f"w{i}": i for i in range(size)}, unk_token="w0")
    )
    hf.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0").save_pretrained(folder)
    return folder


# ---- Learned positions -------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What one block of the Hugging Face model received and returned.

    into_norm: [batch n d_model], what its LayerNorm was given; attention: [batch head n n];
    output: [batch n d_model], what the block adds.
    """

    into_norm: Tensor
    attention: Tensor
    output: Tensor


@torch.no_grad()
def run(model: nn.Module, layers: list[Any], ids: Tensor, mask: Tensor | None = None) -> list[Seen]:
    """Run a model and look into every attention block.

    layers: as lnattn reads them, in random numbers, by which its modules are found: the norm has
    the layer's own gain, the output projection its bias or its matrix.
    """
    caught: dict[tuple[str, int], Tensor] = {}
    hooks = []
    for index, layer in enumerate(layers):
        norm = _module_of(model, layer.ln.gamma)
        out = _module_of(model, layer.W_O.flatten(0, 1))
        hooks += [
            norm.register_forward_hook(
                lambda _m, given, _r, key=("in", index): caught.__setitem__(key, given[0])
            ),
            out.register_forward_hook(
                lambda _m, _g, result, key=("out", index): caught.__setitem__(key, result)
            ),
        ]
    attentions = part_of(model)(ids, attention_mask=mask, output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    return [
        Seen(caught["in", index], attentions[index], caught["out", index])
        for index in range(len(layers))
    ]


def _module_of(model: nn.Module, weight: Tensor) -> nn.Module:
    """The module whose weight this is, as it is or turned."""
    for module in model.modules():
        own = getattr(module, "weight", None)
        if own is not None and any(
            other.shape == weight.shape and torch.equal(other.to(weight), weight)
            for other in (own, own.mT if own.ndim == 2 else own)
        ):
            return module
    raise LookupError(f"no module has a weight {list(weight.shape)} with these numbers")


# ---- Relative positions ------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """What the first block computed. query, key: [head n d_head], turned; attention: [head n n]."""

    query: Tensor
    key: Tensor
    attention: Tensor

    @property
    def scores(self) -> Tensor:
        """q · k of the module's own queries and keys, not divided, without any bias."""
        return self.query @ self.key.mT


@torch.no_grad()
def run_relative(model: nn.Module, ids: Tensor, monkeypatch: pytest.MonkeyPatch) -> Compared:
    """Run a model on one text and look at what its first attention block compares."""
    found: list[tuple[Tensor, Tensor]] = []
    modeling = modeling_of(model)
    catch = _CATCHERS.get(model.config.model_type, _catch_eager)
    hooks = catch(model, modeling, found, monkeypatch)
    attention = part_of(model)(ids[None], output_attentions=True).attentions[0][0]
    for hook in hooks or []:
        hook.remove()
    query, key = (found[0][0][0], found[0][1][0])
    return Compared(query, key.repeat_interleave(len(query) // len(key), 0), attention)


Found = list[tuple[Tensor, Tensor]]


def _catch_eager(_model: nn.Module, modeling: ModuleType, found: Found, patch) -> None:
    """Most families hand turned queries and keys to one function."""
    theirs = modeling.eager_attention_forward

    def watched(module: nn.Module, query: Tensor, key: Tensor, *rest: Any, **more: Any) -> Any:
        found.append((query, key))
        return theirs(module, query, key, *rest, **more)

    patch.setattr(modeling, "eager_attention_forward", watched)


def _catch_gptj(model: nn.Module, modeling: ModuleType, found: Found, _patch) -> list[Any]:
    """Queries and keys from what their projections give out, turned by transformers' functions."""
    mixer = model.get_submodule("h.0.attn")
    projected: list[Tensor] = []

    def note(_module: nn.Module, _given: Any, out: Tensor) -> None:
        projected.append(out.unflatten(-1, (mixer.num_attention_heads, mixer.head_dim)))
        if len(projected) == 2:
            found.append(tuple(map(turned, projected)))

    def turned(x: Tensor) -> Tensor:
        table = modeling.create_sinusoidal_positions(x.shape[1], mixer.rotary_dim).to(x.dtype)
        sin, cos = table[None].chunk(2, dim=-1)
        part = modeling.apply_rotary_pos_emb(x[..., : mixer.rotary_dim], sin, cos)
        return torch.cat((part, x[..., mixer.rotary_dim :]), dim=-1).transpose(1, 2)

    return [mixer.get_submodule(name).register_forward_hook(note) for name in ("q_proj", "k_proj")]


def _hook(path: str, split: Callable[[nn.Module, Tensor], tuple[Tensor, Tensor]]):
    """Queries and keys from what the joined projection of a module gives out."""

    def catch(model: nn.Module, _modeling: ModuleType, found: Found, _patch) -> list[Any]:
        module = model.get_submodule(path)
        mixer = model.get_submodule(path.rpartition(".")[0])
        hook = module.register_forward_hook(lambda _m, _x, out: found.append(split(mixer, out)))
        return [hook]

    return catch


def _falcon(mixer: Any, joined: Tensor) -> tuple[Tensor, Tensor]:
    """Falcon's three ways to lay out queries, keys and values side by side, turned."""
    modeling, config, width = modeling_of(mixer), mixer.config, mixer.head_dim
    heads = joined.unflatten(-1, (-1, width))
    if config.new_decoder_architecture:  # the queries of a group, its key, its value
        groups = heads.unflatten(2, (config.num_kv_heads, -1))
        query, key = groups[:, :, :, :-2].flatten(2, 3), groups[:, :, :, -2]
        key = key.repeat_interleave(query.shape[2] // key.shape[2], dim=2)
    elif config.multi_query:  # all queries, the key, the value
        query, key = heads[:, :, :-2], heads[:, :, -2:-1]
    else:  # query, key and value of a head, and so on
        query, key = heads[:, :, 0::3], heads[:, :, 1::3]
    rotary = modeling.FalconRotaryEmbedding(config)
    cos, sin = rotary(joined, torch.arange(joined.shape[1])[None])
    return modeling.apply_rotary_pos_emb(query.transpose(1, 2), key.transpose(1, 2), cos, sin)


def _bloom(mixer: Any, joined: Tensor) -> tuple[Tensor, Tensor]:
    """Query, key and value of a head, and so on."""
    heads = joined.unflatten(-1, (-1, 3, mixer.head_dim)).transpose(1, 2)
    return heads[..., 0, :], heads[..., 1, :]


def _mpt(mixer: Any, joined: Tensor) -> tuple[Tensor, Tensor]:
    if mixer.clip_qkv:
        joined = joined.clamp(-mixer.clip_qkv, mixer.clip_qkv)
    query, key, _ = joined.chunk(3, dim=2)
    shape = (*joined.shape[:2], mixer.n_heads, mixer.head_dim)
    return query.reshape(shape).transpose(1, 2), key.reshape(shape).transpose(1, 2)


_CATCHERS = {
    "gptj": _catch_gptj,
    "falcon": _hook("h.0.self_attention.query_key_value", _falcon),
    "bloom": _hook("h.0.self_attention.query_key_value", _bloom),
    "mpt": _hook("blocks.0.attn.Wqkv", _mpt),
}
